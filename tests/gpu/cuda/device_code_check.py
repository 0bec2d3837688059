#!/usr/bin/env python3
"""Checks the compiled kernels for GPUs; needs no GPU.

  device_code_check.py KERNELS_DIR FILE...

FILE: for each topic the object (.o, with its PTX readable) and the assembler's report (.txt).
A kernel may not spill registers nor keep arrays in memory, and its code may not hold an operation that
rounds otherwise than the canonical order says, nor an atomic on floats. Exit code 77 (skipped) without files.
"""
import re
import sys
from pathlib import Path

# PTX: approximations, flushed subnormals, products contracted by the compiler, atomics and tensor cores.
FORBIDDEN = [r"\.approx\b", r"\.ftz\b", r"\bmad\.\w+\.f32", r"\b(?:atom|red)\.\S*f(?:16|32|64)\b",
             r"\b(?:mma|wmma|wgmma)\."]
INSTRUCTION = re.compile(rb"^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]+)\s", re.MULTILINE)


def spilled(report, resources):
    """A line for each kernel of a report that needs more than its registers."""
    kernels = resources.kernels(report.read_text())
    for k in kernels:
        print(f"{report.stem} {k.arch} {k.registers:3} registers {k.shared:5} bytes shared  {k.name}")
    return [f"{report.name}: {k.name} for {k.arch}: {k.spills} bytes spilled, {k.stack} bytes of stack"
            for k in kernels if k.spills != 0 or k.stack != 0]


def forbidden(ptx):
    """The forbidden instructions in the PTX of an object."""
    found = {match.decode() for match in INSTRUCTION.findall(ptx)}
    return sorted(i for i in found if any(re.search(rule, i) for rule in FORBIDDEN))


def readable_ptx(data):
    start = data.find(b".version ")
    return data[start:] if start >= 0 else b""


def main(kernels_dir, *files):
    if not files:
        print("skipped: built without the CUDA toolkit")
        return 77
    sys.dont_write_bytecode = True
    sys.path.insert(0, kernels_dir)
    import resources

    problems, kernels_seen = [], 0
    for path in map(Path, files):
        if path.suffix == ".txt":
            problems += spilled(path, resources)
        else:
            ptx = readable_ptx(path.read_bytes())
            kernels_seen += ptx.count(b".entry ")
            problems += [f"{path.name}: {i}" for i in forbidden(ptx)]
    if kernels_seen == 0:
        problems.append("no PTX found in the objects")
    print("\n".join(problems) or f"{kernels_seen} kernels: nothing spilled, nothing forbidden")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
