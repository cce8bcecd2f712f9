"""Passes the tokenizer files that transformers writes through import and export, and through prepare, train and export.
The files keep their bytes, and AutoTokenizer has the class, the chat template and the tokens of the original. Exits
with 77 if torch or transformers cannot be imported.

    python3 hf_tokenizer.py --ltrain LTRAIN"""

import argparse
import pathlib
import subprocess
import tempfile

import needs_transformers  # before what it looks for
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXT = "The quick brown fox jumps over the lazy dog. " * 40
MESSAGES = [{"role": "user", "content": "Which fox?"}, {"role": "assistant", "content": "The quick one."}]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
SIZES = dict(vocab_size=320, hidden_size=32, intermediate_size=56, num_hidden_layers=1, num_attention_heads=2,
             num_key_value_heads=2, max_position_embeddings=32)


def trained_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([TEXT], trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def tokenizers_of(folder):
    """Each as a folder that transformers wrote."""
    plain = transformers.PreTrainedTokenizerFast(tokenizer_object=trained_tokenizer(), eos_token="<|im_end|>",
                                                 chat_template={"default": TEMPLATE, "tool": "{{ tools }}"})
    plain.save_pretrained(folder / "plain")
    trained_tokenizer().model.save(str(folder))  # vocab.json and merges.txt
    for name, kind in (("gpt2", transformers.GPT2TokenizerFast), ("qwen2", transformers.Qwen2TokenizerFast)):
        made = kind.from_pretrained(folder / "plain", unk_token="<|endoftext|>", eos_token="<|im_end|>")
        made.chat_template = TEMPLATE
        made.save_pretrained(folder / name)
        for file in ("vocab.json", "merges.txt"):
            (folder / name / file).write_bytes((folder / file).read_bytes())
    return [folder / name for name in ("plain", "gpt2", "qwen2")]


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stdout, done.stderr)


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and path.name not in ("config.json", "generation_config.json", "model.safetensors")}


def check(hf, options, folder):
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).save_pretrained(hf)
    files, expected = files_of(hf), transformers.AutoTokenizer.from_pretrained(hf)
    ltrain, text = options.ltrain, folder / "text.txt"
    text.write_text(TEXT)
    run(ltrain, "checkpoint", "import", hf, "--out", folder / "zero")
    run(ltrain, "prepare", "--input", text, "--tokenizer", hf / "tokenizer.json", "--out", folder / "data")
    run(ltrain, "train", f"--model.from={folder}/zero", f"--data.train={folder}/data/train.bin", "--train.steps=1",
        "--train.micro_batch=1", f"--run.dir={folder}/run", "--train.device=cpu")
    for checkpoint in ("zero", "run"):
        out = folder / f"{checkpoint}-out"
        run(ltrain, "checkpoint", "export", folder / checkpoint, "--out", out)
        assert files_of(out) == files, (files_of(out).keys(), files.keys())
        found = transformers.AutoTokenizer.from_pretrained(out)
        assert type(found) is type(expected), (type(found), type(expected))
        assert found.chat_template == expected.chat_template
        assert found.apply_chat_template(MESSAGES) == expected.apply_chat_template(MESSAGES)
        assert (found.eos_token_id, found(TEXT).input_ids) == (expected.eos_token_id, expected(TEXT).input_ids)
    print(f"{hf.name}: {type(expected).__name__}, {len(files)} files are the same: {', '.join(sorted(files))}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--ltrain", required=True)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for hf in tokenizers_of(folder):
            (folder / f"work-{hf.name}").mkdir()
            check(hf, options, folder / f"work-{hf.name}")


main()
