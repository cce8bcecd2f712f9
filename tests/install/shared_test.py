"""The shared library: its name, its symbols, its package, and the examples linked with it."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from commands import main, options, output

sys.path.append(str(pathlib.Path(__file__).parents[1] / "structure"))
from namespaces import NAMESPACES

# find_package() of another package fails the configuration.
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(p LANGUAGES CXX)
find_package(libtrain REQUIRED)
get_property(found GLOBAL PROPERTY PACKAGES_FOUND)
get_property(missing GLOBAL PROPERTY PACKAGES_NOT_FOUND)
if(NOT "${found};${missing}" STREQUAL "libtrain;")
  message(FATAL_ERROR "packages: ${found};${missing}")
endif()
add_executable(app main.cpp)
target_link_libraries(app PRIVATE libtrain::libtrain)
"""
EXAMPLES = ("first_run", "own_model", "own_operation", "own_optimizer", "train_min", "own_loop", "inference", "own_program")


class Shared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.build = pathlib.Path(options.build)
        output(options.cmake, "--build", cls.build, "--target", "libtrain_shared")
        cls.shared = cls.build / "libtrain/libtrain.so"
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="libtrain shared-")))

    def test_its_name_has_the_version_of_its_interface(self):
        lists = (pathlib.Path(__file__).parents[2] / "CMakeLists.txt").read_text()
        version = re.search(r"project\(libtrain VERSION (\d+\.\d+)\.\d+", lists)[1]
        names = re.findall(r"\(SONAME\).*\[(.*)\]", output("readelf", "-d", self.shared))
        self.assertEqual(names, [f"libtrain.so.{version}"])

    def test_it_shows_the_public_headers_alone(self):
        symbols = [line.split(maxsplit=2)[2] for line in output("nm", "-DC", "--defined-only", self.shared).splitlines()]
        shown = "\n".join(symbols)
        for name in ("lt::cli(", "lt::Trainer::train(", "lt::Engine::step(", "lt::nn::Gpt2::Gpt2(", "typeinfo for lt::UsageError"):
            self.assertIn(name, shown)
        # Private parts of the library, and what is compiled into it.
        root = pathlib.Path(__file__).parents[2]
        folders = [path.name for parent in ("base", "libtrain/src", ".") for path in (root / parent).iterdir() if path.is_dir()]
        private = {NAMESPACES.get(folder, folder) for folder in folders} - {"nn", "ops", "checkpoint"}
        self.assertIn("planner", private)
        for name in [f"lt::{namespace}::" for namespace in sorted(private)] + ["nlohmann", "CLI::", "toml", "fmt::v"]:
            found = [symbol for symbol in symbols if re.match(rf"([\w -]+ (for|to) )?(void )?{name}", symbol)]
            self.assertEqual(found, [])

    def test_a_project_links_its_package_and_looks_for_no_other(self):
        source, build, prefix = pathlib.Path(__file__).parents[2], self.folder / "build", self.folder / "the prefix"
        output(options.cmake, "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={options.compiler}", "-DBUILD_SHARED_LIBS=ON",
               *(f"-DLIBTRAIN_{part}=OFF" for part in ("TESTS", "EXAMPLES", "PROGRAMS")))
        for path in self.shared.parent.glob("libtrain.so*"):
            shutil.copy(path, build / "libtrain", follow_symlinks=False)
        output(options.cmake, "--install", build, "--component", "development", "--prefix", prefix)
        project = self.folder / "a project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(PROJECT)
        (project / "main.cpp").write_text((source / "examples/first_run.cpp").read_text())
        output(options.cmake, "-S", project, "-B", project / "build", "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={options.compiler}",
               f"-DCMAKE_PREFIX_PATH={prefix}")
        output(options.cmake, "--build", project / "build")
        needed = re.findall(r"\(NEEDED\).*\[(.*?)[.]so", output("readelf", "-d", project / "build/app"))
        self.assertIn("libtrain", needed)
        self.assertEqual(set(needed) - {"libtrain", "libstdc++", "libgcc_s", "libc", "libm"}, set())

    def test_the_examples_link_and_run_with_it(self):
        for name in EXAMPLES:
            objects = list((self.build / f"examples/CMakeFiles/{name}.dir").rglob("*.o"))
            self.assertNotEqual(objects, [], name)
            output(options.compiler, *objects, "-o", self.folder / name, self.shared, f"-Wl,-rpath,{self.shared.parent}")
        done = output(self.folder / "own_program", "train", "--train.steps=3", f"--run.dir={self.folder}/run", OMP_NUM_THREADS="1")
        self.assertIn("done: 3 steps", done)
        refused = subprocess.run([self.folder / "own_program", "train", "--model.width=97"], capture_output=True, text=True)
        self.assertEqual((refused.returncode, refused.stderr), (2, "error: [config] model.width: expected an even number, got 97 (from the command line)\n"))


if __name__ == "__main__":
    main("build", "cmake", "compiler")
