"""Training under Slurm itself: across nodes, and while jobs are interrupted. run.sh starts it in a separate network."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import program

HERE = pathlib.Path(__file__).resolve().parent
TEMPLATE = HERE.parent.parent / "launch" / "slurm.sbatch"
MODEL = ("--model.layers=2", "--model.width=32", "--model.heads=2", "--model.ffn=48", "--train.seq=16",
         "--train.micro_batch=2", "--parallel.strategy=zero3")
STEPS, EVERY = 60, 10


def eventually(condition, what, seconds=60):
    """The first true value of `condition()`."""
    until = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"waited {seconds} s in vain for {what if isinstance(what, str) else what()}")
        time.sleep(0.02)


def losses(run):
    """loss_hex by step; where a step stands twice the later line counts. Empty where there is no run yet."""
    try:
        lines = (run / "metrics.jsonl").read_text().split("\n")[:-1]
    except FileNotFoundError:
        return {}
    rows = [json.loads(line) for line in lines]
    return {row["step"]: row["loss_hex"] for row in rows if "loss_hex" in row}


def tasks(rank):
    """Process ids of `ltrain` with that rank."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            is_rank = f"SLURM_PROCID={rank}".encode() in (process / "environ").read_bytes().split(b"\0")
            if is_rank and (process / "comm").read_text() == "ltrain\n":
                found.append(int(process.name))
        except OSError:  # it ended
            pass
    return found


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="lt-slurm-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.folder.chmod(0o755)  # munged wants its socket within reach of everybody
        cls.cluster = cls.folder / "cluster"
        cls.environment = program.clean_environment({
            "SLURM_CONF": str(cls.cluster / "slurm.conf"),
            "PATH": f"{program.ltrain().resolve().parent}:{os.environ['PATH']}"})
        cls.call("bash", HERE / "cluster.sh", "start", cls.cluster, 3, 2)
        cls.addClassCleanup(cls.call, "bash", HERE / "cluster.sh", "stop", cls.cluster)
        (cls.folder / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 60)
        cls.call("ltrain", "prepare", "--input", "text.txt", "--out", "data")
        cls.options = (*MODEL, f"--data.train={cls.folder}/data/train.bin", f"--train.steps={STEPS}",
                       f"--checkpoint.every={EVERY}")
        template = TEMPLATE.read_text()
        assert template.count(" --wait=60 ") == 1
        (cls.folder / "slurm.sbatch").write_text(template.replace(" --wait=60 ", " --wait=2 "))  # not to wait a minute
        for ranks in (2, 4):
            cls.call(*program.launched("ltrain", "train", *cls.options, f"--run.dir=alone-{ranks}", ranks=ranks))

    @classmethod
    def call(cls, *command, environment=None, check=True):
        done = subprocess.run([str(part) for part in command], cwd=cls.folder, env=environment or cls.environment,
                              capture_output=True, text=True, errors="replace", timeout=60)
        if check and done.returncode != 0:
            raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def assert_same_losses(self, run, ranks):
        expected = losses(self.folder / f"alone-{ranks}")
        self.assertEqual(len(expected), STEPS)
        self.assertEqual(losses(run), expected)

    # A job of the template, from its submission to its end.

    def submit(self, name, *options):
        self.name, self.run_folder = name, self.folder / "runs" / name
        shutil.rmtree(self.run_folder, ignore_errors=True)
        self.job = self.call("sbatch", "--parsable", f"--job-name={name}", self.folder / "slurm.sbatch", *self.options,
                             *options).stdout.strip()

    def field(self, name):
        shown = self.call("scontrol", "--oneliner", "show", "job", self.job).stdout
        return dict(part.split("=", 1) for part in shown.split() if "=" in part)[name]

    def log(self):
        path = self.folder / f"{self.name}-{self.job}.log"
        return path.read_text() if path.exists() else ""

    def told(self, what):
        return lambda: f"{what} of {self.name}\n{self.call('scontrol', 'show', 'job', self.job).stdout}\n{self.log()}"

    def hold_at(self, step, rank):
        """Stops a rank once the run is past that step, so that the run stays there; its process id."""
        eventually(lambda: max(losses(self.run_folder), default=0) >= step, self.told(f"step {step}"))
        process, = tasks(rank)
        os.kill(process, signal.SIGSTOP)
        return process

    def is_now(self, state):
        return self.field("JobState") == state

    def assert_completes(self, attempts):
        eventually(lambda: self.is_now("COMPLETED"), self.told("the end"))
        self.assertEqual(self.field("Restarts"), str(attempts - 1), self.log())
        if attempts > 1:
            self.assertIn("resuming from", self.log())
        self.assert_same_losses(self.run_folder, 4)

    # What must hold.

    def test_srun_trains_across_two_nodes(self):
        environment = {k: v for k, v in self.environment.items() if k != "OMP_NUM_THREADS"}
        done = self.call("srun", "--nodes=2", "--ntasks=2", "--cpus-per-task=2", "--mpi=pmix", "ltrain", "train",
                         *self.options, "--run.dir=srun", environment=environment)
        self.assertIn("ranks: 2 (Slurm)\n", done.stdout)
        # Slurm grants each node this machine's cores, which the ranks nevertheless divide.
        cores = len(os.sched_getaffinity(0))
        if cores == 2:
            self.assertIn("threads: 1 a rank (2 cores of this host over 2 ranks)\n", done.stdout)
        self.assert_same_losses(self.folder / "srun", 2)
        command = json.loads((self.folder / "srun/env.json").read_text())["command"]
        self.assertTrue(command.startswith(f"srun -n 2 -N 2 --mpi=pmix --cpus-per-task=2 {program.ltrain()} train --model.layers=2 "), command)

    def test_launch_places_ranks_on_each_node_of_an_allocation(self):
        done = self.call("salloc", "--nodes=2", "--ntasks-per-node=2", "ltrain", "launch", "--nproc-per-node", 2, "--", "train",
                         *self.options, "--run.dir=launched")
        self.assertIn("ranks: 4 (Slurm)\n", done.stdout)
        self.assert_same_losses(self.folder / "launched", 4)
        environment = json.loads((self.folder / "launched/env.json").read_text())
        self.assertEqual(environment["ranks_on_host"], 2)
        self.assertTrue(environment["command"].startswith("ltrain launch --nproc-per-node 2 -- train "), environment["command"])

    def test_srun_without_mpi_trains_resumes_and_evaluates_with_the_same_bits(self):
        def srun(*command, check=True, **more):
            return self.call("srun", "--nodes=2", "--ntasks=2", "--mpi=none", "--kill-on-bad-exit=0", "--wait=2", "ltrain",
                             *command, environment=self.environment | meeting | more, check=check)

        meeting = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29517"}
        start = ("train", *self.options, "--run.dir=plain-srun")
        killed = srun(*start, check=False, LTRAIN_FAULT="step:1:25:kill")
        self.assertNotEqual(killed.returncode, 0, killed.stdout)
        self.assertIn("resuming from plain-srun/checkpoints/step-00000020 at step 21\n", srun(*start).stdout)
        self.assert_same_losses(self.folder / "plain-srun", 2)
        for command in (("eval", "--data", "data/train.bin"), ("sample", "--prompt", "The", "--tokens", "8")):
            told = [run(*command, "--checkpoint", f"{folder}/checkpoints/step-{STEPS:08d}").stdout.replace(folder, "")
                    for run, folder in ((srun, "plain-srun"), (lambda *c: self.call("ltrain", *c), "alone-2"))]
            self.assertEqual(*told)

    def test_a_job_of_the_template_completes(self):
        self.submit("plain")
        self.assert_completes(attempts=1)
        self.assertIn("ranks: 4 (Slurm)\n", self.log())

    def test_a_killed_rank_brings_the_job_back(self):
        self.submit("killed")
        os.kill(self.hold_at(EVERY + 2, rank=3), signal.SIGKILL)
        self.assert_completes(attempts=2)

    def test_a_lost_node_brings_the_job_back_on_another(self):
        self.submit("lost")
        self.hold_at(EVERY + 2, rank=0)
        self.assertEqual(self.field("NodeList"), "node[1-2]")
        lost = tasks(2) + tasks(3)
        os.kill(int((self.cluster / "slurmd-node2.pid").read_text()), signal.SIGKILL)
        try:
            self.assert_completes(attempts=2)
            self.assertEqual(self.field("NodeList"), "node[1,3]")
        finally:
            for process in set(lost) & set(tasks(2) + tasks(3)):  # nobody is left on the node to end them
                os.kill(process, signal.SIGKILL)
            self.call("bash", HERE / "cluster.sh", "node", self.cluster, "node2")
            eventually(lambda: self.node_state("node2") == "idle", "node2")

    def node_state(self, node):
        return self.call("sinfo", "--noheader", "--nodes", node, "--format=%t").stdout.strip()

    def test_a_drained_node_lets_its_job_go_on_and_takes_no_other(self):
        self.submit("drained")
        rank = self.hold_at(EVERY + 2, rank=3)
        self.call("scontrol", "update", "nodename=node2", "state=drain", "reason=test")
        try:
            self.assertEqual(self.node_state("node2"), "drng")
            self.assertEqual(self.field("JobState"), "RUNNING")
            os.kill(rank, signal.SIGKILL)
            self.assert_completes(attempts=2)
            self.assertEqual(self.field("NodeList"), "node[1,3]")
        finally:
            self.call("scontrol", "update", "nodename=node2", "state=resume")

    def test_a_configuration_error_ends_the_job(self):
        self.submit("wrong", "--optim.lr=fast")
        eventually(lambda: self.is_now("FAILED"), self.told("the end"))
        self.assertEqual((self.field("ExitCode"), self.field("Restarts")), ("2:0", "0"))

    def test_three_attempts_without_a_checkpoint_end_the_job(self):
        self.submit("idle", "--checkpoint.every=0", "--train.steps=100000")
        for attempt in range(3):
            eventually(lambda: self.field("Restarts") == str(attempt) and tasks(1), self.told(f"attempt {attempt}"))
            for process in tasks(1):
                os.kill(process, signal.SIGKILL)
            eventually(lambda: not tasks(1), self.told(f"the end of attempt {attempt}"))
        eventually(lambda: self.is_now("FAILED"), self.told("the end"))
        self.assertIn("three attempts without a new checkpoint", self.log())

    def test_the_signal_of_the_template_saves_and_requeues(self):
        """The job asks for it by --signal; here it comes by hand, in the same way: to the ranks, not to the script."""
        self.submit("signal", "--train.steps=100000", "--checkpoint.every=0")
        eventually(lambda: max(losses(self.run_folder), default=0) >= 2, self.told("the first steps"))
        before = [process for rank in range(4) for process in tasks(rank)]
        self.assertEqual(len(before), 4)
        self.call("scancel", "--signal=USR1", self.job)
        eventually(lambda: "attempt 1 of job" in self.log(), self.told("the end of the first attempt"))
        eventually(lambda: self.field("Restarts") == "1", self.told("the requeue"))
        self.call("scancel", self.job)
        step = max(losses(self.run_folder))
        self.assertIn(f"stopped by SIGUSR1: {step} steps", self.log())
        self.assertIn("exit code 75\n", self.log())
        self.assertTrue((self.run_folder / f"checkpoints/step-{step:08}").exists())


if __name__ == "__main__":
    program.main()
