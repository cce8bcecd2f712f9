"""Configures a project in CXX alone that takes the source tree from an archive, without a repository, as a subfolder, and
checks what it would build. The paths contain blanks."""

import os
import pathlib
import re
import tarfile
import tempfile
import unittest

from commands import main, options, output

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(p LANGUAGES CXX)
include(FetchContent)
FetchContent_Declare(libtrain URL "${CMAKE_CURRENT_SOURCE_DIR}/libtrain.tar")
FetchContent_MakeAvailable(libtrain)
add_executable(with_static main.cpp)
target_link_libraries(with_static PRIVATE libtrain)
add_executable(with_shared main.cpp)
target_link_libraries(with_shared PRIVATE libtrain_shared)
"""


class Subfolder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="libtrain subfolder-")))
        with tarfile.open(cls.folder / "libtrain.tar", "w") as archive:
            for path in SOURCE.iterdir():
                if path.name not in (".git", "build"):
                    archive.add(path, f"libtrain-0.1.0/{path.name}")
        (cls.folder / "CMakeLists.txt").write_text(PROJECT)
        (cls.folder / "main.cpp").write_text("int main() {}\n")
        cls.build = cls.folder / "build"
        output(options.cmake, "-S", cls.folder, "-B", cls.build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={options.compiler}",
               "-DLIBTRAIN_SANITIZE=ON", "-DLIBTRAIN_PROGRAMS=ON", "-DBUILD_SHARED_LIBS=ON", "-DCMAKE_INSTALL_BINDIR=tools/bin",
               "-DCMAKE_INSTALL_LIBDIR=lib", CMAKE_BUILD_TYPE="")
        cls.rules = (cls.build / "build.ninja").read_text()

    def commands(self, target):
        return output("ninja", "-C", self.build, "-t", "commands", target).splitlines()

    def test_the_projects_cache_keeps_its_build_type_and_the_library_is_optimised(self):
        cache = (self.build / "CMakeCache.txt").read_text()
        self.assertEqual(re.findall(r"^CMAKE_BUILD_TYPE:.*=(.*)", cache, re.MULTILINE), [""])
        *_, linked = self.commands("with_static")
        self.assertNotIn(" -O3 ", linked)
        compiled, = (line for line in self.commands("lt_io") if "/crc32c.cpp.o -c " in line)
        self.assertIn(" -O3 ", compiled)

    def test_the_projects_programs_link_the_librarys_sanitizers(self):
        for target in ("with_static", "with_shared"):
            *_, linked = self.commands(target)
            self.assertIn(" -fsanitize=address,undefined ", linked)

    def test_a_new_file_beside_the_librarys_does_not_configure_anew(self):
        line, = re.findall(r"^build build\.ninja: RERUN_CMAKE \| (.*)", self.rules, re.MULTILINE)
        self.assertIn("CMakeLists.txt", line)
        self.assertEqual([name for name in line.split() if os.path.isdir(self.build / name)], [])

    def test_the_program_finds_the_library_from_any_folder(self):
        self.assertIn(r'ORIGIN/libtrain:\$$ORIGIN/../../lib"', self.rules)


if __name__ == "__main__":
    main("cmake", "compiler")
