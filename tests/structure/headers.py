"""Checks that every public header compiles alone, with only its own folder on the include path, and includes only the
standard library and other public headers. Arguments: the root of the source tree, the C++ compiler."""

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


def compile_alone(compiler, include, name):
    """What the compiler says of a file that holds nothing but the header, twice."""
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++", "-I", str(include), "-"]
    text = f'#include "{name}"\n' * 2
    finished = subprocess.run(command, input=text, capture_output=True, text=True)
    return finished.stderr if finished.returncode else ""


def main():
    include = pathlib.Path(sys.argv[1]) / "libtrain" / "include"
    headers = sorted(include.rglob("*.h"))
    failures = [f"{path.name} includes {name}" for path in headers for name in foreign_includes(path.read_text())]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        names = [str(path.relative_to(include)) for path in headers]
        failures += [text for text in pool.map(lambda name: compile_alone(sys.argv[2], include, name), names) if text]
    print(*failures, f"{len(headers)} headers, {len(failures)} failures", sep="\n")
    return 1 if failures or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
