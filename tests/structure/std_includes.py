"""A file must include the standard headers of the names that it uses, directly or through headers of this tree. A build
with many files in one compilation does not notice a missing include. Run with the root of the source tree; prints each
violation as FILE:LINE."""

import functools
import pathlib
import re
import sys

from includes import INCLUDE, code_of, find, report, sources

# Names of namespace std by the header that declares them. Names that several headers declare are left out.
NAMES = {
    "algorithm": "min max clamp sort stable_sort find find_if any_of all_of none_of count_if fill fill_n transform equal reverse "
                 "lower_bound upper_bound max_element min_element minmax_element remove_if copy_n nth_element",
    "array": "array",
    "atomic": "atomic atomic_flag memory_order_relaxed memory_order_acquire memory_order_release",
    "bit": "bit_cast endian popcount countr_zero bit_ceil has_single_bit",
    "charconv": "from_chars to_chars",
    "chrono": "chrono",
    "cmath": "isfinite isnan sqrt exp log pow floor ceil lround llround cos sin tanh erf fabs hypot log2 nextafter",
    "condition_variable": "condition_variable",
    "cstdint": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t intptr_t",
    "cstdio": "fprintf fputs fopen fclose fflush FILE",
    "cstdlib": "getenv _Exit exit abort strtod",
    "cstring": "memcpy memcmp memset memmove strlen strerror strcmp strsignal",
    "deque": "deque",
    "exception": "exception_ptr current_exception rethrow_exception uncaught_exceptions terminate",
    "filesystem": "filesystem",
    "fstream": "ifstream ofstream fstream",
    "functional": "function greater",
    "future": "future async promise",
    "iostream": "cout cerr cin",
    "limits": "numeric_limits",
    "map": "map multimap",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared enable_shared_from_this",
    "mutex": "mutex lock_guard unique_lock scoped_lock once_flag call_once",
    "new": "bad_alloc nothrow align_val_t",
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
    """Those of the tree, and how many files it has."""
    found, checked = [], 0
    for checked, path in enumerate(sources(root), 1):
        headers, missed = standard_headers(root, path), set()
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            for name in USE.findall(code_of(line)):
                header = HEADER_OF.get(name)
                if header and header not in headers | missed:
                    missed.add(header)
                    found.append(f"{path}:{number}: std::{name} needs <{header}>")
    return found, checked


def main():
    return report(*violations(pathlib.Path(sys.argv[1]).resolve()), "files")


if __name__ == "__main__":
    sys.exit(main())
