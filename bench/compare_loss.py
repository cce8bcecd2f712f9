#!/usr/bin/env python3
"""Trains gpt2-124m with libtrain and with PyTorch on the same data and writes both loss curves to one JSON file.

    compare_loss.py corpus --ltrain LTRAIN --folder FOLDER      text of this Python's packages -> tokenizer, train.bin
    compare_loss.py libtrain --ltrain LTRAIN --folder FOLDER    initial weights, then the run of libtrain
    compare_loss.py torch --folder FOLDER                       the run of PyTorch
    compare_loss.py result --folder FOLDER --out FILE.json      both curves, means of ten steps

The corpus is the .py, .md, .rst and .txt files of the installed packages, cut into pieces of about 4 KB in an order by a
fixed seed, and a byte-level BPE of 50,257 tokens trained on it. Both programs start from the same weights, read the same
blocks in the same order, and take the same learning rates. PyTorch runs in its fastest form on one GPU: bf16 autocast,
the whole model compiled, fused AdamW. Needs torch, numpy, safetensors and tokenizers.
"""

import argparse
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import sysconfig
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))

MODEL, BATCH, SEQ, LR = "gpt2-124m", 64, 1024, 6e-4
PIECE_BYTES, MOST_BYTES = 4096, 160_000_000
TRAIN = [f"--model.preset={MODEL}", "--data.shuffle=false", "--train.dtype=bf16", f"--train.micro_batch={BATCH}",
         f"--train.seq={SEQ}", f"--optim.lr={LR}", "--train.device=cuda"]


def run(command, **more):
    print("$", " ".join(map(str, command)), flush=True)
    subprocess.run(list(map(str, command)), check=True, **more)


def pieces():
    """The files in the order of their paths, cut at line ends."""
    packages = pathlib.Path(sysconfig.get_paths()["purelib"])
    files = sorted(path for ending in ("py", "md", "rst", "txt") for path in packages.rglob(f"*.{ending}") if path.is_file())
    size = 0
    for path in files:
        try:
            text = path.read_text()
        except (UnicodeDecodeError, OSError):
            continue
        begin = 0
        while begin < len(text) and size < MOST_BYTES:
            end = text.find("\n", begin + PIECE_BYTES) + 1 or len(text)
            yield text[begin:end]
            size += end - begin
            begin = end


def corpus(o):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    texts = sorted(set(pieces()))
    random.Random(1).shuffle(texts)
    o.folder.mkdir(parents=True, exist_ok=True)
    (o.folder / "corpus.txt").write_text("".join(texts))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts[: len(texts) // 4], trainers.BpeTrainer(
        vocab_size=50257, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.save(str(o.folder / "tokenizer.json"))
    run([o.ltrain, "prepare", "--input", o.folder / "corpus.txt", "--tokenizer", o.folder / "tokenizer.json", "--out",
         o.folder / "data", "--val-fraction", "0", "--force"])


def train_libtrain(o):
    data = [f"--data.train={o.folder}/data/train.bin"]
    run([o.ltrain, "train", *TRAIN, *data, "--train.steps=0", f"--run.dir={o.folder}/start"])
    run([o.ltrain, "checkpoint", "export", o.folder / "start", "--format", "safetensors", "--out", o.folder / "start-hf"])
    begin = time.time()
    run([o.ltrain, "train", *TRAIN, *data, f"--train.steps={o.steps}", f"--optim.warmup={o.steps // 10}",
         f"--run.dir={o.folder}/libtrain"])
    (o.folder / "libtrain.seconds").write_text(str(time.time() - begin))


def learning_rate(n, steps):
    """For step n, counted from 1: warm-up, then a cosine to a tenth (libtrain's default)."""
    warmup = steps // 10
    if n <= warmup:
        return LR * n / warmup
    return LR / 10 + LR * 0.9 * (1 + math.cos(math.pi * (n - warmup) / (steps - warmup))) / 2


def train_torch(o):
    import numpy as np
    import torch
    import torch_models

    begin = time.time()
    torch.cuda.set_device(0)
    torch.set_float32_matmul_precision("high")
    tokens = torch.from_numpy(np.fromfile(o.folder / "data/train.bin", "<u2", offset=1024).astype(np.int32)).cuda()
    blocks = (len(tokens) - 1) // SEQ
    model = torch_models.load_hf(str(o.folder / "start-hf")).cuda()
    optimizer = torch.optim.AdamW(torch_models.decay_groups(model.parameters(), torch_models.WEIGHT_DECAY),
                                  **torch_models.OPTIMIZER)
    compiled = torch.compile(model)
    places = torch.arange(SEQ, device="cuda")
    losses = torch.zeros(o.steps, device="cuda")
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(o.steps + 1)]
    marks[0].record()
    for n in range(1, o.steps + 1):
        first = torch.arange((n - 1) * BATCH, n * BATCH, device="cuda") % blocks * SEQ
        index = first[:, None] + places
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(n, o.steps)
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(tokens[index].long(), tokens[index + 1].long())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), torch_models.CLIP, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses[n - 1] = loss.detach()
        marks[n].record()
        if n % 100 == 0:
            print(f"step {n} | loss {losses[n - 1].item():.4f}", flush=True)
    torch.cuda.synchronize()
    steps = [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]
    (o.folder / "torch.json").write_text(json.dumps({"version": torch.__version__, "loss": losses.tolist(), "ms": steps,
                                                     "all_seconds": time.time() - begin}))


def series(name, loss, ms, seconds):
    means = [round(statistics.fmean(loss[i : i + 10]), 5) for i in range(0, len(loss), 10)]
    return {"name": name, "steps": list(range(10, len(loss) + 1, 10)), "loss": means,
            "median_step_ms": round(statistics.median(ms), 2), "steps_seconds": round(sum(ms[20:]) / 1e3, 1),
            "all_seconds": round(seconds, 1)}


def result(o):
    rows = {}
    for line in (o.folder / "libtrain/metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        if "loss_hex" in row:
            rows[row["step"]] = row
    own = [rows[n] for n in range(1, o.steps + 1)]
    theirs = json.loads((o.folder / "torch.json").read_text())
    environment = json.loads((o.folder / "libtrain/env.json").read_text())
    both = [series("libtrain", [row["loss"] for row in own], [row["step_ms"] for row in own],
                   float((o.folder / "libtrain.seconds").read_text())),
            series(f"PyTorch {theirs['version'].split('+')[0]}", theirs["loss"], theirs["ms"], theirs["all_seconds"])]
    tokens = (o.folder / "data/train.bin").stat().st_size // 2 - 512
    o.out.write_text(json.dumps({
        "benchmark": "loss", "date": time.strftime("%Y-%m-%d", time.gmtime(environment["unix_time"])),
        "commit": environment["commit"], "machine": f"one {environment['gpu']}",
        "command": "python3 bench/compare_loss.py STAGE --ltrain LTRAIN --folder FOLDER, stages corpus, libtrain, torch, result",
        "model": MODEL, "tokens_per_step": BATCH * SEQ,
        "corpus": f"{tokens:,} tokens of the text of installed Python packages, {o.steps * BATCH * SEQ / tokens:.1f} epochs",
        "libtrain": " ".join(TRAIN), "peer": "bf16 autocast, the whole model compiled, fused AdamW", "series": both}, indent=1) + "\n")
    print(json.dumps([{k: v for k, v in one.items() if k not in ("loss", "steps")} for one in both]))
    print("largest difference after step 100:", max(abs(a - b) for a, b in zip(both[0]["loss"][10:], both[1]["loss"][10:])))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    stages = {"corpus": corpus, "libtrain": train_libtrain, "torch": train_torch, "result": result}
    p.add_argument("stage", choices=stages)
    p.add_argument("--ltrain", default="ltrain")
    p.add_argument("--folder", type=pathlib.Path, required=True, help="data and runs")
    p.add_argument("--steps", type=int, default=2000)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("loss.json"))
    o = p.parse_args()
    if o.steps < 10 or o.steps % 10 != 0:
        p.error(f"--steps: expected a multiple of ten, got {o.steps}")
    stages[o.stage](o)


if __name__ == "__main__":
    main()
