"""Checks that every public header compiles alone, with only its own folder on the include path, and includes only the
standard library and other public headers; that a program with strict warnings can fill the option structs by designated
initialisers (options.cpp); and that the structs of the configuration have their members in the order of
docs/reference/configuration.md. Arguments: the root of the source tree, the C++ compiler."""

import concurrent.futures
import pathlib
import re
import subprocess
import sys

STANDARD = set("""
algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits clocale cmath
compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime
cuchar cwchar cwctype deque exception execution filesystem format forward_list fstream functional future initializer_list
iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource mutex new numbers numeric
optional ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream
stack stdexcept stop_token streambuf string string_view strstream syncstream system_error thread tuple type_traits typeindex
typeinfo unordered_map unordered_set utility valarray variant vector version
""".split())


def foreign_includes(text):
    """The includes of a header that are neither of the standard library nor public."""
    found = []
    for bracket, name in re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', text, re.MULTILINE):
        is_public = bracket == '"' and re.fullmatch(r"libtrain/(\w+/)?\w+\.h", name)
        if not is_public and not (bracket == "<" and name in STANDARD):
            found.append(name)
    return found


WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]


def complaints(compiler, include, text):
    """What the compiler says of this text."""
    command = [compiler, "-std=c++20", "-fsyntax-only", *WARNINGS, "-x", "c++", "-I", str(include), "-"]
    finished = subprocess.run(command, input=text, capture_output=True, text=True)
    return finished.stderr if finished.returncode else ""


def documented(page):
    """A program that fills each section of the configuration by designated initialisers, in the order of the page."""
    uses = []
    for section, table in re.findall(r"^<!-- generated: (\w+) -->\n\n\| key (.*?)\n\n", page, re.MULTILINE | re.DOTALL):
        keys = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
        structs = {f"{section.capitalize()}Config": keys}
        if section == "model":  # the preset is a key of the program alone
            weights = ["from", "freeze"]
            structs = {"nn::TransformerSpec": [key for key in keys if key not in [*weights, "preset"]], "WeightsConfig": weights}
        uses += [f"lt::{name}{{{', '.join(f'.{key} = {{}}' for key in keys)}}}" for name, keys in structs.items()]
    sections = re.findall(r"^## \[(\w+)\]", page, re.MULTILINE)
    uses.append(f"lt::TrainerOptions{{{', '.join(f'.{section} = {{}}' for section in sections)}}}")
    assert len(uses) == 11, uses
    return f'#include "libtrain/run/trainer.h"\nvoid use(auto...) {{}}\nvoid fill() {{ use({", ".join(uses)}); }}\n'


def main():
    root = pathlib.Path(sys.argv[1])
    include = root / "libtrain" / "include"
    headers = sorted(include.rglob("*.h"))
    failures = [f"{path.name} includes {name}" for path in headers for name in foreign_includes(path.read_text())]
    programs = [f'#include "{path.relative_to(include)}"\n' * 2 for path in headers]
    programs.append((root / "tests/structure/options.cpp").read_text())
    programs.append(documented((root / "docs/reference/configuration.md").read_text()))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failures += [text for text in pool.map(lambda text: complaints(sys.argv[2], include, text), programs) if text]
    print(*failures, f"{len(headers)} headers, {len(failures)} failures", sep="\n")
    return 1 if failures or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
