"""Installs the library of a build tree into a folder and builds the documents' programs against that folder alone."""

import json
import pathlib
import re
import shlex
import shutil
import struct
import tempfile
import unittest

from commands import main, options, output

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def printed(page, language, holds):
    """The block of a page in that language that holds these words."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", (SOURCE / page).read_text(), re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if holds in block)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="libtrain install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        installed = cls.folder / "first"
        output(options.cmake, "--install", options.build, "--component", "development", "--prefix", installed)
        cls.prefix = cls.folder / "moved"  # the installed tree may be moved
        installed.rename(cls.prefix)
        cls.package, = cls.prefix.glob("lib*/**/cmake/libtrain")
        cls.lib_folder = cls.package.parents[1]
        cls.is_shared = (cls.lib_folder / "libtrain.so").exists()
        cls.project = cls.folder / "project"
        cls.project.mkdir()
        (cls.project / "my_training.cpp").write_text(printed("README.md", "cpp", "int main"))

    def train(self, program):
        """Runs the program on made-up tokens, as a run of 100 steps."""
        runs = self.folder / f"run of {program.parent.name} {program.name}"
        (runs / "data").mkdir(parents=True)
        header = struct.pack("<256i", 20240520, 1, 2000, *[0] * 253)
        (runs / "data/train.bin").write_bytes(header + struct.pack("<2000H", *(i % 7 for i in range(2000))))
        output(program, cwd=runs, OMP_NUM_THREADS="1")
        rows = [json.loads(line) for line in (runs / "runs/default/metrics.jsonl").read_text().splitlines()]
        losses = [row["loss"] for row in rows if "event" not in row]
        self.assertEqual(len(losses), 100)
        self.assertGreater(losses[0], 5.0)
        self.assertLess(losses[-1], 2.0)
        self.assertTrue((runs / "runs/default/checkpoints/step-00000100").is_dir())

    def compile(self, source, program):
        pkg_config = {"PKG_CONFIG_PATH": str(self.lib_folder / "pkgconfig")}
        flags = shlex.split(output("pkg-config", "--cflags", "--libs", "libtrain", **pkg_config))
        output(options.compiler, source, "-o", program, *flags, f"-Wl,-rpath,{self.lib_folder}")

    def assert_refused(self, message, where):
        """A project that looks for the package `where` does not configure, with this message."""
        project = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES CXX)\nfind_package(libtrain REQUIRED)\n")
        with self.assertRaisesRegex(AssertionError, message):
            output(options.cmake, "-S", project, "-B", project / "build", where)

    def test_readmes_program_builds_by_find_package(self):
        (self.project / "CMakeLists.txt").write_text(printed("README.md", "cmake", "find_package(libtrain REQUIRED)"))
        # tests/docs/tutorials_test.py does this with the compiler of the build. Clang has another OpenMP.
        compiler = shutil.which("clang++") or options.compiler
        build = self.folder / "build by CMake"
        output(options.cmake, "-S", self.project, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={compiler}",
               f"-DCMAKE_PREFIX_PATH={self.prefix}")
        output(options.cmake, "--build", build)
        self.train(build / "my_training")

    def test_readmes_program_builds_by_pkg_config(self):
        program = self.folder / "by_pkg_config"
        self.compile(self.project / "my_training.cpp", program)
        self.train(program)

    def test_the_program_of_own_models_builds_and_learns(self):
        (self.project / "parity.cpp").write_text(printed("docs/how-to/own-models.md", "cpp", "int main"))
        folder = self.folder / "parity"
        (folder / "build").mkdir(parents=True)
        self.compile(self.project / "parity.cpp", folder / "build/parity")
        commands = printed("docs/how-to/own-models.md", "sh", "build/parity train")
        self.assertEqual(commands.count("launch -n 2 -- "), 1)
        done = output("bash", "-ec", commands.replace("launch -n 2 -- ", ""), cwd=folder, OMP_NUM_THREADS="1")
        for line in ("--model.bits", "parity; zero3", "1.15k parameters, 64 tokens a step on 2 ranks", "model: parity, 1.15k parameters",
                     "done: 500 steps"):
            self.assertIn(line, done)
        self.assertRegex(done, r"step   500/500 \| loss 0\.00")
        self.assertIn("done: 2 steps", output(folder / "build/parity", "train", "--train.dtype=bf16", "--train.steps=2", cwd=folder))

    def test_a_missing_library_is_named(self):
        if self.is_shared:
            self.skipTest("a shared library brings its own")
        broken = self.folder / "broken"
        shutil.copytree(self.package, broken / "cmake/libtrain")
        config = broken / "cmake/libtrain/libtrain-config.cmake"
        config.write_text(config.read_text().replace("libutf8proc.a utf8proc)", "no_such_library)"))
        self.assert_refused(r"libraries were not found.\s+Install: libutf8proc-dev",
                            f"-Dlibtrain_DIR={broken}/cmake/libtrain")

    def test_the_public_headers_are_installed_and_nothing_else(self):
        def headers(root):
            return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
        self.assertEqual(headers(self.prefix / "include"), headers(SOURCE / "libtrain/include"))

    def test_no_file_names_the_source_or_the_build_tree(self):
        for path in [*self.package.iterdir(), *self.prefix.rglob("*.pc")]:
            with self.subTest(path=path.name):
                self.assertNotIn(str(SOURCE), path.read_text())
                self.assertNotIn(options.build, path.read_text())


if __name__ == "__main__":
    main("build", "cmake", "compiler")
