#!/usr/bin/env python3
"""Trains a PyTorch twin of a libtrain run (eager; f32 on the CPU unless asked) and prints step, loss and grad_norm as JSON
lines.

The twin starts from the weights that `ltrain checkpoint export DIR --format safetensors --out HF` wrote and reads the
same token file in file order (libtrain runs with --data.shuffle=false). Everything else follows docs/explanation/numerics.md: the
loss is the mean over the targets of the global batch that are not ignored, grad_norm the global L2 norm before clipping.

    twin.py --hf HF --train train.bin --seq 128 --micro-batch 4 --steps 50 --lr 1e-3 --warmup 10 --out twin.jsonl
    twin.py --hf HF --check-hf      # own logits against those of `transformers` for the same folder

parity.py writes the committed fixtures.
"""

import argparse
import glob
import json
import math
import os
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "peers"))
import torch_models  # noqa: E402

TOKEN_DTYPES = {(20240520, 1): "<u2", (20240801, 7): "<u4"}  # (magic, version) of a token file


def read_tokens(path, raw16):
    if raw16:
        return np.fromfile(path, "<u2").astype(np.int64)
    header = np.fromfile(path, "<i4", 256)
    kind = tuple(int(x) for x in header[:2])
    if len(header) < 256 or kind not in TOKEN_DTYPES:
        raise SystemExit(f"{path}: offset 0: expected (magic, version) of {list(TOKEN_DTYPES)}, got {kind}")
    tokens = np.fromfile(path, TOKEN_DTYPES[kind], offset=1024)
    if len(tokens) != header[2]:
        raise SystemExit(f"{path}: expected {header[2]} tokens, got {len(tokens)}")
    return tokens.astype(np.int64)


def read_targets(path, tokens):
    """The tokens as targets: -100 where the mask beside the file says that they do not count."""
    mask = os.path.splitext(path)[0] + ".mask"
    if not os.path.exists(mask):
        return tokens
    counted = np.unpackbits(np.fromfile(mask, "u1", offset=1024), count=len(tokens), bitorder="little")
    return np.where(counted == 1, tokens, -100)


class Blocks:
    """Sample i of an unbroken run over the epochs: block i mod count, files in order, seq + 1 tokens."""

    def __init__(self, patterns, seq, raw16):
        files = [p for pattern in patterns for p in sorted(glob.glob(pattern)) or [pattern]]
        self.rows = []
        for path in files:
            tokens = read_tokens(path, raw16)
            targets = read_targets(path, tokens)
            for begin in range(0, (len(tokens) - 1) // seq * seq, seq):
                self.rows.append((tokens[begin : begin + seq], targets[begin + 1 : begin + seq + 1]))
        if not self.rows:
            raise SystemExit(f"{files}: shorter than one sequence of {seq} tokens")

    def batch(self, first, count):
        rows = [self.rows[i % len(self.rows)] for i in range(first, first + count)]
        return tuple(torch.from_numpy(np.stack(part)) for part in zip(*rows))


def learning_rate(o, n):
    """Of step n, from 1."""
    min_lr = o.lr / 10 if o.min_lr is None else o.min_lr
    if n <= o.warmup:
        return o.lr * n / o.warmup
    p = (n - o.warmup) / (o.steps - o.warmup)
    return {"constant": o.lr, "linear": o.lr + (min_lr - o.lr) * p,
            "cosine": min_lr + (o.lr - min_lr) * (1 + math.cos(math.pi * p)) / 2}[o.schedule]


def matrices_of(name, shape):
    """The rows of each matrix of a block that a parameter holds; none where it is no such matrix."""
    if not name.startswith("blocks.") or not name.endswith("weight") or "norm" in name:
        return []
    head = shape.head
    return {"qkv": [shape.heads * head, shape.kv_heads * head, shape.kv_heads * head], "proj": [shape.width],
            "gate_up": [shape.ffn, shape.ffn], "up": [shape.ffn], "down": [shape.width]}[name.split(".")[-2]]


def orthogonalised(u):
    """Five Newton-Schulz steps of u / |u|."""
    x = u / (u.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


def muon_step(o, p, g, momentum, lr, rows):
    """B = momentum B + g, U = g + momentum B, w -= lr * (0.2 sqrt(max(rows, columns)) O(U) + decay * w)."""
    momentum.mul_(o.momentum).add_(g)
    for w, u in zip(p.split(rows), (g + o.momentum * momentum).split(rows)):
        w.sub_(0.2 * math.sqrt(max(u.shape)) * orthogonalised(u) + o.weight_decay * w, alpha=lr)


@torch.no_grad()
def optimizer_step(o, parameters, moments, n, shape):
    """w -= lr * (mhat / (sqrt(vhat) + eps) + decay * w), gradients scaled to the clip, or Muon's step of the matrices of
    blocks; returns the norm before it."""
    norm = math.sqrt(sum(p.grad.double().square().sum().item() for _, p in parameters))
    scale = min(1.0, o.clip / norm) if o.clip > 0 and norm > 0 else 1.0
    lr = learning_rate(o, n)
    for (name, p), (m, v) in zip(parameters, moments):
        g = p.grad * scale
        rows = matrices_of(name, shape) if o.name == "muon" else []
        if rows:
            muon_step(o, p, g, m, lr, rows)
            continue
        m.mul_(o.beta1).add_(g, alpha=1 - o.beta1)
        v.mul_(o.beta2).addcmul_(g, g, value=1 - o.beta2)
        update = (m / (1 - o.beta1**n)) / ((v / (1 - o.beta2**n)).sqrt() + o.eps)
        if p.dim() >= 2:
            update += o.weight_decay * p
        p.sub_(update, alpha=lr)
    return norm


def loss_of(o, model, inputs, targets):
    """The sum over the counted targets. In bf16 the matmuls take rounded copies of the f32 parameters; the loss is f32."""
    if o.dtype == "f32":
        logits = model(inputs).flatten(0, 1)
    else:
        rounded = {name: p.bfloat16() for name, p in model.named_parameters()}
        logits = torch.func.functional_call(model, rounded, (inputs,), tie_weights=True).float().flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, targets.flatten(), reduction="sum", label_smoothing=o.label_smoothing)
    if o.z_loss > 0:
        loss = loss + o.z_loss * logits[targets.flatten() != -100].logsumexp(-1).square().sum()
    return loss


def train(o, model, out):
    blocks = Blocks(o.train, o.seq, o.raw16)
    parameters = list(model.named_parameters())
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for _, p in parameters]
    micro_batches = o.ranks * o.accum
    batch = micro_batches * o.micro_batch
    for n in range(1, o.steps + 1):
        loss = 0.0
        model.zero_grad(set_to_none=True)
        parts = [blocks.batch((n - 1) * batch + i * o.micro_batch, o.micro_batch) for i in range(micro_batches)]
        counted = sum(int((targets != -100).sum()) for _, targets in parts)
        for inputs, targets in parts:
            part = loss_of(o, model, inputs.to(o.device), targets.to(o.device)) / counted
            part.backward()
            loss += part.item()
        norm = optimizer_step(o, parameters, moments, n, model.shape)
        print(json.dumps({"step": n, "loss": loss, "grad_norm": norm}), file=out, flush=True)


def check_hf(o, model):
    """Logits of random tokens, ours and those of transformers, over the whole context."""
    import transformers

    theirs = transformers.AutoModelForCausalLM.from_pretrained(o.hf, dtype=torch.float32).eval()
    tokens = torch.randint(0, model.shape.vocab, (2, model.shape.max_seq), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        a, b = model(tokens), theirs(tokens).logits
    difference = ((a - b).abs().max() / b.abs().max()).item()
    print(f"logits: largest difference {difference:.3g} of the largest value {b.abs().max().item():.4g}")
    return difference < 1e-5


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hf", required=True, help="folder with config.json and model.safetensors: the initial weights")
    p.add_argument("--check-hf", action="store_true", help="compare logits with transformers and exit (1: they differ)")
    p.add_argument("--train", nargs="+", help="token files or glob patterns, read in order")
    p.add_argument("--raw16", action="store_true", help="token files are headerless uint16")
    for name, default in (("seq", None), ("micro-batch", 8), ("accum", 1), ("ranks", 1), ("steps", 50), ("warmup", 0)):
        p.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("lr", 3e-4), ("min-lr", None), ("beta1", 0.9), ("beta2", 0.95), ("eps", 1e-8),
                          ("weight-decay", 0.1), ("clip", 1.0), ("momentum", 0.95), ("z-loss", 0.0),
                          ("label-smoothing", 0.0)):
        p.add_argument(f"--{name}", type=float, default=default)
    p.add_argument("--name", choices=("adamw", "muon"), default="adamw", help="optimizer")
    p.add_argument("--schedule", choices=("cosine", "linear", "constant"), default="cosine")
    p.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="of computation; parameters stay f32")
    p.add_argument("--device", default="cpu", help="cpu or cuda")
    p.add_argument("--f64", action="store_true", help="compute in f64: what is left of a difference is libtrain's own")
    p.add_argument("--threads", type=int, default=1, help="more than one crawls on a machine that is busy")
    p.add_argument("--out", help="file for the JSON lines (default: standard output)")
    return p.parse_args()


def main():
    o = options()
    torch.set_num_threads(o.threads)
    model = torch_models.load_hf(o.hf)
    if o.check_hf:
        sys.exit(0 if check_hf(o, model) else 1)
    if not o.train:
        raise SystemExit("--train: missing")
    o.seq = o.seq or model.shape.max_seq
    if o.f64:
        model.double()
    model.to(o.device)
    with open(o.out, "w") if o.out else os.fdopen(os.dup(1), "w") as out:
        train(o, model, out)


if __name__ == "__main__":
    main()
