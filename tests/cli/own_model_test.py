"""A run of a model that is no transformer: a program calls lt::Trainer with it and with batches of its own."""

import json
import re

import program

STEPS = 60


class OwnModel(program.CliTest):
    def train(self, strategy, folder, fault=None):
        return program.run(strategy, self.folder / folder, STEPS, ranks=2, name="custom_run",
                           environment={"LTRAIN_FAULT": fault} if fault else None)

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
            planned = int(re.search(r"planned peak (\d+) bytes", done.stdout)[1])
            self.assertEqual({row["memory_peak_bytes"] for row in self.rows(strategy)}, {planned}, strategy)
            self.assertEqual(self.numbers(strategy), self.numbers("ddp"), strategy)
        self.assertIn("model: adder 2 mixtures, 79.2k parameters", done.stdout)
        numbers = self.numbers("zero3")
        self.assertLess(numbers[STEPS][0], 0.8 * numbers[1][0])
        self.assertIn(f"last loss {numbers[STEPS][0]:.4f}", done.stdout)

        self.assertEqual(self.train("zero3", "killed", "step:1:56:kill").returncode, 128 + 9)
        done = self.train("zero3", "killed")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"resuming from .*step-00000050 at step 51")
        self.assertEqual(self.numbers("killed"), numbers)
        self.assertEqual(self.weights("killed"), self.weights("zero3"))

        done = self.train("zero3", "killed")
        self.assertEqual((done.returncode, "complete: 60 steps are done" in done.stdout), (0, True), done.stderr)
        self.assertEqual(len(list((self.folder / "killed/tb").iterdir())), 3, "a file of events for each start")
        report = program.run("report", self.folder / "killed")
        self.assertEqual(report.returncode, 0, report.stderr)

    def test_options_of_a_program_are_checked_as_keys_are(self):
        done = program.run("zero9", self.folder / "run", ranks=2, name="custom_run")
        self.assert_error(done, 2, '[config] parallel.strategy: expected one of ddp, zero1, zero2, zero3, got "zero9"')


if __name__ == "__main__":
    program.main()
