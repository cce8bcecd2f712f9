"""Reads the pages of the documentation: blocks of code, and the commands in them with the output that a page shows."""

import pathlib
import re
import shlex
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tests/structure"))
from pages import FENCE

HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?")


def blocks(page):
    """(language, text, number of its first line) of each block of code. A block in a list is indented."""
    text = page.read_text()
    for block in re.finditer(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
        lines = [line.removeprefix(block[1]) for line in block[3].splitlines()]
        yield block[2], "".join(line + "\n" for line in lines), text.count("\n", 0, block.start(3)) + 1


def commands(language, block):
    """(command, shown output) of each command of an sh or console block. An sh block shows no output: None.

    A command has the lines that a backslash continues, and the text of a here-document."""
    found, lines = [], block.splitlines()
    while lines:
        line = lines.pop(0)
        if language == "console":
            if not line.startswith("$ "):
                if not found:
                    raise AssertionError(f"a console block starts with \"$ \", got {line!r}")
                found[-1][1].append(line)
                continue
            line = line[2:]
        elif not line.strip() or line.startswith("#"):
            continue
        command = [line]
        while command[-1].endswith("\\") and lines:
            command.append(lines.pop(0))
        end = HEREDOC.search("\n".join(command))
        while end and command[-1] != end[1]:
            command.append(lines.pop(0))
        found.append(("\n".join(command), []))
    return [(command, output if language == "console" else None) for command, output in found]


def written_files(page):
    """(name, text, line of the block) of each file that the commands of a page write by a here-document."""
    for language, block, number in blocks(page):
        if language in ("sh", "console"):
            for name, text in re.findall(r"^cat > (\S+) <<'EOF'\n(.*?)^EOF$", block, re.MULTILINE | re.DOTALL):
                yield name, text, number


def inline_code(page):
    """The text of each piece of code between single backticks."""
    text = FENCE.sub("", page.read_text())
    return [re.sub(r"\s+", " ", code).replace("\\|", "|") for code in re.findall(r"`([^`]+)`", text)]


def simple_commands(text):
    """The words of each simple command: without here-documents, comments and redirections, split at | && || ; & ( )."""
    end = HEREDOC.search(text)
    if end:
        text = re.sub(rf"\n.*^{end[1]}$", "", text, flags=re.MULTILINE | re.DOTALL)
    lexer = shlex.shlex(text.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words, redirected = [], False
    for word in lexer:
        if redirected:
            redirected = False
        elif not set(word) <= set("();<>|&"):
            words.append(word)
        elif set(word) & set("<>"):
            redirected = True
            if words and words[-1] in "012":  # of 2>&1
                words.pop()
        else:
            yield words
            words = []
    yield words
