"""Runs with model.lora: equal bits under all strategies and recomputation, memory as planned, checkpoints of the
adapters alone, their base model, and refused settings."""

import json
import os
import shutil

import program
import training

LORA = '--model.lora={"rank": 3, "alpha": 6, "targets": ["q_proj", "v_proj", "down_proj"]}'
LLAMA = ("--model.preset=llama-tiny", *training.LAYERS)


class Lora(training.TrainingTest):
    def base(self, run="base"):
        self.trained(run=run, steps=2, model=LLAMA)
        return self.folder / run / "checkpoints/step-00000002"

    def tune(self, base, *options, run="run", **settings):
        return self.trained(f"--model.from={base}", LORA, "--optim.lr=0.01", *options, run=run, model=("--train.seq=16",),
                            **settings)

    def rows(self, run="run"):
        return [row for row in self.lines(run) if "event" not in row]

    def test_strategies_and_recomputation_give_the_same_bits_and_the_planned_peak(self):
        base = self.base()
        losses = set()
        for number, options in enumerate([("--parallel.strategy=ddp",), ("--parallel.strategy=zero1",),
                                          ("--parallel.strategy=zero2", "--parallel.recompute=selective"),
                                          ("--parallel.strategy=zero3", "--parallel.recompute=full")]):
            run = f"run{number}"
            self.tune(base, *options, run=run, ranks=2)
            losses.add(tuple((row["loss_hex"], row["grad_norm"]) for row in self.rows(run)))
            start = next(line for line in self.lines(run) if line.get("event") == "start")
            self.assertEqual({row["memory_peak_bytes"] for row in self.rows(run)}, {start["predicted_peak_bytes"]})
        self.assertEqual(len(losses), 1)
        self.assertEqual(len(set(losses.pop())), 6)

    def test_only_adapters_have_gradients_and_states(self):
        def ledger(*options):
            done = program.run("plan", "--json", *LLAMA, "--train.micro_batch=2", *options)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return json.loads(done.stdout)["ledger"]

        # In a layer q and v share A with 2 * 3 rows; B has the 32 rows of q and the 32 of v (LAYERS leaves 2 kv_heads).
        per_layer = 6 * 32 + 64 * 3 + 3 * 48 + 32 * 3
        padded = 2 * sum(-(-part // 64) * 64 for part in (6 * 32, 64 * 3, 3 * 48, 32 * 3))
        self.assertGreaterEqual(padded, 2 * per_layer)
        for dtype, states in (("f32", 8), ("bf16", 12)):
            with_lora = ledger(LORA, f"--train.dtype={dtype}")
            self.assertEqual(with_lora["gradients"], 4 * padded)
            self.assertEqual(with_lora["optimizer"], states * padded)

    def test_a_run_goes_on_from_its_adapters_and_the_base(self):
        base = self.base()
        # On other ranks' files, saved in the background.
        self.tune(base, "--parallel.strategy=zero3", "--checkpoint.async=true", "--optim.schedule=constant", run="half",
                  steps=3)
        out = self.tune(base, "--parallel.strategy=zero1", "--optim.schedule=constant", run="half", steps=6)
        self.assertIn("resuming from", out)
        self.tune(base, "--optim.schedule=constant", run="through")
        self.assertEqual([row["loss_hex"] for row in self.rows("half")],
                         [row["loss_hex"] for row in self.rows("through")])
        inspected = program.run("checkpoint", "inspect", self.folder / "half").stdout
        self.assertIn(f"adapters of {base}, digest ", inspected)
        self.assertNotIn("weight", inspected)
        # A run of its own that begins from the adapters.
        out = self.tune(base, f"--checkpoint.resume={self.folder}/half/checkpoints/step-00000003",
                        "--optim.schedule=constant", run="other")
        self.assertEqual([row["loss_hex"] for row in self.rows("other")],
                         [row["loss_hex"] for row in self.rows("through")[3:]])

    def test_a_run_that_only_memory_has_keeps_its_base(self):
        base = self.base()
        options = (f"--model.from={base.parents[1]}", LORA, "--checkpoint.memory_every=1", "--optim.schedule=constant")
        killed = self.train(*options, ranks=2, model=("--train.seq=16",), environment={"LTRAIN_FAULT": "step:1:4:kill"})
        self.assertNotEqual(killed.returncode, 0)
        self.addCleanup(program.run, "checkpoint", "free", self.folder / "run")
        self.trained(run="base", steps=4, model=LLAMA)  # the folder has a newer one now
        out = self.trained(*options, ranks=2, model=("--train.seq=16",))
        self.assertIn("resuming from memory", out)
        self.assertIn(f"adapters of {base}, digest ", program.run("checkpoint", "inspect", self.folder / "run").stdout)

    def test_sample_eval_and_export_add_the_adapters(self):
        base = self.base()
        self.tune(base, "--train.dtype=bf16", "--optim.lr=0.1")
        data = self.folder / "data/val.bin"
        run = self.folder / "run"

        def loss(checkpoint, dtype="f32"):
            done = program.run("eval", "--checkpoint", checkpoint, "--data", data, "--seq", 16,
                               f"--train.dtype={dtype}")
            self.assertEqual(done.returncode, 0, done.stderr)
            return float(done.stdout.split()[1])

        self.assertEqual(program.run("checkpoint", "export", run, "--out", self.folder / "hf").returncode, 0)
        imported = program.run("checkpoint", "import", self.folder / "hf", "--out", self.folder / "merged")
        self.assertEqual(imported.returncode, 0, imported.stderr)
        self.assertAlmostEqual(loss(run), loss(self.folder / "merged"), delta=2e-6)
        self.assertAlmostEqual(loss(run, "bf16"), loss(run), delta=1e-3)
        self.assertNotAlmostEqual(loss(run), loss(base), delta=1e-2)
        greedy = ("--prompt", "The", "--tokens", 8, "--temperature", 0, "--train.dtype=f32")
        sampled = program.run("sample", "--checkpoint", run, *greedy)
        again = program.run("sample", "--checkpoint", self.folder / "merged", *greedy, "--tokenizer", "byte")
        self.assertEqual((sampled.returncode, sampled.stdout), (0, again.stdout), sampled.stderr + again.stderr)

        # PEFT's folder has no place for positions of the run's own.
        self.tune(base, "--model.rope_scaling=linear:4", run="stretched", steps=1)
        alone = program.run("checkpoint", "export", self.folder / "stretched", "--adapter", "--out", self.folder / "peft")
        self.assertEqual(alone.returncode, 0)
        self.assertRegex(alone.stderr, r'^warning: \[checkpoint\] .*/peft: PEFT takes rope_base (\d+) and rope_scaling "" from the '
                         r'base, the run has \1 and "linear:4"; an export without --adapter keeps the run\'s\n$')

    def test_without_a_folder_the_base_is_that_of_the_seed(self):
        self.trained(LORA, "--optim.lr=0.1", model=LLAMA)
        out = self.folder / "hf"
        self.assertEqual(program.run("checkpoint", "export", self.folder / "run", "--out", out).returncode, 0)
        self.trained(LORA, "--optim.lr=0.1", f"--checkpoint.resume={self.folder}/run", steps=7, run="on", model=LLAMA)
        self.assert_error(
            self.train(LORA, f"--checkpoint.resume={self.folder}/run", "--train.seed=1", steps=7, run="not",
                       model=LLAMA), 3,
            "[checkpoint] initial weights of seed 1: expected the base on which the adapters were trained, of digest "
            f"{self.digest()}, found other weights, of digest {self.digest('initial', LLAMA, '--train.seed=1')}")

    def digest(self, run="run", model=(), *options):
        if model:
            self.trained(LORA, *options, run=run, steps=0, model=model)
        manifest = max((self.folder / run / "checkpoints").glob("step-*")) / "manifest.json"
        return json.loads(manifest.read_text())["base"]["digest"]

    def test_a_base_that_is_gone_or_differs_is_named(self):
        base = self.base()
        moved = self.folder / "moved"
        shutil.copytree(base, moved)
        self.tune(moved)
        shutil.rmtree(moved)
        gone = (f"[checkpoint] {moved}: expected the base of the adapters, a Hugging Face folder or a checkpoint, found "
                "neither")
        self.assert_error(self.train(f"--model.from={moved}", LORA, "--optim.lr=0.01", model=("--train.seq=16",), steps=8), 3, gone)
        self.assert_error(program.run("sample", "--checkpoint", self.folder / "run", "--prompt", "a"), 3, gone)
        self.assert_error(program.run("checkpoint", "export", self.folder / "run", "--out", self.folder / "hf"), 3, gone)
        self.assertFalse((self.folder / "hf").exists())
        # PEFT's folder does not need it.
        alone = program.run("checkpoint", "export", self.folder / "run", "--adapter", "--out", self.folder / "adapters")
        self.assertEqual((alone.returncode, alone.stderr), (0, ""))
        self.trained("--train.seed=5", run="another", steps=0, model=LLAMA)
        shutil.copytree(self.folder / "another/checkpoints/step-00000000", moved)
        wrong = program.run("eval", "--checkpoint", self.folder / "run", "--data", self.folder / "data/val.bin")
        self.assertEqual(wrong.returncode, 3)
        self.assertIn(f"{moved}: expected the base on which the adapters were trained", wrong.stderr)

    def exported(self, run, *options, out="hf"):
        done = program.run("checkpoint", "export", run, "--out", self.folder / out, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {file.name: file.read_bytes() for file in (self.folder / out).iterdir()}

    def test_a_base_that_was_moved_is_found_beside_the_run_or_where_it_is_said_to_be(self):
        base = self.base("project/base")
        constant = "--optim.schedule=constant"
        self.tune(base, constant, run="project/run")
        before, run, elsewhere = self.exported(self.folder / "project/run"), self.folder / "project2/run", self.folder / "elsewhere"
        (self.folder / "project").rename(self.folder / "project2")
        self.assertEqual(self.exported(run, out="beside"), before)
        out = self.tune(base, constant, run="project2/run", steps=7)  # as its configuration has it
        self.assertIn(f"resuming from {run}/checkpoints/step-00000006 at step 7", out)
        self.assertIn(f"adapters of {self.folder}/project2/base/checkpoints/step-00000002, digest ",
                      program.run("checkpoint", "inspect", run).stdout)
        (self.folder / "project2/base").rename(elsewhere)
        step = run / "checkpoints/step-00000006"
        gone = program.run("checkpoint", "export", step, "--out", self.folder / "none")
        self.assert_error(gone, 3, f"[checkpoint] {base}: expected the base of the adapters, a Hugging Face folder or a checkpoint, "
                          "found neither", "--model.from=FOLDER says where the base is now")
        given = f"--model.from={elsewhere}"
        self.assertEqual(self.exported(step, given, out="given"), before)
        evaluated = program.run("eval", "--checkpoint", run, "--data", self.folder / "data/val.bin", "--seq", 16, given)
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        # Another base ends nothing but its own attempt.
        other = f"--model.from={self.folder}/other"
        self.trained("--train.seed=5", run="other", steps=0, model=LLAMA)
        for done in (self.train(other, LORA, "--optim.lr=0.01", constant, run="project2/run", model=("--train.seq=16",), steps=9),
                     program.run("checkpoint", "export", run, "--out", self.folder / "none", other)):
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertRegex(done.stderr, r"expected the base on which the adapters were trained, \S+, of digest [0-9a-f]{16}, "
                             r"found other weights, of digest [0-9a-f]{16}\n")
        out = self.tune(elsewhere, constant, run="project2/run", steps=8)
        self.assertIn(f"resuming from {run}/checkpoints/step-00000007 at step 8", out)
        self.assert_error(program.run("checkpoint", "export", elsewhere, "--out", self.folder / "none", given), 3,
                          f"[checkpoint] {elsewhere}/checkpoints/step-00000002/manifest.json: model.lora: expected adapters of the "
                          f"given base {elsewhere}, found none", "the checkpoint is a whole model: leave --model.from out")

    def test_a_folder_for_peft_names_a_base_that_peft_can_load(self):
        base, hf = self.base(), self.folder / "base-hf"
        self.exported(self.folder / "base", out="base-hf")
        for path, run in ((base, "of-checkpoint"), (hf, "of-folder")):
            self.tune(path, run=run, steps=1)
        hf.rename(self.folder / "moved-hf")

        def name(run, *options):
            files = self.exported(self.folder / run, "--adapter", *options, out=f"{run}{len(options)}")
            return json.loads(files["adapter_config.json"])["base_model_name_or_path"]

        self.assertEqual([name("of-checkpoint"), name("of-folder"), name("of-folder", f"--model.from={self.folder}/moved-hf")],
                         [None, str(hf), f"{self.folder}/moved-hf"])

    def test_a_base_that_no_manifest_could_name_is_refused(self):
        odd = self.folder / os.fsdecode(b"caf\xe9")
        odd.mkdir()
        shutil.copytree(self.base().parents[1], odd / "base")
        done = program.run("train", "--model.from=base", LORA, "--train.seq=16", f"--data.train={self.folder}/data/train.bin",
                           "--train.steps=1", "--run.dir=run", cwd=odd)
        self.assert_error(done, 2, f"[config] model.from base: expected a path in UTF-8, found {self.folder}/caf\udce9/base/"
                                   "checkpoints/step-00000002", "adapters name the folder of their base: rename it, or its parents")

    def test_bad_input(self):
        def refused(lora, error, code=2, *options, model=LLAMA):
            self.assert_error(self.train(f"--model.lora={lora}", *options, model=model), code, error)

        names = "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj"
        refused('{"rank": 2, "targets": ["qproj"]}',
                f'[config] model.lora: expected targets among the projections of llama ({names}), got "qproj" '
                "(from the command line)")
        refused('{"rank": 2, "targets": ["q_proj"]}',
                '[config] model.lora: expected targets among the projections of gpt2 (c_attn, c_proj, c_fc), got "q_proj" '
                "(from the command line)", model=training.LAYERS)
        refused('{"alpha": 2}', "[config] model.lora.rank: expected an integer of at least 1, got none "
                "(from the command line)")
        refused('{"rank": 0}', "[config] model.lora.rank: expected an integer of at least 1, got 0 "
                "(from the command line)")
        refused('{"rank": 2, "alpha": -1}', "[config] model.lora.alpha: expected a number above 0, got -1 "
                "(from the command line)")
        refused('{"rank": 2, "targets": "q_proj"}', '[config] model.lora.targets: expected a list of projections, got '
                '"q_proj" (from the command line)')
        refused('{"rank": 2, "target": []}', "[config] unknown field model.lora.target (from the command line)")
        refused("8", "[config] model.lora: expected a table, got '8' (from the command line)")
        base = self.base()
        self.tune(base)
        adapters = self.folder / "run/checkpoints/step-00000006"
        whole = f"[config] model.from {adapters}: expected a whole model, found adapters"
        for model in (("--train.seq=16",), (*LLAMA, LORA)):
            self.assert_error(self.train(f"--model.from={adapters}", run="x", model=model), 2, whole)
            self.assert_error(program.run("plan", f"--model.from={adapters}", *model), 2, whole)
        # `ltrain sample` adds them to their base, and a plan of it has both.
        planned = [program.run("plan", "--sample", f"--model.from={path}", "--train.seq=16", "--json", *more).stdout
                   for path, more in ((adapters, ()), (base, (LORA,)))]
        self.assertGreater(json.loads(planned[0])["weight_bytes"], 0)
        self.assertEqual(*planned)
        self.trained("--train.dtype=bf16", run="bf16", steps=1, model=LLAMA)
        in_bf16 = program.run("plan", "--sample", f"--model.from={self.folder}/bf16", "--train.seq=16", "--json")
        self.assertEqual(json.loads(in_bf16.stdout)["dtype"], "bf16", in_bf16.stderr)
        self.assert_error(program.run("checkpoint", "export", base, "--adapter", "--out", self.folder / "y"), 3,
                          f"[checkpoint] {base}/manifest.json: model.lora: expected adapters, found none")

    def test_a_file_has_a_table(self):
        file = self.write("run.toml", '[model]\npreset = "llama-tiny"\n[model.lora]\nrank = 4\ntargets = ["q_proj"]\n')
        done = program.run("train", "--config", file, "--print-config")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('lora = {rank = 4, targets = ["q_proj"]}', done.stdout)
        again = program.run("train", "--config", self.write("again.toml", done.stdout), "--print-config")
        self.assertEqual(again.stdout, done.stdout)


if __name__ == "__main__":
    program.main()
