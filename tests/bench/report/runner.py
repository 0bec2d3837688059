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


def one_core_environment():
    env = {k: v for k, v in os.environ.items() if k not in PEER_VARIABLES}
    env.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    return env


def run_plain(command, core, cwd=None):
    """Runs a command on one core and returns its output."""
    done = subprocess.run(["taskset", "-c", str(core), *command], capture_output=True, text=True,
                          cwd=cwd, env=one_core_environment())
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def run_json(command, core, cwd=None):
    """Runs a command on one core and returns the JSON object on the last line that has one."""
    lines = [l for l in run_plain(command, core, cwd).splitlines() if l.startswith("{")]
    if not lines:
        raise BenchError(f"{' '.join(command)}: printed no result")
    return json.loads(lines[-1])


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
