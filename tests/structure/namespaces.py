"""A folder has a namespace within lt, for what it does not show to users. lt itself has what public headers declare, and its
definitions. Run with the root of the source tree; prints each violation as FILE:LINE."""

import pathlib
import re
import sys

from includes import PUBLIC, code_of, layer_of, report, sources

# A folder's namespace has its name, unless a function or a namespace for users has it.
NAMESPACES = {"checkpoints": "checkpoint", "generate": "generator", "plan": "planner", "record": "recorder", "save": "saver"}

OPENED = re.compile(r"namespace (lt[\w:]*) \{$")
CLASS = re.compile(r"(?:class|struct|union|enum class) (\w+)")
NAME = re.compile(r"((?:\w+::)*~?\w+) ?[({=;]")  # of a function or variable
NO_DEFINITION = re.compile(r"\W|namespace|template|using|$")


def words_for_users(root):
    public = (root / path for path in sources(root) if path.parts[:len(PUBLIC)] == PUBLIC)
    return {word for path in public for word in re.findall(r"\w+", path.read_text())}


def end_of(lines, start):
    """The index of the line that closes what the line `start` opens."""
    depth = 0
    for end in range(start, len(lines)):
        depth += lines[end].count("{") - lines[end].count("}")
        if depth <= 0:
            return end
    return len(lines)


def blocks(text):
    """The named namespaces of a file: the index of the line that opens it, the name, the lines within."""
    lines = [code_of(line).rstrip() for line in text.splitlines()]
    for start, line in enumerate(lines):
        if opened := OPENED.match(line):
            yield start, opened[1], lines[start + 1:end_of(lines, start)]


def names_of(lines):
    """What a namespace declares, but in its unnamed one: (index of the line, name); a member by its class."""
    index = 0
    while index < len(lines):
        if lines[index] == "namespace {":
            index = end_of(lines, index)
        elif not NO_DEFINITION.match(lines[index]) and (found := CLASS.match(lines[index]) or NAME.search(lines[index])):
            yield index, found[1].split("::")[0]
        index += 1


def complaints(root, path, words):
    layer = layer_of(path)
    folder = "lt::" + NAMESPACES.get(layer, layer)
    for start, name, lines in blocks((root / path).read_text()):
        if name == folder or name.startswith(folder + "::"):
            continue
        if name == "lt":
            for index, stray in names_of(lines):
                if stray not in words:
                    yield f"{path}:{start + 2 + index}: {stray} is in no public header: it belongs to {folder}"
        elif any(line and not re.fullmatch(r"(class|struct) \w+;", line) for line in lines):
            yield f"{path}:{start + 1}: {name} is not the namespace of this folder, {folder}"


def violations(root):
    words = words_for_users(root)
    private = [path for path in sources(root) if path.parts[:len(PUBLIC)] != PUBLIC and layer_of(path) not in ("", "examples", None)]
    return [text for path in private for text in complaints(root, path, words)], len(private)


def main():
    return report(*violations(pathlib.Path(sys.argv[1]).resolve()), "files")


if __name__ == "__main__":
    sys.exit(main())
