"""A class of a named namespace is defined in one file. Two that share a name also share the names of their members, and
the linker takes one for the other without a word. Run with the root of the source tree; prints each violation."""

import collections
import pathlib
import re
import sys

from includes import code_of, report, sources

NAMESPACE = re.compile(r"\s*(?:inline )?namespace\s*(?:LT_API )?([\w:]*)\s*\{")
CLASS = re.compile(r"(?:class|struct|union|enum class)\s+(\w+)(?:\s+final)?\s*(?:[:{]|$)(?!:)")


def classes_of(text):
    """The qualified names of the classes that a file defines, but those of unnamed namespaces and of other classes."""
    namespaces, depth = [], 0
    for line in text.splitlines():
        line = code_of(line)
        if namespace := NAMESPACE.match(line):
            namespaces.append((namespace[1], depth))
        elif (found := CLASS.match(line)) and depth == len(namespaces) and all(name for name, _ in namespaces):
            yield "::".join([name for name, _ in namespaces] + [found[1]])
        depth += line.count("{") - line.count("}")
        while namespaces and namespaces[-1][1] >= depth:
            namespaces.pop()


def violations(root):
    """Those of the tree, and how many classes it has."""
    files = collections.defaultdict(list)
    for path in sources(root):
        for name in set(classes_of((root / path).read_text())):
            files[name].append(str(path))
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(files.items()) if len(paths) > 1], len(files)


def main():
    return report(*violations(pathlib.Path(sys.argv[1]).resolve()), "classes")


if __name__ == "__main__":
    sys.exit(main())
