"""The matrix of faults: what strikes x where x strategy x how it saves. After each case the run has come back by itself, bit
for bit. Prints a table with the seconds from the fault to the first resumed step. matrix.py --ltrain PATH [--short]"""

import argparse
import itertools
import pathlib
import sys
import tempfile
import time

import runs
from runs import EVERY, STEPS, Bench, Failure, Foreign, require, require_equal

ACTIONS = ("kill", "segv", "stop", "exit")
# A point, the rank at which it is passed, and the step: of a save one that is saved, else one in between.
POINTS = {"step": (1, 5), "forward": (1, 5), "backward": (1, 5), "collective": (1, 5), "save-begin": (1, 4),
          "save-shard": (1, 4), "save-manifest": (0, 4), "save-rename": (0, 4), "save-gc": (0, 4), "load": (1, 4)}
SAVE_POINTS = tuple(point for point in POINTS if point.startswith("save"))
STRATEGIES, MODES = ("ddp", "zero3"), ("sync", "async")
# What an attempt returns: mpirun's code for a signal, or the watchdog's, whichever is first.
CODES = {"kill": {137, 75}, "segv": {139, 75}, "stop": {75}, "exit": {1, 75}}


def options_of(strategy, mode):
    return (f"--parallel.strategy={strategy}", f"--checkpoint.async={'true' if mode == 'async' else 'false'}")


def struck(bench, action, point, strategy, mode):
    """One case; returns the seconds that the run was down."""
    run = f"{action}-{point}-{strategy}-{mode}"
    rank, step = POINTS[point]
    foreign = Foreign(bench.folder / run / "checkpoints")
    options = options_of(strategy, mode)
    if point == "load":  # an earlier start has left something to load
        bench.supervised(run, *options, f"--train.steps={step}")
    bench.supervised(run, *options, fault=f"{point}:{rank}:{step}:{action}")
    restarts = bench.events(run, "restart")
    require_equal("restarts", len(restarts), 1)
    require(restarts[0]["exit_code"] in CODES[action], f"exit code of the attempt: {restarts[0]['exit_code']}")
    bench.require_like(run, strategy)
    foreign.require_untouched()
    bench.remove(run)
    return restarts[0]["down_seconds"]["total"]


def disk_fails(bench, action, point, strategy, mode):
    """A save that fails costs nothing: it is tried again, and the run ends as if nothing had been."""
    run = f"{action}-{point}-{strategy}-{mode}"
    rank, step = POINTS[point]
    bench.supervised(run, *options_of(strategy, mode), fault=f"{point}:{rank}:{step}:{action}")
    require_equal("restarts", len(bench.events(run, "restart")), 0)
    failed = bench.events(run, "checkpoint_failed")
    # Making room comes after the commit: the checkpoint stands all the same.
    require_equal("failed saves", [row["step"] for row in failed], [] if point == "save-gc" else [step])
    bench.require_like(run, strategy)
    bench.remove(run)


def nan(bench, action, point, strategy, mode):
    """A loss that is no number ends the run: no restart would help."""
    run = f"{action}-{point}-{strategy}-{mode}"
    bench.supervised(run, *options_of(strategy, mode), fault=f"{point}:1:5:{action}", code=5)
    require_equal("restarts", len(bench.events(run, "restart")), 0)
    require_equal("last checkpoint", max(row["step"] for row in bench.events(run, "checkpoint")), 4)
    bench.remove(run)


def damaged(bench, how, strategy):
    """The newest checkpoint of a run is damaged while nobody looks: the one before it counts."""
    run = f"damaged-{how}-{strategy}"
    bench.supervised(run, *options_of(strategy, "sync"), "--train.steps=6")
    newest = bench.folder / run / "checkpoints/step-00000006"
    shard = newest / "rank-00001.h5"
    content = bytearray(shard.read_bytes())
    if how == "truncated":
        shard.write_bytes(content[: len(content) // 2])
    elif how == "flipped":
        content[len(content) // 2] ^= 4
        shard.write_bytes(content)
    elif how == "no shard":
        shard.unlink()
    elif how == "no manifest":
        (newest / "manifest.json").unlink()
    done = bench.supervised(run, *options_of(strategy, "sync"))
    require("passed over: step-00000006" in done.out, "nothing was said of the damaged checkpoint")
    require("step-00000004 at step 5" in done.out, "the run did not go on from the checkpoint before")
    require_equal("losses", bench.losses(run), bench.losses(strategy))
    bench.remove(run)


def cases(short):
    """(row, column, function) of each case."""
    grid = list(itertools.product(STRATEGIES, MODES, POINTS, ACTIONS))
    if short:  # each point once, each action and combination in turn
        combinations = list(itertools.product(STRATEGIES, MODES))
        grid = [(*combinations[i % 4], point, ACTIONS[(i + i // 4) % 4]) for i, point in enumerate(POINTS)]
    for strategy, mode, point, action in grid:
        yield f"{strategy} {mode} {point}", action, lambda b, c=(action, point, strategy, mode): struck(b, *c)
    writes = [(point, action) for point in SAVE_POINTS[1:] for action in ("enospc", "eio")]
    for i, (point, action) in enumerate(writes[::3] if short else writes):
        strategy, mode = STRATEGIES[i % 2], MODES[i // 2 % 2]
        yield f"{strategy} {mode} {point}", action, lambda b, c=(action, point, strategy, mode): disk_fails(b, *c)
    for point, strategy in (("forward", "ddp"), ("backward", "zero3"))[: 1 if short else 2]:
        yield f"{strategy} sync {point}", "nan", lambda b, c=("nan", point, strategy, "sync"): nan(b, *c)
    for i, how in enumerate(("truncated", "flipped", "no shard", "no manifest")):
        if not short or how == "flipped":
            yield f"{STRATEGIES[i % 2]} newest checkpoint", how, lambda b, c=(how, STRATEGIES[i % 2]): damaged(b, *c)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ltrain", required=True)
    parser.add_argument("--short", action="store_true", help="each point and each action, not each pair")
    parser.add_argument("--only", default="", help="cases whose name contains it")
    arguments = parser.parse_args()
    failed = count = 0
    with tempfile.TemporaryDirectory(prefix="libtrain-faults-") as folder:
        bench = Bench(arguments.ltrain, folder)
        for strategy in STRATEGIES:
            bench.supervised(strategy, f"--parallel.strategy={strategy}")
        for row, column, run_case in cases(arguments.short):
            if arguments.only not in f"{row} {column}":
                continue
            begin = time.monotonic()
            try:
                down_s = run_case(bench)
                text = "ok" if down_s is None else f"ok, down {down_s:.1f} s"
            except Failure as failure:
                failed += 1
                text = f"FAILED: {failure}"
            count += 1
            print(f"{row:<30} {column:<12} {time.monotonic() - begin:5.1f} s  {text}", flush=True)
    print(f"{count - failed} of {count} cases hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
