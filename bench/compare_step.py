#!/usr/bin/env python3
"""Times a training step of libtrain against PyTorch's on the same machine, alternating in one run.

    compare_step.py --ltrain build/ltrain --python PYTHON --model gpt-tiny llama-tiny --dtype f32 bf16
    compare_step.py --device cuda --ranks 4 --strategy ddp zero3 --model gpt2-1.5b --batch 16 --seq 1024 --dtype bf16 ...

Both programs start with --serve: they print one JSON line when warm, then time N steps for each line `run N` and print
{"ms": [...]}. They run in turn, in alternating blocks, so that a drift of the machine affects both. The first block of
each program is discarded as warm-up, because an idle card is cool and fast. After that the programs alternate in going
first, so with an even --rounds each goes first equally often. With --apart, each block starts its program anew, for
models so large that the device holds only one program at a time. The ratio in a row is the ratio of the medians over
all steps. Both sides of a row record their command and configuration. `peak_bytes` in the settings is the peak of the
program's own allocator on rank 0. Needs the standard library only.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.relpath(__file__))  # results name paths as the caller sees them
SETTLE_S = 0.3  # a program's idle threads spin for a while after its last step


class Server:
    """A program that times steps on request. Leave the scope to end it."""

    def __init__(self, command, environment):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})

    def __enter__(self):
        self.settings = self._reply()
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def run(self, steps):
        self.process.stdin.write(f"run {steps}\n")
        self.process.stdin.flush()
        ms = self._reply()["ms"]
        if len(ms) != steps:
            raise SystemExit(f"{' '.join(self.command)}: expected {steps} times, got {len(ms)}")
        return ms

    def _reply(self):
        line = self.process.stdout.readline()
        try:
            return json.loads(line)
        except ValueError:
            torch = ", is PyTorch installed?" if any("torch_" in word for word in self.command) else ""
            raise SystemExit(f"{' '.join(self.command)}: expected a JSON line, got {line!r}" +
                             ("" if line else "; its own error stands above" + torch)) from None


def summary(ms):
    return {"min_ms": min(ms), "median_ms": statistics.median(ms), "max_ms": max(ms), "ms": ms}


PEER_STRATEGY = {"ddp": "ddp", "zero1": "ddp", "zero2": "zero2", "zero3": "fsdp2"}


def commands(o, model, dtype, strategy):
    """The commands that run the same step in libtrain and in its peer."""
    ours = [o.ltrain, "bench", "step", f"--model.preset={model}", f"--train.dtype={dtype}", f"--train.device={o.device}",
            f"--parallel.strategy={strategy}", f"--parallel.recompute={o.recompute}", f"--train.micro_batch={o.batch}",
            f"--train.seq={o.seq}", "--serve"]
    shape = ["--model", model, "--batch", str(o.batch), "--seq", str(o.seq), "--serve"]
    if o.device == "cpu":
        return ours, [o.python, os.path.join(HERE, "peers", "torch_cpu.py"), *shape, "--dtype", dtype, "--mode", o.mode,
                      "--threads", str(o.threads)]
    theirs = [o.python, os.path.join(HERE, "peers", "torch_gpu.py"), *shape, "--dtype", dtype,
              "--strategy", PEER_STRATEGY[strategy], "--ranks", str(o.ranks), "--mode", o.mode,
              "--variant-seconds", str(o.variant_seconds), *(["--variants", *o.variants] if o.variants else [])]
    return ours if o.ranks == 1 else ["mpirun", *o.mpirun.split(), "-n", str(o.ranks), *ours], theirs


def block(o, server):
    if o.device == "cpu":
        time.sleep(SETTLE_S)
    server.run(o.warm)  # the caches hold the other program's data, and a GPU's clock settles only after some steps
    return server.run(o.steps)


def compare_apart(o, ours, theirs, threads):
    times, settings = {"libtrain": [], "torch": []}, {}
    for _ in range(o.rounds):
        for name, command in (("torch", theirs), ("libtrain", ours)):
            with Server(command, threads) as server:
                settings[name] = server.settings
                block(o, server)
                times[name] += block(o, server)
    return times, settings


def compare_together(o, libtrain, torch):
    times = {"libtrain": [], "torch": []}
    order = [("libtrain", libtrain), ("torch", torch)]
    for round in range(o.rounds + 1):
        for name, server in order:
            ms = block(o, server)
            times[name] += ms if round > 0 else []
        order.reverse()
    return times, {"libtrain": libtrain.settings, "torch": torch.settings}


def compare(o, model, dtype):
    """Yields one row per strategy for one model and dtype."""
    threads = {"OMP_NUM_THREADS": str(o.threads)}

    def row(strategy, times, settings):
        result = {"model": model, "dtype": dtype, "strategy": strategy, "ranks": o.ranks}
        result["settings"] = {name: {key: value for key, value in own.items() if key != "configuration"}
                              for name, own in settings.items()}
        command = dict(zip(("libtrain", "torch"), commands(o, model, dtype, strategy)))
        result |= {name: {**summary(ms), "command": command[name], "configuration": settings[name]["configuration"]}
                   for name, ms in times.items()}
        result["ratio"] = result["torch"]["median_ms"] / result["libtrain"]["median_ms"]
        return result

    if o.apart:
        for strategy in o.strategy:
            yield row(strategy, *compare_apart(o, *commands(o, model, dtype, strategy), threads))
        return
    for peer in dict.fromkeys(PEER_STRATEGY[strategy] for strategy in o.strategy):
        same = [strategy for strategy in o.strategy if PEER_STRATEGY[strategy] == peer]
        # Start the peer first: it compiles and times its candidates while nothing else runs.
        with Server(commands(o, model, dtype, same[0])[1], threads) as torch:
            for strategy in same:
                with Server(commands(o, model, dtype, strategy)[0], threads) as libtrain:
                    yield row(strategy, *compare_together(o, libtrain, torch))


def cpu_name():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def print_row(r):
    cells = [" ".join(f"{r[name][key]:8.2f}" for key in ("median_ms", "min_ms", "max_ms")) for name in ("libtrain", "torch")]
    how = r["settings"]["torch"]
    kind = how.get("precision", how.get("strategy"))
    peaks = [r["settings"][name].get("peak_bytes") for name in ("libtrain", "torch")]
    memory = f"  {peaks[0] / 2**30:.1f} / {peaks[1] / 2**30:.1f} GiB" if None not in peaks else ""
    print(f"{r['model']:11} {r['dtype']:5} {r['strategy']:6} | {cells[0]} | {cells[1]} | {r['ratio']:5.2f} x  "
          f"{how.get('variant', how['mode'])}, {kind}{memory}", flush=True)


def require_writable(path):
    """Says so before anything is measured. A file that is there stays."""
    try:
        open(path, "a").close()
    except OSError as error:
        raise SystemExit(f"--out={path}: {error.strerror}") from None


def save(o, results):
    document = {"command": sys.argv, "cpu": cpu_name(), "load_average": os.getloadavg(), "device": o.device, "batch": o.batch,
                "seq": o.seq, "threads": o.threads, "rounds": o.rounds, "steps": o.steps, "warm": o.warm, "apart": o.apart,
                "recompute": o.recompute, "results": results}
    with open(o.out, "w") as f:
        json.dump(document, f, indent=2)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ltrain", required=True, help="the program")
    p.add_argument("--python", default=sys.executable, help="a Python that has torch")
    p.add_argument("--model", nargs="+", default=["gpt-tiny", "llama-tiny"])
    p.add_argument("--dtype", nargs="+", default=["f32", "bf16"])
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--ranks", type=int, default=1, help="on cuda, of one host")
    p.add_argument("--strategy", nargs="+", choices=list(PEER_STRATEGY), default=["ddp"], help="on cuda")
    p.add_argument("--recompute", choices=("none", "selective", "full"), default="none",
                   help="of libtrain; PyTorch's compiler decides for itself")
    p.add_argument("--mpirun", default="", help="options of mpirun, in one argument")
    p.add_argument("--mode", choices=("eager", "compile", "best"), default="best",
                   help="of PyTorch; on several GPUs `best` is for its DDP")
    p.add_argument("--variant-seconds", type=int, default=900, metavar="S", help="on cuda, for each of PyTorch's variants")
    p.add_argument("--variants", nargs="+", default=[], metavar="NAME", help="on cuda, what PyTorch's `best` chooses from")
    p.add_argument("--batch", type=int, default=8, help="samples a step")
    p.add_argument("--seq", type=int, default=256, help="tokens of a sample")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5, help="blocks of each program")
    p.add_argument("--steps", type=int, default=20, help="timed steps of a block")
    p.add_argument("--warm", type=int, help="steps before them; without it 1, on cuda 10")
    p.add_argument("--apart", action="store_true", help="start the programs anew for each block")
    p.add_argument("--out", help="file for the results as JSON")
    o = p.parse_args()
    o.warm = (10 if o.device == "cuda" else 1) if o.warm is None else o.warm
    if min(o.rounds, o.steps, o.ranks) < 1 or o.warm < 0:
        p.error("--rounds, --steps and --ranks: expected at least 1, --warm: at least 0")
    if o.device == "cpu" and (o.ranks > 1 or o.strategy != ["ddp"] or o.mpirun):
        p.error("--ranks, --strategy and --mpirun are for --device cuda; compare_ranks.py compares ranks on the CPU")
    if o.out:
        require_writable(o.out)
    print(f"{'':24} | {'libtrain ms':^26} | {'PyTorch ms':^26} | PyTorch / libtrain")
    print(f"{'model':11} {'dtype':5} {'':6} | {'median':>8} {'min':>8} {'max':>8} | {'median':>8} {'min':>8} {'max':>8} |")
    results = []
    for dtype in o.dtype:
        for model in o.model:
            for result in compare(o, model, dtype):
                results.append(result)
                print_row(result)
                if o.out:
                    save(o, results)


if __name__ == "__main__":
    main()
