#!/usr/bin/env python3
"""Checks the compiled kernels for GPUs. It needs no GPU.

  device_code_check.py KERNELS_DIR FILE...

FILE: for each topic the object (.o, with readable PTX) and the report of the assembler (.txt). A
kernel may not spill registers or keep arrays in memory, and it may not need more registers than
allow two of its blocks on a multiprocessor. Its code may not contain an operation with another
rounding than the canonical order, nor an atomic on floats, nor a product on tensor cores of other
numbers than integers. The loop of a dense product reads its next operands from global memory within
the first 60 % of its multiply-adds, in the machine code of every architecture, because later reads
would delay the next iteration. No kernel waits for eight loads one after the other: the assembler
makes such code of loads with conditions, although the source has all loads in front. An exact product
on tensor cores has a loop with integer products and no multiply-add of floats, and the assembler may
not have serialised it. Exit code 77 (skipped) without files."""
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True

# Forbidden PTX: approximations, flushed subnormals, products contracted by the compiler, atomics
# and tensor cores with other numbers than integers.
FORBIDDEN = [r"\.approx\b", r"\.ftz\b", r"\bmad\.\w+\.f32", r"\b(?:atom|red)\.\S*f(?:16|32|64)\b",
             r"\b(?:mma|wmma)\.(?!\S*\.s32\.)", r"\bwgmma\.mma_async\.(?!\S*\.s32\.)"]
REGISTERS = 65536  # Registers of a multiprocessor.
PRODUCT = "7ProductI"  # A part of the mangled names of dense products.
TENSOR = {"10ExactTilesI": (75, 199), "11ExactGroupsI": (90, 90)}  # and the capabilities with their code
# Its groups hide the latency of memory from each other, and take nearly all registers.
ALONE = "11ExactGroupsI"
LATEST_LOAD = 0.6  # Share of the multiply-adds of a loop.
SERIAL_LOADS = 8  # This many in a row are refused.
ENTRY = re.compile(rb"\.entry (\w+)\(.*?\.maxntid (\d+)", re.DOTALL)
INSTRUCTION = re.compile(rb"^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]+)\s", re.MULTILINE)


def threads_of_blocks(ptx):
    return {name.decode(): int(threads) for name, threads in ENTRY.findall(ptx)}


def crowded(kernels, threads):
    """Returns a line for each kernel of which a multiprocessor holds one block only. Registers are
    allocated by eight."""
    return [f"{k.name} for {k.arch}: {k.registers} registers of {threads[k.name]} threads: no two blocks"
            for k in kernels if ALONE not in k.name
            and 2 * -(-k.registers // 8) * 8 * threads[k.name] > REGISTERS]


def spilled(report, kernels):
    """Returns a line for each kernel of a report that needs more than its registers."""
    for k in kernels:
        print(f"{report.stem} {k.arch} {k.registers:3} registers {k.shared:5} bytes shared  {k.name}")
    return [f"{report.name}: {k.name} for {k.arch}: {k.spills} bytes spilled, {k.stack} bytes of stack"
            for k in kernels if k.spills != 0 or k.stack != 0]


def forbidden(ptx):
    """The forbidden instructions in the PTX of an object."""
    found = {match.decode() for match in INSTRUCTION.findall(ptx)}
    return sorted(i for i in found if any(re.search(rule, i) for rule in FORBIDDEN))


def late_loads(kernel, loops):
    """Returns a line for each loop of a product that loads its next operands too late, or not at
    all. `loops`: the result of machine_code.product_loops."""
    problems = [] if loops else [f"{kernel}: no loop with multiply-adds"]
    for multiply_adds, before in loops:
        if len(before) < 2:
            problems.append(f"{kernel}: a loop without loads of both operands")
        problems += [f"{kernel}: a load after {done} of a loop's {multiply_adds} multiply-adds"
                     for done in before if done > LATEST_LOAD * multiply_adds]
    return problems


def serialised(report, text):
    """A line for each warning that the products of groups wait for each other."""
    return [f"{report}: {line.strip()}" for line in text.splitlines() if "wgmma" in line and "serialized" in line]


def exact_products(functions, tensor_loop, multiply_add, products):
    """Returns a line for each exact product without a loop on tensor cores or with an FFMA, and for each
    kind of exact product that no function is."""
    problems = []
    for part, (first, last) in TENSOR.items():
        found = [f for f in functions if part in f.name and first <= int(f.arch[3:]) <= last]
        problems += [] if found else [f"no machine code of {part} found in the objects"]
        for f in found:
            if not any(operation in products for operation in tensor_loop(f)):
                problems.append(f"{f.name} for {f.arch}: no loop with products on tensor cores")
            if multiply_add in f.operations():
                problems.append(f"{f.name} for {f.arch}: a multiply-add of floats")
    return problems


def serial_loads(kernel, run):
    """Returns a line for a kernel that waits for too many loads one after the other. `run`: the result of
    machine_code.serial_loads."""
    if run < SERIAL_LOADS:
        return []
    return [f"{kernel}: {run} loads in a row, each of which is used before the next one is issued"]


def not_built(kernels, functions):
    """Returns a line for each kernel of a report whose machine code was not found. An image does not say
    that it is for sm_90a, only sm_90."""
    built = {(f.name, f.arch) for f in functions}
    return [f"{k.name} for {k.arch}: no machine code found in the objects" for k in kernels
            if (k.name, k.arch.rstrip("a")) not in built]


def readable_ptx(data):
    start = data.find(b".version ")
    return data[start:] if start >= 0 else b""


def main(kernels_dir, *files):
    if not files:
        print("skipped: built without the CUDA toolkit")
        return 77
    sys.path.insert(0, kernels_dir)
    import machine_code
    import resources

    problems, kernels, functions, threads = [], [], [], {}
    for path in map(Path, files):
        if path.suffix == ".txt":
            found = resources.kernels(path.read_text())
            kernels += found
            problems += serialised(path.name, path.read_text())
            problems += spilled(path, found)
        else:
            data = path.read_bytes()
            functions += machine_code.functions(data)
            ptx = readable_ptx(data)
            threads.update(threads_of_blocks(ptx))
            problems += [f"{path.name}: {i}" for i in forbidden(ptx)]
    problems += crowded(kernels, threads) + not_built(kernels, functions)
    for f in functions:
        name = f"{f.name} for {f.arch}"
        problems += serial_loads(name, machine_code.serial_loads(f))
        if PRODUCT in f.name:
            problems += late_loads(name, list(machine_code.product_loops(f)))
    problems += exact_products(functions, machine_code.tensor_loop, machine_code.FMA,
                               machine_code.INTEGER_PRODUCTS)
    kernels_seen = len(threads)
    if kernels_seen == 0:
        problems.append("no PTX found in the objects")
    print("\n".join(problems) or f"{kernels_seen} kernels: nothing spilled, nothing forbidden")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
