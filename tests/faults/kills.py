"""Kills ranks at random instants, again and again, and then compares every bit with a run that was never touched. Prints
each kill with the seconds to the first resumed step, and their median and worst. kills.py --ltrain PATH [--kills 100]"""

import argparse
import os
import pathlib
import random
import signal
import statistics
import sys
import tempfile
import time
import uuid

from runs import Bench, Failure, require, require_equal

OPTIONS = ("--parallel.strategy=zero3", "--checkpoint.async=true", "--checkpoint.every=5")


def ranks_of(mark):
    """The processes of the run's ranks, by rank."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        values = dict(item.split(b"=", 1) for item in environment if b"=" in item)
        if values.get(b"FAULT_MARK") == mark.encode() and b"OMPI_COMM_WORLD_RANK" in values:
            found[int(values[b"OMPI_COMM_WORLD_RANK"])] = int(entry.name)
    return found


def last_step(bench, run):
    return max((row["step"] for row in bench.rows(run) if "loss_hex" in row), default=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ltrain", required=True)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    steps = f"--train.steps={40 * arguments.kills}"
    with tempfile.TemporaryDirectory(prefix="libtrain-kills-") as folder:
        bench = Bench(arguments.ltrain, folder)
        mark = uuid.uuid4().hex
        process = bench.start("launch", "-n", arguments.ranks, "--restarts", arguments.kills, "--",
                              *bench.options("killed", *OPTIONS, steps), mark=mark)
        kills = []
        while len(kills) < arguments.kills and process.poll() is None:
            time.sleep(chance.uniform(0.05, 2))  # also while it starts, saves or ends
            ranks = ranks_of(mark)
            victim = chance.randrange(arguments.ranks)
            if victim not in ranks:
                continue
            try:
                os.kill(ranks[victim], signal.SIGKILL)
            except ProcessLookupError:
                continue
            kills.append((victim, last_step(bench, "killed"), time.monotonic()))
        bench.finished(process, seconds=900)
        bench.supervised("whole", *OPTIONS, steps, seconds=900)
        down = [row["down_seconds"]["total"] for row in bench.events("killed", "restart")]
        require(down, "nothing was killed")
        for kill, (victim, step, _) in enumerate(kills):
            print(f"kill {kill + 1:>3}: rank {victim} near step {step}")
        require_equal("losses", bench.losses("killed"), bench.losses("whole"))
        print(f"{len(kills)} kills, {len(down)} restarts, every loss bit-equal; seconds to the first resumed step: "
              f"median {statistics.median(down):.2f}, worst {max(down):.2f}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"FAILED: {failure}")
