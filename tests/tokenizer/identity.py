"""Compares `ltrain prepare` with the tokenizers package: the same ids for mixed text, and the rate of both.

    python3 identity.py LTRAIN [--bytes N]
    python3 identity.py LTRAIN --write-fixtures      writes fixtures.json in this folder, for tokenizer_test.cpp

Trains small tokenizers with the settings of GPT-2, Llama 3, Qwen 2, Llama 2 (U+2581 by a normalizer) and Mistral
(Metaspace). Without fixtures also StarCoder and SmolLM (Digits), Falcon, DeepSeek, Phi-4, Gemma, and vocabularies that
lack some bytes. Compares the tokens of N bytes of text: code, thirty scripts, emoji, odd white space, a long word,
added tokens, invalid bytes. Skipped if the package is missing. With exit code 1, names the first token that differs."""

import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

try:
    import tokenizers
    from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError:
    print("skipped: the package tokenizers is not installed")
    sys.exit(77)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
SCRIPTS = [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x250, 0x2AF), (0x370, 0x3FF), (0x400, 0x4FF), (0x531, 0x587),
           (0x5D0, 0x5EA), (0x620, 0x669), (0x710, 0x72F), (0x905, 0x939), (0x985, 0x9B9), (0xA05, 0xA39),
           (0xB85, 0xBB9), (0xC05, 0xC39), (0xD05, 0xD39), (0xE01, 0xE3A), (0xE81, 0xEB9), (0xF40, 0xF6C),
           (0x1000, 0x1049), (0x10D0, 0x10FA), (0x1100, 0x11FF), (0x1200, 0x12BE), (0x13A0, 0x13F4), (0x1401, 0x14FF),
           (0x1780, 0x17B3), (0x1820, 0x1877), (0x3041, 0x3096), (0x30A1, 0x30FA), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3),
           (0x1F600, 0x1F64F), (0x1F900, 0x1F9FF), (0x300, 0x36F), (0x2150, 0x218B), (0x2460, 0x249B)]
SPACES = [" ", "  ", "\n", "\n\n", "\t", "\r\n", " \n", "\u00a0", "\u2003", "\u200b", "\u3000", "\u2028", "\x0b", "\x85",
          "\u180e", "     "]
CODE = ["def f(x):\n    return x+1\n", "for (int i = 0; i < n; ++i) {\n\t\tsum += a[i];\n}\n", "x=0x1F&~mask;//more\n",
        "SELECT * FROM t WHERE a='b';\n", "I'm you'll We've it's THEY'RE 'S 'LL don\u2019t\n", "1234567 3.14 1e-9 \u0661\u0662\u0663 \u00bd\n"]


def mixed_text(size, seed):
    rng = random.Random(seed)
    pieces, length = [], 0
    while length < size:
        kind = rng.random()
        if kind < 0.2:
            piece = rng.choice(CODE)
        elif kind < 0.25:
            piece = "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 6)))
        elif kind < 0.26:
            piece = rng.choice(["<|end|>", " <|end|> ", "<|end|>x", "[MASK]", "  [MASK]  ", "word[MASK]", "\u2581", "<0x41>"])
        elif kind < 0.28:
            piece = "".join(chr(rng.choice([0x1F468, 0x200D, 0x1F469, 0x1F3FD, 0xFE0F, 0x1F1E9, 0x1F1EA])) for _ in range(4))
        else:
            low, high = rng.choice(SCRIPTS[:3] * 6 + SCRIPTS)
            words = rng.randint(1, 12)
            piece = " ".join("".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 9))) for _ in range(words))
            piece += rng.choice([". ", ", ", "\n", " ", "!", "? ", ";", ""])
        pieces.append(piece)
        length += len(piece.encode("utf-8", "replace"))
    return "".join(pieces)


def with_invalid_bytes(text, seed):
    rng = random.Random(seed)
    data = bytearray(text.encode("utf-8"))
    for _ in range(len(data) // 5000):
        data[rng.randrange(len(data))] = rng.choice([0x80, 0xC0, 0xED, 0xF5, 0xE2, 0xFF, 0xF0])
    return bytes(data)


VOCABULARY = 4000


def byte_level(pre, corpus, normalizer=None, specials=("<|end|>",), **options):
    tokenizer = tokenizers.Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=list(specials), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def characters(corpus, **parts):
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False, limit_alphabet=VOCABULARY // 7,
                                  special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])
    tokenizer.train_from_iterator(corpus, trainer)
    # The bytes are part of the vocabulary, not added tokens.
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = [t for t in described["added_tokens"] if not t["content"].startswith("<0x")]
    return tokenizers.Tokenizer.from_str(json.dumps(described))


def make_tokenizers(corpus):
    split = lambda pattern: pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    gpt2 = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), corpus)
    gpt2.add_tokens([tokenizers.AddedToken("[MASK]", lstrip=True, rstrip=True, single_word=True)])
    yield "gpt2", gpt2
    yield "gpt2 with a space before", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), corpus)
    llama3 = byte_level(split(LLAMA3), corpus, ignore_merges=True)
    llama3.add_special_tokens([tokenizers.AddedToken("[MASK]", lstrip=True, special=True)])
    yield "llama3", llama3
    yield "qwen2", byte_level(split(QWEN2), corpus, normalizers.NFC())
    metaspace = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    # Trained on words, used on whole texts, as Llama 2's file does.
    llama2 = characters(corpus, pre_tokenizer=pre_tokenizers.Metaspace(), decoder=metaspace)
    llama2.pre_tokenizer = None
    described = json.loads(llama2.to_str())
    described["pre_tokenizer"] = None
    llama2 = tokenizers.Tokenizer.from_str(json.dumps(described))
    llama2.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    yield "llama2", llama2
    yield "mistral", characters(corpus, pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                                decoder=metaspace)
    yield "metaspace, split", characters(corpus, pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="always", split=True),
                                         decoder=metaspace)


def without_bytes(tokenizer, gone, **options):
    """The tokenizer without the tokens that have these bytes."""
    described = json.loads(tokenizer.to_str())
    model = described["model"]
    names = {pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(chr(b))[0][0] for b in gone if b < 128}
    names |= {chr(b) for b in gone if b >= 174}
    model["vocab"] = {token: i for token, i in model["vocab"].items() if not names & set(token)}
    model["merges"] = [merge for merge in model["merges"] if not names & set("".join(merge))]
    model.update(options)
    return tokenizers.Tokenizer.from_str(json.dumps(described))


def more_tokenizers(corpus):
    pre = pre_tokenizers
    bytes_alone, words = pre.ByteLevel(add_prefix_space=False, use_regex=False), pre.ByteLevel(add_prefix_space=False)
    split = lambda pattern, behavior="isolated", **more: pre.Split(Regex(pattern), behavior, **more)
    sequences = {
        "digits, words": [pre.Digits(True), words],
        "numbers, words": [pre.Digits(False), words],
        "words, digits": [words, pre.Digits(True)],
        "words, numbers": [words, pre.Digits(False)],
        "bytes, numbers": [bytes_alone, pre.Digits(False)],
        "digits, bytes": [pre.Digits(True), bytes_alone],
        "falcon": [pre.Punctuation("contiguous"), words, pre.Digits(False), split("[0-9][0-9][0-9]")],
        "punctuation removed": [pre.Punctuation("removed"), pre.Digits(True), words, pre.Punctuation()],
        "deepseek": [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[\u4e00-\u9fa5]+"), pre.Digits(True), bytes_alone],
        "digits, llama3": [pre.Digits(True), split(LLAMA3), bytes_alone],
        "phi4": [split(LLAMA3, "removed", invert=True), bytes_alone],
        "letters alone": [split(r"\s?\p{L}+", "removed", invert=True), pre.Digits(True), bytes_alone],
        "bloom": [split(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"), bytes_alone],
        "spaces removed": [split(r"\s+", "removed"), words],
    }
    for name, parts in sequences.items():
        yield name, byte_level(pre.Sequence(parts), corpus)
    some = (0x0D, 0x0A, 0x41, *range(0xC3, 0xC9), 0xE3, 0xF0)
    yield "without some bytes", without_bytes(byte_level(words, corpus), some)
    for fused in (False, True):
        yield f"without some bytes, unknown, fused {fused}", without_bytes(byte_level(words, corpus), some, unk_token="<|end|>", fuse_unk=fused)
    yield "numbers of characters", characters(corpus, pre_tokenizer=pre.Digits(False))
    gemma = characters(corpus, pre_tokenizer=pre.Metaspace())
    gemma.normalizer = normalizers.Replace(" ", "\u2581")
    gemma.pre_tokenizer = pre.Split(" ", "merged_with_previous")
    yield "gemma", gemma


def tokens_of(path):
    data = pathlib.Path(path).read_bytes()
    magic, _, count = struct.unpack_from("<3i", data)
    width, code = (2, "H") if magic == 20240520 else (4, "I")
    return list(struct.unpack_from(f"<{count}{code}", data, 1024))


def write_fixtures():
    global VOCABULARY
    VOCABULARY = 420
    corpus = [mixed_text(2000, seed) for seed in range(20)]
    text = mixed_text(2500, 4242)
    cases = []
    for name, tokenizer in make_tokenizers(corpus):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        cases.append({"name": name, "tokenizer": json.loads(tokenizer.to_str()), "ids": ids,
                      "decoded": tokenizer.decode(ids, skip_special_tokens=False)})
    path = pathlib.Path(__file__).parent / "fixtures.json"
    path.write_text(json.dumps({"package": f"tokenizers {tokenizers.__version__}", "text": text, "cases": cases},
                               separators=(",", ":")) + "\n")
    print(f"{path}: {len(cases)} tokenizers, {path.stat().st_size} bytes")
    return 0


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("ltrain")
    arguments.add_argument("--bytes", type=int, default=300_000)
    arguments.add_argument("--write-fixtures", action="store_true")
    options = arguments.parse_args()
    if options.write_fixtures:
        return write_fixtures()
    corpus = [mixed_text(2000, seed) for seed in range(60)]
    text = mixed_text(options.bytes, 4242) + "x" * (options.bytes // 10) + " \u00e9" + "ab" * 1000
    data = with_invalid_bytes(text, 1)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "text.txt")
        source.write_bytes(data)
        for name, tokenizer in [*make_tokenizers(corpus), *more_tokenizers(corpus)]:
            file = pathlib.Path(folder, "tokenizer.json")
            tokenizer.save(str(file))
            begin = time.monotonic()
            expected = tokenizer.encode(data.decode("utf-8", "replace"), add_special_tokens=False).ids
            theirs = time.monotonic() - begin
            begin = time.monotonic()
            result = subprocess.run([options.ltrain, "prepare", "--input", str(source), "--tokenizer", str(file), "--out",
                                     folder + "/out", "--val-fraction", "0", "--force"], capture_output=True, text=True)
            ours = time.monotonic() - begin
            if result.returncode != 0:
                print(f"{name}: ltrain prepare ended with {result.returncode}: {result.stderr}")
                failed += 1
                continue
            found = tokens_of(folder + "/out/train.bin")
            if found == expected:
                print(f"{name}: {len(found)} tokens of {len(data)} bytes are the same; {ours:.2f} s, the package {theirs:.2f} s")
                continue
            failed += 1
            at = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
            near = slice(max(0, at - 3), at + 6)
            print(f"{name}: token {at} of {len(expected)} (found {len(found)}) differs: expected {expected[near]} "
                  f"{tokenizer.decode(expected[near])!r}, found {found[near]} {tokenizer.decode(found[near])!r}")
    return 1 if failed else 0


sys.exit(main())
