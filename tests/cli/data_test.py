"""`ltrain train` and its data: sources by weight, epochs, and the warnings about repeated samples."""

import json
import os
import struct

import program
from training import LAYERS


class Data(program.CliTest):
    def setUp(self):
        super().setUp()
        for name, text in (("a", "The quick brown fox jumps over the lazy dog. "), ("b", "0123456789 and more. ")):
            source = self.write(f"{name}.txt", text * 20)
            done = program.run("prepare", "--input", source, "--out", self.folder / name, "--val-fraction", "0")
            self.assertEqual(done.returncode, 0)
        self.a, self.b = (self.folder / name / "train.bin" for name in "ab")  # 900 and 420 tokens: 56 and 26 samples

    def train(self, *options, run="run", ranks=1):
        return program.run("train", *LAYERS, f"--train.micro_batch={4 // ranks}", "--optim.schedule=constant",
                           f"--run.dir={self.folder / run}", *options, ranks=ranks)

    def trained(self, *options, **settings):
        done = self.train(*options, **settings)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def losses(self, run):
        rows = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
        return {row["step"]: row["loss_hex"] for row in rows if "loss_hex" in row}

    def sources(self, weight, weight_of_b=None):
        of_b = {"weight": weight_of_b} if weight_of_b else {}  # 1 unless said
        return "--data.sources=" + json.dumps([{"files": str(self.a), "weight": weight}, {"files": [str(self.b)], **of_b}])

    def test_sources_are_mixed_and_a_resumed_run_goes_on_exactly(self):
        out = self.trained(self.sources(3), "--train.steps=30", run="whole")
        # A step has 3 samples of a and 1 of b. Sample 56 of a is in step 19, sample 26 of b in step 27.
        self.assertEqual([line for line in out.splitlines() if line.startswith("warning: ")],
                         ["warning: data.sources[0] repeats from step 19 on",
                          "warning: data.sources[1] repeats from step 27 on"])
        self.assertNotIn("warning: ", self.trained(self.sources(3), "--train.steps=9", run="parts"))
        # The 36 samples of nine steps, then other steps of two ranks: the rest repeats at the same samples.
        out = self.trained(self.sources(3), "--train.steps=30", run="parts")
        self.assertIn("warning: data.sources[0] repeats from step 19 on", out)
        self.assertEqual(self.losses("parts"), {step: loss for step, loss in self.losses("whole").items() if step <= 30})
        out = self.trained(self.sources(3), "--train.steps=32", run="whole")
        self.assertIn("warning: data.sources[0]: all of it has been used before; it repeats", out)
        changed = self.train(self.sources(2), "--train.steps=31", run="parts")
        self.assertEqual(changed.returncode, 2)
        self.assertIn(f"config.toml has another configuration: data.sources: [{{files = [\"{self.a}\"], weight = 3.0}}, ",
                      changed.stderr)
        # The same ratio, whose shares as floating-point numbers differ from those of 3 and 1.
        self.assertIn("step    31/31", self.trained(self.sources(0.3, 0.1), "--train.steps=31", run="parts"))

    def test_the_seed_of_the_data_and_shuffling_order_the_samples_of_an_epoch(self):
        losses = {}
        for run, options in (("1337", ()), ("7", ("--data.seed=7",)), ("in-order", ("--data.shuffle=false",))):
            # Without updates a step's loss is that of its one sample.
            self.trained(f"--data.train={self.a}", "--data.epochs=1", "--train.micro_batch=1", "--optim.lr=0",
                         "--optim.min_lr=0", *options, run=run)
            losses[run] = list(self.losses(run).values())
            self.assertEqual(len(losses[run]), 56)
            self.assertEqual(sorted(losses[run]), sorted(losses["1337"]))
        self.assertEqual(len({tuple(order) for order in losses.values()}), 3)
        self.trained(f"--data.train={self.a}", "--train.steps=9", "--train.micro_batch=1", "--optim.lr=0",
                     "--data.seed=1337", "--train.seed=1337", run="given")
        self.assertEqual(list(self.losses("given").values()), losses["1337"][:9])

    def test_few_blocks_are_told(self):
        told = [f"warning: data.train has {blocks} of train.seq {seq} tokens, fewer than 10: more data or a smaller train.seq gives more"
                for blocks, seq in (("9 blocks", 46), ("1 block", 256))]
        for line, seq in zip(told, (46, 256)):
            out = self.trained(f"--data.train={self.b}", f"--train.seq={seq}", "--train.steps=1", run=f"of-{seq}")
            self.assertIn(line, out.splitlines())
        self.assertNotIn("fewer than", self.trained(f"--data.train={self.b}", "--train.seq=41", "--train.steps=1", run="enough"))

    def test_validation_data_that_is_not_evaluated_is_told(self):
        unused = (f"--data.train={self.a}", "--train.steps=1")
        self.assertIn("warning: data.val is never evaluated: train.eval_every is 0",
                      self.trained(*unused, f"--data.val={self.b}").splitlines())
        for name, found, evaluations in (("none.bin", "expected a readable token file, found: No such file or directory", (0, 1)),
                                         ("none*.bin", "expected at least one file, the pattern matches none", (0,))):
            for every in evaluations:
                self.assert_error(self.train(*unused, f"--data.val={name}", f"--train.eval_every={every}", run="none"), 3,
                                  f"[data] data.val {name}: {found}")

    def test_raw16_tokens_are_no_bytes(self):
        raw = self.write("raw.bin", bytes(range(200)) * 10)
        run = ("--data.format=raw16", f"--data.train={raw}", "--train.steps=1")
        self.trained(*run, "--model.vocab=60000")
        sample = ("sample", "--prompt", "a", "--tokens", 1, "--tokenizer", "byte", "--checkpoint")
        error = "[usage] --tokenizer byte: expected the tokenizer of the model's raw16 data, of 60000 ids, got the 256 bytes"
        hint = "--tokenizer FILE.json: ids up to 50256 are those of GPT-2's tokenizer.json"
        self.assert_error(program.run(*sample, self.folder / "run"), 2, error, hint)
        self.assert_error(program.run("eval", "--tokenizer", "byte", "--data", raw, "--format", "raw16", "--checkpoint", self.folder / "run"),
                          2, error, hint)
        bytes_alone = self.write("bytes.bin", bytes(n % 7 * (1 - n % 2) for n in range(400)))
        self.trained(*run[:1], f"--data.train={bytes_alone}", *run[2:], run="bytes")
        self.assertEqual(program.run(*sample, self.folder / "bytes").returncode, 0)

    def test_files_alone_repeat_as_one_source(self):
        out = self.trained(f"--data.train={self.a}", "--train.steps=15", ranks=2)
        self.assertIn("\nwarning: data.train repeats from step 15 on\n", out)
        self.assertNotIn("warning: ", self.trained(f"--data.train={self.a}", "--train.steps=14", run="short"))

    def test_epochs_stand_in_place_of_steps(self):
        out = self.trained(f"--data.train={self.a}", "--data.epochs=1", ranks=2)
        self.assertRegex(out, "step +14/14 ")
        self.assertNotIn("warning: ", out)
        config = self.folder / "run/config.toml"
        self.assertIn("\n# steps = 14\n", config.read_text())
        self.assertIn("complete: 14 steps are done", self.trained("--config", config))
        self.assertRegex(self.trained("--config", config, "--data.epochs=1.5"), "step +21/21 ")
        self.assertRegex(self.trained(self.sources(1), "--data.epochs=0.5", run="sources"), "step +10/10 ")
        # 28 samples in steps of 4, 24 more in steps of 8, then 32 in steps of 4: samples count, not steps.
        for epochs, accum, steps, more in ((0.5, 1, 7, None), (1, 2, 10, "0.5 before, 1.0 now, 10 steps in all, of which 3 remain"),
                                           (1.5, 1, 18, "1.0 before, 1.5 now, 18 steps in all, of which 8 remain"),
                                           (2, 1, 25, "1.5 before, 2.0 now, 25 steps in all, of which 7 remain")):
            out = self.trained(f"--data.train={self.a}", f"--data.epochs={epochs}", f"--train.accum={accum}", run="batches")
            self.assertRegex(out, f"step +{steps}/{steps} ")
            self.assertNotIn("train.steps: ", out)
            if more:
                self.assertIn(f"data.epochs: {more}\n", out)
        self.assertRegex(self.trained(f"--data.train={self.a}", "--data.epochs=0.01", run="short"), "step +1/1 ")
        self.assert_error(self.train(f"--data.train={self.a}", "--data.epochs=1", "--train.steps=14"), 2,
                          "[config] train.steps: expected none with data.epochs=1, which it follows from, got 14 "
                          "(from the command line)")
        self.assert_error(self.train("--data.epochs=1"), 2, "[config] data.epochs: expected data.train or data.sources "
                                                            "with it, got none (from the command line)")
        self.assert_error(self.train(f"--data.train={self.a}", "--data.epochs=1e9"), 2,
                          "[config] data.epochs: expected at most 2147483647 steps, got 14000000000 of 4 samples in "
                          "data.train (from the command line)")
        # A plan needs neither files nor steps.
        self.assertEqual(program.run("plan", *LAYERS, "--data.train=none.bin", "--data.epochs=1").returncode, 0)

    def test_a_run_begun_from_another_reads_other_data_from_its_begin(self):
        self.trained(f"--data.train={self.a}", "--data.epochs=1", run="first")  # 14 steps of 4
        begun = (f"--checkpoint.resume={self.folder}/first", "--optim.lr=0")
        same = self.trained(f"--data.train={self.a}", "--data.epochs=1.5", *begun, run="same")
        self.assertRegex(same, "step +21/21 ")
        self.assertNotIn("other samples", same)
        for run, options, steps, more in (("other", (f"--data.train={self.b}", "--data.epochs=1"), 20, 27),
                                          ("seq", (f"--data.train={self.a}", "--data.epochs=1", "--train.seq=32"), 21, 28)):
            out = self.trained(*options, *begun, run=run)
            self.assertRegex(out, f"step +{steps}/{steps} ")
            self.assertIn("\ndata.train: other samples than those of the checkpoint, read from the first one on\n", out)
            self.assertNotIn("used up", out)
            self.assertIn(f"\ndata.epochs: 1.0 as before, {steps} steps in all, of which {steps - 14} remain\n", out)
            self.assertRegex(self.trained(*options, "--data.epochs=2", "--optim.lr=0", run=run), f"step +{more}/{more} ")
        self.assert_error(self.train(f"--data.train={self.a}", "--data.epochs=0.5", *begun, run="less"), 2,
                          "[config] data.epochs: expected more than the samples that checkpoint.resume "
                          f"{self.folder}/first/checkpoints/step-00000014 has read, got 0.5")
        # Without updates a step's loss is that of its samples alone.
        self.trained(f"--data.train={self.b}", f"--model.from={self.folder}/first", "--train.steps=6", "--optim.lr=0", run="fresh")
        self.assertEqual(list(self.losses("other").values())[:6], list(self.losses("fresh").values()))

    def test_a_run_begun_from_another_reads_another_order_from_its_begin(self):
        first = (self.sources(3), "--train.steps=6")
        self.trained(*first, run="first")
        begun = (f"--checkpoint.resume={self.folder}/first", "--train.steps=9", "--optim.lr=0")
        begins = "\ndata.sources: other samples than those of the checkpoint, read from the first one on\n"
        same = self.trained(self.sources(0.3, 0.1), *begun, run="same")
        self.assertNotIn("other samples", same)
        for run, options, change in (("seed", (self.sources(3), "--data.seed=7"), "data.seed: 1337 before, 7 now"),
                                     ("shuffle", (self.sources(3), "--data.shuffle=false"), "data.shuffle: true before, false now"),
                                     ("weights", (self.sources(1.5),), "weights of the sources: 3:1 before, 3:2 now")):
            out = self.trained(*options, *begun, run=run)
            self.assertIn(f"\n{change}\n", out)
            self.assertIn(begins, out)
            self.trained(*options, f"--model.from={self.folder}/first", "--train.steps=3", "--optim.lr=0", run=f"{run}-fresh")
            self.assertEqual(list(self.losses(run).values()), list(self.losses(f"{run}-fresh").values()))

    def test_ranks_with_other_files_are_told(self):
        text = self.a.read_bytes()
        for folder, bytes_there in (("0", text), ("1", text[:-2] + b"z\0"), ("2", self.b.read_bytes()), ("3", text)):
            (self.folder / folder).mkdir()
            (self.folder / folder / "x.bin").write_bytes(bytes_there)
        (self.folder / "0/x2.bin").write_bytes(text)
        digest = "[0-9a-f]{16}"
        for other, files, error in (
                ("0", "x.bin", None),
                ("1", "x.bin", f"expected x.bin of digest {digest} on rank 1, as on rank 0, found {digest}"),
                ("2", "x.bin", "expected 1 file of 2824 bytes on rank 1, as on rank 0, found 1 file of 1864 bytes"),
                ("3", "x*.bin", "expected 2 files of 5648 bytes on rank 1, as on rank 0, found 1 file of 2824 bytes")):
            done = program.run_in_folders((self.folder / "0", self.folder / other), "train", *LAYERS, f"--data.train={files}",
                                          "--train.steps=1", f"--run.dir={self.folder}/run-{other}")
            self.assertEqual(done.returncode, 3 if error else 0, done.stderr)
            self.assertRegex(done.stderr, "data.train: " + error if error else "^$")

    def test_documents_need_a_token_that_ends_them(self):
        needs = ("[config] data.documents: expected cross without a tokenizer with an end-of-text token beside data.train, "
                 "got mask with {} (from the command line)")
        mask = (f"--data.train={self.a}", "--data.documents=mask", "--train.steps=1")
        self.assert_error(self.train(*mask, ranks=2), 2, needs.format("bytes, which have no such token"),
                          "docs/how-to/data.md lists the names of such tokens")
        plan = ("plan", *LAYERS, "--data.documents=mask")
        self.assert_error(program.run(*plan, f"--data.train={self.a}"), 2, needs.format("bytes, which have no such token"))
        self.assertEqual(program.run(*plan, "--data.train=none*.bin").returncode, 0)
        (self.folder / "a/tokenizer.json").unlink()
        self.assert_error(self.train(*mask), 2, needs.format("no tokenizer.json"))
        self.assert_error(program.run(*plan, f"--data.train={self.a}"), 2, needs.format("no tokenizer.json"))
        self.write("a/tokenizer.json", json.dumps({"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}))
        self.assert_error(self.train(*mask), 2, needs.format("a tokenizer.json without such a token"))

    def test_a_mask_that_excludes_all_targets_is_refused(self):
        count = struct.unpack("<3i", (self.folder / "a/train.bin").read_bytes()[:12])[2]
        # The first token is never a target, and neither is one behind the last whole block.
        bits = bytearray(b"\x01") + bytearray((count + 7) // 8 - 1)
        bits[(count - 1) // 8] |= 1 << (count - 1) % 8
        self.assertNotEqual((count - 1) % 16, 0)
        self.write("a/train.mask", struct.pack("<256i", 20261124, 1, count, *[0] * 253) + bytes(bits))
        none = f"{self.a}: expected tokens that count as targets, found none: its mask excludes them all"
        self.assert_error(self.train(f"--data.train={self.a}", "--train.steps=1", ranks=2), 3,
                          "[data] rank 0: data.train " + none)
        self.assert_error(self.train(f"--data.train={self.b}", f"--data.val={self.a}", "--train.eval_every=1",
                                     "--train.steps=1"), 3, "[data] data.val " + none)

    def test_an_evaluation_in_which_no_target_counts_has_no_loss(self):
        count = struct.unpack("<3i", (self.folder / "a/train.bin").read_bytes()[:12])[2]
        bits = bytes(3) + b"\xff" * ((count + 7) // 8 - 3)  # the first 24 tokens are no targets
        bits = bits[:-1] + bytes([(1 << count % 8) - 1]) if count % 8 else bits
        self.write("a/train.mask", struct.pack("<256i", 20261124, 1, count, *[0] * 253) + bits)
        out = self.trained(f"--data.train={self.b}", f"--data.val={self.a}", "--train.eval_every=1", "--train.steps=1",
                           "--train.eval_tokens=16")
        self.assertIn("eval      1 | loss none, no target counts\n", out)
        events = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        event, = (event for event in events if event.get("event") == "eval")
        self.assertEqual((event["loss"], event["tokens"]), (None, 0))

    def test_a_step_in_which_no_target_counts_says_so(self):
        count = struct.unpack("<3i", (self.folder / "a/train.bin").read_bytes()[:12])[2]
        bits = bytes(9) + b"\xff" * ((count + 7) // 8 - 9)  # the first 72 tokens are no targets: a step and a half sample
        bits = bits[:-1] + bytes([(1 << count % 8) - 1]) if count % 8 else bits
        self.write("a/train.mask", struct.pack("<256i", 20261124, 1, count, *[0] * 253) + bits)
        out = self.trained(f"--data.train={self.a}", "--data.shuffle=false", "--train.steps=2")
        self.assertIn("step     1: no update, because none of its targets counts", out)
        events = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        skip, = (event for event in events if event.get("event") == "skip")
        self.assertEqual((skip["step"], skip["reason"], skip["loss_scale"]), (1, "no target counts", 1))
        first, second = (event["loss"] for event in events if "loss_hex" in event)
        self.assertEqual(first, 0)
        self.assertGreater(second, 1)

    def test_bad_sources(self):
        self.assert_error(self.train(self.sources(1), f"--data.train={self.a}"), 2,
                          f"[config] data.train: expected none with data.sources, got {self.a} (from the command line)")
        self.assert_error(self.train(self.sources(0.1234567), ranks=2), 2,
                          "[data] data.sources weights[0]: expected a number above 0 with at most six decimals, got 0.1234567")
        for broken, found in (("version https://git-lfs.github.com/spec/v1\n", "a JSON object, found broken JSON at line 1, column "
                               "1: syntax error while parsing value - invalid literal; last read: 'v'"),
                              ("{}", 'a tokenizer.json, with a field "model", found none')):
            where = self.write("b/tokenizer.json", broken)
            self.assert_error(self.train(self.sources(1)), 3, f"[data] {where}: expected {found}")
        none = '--data.sources=[{"files": "none.bin"}]'
        self.assert_error(self.train(none), 3, "[data] data.sources none.bin: expected a readable token file, found: "
                                               "No such file or directory", f"the path is relative to the working folder, {os.getcwd()}")


if __name__ == "__main__":
    program.main()
