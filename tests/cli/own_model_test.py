"""Trains a model that is not a transformer, on batches from the user's code: with a program that calls lt::Trainer, and
with a program that calls lt::cli() with a row for the model."""

import json
import re

import program

STEPS = 60
PROGRAM_KEYS = (f"--train.steps={STEPS}", "--train.micro_batch=120", "--train.device=cpu", "--parallel.recompute=full",
                "--optim.lr=3e-3", "--record.tensorboard")


class Runs:
    """What holds for both programs. train(strategy, folder, fault) makes a run of two ranks; planned(strategy, run) is the
    peak that it plans."""

    def rows(self, folder):
        lines = [json.loads(line) for line in (self.folder / folder / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if "loss" in line and "event" not in line]

    def numbers(self, folder):
        return {row["step"]: (row["loss"], row["grad_norm"]) for row in self.rows(folder)}

    def weights(self, folder):
        ranks = sorted((self.folder / folder / f"checkpoints/step-{STEPS:08}").glob("rank-*.h5"))
        self.assertEqual(len(ranks), 2)
        return [path.read_bytes() for path in ranks]

    def test_strategies_and_a_killed_run_have_the_same_bits_and_the_planned_memory(self):
        for strategy in ("ddp", "zero1", "zero2", "zero3"):
            done = self.train(strategy, strategy)
            self.assertEqual(done.returncode, 0, done.stderr)
            planned = self.planned(strategy, done)
            self.assertEqual({row["memory_peak_bytes"] for row in self.rows(strategy)}, {planned}, strategy)
            self.assertEqual(self.numbers(strategy), self.numbers("ddp"), strategy)
        self.assertIn(f"model: {self.model}, ", done.stdout)
        numbers = self.numbers("zero3")
        self.assertLess(numbers[STEPS][0], 0.8 * numbers[1][0])

        self.assertEqual(self.train("zero3", "killed", "step:1:56:kill").returncode, 128 + 9)
        again = self.train("zero3", "killed")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertRegex(again.stdout, r"resuming from .*step-00000050 at step 51")
        self.assertEqual(self.numbers("killed"), numbers)
        self.assertEqual(self.weights("killed"), self.weights("zero3"))

        last = self.train("zero3", "killed")
        self.assertEqual((last.returncode, "complete: 60 steps are done" in last.stdout), (0, True), last.stderr)
        self.assertEqual(len(list((self.folder / "killed/tb").iterdir())), 3, "a file of events for each start")
        self.look_further(done)


class OwnTrainer(Runs, program.CliTest):
    model = "gru, 50.6k parameters"

    def train(self, strategy, folder, fault=None):
        return program.run(strategy, self.folder / folder, STEPS, ranks=2, name="own_model",
                           environment={"LTRAIN_FAULT": fault} if fault else None)

    def planned(self, strategy, done):
        return int(re.search(r"planned peak (\d+) bytes", done.stdout)[1])

    def look_further(self, done):
        self.assertIn(f"last loss {self.numbers('zero3')[STEPS][0]:.4f}", done.stdout)
        # The state of the program's own is that of a run that was not killed.
        self.assertIn("state least: 8 bytes\n", program.run("checkpoint", "inspect", self.folder / "killed").stdout)
        state, = json.loads((self.folder / f"killed/checkpoints/step-{STEPS:08}/manifest.json").read_text())["program_state"]
        self.assertEqual(state, {"name": "least", "text": f"{min(loss for loss, _ in self.numbers('zero3').values()):.6f}"})
        report = program.run("report", self.folder / "killed")
        page = (self.folder / "killed/report.html").read_text()
        self.assertIn("gru", page)
        self.assertEqual(report.returncode, 0, report.stderr)

    def test_options_of_a_program_are_checked_as_keys_are(self):
        done = program.run("zero1", self.folder / "run", -1, ranks=2, name="own_model")
        self.assert_error(done, 2, "[config] train.steps: expected an integer of at least 0, got -1")


class OwnProgram(Runs, program.CliTest):
    model = "adder 2 mixtures, 79.2k parameters"

    def run_program(self, *arguments, ranks=1, environment=None):
        return program.run(*arguments, ranks=ranks, name="own_program", environment=environment)

    def train(self, strategy, folder, fault=None):
        return self.run_program("train", *PROGRAM_KEYS, f"--parallel.strategy={strategy}", "--checkpoint.every=50",
                                f"--run.dir={self.folder / folder}", ranks=2,
                                environment={"LTRAIN_FAULT": fault} if fault else None)

    def planned(self, strategy, done):
        plan = self.run_program("plan", *PROGRAM_KEYS, f"--parallel.strategy={strategy}", "--ranks=2", "--json")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertEqual(json.loads(plan.stdout)["model"],
                         {"family": "adder", "blocks": 2, "width": 96, "experts": 4, "hidden": 48})
        estimate = json.loads(plan.stdout)["step_ms_estimate"]
        self.assertGreater(estimate["overhead"], 0.02)  # about a hundred operations
        self.assertAlmostEqual(sum(estimate[part] for part in ("matmuls", "traffic", "overhead", "contention")), estimate["compute"], places=6)
        return json.loads(plan.stdout)["peak_bytes"]

    def look_further(self, done):
        command = json.loads((self.folder / "zero3/env.json").read_text())["command"]
        self.assertRegex(command, r"^\S*mpi(run|exec) .*-n 2 \S*/own_program train --train.steps=60")
        unplaced = self.run_program("launch", "--", "train", *PROGRAM_KEYS)
        self.assert_error(unplaced, 2, "[usage] expected -n RANKS or --nproc-per-node RANKS_A_HOST, got neither", hint="own_program launch --help")
        for arguments in (("report", self.folder / "killed"), ("checkpoint", "verify", self.folder / "killed"),
                          ("plan", "--fit", "--memory=64MiB", "--ranks=4"), ("plan", "--nodes=1,2", "--gpu=h100"),
                          ("bench", "scaling", "--iterations=2")):
            done = self.run_program(*arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
        step, = json.loads(self.run_program("bench", "step", "--iterations=2", "--train.micro_batch=7").stdout)["rows"]
        self.assertEqual((step["name"], step["shape"]),
                         ("adder", "adder blocks=2 width=96 experts=4 hidden=48 micro_batch=7 accum=1 seq=1"))
        # Only its own program makes the model.
        for arguments in (("sample", "--prompt=x"), ("eval", "--data=x"), ("checkpoint", "export", "--out=x")):
            command = arguments[:-1] if arguments[0] == "checkpoint" else arguments[:1]
            checkpoint = (self.folder / "zero3",) if arguments[0] == "checkpoint" else ("--checkpoint", self.folder / "zero3")
            done = program.run(*command, *checkpoint, arguments[-1])
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertRegex(done.stderr, r'manifest.json: model.family: expected one of gpt2, .*, got "adder"\nhint: checkpoints that a program')
        done = program.run(self.folder / "zero3", 17, 25, name="inference")
        self.assertRegex(done.stdout, r"\A17 \+ 25 = \d+ modulo 31 \(\d+ %\)\n\Z", done.stderr)
        begun = self.run_program("train", *PROGRAM_KEYS, f"--model.from={self.folder / 'zero3'}", "--model.freeze=pair.*",
                                 f"--run.dir={self.folder / 'begun'}")
        self.assertIn(f"initial weights from {self.folder / 'zero3'}", begun.stdout, begun.stderr)
        self.assertLess(self.numbers("begun")[1][0], self.numbers("zero3")[STEPS][0] * 1.1)
        more = self.run_program("train", *PROGRAM_KEYS, f"--model.from={self.folder / 'zero3'}", "--model.freeze=pair.*", "--train.steps=62",
                                "--batches.seed=8", f"--run.dir={self.folder / 'begun'}")
        self.assertIn("at step 61\n", more.stdout, more.stderr)
        self.assertIn("\nbatches.seed: 7 before, 8 now\n", more.stdout)
        self.assertIn("\n[batches]\nseed = 8\n", (self.folder / "begun/config.toml").read_text())
        changed = self.run_program("train", *PROGRAM_KEYS, "--model.experts=5", f"--run.dir={self.folder / 'zero3'}")
        self.assertIn("model.experts: 4 there, 5 now", changed.stderr)
        self.assertEqual(changed.returncode, 2)
        folder = self.folder / "zero3"
        self.assert_error(program.run("train", f"--data.train={self.write('tokens.bin', bytes(2000))}", "--train.seq=16",
                                      "--data.format=raw16", f"--run.dir={folder}"), 2,
                          f"[config] run.dir {folder}: expected a run of this program, found one that it cannot read: unknown section "
                          f"[batches] (from {folder}/config.toml:20)",
                          "choose another --run.dir, or --checkpoint.resume=never --run.force=true to move the old run aside")

    def test_the_command_line_is_that_of_the_models_in_the_table(self):
        self.assertRegex(self.run_program("plan").stdout, r"\n  overhead +\d+[.]\d{3} ms +\d+ %, fixed time of each operation\n")
        self.assertNotIn("overhead", self.run_program("plan", "--gpu=h100").stdout)
        refused = {
            ("train", "--model.width=97"): "[config] model.width: expected an even number, got 97 (from the command line)",
            ("train", "--model.blocks=0"):
                '[config] model.blocks: expected an integer of at least 1, got "0" (from the command line)',
            ("plan", "--model.layers=2"): "[config] unknown key model.layers (from the command line)",
            ("train", "--batches.sede=1"): "[config] unknown key batches.sede (from the command line)",
            ("sample", "--checkpoint=x"): "[usage] unknown command sample",
            ("bench", "kernels"): "[usage] unknown command kernels: expected one of comm, step, scaling, tune, compare",
            ("plan", "--sample"): "[usage] unknown option --sample",
            ("train", "--data.documents=mask"):
                "[config] data.documents: expected cross with batches of the program's own, got mask (from the command line)",
            ("plan", "--train.eval_every=5"):
                "[config] train.eval_every: expected 0 with a model whose batches are not token ids [8, 1], got 5 (from the command line)",
        }
        left = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "m", "MASTER_PORT": "1"}  # by another launcher: no ranks are needed
        for arguments, error in refused.items():
            self.assert_error(self.run_program(*arguments, environment=left if arguments[0] == "plan" else None), 2, error)
        self.assertEqual(self.run_program("--version", environment=left).returncode, 0)
        self.assertIn("--batches.seed = 7", self.run_program("train", "--help").stdout)
        printed = self.run_program("train", "--model.experts=5", "--print-config").stdout
        self.assertTrue(printed.startswith('[model]\nfamily = "adder"\nblocks = 2\nwidth = 96\nexperts = 5\n'), printed)
        again = self.run_program("train", f"--config={self.write('run.toml', printed)}", "--print-config").stdout
        self.assertEqual(again, printed)


if __name__ == "__main__":
    program.main()
