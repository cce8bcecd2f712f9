"""`ltrain eval --choices` on a tiny model folder that transformers writes, compared with sums of log-probabilities that
transformers computes. Exits with 77 if torch or transformers cannot be imported.

    python3 hf_choices.py --ltrain LTRAIN"""

import argparse
import json
import pathlib
import random
import subprocess
import tempfile

import needs_transformers  # before what it looks for
import torch
from transformers import LlamaConfig, LlamaForCausalLM

QUESTIONS = 60
WORDS = ["north", "s\u00fcd", "\u4e1c", " west", "no", "yes and no", "?"]


def questions():
    numbers = random.Random(5)
    for _ in range(QUESTIONS):
        choices = numbers.sample(WORDS, numbers.randint(2, 5))
        text = " ".join(numbers.choices(WORDS, k=numbers.randint(1, 12)))
        yield {"question": text, "choices": choices, "answer": numbers.randrange(len(choices))}


def accuracies(model):
    """The shares of right answers by the sum of log-probabilities, and by this sum over the choice's bytes."""
    plain = by_byte = 0
    for q in questions():
        sums = []
        for choice in q["choices"]:
            ids, own = list((q["question"] + choice).encode()), len(q["question"].encode())
            with torch.no_grad():
                logs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
            sums.append(sum(logs[i - 1, ids[i]].item() for i in range(own, len(ids))))
        over_bytes = [s / len(c.encode()) for s, c in zip(sums, q["choices"])]
        plain += sums.index(max(sums)) == q["answer"]
        by_byte += over_bytes.index(max(over_bytes)) == q["answer"]
    return plain / QUESTIONS, by_byte / QUESTIONS


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--ltrain", required=True)
    options = arguments.parse_args()
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=256, hidden_size=32, intermediate_size=56, num_hidden_layers=2,
                                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.3 if parameter.dim() == 1 else 0.0, 0.3)
    expected = "accuracy {:.4f}\naccuracy_per_byte {:.4f}\n".format(*accuracies(model.eval()))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model.save_pretrained(folder / "hf")
        (folder / "q.jsonl").write_text("".join(json.dumps(q) + "\n" for q in questions()))
        for command in (["checkpoint", "import", folder / "hf", "--out", folder / "zero"],
                        ["eval", "--checkpoint", folder / "zero", "--tokenizer", "byte", "--choices", folder / "q.jsonl",
                         "--train.device=cpu"]):
            done = subprocess.run([options.ltrain, *map(str, command)], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(expected), (done.stdout, expected)
    print(expected, end="")


main()
