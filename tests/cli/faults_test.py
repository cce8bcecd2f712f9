"""A fault on one rank ends the run with the right error. The run then continues from its last checkpoint with the same
losses as an undisturbed run."""

import signal

import program
from training import TrainingTest

OPTIONS = ("--parallel.strategy=zero3", "--checkpoint.every=2", "--optim.schedule=constant")


class Faults(TrainingTest):
    def losses(self, run):
        return {row["step"]: row["loss_hex"] for row in self.lines(run) if "loss_hex" in row}

    def test_a_rank_that_ends_leaves_a_run_that_goes_on(self):
        for ranks, faults in ((1, {"step:0:3:segv": -signal.SIGSEGV, "forward:0:3:kill": -signal.SIGKILL, "backward:0:3:exit": 1}),
                              (2, {"collective:1:3:kill": 128 + signal.SIGKILL})):
            self.trained(*OPTIONS, run=f"whole-{ranks}", ranks=ranks)
            for fault, code in faults.items():
                with self.subTest(fault):
                    run = fault.replace(":", "-")
                    done = self.train(*OPTIONS, run=run, ranks=ranks, environment={"LTRAIN_FAULT": fault})
                    self.assertEqual(done.returncode, code, done.stderr)
                    self.assertEqual(sorted(self.losses(run)), [1, 2])
                    self.assertIn("at step 3", self.trained(*OPTIONS, run=run, ranks=ranks))
                    self.assertEqual(self.losses(run), self.losses(f"whole-{ranks}"))

    def test_a_loss_or_gradient_that_is_nan_on_one_rank_stops_all(self):
        for ranks, fault, loss, norm in ((1, "forward:0:3:nan", "nan", r"[\d.]+"), (2, "backward:1:3:nan", r"[\d.]+", "nan")):
            with self.subTest(fault):
                done = self.train(*OPTIONS, run=fault, ranks=ranks, environment={"LTRAIN_FAULT": fault})
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertRegex(done.stderr, rf"^error: \[train\] (rank 0: )?step 3: loss {loss}, gradient norm {norm}: expected "
                                              "finite numbers; step 2 was saved last\n")

    def test_too_little_memory_on_one_rank_ends_all(self):
        # The allocation fails while parameters are gathered for a sample.
        done = self.train(*OPTIONS, "--train.sample_every=3", ranks=2, environment={"LTRAIN_FAULT": "allocate:1:3:oom=3"})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"^error: \[memory\] rank 1: the system has no \d+ bytes left\n$")

    def test_a_fault_that_makes_no_sense_is_refused_before_anything_is_there(self):
        refused = self.train(ranks=2, environment={"LTRAIN_FAULT": "data:0:3:nan"})
        self.assert_error(refused, 2, "[config] LTRAIN_FAULT: data:0:3:nan: nan makes no sense at data",
                          "actions at data: kill, stop, segv, exit, sleep")
        self.assertFalse((self.folder / "run").exists())


if __name__ == "__main__":
    program.main()
