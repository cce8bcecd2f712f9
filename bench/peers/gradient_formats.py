#!/usr/bin/env python3
"""Compares e4m3 and e5m2 for the gradients that an FP8 run multiplies: how far the products of both are from those of bf16,
and how far a model learns with each. Emulates the scheme of docs/numerics.md in PyTorch on the CPU; all other factors are in e4m3.

    gradient_formats.py FILE... [--steps 600]      FILE: text to learn, byte by byte
"""

import argparse
import math
import statistics

import torch

import torch_models

FORMATS = {"e4m3": (torch.float8_e4m3fn, 448.0), "e5m2": (torch.float8_e5m2, 57344.0)}
BATCH, SEQ, EVALUATIONS = 8, 128, 40


def rounded(x, name, of_rows):
    """The values of x as `name` holds them, with a scale for each row or one for all."""
    dtype, most = FORMATS[name]
    largest = x.abs().amax(dim=1, keepdim=True) if of_rows else x.abs().amax()
    scale = torch.exp2(torch.ceil(torch.log2(largest.clamp(min=1e-30) / most)))
    return (x / scale).to(dtype).float() * scale


def of_one_scale(x, name):
    """As a transpose holds the values: those with scales of rows, moved to the largest scale."""
    return rounded(rounded(x, name, True), name, False)


def input_gradient(dy, w, name):
    return rounded(dy, name, True) @ of_one_scale(w, "e4m3")


def weight_gradient(dy, x, name):
    return of_one_scale(dy, name).T @ of_one_scale(x, "e4m3")


def decibels(exact, result):
    """The signal-to-quantization-noise ratio."""
    return 10 * math.log10(float((exact**2).sum() / ((exact - result) ** 2).sum()))


class Linear(torch.autograd.Function):
    """x @ w.T + bias. `gradients` names the format of dy, or is None: f32. With `ratios`, backward appends the ratios."""

    gradients, ratios = None, None

    @staticmethod
    def forward(ctx, x, w, bias):
        rows = x.reshape(-1, x.shape[-1])
        ctx.save_for_backward(rows, w)
        ctx.shape, ctx.has_bias = x.shape, bias is not None
        y = rows @ w.T if Linear.gradients is None else rounded(rows, "e4m3", True) @ rounded(w, "e4m3", True).T
        return (y if bias is None else y + bias).reshape(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dy = dy.reshape(-1, dy.shape[-1])
        if Linear.ratios is not None:
            d, inputs, weights = (t.bfloat16().float() for t in (dy, x, w))
            for name in FORMATS:
                Linear.ratios[name, "dx"].append(decibels(d @ weights, input_gradient(d, weights, name)))
                Linear.ratios[name, "dW"].append(decibels(d.T @ inputs, weight_gradient(d, inputs, name)))
        if Linear.gradients is None:
            dx, dw = dy @ w, dy.T @ x
        else:
            dx, dw = input_gradient(dy, w, Linear.gradients), weight_gradient(dy, x, Linear.gradients)
        return dx.reshape(ctx.shape), dw, dy.sum(0) if ctx.has_bias else None


def make_model(preset):
    torch.manual_seed(7)
    model = torch_models.Model(torch_models.PRESETS[preset])
    for block in model.blocks:
        for layer in block.modules():
            if isinstance(layer, torch.nn.Linear):
                layer.forward = lambda x, layer=layer: Linear.apply(x, layer.weight, layer.bias)
    return model


def batch(tokens, generator):
    begins = torch.randint(0, len(tokens) - SEQ - 1, (BATCH,), generator=generator)
    rows = torch.stack([tokens[begin:begin + SEQ + 1] for begin in begins])
    return rows[:, :-1], rows[:, 1:]


def train(preset, tokens, steps, gradients):
    """Trains, prints the ratios of three steps of an f32 run, and returns the validation loss."""
    model, generator = make_model(preset), torch.Generator().manual_seed(3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    learned, held_back = tokens[:len(tokens) * 9 // 10], tokens[len(tokens) * 9 // 10:]
    Linear.gradients = gradients
    for step in range(steps + 1):
        if gradients is None and step in (0, steps // 2, steps):
            Linear.ratios = {(name, product): [] for name in FORMATS for product in ("dx", "dW")}
        optimizer.zero_grad()
        model(*batch(learned, generator)).backward()
        for (name, product), ratios in (Linear.ratios or {}).items():
            print(f"{preset}, step {step}, dy in {name}: {product} {statistics.median(ratios):.1f} dB, at least "
                  f"{min(ratios):.1f}", flush=True)
        Linear.ratios = None
        torch.nn.utils.clip_grad_norm_(model.parameters(), torch_models.CLIP)
        optimizer.step()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        return statistics.mean(float(model(*batch(held_back, generator))) for _ in range(EVALUATIONS))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", nargs="+", metavar="FILE")
    p.add_argument("--steps", type=int, default=600)
    o = p.parse_args()
    tokens = torch.tensor(list(b"".join(open(path, "rb").read() for path in o.files)))
    for preset in ("gpt-tiny", "llama-tiny"):
        for gradients in (None, *FORMATS):
            loss = train(preset, tokens, o.steps, gradients)
            print(f"{preset}, {o.steps} steps, {'f32' if gradients is None else 'FP8, dy in ' + gradients}: validation loss "
                  f"{loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
