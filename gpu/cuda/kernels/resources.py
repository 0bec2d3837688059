"""Reads the resource report of the GPU assembler (ptxas -v)."""
import re
from dataclasses import dataclass

KERNEL = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
STACK = re.compile(r"(\d+) bytes stack frame")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


@dataclass
class Kernel:
    name: str  # mangled
    arch: str  # "sm_80"
    registers: int = -1
    stack: int = -1  # bytes, as those below
    spills: int = -1  # stores and loads
    shared: int = 0


def kernels(report):
    """The kernels of a report, one for each architecture. A number the report lacks is -1."""
    found = []
    for line in report.splitlines():
        if entry := KERNEL.search(line):
            found.append(Kernel(*entry.groups()))
        elif not found:
            continue
        if spills := SPILLS.search(line):
            found[-1].spills = int(spills[1]) + int(spills[2])
        if stack := STACK.search(line):
            found[-1].stack = int(stack[1])
        if registers := REGISTERS.search(line):
            found[-1].registers = int(registers[1])
        if shared := SHARED.search(line):
            found[-1].shared = int(shared[1])
    return found


def summary(report):
    all_kernels = kernels(report)
    if not all_kernels:
        return "no kernels"
    return (f"{len(all_kernels)} kernels and architectures: "
            f"at most {max(k.registers for k in all_kernels)} registers, "
            f"{max(k.shared for k in all_kernels)} bytes of shared memory, "
            f"{sum(k.spills for k in all_kernels)} bytes spilled")
