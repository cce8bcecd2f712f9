#!/usr/bin/env python3
"""Compares losses and gradient norms between a libtrain run and its PyTorch twin, step by step.

    compare.py RUN/metrics.jsonl gpt-tiny.jsonl [--tolerance 1e-4] [--norm-tolerance 1e-3]

Exits with 1 if a step is missing or differs by more than the tolerance (relative). Needs the standard library only.
"""

import argparse
import json
import math
import os
import sys


def read_steps(path):
    """{step: row}; events have no loss of a step and are left out, of equal steps the later counts."""
    steps = {}
    if not os.path.exists(path):
        raise SystemExit(f"{path}: no such file")
    with open(path) as f:
        for number, line in enumerate(f, 1):
            if not line.endswith("\n"):
                continue  # torn by a killed run
            try:
                row = json.loads(line)
            except ValueError as error:
                raise SystemExit(f"{path}: line {number}: {error}") from None
            if "event" not in row:
                steps[row["step"]] = row
    return steps


def largest_difference(ours, theirs, key):
    """(relative difference, step) of the step that differs most; infinite for a value that is not finite."""
    worst = (0.0, 0)
    for step, row in theirs.items():
        a, b = ours[step][key], row[key]
        finite = a is not None and b is not None and math.isfinite(a) and math.isfinite(b)
        worst = max(worst, (abs(a - b) / max(abs(b), 1e-30) if finite else math.inf, step))
    return worst


def compare(ours_path, theirs_path, tolerance, norm_tolerance, expected_steps=None):
    ours, theirs = read_steps(ours_path), read_steps(theirs_path)
    if not theirs or (expected_steps is not None and len(theirs) != expected_steps):
        print(f"{theirs_path}: {len(theirs)} steps, expected {expected_steps or 'at least 1'}")
        return False
    missing = sorted(set(theirs) - set(ours))
    if missing:
        print(f"{ours_path}: step {missing[0]} is missing ({len(missing)} in all)")
        return False
    good = True
    for key, limit in (("loss", tolerance), ("grad_norm", norm_tolerance)):
        difference, step = largest_difference(ours, theirs, key)
        verdict = "ok" if difference <= limit else "FAILED"
        print(f"{key:10} {len(theirs)} steps, largest relative difference {difference:.3e} at step {step}, "
              f"limit {limit:g}: {verdict}")
        good = good and difference <= limit
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("metrics", help="metrics.jsonl of the run")
    p.add_argument("twin", help="JSON lines of twin.py, or a committed fixture")
    p.add_argument("--tolerance", type=float, default=1e-4, help="of the loss")
    p.add_argument("--norm-tolerance", type=float, default=1e-3, help="of the gradient norm")
    p.add_argument("--steps", type=int, help="number of steps that the twin must have")
    o = p.parse_args()
    sys.exit(0 if compare(o.metrics, o.twin, o.tolerance, o.norm_tolerance, o.steps) else 1)


if __name__ == "__main__":
    main()
