#!/usr/bin/env python3
"""How far the losses of a run are from those of others, over the steps that all have.

    compare_losses.py runs/cuda-bf16 runs/cpu-bf16 runs/cpu-f32

Prints for each other run the greatest relative difference; one above --at-most is an error. Needs the standard library
only.
"""

import argparse
import json
import math
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
    p.add_argument("--at-most", type=float, default=float("inf"), metavar="X", help="relative difference")
    o = p.parse_args()
    own = losses_of(o.run)
    for other in dict.fromkeys(o.others):
        theirs = losses_of(other)
        steps = sorted(own.keys() & theirs.keys())
        if not steps:
            raise SystemExit(f"{other}: expected a step that {o.run} has too, found none")
        differences = {step: abs(own[step] - theirs[step]) / abs(theirs[step]) for step in steps}
        step, difference = max(differences.items(), key=lambda item: (math.isnan(item[1]), item[1]))
        print(f"{short(o.run)} against {short(other)}: {len(steps)} steps, relative difference at most {difference:.1e}, "
              f"at step {step}: {own[step]:.7f}, {theirs[step]:.7f}")
        if not difference <= o.at_most:
            raise SystemExit(f"{other}: expected a relative difference of at most {o.at_most:.1e}, got {difference:.1e}")


if __name__ == "__main__":
    main()
