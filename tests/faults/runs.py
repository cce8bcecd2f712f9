"""Small training runs that faults strike, and what must hold after each: the exit code, the bits, no process left, no file
of others touched. Standard library alone; FILE --ltrain PATH [...]."""

import json
import os
import pathlib
import shutil
import subprocess
import time
import uuid

RANKS, STEPS, EVERY = 2, 8, 2
MODEL = ("--model.layers=2", "--model.width=32", "--model.heads=2", "--model.ffn=48", "--train.seq=16",
         "--train.micro_batch=2", "--train.deterministic=true", "--optim.schedule=constant", "--watchdog.heartbeat_s=1")


class Failure(Exception):
    """What did not hold."""


def require(holds, what):
    if not holds:
        raise Failure(what)


def require_equal(what, found, expected):
    require(found == expected, f"{what}: expected {expected}, found {found}")


class Bench:
    """A folder with data, and how runs are started and looked at."""

    def __init__(self, ltrain, folder):
        self.ltrain, self.folder = pathlib.Path(ltrain).resolve(), pathlib.Path(folder)
        text = self.folder / "text.txt"
        text.write_text("The quick brown fox jumps over the lazy dog. " * 60)
        self.finished(self.start("prepare", "--input", text, "--out", self.folder / "data"))

    def environment(self, **changes):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("LTRAIN_", "OMPI_", "PMIX_", "SLURM_"))}
        return {**clean, "OMP_NUM_THREADS": "1", **{k: v for k, v in changes.items() if v is not None}}

    def start(self, *arguments, fault=None, mark="", **settings):
        """`mark` stands in the environment of every process that follows from it."""
        return subprocess.Popen([str(part) for part in (self.ltrain, *arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, start_new_session=True,
                                env=self.environment(LTRAIN_FAULT=fault, FAULT_MARK=mark), **settings)

    def finished(self, process, code=0, seconds=90):
        try:
            process.out, process.err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Failure(f"still running after {seconds} s") from None
        require(code is None or process.returncode == code,
                f"exit code: expected {code}, found {process.returncode}: {process.err.strip()[-600:]}")
        return process

    def options(self, run, *more):
        return ("train", *MODEL, f"--data.train={self.folder}/data/train.bin", f"--run.dir={self.folder / run}",
                f"--train.steps={STEPS}", f"--checkpoint.every={EVERY}", "--checkpoint.keep=9", *more)

    def supervised(self, run, *more, fault=None, restarts=3, ranks=RANKS, code=0, seconds=90):
        """The run under the supervisor, and no process of it left."""
        mark = uuid.uuid4().hex
        done = self.finished(self.start("launch", "-n", ranks, "--restarts", restarts, "--", *self.options(run, *more),
                                        fault=fault, mark=mark), code, seconds)
        left = processes_marked(mark)
        require(not left, f"processes left: {left}")
        return done

    # What a run left.

    def rows(self, run):
        path = self.folder / run / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def losses(self, run):
        """The loss of each step in bits; a start supersedes later steps of earlier attempts."""
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

    def require_like(self, run, reference):
        """Every loss and the last checkpoint are those of a run that was never touched."""
        require_equal("losses", self.losses(run), self.losses(reference))
        require_equal("files of the last checkpoint", sorted(self.shards(run)), sorted(self.shards(reference)))
        require(self.shards(run) == self.shards(reference), "the last checkpoint's bytes differ")
        self.finished(self.start("checkpoint", "verify", self.folder / run / "checkpoints"))

    def remove(self, run):
        shutil.rmtree(self.folder / run, ignore_errors=True)


class Foreign:
    """Files beside a run's checkpoints that are not its own: nobody may touch them."""

    NAMES = ("notes.txt", "step-00000002.tmp-other", "step-00000004.old-other", "LATEST.tmp-other")

    def __init__(self, checkpoints):
        self.folder = pathlib.Path(checkpoints)
        self.folder.mkdir(parents=True)
        for name in self.NAMES:
            (self.folder / name).write_text(name)
            os.utime(self.folder / name, (0, 0))

    def require_untouched(self):
        for name in self.NAMES:
            path = self.folder / name
            require(path.is_file() and path.read_text() == name, f"{name} of others was touched")
        own = [path.name for path in self.folder.iterdir() if ".tmp-" in path.name or ".old-" in path.name]
        require_equal("leftovers", sorted(own), sorted(name for name in self.NAMES if "step" in name or "LATEST" in name))


def processes_marked(mark, seconds=5):
    """The processes with that mark which are still there after a while."""
    deadline = time.monotonic() + seconds
    while True:
        left = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if f"FAULT_MARK={mark}".encode() in (entry / "environ").read_bytes():
                    left.append(f"{entry.name} {(entry / 'cmdline').read_bytes().replace(bytes(1), b' ').decode()[:80]}")
            except OSError:
                pass
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)
