"""The number of threads that a rank uses, and the reason that the run prints at its start."""

import json
import os
import subprocess

import program
import training


class Threads(training.TrainingTest):
    def start(self, *prefix, environment=None):
        """The thread count of each of two ranks and its reason, which must agree in the console and in env.json."""
        run = self.folder / "run"
        mpirun, *command = program.launched(program.ltrain(), "train", *training.LAYERS, "--train.steps=0", f"--run.dir={run}",
                                            "--run.force=true", ranks=2)
        clean = {k: v for k, v in program.clean_environment(environment).items() if k != "OMP_NUM_THREADS"}
        done = subprocess.run([*prefix, mpirun, "--bind-to", "none", *command], env={**clean, **(environment or {})}, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        machine = json.loads((run / "env.json").read_text())
        line, = [line for line in done.stdout.splitlines() if line.startswith("threads: ")]
        self.assertEqual(line, f"threads: {machine['threads_per_rank']} a rank ({machine['threads_from']})")
        return machine["threads_per_rank"], machine["threads_from"]

    def test_the_variable_of_openmp_wins(self):
        self.assertEqual(self.start(environment={"OMP_NUM_THREADS": " 3 ", "SLURM_CPUS_PER_TASK": "1"}), (3, "OMP_NUM_THREADS"))

    def test_a_number_of_threads_that_is_none_is_refused(self):
        for text in ("0", "abc", "1000000", "4 x"):
            done = program.run("train", "--model.preset=gpt-tiny", environment={"OMP_NUM_THREADS": text})
            self.assertEqual(done.returncode, 4)  # OpenMP's library has its own word before
            self.assertIn(f'error: [comm] OMP_NUM_THREADS: expected a number from 1 to 65536, got "{text}"\n', done.stderr)

    def test_ranks_with_one_affinity_mask_divide_it(self):
        core = min(os.sched_getaffinity(0))
        self.assertEqual(self.start("taskset", "--cpu-list", str(core)), (1, "1 core of this host over 2 ranks"))

    def test_the_ranks_of_an_elastic_run_have_the_same_number(self):
        for deterministic in ("true", "elastic"):
            train = (program.ltrain(), "train", *training.LAYERS, "--train.steps=0", "--train.device=cpu",
                     f"--train.deterministic={deterministic}", f"--run.dir={self.folder}/{deterministic}")
            command = [*program.launched("", ranks=2)[:-3], "-n", "1", "env", "OMP_NUM_THREADS=2", *train, ":", "-n", "1", *train]
            done = subprocess.run(command, env=program.clean_environment(), capture_output=True, text=True, timeout=60)
            self.assertEqual((self.folder / deterministic).exists(), deterministic == "true", done.stderr)
        self.assert_error(done, 2, "[config] threads a rank: expected the same on all ranks of an elastic run on processors, got 2 on rank 0 "
                          "and 1 on rank 1", "set OMP_NUM_THREADS to one number on all ranks")

    def test_what_slurm_grants_a_task_counts(self):
        self.assertEqual(self.start(environment={"SLURM_CPUS_PER_TASK": "1"}), (1, "SLURM_CPUS_PER_TASK=1"))


if __name__ == "__main__":
    program.main()
