"""Imports, with model.from, model folders that transformers writes. Compares loss and gradient norm of a training step,
and the exported folder, with transformers itself. Exits with 77 if torch or transformers cannot be imported.

    python3 hf_import.py --ltrain LTRAIN --mpiexec MPIEXEC"""

import argparse
import json
import pathlib
import shutil
import struct
import subprocess
import tempfile

import needs_transformers  # before what it looks for
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

VOCAB, SEQ, BATCH = 61, 48, 4
LLAMA = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=SEQ, bos_token_id=None, eos_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=5000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)


def configurations():
    t = transformers
    gpt2 = dict(vocab_size=VOCAB, n_positions=SEQ, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
                attn_pdrop=0.0, bos_token_id=None, eos_token_id=None)
    yield "gpt2", t.GPT2Config(**gpt2)
    yield "llama", t.LlamaConfig(**LLAMA, tie_word_embeddings=False)
    yield "llama3-scaled", t.LlamaConfig(**LLAMA, tie_word_embeddings=True, rope_parameters=LLAMA3)
    yield "llama-linear", t.LlamaConfig(**LLAMA, rope_parameters=dict(rope_type="linear", rope_theta=1e4, factor=2.0))
    yield "mistral", t.MistralConfig(**LLAMA, sliding_window=9)
    yield "mistral-whole", t.MistralConfig(**LLAMA, sliding_window=None)
    yield "qwen2", t.Qwen2Config(**LLAMA, tie_word_embeddings=True)
    yield "qwen3", t.Qwen3Config(**LLAMA, head_dim=12)


def write_tokens(path, tokens):
    header = struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253)
    path.write_bytes(header + struct.pack(f"<{len(tokens)}H", *tokens))


def expected_step(model, tokens):
    rows = torch.tensor([tokens[i * SEQ : i * SEQ + SEQ + 1] for i in range(BATCH)])
    logits = model(rows[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    return loss.item(), norm.item()


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, (command, result.returncode, result.stdout, result.stderr)


def check(name, config, dtype, options, folder):
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for parameter in model.parameters():  # beyond what initialisation leaves at 0 and 1
        torch.nn.init.normal_(parameter, 0.3 if parameter.dim() == 1 else 0.0, 0.2)
    hf = folder / "hf"
    model.to(dtype).save_pretrained(hf, max_shard_size="20KB" if name == "llama" else "1GB")
    model = AutoModelForCausalLM.from_pretrained(hf, dtype=torch.float32, attn_implementation="eager")
    tokens = torch.randint(0, VOCAB, (BATCH * SEQ + 1,)).tolist()
    write_tokens(folder / "train.bin", tokens)
    loss, norm = expected_step(model, tokens)
    step = [options.ltrain, "train", f"--model.from={hf}", f"--data.train={folder}/train.bin", "--data.shuffle=false",
            "--train.device=cpu", f"--run.dir={folder}/run", f"--train.seq={SEQ}", "--optim.clip=0"]
    sharded = [options.mpiexec, "--oversubscribe", "--allow-run-as-root", "-n", "2"] if name.startswith("llama") else []
    run(sharded + step + ["--train.steps=1", f"--train.micro_batch={BATCH // (2 if sharded else 1)}"]
        + (["--parallel.strategy=zero3"] if sharded else []))
    rows = [json.loads(line) for line in open(folder / "run/metrics.jsonl")]
    row = next(r for r in rows if "event" not in r)
    errors = abs(row["loss"] / loss - 1), abs(row["grad_norm"] / norm - 1)
    assert max(errors) < 1e-5, (name, row["loss"], loss, row["grad_norm"], norm)
    # What was imported and is exported again is the same, bit for bit.
    run([options.ltrain, "checkpoint", "import", str(hf), "--out", str(folder / "zero")])
    run([options.ltrain, "checkpoint", "verify", str(folder / "zero")])
    run([options.ltrain, "checkpoint", "export", str(folder / "zero"), "--out", str(folder / "back")])
    # A run that begins from the checkpoint takes the same step.
    run([part.replace(str(hf), str(folder / "zero")).replace("/run", "/again") for part in step]
        + ["--train.steps=1", f"--train.micro_batch={BATCH}"])
    again = next(r for r in map(json.loads, open(folder / "again/metrics.jsonl")) if "event" not in r)
    assert abs(again["loss"] / loss - 1) < 1e-5, (name, again["loss"], loss)
    ours = load_file(folder / "back/model.safetensors")
    theirs = {key: value for key, value in model.state_dict().items()
              if not (key == "lm_head.weight" and config.tie_word_embeddings)}
    assert set(ours) == set(theirs), set(ours) ^ set(theirs)
    for key, value in theirs.items():
        assert torch.equal(ours[key], value), (name, key)
    back = AutoModelForCausalLM.from_pretrained(folder / "back", dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        again = back(torch.tensor([tokens[:SEQ]])).logits - model.eval()(torch.tensor([tokens[:SEQ]])).logits
    assert again.abs().max() < 1e-5, (name, again.abs().max())  # config.json has the f32 values of norm_eps
    print(f"{name} {str(dtype)[6:]}: loss {loss:.6f} within {errors[0]:.1e}, norm {norm:.4f} within {errors[1]:.1e}, "
          f"exported logits within {again.abs().max():.1e}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--ltrain", required=True)
    arguments.add_argument("--mpiexec", required=True)
    options = arguments.parse_args()
    for name, config in configurations():
        for dtype in [torch.float32] + ([torch.bfloat16] if name in ("gpt2", "llama") else []):
            folder = pathlib.Path(tempfile.mkdtemp())
            try:
                check(name, config, dtype, options, folder)
            finally:
                shutil.rmtree(folder)


main()
