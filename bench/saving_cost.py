"""Measures what saving costs a training run. Trains without saving, with in-memory checkpoints and with asynchronous
saves, in turn. Also measures the time from a killed rank to the next step.
saving_cost.py --ltrain PATH [...]; needs Open MPI."""

import argparse
import json
import os
import pathlib
import shutil
import shlex
import statistics
import subprocess
import sys
import tempfile
import time


class Runs:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, pathlib.Path(folder)
        text = self.folder / "text.txt"
        text.write_text("The quick brown fox jumps over the lazy dog. " * 20000)
        self.program("prepare", "--input", text, "--out", self.folder / "data")

    def program(self, *command, fault=None, code=0):
        environment = {**os.environ, **({"LTRAIN_FAULT": fault} if fault else {})}
        done = subprocess.run([str(part) for part in (self.arguments.ltrain, *command)], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != code:
            sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-3000:]}")
        return done.stdout

    def train(self, name, steps, *options, fault=None):
        """Runs `ltrain train` and returns the rows of its metrics.jsonl."""
        given = self.arguments
        self.program("launch", "-n", given.ranks, "--", "train", f"--model.preset={given.preset}",
                     f"--data.train={self.folder}/data/train.bin", f"--run.dir={self.folder / name}",
                     f"--train.steps={steps}", f"--train.micro_batch={given.batch}", f"--train.dtype={given.dtype}",
                     "--checkpoint.keep=2", *given.option, *options, fault=fault)
        rows = [json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]
        if given.keep:
            given.keep.mkdir(parents=True, exist_ok=True)
            (given.keep / f"{given.label}-{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        machine = json.loads((self.folder / name / "env.json").read_text())
        self.machine = machine["gpu"] or f"{machine['processors']} cores of {machine['processor']}"
        shutil.rmtree(self.folder / name)
        return rows


def step_ms(rows, first):
    return [row["step_ms"] for row in rows if row.get("step_ms") and row["step"] >= first]


def of(rows, event):
    return [row for row in rows if row.get("event") == event]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ltrain", required=True)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--preset", default="gpt-tiny")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--steps", type=int, default=40, help="of a run; the first ten do not count")
    parser.add_argument("--memory-every", type=int, default=1, help="0: left out")
    parser.add_argument("--save-every", type=int, default=0, help="asynchronous saves; 0: left out")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kill", action="store_true", help="also kills a rank")
    parser.add_argument("--keep", type=pathlib.Path, help="where metrics.jsonl of each run goes")
    parser.add_argument("--label", default="run")
    parser.add_argument("--out", type=pathlib.Path, help="file for the results as JSON")
    parser.add_argument("--option", action="append", default=[], help="of train, for all runs")
    arguments = parser.parse_args()
    if arguments.steps <= 10 or arguments.rounds < 1:
        parser.error("--steps: expected more than 10, since the first ten do not count; --rounds: at least 1")
    arguments.ltrain = pathlib.Path(arguments.ltrain).resolve()
    kinds = {"without": ()}
    memory = f"--checkpoint.memory_every={arguments.memory_every}"
    if arguments.memory_every > 0:
        kinds[memory[2:]] = (memory,)
    if arguments.save_every > 0:
        kinds[f"async, every {arguments.save_every}"] = ("--checkpoint.async=true",
                                                         f"--checkpoint.every={arguments.save_every}")
    times = {kind: [] for kind in kinds}
    result = {"benchmark": "saving", "date": time.strftime("%Y-%m-%d", time.gmtime()), "commit": None, "machine": None,
              "command": shlex.join(["bench/saving_cost.py", *sys.argv[1:]]), "ranks": arguments.ranks,
              "preset": arguments.preset, "kinds": {kind: {"step_ms": times[kind], "saves": []} for kind in kinds}, "killed": []}
    with tempfile.TemporaryDirectory(prefix="libtrain-saving-") as folder:
        runs = Runs(arguments, folder)
        for number in range(arguments.rounds):
            for kind, options in kinds.items():
                begin = time.monotonic()
                rows = runs.train(f"{number}-{kind.split('=')[0].split(',')[0]}", arguments.steps, *options)
                times[kind] += step_ms(rows, 11)
                result["commit"], result["machine"] = of(rows, "start")[0]["commit"], runs.machine
                result["kinds"][kind]["saves"] += [{key: row[key] for key in ("step", "seconds", "stall_seconds")}
                                                   for row in of(rows, "checkpoint")]
                stalls = [round(row["stall_seconds"], 3) for row in of(rows, "checkpoint")]
                print(f"{kind}: {time.monotonic() - begin:.1f} s in all, saves {[row['step'] for row in of(rows, 'checkpoint')]}, "
                      f"seconds {[round(row['seconds'], 1) for row in of(rows, 'checkpoint')]}, stalls {stalls}", flush=True)
        base = times["without"]
        print(f"{'ms a step':<32} {'median':>8} {'mean':>8} {'longest':>8}  mean over without")
        for kind, each in times.items():
            print(f"{kind:<32} {statistics.median(each):>8.1f} {statistics.mean(each):>8.1f} {max(each):>8.1f}  "
                  f"{statistics.mean(each) / statistics.mean(base):.4f}", flush=True)
        if arguments.kill:
            for name, options in (("memory", ("--checkpoint.memory_every=1",)), ("disk", ("--checkpoint.every=8",))):
                rows = runs.train(f"killed-{name}", 20, *options, fault=f"step:{arguments.ranks - 1}:14:kill")
                down, = of(rows, "restart")
                start = of(rows, "start")[-1]
                result["killed"].append({"from": name, "lost_steps": down["lost_steps"], "down_seconds": down["down_seconds"]})
                print(f"killed, {name}: down {down['down_seconds']['total']:.2f} s {down['down_seconds']}, steps lost "
                      f"{down['lost_steps']}, resumed from {start['resumed_from']}, start {start['start_seconds']}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
