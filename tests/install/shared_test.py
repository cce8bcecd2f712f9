"""The shared library: its name, its symbols, and the examples linked with it."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from commands import main, options, output

sys.path.append(str(pathlib.Path(__file__).parents[1] / "structure"))
from namespaces import NAMESPACES

EXAMPLES = ("custom_model", "custom_optimizer", "custom_program", "custom_run", "first_run", "train_min")


class Shared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.build = pathlib.Path(options.build)
        output(options.cmake, "--build", cls.build, "--target", "libtrain_shared")
        cls.shared = cls.build / "libtrain/libtrain.so"
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="libtrain-shared-")))

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

    def test_the_examples_link_and_run_with_it(self):
        for name in EXAMPLES:
            objects = list((self.build / f"examples/CMakeFiles/{name}.dir").rglob("*.o"))
            self.assertNotEqual(objects, [], name)
            output(options.compiler, *objects, "-o", self.folder / name, self.shared, f"-Wl,-rpath,{self.shared.parent}")
        done = output(self.folder / "custom_program", "train", "--train.steps=3", f"--run.dir={self.folder}/run", OMP_NUM_THREADS="1")
        self.assertIn("done: 3 steps", done)
        refused = subprocess.run([self.folder / "custom_program", "train", "--model.width=97"], capture_output=True, text=True)
        self.assertEqual((refused.returncode, refused.stderr), (2, "error: [config] model.width: expected an even number, got 97 (from the command line)\n"))


if __name__ == "__main__":
    main("build", "cmake", "compiler")
