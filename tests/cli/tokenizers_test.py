"""Tokenizers of runs, their data and their base model (model.from): which are kept, compared and refused. Also keys
that contradict the base model."""

import json
import math
import re

import program
import training

MODEL = ("--model.preset=llama-tiny", *training.LAYERS, "--model.vocab=260")


def byte_level(*added):
    """A tokenizer.json with a token for each byte, "th" (256), and these added tokens from 257 on."""
    names, other = {}, 256
    for byte in range(256):
        is_itself = 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or byte >= 0xAE
        names[chr(byte if is_itself else other)] = byte
        other += not is_itself
    return {"added_tokens": [{"id": 257 + i, "content": content, "special": True} for i, content in enumerate(added)],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {**names, "th": 256}, "merges": ["t h"]}}


def rewritten(tokenizer):
    """The same tokenizer as another version writes it."""
    model = {**tokenizer["model"], "merges": [merge.split(" ") for merge in tokenizer["model"]["merges"]], "byte_fallback": False}
    return json.dumps({"version": "1.0", **tokenizer, "model": model, "post_processor": None}, indent=1)


def characters(before, decoder):
    """A tokenizer.json of characters, with U+2581 for spaces, one of which is put before a text by these parts."""
    vocab = {token: i for i, token in enumerate(["</s>", *"\u2581HeloWrd", "\u2581H"])}
    return {**before, "decoder": decoder, "added_tokens": [{"id": 0, "content": "</s>", "special": True}],
            "model": {"type": "BPE", "vocab": vocab, "merges": ["\u2581 H"]}}


class Tokenizers(training.TrainingTest):
    def prepared(self, name, tokenizer):
        """Token files beside this tokenizer.json, or bytes, or without any."""
        folder = self.folder / name
        (self.folder / f"{name}-model").mkdir()
        path = self.write(f"{name}-model/tokenizer.json", tokenizer if isinstance(tokenizer, str) else json.dumps(tokenizer))
        done = program.run("prepare", "--input", self.folder / "text.txt", "--out", folder,
                           "--tokenizer", path if tokenizer else "byte")
        self.assertEqual(done.returncode, 0, done.stderr)
        return folder

    def base(self, tokenizer):
        """A Hugging Face folder with this tokenizer.json."""
        data = self.prepared("base-data", tokenizer)
        self.trained(f"--data.train={data}/train.bin", run="base-run", steps=1, model=MODEL)
        done = program.run("checkpoint", "export", self.folder / "base-run", "--out", self.folder / "hf")
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / "hf"

    def test_an_unsupported_tokenizer_is_named_and_kept(self):
        hf = self.base(byte_level())
        unigram = {**byte_level(), "model": {"type": "Unigram", "vocab": [["a", 0.0]]}}
        files = {"tokenizer.json": json.dumps(unigram), "tokenizer_config.json": "{}", "tokenizer.model": b"\x0a\xff\x00"}
        for name, content in files.items():
            self.write(f"hf/{name}", content)
        kept = "its files are kept for export; sample and eval need --tokenizer FILE.json\n"

        same = "--tokenizer FILE.json: the same tokenizer in a form that docs/how-to/data.md lists"

        def check(number, what):
            zero, out = self.folder / f"zero{number}", self.folder / f"out{number}"
            done = program.run("checkpoint", "import", hf, "--out", zero)
            self.assertEqual((done.returncode, done.stderr), (0, f"warning: [tokenizer] {hf}{what[0]}: {kept}"))
            done = program.run("sample", "--checkpoint", zero, "--prompt", "a", "--tokens", "1")
            step = zero / "step-00000000"
            self.assert_error(done, 3, f"[checkpoint] {step}/manifest.json: tokenizer{what[1]}",
                              same)
            done = program.run("eval", "--checkpoint", zero, "--choices", self.write("q.jsonl", "{}"))
            self.assert_error(done, 2, "[data] choices: expected a model with a tokenizer, found one of another kind: "
                                       f"{step}/manifest.json: tokenizer{what[1]}", same)
            sample = ("sample", "--checkpoint", zero, "--prompt", "a", "--tokens", "1", "--tokenizer")
            self.assert_error(program.run(*sample, "byte"), 2,
                              f"[usage] --tokenizer byte: expected the tokenizer of the model, {step}/manifest.json, got another one", same)
            self.assertEqual(program.run(*sample, self.folder / "base-data").returncode, 0)
            self.assertEqual(program.run("checkpoint", "export", zero, "--out", out).returncode, 0)
            for name in files:
                self.assertEqual((out / name).read_bytes() if (out / name).exists() else None,
                                 (hf / name).read_bytes() if (hf / name).exists() else None, name)

        check(0, ("/tokenizer.json: model.type: expected \"BPE\", found \"Unigram\"",
                  ": model.type: expected \"BPE\", found \"Unigram\""))
        data, model = self.folder / "base-data", ("--train.seq=16",)
        tune = (f"--model.from={hf}", f"--data.train={data}/train.bin")
        self.assert_error(self.train(*tune, run="refused", model=model, steps=1), 2,
                          f"[data] data.train: expected the tokenizer of model.from, {hf}/tokenizer.json, got {data}/tokenizer.json",
                          "`ltrain prepare` does not support that tokenizer: copy its tokenizer.json beside token files that another "
                          "program made with it, or put the same tokenizer in a form that docs/how-to/data.md lists into the model's folder")
        (self.folder / "copied").mkdir()
        for name, source in (("train.bin", data), ("tokenizer.json", hf)):
            (self.folder / "copied" / name).write_bytes((source / name).read_bytes())
        self.trained(tune[0], f"--data.train={self.folder}/copied/train.bin", run="tuned", model=model, steps=1)
        (hf / "tokenizer.json").unlink()
        only = ": expected a tokenizer.json, found only tokenizer.model, tokenizer_config.json"
        check(1, (only, only))
        self.write("hf/tokenizer.json", "version https://git-lfs.github.com/spec/v1\n")
        self.assert_error(program.run("checkpoint", "import", hf, "--out", self.folder / "broken"), 3,
                          f"[data] {hf}/tokenizer.json: expected a JSON object, found broken JSON at line 1, column 1: "
                          "syntax error while parsing value - invalid literal; last read: 'v'")
        self.assertFalse((self.folder / "broken").exists())

    def test_data_of_several_tokenizers_is_refused(self):
        a, b, c = (self.prepared(name, byte_level(added)) for name, added in (("a", "</s>"), ("b", "<eos>"), ("c", "</s>")))
        (c / "tokenizer.json").write_text(rewritten(byte_level("</s>")))
        prepare = "prepare the files with that tokenizer: `ltrain prepare --tokenizer`"

        def refused(key, found, *options, first="data.train", hint=prepare):
            done = self.train(*options, "--train.eval_every=1", model=MODEL, run="refused", steps=1)
            self.assert_error(done, 2, f"[data] {key}: expected the tokenizer of {first}, {a}/tokenizer.json, got {found}", hint)

        train = f"--data.train={a}/train.bin"
        refused("data.val", f"{b}/tokenizer.json", train, f"--data.val={b}/val.bin")
        refused("data.val", f"bytes ({self.folder}/data/tokenizer.json)", train, f"--data.val={self.folder}/data/val.bin")
        refused("data.train", f"{b}/tokenizer.json", f"--data.train={self.folder}/[ab]/train.bin", f"--data.val={a}/val.bin")
        refused("data.sources[1]", f"{b}/tokenizer.json", "--data.train=", f"--data.val={a}/val.bin",
                f'--data.sources=[{{"files": "{a}/train.bin"}}, {{"files": "{b}/train.bin"}}]', first="data.sources[0]")
        (b / "tokenizer.json").unlink()
        refused("data.val", f"bytes (no tokenizer.json in {b})", train, f"--data.val={b}/val.bin",
                hint="token files without a tokenizer.json count as bytes: put theirs beside them")
        self.trained(train, "--train.eval_every=1", f"--data.val={c}/val.bin", model=MODEL, run="same", steps=1)

    def test_data_of_another_tokenizer_than_the_model_is_refused(self):
        hf = self.base(byte_level("</s>"))
        self.assertEqual(program.run("checkpoint", "import", hf, "--out", self.folder / "zero").returncode, 0)
        manifest = self.folder / "zero/step-00000000/manifest.json"
        other, more = self.prepared("other", byte_level("<eos>")), self.prepared("more", byte_level("</s>", "<|im_end|>"))
        less, bytes_of = self.prepared("less", byte_level()), self.folder / "data"
        # "other" has ids beyond this vocabulary, too: what differs is the tokenizer.
        for base, place in ((hf, hf / "tokenizer.json"), (self.folder / "zero", manifest)):
            for data, found in ((other, f"{other}/tokenizer.json"), (less, f"{less}/tokenizer.json"),
                                (bytes_of, f"bytes ({bytes_of}/tokenizer.json)")):
                done = self.train(f"--model.from={base}", f"--data.train={data}/train.bin", run="refused", model=(), ranks=2)
                self.assert_error(done, 2, f"[data] data.train: expected the tokenizer of model.from, {place}, got {found}")
        # Marks of a chat may be added. A run that goes on does not look at the model.
        tuned = (f"--model.from={hf}", f"--data.train={more}/train.bin")
        self.trained(*tuned, model=("--train.seq=16",), steps=1)
        (hf / "tokenizer.json").unlink()
        self.trained(*tuned, model=("--train.seq=16",), steps=2)
        done = self.train(*tuned, run="refused", model=(), steps=1)
        self.assert_error(done, 2, f"[data] data.train: expected the tokenizer of model.from, bytes (no tokenizer.json in {hf}), "
                                   f"got {more}/tokenizer.json",
                          "a model without a tokenizer.json counts as one of bytes: put its file into its folder")

    def test_a_run_keeps_the_tokenizer_of_its_checkpoint(self):
        data, other = self.prepared("kept", byte_level("</s>")), self.prepared("other", byte_level("<eos>"))
        self.trained(f"--data.train={data}/train.bin", model=MODEL, steps=1)

        def manifest(step):
            return json.loads((self.folder / f"run/checkpoints/step-0000000{step}/manifest.json").read_text())

        alone = self.folder / "alone/train.bin"
        alone.parent.mkdir()
        alone.write_bytes((data / "train.bin").read_bytes())
        self.trained(f"--data.train={alone}", model=MODEL, steps=2)
        self.assertEqual(manifest(2)["tokenizer"], manifest(1)["tokenizer"])
        found = f"expected the tokenizer of the checkpoint, {self.folder}/run/checkpoints/step-00000002/manifest.json, got"
        (alone.parent / "tokenizer.json").write_bytes((other / "tokenizer.json").read_bytes())
        self.assert_error(self.train(f"--data.train={alone}", model=MODEL, steps=3), 2,
                          f"[data] data.train: {found} {alone.parent}/tokenizer.json")
        begun = ("--checkpoint.resume=" + str(self.folder / "run"), "--run.dir=" + str(self.folder / "begun"))
        self.assert_error(self.train(f"--data.train={other}/train.bin", *begun, model=MODEL, steps=3), 2,
                          f"[data] data.train: {found} {other}/tokenizer.json")
        (alone.parent / "tokenizer.json").write_text("")
        self.assert_error(self.train(f"--data.train={alone}", model=MODEL, steps=3), 3,
                          f"[data] {alone.parent}/tokenizer.json: expected a JSON object, found broken JSON at line 1, column 1: "
                          "syntax error while parsing value - unexpected end of input; expected '[', '{', or a literal")

    def test_texts_begin_and_end_with_a_document_where_documents_are_apart(self):
        (self.folder / "model").mkdir()
        tokenizer = self.write("model/tokenizer.json", json.dumps(byte_level("</s>")))
        documents = self.write("documents.jsonl", '{"text": "ab"}\n' * 400)
        done = program.run("prepare", "--input", documents, "--out", self.folder / "apart", "--tokenizer", tokenizer)
        self.assertEqual(done.returncode, 0, done.stderr)
        for documents, text in (("mask", "ab\n"), ("cross", "ab</s>ab</s>\n")):
            self.trained(f"--data.train={self.folder}/apart/train.bin", f"--data.documents={documents}", "--optim.lr=0.02",
                         "--optim.schedule=constant", run=documents, steps=40, model=MODEL)
            sample = ("sample", "--checkpoint", self.folder / documents, "--temperature", 0, "--tokens")
            self.assertEqual(program.run(*sample, 5, "--prompt", "a").stdout, text)
        begun = [program.run(*sample, 4, "--prompt", prompt).stdout for prompt in ("</s>", "")]
        self.assertEqual(begun, ["</s>ab</s>a\n", "ab</s>a\n"])

    def test_a_sample_of_a_run_begins_with_one_token_as_planned(self):
        data = self.prepared("prepended", {**byte_level(), "normalizer": {"type": "Prepend", "prepend": "xy"}})
        self.trained(f"--data.train={data}/train.bin", "--train.sample_every=1", "--model.max_seq=256", model=MODEL, steps=2)
        start = next(line for line in self.lines() if line.get("event") == "start")
        peaks = [row["memory_peak_bytes"] for row in self.lines() if "memory_peak_bytes" in row]
        self.assertEqual(peaks[-1], start["predicted_peak_bytes"], peaks)  # the first step is before the first sample

    def test_a_folder_that_is_no_model_is_named_before_the_data(self):
        data = self.prepared("data-of-merges", byte_level("</s>"))
        (self.folder / "adapter").mkdir()
        self.write("adapter/adapter_config.json", '{"base_model_name_or_path":"org/base"}')
        (self.folder / "cache/snapshots/abc").mkdir(parents=True)
        for path, found, hint in (("nowhere", "none", None), ("text.txt", "a file", "the folder of config.json and the weights, or that of a run or a step"),
                                  ("adapter", "an adapter of org/base", "merge it into its base first (PEFT's merge_and_unload), or export a run of adapters without --adapter"),
                                  ("cache", f"the root of a Hugging Face cache, with the model in {self.folder}/cache/snapshots/abc", None)):
            done = self.train(f"--model.from={self.folder / path}", f"--data.train={data}/train.bin", run="refused", model=("--train.seq=16",))
            self.assert_error(done, 3, f"[checkpoint] model.from: {self.folder / path}: expected a Hugging Face folder or a checkpoint, found {found}", hint)

    def test_ids_beyond_the_vocabulary_of_the_model_are_of_its_tokenizer(self):
        """Tokenizers are compared before ids, and no hint names a key that model.from would refuse."""
        hf = self.base(byte_level("</s>"))
        marks = [f"<{i}>" for i in range(8)]
        self.write("text.txt", "".join(marks) * 40)
        other, more = self.prepared("other", byte_level(*marks)), self.prepared("more", byte_level("</s>", *marks))

        def refused(data, code, error, hint=None):
            done = self.train(f"--model.from={hf}", f"--data.train={data}/train.bin", run="refused", model=("--train.seq=16",), ranks=2)
            self.assert_error(done, code, error, hint)

        refused(other, 2, f"[data] data.train: expected the tokenizer of model.from, {hf}/tokenizer.json, got {other}/tokenizer.json")
        refused(more, 3, f"[data] rank 0: data.train {more}/train.bin: offset 1028: expected a token below the vocabulary 260, found 260 "
                         "(token number 2)", "a larger vocabulary of the model, or data that the tokenizer of the model has prepared")
        # Neither has what is no token file a tokenizer.
        (self.folder / "folder/train.bin").mkdir(parents=True)
        refused(self.folder / "folder", 3, f"[data] rank 0: data.train {self.folder}/folder/train.bin: expected a regular file, found a folder")
        done = program.run("train", f"--model.from={hf}", "--train.steps=1", f"--run.dir={self.folder}/refused")
        self.assert_error(done, 2, "[config] data.train: expected token files, got none",
                          f"make them with: ltrain prepare --input FILE --tokenizer {hf} --out data")

    def test_a_key_that_makes_another_model_is_named(self):
        hf = self.base(byte_level())
        keys = (("layers", "2", "3"), ("width", "32", "64"), ("family", '"llama"', '"gpt2"'), ("tie_embeddings", "false", "true"),
                ("heads", "2", "4"), ("norm_eps", "1e-05", "1e-06"), ("window", "0", "8"))
        for base in (hf, self.folder / "base-run"):
            for key, expected, found in keys:
                given = (f"--model.from={base}", f"--model.{key}=" + found.strip('"'), "--train.seq=16")
                planned = program.run("plan", *given)
                trained = self.train(*given, run="refused", steps=1, model=(), ranks=2) if key in ("layers", "heads") else planned
                for done in (planned, trained):
                    self.assert_error(done, 2, f"[config] model.{key}: expected {expected}, as model.from {base} has, got {found} "
                                               "(from the command line)", "leave the key out: the model is that of model.from")
        for preset, expected, found in (("llama-tiny", "layers 2", "layers 4"), ("gpt-tiny", 'family "llama"', 'family "gpt2"')):
            done = self.train(f"--model.from={hf}", f"--model.preset={preset}", run="refused", model=(), steps=1)
            self.assert_error(done, 2, f"[config] model.preset: expected the model of model.from {hf}, with {expected}, got {preset} "
                                       f"with {found} (from the command line)")
        # What a run may choose, and the file that a run writes.
        self.trained(f"--model.from={hf}", f"--data.train={self.folder}/base-data/train.bin", "--model.dropout=0.1", "--model.max_seq=32",
                     "--model.rope_base=5000", "--model.rope_scaling=linear:2", model=("--train.seq=16",), steps=1)
        again = ("--config", self.folder / "run/config.toml", f"--run.dir={self.folder}/again", f"--checkpoint.dir={self.folder}/again/checkpoints")
        done = program.run("train", *again)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        done = self.train(f"--model.from={self.folder}/base-run", "--model.preset=llama-tiny", run="refused", model=(), steps=1)
        self.assert_error(done, 2, f"[config] model.layers: expected 2, as model.from {self.folder}/base-run has, got 4")

    def test_eval_refuses_data_of_another_tokenizer(self):
        self.base(byte_level("</s>", "<|im_end|>"))
        other, less = self.prepared("other", byte_level("<eos>")), self.prepared("less", byte_level("</s>"))
        manifest = self.folder / "base-run/checkpoints/step-00000001/manifest.json"

        def evaluated(data, *options, ranks=1):
            return program.run("eval", "--checkpoint", self.folder / "base-run", "--data", data / "train.bin", *options, ranks=ranks)

        self.assert_error(evaluated(other, ranks=2), 2,
                          f"[data] --data: expected the tokenizer of the model, {manifest}, got {other}/tokenizer.json")
        self.assert_error(evaluated(self.folder / "data"), 2, f"[data] --data: expected the tokenizer of the model, {manifest}, "
                                                              f"got bytes ({self.folder}/data/tokenizer.json)")
        self.assertEqual(evaluated(less).returncode, 0)
        done = evaluated(less, "--tokenizer", less, "--seq", 16)
        self.assertEqual(done.returncode, 0, done.stderr)
        for given, name in ((other, other / "tokenizer.json"), ("byte", "byte")):
            self.assert_error(evaluated(other, "--tokenizer", given, ranks=2), 2,
                              f"[usage] --tokenizer {name}: expected the tokenizer of the model, {manifest}, got another one",
                              "without --tokenizer it is that of the model")

    def test_bits_are_those_of_a_byte_of_the_text(self):
        blanks = byte_level("<|endoftext|>", "    ", "  ")
        for token in blanks["added_tokens"][1:]:
            token["special"] = False
        space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
        normalizers = [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]
        decoders = [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
        prefixed = byte_level("</s>")
        prefixed["pre_tokenizer"]["add_prefix_space"] = True
        hello = '{"text": "Hello World"}\n' * 60
        for name, tokenizer, text, counted, size in (
                ("blanks.txt", blanks, "a    b  c\n" * 60, 359, 599),  # bytes but the first, which is no target
                ("prefixed.jsonl", prefixed, hello, 779, 660),
                ("first.jsonl", characters({"pre_tokenizer": space}, space), hello, 719, 659),
                ("prepend.jsonl", characters({"normalizer": {"type": "Sequence", "normalizers": normalizers}},
                                             {"type": "Sequence", "decoders": decoders}), hello, 719, 659)):
            out = self.folder / f"{name}-out"
            done = program.run("prepare", "--input", self.write(name, text), "--out", out, "--val-fraction", 0,
                               "--tokenizer", self.write(f"{name}.json", json.dumps(tokenizer)))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.trained(f"--data.train={out}/train.bin", model=MODEL, run=f"{name}-run", steps=0)
            shown = program.run("eval", "--checkpoint", self.folder / f"{name}-run", "--data", out / "train.bin", "--seq", 1).stdout
            loss, bits = (float(re.search(rf"^{line} (.*)$", shown, re.M)[1]) for line in ("loss", "bits_per_byte"))
            self.assertIn(f"\ntokens {counted} in ", shown)
            self.assertAlmostEqual(loss * counted / math.log(2) / bits, size, delta=0.01, msg=name)

    def test_bytes_are_not_exported(self):
        self.trained(steps=1)
        out, zero = self.folder / "hf", self.folder / "zero"
        done = program.run("checkpoint", "export", self.folder / "run", "--out", out)
        self.assertEqual((done.returncode, done.stderr),
                         (0, f"warning: [tokenizer] {out}: the format has no file for the tokenizer byte; sample and eval of an import need "
                             "--tokenizer byte\n"))
        self.assertEqual(program.run("checkpoint", "import", out, "--out", zero).returncode, 0)
        evaluate = ("eval", "--data", self.folder / "data/val.bin", "--seq", 200, "--checkpoint")
        self.assertNotIn("bits_per_byte", program.run(*evaluate, zero).stdout)
        given = program.run(*evaluate, zero, "--tokenizer", "byte").stdout
        self.assertIn("bits_per_byte", given)
        self.assertIn("tokens 200 in 1 block, ", given)
        tokenizer = self.write("tokenizer.json", json.dumps(byte_level()))
        self.assert_error(program.run(*evaluate, self.folder / "run", "--tokenizer", tokenizer), 2,
                          f"[usage] --tokenizer {tokenizer}: expected the tokenizer of the model, bytes by {self.folder}/run/checkpoints/"
                          "step-00000001/manifest.json, got another one", "without --tokenizer it is that of the model")


if __name__ == "__main__":
    program.main()
