"""Disks that are full or read-only for a while. They are real, small file systems in memory. Mounting needs root."""

import os
import pathlib
import shutil
import signal
import subprocess
import time

from runs import STEPS, Foreign, Skipped, require, require_equal

KIB, MIB = 1 << 10, 1 << 20
NO_SPACE = "No space left on device"
LONG = 64  # steps: enough for each file of rows to reach the end of its last block while the disk is full


class SmallDisk:
    """A separate file system at `folder`, unmounted at the end of the `with` block."""

    def __init__(self, folder, size):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.mount("-t", "tmpfs", "-o", f"size={size}", "none")

    def mount(self, *arguments):
        try:
            done = subprocess.run(["mount", *arguments, self.folder], capture_output=True, text=True)
        except OSError as error:
            raise Skipped(f"no mount: {error}") from None
        if done.returncode != 0:
            raise Skipped(f"mounting is not permitted: {done.stderr.strip()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.folder], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def fill(self):
        with open(self.folder / "filler", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def make_room(self):
        (self.folder / "filler").unlink()

    def freeze(self):
        self.mount("-o", "remount,ro")

    def thaw(self):
        self.mount("-o", "remount,rw")


# How a disk fails, how it recovers, and the error of a write in between.
FAILURES = {"full disk": (SmallDisk.fill, SmallDisk.make_room, NO_SPACE),
            "read-only": (SmallDisk.freeze, SmallDisk.thaw, "Read-only file system")}


def saves_fail(bench, how, strategy, mode, options):
    """The checkpoints' disk fails for three steps. Training goes on, and the save is retried."""
    run = f"saves-{strategy}-{mode}"
    fail, work, reason = FAILURES[how]
    with SmallDisk(bench.folder / run / "checkpoints", 8 * MIB) as disk:
        foreign = Foreign(disk.folder)
        halts = {4: lambda: fail(disk), 7: lambda: work(disk)}
        done = bench.supervised(run, *options, "--checkpoint.every=1", halts=halts)
        require_equal("restarts", len(bench.events(run, "restart")), 0)
        failed = bench.events(run, "checkpoint_failed")
        steps = [row["step"] for row in failed]
        # An asynchronous save may be written earlier or later than its step.
        in_time = steps == [4, 5, 6] if mode == "sync" else steps and set(steps) <= {2, 3, 4, 5, 6}
        require(in_time, f"failed saves: {steps}")
        require(all(reason in row["error"] for row in failed), f"reasons: {[row['error'] for row in failed]}")
        warning = f"warning: step {steps[0]} was not saved, next attempt after step "
        require(warning in done.out, "no warning on the console")
        bench.require_like(run, strategy)
        foreign.require_untouched()
    bench.remove(run)


def checkpoints_fill_it(bench, strategy, mode, options):
    """The disk has room for three checkpoints, and four are to be kept. The run ends with three, and resumes once one
    of them is deleted."""
    run = f"too-small-{strategy}-{mode}"
    size = sum(path.stat().st_size for path in (bench.folder / strategy / f"checkpoints/step-{STEPS:08}").iterdir())
    with SmallDisk(bench.folder / run / "checkpoints", size * 7 // 2) as disk:
        foreign = Foreign(disk.folder)
        ended = bench.supervised(run, *options, code=3)
        require(NO_SPACE in ended.err, "the error does not say that the disk is full")
        for words in (*(f"next attempt in {s} s: " for s in (1, 2, 4, 8)), "the last of 5 attempts at the end of the run: "):
            require(f"was not saved, {words}" in ended.out, f"no warning with '{words}'")
        require_equal("checkpoints", [row["step"] for row in bench.events(run, "checkpoint")], [2, 4, 6])
        bench.finished(bench.start("checkpoint", "verify", disk.folder))
        shutil.rmtree(disk.folder / "step-00000002")
        done = bench.supervised(run, *options)
        require("step-00000006 at step 7" in done.out, "the run did not go on from its checkpoint")
        bench.require_like(run, strategy)
        foreign.require_untouched()
    bench.remove(run)


def rows_are_lost(bench, strategy, mode, options, killed):
    """The disk of the run's records is full, and the checkpoints are on another one. Training goes on, even if a rank
    is killed meanwhile. Each file warns once per start, and every row is written or counted."""
    run, whole = f"rows-{strategy}-{mode}", f"{strategy}-{LONG}"
    long = (*options, f"--train.steps={LONG}", "--checkpoint.every=16")
    if not (bench.folder / whole).exists():
        bench.supervised(whole, *long)
    with SmallDisk(bench.folder / run, 256 * KIB) as disk, SmallDisk(bench.folder / run / "checkpoints", 16 * MIB) as saves:
        foreign = Foreign(saves.folder)
        if killed:
            done = bench.supervised(run, *long, fault="step:1:60:kill", halts={4: disk.fill})
            require("attempt 2 begins now" in done.err, f"no second attempt: {done.err[-300:]}")
            require("resuming from" in done.out, "the run did not go on from a checkpoint")
        else:
            done = bench.supervised(run, *long, halts={4: disk.fill, 61: disk.make_room})
            lost = sum(row["rows"] for row in bench.events(run, "lost"))
            rows = len(bench.rows(run)) - len(bench.events(run, "lost"))
            require_equal("rows, written or counted", rows + lost, len(bench.rows(whole)))
        told = [line for line in done.err.splitlines() if "/metrics.jsonl: " in line and line.startswith("warning: ")]
        require("training continues, rows from step" in told[0] and "could not be written" in told[-1], f"warnings: {told}")
        # A rank 0 that is terminated does not reach the final sum.
        require(len(told) == 2 or (killed and len(told) == 3), f"warnings: {told}")
        require_equal("failed saves", bench.events(run, "checkpoint_failed"), [])
        written = bench.losses(run)
        require(len(written) < LONG, "no row was lost")
        bench.require_like(run, whole, written, LONG)
        foreign.require_untouched()
    bench.remove(run)


def start_is_lost(bench):
    """A restart on a full disk cannot record its `start`, but the disk has room again before its first step. The `start`
    is written then, before anything else, and the event `restart` tells where this attempt began."""
    run, reference = "start-lost", "one-rank"
    bench.finished(bench.start(*bench.options(reference, "--checkpoint.every=4")))
    with SmallDisk(bench.folder / run, 256 * KIB) as disk, SmallDisk(bench.folder / run / "checkpoints", 16 * MIB) as saves:
        foreign = Foreign(saves.folder)
        options = bench.options(run, "--checkpoint.every=4")
        bench.finished(bench.start(*options, fault="step:0:7:exit"), code=1)
        with open(disk.folder / "metrics.jsonl", "a") as metrics:  # its last block is full too
            note = '{"event":"note"}'
            metrics.write(note + " " * ((-metrics.tell() - len(note) - 1) % 4096) + "\n")
        disk.fill()
        restart = {"attempt": 2, "cause": "rank 0 exited", "exit_code": 1, "notice": 0, "backoff": 0, "began": time.time()}
        process = bench.start(*options, fault="step:0:5:stop", restart=restart)
        try:
            rank = bench.halted(process)
            disk.make_room()
            os.kill(rank, signal.SIGCONT)
            bench.finished(process)
        finally:
            process.kill()
        bench.require_like(run, reference)
        require_equal("starts that are recorded", [row["step"] for row in bench.events(run, "start")], [0, 4])
        event, = bench.events(run, "restart")
        require_equal("step and lost steps", (event["step"], event["lost_steps"]), (4, 2))
        foreign.require_untouched()
    bench.remove(run)
