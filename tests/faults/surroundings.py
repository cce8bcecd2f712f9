"""Faults from a run's surroundings: a second run in its folder, wrong file times, a wrong clock, a cut-off host."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from runs import Foreign, Skipped, ranks_marked, require, require_equal

NODES = pathlib.Path(__file__).resolve().parent.parent / "nodes/run.sh"
FUTURE = 4102444800  # the year 2100
CLOCK_BEGIN = 2000000000  # of clock_backwards.cpp, less the seconds since the machine started


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kill_while_waiting(process, mark):
    """Kills rank 1 while rank 0 waits for the folder of another run."""
    deadline = time.monotonic() + 30
    while b"waits up to" not in os.pread(process.files[1].fileno(), 1 << 20, 0):
        require(process.poll() is None and time.monotonic() < deadline, "the second start does not wait for the folder")
        time.sleep(0.05)
    rank = ranks_marked(mark).get(1)
    require(rank is not None, "the second start has no rank 1")
    os.kill(rank, signal.SIGKILL)


def two_runs(bench, strategy, options):
    """While a run is active, a second start of it is refused, also when that is restarted, and so is another run with its
    checkpoint.dir. Neither touches a file of the first run."""
    run, other = f"first-{strategy}", f"other-{strategy}"
    folder = bench.folder / run
    theirs = Foreign(folder / "checkpoints")
    bench.supervised(other, *options, "--train.steps=2")

    def start_others():
        before = contents(folder)
        again = bench.supervised(run, *options, beside=kill_while_waiting, restarts=1, code=2)
        for words in ("the process is gone", "attempt 2 is not in the run's metrics"):
            require(words in again.err, f"expected '{words}', the second start says: {again.err[-1500:]}")
        require(f"run.dir {folder}: expected a folder of its own, another run is at work in it" in again.err,
                f"the second start says: {again.err[-300:]}")
        foreign = bench.supervised(other, *options, f"--checkpoint.dir={folder}/checkpoints", code=2)
        ids = [json.loads((bench.folder / name / "run.json").read_text())["id"] for name in (run, other)]
        require(all(f"run {one}" in foreign.err for one in ids), f"the other run says: {foreign.err[-300:]}")
        after = contents(folder)
        touched = sorted(str(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        require(not touched, f"files of the first run were touched: {touched}")

    bench.supervised(run, *options, halts={5: start_others})
    bench.require_like(run, strategy)
    theirs.require_untouched()
    bench.remove(run)
    bench.remove(other)


def file_times(bench, strategy, options):
    """The oldest checkpoint has the newest file time. Steps, not times, decide which one to resume from and which to
    remove."""
    run = f"times-{strategy}"
    checkpoints = bench.folder / run / "checkpoints"
    foreign = Foreign(checkpoints)
    bench.supervised(run, *options, "--train.steps=6")
    for time, step in ((FUTURE, 2), (0, 4), (0, 6)):
        folder = checkpoints / f"step-{step:08}"
        for path in (folder, *folder.iterdir()):
            os.utime(path, (time, time))
    done = bench.supervised(run, *options, "--checkpoint.keep=2")
    require("step-00000006 at step 7" in done.out, "the run did not go on from its newest checkpoint")
    left = {path.name for path in checkpoints.glob("step-*")} - set(foreign.NAMES)
    require_equal("checkpoints", left, {"step-00000006", "step-00000008"})
    bench.require_like(run, strategy)
    foreign.require_untouched()
    bench.remove(run)


def clock_backwards(bench, strategy, options, clock):
    """Every process sees a wall clock that runs backwards, and one rank is killed."""
    if not clock:
        raise Skipped("no --clock")
    run = f"clock-{strategy}"
    foreign = Foreign(bench.folder / run / "checkpoints")
    bench.supervised(run, *options, fault="step:1:5:kill", preload=clock)
    seen = json.loads((bench.folder / run / "env.json").read_text())["unix_time"]
    require(1.9e9 < seen < CLOCK_BEGIN, f"the ranks did not see the clock that runs backwards from {CLOCK_BEGIN}: {seen}")
    restart, = bench.events(run, "restart")
    down = restart["down_seconds"]
    require(all(seconds >= 0 for seconds in down.values()) and down["start"] > 0, f"seconds down: {down}")
    bench.require_like(run, strategy)
    foreign.require_untouched()
    bench.remove(run)


def link_down(bench, test):
    """Runs a test of tests/nodes: two hosts, one of them cut off."""
    command = ("bash", NODES, "--ltrain", bench.ltrain, "--mpiexec", shutil.which("mpirun"), "-v", f"Nodes.test_{test}")
    done = subprocess.run(command, capture_output=True, text=True, env=bench.environment())
    if done.returncode == 77:
        raise Skipped(next(line for line in (done.stdout + done.stderr).splitlines() if "skipped" in line))
    require_equal("exit code", (done.returncode, done.stderr[-600:] if done.returncode else ""), (0, ""))
