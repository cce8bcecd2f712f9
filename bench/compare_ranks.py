#!/usr/bin/env python3
"""Times a training step of one process with T threads against T ranks of one thread under each strategy.

    compare_ranks.py --ltrain build/cpu/ltrain --model gpt-tiny llama-tiny

All have the same global batch. All programs are started once and then run in turn, in alternating blocks. The programs
that wait for their turn are stopped (SIGSTOP), because a rank that waits in MPI spins. Needs the standard library only.
"""

import argparse
import json
import os
import signal
import statistics
import sys

from compare_step import Server, require_writable, summary

STRATEGIES = ("ddp", "zero1", "zero2", "zero3")
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]


def ranks_of(pid):
    """The processes under `pid` that have no children: the ranks, without the launcher."""
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as f:
                parent = int(f.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry))
    tree = [pid]
    for process in tree:
        tree += children.get(process, [])
    return [process for process in tree if process not in children]


def send(server, sig):
    for pid in ranks_of(server.process.pid):
        os.kill(pid, sig)


def measure(o, model):
    step = [o.ltrain, "bench", "step", f"--model.preset={model}", f"--train.dtype={o.dtype}", f"--train.seq={o.seq}"]
    programs = {"one process": (step + [f"--train.micro_batch={o.batch}", "--serve"], o.threads)}
    for strategy in STRATEGIES:
        programs[strategy] = (MPIRUN + ["-n", str(o.threads)] + step +
                              [f"--train.micro_batch={o.batch // o.threads}", f"--parallel.strategy={strategy}", "--serve"], 1)
    servers, times = {}, {name: [] for name in programs}
    try:
        for name, (command, threads) in programs.items():
            servers[name] = Server(command, {"OMP_NUM_THREADS": str(threads)}).__enter__()
            send(servers[name], signal.SIGSTOP)
        for _ in range(o.rounds):
            for name, server in servers.items():
                send(server, signal.SIGCONT)
                server.run(2)  # warm-up: the caches hold another program's data
                times[name] += server.run(o.steps)
                send(server, signal.SIGSTOP)
    finally:
        for server in servers.values():
            send(server, signal.SIGCONT)
            server.__exit__()
    return {name: {**summary(ms), "command": servers[name].command, "settings": servers[name].settings}
            for name, ms in times.items()}


def save(o, results):
    with open(o.out, "w") as f:
        json.dump({"command": sys.argv, "settings": vars(o), "results": results}, f, indent=2)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ltrain", required=True, help="the program")
    p.add_argument("--model", nargs="+", default=["gpt-tiny", "llama-tiny"])
    p.add_argument("--dtype", default="f32")
    p.add_argument("--batch", type=int, default=8, help="samples a step, over all ranks")
    p.add_argument("--seq", type=int, default=256, help="tokens of a sample")
    p.add_argument("--threads", type=int, default=2, help="of the one process, and number of ranks")
    p.add_argument("--rounds", type=int, default=8, help="blocks of each program")
    p.add_argument("--steps", type=int, default=15, help="timed steps of a block")
    p.add_argument("--out", help="file for the results as JSON")
    o = p.parse_args()
    if o.threads < 1 or o.batch < 1 or o.batch % o.threads:
        p.error(f"--batch={o.batch}: expected a multiple of --threads={o.threads}")
    if o.out:
        require_writable(o.out)
    results = {}
    print(f"{'model':11} {'':11} | {'median':>8} {'min':>8} {'max':>8} ms | rate / one process | rate / DDP")
    for model in o.model:
        results[model] = measure(o, model)
        alone, ddp = (results[model][name]["median_ms"] for name in ("one process", "ddp"))
        for name, r in results[model].items():
            cells = " ".join(f"{r[key]:8.2f}" for key in ("median_ms", "min_ms", "max_ms"))
            print(f"{model:11} {name:11} | {cells}    | {alone / r['median_ms']:18.2f} | {ddp / r['median_ms']:10.2f}", flush=True)
        if o.out:
            save(o, results)


if __name__ == "__main__":
    main()
