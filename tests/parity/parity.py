#!/usr/bin/env python3
"""Trains small models with `ltrain` and compares them with PyTorch: 50 steps with AdamW, and 20 steps with Muon, with
further families and with ignored targets.

    parity.py --ltrain build/ltrain --work DIR                  # against the committed fixtures
    parity.py --ltrain build/ltrain --work DIR --twin PYTHON    # and with the twin, run by a Python that has torch
    parity.py --ltrain build/ltrain --work DIR --twin auto      # the same with this Python, if it has torch
    parity.py --ltrain build/ltrain --work DIR --twin PYTHON --write-fixtures   # keep what the twin prints
    parity.py --ltrain build/ltrain --work DIR --twin auto --device cuda --dtype bf16 --tolerance 1e-3 --norm-tolerance 1e-2

The data is the repository's LICENSE as bytes, in file order. The fixtures, gpt-tiny.jsonl and so on, must be written anew
when SETTINGS, the presets or the initial weights of a seed change.
"""

import argparse
import importlib.util
import os
import shutil
import struct
import subprocess
import sys

from compare import compare

HERE = os.path.dirname(os.path.abspath(__file__))
# (fixture, model, what differs from SETTINGS)
CASES = (("gpt-tiny", "gpt-tiny", {}), ("llama-tiny", "llama-tiny", {}),
         ("gpt-tiny-muon", "gpt-tiny", {"optim.name": "muon", "train.steps": 20}),
         ("llama-tiny-muon", "llama-tiny", {"optim.name": "muon", "train.steps": 20}),
         ("mistral", "llama-tiny", {"model.family": "mistral", "model.window": 40, "train.steps": 20}),
         ("qwen3", "llama-tiny", {"model.family": "qwen3", "model.head_dim": 48, "train.steps": 20}),
         ("masked", "llama-tiny", {"train.z_loss": 1e-3, "train.label_smoothing": 0.1, "train.steps": 20}))
# Both programs take them: `--section.key=value` for ltrain, the last part with dashes for the twin.
SETTINGS = {"train.seq": 128, "train.micro_batch": 4, "train.accum": 2, "train.steps": 50, "optim.lr": 1e-3,
            "optim.min_lr": 1e-4, "optim.warmup": 5, "optim.schedule": "cosine", "optim.beta1": 0.9,
            "optim.beta2": 0.95, "optim.eps": 1e-8, "optim.weight_decay": 0.1, "optim.clip": 1.0, "optim.name": "adamw", "optim.momentum": 0.95}


def masked(data, folder):
    """A copy of a token file in which runs of 37 targets count, with runs of 74 between them that do not."""
    os.makedirs(folder)
    copy = shutil.copyfile(data, os.path.join(folder, "train.bin"))
    with open(data, "rb") as file:
        count = struct.unpack("<3i", file.read(12))[2]
    bits = bytearray((count + 7) // 8)
    for i in range(count):
        bits[i // 8] |= (i // 37 % 3 == 0) << i % 8
    with open(os.path.join(folder, "train.mask"), "wb") as file:
        file.write(struct.pack("<256i", 20261124, 1, count, *[0] * 253) + bits)
    return copy


def run(*command):
    print("+", " ".join(command), flush=True)
    subprocess.run(command, check=True)


def sees_gpu(python):
    """Asks torch, so that a GPU which ltrain alone does not find is a failure."""
    command = (python, "-c", "import torch; print(torch.cuda.is_available())")
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip() == "True"


def check_case(o, name, model, different, data):
    common = {**SETTINGS, **different}
    if name == "masked":
        data = masked(data, os.path.join(o.work, name, "data"))
    if o.dtype != "f32":
        common["train.steps"] = 10  # roundings grow with the steps
    steps = common["train.steps"]

    def train(folder, **changes):
        settings = {**common, "model.preset": model, "data.train": data, "data.shuffle": "false",
                    "train.dtype": o.dtype, "train.device": o.device, "run.dir": os.path.join(o.work, name, folder), **changes}
        run(o.ltrain, "train", *(f"--{key}={value}" for key, value in settings.items()))
        return settings["run.dir"]

    metrics = os.path.join(train("run"), "metrics.jsonl")
    fixture = os.path.join(HERE, f"{name}.jsonl")
    good = True
    if o.twin:
        hf, twin = os.path.join(o.work, name, "hf"), os.path.join(o.work, name, "twin.jsonl")
        run(o.ltrain, "checkpoint", "export", train("initial", **{"train.steps": 0}), "--format", "safetensors",
            "--out", hf)
        arguments = (f"--{key.split('.')[1].replace('_', '-')}={value}" for key, value in common.items()
                     if not key.startswith("model."))  # the exported folder says what the model is
        run(o.twin, os.path.join(HERE, "twin.py"), "--hf", hf, "--train", data, "--out", twin, "--dtype", o.dtype,
            "--device", o.device, *arguments)
        good = compare(metrics, twin, o.tolerance, o.norm_tolerance, steps)
        if good and o.write_fixtures:
            shutil.copyfile(twin, fixture)
    if o.dtype != "f32":  # fixtures are f32
        return good
    return compare(metrics, fixture, o.tolerance, o.norm_tolerance, steps) and good


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ltrain", required=True, help="the program")
    p.add_argument("--work", required=True, help="folder for runs; emptied first")
    p.add_argument("--twin", metavar="PYTHON|auto", help="a Python with torch, numpy and safetensors")
    p.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="bf16: against the twin alone")
    p.add_argument("--device", default="cpu", help="of both: cpu or cuda")
    p.add_argument("--write-fixtures", action="store_true", help="keep the twin's lines (needs --twin)")
    p.add_argument("--tolerance", type=float, default=1e-4)
    p.add_argument("--norm-tolerance", type=float, default=1e-3)
    o = p.parse_args()
    if o.twin == "auto":
        has_all = all(importlib.util.find_spec(name) for name in ("torch", "numpy", "safetensors"))
        o.twin = sys.executable if has_all else None
        print("the twin:", o.twin or "not run, this Python lacks torch, numpy or safetensors")
    if o.dtype != "f32" and not o.twin:
        print("skipped: bf16 has no fixtures and this Python no torch")
        sys.exit(77)
    if o.device == "cuda" and o.twin and not sees_gpu(o.twin):
        print("skipped: torch finds no CUDA device")
        sys.exit(77)
    if o.write_fixtures and not o.twin:
        p.error("--write-fixtures needs --twin")
    shutil.rmtree(o.work, ignore_errors=True)
    os.makedirs(o.work)
    data = os.path.join(o.work, "data")
    run(o.ltrain, "prepare", "--input", os.path.join(HERE, "..", "..", "LICENSE"), "--tokenizer", "byte", "--out", data)
    results = [check_case(o, *case, os.path.join(data, "train.bin")) for case in CASES]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
