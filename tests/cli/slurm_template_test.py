"""Tests launch/slurm.sbatch, the template of a Slurm job, with scripts in place of Slurm's programs."""

import os
import pathlib
import subprocess

import program
from training import LAYERS

TEMPLATE = pathlib.Path(__file__).resolve().parents[2] / "launch/slurm.sbatch"


class SlurmTemplate(program.CliTest):
    def play(self, **scripts):
        """Puts scripts on PATH under their names. Returns the environment of a job."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        for name, script in scripts.items():
            self.write(f"bin/{name}", f"#!/bin/bash\n{script}\n").chmod(0o755)
        return {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_NAME": "job", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "a"}

    def test_idle_attempts_are_counted_and_no_file_is_left(self):
        environment = self.play(srun='echo "$*"; exit $CODE', scontrol="echo requeued")
        for codes in ((75, 0), (75, 3), (75, 75, 75)):
            for code in codes[:-1]:
                done = self.call(environment, code)
                self.assertIn("requeued", done.stdout)
                self.assertEqual(len(list(self.folder.glob("*.idle"))), 1)
            done = self.call(environment, codes[-1])
            self.assertNotIn("requeued", done.stdout)
            self.assertEqual((done.returncode, list(self.folder.glob("*.idle"))), (codes[-1], []))
        began, auto = "--checkpoint.resume=never", "--checkpoint.resume=auto"
        run = self.folder / "runs/job"
        (run / "checkpoints/step-00000009").mkdir(parents=True)  # of an older run

        def attempt(restarts, resume):
            done = self.call({**environment, "SLURM_RESTART_COUNT": str(restarts)}, 75, began)
            self.assertTrue(done.stdout.splitlines()[0].endswith(resume), done.stdout)
            return len((self.folder / "job-7.idle").read_text().splitlines()) if (self.folder / "job-7.idle").exists() else 0

        self.assertEqual(attempt(1, began), 1)  # the job was requeued before the template ran
        self.assertEqual(attempt(2, began), 2)  # the first attempt did not come to the folder
        run.rename(self.folder / "runs/job.old-1")
        run.mkdir()
        (run / "run.json").touch()  # the job has begun its run and saved nothing
        self.play(srun=f'echo "$*"; mkdir -p {run}/checkpoints/step-00000003; exit 75')
        self.assertEqual(attempt(3, auto), 0)
        self.play(srun=f'echo "$*"; mkdir -p {run}/checkpoints/step-00000002; exit 75')
        self.assertEqual(attempt(4, auto), 0)  # below step 3, which may be damaged
        self.play(srun='echo "$*"')
        self.assertTrue(self.call({**environment, "SLURM_RESTART_COUNT": "5"}, 0, began).stdout.splitlines()[0].endswith(auto))
        self.assertEqual(sorted(path.name for path in self.folder.glob("job-7.*")), [])

    def test_a_run_that_train_max_minutes_stops_is_requeued_until_it_is_complete(self):
        text = self.write("text.txt", "The quick brown fox jumps over the lazy dog. " * 60)
        self.assertEqual(program.run("prepare", "--input", text, "--out", self.folder / "data").returncode, 0)
        environment = {**program.clean_environment(), **self.play(
            srun=f'while [ $1 != ltrain ]; do shift; done; shift; exec {program.ltrain()} "$@"', scontrol="echo requeued")}
        options = (*LAYERS, "--data.train=data/train.bin", "--train.micro_batch=2", "--train.steps=4", "--train.max_minutes=1e-9")
        environment = {name: value for name, value in environment.items() if name not in ("SLURM_STEP_ID", "SLURM_PROCID")}
        for attempt in range(3):  # an attempt that saved nothing would be idle, and the third the last
            done = self.call({**environment, "SLURM_RESTART_COUNT": str(attempt)}, 0, *options)
            self.assertIn("exit code 75\nrequeued\n", done.stdout, done.stderr)
            self.assertEqual(list(self.folder.glob("*.idle")), [])
        done = self.call({**environment, "SLURM_RESTART_COUNT": "3"}, 0, *options)
        self.assertEqual((done.returncode, list(self.folder.glob("job-7.*"))), (0, []), done.stdout + done.stderr)

    def test_a_job_that_cannot_be_requeued_says_so(self):
        environment = self.play(srun='echo "$*"; exit $CODE', scontrol="echo asked; exit 1", sleep="")
        environment["SLURM_CPUS_PER_TASK"] = "8"
        done = self.call(environment, 75)
        self.assertEqual((done.returncode, done.stdout.count("asked"), done.stdout.splitlines()[-1]), (75, 4, "the job could not be requeued"))
        self.assertIn("--wait=60 --cpus-per-task=8 ltrain train", done.stdout)
        self.assertEqual(list(self.folder.glob("job-7.*")), [])
        del environment["SLURM_CPUS_PER_TASK"]
        self.assertIn("--wait=60 ltrain train", self.call(environment, 0).stdout)

    def test_a_fault_strikes_the_first_attempt_alone(self):
        environment = {**self.play(srun='echo "fault: $LTRAIN_FAULT"'), "LTRAIN_FAULT": "step:1:7:kill"}
        for restarts, fault in (({}, "step:1:7:kill"), ({"SLURM_RESTART_COUNT": "0"}, "step:1:7:kill"), ({"SLURM_RESTART_COUNT": "1"}, "")):
            self.assertEqual(self.call({**environment, **restarts}, 0).stdout.splitlines()[0], f"fault: {fault}")

    def test_another_folder_for_the_run_is_refused(self):
        environment = self.play(srun="echo started")
        for options in (("--run.dir=runs/other",), ("--train.steps=5", "--run.dir", "runs/other")):
            done = self.call(environment, 0, *options)
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (2, "", "error: [slurm] --run.dir: expected none, the template watches runs/job\n"
                                     "hint: sbatch --job-name=NAME takes runs/NAME; for another folder change run= in the template\n"))
        self.assertEqual(list(self.folder.glob("job-7.*")), [])

    def call(self, environment, code, *options):
        return subprocess.run(["bash", TEMPLATE, *options], cwd=self.folder, env={**environment, "CODE": str(code)},
                              capture_output=True, text=True, timeout=60)


if __name__ == "__main__":
    program.main()
