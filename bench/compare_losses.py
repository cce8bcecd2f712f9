#!/usr/bin/env python3
"""How far the losses of a run are from those of others, over the steps that all have.

    compare_losses.py runs/cuda-bf16 runs/cpu-bf16 runs/cpu-f32

Prints for each other run the greatest relative difference. Needs the standard library only.
"""

import argparse
import json
import pathlib


def losses_of(run):
    rows = map(json.loads, (pathlib.Path(run) / "metrics.jsonl").read_text().splitlines())
    return {row["step"]: row["loss"] for row in rows if "event" not in row}


def short(run):
    return "/".join(pathlib.Path(run).parts[-2:])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("run", help="folder of a run")
    p.add_argument("others", nargs="+", help="folders of runs that it is compared with")
    o = p.parse_args()
    own = losses_of(o.run)
    for other in dict.fromkeys(o.others):
        theirs = losses_of(other)
        steps = sorted(own.keys() & theirs.keys())
        if not steps:
            raise SystemExit(f"{other}: expected a step that {o.run} has too, found none")
        step = max(steps, key=lambda s: abs(own[s] - theirs[s]) / abs(theirs[s]))
        difference = abs(own[step] - theirs[step]) / abs(theirs[step])
        print(f"{short(o.run)} against {short(other)}: {len(steps)} steps, relative difference at most {difference:.1e}, at step {step}: "
              f"{own[step]:.7f}, {theirs[step]:.7f}")


if __name__ == "__main__":
    main()
