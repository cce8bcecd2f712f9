"""Runs all commands of README.md and of the tutorials in order, as a reader does, in a copy of the source tree, and
compares the output that the pages show with what is printed. The program is the one of the build under test."""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

import page_commands

SOURCE = page_commands.SOURCE
sys.path += [str(SOURCE / folder) for folder in ("tests/install", "tests/cli")]
from commands import main, options, output
from program import clean_environment
from style import FOLDERS
from tokenizers_test import byte_level

KILL_A_RANK = """for rank in /proc/[0-9]*; do
  if [ "$(readlink $rank/cwd)" = "$PWD" ] && tr '\\0' ' ' < $rank/cmdline | grep -q '^[^ ]*ltrain train --config gpt2.toml'; then
    kill -9 ${rank#/proc/}
    break
  fi
done"""
CORPUS = "$(find libtrain base checkpoints -name '*.cpp' | sort)"  # in place of texts that are a package
# (page, text of its commands, what runs in its place, why). Each text must occur.
SUBSTITUTIONS = [
    ("README.md", "bash launch/quickstart.sh",
     "LTRAIN_TRAIN_STEPS=60 bash launch/quickstart.sh $([ -e runs/quickstart-data ] || echo --text $corpus)",
     "time; and the corpus is a package. Started again, the script finds its data"),
    ("README.md", "bash tests/run.sh", "true", "runs this test"),
    ("docs/tutorials/quickstart.md", "bash launch/quickstart.sh", "LTRAIN_TRAIN_STEPS=60 bash launch/quickstart.sh", "time"),
    ("docs/tutorials/quickstart.md", "$(find /usr/share/games/fortunes -type f ! -name '*.*' | sort)", "$corpus", "a package"),
    ("docs/tutorials/quickstart.md", "--train.max_minutes=0.01", "--train.max_minutes=0.001", "ends a fast machine's run too"),
    ("docs/tutorials/pretrain-gpt2.md", "bash launch/deps.sh --cuda", "true", "needs CUDA and the network"),
    ("docs/tutorials/pretrain-gpt2.md", "cmake --preset cuda ", "true ", "needs CUDA"),
    ("docs/tutorials/pretrain-gpt2.md", "apt-get ", "true ", "installs packages"),
    ("docs/tutorials/pretrain-gpt2.md", "$(ls /usr/src/linux-source-*.tar.* | tail -n 1)",
     "linux.tar; tar -cf linux.tar --transform 's/cpp$/c/' libtrain base checkpoints", "a package"),
    ("docs/tutorials/pretrain-gpt2.md", re.compile(r"curl .*"), "mkdir gpt2 && cp ../tokenizer.json gpt2", "a download"),
    # Until here the plans use the configuration that the page shows.
    ("docs/tutorials/pretrain-gpt2.md", "GPUS=$(nvidia-smi -L | wc -l)", textwrap.dedent("""\
        GPUS=2
        sed -i -e 's/^preset = .*/preset = "gpt-tiny"\\nvocab = 1024/' -e 's/^\\[train\\]/&\\ndevice = "cpu"\\nseq = 64/' \\
          -e 's/^steps = .*/steps = 400/' -e 's/^global_batch = .*/global_batch = 8/' -e 's/^micro_batch = .*/micro_batch = 2/' \\
          -e 's/^eval_every = .*/eval_every = 200/' -e 's/^eval_tokens = .*/eval_tokens = 4096/' \\
          -e 's/^warmup = .*/warmup = 5/' -e 's/^every = .*/every = 50/' gpt2.toml"""),
     "GPUs, and time"),
    ("docs/tutorials/pretrain-gpt2.md", "sleep 1; done", "sleep 0.1; done", "the short run must not end between two looks"),
    ("docs/tutorials/pretrain-gpt2.md", "pkill -9 -of '^[^ ]*ltrain train --config gpt2.toml'",
     KILL_A_RANK, "ends no process of others"),
    ("docs/tutorials/pretrain-gpt2.md", "--train.steps=2100", "--train.steps=420", "follows train.steps"),
    ("docs/tutorials/finetune.md", "python3 -m venv build/venv", "true", "is not needed without pip"),
    ("docs/tutorials/finetune.md", "pip install torch transformers peft", "true", "a download"),
    ("docs/tutorials/finetune.md", re.compile(r"hf download .*"), "mv ../base smollm", "a download: here a model with random weights"),
    ("docs/tutorials/finetune.md", re.compile(r"^python3 - <<'EOF'.*", re.DOTALL), "true",
     "needs torch, transformers and peft: tests/parity compares with those"),
]

# Printed values that differ from machine to machine, and with the texts that are substituted: of the same kind.
KINDS = [r"\bloss \d+\.\d{4,6}\b", r"\bnorm \d+\.\d{3}\b", r"\b(?:perplexity|bits_per_byte) \d+\.\d+", r"\b\d[\d.]* ms\b",
         r"\b\d[\d.]*[kM]? tok/s", r"(?<=\d)/\d[\d.]* [KMGT]iB\b", r"\beta [\dhms]+\b", r"\bin (?:\d+[hms])+(?=[,\s]|$)", r"\bwith PID \d+ on node \S+"]
# (page, text that it shows, what it stands for). Of a text without the last each number may be another.
VARYING = [
    ("docs/tutorials/quickstart.md", "2319007 training tokens, 257667 validation tokens from 43 files (2576674 bytes of text)", None),
    ("docs/tutorials/quickstart.md", "tokens 257664 in 2013 blocks, checkpoint runs/quickstart/checkpoints/step-00000350", None),
    ("docs/tutorials/quickstart.md", "step-00000237", None),  # where train.max_minutes ends the run
    ("docs/tutorials/quickstart.md", "at step 238", None),
    ("docs/tutorials/quickstart.md", "237 steps", None),
    ("docs/tutorials/quickstart.md", "rank 1 ended first", None),
    ("docs/tutorials/quickstart.md", " and a spaint have was in that a grible?", ".*"),
    ("docs/tutorials/pretrain-gpt2.md", "644615238 training tokens, 6511265 validation tokens", None),
    ("docs/tutorials/pretrain-gpt2.md", "(1177071693 bytes of text)", None),
    ("docs/tutorials/pretrain-gpt2.md", "step-00000250 at step 251", None),
    ("docs/tutorials/pretrain-gpt2.md", "rank 0 was killed", None),
    ("docs/tutorials/finetune.md", "Cori is in Pell.", "(.*\n?)*"),  # the model is random
]

# Stands in for cmake: the folder build/release is the build under test.
CMAKE = """#!/bin/sh
case "$*" in
  "-S . -B build/release "* | "--build build/"*) ;;
  "--install build/release "*) shift 2; exec {cmake} --install {build} "$@" ;;
  *) exec {cmake} "$@" ;;
esac
"""
# Every package is there, so launch/deps.sh installs none.
DPKG_QUERY = "#!/bin/sh\nshift 3\nprintf 'installed %s\\n' \"$@\"\n"
MARK = "\x1ecommand ended with"


def substituted(page, commands):
    """What runs in place of these commands of a page."""
    for name, text, replacement, _ in SUBSTITUTIONS:
        if name == page:
            changed = [command.replace(text, replacement) if isinstance(text, str) else text.sub(lambda _: replacement, command)
                       for command in commands]
            assert changed != commands, f"{page} has no longer: {text}"
            commands = changed
    return commands


def pattern_of(page, line):
    """The regular expression for a line of output that a page shows. `...` is any text."""
    kinds = [(r"\.\.\.", ".*")] + [(kind, kind) for kind in KINDS]
    kinds[:0] = [(re.escape(text), of or re.sub(r"\d+", r"\\d+", re.escape(text))) for name, text, of in VARYING if name == page]
    result, place = "", 0
    for found in re.finditer("|".join(f"({kind})" for kind, _ in kinds), line):
        result += re.escape(line[place:found.start()]) + kinds[found.lastindex - 1][1]
        place = found.end()
    return result + re.escape(line[place:])


def difference(page, shown, printed):
    """The first shown line that was not printed after those before it, or None. A line `...` is any number of lines."""
    def expression(lines):
        return "".join(r"(?:.*\n)*?" if line == "..." else pattern_of(page, line) + r"\n" for line in lines)
    printed = "".join(line.rstrip() + "\n" for line in printed.splitlines())
    shown = [line.rstrip() for line in shown]
    for count in range(1, len(shown) + 1):
        if not re.match(expression(shown[:count]), printed):
            return shown[count - 1]
    return None if re.fullmatch(expression(shown), printed) else "the end"


def processes_in(folder):
    """The ids of processes whose working folder is this one, or below it."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            where = pathlib.Path(os.readlink(process / "cwd"))
        except OSError:  # ended, or of another user
            continue
        if folder == where or folder in where.parents:
            yield int(process.name)


class Tutorials(unittest.TestCase):
    def copy_the_tree(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="libtrain-docs-"))).resolve()
        self.clone, tools = self.folder / "libtrain", self.folder / "tools"
        self.clone.mkdir()
        for path in SOURCE.iterdir():
            if path.name in FOLDERS:
                shutil.copytree(path, self.clone / path.name)
            elif path.is_file():
                shutil.copy2(path, self.clone)
        build = pathlib.Path(options.build).resolve()
        for name in ("release", "cuda"):
            (self.clone / "build" / name).mkdir(parents=True)
            (self.clone / "build" / name / "ltrain").symlink_to(build / "ltrain")
        tools.mkdir()
        for name, script in (("cmake", CMAKE.format(cmake=shlex.quote(options.cmake), build=shlex.quote(str(build)))), ("dpkg-query", DPKG_QUERY)):
            (tools / name).write_text(script)
            (tools / name).chmod(0o755)
        self.environment = clean_environment({"PATH": f"{tools}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "", "CXX": options.compiler,
                                              "LC_ALL": "C.UTF-8"})

    def run_pages(self, *names):
        """Runs the commands of these pages, each page in a shell of its own that begins in the clone."""
        for name in names:
            blocks = [block for block in page_commands.blocks(SOURCE / name) if block[0] in ("sh", "console")]
            commands = [(*command, number) for language, block, number in blocks
                        for command in page_commands.commands(language, block)]
            ran = substituted(name, [command for command, *_ in commands])
            printed, script = self.folder / "printed", self.folder / "script"
            script.write_text(f"corpus={CORPUS}\nexec 2>&1\n" + "".join(
                f"{command}\ncode=$?; printf '{MARK} %d\\n' $code; [ $code = 0 ] || exit $code\n" for command in ran))
            try:
                with open(printed, "w") as out:
                    subprocess.run(["bash", "--norc", script], cwd=self.clone, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=out, timeout=240)
            except subprocess.TimeoutExpired:
                pass  # the command that was not done is named below
            finally:
                for process in processes_in(self.folder):
                    with contextlib.suppress(ProcessLookupError):  # has just ended
                        os.kill(process, signal.SIGKILL)
            outputs = re.split(rf"{MARK} (\d+)\n", printed.read_text(errors="replace"))
            for i, (command, shown, number) in enumerate(commands):
                text, code = outputs[2 * i], outputs[2 * i + 1] if 2 * i + 1 < len(outputs) else "none"
                where = f"{name}, block of line {number}, {'' if ran[i] == command else 'in place of '}$ {command}\n"
                self.assertEqual(code, "0", where + (f"$ {ran[i]}\n" if ran[i] != command else "") + text)
                line = None if shown is None else difference(name, shown, text)
                self.assertIsNone(line, f"{where}the page shows, and this was not printed at its place: {line}\n{text}")

    def make_base(self):
        """A small Hugging Face folder, ../base seen from the clone, with a tokenizer that has the words of the
        conversations and the marks of ChatML."""
        text = output(sys.executable, SOURCE / "examples/finetune/conversations.py")
        tokenizer = byte_level("<|endoftext|>", "<|im_start|>", "<|im_end|>")
        vocab, merges = tokenizer["model"]["vocab"], {}
        for word in sorted(set(re.findall(r" ?[A-Za-z]+", text + "user assistant"))):
            word = word.replace(" ", "\u0120")
            for end in range(2, len(word) + 1):
                vocab.setdefault(word[:end], len(vocab) + 3)  # after the marks
                merges[f"{word[:end - 1]} {word[end - 1]}"] = None
        tokenizer["model"]["merges"] = list(merges)
        where = self.folder / "tokenizer.json"
        where.write_text(json.dumps(tokenizer))
        (self.folder / "text.txt").write_text(text)

        def ltrain(*arguments):
            output(pathlib.Path(options.build).resolve() / "ltrain", *arguments, cwd=self.folder, **self.environment)
        ltrain("prepare", "--input", "text.txt", "--tokenizer", where, "--out", "data")
        ltrain("train", "--model.preset=llama-tiny", "--model.vocab=1024", "--data.train=data/train.bin", "--train.steps=0",
               "--train.device=cpu", "--train.seq=64", "--run.dir=run")
        ltrain("checkpoint", "export", "run", "--out", "base")

    def test_readme_and_the_quickstart(self):
        self.copy_the_tree()
        self.run_pages("README.md", "docs/tutorials/quickstart.md")  # in one clone, because the README leads there

    def test_pretraining(self):
        self.copy_the_tree()
        self.make_base()
        self.run_pages("docs/tutorials/pretrain-gpt2.md")

    def test_fine_tuning(self):
        self.copy_the_tree()
        self.make_base()
        self.run_pages("docs/tutorials/finetune.md")

    def test_the_first_program(self):
        in_readme = {language: text for language, text, _ in page_commands.blocks(SOURCE / "README.md")}
        self.assertLessEqual(len(in_readme["cpp"].splitlines()), 10)
        files = list(page_commands.written_files(SOURCE / "docs/tutorials/first-program.md"))
        programs = [text for name, text, _ in files if name == "my_training.cpp"]
        self.assertEqual(programs, [in_readme["cpp"], (SOURCE / "examples/first_run.cpp").read_text()])
        project, = (text for name, text, _ in files if name == "CMakeLists.txt")
        self.assertEqual(project, re.sub(r"  #.*", "", in_readme["cmake"]))

        self.copy_the_tree()
        self.run_pages("docs/tutorials/first-program.md")
        rows = [json.loads(line) for line in (self.folder / "my_training/runs/default/metrics.jsonl").read_text().splitlines()]
        losses = [row["loss"] for row in rows if "event" not in row]
        self.assertEqual(len(losses), 100)
        self.assertLess(losses[-1], 0.8 * losses[0])
        again = output(pathlib.Path(options.build).resolve() / "ltrain", "train", "--config", "runs/program/config.toml",
                       cwd=self.folder / "my_training", **self.environment)
        self.assertIn("complete: 100 steps are done in runs/program", again)

    def test_every_tutorial_is_run(self):
        tests = pathlib.Path(__file__).read_text()
        for page in (SOURCE / "docs/tutorials").iterdir():
            self.assertRegex(tests, rf'self\.run_pages\(.*"docs/tutorials/{page.name}"')

    def test_a_changed_output_is_found(self):
        shown = ["...", "step 200/200 | loss 2.9746 | 15.6 ms | 0.021/23.5 GiB | eta 0s", "...", "done: 200 steps in 4s, runs/first"]
        printed = ["ranks: 2", "step 200/200 | loss 3.0000 | 9 ms | 0.021/4 GiB | eta 1m10s", "saved", "done: 200 steps in 1m4s, runs/first"]
        cases = [(None, None, None), (1, "step 200/200 | lost 3.0000 | 9 ms | 0.021/4 GiB | eta 0s", shown[1]),
                 (1, "step 200/200 | loss 3.0000 | 9 ms | 0.022/4 GiB | eta 0s", shown[1]), (1, "", shown[1]),
                 (3, "done: 201 steps in 4s, runs/first", shown[3]), (3, "done: 200 steps in 4s, runs/first\nwarning: more", "the end")]
        for place, line, expected in cases:
            with self.subTest(line=line):
                lines = [line if i == place else text for i, text in enumerate(printed)]
                self.assertEqual(difference("README.md", shown, "\n".join(lines)), expected)
        self.assertIsNone(difference("README.md", [], ""))
        self.assertEqual(difference("README.md", [], "warning: more"), "the end")


if __name__ == "__main__":
    main("build", "cmake", "compiler")
