"""Checks the pages of the documentation: each link leads to a file of the tree and to a heading, docs/README.md links
each page, a page begins with its title, pages are short, and the pages that other files and the test cases that
tests/README.md names exist. Run with the root of the source tree; prints each violation."""

import pathlib
import re
import sys
import tempfile

from style import files

# A word is a token with a letter or a digit. The generated pages are as long as the program's options.
MOST_WORDS, MOST_WORDS_OF_ALL = 1_800, 40_000
GENERATED = ("docs/reference/command-line.md", "docs/reference/configuration.md")
CONTENTS = "docs/README.md"
TESTS = "tests/README.md"  # rows end with `file`: "test case", "test case"; `file`: ...
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)


def headings(text):
    """The anchors of a page, as GitHub makes them of headings. A repeated heading gets a number."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", FENCE.sub("", text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.add(anchor if anchor not in found else next(f"{anchor}-{i}" for i in range(1, 99) if f"{anchor}-{i}" not in found))
    return found


def links(text):
    """The targets of links and images outside of code, without addresses of the web."""
    text = re.sub(r"`[^`]*`", lambda code: " " * len(code[0]), FENCE.sub("", text))
    found = re.findall(r"\]\(\s*<?([^)\s>]+)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    return [target for target in found if not re.match(r"https?://|mailto:", target)]


def pages_of(root):
    yield from sorted(root.glob("*.md"))
    for folder in ("docs", "bench", "examples", "tests"):
        yield from sorted((root / folder).rglob("*.md"))


def missing_tests(page):
    """The files and test cases of the last cells of a table that are not in the page's folder."""
    for row in re.findall(r"^\|.*\|([^|]*)\|$", page.read_text(), re.MULTILINE):
        file = None
        for path, name in re.findall(r'`([^`]+)`|"([^"]+)"', row):
            if path:
                file = page.parent / path
            if not file.is_file():
                yield path or name
            elif name and name not in file.read_text():
                yield name


def problems(root):
    from_contents = {(root / CONTENTS).parent.joinpath(target.split("#")[0]).resolve() for target in links((root / CONTENTS).read_text())}
    words_of_all = 0
    for page in pages_of(root):
        name, text = str(page.relative_to(root)), page.read_text()
        for target in links(text):
            file, _, anchor = target.partition("#")
            where = page.parent / file if file else page
            if not where.exists() or root not in where.resolve().parents:
                yield f"{name}: {target}: no such file in the tree"
            elif anchor and where.suffix == ".md" and anchor not in headings(where.read_text()):
                yield f"{name}: {target}: no such heading"
        if not re.match(r"(<!--.*?-->\n)?# \S", text, re.DOTALL):
            yield f"{name}: does not begin with its title, `# ...`"
        if name.startswith("docs/"):
            words = sum(any(letter.isalnum() for letter in word) for word in text.split())
            words_of_all += words
            if name not in GENERATED and words > MOST_WORDS:
                yield f"{name}: {words} words, at most {MOST_WORDS}"
            if name != CONTENTS and page.resolve() not in from_contents:
                yield f"{name}: {CONTENTS} has no link to it"
    for path in files(root):
        if path.name != pathlib.Path(__file__).name:
            for page in sorted(set(re.findall(r"(?<![\w/-])docs/[\w/-]+\.md\b", path.read_text()))):
                if not (root / page).exists():
                    yield f"{path.relative_to(root)}: {page}: no such page"
    if (root / TESTS).exists():
        for missing in missing_tests(root / TESTS):
            yield f"{TESTS}: {missing}: no such test"
    if words_of_all > MOST_WORDS_OF_ALL:
        yield f"docs: {words_of_all} words, at most {MOST_WORDS_OF_ALL}"


def self_check():
    """Each violation is found where it is made."""
    good = {"README.md": "# A\n[b](docs/b.md#two-words) `[x](no)`\n```sh\n[x](no)\n```\n",
            CONTENTS: "# Contents\n[b](b.md) [web](https://example.org)\n", "docs/b.md": "<!-- Generated. -->\n# B\n## Two `words`!\n",
            "tests/a.py": "def test_it(self):\n", TESTS: '# T\n| 1 | holds | `a.py`: "test_it" |\n'}
    broken = ({"README.md": "# A\n[b](docs/c.svg)\n"}, {"README.md": "# A\n[b](docs/b.md#two)\n"}, {"README.md": "A\n"},
              {"README.md": '# A\n<img src="docs/b.svg">\n'}, {"README.md": "# A\n[b](../../b.md)\n"}, {"docs/c.md": "# C\n"},
              {"docs/b.md": "# B\n## Two words\n" + "a " * MOST_WORDS}, {"docs/b.py": '"""See docs/old/c.md."""\n'},
              {TESTS: '# T\n| 1 | `x` holds | `a.py`: "test_it", "test_that" |\n'}, {TESTS: "# T\n| 1 | holds | `b.py` |\n"})
    for change in ({}, *broken):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            for name, text in {**good, **change}.items():
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(text)
            assert len(list(problems(root))) == (1 if change else 0), (change, list(problems(root)))


def main():
    self_check()
    root = pathlib.Path(sys.argv[1]).resolve()
    found = list(problems(root))
    print(*found, f"{len(list(pages_of(root)))} pages, {len(found)} violations", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
