"""Configuration from all sources, tested with `ltrain train --print-config`: precedence of the layers, round trip,
errors, and one message for all ranks."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios

import program


def values(toml):
    """Parses the output of --print-config, which has sections of `key = value` lines, into {"section.key": text}."""
    found, section = {}, None
    for line in toml.splitlines():
        if line.startswith("["):
            section = line[1:-1]
        elif line:
            key, value = line.split(" = ", 1)
            found[f"{section}.{key}"] = value
    return found


class Config(program.CliTest):
    def print_config(self, *arguments, **options):
        return program.run("train", "--print-config", *arguments, **options)

    def config(self, *arguments, **options):
        done = self.print_config(*arguments, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return values(done.stdout)

    def test_layers(self):
        file = self.write("run.toml", '[train]\nsteps = 1\naccum = 1\nseed = 1\n[data]\ntrain = ["a", "b"]\n')
        environment = {"LTRAIN_TRAIN_STEPS": "2", "LTRAIN_TRAIN_ACCUM": "2", "LTRAIN_FAULT": "step:0:1:kill"}
        config = self.config("--config", file, "--train.steps=3", environment=environment)
        self.assertEqual([config["train." + key] for key in ("steps", "accum", "seed", "micro_batch")],
                         ["3", "2", "1", "8"])
        self.assertEqual(config["data.train"], '["a", "b"]')

    def test_ways_to_give_an_option(self):
        config = self.config("--train.steps=3", "--train.steps", "4", "--run.force", "--model.family=",
                             "--optim.min_lr", "-1e-3",
                             "--data.train=a,b", "--train.deterministic", "false", "--run.name=a b",
                             "--data.shuffle=false")
        self.assertEqual(config["train.steps"], "4")
        self.assertEqual(config["run.force"], "true")
        self.assertEqual(config["model.family"], '""')
        self.assertEqual(config["optim.min_lr"], "-0.001")
        self.assertEqual(config["data.train"], '["a", "b"]')
        self.assertEqual(config["train.deterministic"], '"false"')
        self.assertEqual(config["run.name"], '"a b"')
        self.assertEqual(config["data.shuffle"], "false")

    def test_short_forms(self):
        config = self.config("--parallel.strategy", "fsdp", "--model.lora.rank=16", "--model.lora.targets", "c_attn,c_proj",
                             "--data.sources=a/*.bin:0.7,b/*.bin:0.3", environment={"LTRAIN_MODEL_LORA_ALPHA": "8"})
        self.assertEqual(config["parallel.strategy"], '"zero3"')
        self.assertEqual(config["model.lora"], '{rank = 16, alpha = 8.0, targets = ["c_attn", "c_proj"]}')
        self.assertEqual(config["data.sources"],
                         '[{files = ["a/*.bin"], weight = 0.7}, {files = ["b/*.bin"], weight = 0.3}]')
        help_text = program.run("train", "--help").stdout
        for option in ("--model.lora.rank", "--model.lora.alpha", "--model.lora.targets", "(ddp, zero1, zero2, zero3, fsdp)"):
            self.assertIn(option, help_text)
        plan = program.run("plan", "--parallel.strategy=fsdp", "--ranks", "2", "--json")
        self.assertEqual(json.loads(plan.stdout)["strategy"], "zero3")
        self.assert_error(self.print_config("--lora-rank=8"), 2, "[usage] unknown option --lora-rank",
                          "did you mean --model.lora.rank?")

    def test_what_is_printed_reads_back(self):
        first = self.print_config("--optim.lr=0.1234567890123456", '--run.name=a "b" \\ c', "--data.train=x,y",
                                  "--optim.eps=1e-12")
        self.assertEqual(first.returncode, 0, first.stderr)
        again = self.print_config(f"--config={self.write('run.toml', first.stdout)}")
        self.assertEqual(again.stdout, first.stdout)

    def test_what_cannot_be_printed_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = program.run("train", "--print-config", stdout=full)
        self.assertEqual((done.returncode, done.stderr),
                         (3, "error: [output] standard output: cannot write: No space left on device\n"))

    def test_ranks_print_once(self):
        self.assertEqual(self.print_config(ranks=2).stdout, self.print_config().stdout)

    def test_errors_name_key_value_and_source(self):
        steps = "[config] train.steps: expected an integer of at least 0, got "
        self.assert_error(self.print_config("--train.steps=x"), 2, steps + '"x" (from the command line)')
        self.assert_error(self.print_config("--train.steps=x", "--train.steps=5"), 2,
                          steps + '"x" (from the command line)')
        self.assert_error(self.print_config("--train.steps", "--run.force"), 2, steps + '"" (from the command line)')
        self.assert_error(self.print_config("--train.steps=5", environment={"LTRAIN_TRAIN_STEPS": "x"}), 2,
                          steps + '"x" (from the environment variable LTRAIN_TRAIN_STEPS)')
        file = self.write("run.toml", "[train]\nsteps = 1.5\n")
        self.assert_error(self.print_config("--config", file, "--train.steps=5"), 2, steps + f"1.5 (from {file}:2)")
        self.assert_error(self.print_config("--parallel.strategy=zero4"), 2,
                          '[config] parallel.strategy: expected one of ddp, zero1, zero2, zero3, fsdp, got "zero4" '
                          "(from the command line)")

    def test_errors_of_several_keys_name_the_source(self):
        def refused(text):
            file = self.write("run.toml", text)
            return file, program.run("plan", "--config", file)

        file, done = refused("[train]\nseq = 300\n")
        self.assert_error(done, 2, f"[config] train.seq: expected at most model.max_seq 256, got 300 (from {file}:2)")
        file, done = refused("[model]\nheads = 5\n")
        self.assert_error(done, 2, f"[config] model.heads: expected a divisor of width 128, got 5 (from {file}:2)")
        file, done = refused("[optim]\nlr = 1\nmin_lr = 2\n")
        self.assert_error(done, 2, f"[config] optim.min_lr: expected at most optim.lr 1, got 2 (from {file}:3)")
        for table, key, value, rounded in (("optim", "eps", "1e-46", "0"), ("optim", "clip", "1e-50", "0"),
                                           ("train", "z_loss", "1e+39", "infinity")):
            file, done = refused(f"[{table}]\n{key} = {value}\n")
            self.assert_error(done, 2, f"[config] {table}.{key}: expected a number that f32 does not round to {rounded}, "
                              f"got {value} (from {file}:2)")
        file, done = refused("[train]\ntf32 = true\ndevice = \"cpu\"\n")
        self.assert_error(done, 2, "[config] train.tf32: expected false without train.dtype=f32 on cuda, whose matmuls it "
                          f"rounds, got true with f32 on cpu (from {file}:2)")
        file, done = refused("[parallel]\nshard_size = 2\n")
        self.assert_error(done, 2, "[config] parallel.shard_size: expected a divisor of the 1 rank, got 2 "
                          f"(from {file}:2)")

    def test_unknown_names(self):
        self.assert_error(self.print_config("--optim.lrr=1"), 2,
                          "[config] unknown key optim.lrr (from the command line)", "did you mean optim.lr?")
        self.assert_error(self.print_config("--lr=1"), 2, "[usage] unknown option --lr", "did you mean --optim.lr?")
        self.assert_error(self.print_config("--micro-batch", "1"), 2, "[usage] unknown option --micro-batch",
                          "did you mean --train.micro_batch?")
        self.assert_error(self.print_config(environment={"LTRAIN_LR": "1"}), 2,
                          "[config] unknown environment variable LTRAIN_LR", "did you mean LTRAIN_OPTIM_LR?")
        file = self.write("run.toml", "[optim]\nlr = 1\nlrr = 1\n")
        self.assert_error(self.print_config("--config", file), 2, f"[config] unknown key optim.lrr (from {file}:3)",
                          "did you mean optim.lr?")
        self.assert_error(self.print_config("extra"), 2, "[usage] expected no further argument, got extra", "ltrain train --help")
        self.assert_error(self.print_config("first.toml"), 2, "[usage] expected no further argument, got first.toml",
                          "ltrain train --config first.toml")
        self.assert_error(self.print_config("--config", file, "--config", file), 2, "[usage] --config: expected one value, got 2",
                          "ltrain train --help")
        self.assert_error(self.print_config("--config"), 2, "[usage] --config: expected a value, got none")
        self.assert_error(program.run("eval", "--checkpoint", "x", "--data", "y", "--format", "z"), 2,
                          '[usage] --format: expected one of auto,raw16, got "z"', "ltrain eval --help")
        self.assert_error(program.run("checkpoint"), 2, "[usage] expected a command, got none", "ltrain checkpoint --help")

    def test_hints_name_what_can_have_been_meant(self):
        listed = "`ltrain train --help` lists "
        file = self.write("run.toml", "[model]\ntypo = 1\n")
        self.assert_error(self.print_config("--config", file), 2, f"[config] unknown key model.typo (from {file}:2)",
                          listed + "them; the nearest is model.ffn")
        file = self.write("run.toml", "train = 5\n")
        self.assert_error(self.print_config("--config", file), 2, f"[config] unknown key train (from {file}:1)",
                          "train is a section: its keys are train.KEY, or KEY below [train]")
        self.assert_error(self.print_config("--train=5"), 2, "[usage] unknown option --train",
                          "train is a section: --train.KEY=value sets its keys")
        self.assert_error(self.print_config(environment={"LTRAIN_HOME": "x"}), 2,
                          "[config] unknown environment variable LTRAIN_HOME", listed + "the keys; the nearest is LTRAIN_OPTIM_NAME")
        self.assert_error(self.print_config(environment={"LTRAIN_TRAIN_SEDE": "1"}), 2,
                          "[config] unknown environment variable LTRAIN_TRAIN_SEDE", "did you mean LTRAIN_TRAIN_SEED?")
        self.assert_error(self.print_config(environment={"LTRAIN_TRAIN": "1"}), 2,
                          "[config] unknown environment variable LTRAIN_TRAIN", "train is a section: LTRAIN_TRAIN_KEY sets its keys")
        self.assert_error(program.run("foo"), 2, "[usage] unknown command foo", "`ltrain --help` lists them")

    def test_broken_and_missing_files(self):
        file = self.write("run.toml", "[train]\nsteps = \n")
        done = self.print_config("--config", file)
        self.assertEqual(done.returncode, 2)
        self.assertTrue(done.stderr.startswith(f"error: [config] {file}:2: "), done.stderr)
        missing = self.folder / "none.toml"
        self.assert_error(self.print_config("--config", missing), 2,
                          f"[config] {missing}: expected a readable file, found: No such file or directory")

    def test_a_table_of_algorithms_is_refused_on_processors(self):
        file = self.folder / "table.txt"
        self.assert_error(program.run("train", "--train.device=cpu", f"--train.algorithms={file}", f"--run.dir={self.folder}/run"), 2,
                          f"[config] train.algorithms: expected none on cpu, because only GPUs have tables of algorithms, got {file} "
                          "(from the command line)")

    def test_one_message_under_ranks(self):
        self.assert_error(self.print_config("--train.steps=x", ranks=3), 2,
                          '[config] train.steps: expected an integer of at least 0, got "x" (from the command line)')

    def test_help_shows_every_key_with_its_default(self):
        text = program.run("train", "--help").stdout
        for key, value in self.config().items():
            self.assertIn(f"--{key} = {value} ", text.replace("\n", " "))

    def test_help_is_as_wide_as_the_terminal(self):
        def shown(columns):
            reader, terminal = pty.openpty()
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
            with subprocess.Popen([program.ltrain(), "plan", "--help"], stdout=terminal, env=program.clean_environment()):
                os.close(terminal)
                text = b""
                try:
                    while part := os.read(reader, 4096):
                        text += part
                except OSError:  # how Linux ends the output of a terminal
                    pass
            os.close(reader)
            return text.decode().replace("\r\n", "\n")

        whole = program.run("plan", "--help").stdout
        self.assertIn("--memory BYTES                    memory per rank for --fit and --nodes, with a unit, as in 80GiB; default", whole)
        for columns, most in ((80, 80), (200, 120)):
            text = shown(columns)
            self.assertLessEqual(max(map(len, text.splitlines())), most)
            self.assertEqual(text.split(), whole.split())
        self.assertIn("--nodes, with\n" + " " * 36 + "a unit, as in 80GiB; default", shown(80))
        self.assertEqual(shown(0), whole)


if __name__ == "__main__":
    program.main()
