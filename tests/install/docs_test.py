"""The reference of the public headers: the filter of their comments, and Doxygen's pages."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from commands import main, options

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "cmake"))
import doxygen_filter


class Docs(unittest.TestCase):
    def test_plain_comments_become_doxygens(self):
        header = ('// Of the file: <bytes>.\n#pragma once\n\nnamespace lt {\n// Of the struct.\nstruct A {\n'
                  '  int size = 0;  // of the member,\n                 // in two lines\n  // Of the next one.\n'
                  '  const char* name = "a//b";\n  int f() {  // a word inside\n    return 0;\n  }\n};\n}  // namespace lt\n')
        expected = ('/// \\file\n/// Of the file: \\<bytes\\>.\n#pragma once\n\nnamespace lt {\n/// Of the struct.\nstruct A {\n'
                    '  int size = 0;  ///< of the member,\n                 ///< in two lines\n  /// Of the next one.\n'
                    '  const char* name = "a//b";\n  int f() {  // a word inside\n    return 0;\n  }\n};\n}  // namespace lt\n')
        self.assertEqual("\n".join(doxygen_filter.converted(header)), expected)

    @unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed")
    def test_doxygen_writes_the_comments_without_a_warning(self):
        with tempfile.TemporaryDirectory(prefix="libtrain-docs-") as name:
            doxyfile = pathlib.Path(name) / "Doxyfile"
            settings = pathlib.Path(options.doxyfile).read_text() + f'OUTPUT_DIRECTORY = "{name}"\n'
            doxyfile.write_text(settings)
            done = subprocess.run(["doxygen", str(doxyfile)], capture_output=True, text=True, timeout=100)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            page = (pathlib.Path(name) / "html/structlt_1_1ParallelOptions.html").read_text()
            words = re.sub(r"<[^>]*>", "", page)
            self.assertIn("Consecutive ranks that shard together; must divide the world; 0: all ranks.", words)
            page = (pathlib.Path(name) / "html/classlt_1_1Engine.html").read_text()
            self.assertIn("initialise", page)


if __name__ == "__main__":
    main("doxyfile")
