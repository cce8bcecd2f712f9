"""A file includes the standard headers of the names that it uses, itself or through headers of this tree. A build with
many files in one compilation does not notice where one is missing. Run with the root of the source tree; prints each
violation as FILE:LINE."""

import functools
import pathlib
import re
import sys

from includes import INCLUDE, find, sources

# Names of namespace std by the header that declares them; of those that several headers declare, none.
NAMES = {
    "algorithm": "sort stable_sort find find_if any_of all_of none_of count_if fill fill_n transform equal reverse "
                 "lower_bound upper_bound max_element min_element minmax_element clamp remove_if copy_n nth_element",
    "array": "array",
    "atomic": "atomic atomic_flag memory_order_relaxed memory_order_acquire memory_order_release",
    "bit": "bit_cast endian popcount countr_zero bit_ceil has_single_bit",
    "charconv": "from_chars to_chars",
    "cmath": "isfinite isnan sqrt exp log pow floor ceil lround llround cos sin tanh erf fabs hypot log2 nextafter",
    "condition_variable": "condition_variable",
    "cstdio": "fprintf fputs fopen fclose fflush FILE",
    "cstdlib": "getenv _Exit exit abort strtod",
    "cstring": "memcpy memcmp memset memmove strlen strerror strcmp strsignal",
    "deque": "deque",
    "exception": "exception_ptr current_exception rethrow_exception uncaught_exceptions terminate",
    "filesystem": "filesystem",
    "fstream": "ifstream ofstream fstream",
    "functional": "function hash greater",
    "future": "future async promise",
    "iostream": "cout cerr cin",
    "limits": "numeric_limits",
    "map": "map multimap",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared enable_shared_from_this",
    "mutex": "mutex lock_guard unique_lock scoped_lock once_flag call_once",
    "numeric": "accumulate iota gcd lcm reduce partial_sum inner_product",
    "optional": "optional nullopt make_optional",
    "random": "mt19937 mt19937_64 uniform_int_distribution",
    "regex": "regex smatch regex_match regex_search",
    "set": "set multiset",
    "span": "span as_bytes",
    "sstream": "ostringstream istringstream stringstream",
    "stdexcept": "runtime_error logic_error invalid_argument out_of_range",
    "string": "string to_string stoi stol stoll stoull stod getline",
    "string_view": "string_view",
    "thread": "thread jthread this_thread",
    "tuple": "tuple tie make_tuple",
    "type_traits": "is_same_v decay_t invoke_result_t is_void_v remove_cvref_t conditional_t",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "utility": "exchange pair make_pair forward",
    "variant": "variant holds_alternative visit get_if monostate",
    "vector": "vector",
}
HEADER_OF = {name: header for header, names in NAMES.items() for name in names.split()}
USE = re.compile(r"\bstd::(\w+)")
COMMENT = re.compile(r"//.*|\"(?:[^\"\\]|\\.)*\"")


@functools.cache
def standard_headers(root, path):
    """Those that a file includes, itself or through files of the tree."""
    found = set()
    for line in (root / path).read_text().splitlines():
        match = INCLUDE.match(line)
        if match:
            target = find(root, path, match[2], match[1] == '"')
            found |= standard_headers(root, target) if target else {match[2]}
    return found


def violations(root):
    found = []
    for path in sources(root):
        headers, missed = standard_headers(root, path), set()
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            for name in USE.findall(COMMENT.sub("", line)):
                header = HEADER_OF.get(name)
                if header and header not in headers | missed:
                    missed.add(header)
                    found.append(f"{path}:{number}: std::{name} needs <{header}>")
    return found


def main():
    found = violations(pathlib.Path(sys.argv[1]).resolve())
    print(*found, f"{len(found)} violations", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
