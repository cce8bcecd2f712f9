"""Makes a small Hugging Face folder to fine-tune: a random Llama, and a byte-level tokenizer that is trained on FILE.

    python3 make_base.py --text FILE... --out FOLDER [--width 128 --layers 4 --heads 4 --kv-heads 2 --ffn 352]

It needs torch, transformers and tokenizers."""

import argparse

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, pre_tokenizers, trainers

p = argparse.ArgumentParser()
p.add_argument("--text", nargs="+", required=True)
p.add_argument("--out", required=True)
for name, default in (("vocab", 1024), ("width", 128), ("layers", 4), ("heads", 4), ("kv-heads", 2), ("ffn", 352), ("max-seq", 512)):
    p.add_argument(f"--{name}", type=int, default=default)
p.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
o = p.parse_args()

marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
tokenizer = tokenizers.Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train(o.text, trainers.BpeTrainer(vocab_size=o.vocab, special_tokens=marks, show_progress=False,
                                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
torch.manual_seed(1)
config = transformers.LlamaConfig(
    vocab_size=o.vocab, hidden_size=o.width, intermediate_size=o.ffn, num_hidden_layers=o.layers, num_attention_heads=o.heads,
    num_key_value_heads=o.kv_heads, max_position_embeddings=o.max_seq, tie_word_embeddings=True, rms_norm_eps=1e-5,
    bos_token_id=None, eos_token_id=tokenizer.token_to_id("<|im_end|>"), pad_token_id=None, dtype=o.dtype)
with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
    model = transformers.LlamaForCausalLM(config)
model.to(getattr(torch, o.dtype)).save_pretrained(o.out)
tokenizer.save(f"{o.out}/tokenizer.json")
print(f"{o.out}: {sum(x.numel() for x in model.parameters())} parameters, {tokenizer.get_vocab_size()} tokens")
