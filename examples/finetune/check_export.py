"""Loads an exported folder in transformers and compares its answer with ANSWER, from `ltrain sample`.

    python3 check_export.py FOLDER QUESTION ANSWER"""

import sys

import torch
import transformers

folder, question, answer = sys.argv[1:]
model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json")
prompt = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
with torch.no_grad():
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=64, do_sample=False, pad_token_id=0,
                         eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"))
theirs = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
print(f"transformers answers: {theirs}")
if theirs.strip() != answer.strip():
    sys.exit(f"expected {answer!r}, as ltrain sample answers")
