"""The fault matrix: action x point x strategy x save mode. After each case the run must have recovered by itself, bit
for bit. Prints a table with the seconds from the fault to the first resumed step, and the worst of them by point and
action. Cases that this machine does not permit are skipped by name. Exits 77 if every case was skipped.
matrix.py --ltrain PATH [--clock PATH] [--short] [--jobs N]"""

import argparse
import collections
import concurrent.futures
import itertools
import os
import statistics
import sys
import tempfile
import time

import disks
import surroundings
from runs import Bench, Failure, Foreign, Skipped, require, require_equal

ACTIONS = ("kill", "segv", "stop", "exit")
# Each point with the rank that passes it and the step: a saved step for saves and load, else one in between.
POINTS = {"step": (1, 5), "forward": (1, 5), "backward": (1, 5), "collective": (1, 5), "save-begin": (1, 4),
          "save-shard": (1, 4), "save-manifest": (0, 4), "save-rename": (0, 4), "save-gc": (0, 4), "load": (1, 4)}
SAVE_POINTS = tuple(point for point in POINTS if point.startswith("save"))
STRATEGIES, MODES = ("ddp", "zero3"), ("sync", "async", "memory")
# An attempt's exit codes: mpirun's for the signal, or the watchdog's, whichever comes first.
CODES = {"kill": {137, 75}, "segv": {139, 75}, "stop": {75}, "exit": {1, 75}}


def options_of(strategy, mode):
    return (f"--parallel.strategy={strategy}", f"--checkpoint.async={'false' if mode == 'sync' else 'true'}",
            f"--checkpoint.memory_every={1 if mode == 'memory' else 0}")


def struck(bench, action, point, strategy, mode):
    """Runs one case and returns the seconds that the run was down."""
    run = f"{action}-{point}-{strategy}-{mode}"
    rank, step = POINTS[point]
    foreign = Foreign(bench.folder / run / "checkpoints")
    options = options_of(strategy, mode)
    if point == "load":  # an earlier start leaves a checkpoint to load
        bench.supervised(run, *options, f"--train.steps={step}")
    bench.supervised(run, *options, fault=f"{point}:{rank}:{step}:{action}")
    restarts = bench.events(run, "restart")
    require_equal("restarts", len(restarts), 1)
    require(restarts[0]["exit_code"] in CODES[action], f"exit code of the attempt: {restarts[0]['exit_code']}")
    if mode == "memory":  # one of the two newest steps is whole on all ranks
        require(restarts[0]["lost_steps"] <= 1, f"steps lost: {restarts[0]['lost_steps']}")
    bench.require_like(run, strategy)
    foreign.require_untouched()
    bench.require_no_copies(run)
    bench.remove(run)
    return restarts[0]["down_seconds"]["total"]


def disk_fails(bench, action, point, strategy, mode):
    """A failed save is retried and does not change the run's result."""
    run = f"{action}-{point}-{strategy}-{mode}"
    rank, step = POINTS[point]
    foreign = Foreign(bench.folder / run / "checkpoints")
    bench.supervised(run, *options_of(strategy, mode), fault=f"{point}:{rank}:{step}:{action}")
    require_equal("restarts", len(bench.events(run, "restart")), 0)
    failed = bench.events(run, "checkpoint_failed")
    # Garbage collection follows the commit, so the checkpoint stands even if it fails.
    fails = point != "save-gc"
    require_equal("failed saves and attempts", [(row["step"], row["attempt"]) for row in failed], [(step, 1)] if fails else [])
    if mode == "sync":  # an asynchronous save reports its failure later
        saved = [row["step"] for row in bench.events(run, "checkpoint")]
        require_equal("saved steps", saved, [2, step + 1 if fails else step, 6, 8])
    bench.require_like(run, strategy)
    foreign.require_untouched()
    bench.remove(run)


def nan(bench, action, point, strategy, mode):
    """A loss that is not a number ends the run, because no restart would help. Started again without the fault, the run
    goes on."""
    run = f"{action}-{point}-{strategy}-{mode}"
    foreign = Foreign(bench.folder / run / "checkpoints")
    bench.supervised(run, *options_of(strategy, mode), fault=f"{point}:1:5:{action}", code=5)
    require_equal("restarts", len(bench.events(run, "restart")), 0)
    require_equal("last checkpoint", max(row["step"] for row in bench.events(run, "checkpoint")), 4)
    bench.supervised(run, *options_of(strategy, mode))
    bench.require_like(run, strategy)
    foreign.require_untouched()
    bench.remove(run)


def damaged(bench, how, strategy):
    """The newest checkpoint is damaged between two starts. The run resumes from the one before it."""
    run = f"damaged-{how}-{strategy}"
    foreign = Foreign(bench.folder / run / "checkpoints")
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
    foreign.require_untouched()
    bench.remove(run)


def case(row, column, function, *arguments):
    return row, column, lambda bench: function(bench, *arguments)


def cases(short, clock):
    """Yields (row, column, function) of each case."""
    ddp, zero3 = ("ddp", options_of("ddp", "sync")), ("zero3", options_of("zero3", "async"))
    yield case("ddp sync run.dir", "two runs", surroundings.two_runs, *ddp)  # first, because it waits half a minute
    grid = list(itertools.product(STRATEGIES, MODES, POINTS, ACTIONS))
    if short:  # each point once, cycling through actions and combinations
        combinations = list(itertools.product(STRATEGIES, MODES))
        grid = [(*combinations[i % 6], point, ACTIONS[(i + i // 4) % 4]) for i, point in enumerate(POINTS)]
    for strategy, mode, point, action in grid:
        yield case(f"{strategy} {mode} {point}", action, struck, action, point, strategy, mode)
    writes = [(point, action) for point in SAVE_POINTS for action in ("enospc", "eio")]
    for i, (point, action) in enumerate(writes[::3] if short else writes):
        strategy, mode = STRATEGIES[i % 2], MODES[i // 2 % 2]
        yield case(f"{strategy} {mode} {point}", action, disk_fails, action, point, strategy, mode)
    for point, strategy in (("forward", "ddp"), ("backward", "zero3"))[: 1 if short else 2]:
        yield case(f"{strategy} sync {point}", "nan", nan, "nan", point, strategy, "sync")
    for i, how in enumerate(("truncated", "flipped", "no shard", "no manifest")):
        if not short or how == "flipped":
            yield case(f"{STRATEGIES[i % 2]} newest checkpoint", how, damaged, how, STRATEGIES[i % 2])
    # A disk is remounted only with blocking saves, so that no thread can be writing to it.
    for how, strategy, mode in (("full disk", "ddp", "sync"), ("read-only", "zero3", "sync"),
                                ("full disk", "ddp", "async"), ("full disk", "zero3", "async"))[: 2 if short else 4]:
        setting = (strategy, mode, options_of(strategy, mode))
        yield case(f"{strategy} {mode} checkpoint.dir", how, disks.saves_fail, how, *setting)
    yield case("one rank run.dir", "full, start", disks.start_is_lost)
    for strategy, mode in () if short else (("ddp", "sync"), ("zero3", "async")):
        setting = (strategy, mode, options_of(strategy, mode))
        yield case(f"{strategy} {mode} checkpoint.dir", "too small", disks.checkpoints_fill_it, *setting)
        yield case(f"{strategy} {mode} run.dir", "full disk", disks.rows_are_lost, *setting, False)
        yield case(f"{strategy} {mode} run.dir", "full, killed", disks.rows_are_lost, *setting, True)
    yield case("ddp sync checkpoints", "file times", surroundings.file_times, *ddp)
    yield case("zero3 async wall clock", "backwards", surroundings.clock_backwards, *zero3, clock)
    if not short:
        yield case("two hosts", "link down", surroundings.link_down, "a_host_that_is_cut_off_is_found_and_its_memory_is_on_the_other")
        yield case("two hosts", "link down", surroundings.link_down, "the_run_goes_on_where_one_host_is_left")


def print_worst(down):
    """Prints the most seconds that a run was down, by point and action."""
    worst = {case: f"{max(seconds):.1f}" for case, seconds in down.items()}
    print(f"\n{'worst seconds down':<20}" + "".join(f"{action:>8}" for action in ACTIONS))
    for point in POINTS:
        print(f"{point:<20}" + "".join(f"{worst.get((point, action), '-'):>8}" for action in ACTIONS))
    every = [seconds for several in down.values() for seconds in several]
    print(f"median {statistics.median(every):.2f} s, worst {max(every):.2f} s of {len(every)} restarts")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ltrain", required=True)
    parser.add_argument("--clock", help="clock_backwards, as a shared object")
    parser.add_argument("--short", action="store_true", help="each point and each action, not each pair")
    parser.add_argument("--only", default="", help="cases whose name contains it")
    parser.add_argument("--jobs", type=int, default=1, help="how many cases run at a time; seconds down then say little")
    arguments = parser.parse_args()
    if arguments.jobs > 1 and not arguments.short:
        parser.error("--jobs: expected --short with it, because some cases of the full matrix share a folder")
    results, down = collections.Counter(), collections.defaultdict(list)
    if arguments.jobs > 1:  # ranks that wait leave the processor to other cases
        os.environ["OMPI_MCA_mpi_yield_when_idle"] = "1"
    with tempfile.TemporaryDirectory(prefix="libtrain-faults-") as folder:
        bench = Bench(arguments.ltrain, folder)
        for strategy in STRATEGIES:
            bench.supervised(strategy, f"--parallel.strategy={strategy}")

        def run(row, column, run_case):
            begin = time.monotonic()
            try:
                down_s = run_case(bench)
                result, text = "holds", "ok" if down_s is None else f"ok, down {down_s:.1f} s"
                if down_s is not None:
                    down[row.split()[-1], column].append(down_s)
            except Skipped as skipped:
                result, text = "skipped", f"skipped: {skipped}"
            except Failure as failure:
                result, text = "failed", f"FAILED: {failure}"
            print(f"{row:<30} {column:<12} {time.monotonic() - begin:5.1f} s  {text}", flush=True)
            return result

        chosen = [case for case in cases(arguments.short, arguments.clock) if arguments.only in f"{case[0]} {case[1]}"]
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            try:
                results.update(pool.map(lambda case: run(*case), chosen))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    if down:
        print_worst(down)
    print(f"{results['holds']} of {results.total()} cases hold, {results['skipped']} skipped")
    if results["failed"]:
        return 1
    return 77 if results["skipped"] and not results["holds"] else 0


if __name__ == "__main__":
    sys.exit(main())
