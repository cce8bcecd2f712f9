"""When a run saves: every few steps, by time, asynchronously during training, and again after a failed save."""

import json

import program
from training import LAYERS, TrainingTest


class Save(TrainingTest):
    def checkpoints(self, run):
        return {path.parent.name + "/" + path.name: path.read_bytes()
                for path in (self.folder / run / "checkpoints").glob("step-*/rank-*.h5")}

    def saved(self, run="run"):
        return [line["step"] for line in self.lines(run) if line.get("event") == "checkpoint"]

    def test_the_start_says_when_it_saves(self):
        for options, said in (((), "every 30 minutes in the background, and at the end"),
                              (("--checkpoint.async=false",), "every 30 minutes, and at the end"),
                              (("--checkpoint.every=4",), "every 4 steps, and at the end"),
                              (("--checkpoint.every=1", "--checkpoint.every_minutes=5", "--checkpoint.async=true"),
                               "every step and every 5 minutes in the background, and at the end"),
                              (("--checkpoint.every_minutes=0",), "at the end only")):
            out = self.trained("--checkpoint.resume=never", "--run.force", *options, steps=1)
            self.assertIn(f"\ncheckpoints: {said}\n", out)

    def test_asynchronous_saves_write_the_same_bytes(self):
        for strategy in ("ddp", "zero3"):
            options = (f"--parallel.strategy={strategy}", "--checkpoint.every=1", "--checkpoint.keep=9")
            self.trained(*options, run=strategy, ranks=2)
            out = self.trained(*options, "--checkpoint.async=true", run=strategy + "-async", ranks=2)
            self.assertEqual(self.checkpoints(strategy), self.checkpoints(strategy + "-async"))
            self.assertEqual(len(self.checkpoints(strategy)), 2 * 6)
            self.assertEqual(self.saved(strategy + "-async"), [1, 2, 3, 4, 5, 6])
            self.assertEqual([line for line in out.splitlines() if line.startswith("saved ")][-1],
                             f"saved {self.folder}/{strategy}-async/checkpoints/step-00000006")
            losses = [[row["loss_hex"] for row in self.lines(run) if "loss_hex" in row]
                      for run in (strategy, strategy + "-async")]
            self.assertEqual(*losses)
        # By minutes alone, the ranks begin the saves during training together.
        self.trained("--parallel.strategy=zero3", "--checkpoint.every_minutes=1e-9", "--checkpoint.keep=9",
                     "--checkpoint.async=true", run="minutes", ranks=2)
        self.assertEqual(self.checkpoints("zero3"), self.checkpoints("minutes"))

    def test_a_run_goes_on_from_an_asynchronous_save(self):
        options = ("--optim.schedule=constant", "--checkpoint.async=true")
        self.trained(*options, run="whole")
        self.trained(*options, steps=3)
        self.trained(*options)
        whole, resumed = [[row["loss_hex"] for row in self.lines(run) if "loss_hex" in row] for run in ("whole", "run")]
        self.assertEqual(whole, resumed)

    def test_what_a_killed_save_left_goes_before_the_next_one_needs_room(self):
        left = []
        for _ in range(2):
            killed = self.train("--checkpoint.every=2", environment={"LTRAIN_FAULT": "save-manifest:0:2:kill"})
            self.assertNotEqual(killed.returncode, 0)
            left.append([path.name for path in (self.folder / "run/checkpoints").iterdir() if ".tmp-" in path.name])
        self.assertEqual([len(names) for names in left], [1, 1])
        self.assertNotEqual(*left)

    def test_a_save_that_fails_is_tried_again_less_and_less_often(self):
        """A failed save is tried again after 1, 2, 4, ... steps; after eight failures, at the next save by cadence. At
        the end of the run it is tried again after 1, 2, ... seconds."""
        attempts = [150, 151, 153, 157, 165, 181, 213, 277]
        out = self.trained("--checkpoint.every=150", steps=302,
                           environment={"LTRAIN_FAULT": ",".join(f"save-begin:0:{step}:eio" for step in [*attempts, 302])})
        failed = [line for line in self.lines() if line.get("event") == "checkpoint_failed"]
        self.assertEqual([(row["step"], row["attempt"], row["retry_step"]) for row in failed],
                         [*zip(attempts, range(1, 9), [*attempts[1:], None]), (302, 1, None)])
        self.assertEqual(self.saved(), [300, 302])
        self.assertIn("warning: step 150 was not saved, next attempt after step 151 at the latest: ", out)
        self.assertIn("warning: step 277 was not saved, the next save by cadence is the next attempt, after 8 failures: ", out)
        self.assertIn("warning: step 302 was not saved, next attempt in 1 s: ", out)
        self.assertEqual(program.run("report", self.folder / "run").returncode, 0)
        self.assertRegex((self.folder / "run/report.md").read_text(),
                         r"\| Saves that failed \| 9, the last at step 302: .*Input/output error \|")

    def test_a_save_beside_training_that_fails_is_tried_again_at_the_end(self):
        out = self.trained("--checkpoint.async=true", "--checkpoint.every=3", steps=4,
                           environment={"LTRAIN_FAULT": "save-begin:0:3:eio"})
        self.assertIn("warning: step 3 was not saved, next attempt after step 4 at the latest: ", out)
        self.assertEqual(self.saved(), [4])

    def test_the_plan_knows_the_buffers(self):
        def planned(*options):
            return json.loads(program.run("plan", *LAYERS, "--parallel.strategy=zero1", "--ranks", 2, "--json",
                                          *options).stdout)
        without, with_buffers = planned("--checkpoint.every=9"), planned("--checkpoint.async=true")
        self.assertEqual((without["host_bytes"], without["host_bytes_if_free"]), (0, 0))
        self.assertEqual((planned()["host_bytes"], planned()["host_bytes_if_free"]), (0, with_buffers["host_bytes"]))
        self.assertEqual(without["peak_bytes"], with_buffers["peak_bytes"])
        # Two copies of master, m and v for half the parameters. Each range is rounded up to 128 bytes.
        exact = 2 * 3 * 4 * with_buffers["parameters"] // 2
        self.assertGreaterEqual(with_buffers["host_bytes"], exact)
        self.assertLess(with_buffers["host_bytes"], 1.1 * exact)


if __name__ == "__main__":
    program.main()
