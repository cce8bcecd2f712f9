"""Training over two hosts: the same bits as on one host, and the loss of a host. run.sh starts it in new namespaces."""

import os
import signal
import subprocess
import threading
import time

import hosts
import program
import training

STEPS = 20
# A rank that waits for its peer leaves the cores to whoever computes: the hosts share them.
WAITING = {"OMPI_MCA_mpi_yield_when_idle": "1"}
HEARTBEAT_S = 2
LIMIT_S = 90  # of a process, whatever happens


class Nodes(training.TrainingTest):
    def setUp(self):
        super().setUp()
        self.hosts = hosts.Hosts(self.folder)
        self.addCleanup(self.hosts.close)
        self.environment = program.clean_environment({
            **self.hosts.environment(), **WAITING, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})

    def options(self, run, *more, steps=STEPS):
        return ("train", *training.LAYERS, "--train.micro_batch=2", f"--data.train={self.folder}/data/train.bin",
                f"--train.steps={steps}", f"--run.dir={self.folder / run}", *more)

    def start(self, *command):
        """The command on host alpha."""
        process = subprocess.Popen(self.hosts.alpha.inside(*command), env=self.environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        self.addCleanup(limit.cancel)
        self.addCleanup(process.stdout.close)
        return process

    def losses(self, run):
        return {line["step"]: line["loss_hex"] for line in self.lines(run) if "loss_hex" in line}

    def require(self, *command):
        """Skips the test where this version of the program refuses the command."""
        if program.run(*command).returncode != 0:
            self.skipTest(f"this ltrain has no `{' '.join(command)}`")

    def wait_for_step(self, process, step):
        """Reads the console until a line of that step or a later one."""
        for line in process.stdout:
            if line.startswith("step") and int(line[4:].split("/")[0]) >= step:
                return
        self.fail(f"the run ended before step {step}")

    def assert_none_left(self, host, *names):
        until = time.monotonic() + 10
        while left := [process for name in names for process in hosts.processes_of(host, name)]:
            self.assertLess(time.monotonic(), until, left)
            time.sleep(0.05)

    def test_two_hosts_train_as_one_does(self):
        for strategy in ("ddp", "zero3"):
            options = (f"--parallel.strategy={strategy}", "--checkpoint.every=10")
            self.trained(*options, run=f"one-{strategy}", ranks=2, steps=STEPS)
            both = self.start("mpirun", "-n", "2", program.ltrain(), *self.options(f"both-{strategy}", *options))
            console, _ = both.communicate()
            self.assertEqual(both.returncode, 0, console)
            self.assertIn("ranks: 2 (Open MPI)\n", console)
            self.assertEqual(self.losses(f"both-{strategy}"), self.losses(f"one-{strategy}"))
            self.assertEqual(len(self.losses(f"both-{strategy}")), STEPS)
            for step in (10, STEPS):
                checked = program.run("checkpoint", "verify",
                                      self.folder / f"both-{strategy}/checkpoints/step-{step:08}")
                self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assert_none_left(self.hosts.beta, "ltrain", "orted")

    def test_a_host_that_is_cut_off_is_found_and_its_memory_is_on_the_other(self):
        options = ("--parallel.strategy=zero3", "--optim.schedule=constant", "--checkpoint.memory_every=1",
                   f"--watchdog.heartbeat_s={HEARTBEAT_S}", "--record.every=1")
        run = self.start("mpirun", "-n", "2", program.ltrain(), *self.options("cut", *options, steps=100000))
        self.wait_for_step(run, 5)
        self.hosts.pull_the_cable()
        cut = time.monotonic()
        verdict = next((line for line in run.stdout if line.startswith("error: [watchdog]")), "")
        self.assertLess(time.monotonic() - cut, HEARTBEAT_S + 3)
        self.assertRegex(verdict, r"rank 1 \(host beta")
        # Each side's rank ends by itself. mpirun and its daemon never notice: `ltrain launch` ends them, and here the test.
        for host in (self.hosts.alpha, self.hosts.beta):
            self.assert_none_left(host, "ltrain")
            for name in ("mpirun", "orted"):
                for process in hosts.processes_of(host, name):
                    os.kill(process, signal.SIGKILL)
        run.communicate()

        # Both ranks on alpha: the memory there has what rank 1 had on beta.
        reached = max(self.losses("cut"))
        self.environment["LTRAIN_FAULT"] = f"step:1:{reached + 10}:kill"
        self.start("mpirun", "-n", "2", "--host", "alpha:2", program.ltrain(),
                   *self.options("cut", *options, steps=100000)).communicate()
        self.assertGreaterEqual(max(self.losses("cut")), reached + 8)
        # On both hosts again: beta's memory has old copies, and gets what it needs from alpha.
        self.hosts.plug_the_cable_in()
        del self.environment["LTRAIN_FAULT"]
        run = self.start("mpirun", "-n", "2", program.ltrain(), *self.options("cut", *options, steps=reached + 20))
        console, _ = run.communicate()
        self.assertEqual(run.returncode, 0, console)
        starts = [(line["step"], line["resumed_from"]) for line in self.lines("cut") if line.get("event") == "start"]
        self.assertEqual([origin for _, origin in starts], [None, "memory", "memory"])
        self.assertGreaterEqual(starts[1][0], reached - 2)  # a copy is sent beside the next step
        self.assertGreaterEqual(starts[2][0], reached + 7)
        self.trained(*options[:2], run="whole", ranks=2, steps=reached + 20)
        self.assertEqual(self.losses("cut"), self.losses("whole"))

    def test_the_run_goes_on_where_one_host_is_left(self):
        self.require("launch", "--help")
        # mpirun starts rank 0 on its own host all the same, which the launcher needs to know where a rank is.
        self.hosts.hostfile.write_text("beta slots=1\nalpha slots=1\n")
        run = self.start(program.ltrain(), "launch", "-n", "2", "--min-ranks", "1", "--hostfile", self.hosts.hostfile, "--",
                         *self.options("moved", "--record.every=1", f"--watchdog.heartbeat_s={HEARTBEAT_S}",
                                       "--checkpoint.every=5", "--train.global_batch=4", steps=400))
        self.wait_for_step(run, 7)
        self.hosts.pull_the_cable()
        console, _ = run.communicate()
        self.assertEqual(run.returncode, 0, console)
        events = [line for line in self.lines("moved") if line.get("event") in ("start", "restart")]
        self.assertEqual([e["ranks"] for e in events if e["event"] == "start"], [2, 1], console)
        self.assertEqual(len([e for e in events if e["event"] == "restart"]), 1)
        self.assertIn("error: [watchdog] rank 1 (host beta, ", console)
        self.assertEqual(max(self.losses("moved")), 400)
        self.assert_none_left(self.hosts.alpha, "ltrain", "orted", "mpirun")


if __name__ == "__main__":
    program.main()
