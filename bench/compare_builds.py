#!/usr/bin/env python3
"""Compares two builds of ltrain, before and after a change that must alter neither results nor output.

    python3 bench/compare_builds.py OLD/ltrain NEW/ltrain [--device cuda] [--only REGEX] [--keep DIR]

Runs the same command lines with both builds, in folders of the same name: trainings on one and two ranks, resumed in
the middle; evaluations, samples and exports; plans; invalid command lines. Compares the losses and norms of each step
(bits), each shard file and exported tensor file (bytes), the plans, and every exit code, standard output and standard
error (text, without times, ids, paths and version). Prints each difference and a summary; exits with 1 if there is a
difference. Needs the standard library only. Runs on GPUs are deterministic. The environment variable MPIRUN has further
options for mpirun.
"""

import argparse
import difflib
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TINY = ("--train.seq=32", "--train.micro_batch=2", "--checkpoint.every=2", "--record.every=1",
        "--data.train=data/train.bin", "--data.val=data/val.bin", "--train.eval_every=2", "--train.eval_tokens=640",
        "--optim.warmup=1", "--model.layers=2")
GPT, LLAMA = "--model.preset=gpt-tiny", "--model.preset=llama-tiny"
TRAININGS = {  # name: options; on one rank, or on two where the name ends in 2
    "gpt": (GPT,),
    "llama": (LLAMA,),
    "gpt-bf16": (GPT, "--train.dtype=bf16"),
    "llama-bf16-no-master": (LLAMA, "--train.dtype=bf16", "--optim.master=none", "--optim.state_dtype=bf16"),
    "llama-f16": (LLAMA, "--train.dtype=f16"),
    "llama-fp8": (LLAMA, "--train.dtype=fp8"),
    "qwen3-window": (LLAMA, "--model.family=qwen3", "--model.head_dim=16"),
    "mistral": (LLAMA, "--model.family=mistral", "--model.window=8"),
    "muon": (LLAMA, "--optim.name=muon"),
    "groups-ema": (GPT, '--optim.groups=[{"match": "*norm*", "weight_decay": 0}, {"match": "*attention*", "lr_scale": 2}]',
                   "--optim.ema=0.9"),
    "lora": (LLAMA, '--model.lora={"rank": 2}'),
    "accum-masked": (GPT, "--train.accum=3", "--train.label_smoothing=0.1", "--train.z_loss=1e-4", "--data.train=chat/train.bin"),
    "full-dropout": (GPT, "--parallel.recompute=full", "--model.dropout=0.1"),
    "ddp-2": (GPT, "--parallel.strategy=ddp"),
    "zero1-2": (LLAMA, "--parallel.strategy=zero1", "--parallel.recompute=selective"),
    "zero2-muon-2": (LLAMA, "--parallel.strategy=zero2", "--optim.name=muon"),
    "zero3-2": (LLAMA, "--parallel.strategy=zero3", "--parallel.recompute=full", "--train.global_batch=8"),
    "zero3-bf16-async-2": (GPT, "--parallel.strategy=zero3", "--train.dtype=bf16", "--checkpoint.async=true"),
    "hybrid-memory-2": (GPT, "--parallel.strategy=zero3", "--parallel.shard_size=1", "--checkpoint.memory_every=1"),
    "epochs-2": (GPT, "--data.epochs=0.04"),
}
PLANS = (
    ("--ranks", "8", "--gpu", "h100", "--model.preset=llama-8b", "--parallel.strategy=zero3", "--train.dtype=bf16",
     "--parallel.recompute=full"),
    ("--ranks", "16", "--ranks-per-node", "8", "--gpu", "h200", "--model.preset=gpt2-1.5b", "--parallel.strategy=zero1",
     "--train.dtype=bf16"),
    ("--ranks", "2", GPT, "--train.seq=64"),
)
DATA = "--data.train=data/train.bin"
WRONG = (
    ("frain",), ("--help",), ("train", "--help"), ("train", GPT, "--print-config"),
    ("train", "--train.step=5"), ("train", "--train.steps=x", GPT), ("train", GPT), ("train", GPT, "--data.train=none.bin"),
    ("train", GPT, "--model.heads=5", DATA), ("train", "--config", "none.toml"), ("train", "--config", "wrong.toml"),
    ("train", GPT, "--data.train=y.txt"), ("train", GPT, "--parallel.strategy=zero4"), ("train", GPT, DATA, "--train.seq=512"),
    ("train", GPT, "--optim.min_lr=1", "--optim.lr=0.1"), ("train", GPT, DATA, "--train.dtype=f32", "--optim.master=none"),
    ("train", GPT, DATA, "--checkpoint.resume=nowhere"), ("train", GPT, DATA, "--run.dir=gpt"), ("train", "--model.from=nowhere"),
    ("train", GPT, DATA, "--train.global_batch=3"), ("plan", "--ranks", "0"), ("plan", "--gpu", "z80"),
    ("plan", GPT, "--parallel.shard_size=3", "--ranks", "4"), ("sample", "--checkpoint", "nowhere"),
    ("sample", "--checkpoint", "gpt"), ("sample", "--checkpoint", "gpt", "--prompt", "x", "--temperature", "-1"),
    ("eval", "--checkpoint", "gpt"), ("eval", "--checkpoint", "gpt", "--data", "none"), ("checkpoint", "verify", "nowhere"),
    ("checkpoint", "export", "lora", "--out", "gpt"), ("checkpoint", "import", "data", "--out", "imported"),
    ("prepare", "--input", "none.txt", "--out", "p"), ("prepare", "--input", "y.txt", "--out", "p", "--val-fraction", "2"),
    ("report", "nowhere"), ("bench", "tune", "--train.steps=x"), ("launch", "-n", "2", "--", "plan"),
)


def environment():
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LTRAIN_", "SLURM_", "PMIX_"))}
    return {**kept, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def said(text):
    """The text without what differs between two runs of one build."""
    text = re.sub(r"\d{8}T\d{6}Z-[0-9a-f]{16}", "ID", text)
    text = re.sub(r"ltrain \d\S* \([^)]*\)[^\n]*", "VERSION", text)
    text = re.sub(r"(?m)^(opened in|threads:|peer memory:).*$", r"\1", text)
    text = re.sub(r"\| [^|\n]* (ms|s) \|.*$", "| TIMES", text, flags=re.M)
    text = re.sub(r"in \d+(m\d+)?s,", "in TIME,", text)
    text = re.sub(r"\d[\d.]* tokens/s|[\d.]+ s\b|[\d.]+k? tok/s", "TIME", text)
    return re.sub(r"--------------------------------------------------------------------------.*", "", text, flags=re.S)


class Build:
    """A build in a folder of its own. Each method that a case names returns what is compared."""

    def __init__(self, program, folder, device):
        self.program, self.folder, self.device = pathlib.Path(program).resolve(), folder, device
        folder.mkdir(parents=True)
        sentences = [f"The {animal} jumps over {n} lazy dogs and says nothing.\n" for n in range(400) for animal in ("fox", "cat")]
        conversations = [{"messages": [{"role": "user", "content": f"What is {n}?"},
                                       {"role": "assistant", "content": f"It is {n + 1} less one."}]} for n in range(300)]
        (folder / "y.txt").write_text("".join(sentences))
        (folder / "chat.jsonl").write_text("".join(json.dumps(conversation) + "\n" for conversation in conversations))
        (folder / "wrong.toml").write_text("[train]\nsteps = 5\nstep = 6\n")

    def run(self, *arguments, ranks=1):
        launcher = ["mpirun", "--quiet", "--oversubscribe", *os.environ.get("MPIRUN", "").split(), "-n", str(ranks)]
        done = subprocess.run([*(launcher if ranks > 1 else ()), self.program, *arguments], cwd=self.folder, env=environment(),
                              capture_output=True, text=True, errors="replace", timeout=600)
        return done.returncode, said(done.stdout), said(done.stderr)

    def digests(self, *patterns):
        paths = [path for pattern in patterns for path in sorted(self.folder.glob(pattern))]
        return {str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}

    def prepared(self, text, out, *options):
        return self.run("prepare", "--input", text, "--out", out, *options), self.digests(f"{out}/*.bin", f"{out}/*.mask")

    def trained(self, name, options, steps):
        options = [f"--train.device={self.device}", *TINY, *options, f"--run.dir={name}"]
        if not any(option.startswith("--data.epochs") for option in options):
            options.append(f"--train.steps={steps}")
        if self.device == "cuda":
            options.append("--train.deterministic=true")
        return self.run("train", *options, ranks=2 if name.endswith("2") else 1), self.record(name)

    def record(self, name):
        """Of a run: the numbers of each step and evaluation, the plan, and the bytes of each shard file."""
        metrics = self.folder / name / "metrics.jsonl"
        rows = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
        keys = {None: ("step", "tokens", "loss_hex", "grad_norm", "lr", "memory_peak_bytes"), "eval": ("step", "loss"),
                "start": ("step", "predicted_peak_bytes", "ledger", "parameters")}
        numbers = [{key: row.get(key) for key in keys[row.get("event")]} for row in rows if row.get("event") in keys]
        return numbers, self.digests(f"{name}/checkpoints/*/*.h5")

    def evaluated(self, name):
        return self.run("eval", "--checkpoint", name, "--data", "data/val.bin")

    def sampled(self, name):  # standard error has rates
        return self.run("sample", "--checkpoint", name, "--prompt", "The fox", "--tokens", "12", "--temperature", "0",
                        "--tokenizer", "byte", f"--train.device={self.device}")[:2]

    def exported(self, name):
        return self.run("checkpoint", "export", name, "--out", f"hf-{name}"), self.digests(f"hf-{name}/*")

    def imported(self, name):
        return self.run("checkpoint", "import", f"hf-{name}", "--out", "back"), self.digests("back/*/*.h5")

    def planned(self, *options):
        return self.run("plan", *options), self.run("plan", *options, "--json")


def cases():
    """Yields a name, a method of Build, and its arguments."""
    yield "prepare", Build.prepared, ("y.txt", "data")
    yield "prepare chat", Build.prepared, ("chat.jsonl", "chat", "--chat", "plain")
    for name, options in TRAININGS.items():
        yield f"train {name}", Build.trained, (name, options, 4)
        yield f"resume {name}", Build.trained, (name, options, 6)
        yield f"eval {name}", Build.evaluated, (name,)
    for name in ("gpt", "llama", "lora", "mistral"):
        yield f"sample {name}", Build.sampled, (name,)
        yield f"export {name}", Build.exported, (name,)
    yield "import", Build.imported, ("llama",)
    for options in PLANS:
        yield f"plan {' '.join(options)}", Build.planned, options
    for arguments in WRONG:
        yield f"wrong: {' '.join(arguments)}", Build.run, arguments


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", default="", help="cases whose name it matches, beside both of prepare")
    parser.add_argument("--keep", help="a new folder for the runs; otherwise a temporary one")
    args = parser.parse_args()
    root = pathlib.Path(args.keep or tempfile.mkdtemp(prefix="libtrain-builds-"))
    old, new = Build(args.old, root / "old/work", args.device), Build(args.new, root / "new/work", args.device)
    compared, differences = 0, 0
    for name, method, arguments in cases():
        if not name.startswith("prepare") and not re.search(args.only, name):
            continue
        texts = []
        for build in (old, new):
            text = json.dumps(method(build, *arguments), indent=1, sort_keys=True).replace("\\n", "\n")
            texts.append(text.replace(str(build.folder), "FOLDER").replace(str(build.program), "PROGRAM").splitlines())
        compared += 1
        if texts[0] != texts[1]:
            differences += 1
            lines = [line for line in difflib.unified_diff(*texts, "old", "new", n=0, lineterm="")]
            print(f"== {name}\n" + "\n".join(line[:300] for line in lines[:40]), flush=True)
    print(f"{compared} cases compared, {differences} different")
    if not args.keep:
        shutil.rmtree(root)
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
