"""The disk is full for some steps of a run: records are lost and counted, and training is not affected. `prepare`
continues when there is space."""

import os
import pathlib
import re
import resource
import signal
import subprocess
import sys

import program
from signals_test import Running
from training import TrainingTest

OPTIONS = ("--optim.schedule=constant", "--train.sample_every=30", "--record.csv", "--record.tensorboard", "--record.every=1",
           "--checkpoint.every=20")
FULL_FROM, FULL_TO, STEPS = 4, 59, 64  # long enough for every file to fill its last block


class FullDisk(TrainingTest):
    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(self.disk)]
        try:
            mounted = subprocess.run(mount, capture_output=True, text=True).returncode == 0
        except OSError:
            mounted = False
        if not mounted:
            print("skipped: no right to mount a small disk", file=sys.stderr)
            self.skipTest("no right to mount a small disk")
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.disk)], check=True)

    def fill(self):
        with open(self.disk / "filler", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def test_training_goes_on_and_says_what_is_lost(self):
        options = (*OPTIONS, f"--checkpoint.dir={self.folder}/checkpoints", "--record.trace_steps=4")
        running = Running(self, 1, f"step:0:{FULL_FROM}:stop,step:0:{FULL_TO + 1}:stop", "disk/run", *options, steps=STEPS)
        pid = running.stopped()
        self.fill()
        os.kill(pid, signal.SIGCONT)
        pid = running.stopped()
        (self.disk / "filler").unlink()
        os.kill(pid, signal.SIGCONT)
        code, out, errors = running.end()
        self.assertEqual(code, 0, errors)
        self.assertIn(f"step    {STEPS}/{STEPS}", out)

        rows = {row["step"]: row["loss_hex"] for row in self.lines("disk/run") if "loss_hex" in row}
        missing = sorted(set(range(1, STEPS + 1)) - set(rows))
        self.assertTrue(missing and FULL_FROM <= missing[0] and missing[-1] == FULL_TO, missing)
        # A short event may still fit after a row that did not, and then reports that loss at once.
        lost = [row for row in self.lines("disk/run") if row.get("event") == "lost"]
        self.assertEqual((lost[0]["first_step"], lost[-1]["step"]), (missing[0], FULL_TO))
        all_lines = STEPS + STEPS // 2 + 4 + 2  # rows, evaluations, checkpoints, start and end
        self.assertEqual(len(self.lines("disk/run")) - len(lost) + sum(row["rows"] for row in lost), all_lines)
        table = (self.disk / "run/metrics.csv").read_text().splitlines()[1:]
        self.assertEqual([line.split(",")[0] for line in table][-5:], ["60", "61", "62", "63", "64"])
        self.assertTrue(all(line.count(",") == table[0].count(",") for line in table))
        self.assertRegex((self.disk / "run/log.txt").read_text(), r"\nwarning: \d+ lines of steps \d+ to 59 could not be written here\n")
        self.assertFalse((self.disk / "run/samples/step-00000030.txt").exists())
        self.assertTrue((self.disk / "run/samples/step-00000060.txt").exists())

        run = self.disk / "run"
        for name in ("metrics.jsonl", "metrics.csv", "log.txt", "tb", "samples", "trace"):
            told = [line for line in errors.splitlines() if line.startswith(f"warning: [record] {run}/{name}")]
            self.assertRegex(told[0], r": cannot (append|write|create).*: No space left on device; training continues, rows from step \d+ on are lost$")
            self.assertRegex(told[-1], r": \d+ rows? between steps \d+ and \d+ could not be written$")

        self.trained(*OPTIONS, "--train.eval_every=2", f"--data.val={self.folder}/data/val.bin", run="whole", steps=STEPS)
        whole = {row["step"]: row["loss_hex"] for row in self.lines("whole") if "loss_hex" in row}
        self.assertEqual(rows, {step: whole[step] for step in rows})
        self.assertEqual(program.run("report", run).returncode, 0)
        self.assertIn("lost", (run / "report.md").read_text(errors="replace"))

    def test_prepare_goes_on_when_there_is_room(self):
        text = self.write("long.txt", "0123456789" * 6000)  # 120 kB of tokens, which the disk does not hold twice
        (self.disk / "filler").write_bytes(bytes(64 << 10))
        prepare = ("prepare", "--input", text, "--out", self.disk / "data")
        self.assert_error(program.run(*prepare), 3, f"[data] {self.disk}/data/train.bin: cannot write: No space left on device",
                          f"{self.disk}/data/prepare.tmp keeps the finished part: the same command continues from it")
        self.assertEqual([path.name for path in (self.disk / "data").iterdir()], ["prepare.tmp"])
        (self.disk / "filler").unlink()
        subprocess.run(["mount", "-o", "remount,size=1m", str(self.disk)], check=True)
        done = program.run(*prepare)
        self.assertEqual((done.returncode, done.stderr), (0, "prepare: continues what an earlier run has done\n"))
        self.assertEqual((self.disk / "data/train.bin").stat().st_size, 1024 + 2 * 54000)

    def test_at_the_start_it_is_an_error(self):
        (self.disk / "run").mkdir()
        self.fill()
        refused = self.train(*OPTIONS, run="disk/run")
        self.assertEqual(refused.returncode, 3, refused.stderr)
        self.assertRegex(refused.stderr, rf"^error: \[checkpoint\] checkpoint\.dir {self.disk}/run/checkpoints: expected \d+ bytes "
                                         r"free for a checkpoint, found 0\n")

    def test_a_start_that_cannot_write_run_json_begins_nothing(self):
        self.trained(steps=2)
        begin = (f"--checkpoint.resume={self.folder}/run", f"--checkpoint.dir={self.folder}/checkpoints")
        self.fill()
        refused = self.train(*begin, run="disk/run", steps=4)
        self.assertEqual(refused.returncode, 3, refused.stderr)
        self.assertRegex(refused.stderr, rf"error: \[record\] .*{self.disk}/run.*: No space left on device")
        (self.disk / "filler").unlink()
        self.assertIn("at step 3", self.trained(*begin, run="disk/run", steps=4))

    def test_a_limit_on_the_size_of_files_is_like_a_full_disk(self):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40 << 10, before[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, before)
        done = self.train(steps=2)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"step-00000002.*: File too large")

    def test_a_disk_that_will_be_full_is_foreseen(self):
        small = ("--model.layers=1", "--model.width=16", "--model.ffn=32", f"--checkpoint.dir={self.disk}/checkpoints")
        self.assertNotIn("warning: ", self.trained(*small, steps=1))
        bytes_of_one = sum(file.stat().st_size for file in (self.disk / "checkpoints/step-00000001").iterdir())
        self.assertLess(bytes_of_one, 256 << 10)
        # A run that continues is told. Its saves would be tried again, so it ends before the first one.
        going_on = self.train(*small, steps=2, environment={"LTRAIN_FAULT": "step:0:2:exit"})
        said = re.search(r"(?m)^warning: checkpoint\.dir .*/disk/checkpoints: the run will add 1 checkpoint of ([\d.]+)kB, and "
                         r"[\d.]+kB are free$", going_on.stdout)
        self.assertTrue(said, going_on.stdout)
        self.assertTrue(bytes_of_one <= 1e3 * float(said[1]) <= 1.2 * bytes_of_one, (bytes_of_one, said))

    def test_a_timeline_that_cannot_be_recorded_ends_copying(self):
        where = ("--optim.schedule=constant", "--checkpoint.every=3", f"--checkpoint.dir={self.folder}/checkpoints")
        warning = ("warning: copies in memory: none in this start, because run.json cannot record its timeline; a restart resumes "
                   "from the disk\n")

        def killed(memory_every, step):
            done = self.train(*where, f"--checkpoint.memory_every={memory_every}", run="disk/run", steps=8,
                              environment={"LTRAIN_FAULT": f"forward:0:{step}:kill"})
            self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
            return done.stdout

        killed(1, step=6)
        copies = self.memory_folder("disk/run")
        self.addCleanup(program.run, "checkpoint", "free", self.disk / "run")
        self.assertTrue(copies.exists())
        self.fill()
        # It computes step 4 again, so the copies of steps 4 and 5 are not the newest state any more.
        out = killed(0, step=5)
        self.assertIn("step-00000003 at step 4\n", out)
        self.assertNotIn(warning, out)
        self.assertFalse(copies.exists())
        out = killed(1, step=6)
        self.assertIn("step-00000003 at step 4\n", out)
        self.assertIn(warning, out)
        self.assertFalse(copies.exists())

    def test_a_run_that_goes_on_needs_no_room(self):
        where = f"--checkpoint.dir={self.folder}/checkpoints"
        self.trained(where, run="disk/run", steps=2)
        self.fill()
        done = self.train(where, "--record.tensorboard=true", run="disk/run", steps=4)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("resuming from", done.stdout)
        for name in ("run.json", "config.toml", "env.json"):
            self.assertRegex(done.stderr, rf"warning: \[record\] {self.disk}/run/{name}: cannot \w+: No space left on "
                                          r"device; the file of an earlier start stays\n")
        self.assertTrue((self.folder / "checkpoints/step-00000004").exists())


if __name__ == "__main__":
    program.main()
