"""`ltrain train`: the run's folder, resuming, evaluation, and refused settings."""

import fcntl
import json
import os
import pathlib
import subprocess

import program
from training import LAYERS, PARTS, TrainingTest


class Train(TrainingTest):
    def losses(self, run="run"):
        return {row["step"]: (row["loss_hex"], row["grad_norm"]) for row in self.lines(run) if "loss_hex" in row}

    def test_a_run_leaves_what_the_contract_names(self):
        out = self.trained("--parallel.strategy=zero3", "--train.eval_every=3", "--checkpoint.every=2",
                           "--train.sample_every=6", f"--data.val={self.folder}/data/val.bin", ranks=2)
        self.assertEqual(out.splitlines()[0], "ranks: 2 (Open MPI)")
        self.assertRegex(out, r"step     1/6 \| loss 5\.\d{4} \| norm \d+\.\d{3} \| lr \d\.\d\de-\d\d \| [\d.]+ ms \| "
                              r"[\d.]+k? tok/s \| - mfu \| [\d.]+/[\d.]+ GiB \| eta \d+s")
        run = self.folder / "run"
        for name in ("run.json", "config.toml", "env.json", "arena.svg", "log.txt", "metrics.jsonl", "samples/step-00000006.txt",
                     "checkpoints/step-00000006/manifest.json", "checkpoints/step-00000006/rank-00001.h5"):
            self.assertTrue((run / name).exists(), name)
        rows = [row for row in self.lines() if "event" not in row]
        self.assertEqual([row["step"] for row in rows], [1, 2, 3, 4, 5, 6])
        for row in rows:
            self.assertEqual(float.fromhex(row["loss_hex"]), row["loss"])
            self.assertEqual(row["tokens"], 2 * 2 * 16)
            self.assertEqual(tuple(row["breakdown_ms"]), PARTS)
            self.assertAlmostEqual(sum(row["breakdown_ms"].values()) / row["step_ms"], 1, delta=0.02)
            self.assertEqual({entry["op"] for entry in row["comm"]} - {"broadcast", "barrier"},
                             {"all_gather", "reduce_scatter"})
            self.assertLessEqual(row["ranks"]["step_ms_min"], row["ranks"]["step_ms_max"])
        events = [row["event"] for row in self.lines() if "event" in row]
        self.assertEqual(events, ["start", "checkpoint", "eval", "checkpoint", "eval", "checkpoint", "end"])
        start = self.lines()[0]
        self.assertEqual(sum(start["ledger"].values()), start["predicted_peak_bytes"])

    def test_resuming_is_bit_equal_to_a_run_that_was_never_stopped(self):
        for ranks, strategy, dtype in ((1, "ddp", "f32"), (2, "zero1", "bf16"), (2, "zero3", "f32"), (2, "zero3", "fp8"),
                                       (3, "zero2", "f32")):
            options = (f"--parallel.strategy={strategy}", f"--train.dtype={dtype}", "--train.deterministic=true",
                       "--optim.schedule=constant", "--model.dropout=0.1")
            name = f"{strategy}-{dtype}-{ranks}"
            self.trained(*options, run=f"{name}-whole", ranks=ranks, steps=6)
            self.trained(*options, run=f"{name}-parts", ranks=ranks, steps=4)
            out = self.trained(*options, run=f"{name}-parts", ranks=ranks, steps=6)
            self.assertIn("at step 5", out)
            self.assertEqual(self.losses(f"{name}-parts"), self.losses(f"{name}-whole"))
            checkpoint = f"{name}-parts/checkpoints/step-00000004"
            self.trained(*options, f"--checkpoint.resume={self.folder / checkpoint}", run=f"{name}-elsewhere",
                         ranks=ranks, steps=6)
            whole = self.losses(f"{name}-whole")
            self.assertEqual(self.losses(f"{name}-elsewhere"), {step: whole[step] for step in (5, 6)})

    def test_a_complete_run_says_so_and_a_changed_one_is_refused(self):
        self.trained()
        self.assertIn("complete: 6 steps are done", self.trained())
        checkpoint = self.folder / "run/checkpoints/step-00000006"
        self.assert_error(self.train(f"--checkpoint.resume={checkpoint}", run="elsewhere", steps=6), 2, "[config] train.steps: "
                          f"expected more than the 6 of checkpoint.resume {checkpoint}, got 6",
                          "the checkpoint's steps count too")
        self.assertFalse((self.folder / "elsewhere").exists())
        self.trained("--parallel.strategy=zero2", "--record.every=2", steps=7)  # these may change
        refused = self.train("--optim.lr=0.5", "--model.layers=3", steps=8)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("model.layers: 2 there, 3 now; optim.lr: 0.0003 there, 0.5 now", refused.stderr)
        refused = self.train("--checkpoint.resume=never")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("expected a new or empty folder", refused.stderr)
        self.trained("--checkpoint.resume=never", "--run.force=true", "--optim.lr=0.5")
        self.assertTrue((self.folder / "run.old-1/metrics.jsonl").exists())

    def test_a_refused_start_leaves_an_empty_folder_that_was_there(self):
        (self.folder / "given").mkdir()
        self.assertEqual(self.train(f"--checkpoint.resume={self.folder}/none", run="given").returncode, 3)
        self.assertTrue((self.folder / "given").is_dir())

    def test_singular_and_endless_warmup(self):
        out = self.trained("--model.layers=1", "--optim.warmup=5", steps=1)
        self.assertIn("model: gpt2 1 layer x 32", out)
        self.assertIn("\ndone: 1 step in ", out)
        self.assertIn("warning: optim.warmup 5 is not below train.steps 1: the learning rate rises to the end\n", out)
        self.assertIn("complete: 1 step is done", self.trained("--model.layers=1", "--optim.warmup=5", steps=1))
        self.assertNotIn("warning", self.trained("--optim.warmup=1", run="short", steps=2))
        self.assertIn("written by 1 rank,", program.run("checkpoint", "inspect", self.folder / "run").stdout)
        refused = self.train("--parallel.strategy=zero3", "--parallel.shard_size=2", run="other")
        self.assertIn("parallel.shard_size: expected a divisor of the 1 rank, got 2", refused.stderr)

    def test_zero_steps_initialises_and_saves(self):
        self.trained(steps=0)
        self.assertTrue((self.folder / "run/checkpoints/step-00000000/manifest.json").exists())
        self.trained(run="same", steps=2)
        self.trained("--train.seed=7", run="seeded", steps=2)
        self.trained("--train.seed=7", f"--model.from={self.folder}/run", run="from", steps=2)
        self.assertEqual(self.losses("from"), self.losses("same"))
        self.assertNotEqual(self.losses("from"), self.losses("seeded"))

    def test_an_evaluation_does_not_depend_on_the_ranks(self):
        evaluated = []
        for ranks in (1, 3):  # the weights stay the initial ones
            self.trained("--optim.lr=0", "--train.eval_every=1", "--train.eval_tokens=600", "--parallel.strategy=zero3",
                         f"--data.val={self.folder}/data/val.bin,{self.folder}/data/train.bin", steps=1, ranks=ranks,
                         run=f"ranks-{ranks}")
            evaluated += [line for line in self.lines(f"ranks-{ranks}") if line.get("event") == "eval"]
        self.assertEqual(evaluated[0], evaluated[1])
        self.assertEqual((evaluated[0]["tokens"], len(evaluated[0]["sets"])), (608, 2))  # whole samples of 16
        self.assertEqual(sum(files["tokens"] for files in evaluated[0]["sets"]), 608)

    def test_bad_input_names_file_field_expected_and_actual(self):
        data = self.folder / "data/train.bin"
        content = data.read_bytes()

        def with_data(name, replacement):
            path = self.write(name, replacement)
            return self.train(f"--data.train={path}", ranks=2)

        cases = [
            (with_data("magic.bin", b"\x00" * 2000), 3, f"[data] rank 0: data.train {self.folder}/magic.bin: offset 0"),
            (with_data("short.bin", content[:-1]), 3, "short.bin"),
            (with_data("empty.bin", b""), 3, "empty.bin"),
            (with_data("token.bin", content[:1024 + 200] + b"\x00\x01" + content[1024 + 202:]), 3, "256"),
            (self.train(f"--data.train={self.folder}/none.bin", ranks=2), 3, "none.bin"),
            (self.train("--train.seq=300", ranks=2), 2, "train.seq: expected at most model.max_seq 256, got 300"),
            (self.train("--model.heads=5", ranks=2), 2, "model.heads: expected a divisor of width 32, got 5"),
            (self.train("--parallel.strategy=zero4", ranks=2), 2, "zero4"),
            (self.train("--parallel.strategy=zero3", "--parallel.shard_size=2", ranks=3), 2,
             "parallel.shard_size: expected a divisor of the 3 ranks, got 2"),
            (self.train("--train.device=cuda", ranks=2, environment={"CUDA_VISIBLE_DEVICES": ""}), 2, "train.device: expected a device of this host, got cuda: device cuda:0 "),
            (self.train("--train.microbatch=3", ranks=2), 2, "train.microbatch"),
            (self.train("--train.micro_batch=three", ranks=2), 2, "train.micro_batch: expected an integer"),
            (self.train(f"--checkpoint.resume={self.folder}/nowhere", ranks=2), 3, "nowhere"),
        ]
        for done, code, text in cases:
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stderr.count("error:"), 1, done.stderr)
        self.assertFalse((self.folder / "run").exists())

    def test_ranks_with_different_configurations_are_refused(self):
        both = [program._options.ltrain, "train", *LAYERS, f"--data.train={self.folder}/data/train.bin",
                f"--run.dir={self.folder}/run"]
        command = program.launched(*both, "--train.steps=4", ranks=1)
        done = program.subprocess.run(
            [*program.launched("", ranks=2)[:-3], "-n", "1", *command, ":", "-n", "1", *both, "--train.steps=6"],
            env=program.clean_environment(), capture_output=True, text=True, timeout=60)
        self.assert_error(done, 2, '[config] rank 1: expected the configuration of rank 0, "steps = 4", found "steps = 6"')

    def test_more_memory_than_the_machine_has_is_refused(self):
        done = self.train("--train.micro_batch=100000000", ranks=2)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"error: \[config\] memory: expected at most [\d.]+ GiB on this host, 2 ranks of [\d.]+ GiB would take [\d.]+ GiB\n")
        self.assertFalse((self.folder / "run").exists())

    def test_a_run_waits_for_the_end_of_another_in_its_folder(self):
        (self.folder / "run").mkdir()
        descriptor = os.open(self.folder / "run/.lock", os.O_RDWR | os.O_CREAT)
        self.addCleanup(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        command = program.launched(program.ltrain(), "train", *LAYERS, f"--data.train={self.folder}/data/train.bin",
                                   "--train.steps=1", f"--run.dir={self.folder}/run", ranks=2)
        with subprocess.Popen(command, env=program.clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as run:
            self.assertRegex(run.stderr.readline(), r"^warning: \[config\] run.dir .*: another run is at work in it; waits")
            self.assertEqual([path.name for path in (self.folder / "run").iterdir()], [".lock"])
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        self.assertEqual(run.returncode, 0)
        self.assertTrue((self.folder / "run/metrics.jsonl").exists())

    def test_a_checkpoint_of_another_model_is_refused(self):
        self.trained(steps=1)
        other = self.train("--model.width=64", f"--checkpoint.resume={self.folder}/run/checkpoints/step-00000001",
                           run="other", ranks=2)
        self.assertEqual(other.returncode, 3, other.stderr)
        self.assertRegex(other.stderr, r"embedding\.wte\.weight: expected .*64.*32")

        self.assertFalse((self.folder / "other").exists())

    def test_a_run_goes_on_with_data_of_the_same_length_alone(self):
        self.trained(steps=1)
        data = self.folder / "data/train.bin"
        text = self.write("more.txt", b"other words " * 400)
        done = program.run("prepare", "--input", text, "--tokenizer", "byte", "--out", self.folder / "data", "--force")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(data.exists())
        other = self.train(steps=2, ranks=2)
        self.assertEqual(other.returncode, 2, other.stderr)
        self.assertRegex(other.stderr, r"data\.train: expected files of \d+ tokens, as when .*step-00000001 was saved, found 4320")

    def test_a_checkpoint_folder_of_another_configuration_is_refused(self):
        self.trained(steps=1)
        (self.folder / "run/config.toml").unlink()  # it would be compared first
        other = self.train("--optim.lr=0.5", steps=2)
        self.assertEqual(other.returncode, 2, other.stderr)
        self.assertIn("step-00000001 has another configuration: optim.lr: 0.0003 there, 0.5 now", other.stderr)

    def test_a_tokenizer_that_is_not_supported_is_kept_and_not_read(self):
        tokenizer = '{"model": {"type": "Unigram", "vocab": []}}'
        (self.folder / "data/tokenizer.json").write_text(tokenizer)
        self.trained(steps=1)
        manifest = json.loads((self.folder / "run/checkpoints/step-00000001/manifest.json").read_text())
        self.assertEqual(manifest["tokenizer"], tokenizer)
        refused = self.train("--train.sample_every=1", run="other", steps=1)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn('model.type: expected "BPE", found "Unigram"', refused.stderr)

    def test_folders_that_are_no_run_are_left_alone(self):
        notes = self.folder / "run/notes.txt"
        notes.parent.mkdir()
        notes.write_text("mine")
        never = self.train("--checkpoint.resume=never", "--run.force=true", ranks=2)
        self.assertEqual(never.returncode, 2, never.stderr)
        self.assertIn("found files that do not belong to a run", never.stderr)
        self.assertEqual(list(self.folder.glob("run*")), [notes.parent])
        file = self.train(f"--checkpoint.dir={notes}", run="new", ranks=2)
        self.assert_error(file, 2, f"[config] checkpoint.dir {notes}: expected a folder, found a file")
        self.assertFalse((self.folder / "new").exists())

    def test_a_loss_that_is_not_finite_stops_the_run_before_anything_is_saved(self):
        for dtype in ("f32", "fp8"):
            done = self.train("--optim.lr=1e30", "--optim.clip=0", "--checkpoint.every=1", f"--train.dtype={dtype}", run=dtype,
                              steps=20, ranks=2)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertEqual(done.stderr.count("error:"), 1)
            self.assertNotIn("-nan", done.stderr)
            self.assertIn("error: [train] step", (self.folder / dtype / "log.txt").read_text())
            saved = [row["step"] for row in self.lines(dtype) if row.get("event") == "checkpoint"]
            skipped = [row["step"] for row in self.lines(dtype) if row.get("event") == "skip"]
            self.assertTrue(skipped and max(saved, default=0) < skipped[0])

    def test_train_skip_nonfinite_allows_so_many_steps_in_a_row(self):
        once, twice = ({"LTRAIN_FAULT": faults} for faults in ("forward:0:3:nan", "forward:1:3:nan,forward:1:4:nan"))
        refused = self.train(run="none", environment=once)
        self.assertEqual(refused.returncode, 5, refused.stderr)
        out = self.trained("--train.skip_nonfinite=1", run="one", environment=once)
        self.assertIn("step     3: no update, loss not finite; 1 in a row (train.skip_nonfinite allows 1), 1 since the start\n", out)
        skip, = (row for row in self.lines("one") if row.get("event") == "skip")
        self.assertEqual((skip["step"], skip["in_a_row"], skip["since_start"]), (3, 1, 1))
        self.assertEqual([row["step"] for row in self.lines("one") if row.get("loss_hex") == "nan"], [3])
        stopped = self.train("--train.skip_nonfinite=1", run="two", ranks=2, environment=twice)
        self.assertEqual(stopped.returncode, 5, stopped.stderr)
        self.assertRegex(stopped.stderr, r"error: \[train\] rank 0: step 4: loss nan, gradient norm [\d.]+: expected finite numbers; "
                                         r"the step before had no update either \(train.skip_nonfinite=1\); nothing was saved")
        self.assertEqual(self.lines("one")[-1]["reason"], "steps")

    def losses_in_bf16_and_fp8(self, *options, steps):
        """The validation losses of two runs that differ in the dtype alone."""
        losses = {}
        for dtype in ("bf16", "fp8"):
            out = self.trained(*options, f"--train.dtype={dtype}", run=f"{steps}-{dtype}", steps=steps, ranks=2)
            self.assertIn(f"recompute none, {dtype};", out)
            losses[dtype] = [row["loss"] for row in self.lines(f"{steps}-{dtype}") if row.get("event") == "eval"]
        self.assertNotEqual(losses["bf16"], losses["fp8"])
        return losses

    def test_fp8_learns_a_sentence_as_bf16_does(self):
        losses = self.losses_in_bf16_and_fp8(f"--data.val={self.folder}/data/val.bin", "--train.micro_batch=4",
                                             "--train.eval_every=20", "--optim.lr=0.01", steps=100)
        self.assertAlmostEqual(losses["fp8"][0] / losses["bf16"][0], 1, delta=0.02)
        for dtype, values in losses.items():
            self.assertLess(values[-1], 0.3, dtype)

    def test_fp8_learns_real_text_as_bf16_does(self):
        text, data = pathlib.Path(__file__).resolve().parents[2] / "LICENSE", self.folder / "license"
        self.assertEqual(program.run("prepare", "--input", text, "--out", data).returncode, 0)
        losses = self.losses_in_bf16_and_fp8(f"--data.train={data}/train.bin", f"--data.val={data}/val.bin", "--model.width=64",
                                             "--model.ffn=256", "--train.seq=64", "--train.micro_batch=8",
                                             "--train.eval_every=50", "--optim.lr=3e-4", "--optim.warmup=20", steps=200)
        self.assertLess(losses["bf16"][-1], 3.4)  # an even guess is 5.5
        for in_bf16, in_fp8 in zip(losses["bf16"], losses["fp8"], strict=True):
            self.assertAlmostEqual(in_fp8 / in_bf16, 1, delta=0.0025)

    def test_fp8_names_what_it_does_not_multiply_and_refuses_adapters(self):
        out = self.trained("--train.dtype=fp8", "--model.ffn=40", steps=3)
        self.assertIn("matmuls of 32 x 40 x 32 run in bf16: FP8 takes sizes in multiples of 16, inputs and "
                      "outputs up to 131072", out)
        refused = self.train("--train.dtype=fp8", '--model.lora={"rank": 2}', run="refused")
        self.assert_error(refused, 2, "[config] train.dtype: expected bf16, f16 or f32 with adapters (model.lora), got fp8 (from "
                                      "the command line)")

    def test_f16_skips_what_is_not_finite_until_its_loss_scale_is_1(self):
        done = self.train("--optim.lr=1e30", "--optim.clip=0", "--train.dtype=f16", steps=30, ranks=2)
        self.assertEqual(done.returncode, 5, done.stderr)
        rows = self.lines()
        skips = [row for row in rows if row.get("event") == "skip"]
        self.assertEqual([skip["loss_scale"] for skip in skips[:-1]], [2.0**n for n in range(16, 0, -1)])
        self.assertNotIn("loss_scale", skips[-1])
        self.assertEqual(skips[-1]["step"], skips[0]["step"] + 16)
        self.assertEqual([row["loss_scale"] for row in rows if "loss_scale" in row and "event" not in row][-1], 1)
        self.assertRegex(done.stdout, "no update, (gradients beyond f16|loss not finite) at loss scale 65536; it is halved")
        # The search for the loss scale does not count against train.skip_nonfinite.
        allowed = self.train("--optim.lr=1e30", "--optim.clip=0", "--train.dtype=f16", "--train.skip_nonfinite=2", run="allowed",
                             steps=30)
        self.assertEqual(allowed.returncode, 5, allowed.stderr)
        skips = [row for row in self.lines("allowed") if row.get("event") == "skip"]
        self.assertEqual([(skip.get("loss_scale"), skip.get("in_a_row")) for skip in skips],
                         [*((2.0**n, None) for n in range(16, 0, -1)), (1, 1), (1, 2), (None, 3)])


if __name__ == "__main__":
    program.main()
