"""The run of a folder: its id, and which checkpoints it resumes from, keeps and removes."""

import json
import re
import shutil

import program
from training import TrainingTest


class Runs(TrainingTest):
    def identity(self, run="run"):
        """The fields of run.json that restarts do not change."""
        written = json.loads((self.folder / run / "run.json").read_text())
        self.assertRegex(written["timeline"], r"^[0-9a-f]{16}$")
        return {key: written[key] for key in ("id", "parent", "began")}

    def manifest(self, step, run="run"):
        return json.loads((self.folder / run / f"checkpoints/step-{step:08}/manifest.json").read_text())

    def names(self, folder):
        return sorted(path.name for path in (self.folder / folder).iterdir())

    def test_two_runs_share_no_folder(self):
        shared = f"--checkpoint.dir={self.folder}/shared"
        self.trained(shared, "--checkpoint.every=30", steps=30, run="a")
        before = self.names("shared")
        refused = self.train(shared, "--checkpoint.every=6", steps=18, run="b", ranks=2)
        a = self.identity("a")["id"]
        drawn = re.search(r" of run (\d{8}T\d{6}Z-[0-9a-f]{16}) alone", refused.stderr)
        self.assertIsNotNone(drawn, refused.stderr)
        self.assert_error(refused, 2, f"[config] checkpoint.dir {self.folder}/shared: expected checkpoints of run "
                          f"{drawn[1]} alone, found step-00000030 of run {a}")
        self.assertEqual(self.names("shared"), before)
        self.assertFalse((self.folder / "b").exists())
        # Run b begins in another folder and is then given the shared one.
        self.trained(steps=1, run="b")
        refused = self.train(shared, steps=31, run="b")
        self.assert_error(refused, 2, f"[config] checkpoint.dir {self.folder}/shared: expected checkpoints of run "
                          f"{self.identity('b')['id']} alone, found step-00000030 of run {a}")
        self.assertIn(f"resuming from {self.folder}/shared/step-00000030 at step 31", self.trained(shared, steps=31, run="a"))

    def test_a_run_keeps_its_id_over_restarts(self):
        out = self.trained("--checkpoint.every=1", steps=2, ranks=2)
        identity = self.identity()
        self.assertRegex(identity["id"], r"^\d{8}T\d{6}Z-[0-9a-f]{16}$")
        self.assertEqual((identity["parent"], identity["id"][:16]), ("", identity["began"]))
        self.assertIn(f"\nrun: {identity['id']}\n", out)
        self.assertEqual(self.manifest(2)["run"], identity["id"])
        (self.folder / "run/env.json.tmp-0123456789abcdef").write_text("of a start that was killed")
        self.trained(steps=3)
        self.assertEqual(self.identity(), identity)
        self.assertEqual([name for name in self.names("run") if ".tmp-" in name], [])
        # If run.json is lost, the checkpoints in the run's own folder identify the run.
        (self.folder / "run/run.json").unlink()
        self.trained(steps=4)
        self.assertEqual(self.identity(), identity)
        self.assertEqual({row["run"] for row in self.lines() if row.get("event") == "start"}, {identity["id"]})

    def test_a_run_from_anothers_checkpoint_is_a_new_one(self):
        self.trained(steps=2)
        parent, resume = self.identity()["id"], f"--checkpoint.resume={self.folder}/run"
        self.trained(resume, "--checkpoint.every=1", steps=3, run="child")
        child = self.identity("child")
        self.assertNotEqual(child["id"], parent)
        self.assertEqual(child["parent"], parent)
        self.assertEqual((self.manifest(3, "child")["run"], self.manifest(3, "child")["parent"]), (child["id"], parent))
        inspected = program.run("checkpoint", "inspect", self.folder / "child")
        self.assertIn(f"\nrun {child['id']}, parent {parent}\n", inspected.stdout)
        self.assertIn("resuming from", self.trained(steps=4, run="child"))
        self.assertEqual(self.identity("child"), child)
        again = self.train(resume, steps=5, run="child")
        self.assertEqual(again.returncode, 2)
        self.assertIn("expected a new or empty folder with checkpoint.resume=", again.stderr)

    def test_multiples_and_the_best_evaluation_stay(self):
        self.trained("--checkpoint.every=1", "--checkpoint.keep=2", "--checkpoint.keep_every=3", steps=8)
        self.assertEqual(self.names("run/checkpoints"),
                         ["LATEST", "step-00000003", "step-00000006", "step-00000007", "step-00000008"])
        refused = self.train("--checkpoint.best=true", run="none")
        self.assert_error(refused, 2, "[config] checkpoint.best: expected false without train.eval_every, whose loss says which "
                          "one is best, got true (from the command line)")
        # At this rate the loss grows, so the first evaluation is the best one.
        self.trained("--checkpoint.every=1", "--checkpoint.keep=2", "--checkpoint.best=true", "--train.eval_every=1",
                     f"--data.val={self.folder}/data/val.bin", "--optim.lr=1", "--optim.warmup=0", steps=6, run="best")
        losses = {row["step"]: row["loss"] for row in self.lines("best") if row.get("event") == "eval"}
        best = min(losses, key=losses.get)
        self.assertEqual(self.names("best/checkpoints"),
                         ["LATEST", *(f"step-{step:08}" for step in sorted({best, 5, 6}))])
        self.assertEqual(self.manifest(6, "best")["eval_loss"], losses[6])

    def test_a_checkpoint_has_the_loss_of_an_evaluation_at_its_own_step(self):
        evaluated = ("--checkpoint.every=1", "--checkpoint.best=true", f"--data.val={self.folder}/data/val.bin")
        self.trained(*evaluated, "--train.eval_every=2", "--checkpoint.keep=9", steps=4)
        losses = {row["step"]: row["loss"] for row in self.lines() if row.get("event") == "eval"}
        self.assertEqual({step: self.manifest(step).get("eval_loss") for step in (1, 2, 3, 4)},
                         {1: None, 2: losses[2], 3: None, 4: losses[4]})
        # Neither a restart between evaluations nor a run that starts from an evaluated checkpoint takes over a loss.
        self.trained(*evaluated, "--train.eval_every=9", steps=5)
        self.assertNotIn("eval_loss", self.manifest(5))
        self.trained(*evaluated, "--train.eval_every=9", f"--checkpoint.resume={self.folder}/run/checkpoints/step-00000004",
                     steps=5, run="child")
        self.assertNotIn("eval_loss", self.manifest(5, "child"))


if __name__ == "__main__":
    program.main()
