"""A layer may include only layers left of it in LAYERS, and no sibling. Only the layers that THIRD_PARTY names may
include a third-party header. Run with the root of the source tree; prints each violation as FILE:LINE."""

import pathlib
import re
import sys

# From left to right; the folders of one row are siblings.
LAYERS = [
    ["io", "device"],
    ["profile"],
    ["memory"],
    ["kernels"],
    ["tensor"],
    ["ops", "tokenizer"],
    ["nn", "comm", "optim", "data", "record", "drawing"],
    ["watchdog"],
    ["parallel", "checkpoints"],
    ["config"],
    ["save", "generate"],
    ["plan"],
    ["run"],
    ["bench", "report"],
    ["launch"],
    ["examples"],
]

# The folder of each layer: base/LAYER, LAYER itself, and libtrain/src/LAYER for the others.
OF_BASE = {"io", "device", "profile", "memory"}
OF_TREE = {"kernels", "checkpoints", "bench", "report", "launch", "examples"}

# Public headers are in libtrain/include/libtrain/LAYER. Headers outside of these folders have no layer and include nothing,
# but for libtrain.h, which includes what a training program needs.
EVERYWHERE = {"api", "dtype", "error", "progress", "version"}
UMBRELLA = "libtrain"

# Third-party headers, by how their names begin, and the layers that may include them.
THIRD_PARTY = {
    "mpi": ["comm"],
    "nccl": ["comm"],
    "cuda_runtime": ["device", "profile", "kernels"],
    "cublasLt": ["kernels"],
    "cupti": ["bench", "profile"],
    "nvtx3": ["profile"],
    "hdf5": ["checkpoints"],
    "H5": ["checkpoints"],
    "CLI/": ["launch"],
    "toml++/": ["config"],
    "oneapi/": ["kernels"],
    "dnnl": ["kernels"],
    "cudnn": ["kernels"],
    "omp.h": ["kernels"],
    "pcre2": ["tokenizer"],
    "utf8proc": ["tokenizer"],
    "zlib": ["data"],
    "zstd": ["data"],
    "catch2/": [],
}

# The order of the folders within a layer: those of one row do not include each other, and no row a later one. Files beside
# the folders may include all and be included by all.
WITHIN = {
    "comm": [["mpi", "nccl", "tcp"]],
    "checkpoints": [["format", "memory"], ["hugging_face"]],
}

# The prefixes of includes: a header is included by its path below one of these. Only the examples, which are copied, name
# their headers by their own folder.
ROOTS = ["libtrain/include", "libtrain/src", "base", "kernels/include", "."]

RANK = {layer: rank for rank, row in enumerate(LAYERS) for layer in row}
NO_CODE = re.compile(r"//.*|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)'")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
PUBLIC = ("libtrain", "include", "libtrain")


def folder_of_layer(layer):
    return f"base/{layer}" if layer in OF_BASE else layer if layer in OF_TREE else f"libtrain/src/{layer}"


def layer_of(path):
    """The layer of a file, given relative to the root; "" for a header of no layer that all may include; None where the
    file has no place."""
    parts = path.parts
    if parts[:3] == PUBLIC and len(parts) == 4:
        return "" if path.stem in EVERYWHERE else "run" if path.stem == UMBRELLA else None
    if parts[:3] == PUBLIC:
        return parts[3] if parts[3] in RANK and len(parts) == 5 else None
    if parts == ("libtrain", "version.cpp.in"):
        return ""
    return next((layer for layer in RANK if path.is_relative_to(folder_of_layer(layer))), None)


def sources(root):
    for folder in ["base", "libtrain", "kernels", "checkpoints", "bench", "report", "launch", "examples"]:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and re.search(r"\.(h|cuh|cpp|cu)(\.in)?$", path.name):
                yield path.relative_to(root)


def code_of(line):
    """A line without its comment, strings and characters."""
    return NO_CODE.sub("", line)


def report(found, checked, what):
    """Prints the violations; returns the exit code. That nothing was checked is a violation too."""
    print(*found, f"{checked} {what}, {len(found)} violations", sep="\n")
    return 1 if found or checked == 0 else 0


def find(root, includer, name, quoted):
    """The file of the tree that an include names, or the one that CMake makes it of, or None."""
    folders = ([includer.parent] if quoted else []) + [pathlib.Path(folder) for folder in ROOTS]
    for folder in folders:
        for path in (root / folder / name, root / folder / (name + ".in")):
            if path.is_file():
                return path.resolve().relative_to(root.resolve())
    return None


def folder_of(layer, path):
    """The folder of a private file within its layer; "" if it is in none."""
    below = path.parts[path.parts.index(layer) + 1:]
    return below[0] if len(below) > 1 else ""


def complaint_within(rows, name, folder, other):
    rank = {name: number for number, row in enumerate(rows) for name in row}
    for unknown in {folder, other} - set(rank) - {""}:
        return f"the folder {unknown} has no order within its layer (tests/structure/includes.py)"
    if not folder or not other or folder == other or rank[other] < rank[folder]:
        return None
    return f'"{name}" is of {other}, {"a sibling" if rank[other] == rank[folder] else "right"} of {folder}'


def complaint(root, includer, name, quoted):
    """What is wrong with one include, or None."""
    layer = layer_of(includer)
    target = find(root, includer, name, quoted)
    if target is None:
        if quoted:
            return f'"{name}" is no file of the tree'
        for prefix, allowed in THIRD_PARTY.items():
            if name.startswith(prefix) and layer not in allowed:
                return f"<{name}> belongs to {', '.join(allowed) or 'the tests'}, not to {layer}"
        return None
    other = layer_of(target)
    if other is None:
        return f'"{name}" is of no layer'
    if other == "":
        return None
    if layer == "":
        return f'"{name}" is of {other}: a header of no layer includes none'
    if layer == "examples" and other != "examples" and target.parts[:3] != PUBLIC:
        return f'"{name}" is private: examples include public headers alone'
    spelled = next(target.relative_to(root) for root in ROOTS if target.is_relative_to(root)).as_posix().removesuffix(".in")
    if layer != "examples" and name != spelled:
        return f'"{name}" is spelled "{spelled}"'
    if other == layer and layer in WITHIN:
        return complaint_within(WITHIN[layer], name, folder_of(layer, includer), folder_of(layer, target))
    if other != layer and RANK[other] >= RANK[layer]:
        relation = "a sibling of" if RANK[other] == RANK[layer] else "right of"
        return f'"{name}" is of {other}, {relation} {layer}'
    return None


def violations(root):
    root = pathlib.Path(root)
    found = []
    for path in sources(root):
        if layer_of(path) is None:
            found.append(f"{path}:1: the file is of no layer (tests/structure/includes.py)")
            continue
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                text = complaint(root, path, match[2], match[1] == '"')
                if text:
                    found.append(f"{path}:{number}: {text}")
    return found


def main():
    return report(violations(sys.argv[1]), len(list(sources(pathlib.Path(sys.argv[1])))), "files")


if __name__ == "__main__":
    sys.exit(main())
