"""Checks that bench/pictures.py draws the same pictures as in docs, that the report's picture is small, and that
documents show all pictures."""

import pathlib
import subprocess
import sys
import tempfile

IN_README = ("beside_pytorch.svg", "scaling.svg")
DRAWN = (*IN_README, "fp8_learning.svg")
MOST_BYTES = 150_000


def problems(root):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-B", root / "bench/pictures.py", folder], check=True)
        for name in DRAWN:
            if (pathlib.Path(folder) / name).read_bytes() != (root / "docs" / name).read_bytes():
                yield f"docs/{name}: not what bench/pictures.py draws from bench/results"
    size = (root / "docs/report.png").stat().st_size
    if size >= MOST_BYTES:
        yield f"docs/report.png: expected less than {MOST_BYTES} bytes, got {size}"
    readme = (root / "README.md").read_text()
    for name in (*IN_README, "report.png"):
        if f"](docs/{name})" not in readme:
            yield f"README.md: does not show docs/{name}"


def main():
    found = list(problems(pathlib.Path(sys.argv[1])))
    for problem in found:
        print(problem)
    print(f"{len(DRAWN) + 1} pictures, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
