#!/usr/bin/env python3
"""What a trace costs: the time of a run with and without `--trace`, in turns.

  trace_cost.py ESCTL EASYSCALED JOB.toml [--steps N] [--rounds N] [--devices DEVICES]

Prints the ratio of both times for each round, their median, and the same for two runs without a
trace, which shows the noise. All steps of a traced run are traced.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path


def seconds_of_run(arguments, place, trace):
    command = [arguments.esctl, "run", arguments.job, "--steps", str(arguments.steps), "--devices",
               arguments.devices, "--quiet", "--json"]
    if trace:
        command += ["--trace", str(place / "trace.json"), "--trace-steps", str(arguments.steps)]
    environment = {**os.environ, "EASYSCALED": arguments.easyscaled}
    ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    if trace:
        about = json.loads((place / "trace.json").read_text())["otherData"]
        if about["end_step"] - about["first_step"] != arguments.steps or any(
                p["dropped_spans"] for p in about["processes"]):
            raise SystemExit(f"the trace is not whole: {about}")
        (place / "trace.json").unlink()
    job = json.loads(ended.stdout)
    return sum(stage["seconds"] for stage in job["stages"]), job["params_digest"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("esctl")
    parser.add_argument("easyscaled")
    parser.add_argument("job")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--devices", default="cpu-avx512:1")
    arguments = parser.parse_args()
    arguments.easyscaled = str(Path(arguments.easyscaled).resolve())
    ratios, noise = [], []
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for number in range(arguments.rounds):
            plain, digest = seconds_of_run(arguments, place, False)
            traced, traced_digest = seconds_of_run(arguments, place, True)
            again, _ = seconds_of_run(arguments, place, False)
            if digest != traced_digest:
                raise SystemExit(f"other bits: {digest} and {traced_digest}")
            ratios.append(2 * traced / (plain + again))
            noise.append(again / plain)
            print(f"round {number + 1}: {1e3 * plain / arguments.steps:.3f} ms per step, traced / not "
                  f"traced {ratios[-1]:.4f}, not traced twice {noise[-1]:.4f}", flush=True)
    for name, values in (("traced / not traced", ratios), ("not traced / not traced", noise)):
        print(f"{name}: median {statistics.median(values):.4f}, {min(values):.4f} to "
              f"{max(values):.4f}")


if __name__ == "__main__":
    main()
