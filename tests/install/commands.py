"""Commands of the install tests, and their arguments: FILE --NAME VALUE for each name."""

import argparse
import functools
import os
import re
import shlex
import subprocess
import sys
import unittest

options = argparse.Namespace()  # the arguments, by name


def output(*command, cwd=None, **environment):
    """What the command prints; a failure shows all that it said."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, env={**os.environ, **environment}, capture_output=True,
                          text=True, timeout=240)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@functools.cache
def help_of(*command):
    """(short options, long options, commands) of `ltrain` or of a command of it, in the order of its --help."""
    text = output(options.ltrain, *command, "--help")
    pairs = re.findall(r"^  (?:(-\w)(?:,|(?= )))?(--[\w.-]+)?", text, re.MULTILINE)
    below = re.search(r"^Subcommands:\n((?:  .*\n)*)", text, re.MULTILINE)
    shorts, longs = ([name for name in names if name] for names in zip(*pairs, strict=True))
    return shorts, longs, [line.split()[0] for line in below[1].splitlines()] if below else []


def main(*names):
    """Reads the arguments of these names and runs the tests."""
    parser = argparse.ArgumentParser()
    for name in names:
        parser.add_argument("--" + name, required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(module="__main__", argv=[sys.argv[0], *rest])
