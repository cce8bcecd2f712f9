"""Prints the public header FILE with its plain comments turned into Doxygen's. A comment line documents the code that
follows it, a comment at the end of a line documents that line, and the first comment documents the file."""

import re
import sys

SPECIAL = re.compile(r"([\\@<>&#%$\"])")


def converted(text):
    lines = text.split("\n")
    column = None  # of a comment at the end of the line before
    if lines[0].startswith("//"):
        yield "/// \\file"
    for line in lines:
        found = re.match(r'((?:[^"/]|"(?:[^"\\]|\\.)*"|/(?!/))*)//( ?.*)$', line)
        code, comment = found.groups() if found else (line, "")
        words = SPECIAL.sub(r"\\\1", comment)
        if not found or code.startswith("#") or comment.startswith(" namespace"):
            column = None
            yield line
        elif code.strip():
            column = len(code)
            yield f"{code}///<{words}" if code.rstrip().endswith((";", ",")) or "=" in code else line
        elif column == len(code):
            yield f"{code}///<{words}"
        else:
            column = None
            yield f"{code}///{words}"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        sys.stdout.write("\n".join(converted(header.read())))
