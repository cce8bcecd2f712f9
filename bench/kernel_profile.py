#!/usr/bin/env python3
"""Shows where a GPU's time in a training step goes: groups the kernels in a run's trace by what they compute.

    ltrain train --train.device=cuda --record.profile_steps=2 --run.dir=RUN ... && kernel_profile.py RUN/trace/rank-0.json

Times are milliseconds per step, from the first step's first kernel to the last step's last. The full time of a kernel
is added even if it overlaps others, like a collective does, so the groups may add up to more than the span. Needs the
standard library only.
"""

import argparse
import collections
import json
import re

# Patterns for kernel names. The first match counts.
GROUPS = [
    ("collectives", r"nccl|sum_ranks"),
    ("attention", r"cudnn|attention|sdpa"),
    ("loss and its gradient", r"cross_entropy"),
    ("norms", r"lt::.*norm_"),
    ("AdamW", r"adamw|ema_update|step_numbers"),
    ("embedding", r"embedding|cub::|add_chunks|add_parts|add_positions|row_numbers"),
    ("SwiGLU, GELU", r"lt::.*(swiglu|gelu)"),
    ("rotary positions", r"lt::.*rope"),
    ("sums over rows", r"column_partials|combine_partials"),  # for biases, and the last kernel of a norm's backward
    ("norm of the gradient", r"squares|sum_in_order"),        # sum_in_order also adds the losses
    ("other own kernels", r"lt::"),
    ("matmuls", r"nvjet|gemm|cutlass|splitK|cublas"),
]


def group_of(event):
    if event["cat"] != "kernel":
        return "copies and fills"
    return next((group for group, names in GROUPS if re.search(names, event["name"])), "other kernels")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("trace", help="of one rank")
    p.add_argument("--names", type=int, default=0, metavar="N", help="also the N kernels that take longest")
    o = p.parse_args()
    with open(o.trace) as f:
        trace = json.load(f)
    if not isinstance(trace, dict) or "traceEvents" not in trace:
        raise SystemExit(f"{o.trace}: expected a trace with traceEvents, as record.profile_steps writes it")
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    kernels = [event for event in events if "cat" in event]
    steps = sum("step_numbers" in event["name"] for event in kernels)
    if not kernels or not steps:
        raise SystemExit(f"{o.trace}: expected kernels and steps, found {len(kernels)} and {steps}; record.profile_steps writes them")
    span = max(event["ts"] + event["dur"] for event in kernels) - min(event["ts"] for event in kernels)
    times, counts, names = collections.Counter(), collections.Counter(), collections.Counter()
    for event in kernels:
        ms = event["dur"] / 1e3 / steps
        times[group_of(event)] += ms
        counts[group_of(event)] += 1
        names[event["name"]] += ms
    total = span / 1e3 / steps
    print(f"{'':24} {'ms':>9} {'share':>7} {'launches':>9}    of a step, {steps} traced")
    for group, ms in times.most_common():
        print(f"{group:24} {ms:9.2f} {100 * ms / total:6.1f}% {counts[group] / steps:9.0f}")
    print(f"{'span':24} {total:9.2f}")
    for name, ms in names.most_common(o.names):
        print(f"{ms:9.2f}  {name[:110]}")


if __name__ == "__main__":
    main()
