"""A file must include the header of this tree that defines a type or free function that it uses, directly or through
other headers. A build with many files in one compilation does not notice a missing include. Names that are also members
are not checked. Run with the root of the source tree; prints each violation as FILE:LINE."""

import functools
import pathlib
import re
import sys

from includes import INCLUDE, RANK, ROOTS, code_of, find, report, sources
from namespaces import NAMESPACES

DEFINITION = re.compile(r"^( *)(?:template <.*> )?(?:struct|class|enum class|using) (?:alignas\(.*\) )?([A-Z]\w+)")
FUNCTION = re.compile(r"^( *)(?:template <.*> )?(?:[\w:<>,&*\[\]]+ )*[\w:<>,&*]+ [&*]*([a-z]\w+)\(")
VARIABLE = re.compile(r"\b([a-z]\w+) = \[|[&*> ]([a-z]\w+)[,);]")  # a lambda, a parameter or a field
OF_CUDA = {"exp", "pow", "sqrt"}
TEMPLATE = re.compile(r"(?:class|typename)(?:\.\.\.)? ([A-Z]\w*)")
OF_FOLDERS = "|".join(NAMESPACES.get(layer, layer) for layer in RANK)
USE = re.compile(rf"(?<![\w.:>])(?:lt::)?(?:(?:{OF_FOLDERS}|cuda)::)*([A-Z]\w+|[a-z]\w+(?=\())")
STATEMENTS = {"return", "else", "throw", "delete", "new", "co_return", "case", "goto"}


def tree(root):
    """All C++ files, the tests' too."""
    yield from sources(root)
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix in (".h", ".cpp"):
            yield path.relative_to(root)


@functools.cache
def defined_in(root, path):
    """What a file defines or announces: in a namespace, and in a class (or a function's body)."""
    found = set(), set()
    for line in (root / path).read_text().splitlines():
        match = DEFINITION.match(line) or FUNCTION.match(line)
        if match and line.split()[0] not in STATEMENTS:
            found[len(match[1]) > 0].add(match[2])
    return found


@functools.cache
def visible_in(root, path):
    """What a file and all that it includes define in namespaces."""
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
        members |= of_class | OF_CUDA
        if path.suffix != ".cpp" and path.suffix != ".cu":
            for name in of_namespace:
                headers.setdefault(name, set()).add(path)
    found, checked = [], 0
    for checked, path in enumerate(tree(root), 1):
        text = (root / path).read_text()
        seen = members | visible_in(root, path) | set(TEMPLATE.findall(text))
        seen |= {name for pair in VARIABLE.findall(text) for name in pair}
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
