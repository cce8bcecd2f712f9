"""Man pages and completion name all commands and options of --help, and the completion works in a shell. The tables of the
reference pages are the program's."""

import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from commands import help_of, main, options, output

REFERENCE = pathlib.Path(__file__).parents[2] / "docs/reference"
REFERENCE_PAGES = ["command-line.md", "configuration.md", "exit-codes.md"]


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="libtrain-pages-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        output(options.pages, cls.folder)

    def complete(self, line):
        """What bash offers at the end of `line`. Readline splits words at = too."""
        words = [part for word in line.split(" ") for part in re.split(r"(=)", word) if part or word == ""]
        script = (f". {self.folder}/ltrain.bash; compopt() {{ :; }}; COMP_WORDS=({shlex.join(words)}); "
                  f"COMP_CWORD={len(words) - 1}; _ltrain; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        return output("bash", "--norc", "-uc", script).split()

    def test_pages_of_commands_that_are_no_more_are_removed_and_nothing_else(self):
        man = self.folder / "man"
        for name in ("ltrain-gone.1", "other.1", "ltrain.txt"):
            (man / name).touch()
        output(options.pages, self.folder)
        self.assertFalse((man / "ltrain-gone.1").exists())
        for name in ("other.1", "ltrain.txt"):
            (man / name).unlink()  # was left alone

    def test_pages_and_completion_name_what_help_names(self):
        *_, commands = help_of()
        self.assertEqual(sorted(path.name for path in (self.folder / "man").iterdir()),
                         sorted(["ltrain.1", *(f"ltrain-{command}.1" for command in commands)]))
        self.assertEqual(self.complete("ltrain "), commands)
        for command in commands:
            *_, below = help_of(command)
            for path in [[command], *([command, sub] for sub in below)]:
                with self.subTest(command=path):
                    _, names, subs = help_of(*path)
                    page = (self.folder / f"man/ltrain-{command}.1").read_text().replace("\\-", "-")
                    for name in names:
                        self.assertIn(f"\\fB{name}\\fR", page)
                    offered = self.complete(" ".join(["ltrain", *path, "--"]))
                    self.assertEqual(sorted(name.rstrip("=") for name in offered), sorted(names))
                    self.assertEqual(self.complete(" ".join(["ltrain", *path, ""])), subs)

    def test_the_folder_of_a_run_is_an_argument(self):
        for command in ("eval", "sample"):
            page = (self.folder / f"man/ltrain-{command}.1").read_text()
            self.assertIn(f"\\fBltrain {command}\\fR [OPTIONS] DIR\n", page)
            self.assertIn(".SH ARGUMENTS\n.TP\n\\fBDIR\\fR (required)\na checkpoint, ", page)
            self.assertIn(".TP\n\\fB\\-\\-checkpoint\\fR DIR\nthe same as the argument DIR\n", page)

    def test_bash_completes_values(self):
        self.assertEqual(self.complete("ltrain checkpoint e"), ["export"])
        self.assertEqual(self.complete("ltrain train --parallel.strategy=ze"), ["zero1", "zero2", "zero3"])
        self.assertEqual(self.complete("ltrain train --model.lora."),
                         ["--model.lora.rank=", "--model.lora.alpha=", "--model.lora.targets="])
        self.assertEqual(self.complete("ltrain bench comm --train.device "), ["auto", "cpu", "cuda"])
        self.assertEqual(self.complete("ltrain train --parallel.recompute="), ["none", "selective", "full"])
        self.assertEqual(self.complete("ltrain train --data.shuffle "), ["true", "false"])
        self.assertEqual(self.complete("ltrain sample --weights "), ["master", "ema"])
        self.assertEqual(self.complete("ltrain launch -n 2 -- train --model.pre"), ["--model.preset="])
        self.assertEqual(self.complete("ltrain eval --data tr"), [])  # bash offers files

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_completes(self):
        def offered(line):
            words = line.split(" ")
            script = ("zmodload zsh/parameter; _describe() { local -a a; for a in ${@:#-*}; do print -l -- ${(P)a}; done; }; compadd() { print -l -- $values; }; "
                      "_files() { print files; }; compset() { :; }; " +
                      f"words=({shlex.join(words)}); CURRENT={len(words)}; PREFIX={shlex.quote(words[-1])}; . {self.folder}/_ltrain")
            return output("zsh", "-fc", script).splitlines()
        self.assertIn("train:train a model; start it directly or under mpirun, srun or torchrun", offered("ltrain "))
        self.assertIn("export:write the newest valid checkpoint in Hugging Face format", offered("ltrain checkpoint "))
        self.assertIn("--model.layers=:transformer blocks; 0 uses the preset's value", offered("ltrain train --"))
        self.assertEqual(offered("ltrain train --parallel.recompute="), ["none", "selective", "full"])
        self.assertEqual(offered("ltrain sample --weights "), ["master", "ema"])
        self.assertEqual(offered("ltrain eval --data "), ["files"])

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_man_reads_the_pages_without_a_warning(self):
        for page in (self.folder / "man").iterdir():
            with self.subTest(page=page.name):
                shown = subprocess.run(["man", "--warnings", "-l", str(page)], capture_output=True, text=True, timeout=60,
                                       env={"PATH": "/usr/bin:/bin", "MANWIDTH": "120", "LC_ALL": "C.UTF-8"})
                self.assertEqual((shown.returncode, shown.stderr), (0, ""))
                self.assertIn("NAME", shown.stdout)

    def test_the_same_program_makes_the_same_bytes(self):
        again = self.folder / "again"
        output(options.pages, again)
        for path in again.rglob("*"):
            if path.is_file():
                self.assertEqual(path.read_bytes(), (self.folder / path.relative_to(again)).read_bytes())

    def test_the_reference_pages_have_the_tables_of_the_program(self):
        docs = self.folder / "reference"
        docs.mkdir()
        for name in REFERENCE_PAGES:
            shutil.copy(REFERENCE / name, docs)
        output(options.pages, "--docs", docs)
        for name in REFERENCE_PAGES:
            with self.subTest(page=name):
                self.assertEqual((REFERENCE / name).read_text(), (docs / name).read_text(),
                                 "renew it: cmake --build build/cpu --target reference_pages")

    def test_a_reference_page_has_each_table_once(self):
        docs = self.folder / "broken"
        shutil.copytree(REFERENCE, docs)
        page = docs / "configuration.md"
        text = page.read_text()
        run, name = "<!-- generated: run -->\n", "configuration.md: expected "
        for broken, message in ((text.replace(run, ""), run.strip() + ", found none"),
                                (text.replace("generated: record", "generated: run"), 'each generated block once, got "run"'),
                                (text.replace(run, "<!-- generated: runs -->\n"), 'each generated block once, got "runs"'),
                                (text[:text.rindex("<!-- end -->")], "<!-- end --> after each <!-- generated: NAME -->, found none")):
            page.write_text(broken)
            done = subprocess.run([options.pages, "--docs", docs], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (1, f"error: [pages] {name}{message}\n"))
            self.assertEqual(page.read_text(), broken)

    def test_the_first_man_page_has_variables_and_exit_codes(self):
        page = (self.folder / "man/ltrain.1").read_text()
        self.assertIn(".SH ENVIRONMENT\n.TP\n\\fBLTRAIN_SECTION_KEY\\fR\n", page)
        self.assertIn(".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\ndone", page)
        self.assertIn("\nExit codes:\n  0  ", output(options.ltrain, "--help"))
        self.assertNotIn("Exit codes", output(options.ltrain, "plan", "--help"))

    def test_a_folder_must_be_named(self):
        for arguments in ((), ("--docs", "a", "b"), ("a", "b")):
            done = subprocess.run([options.pages, *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (2, "error: [usage] expected one folder\nhint: ltrain_pages FOLDER, "
                                                                 "or ltrain_pages --docs FOLDER\n"))


if __name__ == "__main__":
    main("ltrain", "pages")
