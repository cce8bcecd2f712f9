"""Checks that docs/pictures holds what bench/pictures.py draws, that docs/benchmarks.md has the tables of
bench/tables.py, that the report's picture is small, and that documents show all pictures."""

import pathlib
import subprocess
import sys
import tempfile

IN_README = ("speed.svg",)
MOST_BYTES = 150_000


def problems(root):
    shown = root / "docs/pictures"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-B", root / "bench/pictures.py", folder], check=True)
        drawn = {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}
    for name in sorted({*drawn, *(path.name for path in shown.glob("*.svg"))}):
        if not (shown / name).is_file() or drawn.get(name) != (shown / name).read_bytes():
            yield f"docs/pictures/{name}: not what bench/pictures.py draws from bench/results"
    if subprocess.run([sys.executable, "-B", root / "bench/tables.py", "--check"], stdout=subprocess.DEVNULL).returncode != 0:
        yield "docs/benchmarks.md: its tables are not what bench/tables.py writes from bench/results"
    for report in root.glob("docs/**/report.png"):
        if report.stat().st_size >= MOST_BYTES:
            yield f"{report}: expected less than {MOST_BYTES} bytes, got {report.stat().st_size}"
    readme = (root / "README.md").read_text()
    for name in IN_README:
        if f"(docs/pictures/{name})" not in readme and f'"docs/pictures/{name}"' not in readme:
            yield f"README.md: does not show docs/pictures/{name}"
    pages = readme + "".join(page.read_text() for page in (root / "docs").rglob("*.md"))
    for picture in sorted((root / "docs").rglob("*.svg")) + sorted((root / "docs").rglob("*.png")):
        if f"/{picture.name})" not in pages and f'/{picture.name}"' not in pages:
            yield f"{picture.relative_to(root)}: no document shows it"


def main():
    found = list(problems(pathlib.Path(sys.argv[1])))
    for problem in found:
        print(problem)
    print(f"{len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
