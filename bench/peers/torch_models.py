"""GPT-2, Llama and similar models in plain PyTorch, with packed projections, for the speed comparison and the parity
twin.

Weights load from a Hugging Face folder (config.json + model.safetensors). Some of the folder's parameters are
concatenated or transposed here, which changes neither a gradient norm nor an AdamW step.
"""

import json
import os
from dataclasses import asdict, dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Shape:
    family: str  # gpt2, or a family similar to llama
    layers: int
    heads: int
    kv_heads: int
    width: int
    ffn: int
    vocab: int
    max_seq: int
    tied: bool
    rope_base: float = 500000.0
    eps: float = 1e-5
    head_dim: int = 0  # 0: width / heads
    window: int = 0  # number of positions that a position attends to; 0: itself and all before it
    qk_norm: bool = False

    @property
    def head(self):
        return self.head_dim or self.width // self.heads


PRESETS = {
    "gpt2-124m": Shape("gpt2", 12, 12, 12, 768, 3072, 50304, 1024, tied=True),
    "gpt2-1.5b": Shape("gpt2", 48, 25, 25, 1600, 6400, 50304, 1024, tied=True),
    "llama-1b": Shape("llama", 16, 32, 8, 2048, 8192, 128256, 8192, tied=False),
    "llama-8b": Shape("llama", 32, 32, 8, 4096, 14336, 128256, 8192, tied=False),
    "gpt-tiny": Shape("gpt2", 4, 4, 4, 128, 512, 256, 256, tied=True),
    "llama-tiny": Shape("llama", 4, 4, 2, 128, 352, 256, 256, tied=False),
}


class Gpt2Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads = s.heads
        self.norm1 = nn.LayerNorm(s.width, eps=s.eps)
        self.qkv = nn.Linear(s.width, 3 * s.width)
        self.proj = nn.Linear(s.width, s.width)
        self.norm2 = nn.LayerNorm(s.width, eps=s.eps)
        self.up = nn.Linear(s.width, s.ffn)
        self.down = nn.Linear(s.ffn, s.width)

    def forward(self, x, rope):
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads, self.kv_heads, self.head, self.window = s.heads, s.kv_heads, s.head, s.window
        self.norm1 = nn.RMSNorm(s.width, eps=s.eps)
        self.qkv = nn.Linear(s.width, (s.heads + 2 * s.kv_heads) * self.head, bias=False)
        self.q_norm = nn.RMSNorm(self.head, eps=s.eps) if s.qk_norm else None
        self.k_norm = nn.RMSNorm(self.head, eps=s.eps) if s.qk_norm else None
        self.proj = nn.Linear(s.heads * self.head, s.width, bias=False)
        self.norm2 = nn.RMSNorm(s.width, eps=s.eps)
        self.gate_up = nn.Linear(s.width, 2 * s.ffn, bias=False)
        self.down = nn.Linear(s.ffn, s.width, bias=False)

    def forward(self, x, rope):
        B, T, C = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, T, self.heads + 2 * self.kv_heads, self.head).transpose(1, 2)
        qk, v = qkv.split([self.heads + self.kv_heads, self.kv_heads], dim=1)
        if self.q_norm is not None:
            q, k = qk.split([self.heads, self.kv_heads], dim=1)
            qk = torch.cat((self.q_norm(q), self.k_norm(k)), dim=1)
        a, b = qk.chunk(2, dim=-1)  # rotate-half: x_d is paired with x_{d + D/2}
        cos, sin = rope[0][:T].to(x.dtype), rope[1][:T].to(x.dtype)
        qk = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
        q, k = qk.split([self.heads, self.kv_heads], dim=1)
        group = self.heads // self.kv_heads
        if group > 1 and not x.is_cuda:  # twice as fast on a CPU as enable_gqa
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        seen = None
        if 0 < self.window < T:
            seen = torch.ones(T, T, dtype=torch.bool, device=x.device).tril().triu(1 - self.window)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=seen is None,
                                           enable_gqa=k.shape[1] != self.heads)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, self.heads * self.head))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    """forward(tokens [B, T]) returns logits [B, T, vocab]; given targets [B, T], the mean cross-entropy in nats."""

    def __init__(self, s):
        super().__init__()
        self.shape = s
        gpt2 = s.family == "gpt2"
        self.tokens = nn.Embedding(s.vocab, s.width)
        self.positions = nn.Embedding(s.max_seq, s.width) if gpt2 else None
        self.blocks = nn.ModuleList([(Gpt2Block if gpt2 else LlamaBlock)(s) for _ in range(s.layers)])
        self.norm = nn.LayerNorm(s.width, eps=s.eps) if gpt2 else nn.RMSNorm(s.width, eps=s.eps)
        self.head = nn.Linear(s.width, s.vocab, bias=False)
        if s.tied:
            self.head.weight = self.tokens.weight
        angle = torch.outer(torch.arange(s.max_seq).double(),
                            s.rope_base ** (-torch.arange(0, s.head, 2).double() / s.head))
        self.register_buffer("rope_cos", angle.cos().float(), persistent=False)
        self.register_buffer("rope_sin", angle.sin().float(), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens, targets=None):
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, (self.rope_cos, self.rope_sin))
        return self.head(self.norm(x)) if targets is None else self.loss(x, targets)

    def loss(self, x, targets):
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


OPTIMIZER = {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8, "fused": True}
WEIGHT_DECAY, CLIP = 0.1, 1.0


def configuration(model):
    """What a step of the preset depends on beside batch, dtype and strategy, for the rows of a result."""
    optimizer = {"name": "AdamW", **OPTIMIZER, "weight_decay": WEIGHT_DECAY, "clip": CLIP}
    return {"model": asdict(PRESETS[model]), "optimizer": optimizer}


def decay_groups(parameters, weight_decay):
    """Groups for torch.optim.AdamW: tensors of two or more dimensions decay, biases and norms do not."""
    parameters = list(parameters)
    return [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]


def load_hf(folder):
    """Loads the model of a Hugging Face folder, in f32."""
    from safetensors.torch import load_file

    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    w = {k.removeprefix("transformer.").removeprefix("model."): v.float()
         for k, v in load_file(os.path.join(folder, "model.safetensors")).items()}
    model = Model(_shape(config))
    state = (_gpt2_state if config["model_type"] == "gpt2" else _llama_state)(w, model.shape)
    if not model.shape.tied:
        state["head.weight"] = w["lm_head.weight"]
    else:
        state["head.weight"] = state["tokens.weight"]
    model.load_state_dict(state)
    return model


def _shape(c):
    if c["model_type"] == "gpt2":
        width = c["n_embd"]
        return Shape("gpt2", c["n_layer"], c["n_head"], c["n_head"], width, c.get("n_inner") or 4 * width,
                     c["vocab_size"], c["n_positions"], c.get("tie_word_embeddings", True),
                     eps=c.get("layer_norm_epsilon", 1e-5))
    if c["model_type"] not in ("llama", "mistral", "qwen3"):
        raise SystemExit(f"config.json: model_type: expected gpt2, llama, mistral or qwen3, got {c['model_type']}")
    base = c.get("rope_theta") or (c.get("rope_parameters") or {})["rope_theta"]
    return Shape(c["model_type"], c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"],
                 c["intermediate_size"], c["vocab_size"], c["max_position_embeddings"],
                 c.get("tie_word_embeddings", False), base, c["rms_norm_eps"], c.get("head_dim") or 0,
                 c.get("sliding_window") or 0, c["model_type"] == "qwen3")


def _gpt2_state(w, s):
    state = {"tokens.weight": w["wte.weight"], "positions.weight": w["wpe.weight"],
             "norm.weight": w["ln_f.weight"], "norm.bias": w["ln_f.bias"]}
    names = {"norm1": "ln_1", "qkv": "attn.c_attn", "proj": "attn.c_proj", "norm2": "ln_2", "up": "mlp.c_fc",
             "down": "mlp.c_proj"}
    for i in range(s.layers):
        for ours, theirs in names.items():
            weight = w[f"h.{i}.{theirs}.weight"]  # Conv1D stores [in, out]
            state[f"blocks.{i}.{ours}.weight"] = weight.t().contiguous() if weight.dim() == 2 else weight
            state[f"blocks.{i}.{ours}.bias"] = w[f"h.{i}.{theirs}.bias"]
    return state


def _llama_state(w, s):
    state = {"tokens.weight": w["embed_tokens.weight"], "norm.weight": w["norm.weight"]}
    names = {"norm1": ["input_layernorm"], "qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
             "proj": ["self_attn.o_proj"], "norm2": ["post_attention_layernorm"],
             "gate_up": ["mlp.gate_proj", "mlp.up_proj"], "down": ["mlp.down_proj"]}
    if s.qk_norm:
        names |= {"q_norm": ["self_attn.q_norm"], "k_norm": ["self_attn.k_norm"]}
    for i in range(s.layers):
        for ours, theirs in names.items():
            state[f"blocks.{i}.{ours}.weight"] = torch.cat([w[f"layers.{i}.{t}.weight"] for t in theirs])
    return state
