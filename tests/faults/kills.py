"""Kills ranks repeatedly at random instants, then compares every bit with an undisturbed run. Prints each restart with
the seconds to the first resumed step, and their median and worst.
kills.py --ltrain PATH [--kills 100] [--ranks 2] [--seed 1]"""

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import time
import uuid

from runs import Bench, Failure, processes_marked, ranks_marked, require

OPTIONS = ("--parallel.strategy=zero3", "--checkpoint.async=true", "--checkpoint.every=5")
NO_END = "--train.steps=1000000000"
# The supervisor rightly ends a run after three attempts in a row that saved nothing.
MOST_BARREN = 2
PAUSE_S = (0.05, 4)  # between kills, so that they also hit while the run starts, saves or ends


def saved_step(bench, run):
    folders = (bench.folder / run / "checkpoints").glob("step-????????/manifest.json")
    return max((int(path.parent.name[len("step-"):]) for path in folders), default=0)


def kill_ranks(bench, run, process, mark, arguments):
    """Kills as often as asked, or until the run ends. Returns the number of kills."""
    chance = random.Random(arguments.seed)
    kills = barren = saved = 0
    while kills < arguments.kills and process.poll() is None:
        time.sleep(chance.uniform(*PAUSE_S))
        while barren == MOST_BARREN and saved_step(bench, run) == saved and process.poll() is None:
            time.sleep(0.02)
        victim = ranks_marked(mark).get(chance.randrange(arguments.ranks))
        if victim is None:
            continue
        before, saved = saved, saved_step(bench, run)
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            continue
        kills += 1
        barren = 0 if saved > before else barren + 1
    return kills


def print_restarts(rows):
    """Returns a pair for each restart that reached a step before the next kill: the seconds from a rank's end to the
    next step, and how many of them were spent waiting after attempts that saved nothing."""
    print(f"{'attempt':>7} {'resumed at':>10} {'lost steps':>10} {'notice':>7} {'backoff':>8} {'start':>6} {'down':>6}  "
          "cause")
    seconds, stepped, parts, slowest = [], False, {}, (0, {})
    for row in rows:
        if row.get("event") == "start":
            stepped, parts = False, row["start_seconds"]
        stepped = stepped or "loss_hex" in row
        if row.get("event") != "restart":
            continue
        down = row["down_seconds"]
        came = stepped and row["step"] is not None  # null: the attempt wrote nothing
        resumed, lost = (row["step"], row["lost_steps"]) if came else ("struck", "")
        print(f"{row['attempt']:>7} {resumed:>10} {lost:>10} {down['notice']:>7.2f} {down['backoff']:>8.2f} "
              f"{down['start']:>6.2f} {down['total']:>6.2f}  {row['cause']}")
        if came:
            seconds.append((down["total"], down["backoff"]))
            slowest = max(slowest, (down["start"], parts), key=lambda start: start[0])
    print(f"the slowest start, {slowest[0]:.2f} s, of which in the run itself: "
          + ", ".join(f"{part} {took:.2f}" for part, took in slowest[1].items() if took >= 0.01))
    return seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ltrain", required=True)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="libtrain-kills-") as folder:
        bench = Bench(arguments.ltrain, folder)
        mark = uuid.uuid4().hex
        process = bench.start("launch", "-n", arguments.ranks, "--restarts", arguments.kills, "--",
                              *bench.options("killed", *OPTIONS, NO_END), mark=mark)
        try:
            kills = kill_ranks(bench, "killed", process, mark, arguments)
            saved = saved_step(bench, "killed")
            while saved_step(bench, "killed") == saved and process.poll() is None:  # let it recover from the last kill
                time.sleep(0.02)
            process.send_signal(signal.SIGUSR1)
            bench.finished(process, code=75)
        finally:
            process.kill()
        require(not processes_marked(mark), f"processes left: {processes_marked(mark)}")
        steps = saved_step(bench, "killed")
        bench.supervised("whole", *OPTIONS, f"--train.steps={steps}", seconds=900)
        seconds = print_restarts(bench.rows("killed"))
        require(kills == arguments.kills, f"the run ended after {kills} kills")
        bench.require_like("killed", "whole", last=steps)
        restarts = len(bench.events("killed", "restart"))
        print(f"{kills} kills, {restarts} restarts, {steps} steps: every loss and the last checkpoint bit-equal")
        print(f"{restarts - len(seconds)} restarts were struck again before their first step; seconds to it of the rest:")
        for name, values in (("all", [total for total, _ in seconds]),
                             ("without the wait after attempts that saved nothing", [a - b for a, b in seconds])):
            print(f"  {name}: median {statistics.median(values):.2f}, worst {max(values):.2f}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"FAILED: {failure}")
