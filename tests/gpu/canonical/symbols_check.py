#!/usr/bin/env python3
"""Checks that kernel libraries define no function that the linker may merge with a function of
another file.

Usage: symbols_check.py NM LIBRARY...

The linker may choose a weak symbol (an inline function or template of a shared header) from an
object that was compiled for AVX-512 for the whole program. The program would then crash on
processors without AVX-512."""
import subprocess
import sys


def main() -> int:
    nm, libraries = sys.argv[1], sys.argv[2:]
    found = []
    for library in libraries:
        listing = subprocess.run([nm, "-C", "--defined-only", library], check=True,
                                 capture_output=True, text=True).stdout
        for line in listing.splitlines():
            fields = line.split(maxsplit=2)
            if len(fields) == 3 and fields[1] in "WwVvu":
                found.append(f"{library}: {fields[2]}")
    for symbol in found:
        print("mergeable symbol in", symbol)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
