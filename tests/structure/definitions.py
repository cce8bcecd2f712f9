"""A class of a named namespace must be defined in one file only: if two share a name, they share the names of their
members, and the linker silently merges them. A class of a public header must not be forward-declared outside public
headers, because the compiler would hide its symbols in a shared library. Run with the root of the source tree; prints
each violation."""

import collections
import pathlib
import re
import sys

from includes import PUBLIC, code_of, report, sources

NAMESPACE = re.compile(r"\s*(?:inline )?namespace\s*(?:LT_API )?([\w:]*)\s*\{")
CLASS = re.compile(r"(?:class|struct|union|enum class)\s+(\w+)(?:\s+final)?\s*(?:[:{]|$)(?!:)")
ANNOUNCED = re.compile(r"(?:class|struct|union|enum class)\s+(\w+);")


def classes_of(text, pattern=CLASS):
    """The qualified names of the classes that a file defines, but those of unnamed namespaces and of other classes."""
    namespaces, depth = [], 0
    for line in text.splitlines():
        line = code_of(line)
        if namespace := NAMESPACE.match(line):
            namespaces.append((namespace[1], depth))
        elif (found := pattern.match(line)) and depth == len(namespaces) and all(name for name, _ in namespaces):
            yield "::".join([name for name, _ in namespaces] + [found[1]])
        depth += line.count("{") - line.count("}")
        while namespaces and namespaces[-1][1] >= depth:
            namespaces.pop()


def violations(root):
    """Those of the tree, and how many classes it has."""
    files, announced = collections.defaultdict(list), collections.defaultdict(list)
    for path in sources(root):
        text = (root / path).read_text()
        for name in set(classes_of(text)):
            files[name].append(str(path))
        if path.parts[:len(PUBLIC)] != PUBLIC:
            for name in classes_of(text, ANNOUNCED):
                announced[name].append(str(path))
    twice = [f"{name}: {', '.join(paths)}" for name, paths in sorted(files.items()) if len(paths) > 1]
    public = {name: paths[0] for name, paths in files.items() if pathlib.Path(paths[0]).parts[:len(PUBLIC)] == PUBLIC}
    hidden = [f"{path}: {name}: include {public[name]}"
              for name, paths in sorted(announced.items()) if name in public for path in paths]
    return twice + hidden, len(files)


def main():
    return report(*violations(pathlib.Path(sys.argv[1]).resolve()), "classes")


if __name__ == "__main__":
    sys.exit(main())
