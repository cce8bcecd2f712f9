#!/usr/bin/env python3
"""Shows where the time of an f32 training step goes: groups the samples of `perf record` by kernel. Compares each group
with the processor's limit, which build/cpu/bench/bench_floor measures in the same call.

    step_profile.py --build build/cpu --model gpt-tiny llama-tiny

Times are per thread, averaged over the threads; they add up to the step. Needs perf and the standard library.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile

# Patterns for a sample's symbol or library. The first match counts.
GROUPS = [
    ("matmuls", r"JIT|dnnl|sgemm|gemm_onednn"),
    ("attention", r"attention_"),
    ("activations", r"gelu|swiglu"),
    ("norms", r"norm|Backward<"),
    ("optimizer", r"adamw|ema_update|step_numbers|update<|sum_squares"),
    ("embedding, rotation, loss, bias gradients", r"embedding|rope|cross_entropy|sum_rows|sum_all|convert|libm"),
    ("threads waiting for each other", r"libgomp"),
    ("everything else", r""),
]
SHAPES = {  # layers, width, FFN, columns of packed q k v, matrices in the FFN's first matmul
    "gpt-tiny": (4, 128, 512, 384, 1),
    "llama-tiny": (4, 128, 352, 256, 2),
}


def limits(model, flops, tokens, seq, floor):
    """Returns the least milliseconds possible per group: FLOPs over the multiply-add rate, bytes over the read rate."""
    layers, C, F, row, gates = SHAPES[model]
    attention = 7 * layers * tokens * seq * C  # two matmuls forward, five backward, the causal half of each
    counted = 6 * layers * tokens * seq * C    # attention's FLOPs as counted in `flops`
    passes = {  # elements read and written per token
        "activations": layers * F * (gates + 1 + 2 * gates + 1),
        "norms": (2 * layers + 1) * C * 6,
    }
    result = {name: 4 * elements * tokens / floor["read_32mb_gb_s"] * 1e-6 for name, elements in passes.items()}
    parameters = layers * (C * row + C * C + (gates + 1) * C * F) + 2 * 256 * C
    result["optimizer"] = 4 * 8 * parameters / floor["read_32mb_gb_s"] * 1e-6
    result["matmuls"] = (flops - counted) / floor["f32_gflops"] * 1e-6
    result["attention"] = attention / floor["f32_gflops"] * 1e-6
    return result


def profile(o, model, data):
    for needed in (os.path.join(o.build, "ltrain"), os.path.join(o.build, "bench", "bench_floor")):
        if not os.path.exists(needed):
            raise SystemExit(f"{needed}: not built; cmake --preset cpu && cmake --build build/cpu, then --build build/cpu")
    if shutil.which("perf") is None:
        raise SystemExit("perf is not installed (apt-get install linux-perf, or linux-tools-generic)")
    command = ["perf", "record", "-q", "-F", "499", "-o", data, os.path.join(o.build, "ltrain"), "bench", "step",
               f"--model.preset={model}", "--train.micro_batch=8", "--train.seq=256", f"--iterations={o.steps}"]
    step = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    report = subprocess.run(["perf", "report", "-i", data, "--stdio", "--no-children", "--sort", "dso,sym"], check=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    share = {name: 0.0 for name, _ in GROUPS}
    for line in report.splitlines():
        sample = re.match(r"\s*([\d.]+)%\s+(.*)", line)
        if sample:
            share[next(name for name, pattern in GROUPS if re.search(pattern, sample[2]))] += float(sample[1]) / 100
    total = sum(share.values())
    return step, {name: part / total * step["step_ms"]["median"] for name, part in share.items()}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", required=True, help="the folder of the build")
    p.add_argument("--model", nargs="+", default=list(SHAPES), choices=SHAPES)
    p.add_argument("--threads", default="2")
    p.add_argument("--steps", type=int, default=300)
    o = p.parse_args()
    os.environ["OMP_NUM_THREADS"] = o.threads
    floor = json.loads(subprocess.run([os.path.join(o.build, "bench", "bench_floor")], check=True, stdout=subprocess.PIPE).stdout)
    print(json.dumps(floor))
    for model in o.model:
        with tempfile.NamedTemporaryFile() as data:
            step, ms = profile(o, model, data.name)
        least = limits(model, step["flops_per_step"], step["tokens_per_step"], 256, floor)
        print(f"\n{model}: {step['step_ms']['median']:.1f} ms\n{'':42} {'ms':>6} {'share':>6} {'limit ms':>9} {'of limit':>9}")
        for name, value in ms.items():
            bound = f"{least[name]:9.2f} {least[name] / value:9.0%}" if name in least else f"{'-':>9} {'-':>9}"
            print(f"{name:42} {value:6.2f} {value / step['step_ms']['median']:6.1%} {bound}")


if __name__ == "__main__":
    main()
