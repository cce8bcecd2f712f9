"""A run that is asked to stop saves its state and exits with code 75, with all ranks after the same step. It then
resumes bit-equal."""

import os
import pathlib
import signal
import subprocess
import time

import program
from training import LAYERS, TrainingTest

OPTIONS = ("--checkpoint.every=3", "--optim.schedule=constant", "--train.eval_every=2")
DEADLINE_S = 60


def state_of(pid):
    """The kernel's letter for the state of a process: "T" if it is stopped. "" if the process is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


class Running:
    """A training run. LTRAIN_FAULT stops its ranks at chosen points, where they are sent a signal and continue."""

    def __init__(self, test, ranks, fault, run, *options, steps, supervised=False):
        self.test, self.ranks, self.folder = test, ranks, test.folder / run
        train = ("train", *LAYERS, f"--data.train={test.folder}/data/train.bin", f"--data.val={test.folder}/data/val.bin",
                 f"--train.steps={steps}", "--train.micro_batch=2", f"--run.dir={self.folder}", *OPTIONS, *options)
        command = (program.launched(program.ltrain(), "launch", "-n", ranks, "--", *train) if supervised else
                   program.launched(program.ltrain(), *train, ranks=ranks))
        self.process = subprocess.Popen(command, env=program.clean_environment({"LTRAIN_FAULT": fault}), text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        test.addCleanup(self.process.stderr.close)
        test.addCleanup(self.process.stdout.close)
        test.addCleanup(self.process.kill)

    def pid(self, rank):
        if self.ranks == 1:
            return self.process.pid
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                command, environment = (path / "cmdline").read_bytes(), (path / "environ").read_bytes()
            except OSError:  # the process is gone or belongs to another user
                continue
            is_run = command.split(b"\0")[0] == bytes(program.ltrain()) and f"--run.dir={self.folder}\0".encode() in command
            if is_run and f"OMPI_COMM_WORLD_RANK={rank}\0".encode() in environment:
                return int(path.name)
        return None

    def stopped(self, rank=0):
        """Waits until the fault has stopped the rank; returns its process id."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end and self.process.poll() is None:
            pid = self.pid(rank)
            if pid and state_of(pid) == "T":
                return pid
            time.sleep(0.01)
        self.process.kill()
        self.test.fail(f"rank {rank} did not come to its fault: {self.process.communicate()}")

    def send(self, number, rank=0):
        pid = self.stopped(rank)
        os.kill(pid, number)
        os.kill(pid, signal.SIGCONT)

    def end(self):
        out, errors = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out, errors


class Signals(TrainingTest):
    def losses(self, run):
        return {row["step"]: row["loss_hex"] for row in self.lines(run) if "loss_hex" in row}

    def events(self, run, kind):
        return [row for row in self.lines(run) if row.get("event") == kind]

    def stopped_run(self, number, fault, step, *options, ranks=1, rank=0, run="run", steps=6):
        """Starts a run, sends signal `number` to one rank, and checks what the run leaves."""
        running = Running(self, ranks, fault, run, *options, steps=steps)
        running.send(number, rank)
        code, out, errors = running.end()
        name = signal.Signals(number).name
        self.assertEqual((code, errors), (75, ""), out)
        self.assertRegex(out, rf"\nstopped by {name}: {step} steps? in \d+s, {self.folder / run}\n$")
        end, = self.events(run, "end")
        self.assertEqual((end["step"], end["reason"]), (step, "signal " + name))
        saved = [event["step"] for event in self.events(run, "checkpoint")]
        self.assertEqual((saved[-1], len(saved)), (step, len(set(saved))), saved)
        self.assertEqual(sorted(self.losses(run)), list(range(1, step + 1)))

    def goes_on(self, *options, ranks=1, run="run", steps=6):
        more = (*OPTIONS, *options, f"--data.val={self.folder}/data/val.bin")
        self.trained(*more, run=f"{run}-whole", ranks=ranks, steps=steps)
        self.trained(*more, run=run, ranks=ranks, steps=steps)
        self.assertEqual(self.losses(run), self.losses(f"{run}-whole"))

    def test_one_rank_of_two_is_told_and_both_stop(self):
        zero3 = "--parallel.strategy=zero3"
        self.stopped_run(signal.SIGUSR1, "step:1:4:stop", 4, zero3, ranks=2, rank=1)
        self.goes_on(zero3, ranks=2)

    def test_the_next_start_makes_up_for_an_evaluation_and_a_sample(self):
        due = ("--train.eval_every=2", "--train.sample_every=4")
        self.stopped_run(signal.SIGUSR1, "step:0:4:stop", 4, *due, ranks=2)
        self.assertEqual([event["step"] for event in self.events("run", "eval")], [2])
        self.goes_on(*due, ranks=2)
        losses = {run: [(event["step"], event["loss"]) for event in self.events(run, "eval")] for run in ("run", "run-whole")}
        self.assertEqual([step for step, _ in losses["run"]], [2, 4, 6])
        self.assertEqual(losses["run"], losses["run-whole"])
        samples = [(self.folder / run / "samples/step-00000004.txt").read_bytes() for run in losses]
        self.assertEqual(*samples)

    def test_a_signal_during_the_start_leaves_them_to_the_start_after(self):
        due = ("--train.eval_every=2", "--train.sample_every=4")
        self.stopped_run(signal.SIGUSR1, "step:0:4:stop", 4, *due)
        before = len(self.lines("run"))
        running = Running(self, 1, "start:0:4:stop", "run", *due, steps=6)
        running.send(signal.SIGUSR1)
        code, out, errors = running.end()
        self.assertEqual((code, errors), (75, ""), out)
        self.assertEqual([row["event"] for row in self.lines("run")[before:]], ["start", "end"])
        self.assertFalse((self.folder / "run/samples").exists())

    def test_under_the_supervisor_all_ranks_save_and_nothing_is_started_again(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            run = signal.Signals(number).name
            running = Running(self, 2, "step:0:4:stop", run, "--checkpoint.every=0", steps=100000, supervised=True)
            os.kill(running.stopped(), signal.SIGCONT)  # by now all ranks have started
            running.process.send_signal(number)
            code, out, errors = running.end()
            self.assertEqual(code, 75, out + errors)
            end, = self.events(run, "end")
            self.assertEqual(end["reason"], "signal SIGUSR1")
            self.assertEqual([event["step"] for event in self.events(run, "checkpoint")], [max(self.losses(run))])
            self.assertEqual(len(self.events(run, "start")), 1)

    def test_at_a_step_that_is_saved_anyway_nothing_is_saved_twice(self):
        self.stopped_run(signal.SIGINT, "data:0:3:stop", 3)

    def test_what_has_begun_is_finished_and_no_step_follows(self):
        self.stopped_run(signal.SIGUSR1, "start:0:0:stop", 0, run="start")
        self.assertIn("at step 1\n", self.trained(*OPTIONS, f"--data.val={self.folder}/data/val.bin", run="start"))
        self.stopped_run(signal.SIGTERM, "evaluate:0:2:stop", 2, run="evaluation")
        self.assertEqual([event["step"] for event in self.events("evaluation", "eval")], [2])
        self.stopped_run(signal.SIGTERM, "save-begin:1:3:stop", 3, ranks=2, rank=1, run="save")

    def test_a_signal_at_the_last_step_comes_too_late(self):
        for run, fault, options, end in (("steps", "step:0:6:stop", (), (0, "steps")),
                                         ("time", "step:0:1:stop", ("--train.max_minutes=1e-9",), (75, "max_minutes"))):
            running = Running(self, 1, fault, run, *options, steps=6)
            running.send(signal.SIGTERM)
            code, out, errors = running.end()
            self.assertEqual((code, errors), (end[0], ""), out)
            self.assertEqual(self.events(run, "end")[0]["reason"], end[1])

    def test_a_reader_of_the_console_may_leave(self):
        running = Running(self, 1, "step:0:3:stop", "run", steps=6)
        pid = running.stopped()
        running.process.stdout.close()
        os.kill(pid, signal.SIGCONT)
        self.assertEqual((running.process.stderr.read(), running.process.wait(DEADLINE_S)), ("", 0))
        self.assertIn("\ndone: 6 steps in ", (self.folder / "run/log.txt").read_text())

    def test_a_second_interrupt_ends_at_once(self):
        running = Running(self, 1, "step:0:4:stop,save-begin:0:4:stop", "run", steps=6)
        running.send(signal.SIGINT)
        running.send(signal.SIGINT)
        self.assertEqual(running.end()[0], 130)
        self.assertEqual([event["step"] for event in self.events("run", "checkpoint")], [3])


if __name__ == "__main__":
    program.main()
