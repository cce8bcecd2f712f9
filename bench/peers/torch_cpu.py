#!/usr/bin/env python3
"""Times a full PyTorch training step (forward, backward, clip, fused AdamW) on the CPU, for comparison with libtrain.

    torch_cpu.py --model gpt-tiny --dtype f32 --mode best --threads 2 --steps 30      # one JSON object
    torch_cpu.py --model gpt-tiny --dtype bf16 --serve                                # driven by bench/compare_step.py

Modes: eager, compile (torch.compile of forward, loss and backward), best (times both and keeps the faster).
bf16 has two variants: `autocast` (f32 parameters, bf16 matmuls) and `master` (bf16 parameters and gradients, f32 copies
for AdamW). --bf16 best times both and keeps the faster.

--serve: prints the settings as one JSON line when warm, then for each line "run N" of standard input runs N timed steps
and prints {"ms": [...]}; ends with the input. `ltrain bench step --serve` uses the same protocol.
"""

import argparse
import json
import platform
import statistics
import sys
import time

import torch

import torch_models


class Trainer:
    """One model with its optimizer; step() trains on one fixed batch and returns the milliseconds it took."""

    def __init__(self, o, mode, precision):
        torch.manual_seed(1)
        self.name = {"mode": mode, "precision": precision}
        self.autocast = precision == "autocast"
        self.shape = torch_models.PRESETS[o.model]
        model = torch_models.Model(self.shape)
        self.masters = None
        if precision == "master":
            self.masters = [p.detach().clone().requires_grad_() for p in model.parameters()]
            model.bfloat16()
        self.parameters = list(model.parameters())
        trained = self.masters or self.parameters
        self.optimizer = torch.optim.AdamW(torch_models.decay_groups(trained, torch_models.WEIGHT_DECAY),
                                           **torch_models.OPTIMIZER)
        self.model = torch.compile(model) if mode == "compile" else model
        tokens = torch.randint(0, self.shape.vocab, (o.batch, o.seq + 1))
        self.inputs, self.targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step(self):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = self.model(self.inputs, self.targets)
        loss.backward()
        if self.masters:
            for master, p in zip(self.masters, self.parameters):
                master.grad = p.grad.float()
        trained = self.masters or self.parameters
        torch.nn.utils.clip_grad_norm_(trained, torch_models.CLIP, foreach=True)
        self.optimizer.step()
        if self.masters:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.masters)
        for p in self.parameters:
            p.grad = None
        loss.item()
        return (time.perf_counter() - start) * 1e3

    def run(self, steps):
        return [self.step() for _ in range(steps)]


def choose(o):
    """Returns the warm trainer for the options; of several candidates, the one with the lowest median of `--steps`."""
    modes = ("eager", "compile") if o.mode == "best" else (o.mode,)
    precisions = ("f32",)
    if o.dtype == "bf16":
        precisions = ("autocast", "master") if o.bf16 == "best" else (o.bf16,)
    trainers = [Trainer(o, mode, precision) for mode in modes for precision in precisions]
    for trainer in trainers:
        trainer.run(o.warmup)
    times = [trainer.run(o.steps if len(trainers) > 1 else 0) for trainer in trainers]
    medians = [statistics.median(t) if t else 0.0 for t in times]
    tried = [{**trainer.name, "median_ms": round(m, 3)} for trainer, m in zip(trainers, medians)] if times[0] else []
    return trainers[medians.index(min(medians))], tried


def settings(o, trainer, tried):
    flags = torch.backends.cpu.get_cpu_capability()
    return {"program": "torch", "version": torch.__version__, "python": platform.python_version(), "model": o.model,
            "dtype": o.dtype, **trainer.name, "batch": o.batch, "seq": o.seq, "threads": o.threads,
            "warmup": o.warmup, "cpu_capability": flags, "tried": tried,
            "configuration": torch_models.configuration(o.model)}


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", choices=list(torch_models.PRESETS), default="gpt-tiny")
    p.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    p.add_argument("--mode", choices=("eager", "compile", "best"), default="best")
    p.add_argument("--bf16", choices=("autocast", "master", "best"), default="best", help="way of --dtype bf16")
    p.add_argument("--batch", type=int, default=8, help="samples a step")
    p.add_argument("--seq", type=int, default=256, help="tokens of a sample")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--steps", type=int, default=20, help="timed steps; of each candidate with `best`")
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--json", action="store_true", help="one line instead of an indented object")
    p.add_argument("--serve", action="store_true", help="take `run N` from standard input")
    return p.parse_args()


def serve(trainer):
    for line in sys.stdin:
        words = line.split()
        if len(words) != 2 or words[0] != "run" or not words[1].isdigit():
            raise SystemExit(f"standard input: expected `run N`, got {line!r}")
        print(json.dumps({"ms": trainer.run(int(words[1]))}), flush=True)


def main():
    o = options()
    torch.set_num_threads(o.threads)
    trainer, tried = choose(o)
    if o.serve:
        print(json.dumps(settings(o, trainer, tried)), flush=True)
        return serve(trainer)
    ms = trainer.run(o.steps)
    result = {**settings(o, trainer, tried), "steps": o.steps, "min_ms": min(ms), "median_ms": statistics.median(ms),
              "max_ms": max(ms), "tokens_per_s": o.batch * o.seq / statistics.median(ms) * 1e3}
    print(json.dumps(result, indent=None if o.json else 2))


if __name__ == "__main__":
    main()
