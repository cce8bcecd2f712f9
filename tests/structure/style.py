"""Checks habits: lines have at most 120 columns, files begin with a comment, no work is postponed, no path of one machine
is named, scripts find their folder, and the licence is whole. Run with the root of the source tree; prints each
violation."""

import os
import pathlib
import re
import sys

FOLDERS = ["base", "bench", "checkpoints", "cmake", "docs", "examples", "kernels", "launch", "libtrain", "report", "tests"]
MAX_COLUMNS = 120  # of .clang-format

# What the first line begins with, by the end of a file's name.
FIRST_LINE = {
    (".h", ".cuh", ".cpp", ".cu", ".cpp.in", ".h.in"): r"// \S",
    (".cmake", ".toml"): r"# \S",
    (".py",): r'("""|# )\S',
    (".sh",): r"# \S",
}
SUFFIXES = tuple(suffix for suffixes in FIRST_LINE for suffix in suffixes) + (".md", ".txt")

# Split, so that this file passes its own check.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|HA" r"CK)\b|not( yet)? imple" r"mented", re.IGNORECASE)
MACHINE_PATH = re.compile(r"(?<![\w.$}/<>-])/(wo" r"rk|ho" r"me|ro" r"ot|m" r"nt|Us" r"ers)/")
# An exported CDPATH sends a script's `cd` to another folder, or prints the folder's name.
SCRIPTS_FOLDER = re.compile(r'\bcd (-P )?"\$\(dirname')


def complaints(name, text):
    """What is wrong with one file."""
    lines = text.splitlines()
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    for suffixes, pattern in FIRST_LINE.items():
        if name.endswith(suffixes) and not (lines and re.match(pattern, lines[0])):
            yield f"{name}: its first line does not say what it is for"
    if name.endswith(".sh") and SCRIPTS_FOLDER.search(text) and "\nunset CDPATH\n" not in text:
        yield f"{name}: goes to its folder without `unset CDPATH`"
    for number, line in enumerate(text.splitlines(), 1):
        if name.endswith((".h", ".cpp", ".cu", ".cuh")) and len(line) > MAX_COLUMNS:
            yield f"{name}:{number}: {len(line)} columns, at most {MAX_COLUMNS}: clang-format -i {name}"
        for what, pattern in [("unfinished", UNFINISHED), ("a path of one machine", MACHINE_PATH)]:
            if pattern.search(line):
                yield f"{name}:{number}: {what}: {line.strip()}"


def licence_complaints(text):
    words = " ".join(text.split())
    ends = "END OF TERMS AND CONDITIONS"
    if not words.startswith("Apache License Version 2.0, January 2004 ") or ends not in words or len(words) < 10000:
        yield "LICENSE: is not the whole text of the Apache License 2.0"


def files(root):
    yield from (path for path in sorted(root.iterdir()) if path.is_file() and path.name.endswith(SUFFIXES))
    for folder in FOLDERS:
        for path, folders, names in os.walk(root / folder):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            yield from (pathlib.Path(path, name) for name in sorted(names) if name.endswith(SUFFIXES))


def self_check():
    """Each habit is found where it is broken."""
    good = "// What it is for.\n"
    broken = {
        "a.cpp": ["int x;\n", "", good + "// TO" + "DO: later\n", good + 'throw Error("not imple' + 'mented");\n',
                  good + 'open("/ho' + 'me/me/x");\n'],
        "a.py": ["#!/usr/bin/env python3\nimport os\n", "import os\n"],
        "a.sh": ["#!/usr/bin/env bash\nset -e\n", '# What it does.\ncd "$(dirname "$0")"\n'],
    }
    for name, texts in broken.items():
        for text in texts:
            assert len(list(complaints(name, text))) == 1, (name, text)
    assert not list(complaints("a.cpp", good))
    assert not list(complaints("a.sh", "#!/usr/bin/env bash\n# What it does.\n"))
    assert list(licence_complaints("MIT License"))


def main():
    self_check()
    root = pathlib.Path(sys.argv[1])
    checked = list(files(root))
    found = [text for path in checked for text in complaints(str(path.relative_to(root)), path.read_text())]
    found += licence_complaints((root / "LICENSE").read_text())
    print(*found, f"{len(checked)} files, {len(found)} violations", sep="\n")
    return 1 if found or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
