"""Checks that docs/explanation/architecture.md matches the tree. Its table of folders must have the folder of each layer. In its
table of questions, each file must exist and have the functions of its row. Run with the root of the source tree; prints
each violation."""

import pathlib
import re
import sys

from includes import LAYERS, folder_of_layer, report

ROOTS = ["", "libtrain/src", "base", "libtrain/include"]


def rows_of(text, title):
    """The rows of the table whose first line begins with `title`, as lists of cells."""
    for line in text.split("\n" + title, 1)[1].splitlines()[2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def expanded(names):
    """The folders that a cell names. A name without a slash is in the folder of the name before it: `libtrain/src/optim`, `data`."""
    parent = ""
    for name in names:
        parent = name.rsplit("/", 1)[0] + "/" if "/" in name.rstrip("/") else parent if "/" not in name else ""
        yield (name if "/" in name else parent + name).rstrip("/")


def folder_complaints(text):
    named = [folder for cells in rows_of(text, "| folder |")
             for folder in expanded(re.findall(r"`([^`]+)`", cells[0]))]
    for layer in (layer for row in LAYERS for layer in row):
        if folder_of_layer(layer) not in named:
            yield f"docs/explanation/architecture.md: no row for {folder_of_layer(layer)}"


def question_complaints(root, text):
    for question, files, functions in rows_of(text, "| question |"):
        texts = []
        for name in re.findall(r"`([^`]+\.(?:h|cpp))`", files + functions):
            found = [root / folder / name for folder in ROOTS if (root / folder / name).is_file()]
            if not found:
                yield f"docs/explanation/architecture.md: {question}: no file {name}"
            texts += [path.read_text() for path in found]
        for name in re.findall(r"`([\w:]+)\(\)`", functions):
            if not any(re.search(rf"\b{name.split('::')[-1]}\(", each) for each in texts):
                yield f"docs/explanation/architecture.md: {question}: {name}() is not in {files}"


def main():
    root = pathlib.Path(sys.argv[1])
    text = (root / "docs/explanation/architecture.md").read_text()
    return report([*folder_complaints(text), *question_complaints(root, text)], len(list(rows_of(text, "| question |"))), "rows")


if __name__ == "__main__":
    sys.exit(main())
