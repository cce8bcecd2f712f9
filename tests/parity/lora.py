"""Trains with model.lora on model folders that transformers writes. Compares loss and gradient norm of three steps with
the same adapters in PyTorch, and the logits of the exports. PEFT, if installed, loads the exported adapters. Exits with
77 if torch or transformers cannot be imported.

    python3 lora.py --ltrain LTRAIN --mpiexec MPIEXEC"""

import argparse
import json
import pathlib
import struct
import subprocess
import tempfile

import needs_transformers  # before what it looks for
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

try:
    import peft
except ImportError:
    peft = None

VOCAB, SEQ, BATCH, STEPS = 61, 24, 4, 3
RANK, ALPHA, LR = 3, 6.0, 0.02
LLAMA = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=SEQ, bos_token_id=None, eos_token_id=None)
GPT2 = dict(vocab_size=VOCAB, n_positions=SEQ, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, bos_token_id=None, eos_token_id=None)
CASES = [("llama", transformers.LlamaConfig(**LLAMA), [], 1),
         ("qwen2", transformers.Qwen2Config(**LLAMA, tie_word_embeddings=True), ["q_proj", "self_attn.v_proj", "up_proj"],
          2),
         ("gpt2", transformers.GPT2Config(**GPT2), ["c_attn", "c_proj"], 2)]


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert result.returncode == 0, (command, result.returncode, result.stdout, result.stderr)


class Adapters(torch.nn.Module):
    """y + alpha / rank (x A^T) B^T at each module that the exported folder names."""

    def __init__(self, model, folder):
        super().__init__()
        tensors = load_file(folder / "adapter_model.safetensors")
        names = sorted(name.removesuffix(".lora_A.weight") for name in tensors if name.endswith(".lora_A.weight"))
        assert set(tensors) == {f"{name}.lora_{x}.weight" for name in names for x in "AB"}
        self.a = torch.nn.ParameterList(tensors[f"{name}.lora_A.weight"] for name in names)
        self.b = torch.nn.ParameterList(tensors[f"{name}.lora_B.weight"] for name in names)
        self.hooks = [
            model.get_submodule(name.removeprefix("base_model.model.")).register_forward_hook(
                lambda _, x, y, i=i: y + ALPHA / RANK * (x[0] @ self.a[i].T) @ self.b[i].T)
            for i, name in enumerate(names)
        ]

    def remove(self):
        for hook in self.hooks:
            hook.remove()


def expected_steps(model, adapters, tokens):
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.AdamW(adapters.parameters(), lr=LR, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for step in range(STEPS):
        first = step * BATCH
        rows = torch.tensor([tokens[i * SEQ : i * SEQ + SEQ + 1] for i in range(first, first + BATCH)])
        loss = torch.nn.functional.cross_entropy(model(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.stack([p.grad.norm() for p in adapters.parameters()]).norm()
        optimizer.step()
        yield loss.item(), norm.item()


def logits_of(model, tokens):
    with torch.no_grad():
        return model.eval()(torch.tensor([tokens[:SEQ]])).logits


def check(name, config, targets, ranks, options, folder):
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for parameter in model.parameters():  # beyond what initialisation leaves at 0 and 1
        torch.nn.init.normal_(parameter, 0.3 if parameter.dim() == 1 else 0.0, 0.2)
    model.save_pretrained(folder / "hf")
    load = dict(dtype=torch.float32, attn_implementation="eager")
    tokens = torch.randint(0, VOCAB, (BATCH * STEPS * SEQ + 1,)).tolist()
    header = struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253)
    (folder / "train.bin").write_bytes(header + struct.pack(f"<{len(tokens)}H", *tokens))
    lora = json.dumps({"rank": RANK, "alpha": ALPHA, **({"targets": targets} if targets else {})})
    train = [options.ltrain, "train", f"--model.from={folder}/hf", f"--model.lora={lora}", f"--train.seq={SEQ}",
             f"--data.train={folder}/train.bin", "--data.shuffle=false", "--train.device=cpu", "--optim.clip=0",
             f"--optim.lr={LR}", "--optim.schedule=constant", f"--train.micro_batch={BATCH // ranks}"]
    run(*train, f"--run.dir={folder}/zero", "--train.steps=0")
    run(options.ltrain, "checkpoint", "export", folder / "zero", "--adapter", "--out", folder / "zero-adapters")
    launcher = [options.mpiexec, "--oversubscribe", "--allow-run-as-root", "-n", ranks] if ranks > 1 else []
    run(*launcher, *train, f"--run.dir={folder}/run", f"--train.steps={STEPS}", "--parallel.strategy=zero3",
        "--parallel.recompute=selective", "--record.every=1")
    rows = [row for row in map(json.loads, open(folder / "run/metrics.jsonl")) if "event" not in row]
    adapters = Adapters(model, folder / "zero-adapters")
    worst = 0
    for row, (loss, norm) in zip(rows, expected_steps(model, adapters, tokens), strict=True):
        errors = abs(row["loss"] / loss - 1), abs(row["grad_norm"] / norm - 1)
        assert max(errors) < 1e-5, (name, row["step"], row["loss"], loss, row["grad_norm"], norm)
        worst = max(worst, *errors)
    adapters.remove()
    run(options.ltrain, "checkpoint", "export", folder / "run", "--out", folder / "merged")
    run(options.ltrain, "checkpoint", "export", folder / "run", "--adapter", "--out", folder / "adapters")
    merged = logits_of(AutoModelForCausalLM.from_pretrained(folder / "merged", **load), tokens)
    base = logits_of(model, tokens)
    adapters = Adapters(model, folder / "adapters")
    difference = (merged - logits_of(model, tokens)).abs().max().item()
    adapters.remove()
    assert difference < 1e-5 and (merged - base).abs().max() > 1e-2, (name, difference)
    if peft is not None:
        again = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder / "hf", **load),
                                               folder / "adapters")
        of_peft = (merged - logits_of(again, tokens)).abs().max().item()
        assert of_peft < 1e-5, (name, of_peft)
        difference = max(difference, of_peft)
    print(f"{name}: losses and norms within {worst:.1e}, logits of both exports within {difference:.1e}"
          + ("" if peft is None else f", PEFT {peft.__version__}"))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--ltrain", required=True)
    arguments.add_argument("--mpiexec", required=True)
    options = arguments.parse_args()
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            check(*case, options, pathlib.Path(folder))


main()
