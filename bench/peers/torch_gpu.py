#!/usr/bin/env python3
"""Times PyTorch training steps (forward, backward, clip, fused AdamW) on CUDA devices, for comparison with libtrain.

    torch_gpu.py --model gpt2-124m --batch 64 --seq 1024 --steps 20                       # one device, one JSON object
    torch_gpu.py --ranks 4 --strategy fsdp2 --model llama-1b --batch 4 --seq 4096         # by torchrun, on this host
    torch_gpu.py ... --serve                                                              # driven by bench/compare_step.py

bf16: `ddp` (and one device) keeps f32 parameters and computes under autocast, with the model compiled as a whole.
`fsdp2` shards f32 parameters block by block (fully_shard), gathers them in bf16 and reduces gradients in f32, with each
block and the loss compiled. `zero2` is fsdp2 without resharding after the forward pass. Parameters outside blocks
(embedding, last norm, head) are needed again at once, so they are resharded after the backward pass only. --mode best
times the VARIANTS below that suit the strategy and the number of devices, but not max-autotune, whose search takes
longer than libtrain's default choice of algorithms: name it in --variants, and compare it with `ltrain bench tune`. Each
variant runs in separate processes, because a kernel that the compiler tries can end a process's use of the device. It
then continues with the fastest variant. The settings contain its name, the times of all variants and the failures. On
several devices, --mode best is for `ddp`.

fp8: like bf16, but the linear layers of blocks use torchao's float8 with one scale per tensor (`tensorwise`; fsdp2 then
gathers them in float8). On one device, the faster of that and scales per row. Needs torchao.

--serve: prints the settings as one JSON line when warm, then for each line "run N" of standard input runs N timed steps
and prints {"ms": [...]}; ends with the input. `ltrain bench step --serve` uses the same protocol.
"""

import argparse
import dataclasses
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist

import torch_models


# What can be trained with: dtype, strategy, what is compiled, mode of torch.compile, recipe of float8. "wrapped" compiles
# the model within DistributedDataParallel: its graph is cut where a bucket of gradients is complete.
VARIANTS = {"whole model, autocast": ("bf16", "ddp", "model", "default", None),
            "whole model with its wrapper, autocast": ("bf16", "ddp", "wrapped", "default", None),
            "blocks and loss, autocast": ("bf16", "ddp", "blocks", "default", None),
            "blocks and loss, bf16 parameters (fully_shard)": ("bf16", "fsdp2", "blocks", "default", None),
            "whole model, autocast, max-autotune": ("bf16", "ddp", "model", "max-autotune-no-cudagraphs", None),
            "blocks and loss, bf16 parameters (fully_shard), float8 tensorwise":
                ("fp8", "fsdp2", "blocks", "default", "tensorwise"),
            "blocks and loss, bf16 parameters (fully_shard), float8 rowwise": ("fp8", "fsdp2", "blocks", "default", "rowwise"),
            "whole model, autocast, float8 tensorwise": ("fp8", "ddp", "model", "default", "tensorwise"),
            "whole model with its wrapper, autocast, float8 tensorwise": ("fp8", "ddp", "wrapped", "default", "tensorwise"),
            "blocks and loss, autocast, float8 tensorwise": ("fp8", "ddp", "blocks", "default", "tensorwise"),
            "whole model, autocast, float8 rowwise": ("fp8", "ddp", "model", "default", "rowwise")}


def to_float8(model, recipe, gathers):
    """Converts the linear layers of blocks whose sizes float8 takes. `gathers`: fully_shard gathers them in float8."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    config = Float8LinearConfig.from_recipe_name(recipe)
    if recipe == "tensorwise":
        config = dataclasses.replace(config, enable_fsdp_float8_all_gather=gathers)
    convert_to_float8_training(model.blocks, config=config,
                               module_filter_fn=lambda layer, _: layer.in_features % 16 == 0 == layer.out_features % 16)


class Trainer:
    """One model with its optimizer; run(n) trains n steps on one fixed batch and returns their milliseconds."""

    def __init__(self, o, compiled="model", compiler="default", recipe=None):
        self.compiler = None if o.mode == "eager" else compiler
        torch.manual_seed(1)
        self.shape = torch_models.PRESETS[o.model]
        with torch.device("cuda"):
            model = torch_models.Model(self.shape)
        recipe = recipe or ("tensorwise" if o.dtype == "fp8" else None)
        self.gathers_float8 = recipe == "tensorwise" and o.strategy != "ddp"
        if recipe:
            to_float8(model, recipe, self.gathers_float8)
        self.autocast = o.strategy == "ddp"
        if o.strategy == "ddp":
            if compiled == "blocks":
                self._compile_blocks(model)
            elif self.compiler and compiled == "model":
                model = torch.compile(model, mode=self.compiler)
            if dist.is_initialized() and dist.get_world_size() > 1:
                model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
            if self.compiler and compiled == "wrapped":
                model = torch.compile(model, mode=self.compiler)
        else:
            self._shard(model, o)
        self.model = model
        groups = torch_models.decay_groups(model.parameters(), torch_models.WEIGHT_DECAY)
        self.optimizer = torch.optim.AdamW(groups, **torch_models.OPTIMIZER)
        tokens = torch.randint(0, self.shape.vocab, (o.batch, o.seq + 1), device="cuda")
        self.inputs, self.targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def _compile_blocks(self, model):
        if self.compiler is None:
            return
        for block in model.blocks:
            block.compile(mode=self.compiler)
        model.loss = torch.compile(model.loss, mode=self.compiler)

    def _shard(self, model, o):
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        self._compile_blocks(model)
        for block in model.blocks:
            fully_shard(block, mp_policy=policy, reshard_after_forward=o.strategy == "fsdp2")
        fully_shard(model, mp_policy=policy, reshard_after_forward=False)

    def _step(self):
        with torch.autocast("cuda", torch.bfloat16, enabled=self.autocast):
            loss = self.model(self.inputs, self.targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), torch_models.CLIP, foreach=True)
        self.optimizer.step()
        if self.gathers_float8:
            from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp

            precompute_float8_dynamic_scale_for_fsdp(self.model)
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def run(self, steps):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        marks[0].record()
        for mark in marks[1:]:
            self._step()
            mark.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in zip(marks, marks[1:])]


def trainer_of(o, variant):
    dtype, strategy, compiled, compiler, recipe = VARIANTS[variant]
    return Trainer(argparse.Namespace(**{**vars(o), "dtype": dtype, "strategy": strategy}), compiled, compiler, recipe)


def command_of(o, *more):
    """What runs this program on the devices, each a process of its own."""
    launcher = [] if o.ranks == 1 else ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
                                        "--nproc-per-node", str(o.ranks)]
    return [sys.executable, *launcher, os.path.abspath(__file__), "--model", o.model, "--batch", str(o.batch),
            "--seq", str(o.seq), "--warmup", str(o.warmup), *more]


def variant_ms(o, variant):
    """The median step in processes of its own, or a text that says why there is none."""
    command = command_of(o, "--steps", "10", "--variant", variant)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            said, _ = process.communicate(timeout=o.variant_seconds)
        except subprocess.TimeoutExpired:
            process.terminate()  # torchrun ends its workers
            try:
                process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise SystemExit(f"{variant}: its processes do not end, so nothing is measured beside them") from None
            return f"more than {o.variant_seconds} s"
    return round(json.loads(said)["median_ms"], 1) if process.returncode == 0 else f"exit code {process.returncode}"


def best_variant(o):
    """The fastest of the VARIANTS that --variants names or that suit, and what the settings say of it."""
    def suits(dtype, strategy, compiled, compiler, _):
        return dtype == o.dtype and compiler == "default" and (compiled != "wrapped" if o.ranks == 1 else strategy == "ddp")

    results = {}
    for variant in o.variants or (name for name, parts in VARIANTS.items() if suits(*parts)):
        results[variant] = variant_ms(o, variant)
        print(f"{variant}: {results[variant]}", file=sys.stderr, flush=True)
    times = {variant: ms for variant, ms in results.items() if not isinstance(ms, str)}
    if not times:
        raise SystemExit("--mode best: no variant ran, their own errors stand above")
    best = min(times, key=times.get)
    return best, {"variant": best, "variants_ms": results}


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", choices=list(torch_models.PRESETS), default="gpt2-124m")
    p.add_argument("--dtype", choices=("bf16", "fp8"), default="bf16")
    p.add_argument("--strategy", choices=("ddp", "zero2", "fsdp2"), default="ddp")
    p.add_argument("--mode", choices=("eager", "compile", "best"), default="compile")
    p.add_argument("--ranks", type=int, default=1, help="starts as many processes on this host, each with a device")
    p.add_argument("--batch", type=int, default=64, help="samples of a rank and step")
    p.add_argument("--seq", type=int, default=1024, help="tokens of a sample")
    p.add_argument("--steps", type=int, default=20, help="timed steps")
    p.add_argument("--warmup", type=int, default=5)
    p.add_argument("--variant", choices=list(VARIANTS), help="in place of --dtype, --strategy and --mode")
    p.add_argument("--variants", nargs="+", choices=list(VARIANTS), help="what --mode best times; without it all that suit")
    p.add_argument("--best", type=json.loads, default={}, help=argparse.SUPPRESS)  # of best_variant(), for the settings
    p.add_argument("--variant-seconds", type=int, default=900, metavar="S", help="for each variant of --mode best")
    p.add_argument("--serve", action="store_true", help="take `run N` from standard input")
    return p.parse_args()


def settings(o, seconds):
    return {"program": "torch", "version": torch.__version__, "device": torch.cuda.get_device_name(),
            **({"torchao": importlib.metadata.version("torchao")} if o.dtype == "fp8" else {}),
            "ranks": dist.get_world_size() if dist.is_initialized() else 1, "model": o.model, "dtype": o.dtype,
            "strategy": o.strategy, "mode": o.mode, "batch": o.batch, "seq": o.seq, "warmup": o.warmup,
            "start_and_warmup_s": round(seconds, 1), "peak_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved(),
            "configuration": {**torch_models.configuration(o.model),
                              "float32_matmul_precision": torch.get_float32_matmul_precision()}, **o.best}


def serve(trainer, rank):
    """Rank 0 reads; all ranks step. They wait on the host: a collective that waits on its device would slow the other
    program down."""
    control = dist.new_group(backend="gloo") if dist.is_initialized() else None
    while True:
        line = [sys.stdin.readline() if rank == 0 else None]
        if control is not None:
            dist.broadcast_object_list(line, group=control)
        words = line[0].split()
        if not words:
            return
        if len(words) != 2 or words[0] != "run" or not words[1].isdigit():
            raise SystemExit(f"standard input: expected `run N`, got {line[0]!r}")
        ms = trainer.run(int(words[1]))
        if rank == 0:
            print(json.dumps({"ms": ms}), flush=True)


def main():
    begin = time.perf_counter()
    o = options()
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if ranks > 1 and (o.mode == "best" or o.ranks > 1):
        raise SystemExit("--mode best and --ranks: expected to be started alone, not by torchrun")
    if o.mode == "best" and o.variants and len(o.variants) == 1:
        o.variant, o.best = o.variants[0], {"variant": o.variants[0]}
    elif o.mode == "best" and (o.ranks == 1 or o.strategy == "ddp"):
        o.variant, o.best = best_variant(o)
    if o.ranks > 1:
        chosen = ["--variant", o.variant, "--best", json.dumps({**o.best, "mode": o.mode})] if o.variant else []
        command = command_of(o, "--dtype", o.dtype, "--strategy", o.strategy, "--mode", o.mode.replace("best", "compile"),
                             "--steps", str(o.steps), *chosen, *(["--serve"] if o.serve else []))
        os.execv(command[0], command)
    if o.variant:
        o.dtype = VARIANTS[o.variant][0]
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    torch.set_float32_matmul_precision("high")
    if ranks > 1 or o.strategy != "ddp" or o.variant:
        alone = {"store": dist.HashStore()} if ranks == 1 else {}  # needs no port, so several may run on a host
        dist.init_process_group("nccl", rank=rank, world_size=ranks, **alone,
                                device_id=torch.device("cuda", torch.cuda.current_device()))
    trainer = trainer_of(o, o.variant) if o.variant else Trainer(o)
    trainer.run(o.warmup)
    if o.serve:
        if rank == 0:
            print(json.dumps(settings(o, time.perf_counter() - begin)), flush=True)
        serve(trainer, rank)
    else:
        ms = trainer.run(o.steps)
        if rank == 0:
            tokens = o.batch * o.seq * ranks
            print(json.dumps({**settings(o, time.perf_counter() - begin), "steps": o.steps, "min_ms": min(ms),
                              "median_ms": statistics.median(ms), "max_ms": max(ms),
                              "tokens_per_s": tokens / statistics.median(ms) * 1e3}, indent=2))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
