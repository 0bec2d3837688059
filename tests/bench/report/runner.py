"""Runs the contestants: programs pinned to one core, their JSON lines, medians and spread."""

import json
import math
import os
import re
import statistics
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BUILD = os.path.join(ROOT, "build")
# These variables choose other kernels inside the libraries of the peers, and so would decide the
# result.
PEER_VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "ONEDNN_MAX_CPU_ISA",
                  "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")


class BenchError(Exception):
    """An error that a user can correct. It is printed without a traceback."""


def build(*targets):
    """Builds programs of tests/bench and returns their paths."""
    return build_paths(os.path.join("tests", "bench", t) for t in targets)


def build_programs():
    """Builds esctl and easyscaled and returns their paths."""
    return build_paths(os.path.join("actors", p, p) for p in ("esctl", "easyscaled"))


def build_paths(paths):
    paths = list(paths)
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        raise BenchError("build/ is not set up: run scripts/setup first")
    done = subprocess.run(["ninja", "-C", BUILD, *paths], capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError("the build failed:\n" + done.stdout[-3000:])
    return [os.path.join(BUILD, p) for p in paths]


def kernel_class():
    """The widest class of this processor."""
    flags = set(open("/proc/cpuinfo").read().split())
    if {"avx512f", "avx512dq", "avx512vl", "avx512bw"} <= flags:
        return "avx512"
    return "avx2" if "avx2" in flags else "scalar"


def require_torch(python):
    """The peers need torchvision for this interpreter."""
    done = subprocess.run([python, "-c", "import torchvision"], capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError(f"{python} has no torchvision: install python3-torch and "
                         "python3-torchvision, or give --ours-only")


def processor():
    found = re.search(r"model name\s*:\s*(.*)", open("/proc/cpuinfo").read())
    return found.group(1) if found else "unknown processor"


def cores(first, count):
    """`count` cores that begin with `first`; after the last one of the machine comes core 0."""
    there = os.cpu_count()
    if not 0 <= first < there or not 1 <= count <= there:
        raise BenchError(f"core {first} and {count} threads: this machine has {there} cores")
    return [(first + i) % there for i in range(count)]


def one_core_environment(threads=1):
    """The environment without the variables of the peers' libraries; `threads` for all of them."""
    env = {k: v for k, v in os.environ.items() if k not in PEER_VARIABLES}
    env.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
                             str(threads)))
    return env


def run_plain(command, core, cwd=None, variables=None):
    """Runs a command on one core, or on a list of cores with a thread for each, and returns its
    output."""
    pinned = core if isinstance(core, list) else [core]
    done = subprocess.run(["taskset", "-c", ",".join(map(str, pinned)), *command],
                          capture_output=True, text=True, cwd=cwd,
                          env=one_core_environment(len(pinned)) | (variables or {}))
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def run_json(command, core, cwd=None, variables=None):
    """Runs a command as run_plain and returns the JSON object on the last line that has one."""
    lines = [l for l in run_plain(command, core, cwd, variables).splitlines() if l.startswith("{")]
    if not lines:
        raise BenchError(f"{' '.join(command)}: printed no result")
    return json.loads(lines[-1])


def allowed(what, given, known):
    """Error: something of `given` is not known."""
    for name in given:
        if name not in known:
            raise BenchError(f"{what} {name}: allowed are {', '.join(known)}")


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def median(values):
    return statistics.median(values)


def spread(values):
    """(largest - smallest) / median: the noise of a measurement."""
    return (max(values) - min(values)) / median(values)


def progress(text):
    print(text, file=sys.stderr, flush=True)


def write_results(args, results, svg):
    if args.json:
        with open(args.json, "w") as out:
            json.dump(results, out, indent=1)
            out.write("\n")
    if args.svg:
        with open(args.svg, "w") as out:
            out.write(svg)
