"""The commands that use a trained run: sample, eval, report and checkpoint."""

import gzip
import json
import math
import os
import pty
import shutil
import struct
import subprocess

import program
from training import LAYERS, TrainingTest


class Commands(TrainingTest):
    def test_sample_eval_report_and_checkpoint_commands(self):
        self.trained("--optim.lr=0.01", steps=40, ranks=2)
        run = self.folder / "run"
        greedy = [program.run("sample", "--checkpoint", run, "--prompt", "The qui", "--tokens", 12, "--temperature", 0)
                  for _ in range(2)]
        self.assertEqual((greedy[0].returncode, greedy[0].stdout), (0, greedy[1].stdout))
        self.assertTrue(greedy[0].stdout.startswith("The qui") and len(greedy[0].stdout) == 7 + 12 + 1)
        self.assertRegex(greedy[0].stderr, r"^prefill 7 tokens, \d+ tokens/s; decode 11 tokens, \d+ tokens/s\n"
                                           r"memory peak \d+ bytes on cpu\n$")
        several = program.run("sample", "--checkpoint", run, "--prompt", "The qui", "--prompt", "x", "--n", 2, "--tokens", 12,
                              "--temperature", 0)
        texts = several.stdout.split("\n\x1e\n")
        self.assertEqual((len(texts), texts[0], texts[1] + "\n"), (4, texts[1], greedy[0].stdout), several.stderr)
        self.assertRegex(several.stderr, "^prefill 8 tokens, ")  # each prompt once
        end = greedy[0].stdout[12:14]
        stopped = program.run("sample", "--checkpoint", run, "--prompt", "The qui", "--tokens", 12, "--temperature", 0,
                              "--stop", "never", "--stop", end)
        self.assertEqual(stopped.stdout, "The qui" + greedy[0].stdout[7:].split(end)[0] + "\n")
        dashed = program.run("sample", "--checkpoint", run, "--prompt", "[The, qui]", "--prompt", "--- qui", "--tokens", 12,
                             "--temperature", 0, "--stop", "[o]")
        self.assertEqual([text[:7] for text in dashed.stdout.split("\n\x1e\n")], ["[The, q", "--- qui"], dashed.stderr)
        self.assertTrue(dashed.stdout.startswith("[The, qui]"), dashed.stdout)
        planned = program.run("plan", "--sample", "--json", "--config", run / "config.toml", "--train.seq=7")
        self.assertIn(f"memory peak {json.loads(planned.stdout)['peak_bytes']} bytes", greedy[0].stderr)
        self.check_conversation(run)
        # Position 256 is the last, so of a longer prompt half as much is read.
        # A path of any bytes is no obstacle.
        odd = (self.folder / "run/config.toml").rename(self.folder / "c\udcff.toml")
        apart = f"--checkpoint.dir={self.folder}/odd/checkpoints"
        self.assertEqual(self.train("--config", odd, apart, run="odd", steps=1).returncode, 0)
        odd.rename(self.folder / "run/config.toml")
        cut = program.run("sample", "--checkpoint", run, "--prompt", "x", "--prompt", "ab" * 150, "--tokens", 1)
        self.assertTrue(cut.stderr.startswith("warning: [sample] prompt 2: 300 tokens, model.max_seq is 256: the first 172 are cut, the "
                                              "model reads the last 128\nprefill 129 tokens"), cut.stderr)
        for option, value, expected in (("--stop", "", 'a text, got ""'), ("--min-p", 2, 'a number from 0 to 1, got "2"'),
                                        ("--n", 0, 'an integer from 1 to 2147483647, got "0"'),
                                        ("--seed", -1, 'an integer from 0 to 9223372036854775807, got "-1"')):
            self.assert_error(program.run("sample", "--checkpoint", run, "--prompt", "x", option, value), 2,
                              f"[usage] {option}: expected {expected}")
        long = program.run("sample", "--checkpoint", run, "--prompt", "x", "--tokens", 700, "--top-k", 3, "--top-p", 0.9)
        self.assertEqual((long.returncode, len(long.stdout)), (0, 1 + 700 + 1), long.stderr)

        self.check_sampling(run)
        val = self.folder / "data/val.bin"
        evaluated = program.run("eval", "--checkpoint", run, "--data", val)
        self.assertRegex(evaluated.stdout, r"^loss \d\.\d{6}\nperplexity [\d.]+\nbits_per_byte [\d.]+\n")
        last = program.run("eval", "--checkpoint", run / "checkpoints/step-00000040", "--data", val, "--seq", 16)
        self.assertEqual(last.stdout, evaluated.stdout)
        shared = program.run("eval", "--checkpoint", run, "--data", val, ranks=2)
        self.assertEqual(shared.stdout, evaluated.stdout)
        self.check_folders(run, val, evaluated.stdout)
        self.check_choices(run)
        questions = self.write("questions.jsonl", '{"question": "The qui", "choices": ["ck", "\\u00e9\\u00e9"], "answer": 0}\n\n'
                               '{"question": "x", "choices": ["ck", "\\u00e9\\u00e9"], "answer": 1}\n')
        chosen = program.run("eval", "--checkpoint", run, "--choices", questions)
        self.assertRegex(chosen.stdout, r"^accuracy 0\.5000\naccuracy_per_byte 0\.5000\nquestions 2, checkpoint ")
        self.assertEqual(program.run("eval", "--checkpoint", run, "--choices", questions, ranks=2).stdout, chosen.stdout)
        zipped = self.write("questions.jsonl.gz", gzip.compress(questions.read_bytes()))
        self.assertEqual(program.run("eval", "--checkpoint", run, "--choices", zipped).stdout, chosen.stdout)
        wrong = self.write("wrong.jsonl", '{"question": "x", "choices": ["a"], "answer": 1}\n')
        self.assert_error(program.run("eval", "--checkpoint", run, "--choices", wrong), 3,
                          f'[data] {wrong}:1: field "answer": expected an index of choices, 0 to 0, found 1')
        empty = self.write("empty.jsonl", '{"question": "", "choices": ["ck"], "answer": 0}\n')
        self.assert_error(program.run("eval", "--checkpoint", run, "--choices", empty), 3, f"[data] {empty}:1: expected a question and "
                          "a choice of at least 1 token each, in all at most 257, found 0 and 2")
        self.assert_error(program.run("eval", "--checkpoint", run), 2,
                          "[usage] expected --data FILE... or --choices FILE.jsonl, got neither")
        short = self.write("short.bin", val.read_bytes()[:8] + bytes([3]) + bytes(1015) + b"a\0b\0c\0")
        self.assert_error(program.run("eval", "--checkpoint", run, "--data", short), 3,
                          f"[data] --data {short}: expected at least 17 tokens (one sequence of 16 and the token after it), "
                          "found 3", "a shorter seq, or more data")

        self.assertRegex(program.run("checkpoint", "list", run).stdout, r"step-00000040  valid\n$")
        self.assertIn("head.norm.weight", program.run("checkpoint", "inspect", run).stdout)
        self.assertEqual(program.run("checkpoint", "verify", run).returncode, 0)
        self.assertEqual(program.run("checkpoint", "export", run, "--out", self.folder / "hf").returncode, 0)
        self.assertTrue((self.folder / "hf/model.safetensors").exists())
        self.check_consoles(run)
        self.check_long_names(run)
        self.check_not_finite(self.folder / "hf", val)
        self.assert_error(program.run("checkpoint", "export", run, "--out", self.folder / "hf"), 3,
                          f"[checkpoint] {self.folder}/hf: expected a new name or an empty folder, found a folder that holds files",
                          "choose another --out, or remove its contents")
        for command in ("list", "verify"):
            self.assert_error(program.run("checkpoint", command, self.folder / "nosuch"), 3,
                              f"[checkpoint] {self.folder}/nosuch: no such file or folder")
        self.assert_error(program.run("sample", "--checkpoint", run, "--prompt", "x", "--top-p", 0), 2,
                          '[usage] --top-p: expected a number above 0 and at most 1, got "0"')
        self.assertEqual(program.run("report", run).returncode, 0)
        self.assertIn("<svg", (run / "report.html").read_text())

        shard = run / "checkpoints/step-00000040/rank-00001.h5"
        shard.write_bytes(shard.read_bytes()[:-1])
        broken = program.run("checkpoint", "verify", run)
        self.assertEqual(broken.returncode, 3)
        self.assertIn("rank-00001.h5", broken.stdout)
        self.assertEqual(broken.stderr, f"error: [checkpoint] {run}: expected every byte as it was written, found 1 problem\n")
        self.assertEqual(program.run("eval", "--checkpoint", run, "--data", val).returncode, 3)

    def test_a_terminal_shows_progress_in_place_and_nothing_else_does(self):
        self.trained(steps=1)
        header, data = (self.folder / "data/train.bin").read_bytes()[:1024], (self.folder / "data/train.bin").read_bytes()[1024:]
        tokens = len(data) // 2 * 20000  # takes minutes
        long = self.write("long.bin", header[:8] + struct.pack("<i", tokens) + header[12:] + data * 20000)
        line = '{"question": "The qui", "choices": ["ck", "x"], "answer": 0}\n'
        choices = self.write("long.jsonl", line * 200000)
        evaluate = (program.ltrain(), "eval", self.folder / "run")
        quiet = program.started(*evaluate[1:], "--data", long)
        self.addCleanup(quiet.communicate)
        self.addCleanup(quiet.kill)
        for option, file, unit in (("--data", long, "tokens"), ("--choices", choices, "questions")):
            shown, terminal = pty.openpty()
            with subprocess.Popen([str(part) for part in (*evaluate, option, file)], env=program.clean_environment(),
                                  stdout=subprocess.PIPE, stderr=terminal) as process:
                os.close(terminal)
                text = b""
                while text.count(b"left") < 2:  # in the third second and the next
                    text += os.read(shown, 4096)
                process.terminate()
                self.assertEqual(process.stdout.read(), b"")
            os.close(shown)
            lines = text.decode().split("\r\x1b[K")
            self.assertEqual((len(lines), lines[0]), (3, ""), lines)
            for each in lines[1:]:
                self.assertRegex(each, rf"^eval: [\d.]+[kMG]? {unit}, [\d.]+[kMG]? {unit}/s, \d+%, \S+ left$")
        self.assertIsNone(quiet.poll())
        quiet.kill()
        self.assertEqual(quiet.communicate(), ("", ""))

    def check_folders(self, run, val, told):
        """The folder is an argument, in any place, or --checkpoint, but not both."""
        for folder in (run, run / "checkpoints", run / "checkpoints/step-00000040"):
            self.assertEqual(program.run("eval", folder, "--data", val).stdout, told)
            for command in ("list", "inspect", "verify"):
                self.assertEqual(program.run("checkpoint", command, folder).returncode, 0, (command, folder))
        self.assertEqual(program.run("eval", "--data", val, run).stdout, told)
        sample = program.run("sample", run, "--prompt", "x", "--tokens", 1, "--temperature", 0)
        self.assertEqual((sample.returncode, len(sample.stdout)), (0, 3), sample.stderr)
        for command in (("sample", "--prompt", "x"), ("eval", "--data", val)):
            hint = f"ltrain {command[0]} --help"
            self.assert_error(program.run(*command), 2, "[usage] expected DIR, as an argument or by --checkpoint, got none", hint)
            self.assert_error(program.run(*command, "--checkpoint"), 2, "[usage] --checkpoint: expected a value, got none", hint)
            help_text = program.run(command[0], "--help").stdout
            self.assertRegex(help_text, r"(?m)^  DIR \(required\) +a checkpoint, ")
            self.assertRegex(help_text, r"(?m)^  --checkpoint DIR +the same as the argument DIR$")
            self.assert_error(program.run(*command[:1], run, *command[1:], "--checkpoint", run), 2,
                              "[usage] --checkpoint: expected one value, got 2", hint)
            self.assert_error(program.run(*command, "--checkpoint", run, run), 2,
                              f"[usage] expected no further argument, got {run}", hint)

    def check_consoles(self, run):
        """A console that cannot be written to ends no command whose result is in files."""
        weights = (self.folder / "hf/model.safetensors").read_bytes()
        unread, pipe = os.pipe()
        os.close(unread)
        with open("/dev/full", "w") as full, open(pipe, "w") as broken:
            for name, console in (("full", {"stdout": full, "stderr": full}), ("closed", {"closed": (0, 1, 2)})):
                hf, imported, result = (self.folder / f"{name}-{kind}" for kind in ("hf", "imported", "b.json"))
                for command in (("checkpoint", "export", run, "--out", hf), ("checkpoint", "import", hf, "--out", imported),
                                ("bench", "step", *LAYERS, "--train.micro_batch=1", "--warmup=0", "--iterations=1", "--out", result),
                                ("report", run)):
                    self.assertEqual(program.run(*command, **console).returncode, 0, (name, command))
                self.assertEqual((hf / "model.safetensors").read_bytes(), weights)
                self.assertEqual(program.run("checkpoint", "verify", imported).returncode, 0)
                self.assertEqual(len(json.loads(result.read_text())["rows"]), 1)
            self.assertEqual(program.run("report", run, stdout=broken, stderr=broken).returncode, 0)
            for command, console in ((("sample", "--checkpoint", run, "--prompt", "x", "--tokens", 1), {"closed": (1,)}),
                                     (("plan", *LAYERS, "--json"), {"closed": (1,)}),
                                     (("eval", "--checkpoint", run, "--data", self.folder / "data/val.bin"), {"closed": (1,)}),
                                     (("checkpoint", "list", run), {"closed": (1,)}), (("checkpoint", "inspect", run), {"stdout": full}),
                                     (("bench", "compare", result, result), {"stdout": full})):
                done = program.run(*command, **console)
                self.assertEqual(done.returncode, 3, (command, done.stderr))
                self.assertIn("error: [output] standard output: cannot write: ", done.stderr)

    def check_long_names(self, run):
        """What is written beside a file or folder for a while has no longer name than the file system allows."""
        hf, page = self.folder / ("\u00e9" * 127 + "x"), self.folder / ("x" * 250 + ".html")
        self.assertEqual(program.run("checkpoint", "export", run, "--out", hf).returncode, 0)
        self.assertEqual((hf / "model.safetensors").read_bytes(), (self.folder / "hf/model.safetensors").read_bytes())
        self.assertEqual(program.run("checkpoint", "import", hf, "--out", self.folder / ("y" * 255)).returncode, 0)
        for follow in ((), ("--follow",)):
            done = program.run("report", *follow, run, "--out", page)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual({path.name for path in self.folder.glob("x*")}, {page.name, "x" * 250 + ".md", "x" * 247 + ".live.js"})

    def check_not_finite(self, hf, val):
        """Weights that are not numbers give no text and no loss, and an exit code that says so."""
        bad = self.folder / "bad"
        shutil.copytree(hf, bad)
        weights = bytearray((bad / "model.safetensors").read_bytes())
        length, = struct.unpack("<Q", weights[:8])
        begin, end = json.loads(weights[8:8 + length])["transformer.ln_f.weight"]["data_offsets"]
        weights[8 + length + begin:8 + length + end] = struct.pack("<f", math.nan) * ((end - begin) // 4)
        (bad / "model.safetensors").write_bytes(weights)
        self.assertEqual(program.run("checkpoint", "import", bad, "--out", self.folder / "nan").returncode, 0)
        model = ("--checkpoint", self.folder / "nan", "--tokenizer", "byte")
        evaluated = program.run("eval", *model, "--data", val, "--seq", 16, ranks=2)
        self.assertEqual(evaluated.returncode, 5, evaluated.stderr)
        self.assertRegex(evaluated.stdout, "^loss -?nan\n")
        self.assertEqual(evaluated.stderr.count("error: [train] rank 0: eval: loss: expected a finite number, got nan\n"), 1)
        questions = self.write("nan.jsonl", '{"question": "The qui", "choices": ["ck", "x"], "answer": 0}\n')
        self.assert_error(program.run("eval", *model, "--choices", questions), 5, f'[train] {questions}:1: expected a finite '
                          'log-probability of the choice "ck", got nan')
        sampled = program.run("sample", *model, "--prompt", "The qui", "--tokens", 12)
        self.assertEqual((sampled.returncode, sampled.stdout), (5, "The qui"))
        self.assertTrue(sampled.stderr.startswith("error: [train] sample: row 0: expected a finite logit after 7 tokens, found none\n"))

    def check_sampling(self, run):
        """A text follows from the seed, and each limit to the likeliest token alone gives the greedy one."""
        def sampled(*options):
            done = program.run("sample", "--checkpoint", run, "--prompt", "x", "--tokens", 60, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        greedy, hot = sampled("--temperature", 0), ("--temperature", 2)
        for option, value in (("--top-k", 1), ("--min-p", 1), ("--top-p", 1e-9)):
            self.assertEqual(sampled(*hot, option, value), greedy, option)
        by_seed = [sampled(*hot, "--seed", seed) for seed in (7, 8)]
        self.assertEqual(sampled(*hot, "--seed", 7), by_seed[0])
        self.assertEqual(len({*by_seed, greedy}), 3)
        self.assertEqual(sampled(*hot), sampled(*hot, "--seed", 1337))

    def check_choices(self, run):
        """The choice is the likeliest, by its sum and by its mean over the bytes."""
        def accuracies(name, *rows):
            lines = (json.dumps(dict(zip(("question", "choices", "answer"), row))) for row in rows)
            done = program.run("eval", "--checkpoint", run, "--choices", self.write(name, "\n".join(lines)))
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.splitlines()[:2]

        right = (("The qui", ["ck", "zz"], 0), ("The quick brown f", ["dg", "ox"], 1),
                 ("jumps over ", ["gyl", "zyx", "the"], 2))
        self.assertEqual(accuracies("right.jsonl", *right), ["accuracy 1.0000", "accuracy_per_byte 1.0000"])
        swapped = ((question, choices, 0 if answer else 1) for question, choices, answer in right)
        self.assertEqual(accuracies("swapped.jsonl", *swapped), ["accuracy 0.0000", "accuracy_per_byte 0.0000"])
        # A begin of a choice is likelier than all of it. What follows an unlikely byte here raises the mean.
        begin = (("The qui", ["T", "The quick brown fox"], 0), ("The qui", ["The quick brown fox", "T"], 1))
        self.assertEqual(accuracies("begin.jsonl", *begin), ["accuracy 1.0000", "accuracy_per_byte 0.0000"])

    def check_conversation(self, run):
        """A conversation gives the answers that its text gives, turn by turn."""
        greedy = ("sample", "--checkpoint", run, "--temperature", 0, "--tokens", 20)
        done = subprocess.run([program.ltrain(), *map(str, greedy), "--chat", "plain"], input="The qui\n\r\nbrown\r\n",
                              env=program.clean_environment(), capture_output=True, text=True)
        answers = done.stdout.split("\n")
        self.assertEqual((done.returncode, len(answers)), (0, 3), done.stderr)
        text = ""
        for line, answer in zip(("The qui", "brown"), answers):
            text += f"user: {line}\nassistant: "
            self.assertEqual(program.run(*greedy, "--prompt", text, "--stop", "\n").stdout, f"{text}{answer}\n")
            text += answer + "\n"
        one = program.run(*greedy, "--chat", "plain", "--prompt", "The qui")
        self.assertEqual(one.stdout, f"The qui\n{answers[0]}\n")
        self.assert_error(program.run("sample", "--checkpoint", run), 2, "[usage] --prompt: expected a value, got none")
        self.assert_error(program.run(*greedy, "--prompt", "-", "--prompt", "x"), 2,
                          "[usage] --prompt -: expected it alone, got it with other prompts")
        self.assert_error(program.run(*greedy, "--chat", "plain", "--n", 2), 2,
                          "[usage] --n: expected 1 in a conversation, got 2")


if __name__ == "__main__":
    program.main()
