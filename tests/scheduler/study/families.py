#!/usr/bin/env python3
"""Runs policy_study on the generated families of scripts/figures robust, over several seeds: the
policy elastic-srtf over the best of the others, by average JCT and by makespan. It takes seconds,
because no actors run.

    tests/scheduler/study/families.py --study build/tests/scheduler/policy_study --seeds 101-103,201"""
import argparse
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/bench/report"))
import robust_loads  # noqa: E402

OURS = "elastic-srtf"
OTHERS = ("easyscale", "max-min-fair", "srtf", "las", "fifo-backfill")


def seeds_of(text):
    """101-103,201 -> 101, 102, 103, 201"""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def results(study, load, directory, cost_s):
    """(average JCT, makespan, rescales) by policy."""
    trace, _, _, steps, *options = load.write(directory)
    cluster = "+".join(f"{t}:{n}" for t, n in load.cluster.items())
    sync = ["--sync", options[options.index("--sync-cost") + 1]] if "--sync-cost" in options else []
    done = subprocess.run([study, trace, "--times", steps, "--cluster", cluster, "--rescale",
                           str(cost_s), *sync, OURS, *OTHERS],
                          capture_output=True, text=True, check=True)
    head, *lines = done.stdout.splitlines()
    # A name of a trace may contain spaces, so columns are counted from the end.
    return {w[-13]: (float(w[-12]), float(w[-8]), int(w[-5])) for w in map(str.split, lines)}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default=ROOT / "build/tests/scheduler/policy_study")
    parser.add_argument("--families", default=",".join(robust_loads.FAMILIES))
    parser.add_argument("--seeds", default="101-109")
    parser.add_argument("--costs", default="1,10,30", help="seconds of a rescale")
    args = parser.parse_args()
    print("| family | rescale, s | JCT, mean | largest | makespan, mean | largest | rescales |")
    print("|---|---|---|---|---|---|---|")
    for family in args.families.split(","):
        for cost_s in args.costs.split(","):
            jct, makespan, rescales = [], [], []
            for seed in seeds_of(args.seeds):
                size = 0.1 if family == "two-month" else 1
                load = robust_loads.FAMILIES[family](random.Random(seed), size)
                with tempfile.TemporaryDirectory() as directory:
                    of = results(args.study, load, directory, cost_s)
                jct.append(of[OURS][0] / min(of[other][0] for other in OTHERS))
                makespan.append(of[OURS][1] / min(of[other][1] for other in OTHERS))
                rescales.append(of[OURS][2])
            print(f"| {family} | {cost_s} | {geometric_mean(jct):.3f} | {max(jct):.3f} | "
                  f"{geometric_mean(makespan):.3f} | {max(makespan):.3f} | "
                  f"{sum(rescales) / len(rescales):.0f} |", flush=True)


if __name__ == "__main__":
    main()
