#!/usr/bin/env python3
"""Sums ctest's JUnit files, names failed tests and prints "N passed, N failed, N skipped". Exits 1 on a failure.

A test is skipped only if it reported so itself. A test whose program is missing has failed.
"""

import sys
import xml.etree.ElementTree as ElementTree


def main():
    passed, failed, skipped = 0, [], 0
    for path in sys.argv[1:]:
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            reason = case.find("skipped")
            if reason is not None and reason.get("message", "").startswith("SKIP_"):
                skipped += 1
                print(f"skipped: {case.get('name')}")
            elif case.get("status") == "run":
                passed += 1
            else:
                failed.append(f"{path}: {case.get('name')}")
    for name in failed:
        print(f"failed: {name}")
    print(f"{passed} passed, {len(failed)} failed, {skipped} skipped")
    # A suite that ran nothing fails too.
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
