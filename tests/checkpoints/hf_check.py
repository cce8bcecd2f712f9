#!/usr/bin/env python3
# Loads exported models with transformers and compares their logits with a plain forward pass over this library's own
# parameters (linear weights [out, in], packed qkv and gate_up). Exits with 77 if torch, safetensors or transformers
# cannot be imported.
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


def attend(q, k, v, window=SEQ):  # [H, T, D] each; a position attends to itself and the window - 1 positions before it
    scores = q @ k.transpose(1, 2) / q.shape[-1]**0.5
    seen = torch.ones(scores.shape[-2:]).bool().tril().triu(1 - window)
    scores = scores.masked_fill(~seen, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)


def heads(x, n):  # [T, n*D] to [n, T, D]
    return x.view(x.shape[0], n, -1).transpose(0, 1)


def scaled(rates, name):  # Llama 3.1's formula with factor 8 and an original length of 8, by wavelengths
    if name == "llama-linear":
        return rates / 4
    if name != "llama-rope3":
        return rates
    lengths = 2 * torch.pi / rates
    smooth = (8 / lengths - 1) / 3
    middle = (1 - smooth) * rates / 8 + smooth * rates
    return torch.where(lengths > 8, rates / 8, torch.where(lengths < 2, rates, middle))


def rotate(x, name):  # rotate-half RoPE over [H, T, D]
    head = x.shape[-1]
    angle = torch.arange(x.shape[1])[:, None] * scaled(BASE ** (-torch.arange(0, head, 2) / head), name)
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


def llama(p, tokens, name, window=SEQ):
    q_rows = p["blocks.0.attention.proj.weight"].shape[1]
    kv_rows = (p["blocks.0.attention.qkv.weight"].shape[0] - q_rows) // 2
    groups = kv_rows * HEADS // q_rows
    x = p["embedding.wte.weight"][tokens]
    norm = lambda y, name: y * (y.square().mean(-1, keepdim=True) + EPS).rsqrt() * p.get(name + ".weight", 1)
    head_norm = lambda y, name: norm(y, name) if name + ".weight" in p else y
    for i in range(LAYERS):
        b = f"blocks.{i}."
        qkv = norm(x, b + "norm1") @ p[b + "attention.qkv.weight"].T + p.get(b + "attention.qkv.bias", 0)
        q, k, v = qkv.split([q_rows, kv_rows, kv_rows], -1)
        q = rotate(head_norm(heads(q, HEADS), b + "attention.q_norm"), name)
        k = rotate(head_norm(heads(k, groups), b + "attention.k_norm"), name)
        wide = lambda y: y.repeat_interleave(HEADS // groups, 0)
        x = x + attend(q, wide(k), wide(heads(v, groups)), window) @ p[b + "attention.proj.weight"].T
        gate, up = (norm(x, b + "norm2") @ p[b + "ffn.gate_up.weight"].T).split(FFN, -1)
        x = x + (F.silu(gate) * up) @ p[b + "ffn.down.weight"].T
    return norm(x, "head.norm") @ p.get("head.lm.weight", p["embedding.wte.weight"]).T


CLASSES = {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM",
           "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
WINDOWS = {"mistral": 5}


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
            family = name.split("-")[0]
            assert type(model).__name__ == CLASSES[family], type(model)
            assert sum(t.numel() for t in ours.values()) == sum(t.numel() for t in model.parameters()), name
            with torch.no_grad():
                found = model.eval()(tokens[None]).logits[0]
                expected = gpt2(ours, tokens) if family == "gpt2" else llama(ours, tokens, name, WINDOWS.get(family, SEQ))
            difference = (found - expected).abs().max().item() / expected.abs().max().item()
            print(f"{name}: largest difference of logits {difference:.1e} relative")
            # The two add up to 40 f32 terms in different orders.
            assert difference < 2e-6, (name, difference)


main()
