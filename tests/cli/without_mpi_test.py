"""Ranks without MPI, as on GPU hosts. The tests use CPU ranks, which then exchange their tensors over TCP."""

import os
import subprocess

import program
from training import LAYERS, TrainingTest


class WithoutMpi(TrainingTest):
    def launch(self, *options, launch=(), environment=None):
        return program.run("launch", "-n", 2, *launch, "--", "train", *LAYERS, f"--data.train={self.folder}/data/train.bin",
                           "--train.micro_batch=2", f"--run.dir={self.folder}/run", *options, environment=environment)

    def ranks(self, *arguments, environment=None):
        """Starts two ranks of `ltrain arguments` with torchrun's variables."""
        meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 11000),
                   "LTRAIN_TOKEN": "ab" * 16, **(environment or {})}
        return [subprocess.Popen([str(part) for part in (program.ltrain(), *arguments)], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True,
                                 env=program.clean_environment({"RANK": str(rank), **meeting})) for rank in range(2)]

    def with_variables(self, *arguments):
        """Runs two ranks of `ltrain arguments` with torchrun's variables; returns the standard output of rank 0."""
        ranks = self.ranks(*arguments)
        output = [rank.communicate(timeout=60)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0])
        return output[0]

    def test_ranks_leave_together(self):
        """A launcher may end rank 0 once another has left. Rank 0 removes old checkpoints and writes the end of the record."""
        rank_0, rank_1 = self.ranks("train", *LAYERS, f"--data.train={self.folder}/data/train.bin", "--train.steps=2",
                                    "--train.micro_batch=2", f"--run.dir={self.folder}/run",
                                    environment={"LTRAIN_FAULT": "save-gc:0:2:sleep=0.5"})
        rank_1.communicate(timeout=60)
        self.assertEqual(self.lines()[-1].get("event"), "end")
        rank_0.communicate(timeout=60)
        self.assertEqual((rank_0.returncode, rank_1.returncode), (0, 0))

    def losses(self, run):
        return [(line["step"], line.get("loss_hex"), line.get("loss")) for line in self.lines(run)
                if line.get("event") in (None, "eval")]

    def test_a_run_is_restarted_resumed_evaluated_and_sampled(self):
        options = ("--parallel.strategy=zero3", "--optim.schedule=constant", "--checkpoint.every=2",
                   f"--data.val={self.folder}/data/val.bin", "--train.eval_every=4")
        self.trained(*options, run="mpi", ranks=2, steps=8)
        no_launcher = {"PATH": str(self.folder)}
        done = self.launch(*options, "--train.steps=6", environment={**no_launcher, "LTRAIN_FAULT": "step:1:5:kill"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ranks: 2 (torchrun variables)\n", done.stdout)
        self.assertIn("without MPI, tensors pass over TCP through rank 0; mpirun is faster\n", done.stdout)
        self.assertIn(f"resuming from {self.folder}/run/checkpoints/step-00000004 at step 5\n", done.stdout)
        done = self.launch(*options, "--train.steps=8", launch=("--with", "processes"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(" at step 7\n", done.stdout)
        self.assertEqual(self.losses("run"), self.losses("mpi"))
        for command in (("eval", "--data", self.folder / "data/val.bin"),
                        ("sample", "--prompt", "The", "--tokens", 8, "--temperature", 0)):
            command = (command[0], "--checkpoint", self.folder / "run", *command[1:])
            self.assertEqual(self.with_variables(*command), program.run(*command).stdout)


if __name__ == "__main__":
    program.main()
