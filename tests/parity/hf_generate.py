"""Imports tiny model folders that transformers writes, and compares their greedy text with transformers' generate: 200
tokens of several prompts at a time, with and without a repetition penalty. Exits with 77 if torch or transformers
cannot be imported.

    python3 hf_generate.py --ltrain LTRAIN"""

import argparse
import pathlib
import subprocess
import tempfile

import needs_transformers  # before what it looks for
import torch
import transformers
from transformers import AutoModelForCausalLM

TOKENS, SEPARATOR = 200, b"\n\x1e\n"
PROMPTS = ["The quick brown fox", "x", "To be, or not to be: that is"]
# Text is compared as bytes, so the vocabulary is the 256 bytes.
SIZES = dict(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, bos_token_id=None, eos_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=5000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)


def configurations():
    t = transformers
    yield "gpt2", t.GPT2Config(vocab_size=256, n_positions=256, n_embd=32, n_layer=2, n_head=4, bos_token_id=None,
                               eos_token_id=None)
    yield "llama", t.LlamaConfig(**SIZES, tie_word_embeddings=False)
    yield "llama3-scaled", t.LlamaConfig(**SIZES, tie_word_embeddings=True, rope_parameters=LLAMA3)
    yield "mistral", t.MistralConfig(**SIZES, sliding_window=31)
    yield "qwen2", t.Qwen2Config(**SIZES, tie_word_embeddings=True)
    yield "qwen3", t.Qwen3Config(**SIZES, head_dim=12)


def sampled(options, folder, *more):
    command = [options.ltrain, "sample", "--checkpoint", str(folder), "--tokenizer", "byte", "--train.device=cpu",
               "--temperature=0", f"--tokens={TOKENS}", *more]
    done = subprocess.run(command + [part for prompt in PROMPTS for part in ("--prompt", prompt)], capture_output=True)
    assert done.returncode == 0, (command, done.stderr)
    texts = done.stdout[:-1].split(SEPARATOR)
    assert len(texts) == len(PROMPTS), done.stdout
    return texts


def generated(model, prompt, **more):
    ids = torch.tensor([list(prompt.encode())])
    with torch.no_grad():
        tokens = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False,
                                pad_token_id=0, eos_token_id=None, **more)
    return bytes(tokens[0].tolist())


def check(name, config, options, folder):
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for parameter in model.parameters():  # a text that does not repeat one token
        torch.nn.init.normal_(parameter, 0.3 if parameter.dim() == 1 else 0.0, 0.3)
    model.eval().save_pretrained(folder / "hf")
    imported = subprocess.run([options.ltrain, "checkpoint", "import", str(folder / "hf"), "--out", str(folder / "zero")],
                              capture_output=True, text=True)
    assert imported.returncode == 0, imported.stderr
    for ours, theirs in (((), {}), (("--repetition-penalty=1.3",), {"repetition_penalty": 1.3})):
        texts = sampled(options, folder / "zero", *ours)
        for prompt, text in zip(PROMPTS, texts):
            expected = generated(model, prompt, **theirs)
            equal = next((i for i, (a, b) in enumerate(zip(text, expected)) if a != b), len(expected))
            assert text == expected, (name, ours, prompt, f"the first {equal} bytes are equal", text, expected)
        print(f"{name} {theirs}: {len(texts)} texts of {TOKENS} tokens are equal, {len(set(texts[0]))} tokens in the first")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--ltrain", required=True)
    options = arguments.parse_args()
    for name, config in configurations():
        with tempfile.TemporaryDirectory() as folder:
            check(name, config, options, pathlib.Path(folder))


main()
