"""Each folder has a namespace within lt for everything that users do not see. lt itself has only the declarations of
public headers, and their definitions. Run with the root of the source tree; prints each violation as FILE:LINE."""

import pathlib
import re
import sys

from includes import PUBLIC, code_of, layer_of, report, sources

# A folder's namespace has its name, unless a function or a namespace for users has it.
NAMESPACES = {"checkpoints": "checkpoint", "generate": "generator", "plan": "planner", "record": "recorder", "save": "saver"}
FOR_USERS = {"lt", "lt::nn", "lt::ops", "lt::checkpoint"}

OPENED = re.compile(r"(?:inline )?namespace (?:LT_API )?(\w[\w:]*) \{")
ANNOUNCED = re.compile(r"(class|struct|enum class) \w+( : \w[\w:]*)?;|\w+ \w+\([^)]*\);")
ATTRIBUTES = re.compile(r"\[\[[^\]]*\]\] ?|template <[^>]*> ?|(inline|constexpr|static|extern|using|enum|friend|explicit) ")
CLASS = re.compile(r"(?:class|struct|union|enum class) (?:alignas\(\w+\) )?(\w+)")
NAME = re.compile(r"((?:\w+::)*(?:~?\w+|operator\W+?)) ?(?:[({=;]|\[|: \w)")  # of a function, variable or alias
NO_DEFINITION = re.compile(r"\W*$|\W(?!\[)|namespace|using namespace|public:|private:|protected:")


def end_of(lines, start):
    """The index of the line that closes what the line `start` opens."""
    depth = 0
    for end in range(start, len(lines)):
        depth += lines[end].count("{") - lines[end].count("}")
        if depth <= 0:
            return end
    return len(lines)


def code_lines(text):
    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.DOTALL)
    return [code_of(line).rstrip() for line in text.splitlines()]


def blocks(lines):
    """The outermost namespaces of a file: the index of the line that opens it, the name, the lines within."""
    start = 0
    while start < len(lines):
        if opened := OPENED.match(lines[start]):
            end = end_of(lines, start)
            yield start, opened[1], lines[start + 1:end]
            start = end
        start += 1


def names_of(lines):
    """What a namespace declares, but in its unnamed one: (index of the line, name); a member by its class."""
    index = 0
    while index < len(lines):
        line = lines[index]
        if line == "namespace {":
            index = end_of(lines, index)
        elif line and not line.startswith(" ") and not NO_DEFINITION.match(line):
            bare = ATTRIBUTES.sub("", line)
            if found := CLASS.match(bare) or NAME.search(bare):
                yield index, found[1].split("::")[0]
        index += 1


def words_for_users(root):
    public = (root / path for path in sources(root) if path.parts[:len(PUBLIC)] == PUBLIC)
    return {word for path in public for line in code_lines(path.read_text()) for word in re.findall(r"\w+", line)}


def complaints(root, path, words):
    layer, is_public = layer_of(path), path.parts[:len(PUBLIC)] == PUBLIC
    folder = "lt::" + NAMESPACES.get(layer, layer)
    lines = code_lines((root / path).read_text())
    within = set()
    for start, name, inner in blocks(lines):
        within.update(range(start, start + len(inner) + 2))
        is_announcement = all(not line or ANNOUNCED.fullmatch(line) for line in inner)
        if is_announcement or (name in FOR_USERS if is_public else name == folder or name.startswith(folder + "::")):
            continue
        if is_public or name != "lt":
            yield f"{path}:{start + 1}: {name} is not the namespace of {'public headers' if is_public else f'this folder, {folder}'}"
            continue
        for index, stray in names_of(inner):
            if stray not in words:
                yield f"{path}:{start + 2 + index}: {stray} is in no public header: it belongs to {folder}"
    if path.suffix in (".h", ".cuh"):
        for index, name in names_of([line if index not in within else "" for index, line in enumerate(lines)]):
            yield f"{path}:{index + 1}: {name} is in no namespace"


def violations(root):
    words = words_for_users(root)
    checked = [path for path in sources(root) if layer_of(path) not in ("", "examples", None)]
    return [text for path in checked for text in complaints(root, path, words)], len(checked)


def main():
    return report(*violations(pathlib.Path(sys.argv[1]).resolve()), "files")


if __name__ == "__main__":
    sys.exit(main())
