"""The main program of scripts/bench."""

import argparse
import os
import signal
import sys

import captured
import checkpoint
import elastic
import ests
import gain
import kernels
import levels
import lm
import models
import precision
import runner
import sched
import shards
import train

PARTS = {"train": train, "gain": gain, "captured": captured, "kernels": kernels, "ests": ests,
         "levels": levels,
         "models": models,
         "lm": lm,
         "precision": precision,
         "elastic": elastic,
         "checkpoint": checkpoint,
         "shards": shards,
         "sched": sched}


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parts = parser.add_subparsers(dest="part", required=True)
    for name, module in PARTS.items():
        part = parts.add_parser(name, help=module.__doc__.split(": ", 1)[1])
        part.add_argument("--json", help="file for the results")
        part.add_argument("--svg", help="file for the chart")
        part.add_argument("--build", default=runner.BUILD, help="build directory (default build)")
        part.add_argument("--core", type=int, default=1, help="core to pin to (default 1)")
        module.add_arguments(part)
    args = parser.parse_args()
    runner.BUILD = os.path.abspath(args.build)
    # Each part ends the processes that it has started before the program exits.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        PARTS[args.part].main(args)
    except runner.BenchError as error:
        sys.exit(f"scripts/bench: {error}")


if __name__ == "__main__":
    main()
