"""Small training runs for fault injection, and the checks after each: exit code, bits, no process left, no file of
others touched. Uses the standard library alone. Usage: FILE --ltrain PATH [...]."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import program

RANKS, STEPS, EVERY = 2, 8, 2
MODEL = ("--model.layers=2", "--model.width=32", "--model.heads=2", "--model.ffn=48", "--train.seq=16",
         "--train.micro_batch=2", "--train.deterministic=true", "--optim.schedule=constant", "--watchdog.heartbeat_s=1")


class Failure(Exception):
    """A requirement that did not hold."""


class Skipped(Exception):
    """A case that this machine does not permit."""


def require(holds, what):
    if not holds:
        raise Failure(what)


def require_equal(what, found, expected):
    require(found == expected, f"{what}: expected {expected}, found {found}")


class Bench:
    """A folder with data; starts runs and inspects them."""

    def __init__(self, ltrain, folder):
        self.ltrain, self.folder = pathlib.Path(ltrain).resolve(), pathlib.Path(folder)
        text = self.folder / "text.txt"
        text.write_text("The quick brown fox jumps over the lazy dog. " * 60)
        self.finished(self.start("prepare", "--input", text, "--out", self.folder / "data"))

    def environment(self, **changes):
        return {**program.outside_of_launchers(), "OMP_NUM_THREADS": "1", **{k: v for k, v in changes.items() if v is not None}}

    def start(self, *arguments, fault=None, mark="", preload=None, restart=None):
        """Starts ltrain. `mark` is in the environment of it and of all its descendants, and `restart` in LTRAIN_RESTART
        as the supervisor sets it. Output goes to files, because a pipe that nobody reads would block the process."""
        files = [tempfile.TemporaryFile("w+", errors="replace") for _ in range(2)]
        process = subprocess.Popen([str(part) for part in (self.ltrain, *arguments)], stdout=files[0], stderr=files[1],
                                   start_new_session=True,
                                   env=self.environment(LTRAIN_FAULT=fault, FAULT_MARK=mark, LD_PRELOAD=preload,
                                                        LTRAIN_RESTART=restart and json.dumps(restart)))
        process.files = files
        return process

    @staticmethod
    def text_of(file):
        with file:
            file.seek(0)
            return file.read()

    def finished(self, process, code=0, seconds=90):
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failure(f"still running after {seconds} s") from None
        process.out, process.err = (self.text_of(file) for file in process.files)
        require(code is None or process.returncode == code,
                f"exit code: expected {code}, found {process.returncode}: {process.err.strip()[-600:]}")
        return process

    def options(self, run, *more):
        return ("train", *MODEL, f"--data.train={self.folder}/data/train.bin", f"--run.dir={self.folder / run}",
                f"--train.steps={STEPS}", f"--checkpoint.every={EVERY}", "--checkpoint.keep=9", *more)

    def supervised(self, run, *more, fault=None, halts=None, beside=None, restarts=3, code=0, seconds=90, preload=None):
        """Runs under the supervisor and requires that no process is left. Rank 0 stops before each step in `halts`, and
        continues once the action given for that step has run. The watchdog's limits are raised so that no stop counts
        as a hang. `beside` is called with the supervisor's process and the mark of all, once it has started."""
        mark = uuid.uuid4().hex
        faults = [f"step:0:{step}:stop" for step in halts or ()] + ([fault] if fault else [])
        patience = ("--watchdog.heartbeat_s=86400", "--watchdog.collective_s=86400") if halts else ()
        process = self.start("launch", "-n", RANKS, "--restarts", restarts, "--",
                             *self.options(run, *patience, *more), fault=",".join(faults) or None, mark=mark,
                             preload=preload)
        try:
            if beside:
                beside(process, mark)
            for meanwhile in (halts or {}).values():
                rank = self.halted(process, mark)
                meanwhile()
                os.kill(rank, signal.SIGCONT)
        except BaseException:
            process.kill()  # takes all that it started with it
            raise
        done = self.finished(process, code, seconds)
        left = processes_marked(mark)
        require(not left, f"processes left: {left}")
        return done

    def halted(self, process, mark=None, seconds=30):
        """Waits until rank 0 stops and returns its process id. Without a mark, rank 0 is `process` itself."""
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            rank = ranks_marked(mark).get(0) if mark else process.pid
            if rank is not None and is_stopped(rank):
                return rank
            time.sleep(0.02)
        raise Failure("rank 0 does not stop")

    # The files that a run left.

    def rows(self, run):
        path = self.folder / run / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def losses(self, run):
        """The bits of each step's loss. A start supersedes later steps of earlier attempts."""
        losses = {}
        for row in self.rows(run):
            if row.get("event") == "start":
                losses = {step: loss for step, loss in losses.items() if step <= row["step"]}
            elif "loss_hex" in row:
                losses[row["step"]] = row["loss_hex"]
        return losses

    def events(self, run, name):
        return [row for row in self.rows(run) if row.get("event") == name]

    def shards(self, run, step=STEPS):
        return {path.name: path.read_bytes()
                for path in (self.folder / run / "checkpoints" / f"step-{step:08}").glob("rank-*.h5")}

    def require_like(self, run, reference, steps=None, last=STEPS):
        """Requires all losses (or those of `steps`) and the last checkpoint to equal an undisturbed run's."""
        expected = self.losses(reference)
        require_equal("losses", self.losses(run), {step: expected[step] for step in steps or expected})
        found, expected = self.shards(run, last), self.shards(reference, last)
        require_equal("files of the last checkpoint", sorted(found), sorted(expected))
        require(found == expected, "the last checkpoint's bytes differ")
        self.finished(self.start("checkpoint", "verify", self.folder / run / "checkpoints"))

    def require_no_copies(self, run):
        """Requires that a completed run has freed its copies in memory."""
        name = json.loads((self.folder / run / "run.json").read_text())["id"]
        require(not pathlib.Path(f"/dev/shm/libtrain-{name}").exists(), "copies of the run are left in memory")

    def remove(self, run):
        shutil.rmtree(self.folder / run, ignore_errors=True)


class Foreign:
    """Files beside a run's checkpoints that belong to others. Nobody may touch them."""

    NAMES = ("notes.txt", "step-00000002.tmp-other", "step-00000004.old-other", "LATEST.tmp-other")

    def __init__(self, checkpoints):
        self.folder = pathlib.Path(checkpoints)
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in self.NAMES:
            (self.folder / name).write_text(name)
            os.utime(self.folder / name, (0, 0))

    def require_untouched(self):
        for name in self.NAMES:
            path = self.folder / name
            require(path.is_file() and path.read_text() == name, f"{name} of others was touched")
        own = [path.name for path in self.folder.iterdir() if ".tmp-" in path.name or ".old-" in path.name]
        require_equal("leftovers", sorted(own), sorted(name for name in self.NAMES if "step" in name or "LATEST" in name))


def marked(mark):
    """Yields (process id, environment) of each process with that mark."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            content = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        environment = dict(item.split(b"=", 1) for item in content.split(b"\0") if b"=" in item)
        if environment.get(b"FAULT_MARK") == mark.encode():
            yield int(entry.name), environment


def ranks_marked(mark):
    """The process ids of the run's ranks, by rank."""
    ranks = ((environment.get(b"OMPI_COMM_WORLD_RANK"), process) for process, environment in marked(mark))
    return {int(rank): process for rank, process in ranks if rank is not None}


def processes_marked(mark, seconds=5):
    """The processes with that mark that still exist after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        left = [f"{process} {command_of(process)}" for process, _ in marked(mark)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def command_of(process):
    try:
        return pathlib.Path(f"/proc/{process}/cmdline").read_bytes().replace(bytes(1), b" ").decode()[:80]
    except OSError:
        return "(gone)"


def is_stopped(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    except OSError:
        return False
