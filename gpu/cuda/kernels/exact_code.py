#!/usr/bin/env python3
"""Compiles the kernels of exact products for GPUs of several generations, and prints what the
assembler reports and what the loops on tensor cores consist of, as a table of Markdown.

  exact_code.py [NVCC]

It needs the CUDA toolkit and no GPU. Exit code 1 if a kernel spills registers.
"""
import sys
import subprocess
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
KERNELS = Path(__file__).resolve().parent
sys.path.insert(0, str(KERNELS))
import machine_code  # noqa: E402
import resources  # noqa: E402

# The flags of meson.build that decide the machine code.
FLAGS = ["-std=c++20", "-O3", "--expt-relaxed-constexpr", "-fmad=false", "-ftz=false", "-cubin",
         "-Xptxas=-v", f"-I{KERNELS.parent.parent.parent}"]
TOPICS = [("exact", ["75", "80", "90a", "100"]), ("exact_tiles", ["75", "80", "90a", "100"]),
          ("exact_groups", ["90a"])]
NAMES = ["SplitDigits", "ExactTiles", "ExactGroups"]
# Operations of the loops: products on tensor cores, loads from shared memory, from memory to shared
# memory, and barriers.
SHOWN = {"IMMA": 0x037, "IGMMA": 0x1f1, "LDS": 0x184, "LDSM": 0x03b, "LDGSTS": 0x1ae, "LDG": 0x181,
         "STS": 0x188, "BAR": 0x11d}


def compiled(nvcc, topic, arch, folder):
    """The kernels of a topic for one architecture, with their machine code."""
    cubin = Path(folder) / f"{topic}_{arch}.cubin"
    ran = subprocess.run([nvcc, *FLAGS, f"-gencode=arch=compute_{arch},code=sm_{arch}",
                          str(KERNELS / f"{topic}.cu"), "-o", str(cubin)],
                         capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(ran.stdout + ran.stderr)
    code = {f.name: f for f in machine_code.functions(cubin.read_bytes())}
    for kernel in resources.kernels(ran.stdout + ran.stderr):
        yield kernel, code[kernel.name]


def row(kernel, function, arch):
    name = next((n for n in NAMES if n in kernel.name), None)
    if name is None:
        return None
    digits = kernel.name.split(name + "ILi")[1][0]
    loop = machine_code.tensor_loop(function)
    counts = ", ".join(f"{loop.count(o)} {n}" for n, o in SHOWN.items() if o in loop)
    return (f"| {name} | {'x15' if digits == '2' else 'x22'} | sm_{arch} | {kernel.registers} | "
            f"{kernel.spills} | {len(function.operations())} | {counts or 'none'}"
            f"{f', of {len(loop)} instructions' if loop else ''} |")


def main(nvcc="nvcc"):
    print("| kernel | | GPU | registers | bytes spilled | instructions | loop on tensor cores |\n"
          "|---|---|---|---|---|---|---|")
    spilled = 0
    with tempfile.TemporaryDirectory() as folder:
        for topic, archs in TOPICS:
            for arch in archs:
                for kernel, function in compiled(nvcc, topic, arch, folder):
                    spilled += kernel.spills
                    if shown := row(kernel, function, arch):
                        print(shown, flush=True)
    return 1 if spilled else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
