"""Makes the Debian package of a build tree, checks its contents, and installs the program under other prefixes."""

import pathlib
import re
import tempfile
import unittest

from commands import main, options, output


class Deb(unittest.TestCase):
    def test_the_package_holds_the_program_the_library_and_their_pages(self):
        with tempfile.TemporaryDirectory(prefix="libtrain-deb-") as name:
            folder = pathlib.Path(name)
            output(options.cpack, "--config", f"{options.build}/CPackConfig.cmake", "-B", folder)
            package, = folder.glob("libtrain_*.deb")
            root = folder / "root"
            output("dpkg-deb", "-x", package, root)
            for path in ("bin/ltrain", "include/libtrain/libtrain.h", "share/man/man1/ltrain.1", "share/man/man1/ltrain-train.1",
                         "share/bash-completion/completions/ltrain", "share/zsh/vendor-completions/_ltrain",
                         "share/doc/libtrain/copyright"):
                self.assertTrue((root / "usr" / path).is_file(), path)
            for pattern in ("lib/**/libtrain.a", "lib/**/libtrain-config.cmake", "lib/**/libtrain.pc"):
                self.assertEqual(len(list((root / "usr").glob(pattern))), 1, pattern)
            listed = output("dpkg-deb", "-c", package)
            self.assertEqual([line for line in listed.splitlines() if " root/root " not in line], [])
            self.assertEqual(set(re.findall(r" \./([^/\n]+)", listed)), {"usr"})
            depends = output("dpkg-deb", "-f", package, "Depends")
            for library in ("openmpi-bin", "libc6", "libstdc++6", "libopenmpi3", "libhdf5-", "libfmt"):
                self.assertIn(library, depends)
            self.assertTrue(output(root / "usr/bin/ltrain", "--version").startswith("ltrain "))

    def test_zsh_finds_completion_outside_of_usr(self):
        with tempfile.TemporaryDirectory(prefix="libtrain-zsh-") as name:
            prefix = pathlib.Path(name) / "local"
            output(options.cmake, "--install", options.build, "--component", "program", "--prefix", prefix)
            self.assertEqual([path.relative_to(prefix) for path in prefix.rglob("_ltrain")],
                             [pathlib.Path("share/zsh/site-functions/_ltrain")])


if __name__ == "__main__":
    main("build", "cmake", "cpack")
