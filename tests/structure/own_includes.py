"""A file includes the header of this tree that defines a type it uses, itself or through other headers. A build with many
files in one compilation does not notice where one is missing. Run with the root of the source tree; prints each
violation as FILE:LINE."""

import functools
import pathlib
import re
import sys

from includes import INCLUDE, ROOTS, code_of, find, report, sources

DEFINITION = re.compile(r"^( *)(?:template <.*> )?(?:struct|class|enum class|using) (?:alignas\(.*\) )?([A-Z]\w+)")
TEMPLATE = re.compile(r"(?:class|typename)(?:\.\.\.)? ([A-Z]\w*)")
USE = re.compile(r"(?<![\w.:>])(?:lt::)?([A-Z]\w+)")


def tree(root):
    """All C++ files, the tests' too."""
    yield from sources(root)
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix in (".h", ".cpp"):
            yield path.relative_to(root)


@functools.cache
def defined_in(root, path):
    """Types that a file defines or announces: those of a namespace, and those of a class."""
    found = set(), set()
    for line in (root / path).read_text().splitlines():
        match = DEFINITION.match(line)
        if match:
            found[len(match[1]) > 0].add(match[2])
    return found


@functools.cache
def visible_in(root, path):
    """Types of namespaces in a file and all that it includes."""
    names = set(defined_in(root, path)[0])
    for line in (root / path).read_text().splitlines():
        match = INCLUDE.match(line)
        target = match and find(root, path, match[2], match[1] == '"')
        if target:
            names |= visible_in(root, target)
    return names


def violations(root):
    """Those of the tree, and how many files it has."""
    headers, members = {}, set()
    for path in tree(root):
        of_namespace, of_class = defined_in(root, path)
        members |= of_class
        if path.suffix != ".cpp" and path.suffix != ".cu":
            for name in of_namespace:
                headers.setdefault(name, set()).add(path)
    found, checked = [], 0
    for checked, path in enumerate(tree(root), 1):
        seen = members | visible_in(root, path) | set(TEMPLATE.findall((root / path).read_text()))
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            for name in USE.findall(code_of(line)):
                if name in headers and name not in seen:
                    seen = seen | {name}
                    found.append(f"{path}:{number}: {name} needs {' or '.join(map(str, sorted(headers[name])))}")
    return found, checked


def main():
    ROOTS.append("tests")
    return report(*violations(pathlib.Path(sys.argv[1]).resolve()), "files")


if __name__ == "__main__":
    sys.exit(main())
