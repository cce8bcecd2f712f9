"""Compares `ltrain plan --rates` with measured steps on CPU ranks.

    python3 bench/compare_plan.py --ltrain build/cpu/ltrain [--rounds 3] [--out FILE.json]

Each round of a configuration measures the machine's rates and then, right away, the steps, because other programs may
share the cores. The estimate of a round uses the round's own rates. Ranks have one thread each. Prints the medians over
rounds and the difference of the estimate.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

WIDER = ("--model.preset=gpt-tiny", "--model.layers=6", "--model.width=256", "--model.heads=8", "--model.ffn=1024")
CONFIGURATIONS = [  # name, options, dtype, ranks, strategies
    ("gpt-tiny, 8 x 256", ("--model.preset=gpt-tiny", "--train.micro_batch=8"), "f32", 1, ("ddp",)),
    ("gpt-tiny, 8 x 256", ("--model.preset=gpt-tiny", "--train.micro_batch=8"), "bf16", 1, ("ddp",)),
    ("llama-tiny, 8 x 256", ("--model.preset=llama-tiny", "--train.micro_batch=8"), "f32", 1, ("ddp",)),
    ("llama-tiny, 8 x 256", ("--model.preset=llama-tiny", "--train.micro_batch=8"), "bf16", 1, ("ddp",)),
    ("6 layers of width 256, 4 x 256", (*WIDER, "--train.micro_batch=4"), "f32", 1, ("ddp",)),
    ("gpt-tiny, 4 x 256", ("--model.preset=gpt-tiny", "--train.micro_batch=4"), "f32", 2, ("ddp", "zero3")),
    ("llama-tiny, 4 x 256", ("--model.preset=llama-tiny", "--train.micro_batch=4"), "bf16", 2, ("ddp", "zero3")),
]


def result(ltrain, ranks, arguments):
    """Runs a measurement under mpirun and returns its JSON."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
        subprocess.run([*launcher, ltrain, "bench", *arguments, "--out", out], check=True, capture_output=True,
                       env={**os.environ, "OMP_NUM_THREADS": "1"})
        return json.loads(out.read_text())


def estimate(ltrain, options, strategy, ranks, rates):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "rates.json"
        file.write_text(json.dumps(rates))
        plan = subprocess.run([ltrain, "plan", *options, f"--parallel.strategy={strategy}", "--ranks", str(ranks),
                               "--rates", file, "--json"], check=True, capture_output=True, text=True).stdout
        return json.loads(plan)["step_ms_estimate"]["total"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ltrain", default="build/cpu/ltrain")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out")
    args = parser.parse_args()
    rows = []
    for name, options, dtype, ranks, strategies in CONFIGURATIONS:
        options = (*options, f"--train.dtype={dtype}")
        times = {strategy: ([], []) for strategy in strategies}
        for _ in range(args.rounds):
            rates = result(args.ltrain, ranks, ["rates", *options, "--iterations", "9", "--warmup", "2",
                                                "--sizes", "16KiB,64KiB,256KiB,1MiB,4MiB"])
            for strategy in strategies:
                step = result(args.ltrain, ranks, ["step", *options, f"--parallel.strategy={strategy}", "--warmup", "3",
                                                   "--iterations", str(args.steps)])
                times[strategy][0].append(estimate(args.ltrain, options, strategy, ranks, rates))
                times[strategy][1].append(step["step_ms"]["median"])
        for strategy, (estimates, steps) in times.items():
            planned, measured = statistics.median(estimates), statistics.median(steps)
            rows.append({"model": name, "dtype": dtype, "ranks": ranks, "strategy": strategy, "estimate_ms": planned,
                         "step_ms": measured, "estimates_ms": estimates, "steps_ms": steps})
            print(f"| {name} | {dtype} | {ranks} | {strategy} | {planned:.1f} | {measured:.1f} "
                  f"| {100 * (planned / measured - 1):+.1f} % |", flush=True)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
