"""`ltrain launch`: when it restarts ranks, what it passes to them, and what it leaves behind. A fake mpirun simulates
how attempts end; the tests that kill ranks run the real one."""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import time
import unittest

import program
from training import LAYERS, TrainingTest

DEADLINE = 60  # seconds within which an expected event must happen


def wait_until(happened, what):
    end = time.monotonic() + DEADLINE
    while not (value := happened()):
        if time.monotonic() > end:
            raise AssertionError(f"did not happen in {DEADLINE} s: {what}")
        time.sleep(0.01)
    return value


def processes(word):
    """Finds the living processes with `word` on their command line; maps their process ids to their environments."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (folder / "cmdline").read_bytes() and int(folder.name) != os.getpid():
                found[int(folder.name)] = dict(entry.split("=", 1) for entry in (folder / "environ").read_bytes()
                                               .decode(errors="replace").split("\0") if "=" in entry)
    return found


class Launch(TrainingTest):
    def command(self, *options, ranks=2, launch=(), run="run"):
        return [str(part) for part in (program.ltrain(), "launch", "-n", ranks, *launch, "--", "train", *LAYERS,
                                       f"--data.train={self.folder}/data/train.bin", "--train.micro_batch=2",
                                       f"--run.dir={self.folder / run}", *options)]

    def launch(self, *options, environment=None, **settings):
        return subprocess.run(self.command(*options, **settings), env=program.clean_environment(environment),
                              capture_output=True, text=True, timeout=2 * DEADLINE)

    @contextlib.contextmanager
    def launched(self, *options, environment=None, **settings):
        with (self.folder / "output").open("w") as output:
            process = subprocess.Popen(self.command(*options, **settings), stdout=output, stderr=output,
                                       env=program.clean_environment(environment))
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def output(self):
        return (self.folder / "output").read_text()

    def steps(self):
        """Counts the rows of steps that were written since the last start."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "run/metrics.jsonl").read_text().split('{"event":"start"')[-1].count('\n{"step":')
        return 0

    def starts(self):
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "run/metrics.jsonl").read_text().count('{"event":"start"')
        return 0

    def ranks(self, variable="OMPI_COMM_WORLD_RANK"):
        return {int(environment[variable]): pid for pid, environment
                in processes(f"--run.dir={self.folder}").items() if variable in environment}

    def mpirun(self):
        return [pid for pid, environment in processes(f"--run.dir={self.folder}").items()
                if "OMPI_COMM_WORLD_RANK" not in environment and "LTRAIN_TOKEN" in environment][0]

    def losses(self, run):
        rows = {}
        for line in self.lines(run):
            if "event" not in line:
                rows[line["step"]] = line["loss_hex"]
        return rows

    def test_killed_ranks_come_back_bit_equal(self):
        length, options = 400, ("--train.steps=400", "--checkpoint.every=20")
        self.assertEqual(self.launch(*options, run="unbroken").returncode, 0)
        foreign = pathlib.Path(f"/dev/shm/vader_segment.libtrain-{os.getpid()}")
        foreign.write_text("of somebody else")
        self.addCleanup(foreign.unlink)
        with self.launched(*options) as supervisor:
            wait_until(lambda: self.steps() > 30, "thirty steps")
            os.kill(self.ranks()[1], signal.SIGKILL)
            wait_until(lambda: self.starts() == 2 and self.steps() > 30, "thirty steps of the second attempt")
            for pid in self.ranks().values():
                os.kill(pid, signal.SIGSTOP)
            stopped = time.monotonic()  # the supervisor looks four times a second for the files of its ranks
            wait_until(lambda: time.monotonic() > stopped + 0.6, "two of its looks")
            segments = {path for pid in self.ranks().values() for path in
                        re.findall("/dev/shm/vader_segment\\S+", pathlib.Path(f"/proc/{pid}/maps").read_text())}
            self.assertNotEqual(segments, set())
            os.kill(self.mpirun(), signal.SIGKILL)
            self.assertEqual(supervisor.wait(DEADLINE), 0, self.output())
        self.assertEqual(self.losses("run"), self.losses("unbroken"))
        self.assertEqual(len(self.losses("run")), length)
        restarts = [line for line in self.lines() if line.get("event") == "restart"]
        self.assertEqual([(row["attempt"], row["cause"], row["exit_code"]) for row in restarts],
                         [(2, "rank 1 was killed (SIGKILL)", 137), (3, "mpirun was killed (SIGKILL)", 137)])
        for row in restarts:
            self.assertGreaterEqual(row["lost_steps"], 0)
            self.assertLess(row["lost_steps"], length)
            self.assertEqual(row["step"] % 20, 0)
            down = row["down_seconds"]
            self.assertAlmostEqual(down["notice"] + down["backoff"] + down["start"], down["total"])
            self.assertEqual(down["backoff"], 0)
        self.assertIn("attempt 2, because rank 1 was killed (SIGKILL): down ", (self.folder / "run/log.txt").read_text())
        self.assertEqual([path for path in segments if os.path.exists(path)], [])
        self.assertTrue(foreign.exists())
        self.assertEqual(program.run("report", self.folder / "run").returncode, 0)
        self.assertIn("The run was restarted 2 times: ", (self.folder / "run/report.md").read_text())

    def test_a_killed_supervisor_leaves_no_process(self):
        with self.launched("--train.steps=1000000") as supervisor:
            wait_until(lambda: self.steps() > 0, "a step")
            self.assertEqual(sorted(self.ranks()), [0, 1])
            supervisor.kill()
            supervisor.wait()
            wait_until(lambda: not processes(f"--run.dir={self.folder}"), "the end of all processes")

    # Puts a script on PATH as mpirun. In the script, $N is the number of the attempt.
    def play(self, script):
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        mpirun = folder / "mpirun"
        mpirun.write_text(f"""#!/bin/bash
cd {self.folder}; N=$(($(ls | grep -c '^arguments-') + 1))
printf "%s\\n" "$*" > arguments-$N; env > environment-$N
{script}
""")
        mpirun.chmod(0o755)
        return {"PATH": f"{folder}:{os.environ['PATH']}"}

    def attempts(self):
        return len(list(self.folder.glob("arguments-*")))

    def arguments(self, attempt):
        return (self.folder / f"arguments-{attempt}").read_text()

    def environment(self, attempt):
        lines = (self.folder / f"environment-{attempt}").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def assert_end(self, script, code, attempts, *options, launch=("--backoff", 0.01)):
        for file in self.folder.glob("arguments-*"):
            file.unlink()
        done = self.launch(*options, environment=self.play(script), launch=launch)
        self.assertEqual((done.returncode, self.attempts()), (code, attempts), done.stderr)
        return done.stderr

    def test_which_ends_are_followed_by_a_restart(self):
        for code in (2, 3, 4, 5, 6):
            self.assert_end(f"exit {code}", code, 1)
        for code, final in ((1, 1), (75, 75), (137, 75), (139, 75)):
            said = self.assert_end(f"exit {code}", final, 3)
            self.assertIn("3 attempts in a row saved nothing new", said)
        self.assert_end("[ $N -eq 2 ] && exit 0; exit 75", 0, 2)
        self.assert_end("exit 75", 75, 1, launch=("--restarts", 0))
        self.assert_end("exit 75", 75, 2, launch=("--restarts", 1))

    def test_a_run_that_stopped_by_itself_is_not_restarted(self):
        for reason in ("max_minutes", "signal SIGUSR1"):
            end = f'''mkdir -p run; echo '{{"event":"end","step":2,"reason":"{reason}","seconds":1}}' >> run/metrics.jsonl; exit '''
            self.assertNotIn("attempt", self.assert_end(end + "75", 75, 1))
            self.assert_end(f"[ $N -eq 1 ] && exit 75; {end} 75", 75, 2)  # a lost peer, and then the end of an attempt
        self.assert_end("exit 75", 75, 3)  # the record is of earlier attempts

    def test_train_max_minutes_ends_with_75(self):
        for step in (1, 2):
            done = self.launch("--train.steps=3", "--train.max_minutes=1e-9")
            self.assertEqual(done.returncode, 75, done.stderr)
            self.assertEqual([line["step"] for line in self.lines() if "loss_hex" in line][-1], step)
            self.assertNotIn("launch:", done.stderr)
        self.assertEqual(self.launch("--train.steps=3", "--train.max_minutes=1e-9").returncode, 0)

    def test_the_command_in_the_record_has_the_launcher(self):
        def command():
            return json.loads((self.folder / "run/env.json").read_text())["command"]

        options = ("--train.steps=4", "--train.max_minutes=1e-9", "--run.name=a name")
        self.assertEqual(self.launch(*options).returncode, 75)
        self.assertEqual(command(), shlex.join(self.command(*options)))
        self.assertEqual(program.run("report", self.folder / "run").returncode, 0)
        report = (self.folder / "run/report.md").read_text()
        self.assertIn(f"on 2 ranks, it continues from step 1: `{shlex.join(self.command(*options))}`\n", report)
        # The hint works in a shell.
        done = subprocess.run(command(), shell=True, env=program.clean_environment(), capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 75, done.stderr)
        self.assertIn("stopped by the limit of train.max_minutes, and the same command continues: 2 steps", done.stdout)
        self.assertEqual(self.train(*options[1:], "--train.steps=4", ranks=2).returncode, 75)
        self.assertRegex(command(), rf"^\S*mpi(run|exec) .*-n 2 {re.escape(str(program.ltrain()))} train .* '--run.name=a name' --train.steps=4$")
        self.assertEqual(self.train(*options[1:], "--train.steps=5").returncode, 75)
        self.assertTrue(command().startswith(f"{program.ltrain()} train --model.layers=2 "), command())

    def test_the_command_of_a_run_that_a_shell_started_continues_it(self):
        """The shell's script is no part of the command, since options behind it would not reach the ranks."""
        train = ["exec", program.ltrain(), "train", *LAYERS, f"--data.train={self.folder}/data/train.bin", "--train.micro_batch=2",
                 "--train.steps=4", "--train.max_minutes=1e-9", "--run.dir=run", "--checkpoint.resume=never", "--run.force"]
        script = f"export API_KEY=secret; cd {self.folder} && {shlex.join(map(str, train))}"
        environment = program.clean_environment()
        started = subprocess.run(program.launched("sh", "-c", script, ranks=2), env=environment,
                                 capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(started.returncode, 75, started.stderr)
        self.assertIn("stopped by the limit of train.max_minutes, and the same command with checkpoint.resume=auto continues: 1 step",
                      started.stdout)
        self.assertEqual(program.run("report", self.folder / "run").returncode, 0)
        self.assertNotIn("secret", (self.folder / "run/env.json").read_text())
        command, = re.findall("on 2 ranks, it continues from step 1: `(.*)`\n", (self.folder / "run/report.md").read_text())
        self.assertTrue(command.startswith(f"cd {self.folder} && {shlex.join(program.launched(program.ltrain(), 'train', ranks=2))} "), command)
        done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 75, done.stderr)
        self.assertIn("stopped by the limit of train.max_minutes, and the same command continues: 2 steps", done.stdout)
        self.assertEqual([path.name for path in self.folder.glob("run*")], ["run"])

    def test_a_later_attempt_s_command_continues_the_run(self):
        begin = "mkdir -p run; touch run/metrics.jsonl; exit 75"
        self.assert_end(begin, 75, 2, "--checkpoint.resume=never", launch=("--restarts", 1, "--backoff", 0))
        words = self.command("--checkpoint.resume=never", launch=("--restarts", 1, "--backoff", 0))
        self.assertEqual(self.environment(1)["LTRAIN_COMMAND"], shlex.join(words))
        self.assertEqual(self.environment(2)["LTRAIN_COMMAND"], shlex.join([*words, "--checkpoint.resume=auto"]))

    def test_ranks_a_host(self):
        def words(*launch, environment=None):
            for file in self.folder.glob("arguments-*"):
                file.unlink()
            command = self.command(launch=launch)
            del command[2:4]  # -n 2
            done = subprocess.run(command, env=program.clean_environment({**self.play("[ -z $HOSTS ] || cat $(sed 's/.*--hostfile \\([^ ]*\\).*/\\1/' arguments-$N) > hosts-of-mpirun"), **(environment or {})}),
                                  capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(done.returncode, 0, done.stderr)
            return self.arguments(1)

        one = words("-n", 2)
        self.assertEqual(words("--nproc-per-node", 2), one)
        self.assertEqual(words("--nproc-per-node", 2, "-n", 2), one)
        hosts = self.write("hosts", "localhost slots=8\nthere\n")
        self.assertIn("-n 6 ", words("--nproc-per-node", 3, "--hostfile", hosts, environment={"HOSTS": "1"}))
        self.assertEqual((self.folder / "hosts-of-mpirun").read_text(), "localhost slots=3\nthere slots=3\n")
        job = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "3"}
        self.assertIn("-n 6 --bind-to none", words("--nproc-per-node", 2, "--with", "mpirun", environment=job))
        self.assertIn(" --map-by ppr:2:node ", self.arguments(1))
        self.write("bin/srun", f'#!/bin/bash\necho "$*" > {self.folder}/arguments-1\n').chmod(0o755)
        self.assertIn("-n 6 --kill-on-bad-exit=0 --wait=60 --ntasks-per-node=2 ", words("--nproc-per-node", 2, environment=job))

    def test_commands_without_a_run_are_started_once(self):
        self.trained("--checkpoint.every=0")
        checkpoint = ("--checkpoint", self.folder / "run")
        for command in (("eval", *checkpoint, "--data", self.folder / "data/val.bin"),
                        ("sample", *checkpoint, "--prompt", "The", "--tokens", 4, "--temperature", 0)):
            done = program.run("launch", "-n", 2, "--", *command)
            self.assertEqual((done.returncode, done.stdout), (0, program.run(*command).stdout), done.stderr)
        done = program.run("launch", "-n", 2, "--", "bench", "comm", "--sizes", "64KiB", "--iterations", 2)
        self.assertEqual((done.returncode, json.loads(done.stdout)["machine"]["ranks"]), (0, 2), done.stderr)
        done = program.run("launch", "-n", 2, "--", "eval", "--checkpoint", self.folder / "none", "--data", "x")
        self.assertEqual(done.returncode, 3, done.stderr)
        for code in (75, 137):
            done = program.run("launch", "-n", 2, "--", "eval", *checkpoint, "--data", "x", environment=self.play(f"exit {code}"))
            self.assertEqual((done.returncode, self.attempts()), (code, 1), done.stderr)
            (self.folder / "arguments-1").unlink()
        self.assertEqual(done.stderr, "launch: eval ended: a rank was killed (SIGKILL) (code 137)\n")

    def test_an_attempt_that_saved_is_progress(self):
        save = f"mkdir -p run/checkpoints/step-0000000$N; touch run/checkpoints/step-0000000$N/manifest.json; exit 75"
        said = self.assert_end(save, 75, 6, launch=("--restarts", 5, "--backoff", 60))
        self.assertIn("attempt 6 begins now", said)
        self.assertIn("no restart is left of 5", said)

    def test_the_cause_is_told_in_words(self):
        for line, cause in (("mpirun noticed that process rank 3 with PID 0 on node a exited on signal 11 (Segmentation fault).",
                             "rank 3 ended by SIGSEGV"),
                            ("error: [comm] rank 1: rank 0 is silent", r"\[comm\] rank 1: rank 0 is silent"),
                            ("  Process name: [[1,1],2]\n  Exit code:    75", "rank 2 ended with code 75"),
                            ("srun: error: node2: task 3: Killed", "rank 3 on node2: Killed"),
                            ("nothing", "a rank ended with code 75")):
            self.assertRegex(self.assert_end(f'echo "{line}" >&2; exit 75', 75, 1, launch=("--restarts", 0)),
                             f"attempt 1 ended: {cause} ")
        for code, cause in ((139, "a rank ended by SIGSEGV"), (213, "a rank ended with code 213")):
            self.assertIn(f"attempt 1 ended: {cause} ", self.assert_end(f"exit {code}", 75, 1, launch=("--restarts", 0)))

    def test_what_mpirun_says_about_the_end_is_one_line(self):
        noticed = "mpirun noticed that process rank 1 with PID 0 on node a exited on signal 9 (Killed)."
        rule = "-" * 74
        said = self.assert_end(f"""printf -- '{rule}\\nPrimary job  terminated normally, but 1 process returned\\na non-zero exit code.\\n{rule}\\n' >&2
echo 'error: [watchdog] rank 1 is gone' >&2
printf -- '{rule}\\n{noticed}\\n{rule}\\n' >&2; exit 137""", 75, 1, launch=("--restarts", 0))
        self.assertEqual(said, f"error: [watchdog] rank 1 is gone\n{noticed}\n"
                         "launch: attempt 1 ended: rank 1 was killed (SIGKILL) (code 137); no restart is left of 0\n")

    def test_what_the_ranks_are_handed(self):
        # As some clouds set them, or as they are left over; and those of a shell in a step of Slurm.
        alone, place = {"RANK": "1", "WORLD_SIZE": "4", "SLURM_STEP_ID": "0"}, {"MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
        task = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4"}
        environment = {"LTRAIN_FAULT": "forward:0:1:sleep", "LTRAIN_TRAIN_STEPS": "7", **alone, **place, **task, **self.play("exit 75")}
        variables = program.clean_environment(environment)
        subprocess.run(self.command(launch=("--restarts", 1)), env=variables, capture_output=True, timeout=DEADLINE)
        first, second = self.environment(1), self.environment(2)
        self.assertEqual(first["LTRAIN_FAULT"], "forward:0:1:sleep")
        self.assertNotIn("LTRAIN_FAULT", second)
        self.assertEqual(set(alone) & set(first), set())
        self.assertLessEqual(place.items(), first.items())  # where ranks meet that srun started
        for name in ("LTRAIN_TOKEN", "LTRAIN_TRAIN_STEPS", "OMP_NUM_THREADS"):
            self.assertIn(f"-x {name} ", self.arguments(1))
        self.assertRegex(first["LTRAIN_TOKEN"], "^[0-9a-f]{32}$")
        self.assertNotEqual(first["LTRAIN_TOKEN"], second["LTRAIN_TOKEN"])
        self.assertNotIn(first["LTRAIN_TOKEN"], self.arguments(1))
        self.assertIn('"attempt":2', second["LTRAIN_RESTART"])

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_mpirun_has_a_home_folder(self):
        environment = program.clean_environment(self.play("exit 0"))
        del environment["HOME"]
        self.folder.chmod(0o777)
        for attempt, user, home in ((1, 0, None), (2, 54321, "/")):  # one that getpwuid() knows, and one that it does not
            done = subprocess.run(self.command(), env=environment, capture_output=True, text=True, timeout=DEADLINE,
                                  user=user, group=user, extra_groups=[])
            self.assertEqual((done.returncode, self.environment(attempt).get("HOME")), (0, home), done.stderr)

    def test_srun_gets_the_cores_of_a_rank_that_the_job_has(self):
        environment = {**self.play(""), "SLURM_JOB_ID": "1", "SLURM_CPUS_PER_TASK": "16"}
        self.write("bin/srun", f'#!/bin/bash\necho "$*" > {self.folder}/srun\n').chmod(0o755)
        done = self.launch(environment=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("-n 2 --kill-on-bad-exit=0 --wait=60 --mpi=pmix --cpus-per-task=16 ", (self.folder / "srun").read_text())

    def test_later_attempts_go_on_where_earlier_ones_came_to(self):
        begin, save = "mkdir -p run; touch run/metrics.jsonl; ", "mkdir -p run/checkpoints/step-00000001; touch run/checkpoints/step-00000001/manifest.json; "
        begun_from = begin + """mkdir -p from; touch from/manifest.json; echo '{"id":"a","folder":"'$PWD/run'","begun_from":"'$PWD/from'"}' > run/run.json; """
        auto, anew = "--checkpoint.resume=auto", "--run.force=true"
        for resume, script, added in (("never", "", None), ("never", begin, auto), ("elsewhere", "", None),
                                      ("elsewhere", begin, anew), ("elsewhere", begun_from, auto), ("elsewhere", begun_from + "rm from/manifest.json; ", anew),
                                      ("elsewhere", begin + save, auto), ("auto", begin, None)):
            subprocess.run(["rm", "-rf", self.folder / "run"], check=True)
            self.assert_end(script + "exit 75", 75, 2, f"--checkpoint.resume={resume}", launch=("--restarts", 1, "--backoff", 0))
            self.assertTrue(self.arguments(1).endswith(f"--checkpoint.resume={resume}\n"))
            self.assertTrue(self.arguments(2).endswith(f"{added or '--checkpoint.resume=' + resume}\n"), (resume, self.arguments(2)))
        subprocess.run(["rm", "-rf", self.folder / "run"], check=True)
        self.assert_end(begin + "exit 75", 75, 2, "--checkpoint.resume=never", "--", launch=("--restarts", 1, "--backoff", 0))
        self.assertTrue(self.arguments(2).endswith(f"--checkpoint.resume=never {auto} --\n"), self.arguments(2))

    def test_ranks_that_do_not_save_in_time_are_killed(self):
        script = f"trap '' USR1 TERM; touch {self.folder}/begun; while true; do sleep 0.05; done"
        with self.launched(environment=self.play(script), launch=("--grace", 0.2)) as supervisor:
            wait_until((self.folder / "begun").exists, "the start")
            supervisor.terminate()
            self.assertEqual(supervisor.wait(DEADLINE), 75)
        self.assertIn("launch: the ranks did not save within 0.2 s and were killed\n", self.output())

    def test_a_restart_finds_a_program_that_was_replaced(self):
        copy = self.folder / "ltrain"
        shutil.copy(program.ltrain(), copy)
        command = [str(copy), *self.command(launch=("--restarts", 1))[1:]]
        replace = "[ $N -eq 1 ] && cp ltrain new && mv new ltrain; exit 75"
        subprocess.run(command, env=program.clean_environment(self.play(replace)), capture_output=True, timeout=DEADLINE)
        self.assertIn(f" {copy} train ", self.arguments(2))

    def test_ranks_go_on_where_nobody_reads_their_output(self):
        with subprocess.Popen(self.command("--train.steps=300", "--record.every=1"), env=program.clean_environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            process.stdout.close()
            errors = process.stderr.read()
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("launch: nobody reads the standard output any more", errors)
        self.assertIn("step   300/300", (self.folder / "run/log.txt").read_text())

    def test_a_restart_that_did_no_step_is_written_down_too(self):
        self.assert_end('mkdir -p run; [ $N -eq 1 ] && echo \'{"step":3}\' > run/metrics.jsonl; exit 75', 75, 2,
                        launch=("--restarts", 1))
        row = self.lines()[-1]
        self.assertEqual((row["event"], row["attempt"], row["step"], row["lost_steps"]), ("restart", 2, None, None))

    def test_a_restart_that_did_a_step_is_left_to_its_ranks(self):
        """The restart event may be lost on a full disk, or be in a newer and longer file."""
        begin = 'mkdir -p run; [ $N -eq 1 ] && echo \'{"event":"start","step":0}\' > run/metrics.jsonl; '
        lost = begin + '[ $N -eq 2 ] && echo \'{"step":1}\' >> run/metrics.jsonl; exit 75'
        moved = begin + ('[ $N -eq 2 ] && mv run aside && mkdir run && echo \'{"event":"restart","attempt":2,"step":0}\' '
                         '> run/metrics.jsonl && echo \'{"step":1}\' >> run/metrics.jsonl; exit 75')
        for script, expected in ((lost, 0), (moved, 1)):
            with self.subTest(script):
                subprocess.run(["rm", "-rf", self.folder / "run", self.folder / "aside"], check=True)
                self.assert_end(script, 75, 2, launch=("--restarts", 1))
                self.assertEqual(len([row for row in self.lines() if row.get("event") == "restart"]), expected)

    def test_a_signal_reaches_the_ranks_and_ends_the_restarts(self):
        for sent in (signal.SIGINT, signal.SIGTERM):
            environment = self.play("trap '' USR1; touch ready; sleep 0.1; "  # a launcher that has no ranks yet
                                    "trap 'touch saved; exit 75' USR1; while :; do sleep 0.01; done")
            with self.launched(environment=environment) as supervisor:
                wait_until((self.folder / "ready").exists, "the start")
                supervisor.send_signal(sent)
                self.assertEqual(supervisor.wait(DEADLINE), 75, self.output())
            self.assertEqual((self.attempts(), (self.folder / "saved").exists()), (1, True))
            for name in ("ready", "saved", "arguments-1"):
                (self.folder / name).unlink()

    def test_ranks_that_do_not_save_are_killed(self):
        hard = "trap '' TERM; "
        for signals, launch, script, code in (((signal.SIGINT, signal.SIGINT), (), "", 130),
                                              ((signal.SIGTERM, signal.SIGTERM), (), hard, 75),
                                              ((signal.SIGTERM,), ("--grace", 0.1), "", 75)):
            environment = self.play(script + "trap 'touch asked' USR1; touch ready; while :; do sleep 0.01; done")
            with self.launched(environment=environment, launch=launch) as supervisor:
                wait_until((self.folder / "ready").exists, "the start")
                for sent in signals:
                    supervisor.send_signal(sent)
                    wait_until((self.folder / "asked").exists, "the signal")
                self.assertEqual(supervisor.wait(DEADLINE), code, self.output())
            self.assertEqual(self.attempts(), 1)
            for name in ("ready", "asked", "arguments-1"):
                (self.folder / name).unlink()

    def test_a_careless_parent_is_no_fault(self):
        """The parent never reads standard error, and it ignores SIGCHLD or has closed standard descriptors."""
        unread, stderr = os.pipe()
        self.addCleanup(os.close, unread)
        self.addCleanup(os.close, stderr)
        environment = program.clean_environment(self.play(
            "echo said || exit 9; readlink /proc/$$/fd/{3..99} > descriptors; head -c 3000000 /dev/zero >&2; exit 3"))
        for prepare in (lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN), program.closing((2,)), program.closing((0, 1, 2))):
            done = subprocess.run(self.command(), env=environment, stderr=stderr, preexec_fn=prepare, timeout=DEADLINE)
            self.assertEqual((done.returncode, self.attempts()), (3, 1))
            self.assertNotIn("/dev/null", (self.folder / "descriptors").read_text())
            (self.folder / "arguments-1").unlink()

    def test_fewer_ranks_where_a_host_is_gone(self):
        hosts = self.write("hosts", "localhost slots=2\nthere slots = 2  # comment\ngone slots=4\n")
        agent = self.write("agent", "#!/bin/sh\n[ $1 = there ]\n")
        agent.chmod(0o755)
        environment = {"OMPI_MCA_plm_rsh_agent": str(agent), **self.play("exit 75")}
        done = self.launch("--train.accum=3", ranks=8, environment=environment,
                           launch=("--restarts", 1, "--hostfile", hosts, "--min-ranks", 3))
        self.assertEqual(done.returncode, 75)
        self.assertIn("2 of 3 hosts answer: 4 ranks, the same global batch of 48\n", done.stderr)
        self.assertIn(f"-n 8 --bind-to none --mca odls_base_sigkill_timeout 1 --hostfile {hosts} ", self.arguments(1))
        self.assertIn("-n 4 ", self.arguments(2))
        self.assertNotIn(str(hosts), self.arguments(2))
        self.assertTrue(self.arguments(2).endswith("--train.global_batch=48 --train.accum=1\n"))
        sharded = self.launch("--train.accum=3", "--parallel.shard_size=4", "--parallel.strategy=zero3", ranks=8, run="sharded",
                              environment={**environment, "OMPI_MCA_plm_rsh_agent": str(agent)},
                              launch=("--restarts", 1, "--hostfile", self.write("hosts-3", "localhost slots=1\nthere slots=5\ngone slots=2\n"),
                                      "--min-ranks", 3))
        self.assertIn("2 of 3 hosts answer: 4 ranks, the same global batch of 48\n", sharded.stderr)
        spare = self.write("hosts-2", "localhost slots=2\nthere slots=6\ngone slots=8\n")
        done = self.launch(ranks=8, run="spare", environment=environment,
                           launch=("--restarts", 1, "--hostfile", spare, "--min-ranks", 8))
        self.assertIn("2 of 3 hosts answer: they have slots for 8 ranks\n", done.stderr)
        self.assertNotIn(str(spare), self.arguments(self.attempts()))
        done = self.launch(ranks=8, environment=environment, launch=("--restarts", 1, "--hostfile", hosts, "--min-ranks", 5))
        self.assertEqual((done.returncode, self.attempts()), (75, 7))
        self.assertIn("the hosts that answer have slots for 4 ranks, expected 5 or more", done.stderr)

    NOTICED = 'echo "mpirun noticed that process rank {} with PID 0 on node a exited on signal 9 (Killed)." >&2; exit 137'
    SAVE = "mkdir -p run/checkpoints/step-0000000$N; touch run/checkpoints/step-0000000$N/manifest.json; "

    def said(self, *options, script, environment=None, code=75, **settings):
        """The lines of the supervisor about what is left out."""
        for file in self.folder.glob("arguments-*"):
            file.unlink()
        done = self.launch(*options, environment={**(environment or {}), **self.play(script)}, **settings)
        self.assertEqual(done.returncode, code, done.stderr)
        return [line.removeprefix("launch: ") for line in done.stderr.splitlines()
                if line.startswith("launch: ") and ("without" in line or "answer" in line)]

    def test_a_rank_that_is_killed_twice_is_left_out(self):
        options = ("--train.deterministic=elastic", "--train.global_batch=8", "--optim.schedule=constant")
        with self.launched(*options, "--train.steps=1000000", "--checkpoint.every=10", ranks=4, launch=("--min-ranks", 2, "--with", "processes")) as supervisor:
            for attempt in (1, 2):
                wait_until(lambda: self.starts() == attempt and self.steps() > 20, f"twenty steps of attempt {attempt}")
                os.kill(self.ranks("RANK")[2], signal.SIGKILL)
            wait_until(lambda: self.starts() == 3 and self.steps() > 5, "steps of the third attempt")
            supervisor.terminate()
            self.assertEqual(supervisor.wait(DEADLINE), 75, self.output())
        starts = [line for line in self.lines() if line.get("event") == "start"]
        self.assertEqual([line["ranks"] for line in starts], [4, 4, 2])
        self.assertGreater(starts[2]["step"], 0)
        self.assertEqual({line["tokens"] for line in self.lines() if "loss_hex" in line}, {8 * 16})
        self.assertIn("launch: the run continues without rank 2, which failed in two attempts in a row\n"
                      "launch: without rank 2: 2 ranks, the same global batch of 8\n", self.output())
        self.trained(*options, run="whole", steps=max(line["step"] for line in self.lines() if "loss_hex" in line))
        self.assert_same_bits("run", "whole")

    def test_which_devices_are_left_on_one_host(self):
        for rank, visible, host, expected, said in (
                (1, None, None, ((4, None), (4, None), (2, "0,2,3"), (2, "0,2,3"), (2, "0,3"), (2, "0,3")),
                 ["the run continues without device 1 of rank 1, which failed in two attempts in a row",
                  "without device 1: 2 ranks, the same global batch of 8", "without device 1: 2 ranks, the same global batch of 8",
                  "the run continues without device 2 of rank 1, which failed in two attempts in a row",
                  "without device 1, device 2: 2 ranks, the same global batch of 8",
                  "without device 1, device 2: 2 ranks, the same global batch of 8"]),
                (1, "7,GPU-a,5,6,2", "localhost", ((4, None), (4, None), (4, "7,5,6,2")),
                 ["the run continues without device GPU-a of rank 1, which failed in two attempts in a row",
                  "without device GPU-a: 4 ranks"]),
                # The variable of this host says nothing about another one.
                (1, "7,GPU-a,5,6,2", "there", ((4, None), (4, None), (4, "0,2,3,4")),
                 ["the run continues without device 1 of rank 1, which failed in two attempts in a row",
                  "without device 1: 4 ranks"]),
                ("$((N % 2))", None, None, ((4, None),) * 4, [])):
            with self.subTest(rank=rank, visible=visible, host=host):
                subprocess.run(["rm", "-rf", self.folder / "run"], check=True)
                self.assertEqual(self.said("--train.device=cuda", ranks=4, script=self.SAVE + self.NOTICED.format(rank),
                                           environment={"OMPI_MCA_plm_rsh_agent": "true", **({"CUDA_VISIBLE_DEVICES": visible} if visible else {})},
                                           launch=("--restarts", len(expected) - 1, "--min-ranks", 1,
                                                   *(("--hostfile", self.write("hosts", f"{host} slots=5\n")) if host else ()))), said)
                found = [self.arguments(attempt) for attempt in range(1, len(expected) + 1)]
                devices = [re.search(" [^ ]*env CUDA_VISIBLE_DEVICES=([^ ]*) ", words) for words in found]
                self.assertEqual([(int(re.search("-n (\\d+) ", words)[1]), match and match[1]) for words, match in zip(found, devices)],
                                 list(expected))
                self.assertEqual(["--train.global_batch=8 --train.accum=1\n" in words for words in found],
                                 [count < 4 for count, _ in expected])

    def test_under_srun_no_device_is_left_out(self):
        """Each task may see a device of its own as device 0."""
        killed = self.SAVE + 'echo "srun: error: node2: task 1: Killed" >&2; exit 137'
        for device, ranks, said in (("cuda", 4, []),
                                    ("cpu", 2, ["the run continues without rank 1, which failed in two attempts in a row",
                                                "without rank 1: 2 ranks, the same global batch of 8"])):
            self.play(killed)
            shutil.copy(self.folder / "bin/mpirun", self.folder / "bin/srun")
            self.assertEqual(self.said(f"--train.device={device}", ranks=4, script=killed, environment={"SLURM_JOB_ID": "1"},
                                       launch=("--restarts", 2, "--min-ranks", 1)), said)
            self.assertTrue(self.arguments(3).startswith(f"-n {ranks} --kill-on-bad-exit=0 "))
            self.assertNotIn("CUDA_VISIBLE_DEVICES", self.arguments(3))

    def test_a_host_is_left_out_and_then_too_few_are_left(self):
        agent = self.write("agent", "#!/bin/sh\n[ $1 = there ]\n")
        agent.chmod(0o755)
        # mpirun starts the first ranks on this host, wherever it is in the file.
        hosts = self.write("hosts", "there slots=3\nlocalhost slots=3\n")
        self.assertEqual(self.said("--train.device=cpu", "--train.deterministic=elastic", ranks=4, environment={"OMPI_MCA_plm_rsh_agent": str(agent)},
                                   script=f"""{self.SAVE}
cat $(sed 's/.*--hostfile \\([^ ]*\\).*/\\1/' arguments-$N) > hosts-$N; {self.NOTICED.format("$((N < 3 ? 3 : 1))")}""",
                                   launch=("--restarts", 9, "--min-ranks", 2, "--hostfile", hosts)),
                         ["the run continues without host there of rank 3, which failed in two attempts in a row",
                          *["without host there: 2 ranks, the same global batch of 8"] * 2,
                          "attempt 4 ended: rank 1 was killed (SIGKILL) (code 137); without rank 1, which failed in two attempts in a row, "
                          "there are slots for 1 rank, expected 2 or more"])
        self.assertEqual((self.folder / "hosts-3").read_text(), "localhost slots=3\n")

    def test_fewer_ranks_of_an_elastic_run(self):
        """The launcher takes a power of two, and the batch and threads per rank of the checkpoint, which one rank saved."""
        killed = self.NOTICED.format(2)
        self.trained("--train.accum=24", run="began", steps=1, environment={"OMP_NUM_THREADS": "3"})
        begin = f"--checkpoint.resume={self.folder}/began"
        for deterministic, earlier, given, threads, ranks, batch, kept_threads in (
                ("true", None, (), "", 3, 24, ""), ("elastic", None, (), "", 2, 24, ""),
                ("elastic", None, (begin,), "", 2, 48, ""),  # the folder has no threads yet
                ("true", "--train.accum=24", (), "", 3, 24, ""), ("elastic", "--train.accum=24", (), "", 2, 48, "3"),
                ("elastic", "--train.global_batch=48", ("--train.global_batch=24",), "2", 2, 24, "2")):
            with self.subTest(deterministic=deterministic, earlier=earlier, given=given):
                options = ("--train.accum=3", f"--train.deterministic={deterministic}", "--train.device=cpu", *given)
                subprocess.run(["rm", "-rf", self.folder / "run"], check=True)
                if earlier:
                    self.trained(earlier, steps=1, environment={"OMP_NUM_THREADS": "3"})
                said = self.said(*options, ranks=4, script=killed, environment={"OMP_NUM_THREADS": threads},
                                 launch=("--restarts", 2, "--backoff", 0, "--min-ranks", 2))
                self.assertEqual(said[-1], f"without rank 2: {ranks} ranks, the same global batch of {batch}")
                self.assertIn(f"-n {ranks} ", self.arguments(3))
                self.assertTrue(self.arguments(3).endswith(f"--train.global_batch={batch} --train.accum=1\n"))
                self.assertEqual([self.environment(attempt)["OMP_NUM_THREADS"] for attempt in (1, 2, 3)], [threads, threads, kept_threads])
        elastic = ("--train.deterministic=elastic", "--train.device=cpu")
        self.assertEqual(self.said(*elastic, ranks=4, script=killed, launch=("--min-ranks", 3))[-1].split("in a row, ")[1],
                         "there are slots for 3 ranks, of which at most 2 keep the global batch of 48, expected 3 or more")
        for file in self.folder.glob("arguments-*"):
            file.unlink()
        self.assert_error(self.launch(*elastic, ranks=16, environment=self.play("exit 75")), 2, "[config] train.global_batch: expected a multiple "
                          "of 16 ranks x micro_batch 2, got 48 (from the checkpoint)",
                          "the nearest that work are 32 and 64; 48 works on 8 ranks")
        self.assertEqual(self.attempts(), 0)

    def test_what_is_refused(self):
        def refused(*arguments, code=2, error, hint=None, environment=None):
            done = program.run("launch", *arguments, environment=environment)
            self.assert_error(done, code, error, hint)

        hint = "ltrain launch -n N -- train --config FILE.toml"
        refused("-n", 2, error="[usage] expected a command after --, got none", hint=hint)
        refused("-n", 2, "--", "plan", error="[usage] expected train, sample, eval or bench after --, got plan", hint=hint)
        refused("-n", 2, "--", "bench", "compare", "a", "b", hint="start it without launch",
                error="[usage] expected a command that runs on ranks after --, got bench compare")
        for options in (("--restarts", 0), ("--backoff", 1), ("--min-ranks", 1)):
            refused("-n", 2, *options, "--", "bench", "comm",
                    error=f"[usage] {options[0]}: expected train after --, since only a training run is restarted, got bench")
        for options, expected, found in ((("sample", "--checkpoint=x", "--prompt", "-"), "--prompt TEXT", "--prompt -"),
                                         (("sample", "--checkpoint=x", "--chat", "chatml"), "--prompt TEXT", "a conversation"),
                                         (("bench", "step", "--serve"), "--iterations N", "--serve")):
            refused("-n", 2, "--", *options, error=f"[usage] {options[1] if options[0] == 'bench' else options[0]} after launch: "
                    f"expected {expected}, since ranks have no standard input, got {found}", hint="start it without launch")
        refused("--", "train", error="[usage] expected -n RANKS or --nproc-per-node RANKS_A_HOST, got neither")
        refused("-n", 3, "--nproc-per-node", 2, "--", "train", hint="one of the two is enough",
                error="[usage] -n 3 with --nproc-per-node 2: expected -n 2, for 1 host")
        refused("-n", 3, "--nproc-per-node", 2, "--hostfile", self.write("two", "a\nb\n"), "--", "train",
                error="[usage] -n 3 with --nproc-per-node 2: expected -n 4, for 2 hosts")
        refused("-n", 2, "train", "--train.steps=2", error="[usage] unknown option --train.steps",
                hint="the options: ltrain launch --help; those of train follow --")
        refused("-n", 0, "--", "train", error='[usage] --ranks: expected an integer from 1 to 2147483647, got "0"')
        refused("-n", 2, "--min-ranks", 3, "--", "train", error="[usage] --min-ranks: expected at most -n 2, got 3")
        refused("-n", 2, "--min-ranks", 1, "--with", "mpirun", "--", "train", environment={"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "3"},
                error="[usage] --min-ranks: expected one host or --hostfile, since only hosts that it lists can be left out; "
                "found a Slurm job of 3 nodes", hint="--with mpirun --hostfile FILE")
        refused("-n", 2, "--hostfile", self.folder / "none", "--", "train",
                error=f"[usage] --hostfile {self.folder}/none: expected a readable file, found: No such file or directory")
        refused("-n", 2, "--", "train", "--run.name", ":", hint="write key and value as one argument: --section.key=:",
                error="[usage] expected no argument that is a colon alone, which mpirun takes for itself")
        refused("-n", 2, "--", "train", "--train.sped=1", error="[config] unknown key train.sped (from the command line)")
        inside = program.run("launch", "-n", 2, "--", "train", ranks=2)
        self.assertIn("error: [usage] ltrain launch: expected to be started by itself, found rank 0 of Open MPI\n", inside.stderr)
        refused("-n", 2, "--", "train", environment={"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "n", "MASTER_PORT": "1"},
                error="[usage] ltrain launch: expected to be started by itself, found rank 1 of torchrun variables")

    def test_one_rank_needs_no_launcher(self):
        done = self.launch("--train.steps=2", ranks=1, environment={"PATH": str(self.folder)})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^ranks: 1 \(alone\)$")


if __name__ == "__main__":
    program.main()
