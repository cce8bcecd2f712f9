#!/usr/bin/env python3
# Loads exported models with transformers and compares their logits with a plain forward pass over this library's own
# parameters (linear weights [out, in], packed qkv and gate_up). Exit 77: torch or transformers is not importable.
import os
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import torch
    import torch.nn.functional as F
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

LAYERS, HEADS, WIDTH, FFN, VOCAB, SEQ, EPS, BASE = 2, 4, 24, 40, 37, 19, 1e-4, 5000.0
HEAD = WIDTH // HEADS


def attend(q, k, v):  # [H, T, D] each; causal
    scores = q @ k.transpose(1, 2) / HEAD**0.5
    scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), float("-inf"))
    return (scores.softmax(-1) @ v).transpose(0, 1).reshape(-1, HEADS * HEAD)


def heads(x, n):  # [T, n D] to [n, T, D]
    return x.view(-1, n, HEAD).transpose(0, 1)


def rotate(x):  # rotate-half RoPE over [H, T, D]
    angle = torch.arange(x.shape[1])[:, None] * BASE ** (-torch.arange(0, HEAD, 2) / HEAD)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def gpt2(p, tokens):
    x = p["embedding.wte.weight"][tokens] + p["embedding.wpe.weight"][: len(tokens)]
    linear = lambda y, name: F.linear(y, p[name + ".weight"], p[name + ".bias"])
    norm = lambda y, name: F.layer_norm(y, (WIDTH,), p[name + ".weight"], p[name + ".bias"], EPS)
    for i in range(LAYERS):
        b = f"blocks.{i}."
        q, k, v = linear(norm(x, b + "norm1"), b + "attention.qkv").split(WIDTH, -1)
        x = x + linear(attend(heads(q, HEADS), heads(k, HEADS), heads(v, HEADS)), b + "attention.proj")
        x = x + linear(F.gelu(linear(norm(x, b + "norm2"), b + "ffn.up"), approximate="tanh"), b + "ffn.down")
    return norm(x, "head.norm") @ p.get("head.lm.weight", p["embedding.wte.weight"]).T


def llama(p, tokens):
    groups = (p["blocks.0.attention.qkv.weight"].shape[0] - WIDTH) // (2 * HEAD)
    x = p["embedding.wte.weight"][tokens]
    norm = lambda y, name: y * (y.square().mean(-1, keepdim=True) + EPS).rsqrt() * p[name + ".weight"]
    for i in range(LAYERS):
        b = f"blocks.{i}."
        qkv = norm(x, b + "norm1") @ p[b + "attention.qkv.weight"].T
        q, k, v = qkv.split([WIDTH, groups * HEAD, groups * HEAD], -1)
        wide = lambda y: heads(y, groups).repeat_interleave(HEADS // groups, 0)
        q, k = rotate(heads(q, HEADS)), rotate(wide(k))
        x = x + attend(q, k, wide(v)) @ p[b + "attention.proj.weight"].T
        gate, up = (norm(x, b + "norm2") @ p[b + "ffn.gate_up.weight"].T).split(FFN, -1)
        x = x + (F.silu(gate) * up) @ p[b + "ffn.down.weight"].T
    return norm(x, "head.norm") @ p.get("head.lm.weight", p["embedding.wte.weight"]).T


def main():
    torch.manual_seed(1)
    tokens = torch.randint(0, VOCAB, (SEQ,))
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sys.argv[1], out], check=True)
        for name in sorted(os.listdir(out)):
            folder = os.path.join(out, name)
            ours = load_file(os.path.join(folder, "ours.safetensors"))
            model, report = AutoModelForCausalLM.from_pretrained(
                os.path.join(folder, "hf"), output_loading_info=True, attn_implementation="eager")
            for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
                assert not report[problem], (name, problem, report[problem])
            expected_class = "GPT2LMHeadModel" if name.startswith("gpt2") else "LlamaForCausalLM"
            assert type(model).__name__ == expected_class, type(model)
            assert sum(t.numel() for t in ours.values()) == sum(t.numel() for t in model.parameters()), name
            with torch.no_grad():
                found = model.eval()(tokens[None]).logits[0]
                expected = (gpt2 if name.startswith("gpt2") else llama)(ours, tokens)
            difference = (found - expected).abs().max().item() / expected.abs().max().item()
            print(f"{name}: largest difference of logits {difference:.1e} relative")
            # f32 sums of at most 40 terms in another order
            assert difference < 2e-6, (name, difference)


main()
