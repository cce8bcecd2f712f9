"""Every `ltrain` command of the documentation exists: the command, its subcommand and its options, and the values of
configuration keys. The keys of every TOML block exist."""

import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import page_commands

sys.path.append(str(page_commands.SOURCE / "tests/install"))
from commands import help_of, main, options
from pages import pages_of

SCRIPTS = ("launch/quickstart.sh", "launch/slurm.sbatch", "examples/finetune/finetune.sh")
# Words before a command, and programs that start the command among their arguments. Other programs, such as cmake, may
# have `ltrain` as an argument.
PREFIXES = ("exec", "sudo", "env", "time", "if", "do", "then", "!")
LAUNCHERS = ("mpirun", "srun", "torchrun", "timeout", "${mpirun[@]}")
PLACEHOLDER = re.compile(r"\b[A-Z][A-Z_0-9]*\b|\.\.\.|\$")
FOREIGN_KEYS = "docs/how-to/coming-from.md"  # has the keys of other programs too
NO_KEYS = re.compile(r"\.(json|bin|mask|h|cpp|safetensors)$|^train\.example$")  # files; CONTRIBUTING.md's example of a new key


def all_pages():
    return [page for page in pages_of(page_commands.SOURCE) if page.name != "CHANGELOG.md"]  # has commands of the past


def ltrain_arguments(text):
    """The arguments of each `ltrain` of a text in shell syntax."""
    for words in page_commands.simple_commands(text):
        while words and (words[0] in PREFIXES or re.match(r"\w+=", words[0])):
            words = words[1:]
        if words and (words[0] in LAUNCHERS or pathlib.Path(words[0]).name == "ltrain"):
            place = next((i for i, word in enumerate(words) if pathlib.Path(word).name == "ltrain"), None)
            if place is not None:
                yield words[place + 1:]


def documented():
    """(where, arguments, whether the text is whole) of each command."""
    for page in all_pages():
        name = page.relative_to(page_commands.SOURCE)
        for language, block, number in page_commands.blocks(page):
            if language in ("sh", "console"):
                for command, _ in page_commands.commands(language, block):
                    yield from ((f"{name}:{number}", arguments, True) for arguments in ltrain_arguments(command))
            elif language == "yaml":
                for words in re.findall(r"command: \[(.*)\]", block):
                    text = words.replace(", ", " ")
                    yield from ((f"{name}:{number}", arguments, True) for arguments in ltrain_arguments(text))
        for code in page_commands.inline_code(page):
            if re.search(r"(^|[ /])ltrain ", code):
                try:
                    whole = not re.search(r" --[\w.-]+$", code)  # an option may lack its value in a sentence
                    yield from ((f"{name}: `{code}`", arguments, whole) for arguments in ltrain_arguments(code))
                except ValueError:  # a piece with one quotation mark is no command
                    pass
    for name in SCRIPTS:
        text = (page_commands.SOURCE / name).read_text().replace("\\\n", " ").replace('"$ltrain"', "ltrain")
        for line in text.splitlines():
            shown = re.sub(r"^#\s+(?=\S*ltrain |mpirun |srun |torchrun )", "", line)
            if "ltrain " in shown and not shown.startswith("#"):
                yield from ((name, arguments, False) for arguments in ltrain_arguments(shown.replace('"$(', "$(").replace(')"', ")")))


def ltrain(*arguments, cwd=None):
    return subprocess.run([pathlib.Path(options.ltrain).resolve(), *arguments], cwd=cwd, capture_output=True, text=True, timeout=60)


def options_of(path):
    shorts, longs, _ = help_of(*path)
    return {*shorts, *longs}


def commands_of(path):
    return help_of(*path)[2]


def whole_command(arguments):
    """The words of the command, its options and arguments, and the same of the command after `--`."""
    path = []
    while arguments and commands_of(path) and not arguments[0].startswith("-"):
        path.append(arguments[0])
        arguments = arguments[1:]
        if path[-1] not in commands_of(path[:-1]):
            break
    own, _, after = (list(part) for part in split_at(arguments, "--"))
    return path, own, after


def split_at(words, mark):
    place = words.index(mark) if mark in words else len(words)
    return words[:place], words[place:place + 1], words[place + 1:]


def problem(arguments):
    """What is wrong with the names in a command, or None."""
    path, own, after = whole_command(arguments)
    if path and (PLACEHOLDER.fullmatch(path[-1]) or path[-1] in ("...", "$@")):
        return None  # `ltrain COMMAND --help`
    for i, word in enumerate(path):
        if word not in commands_of(path[:i]):
            return f"`ltrain {' '.join(path[:i])}` has no command {word}"
    if not path and not own:
        return None
    if path and commands_of(path) and own:
        return f"`ltrain {' '.join(path)}` needs one of its commands"
    for word in own:
        name = word.split("=")[0]
        if re.match(r"--?[a-z]", name) and not re.fullmatch(r"--[A-Z_]+", name) and name not in options_of(path):
            return f"`ltrain {' '.join(path)}` has no option {name}"
    return problem(after) if after and path == ["launch"] else None


def configuration_problem(folder, arguments):
    """What is wrong with the values of a whole command that takes the configuration, or None."""
    path, own, after = whole_command(arguments)
    if path == ["launch"]:
        return configuration_problem(folder, after) if after else None
    if not own or any(PLACEHOLDER.search(word) for word in (*path, *own)) or "--print-config" not in options_of(path):
        return None
    for i, word in enumerate(own):  # the keys of files are another test's
        file = word.removeprefix("--config=") if word.startswith("--config=") else own[i + 1] if word == "--config" else None
        if file and not pathlib.Path(file).is_absolute():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).touch()
    done = ltrain(*path, *own, "--print-config", cwd=folder)
    return None if done.returncode == 0 else done.stderr.strip()


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="libtrain-docs-")))

    def assert_none(self, check, cases):
        """No case (where, what, ...) has a problem."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = [f"{where}: {text}" for (where, *_), text in zip(cases, pool.map(check, [case[1] for case in cases])) if text]
        self.assertEqual(found, [])

    def test_commands_and_options_exist(self):
        cases = list(documented())
        self.assertGreater(len(cases), 150)
        for name in (*SCRIPTS, "docs/tutorials/quickstart.md", "docs/how-to/several-hosts.md"):
            self.assertTrue(any(where.startswith(name) for where, *_ in cases), name)
        self.assert_none(problem, cases)

    def test_values_of_keys_are_accepted(self):
        cases = [case for case in documented() if case[2]]
        self.assert_none(lambda arguments: configuration_problem(self.folder, arguments), cases)

    def test_keys_of_toml_exist(self):
        cases = []
        for page in all_pages():
            name = page.relative_to(page_commands.SOURCE)
            for language, block, number in page_commands.blocks(page):
                if language == "toml":
                    cases.append((f"{name}:{number}", block))
            cases += [(f"{name}:{number}", text) for file, text, number in page_commands.written_files(page) if file.endswith(".toml")]
        self.assertGreater(len(cases), 5)

        def refused(block):
            with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".toml") as file:
                file.write(block)
                file.flush()
                return ltrain("train", "--config", file.name, "--print-config", cwd=self.folder).stderr.strip()
        self.assert_none(refused, cases)

    def test_keys_in_sentences_exist(self):
        keys = {name[2:] for name in options_of(["train"]) if "." in name}
        sections = "|".join({key.split(".")[0] for key in keys})
        found = []
        for page in all_pages():
            name = str(page.relative_to(page_commands.SOURCE))
            for code in page_commands.inline_code(page):
                key = re.match(rf"(?:--)?((?:{sections})\.[a-z_.]+)( ?=.*)?$", code)
                if key and key[1] not in keys and not NO_KEYS.search(code) and name != FOREIGN_KEYS:
                    found.append(f"{name}: `{code}`")
        self.assertEqual(found, [])

    def test_wrong_commands_are_found(self):
        for command, expected in (("LTRAIN_X=1 mpirun -n 2 build/cpu/ltrain trian --a", "`ltrain ` has no command trian"),
                                  ("ltrain launch -n 2 -- train --train.stepz=3 \\\n  > log &", "`ltrain train` has no option --train.stepz"),
                                  ("cat a | ltrain checkpoint exprot RUN", "`ltrain checkpoint` has no command exprot"),
                                  ("ltrain checkpoint export RUN --dtpye bf16", "`ltrain checkpoint export` has no option --dtpye"),
                                  ("if timeout 60 ltrain eval RUN --dat a; then", "`ltrain eval` has no option --dat"),
                                  ("srun ltrain launch --hostfil=a -- train", "`ltrain launch` has no option --hostfil")):
            with self.subTest(command=command):
                self.assertEqual([problem(arguments) for arguments in ltrain_arguments(command)], [expected])
        self.assertEqual(list(ltrain_arguments("cmake --build build/cpu --target ltrain")), [])
        self.assertIn("train.steps", configuration_problem(self.folder, ["train", "--train.steps=many"]))
        self.assertIn("zero4", configuration_problem(self.folder, ["launch", "-n", "2", "--", "train", "--parallel.strategy=zero4"]))


if __name__ == "__main__":
    main("ltrain")
