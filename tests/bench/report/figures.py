"""The main program of scripts/figures."""

import argparse
import json
import os
import sys

import fairness
import figure14
import figure16
import robust
import runner

FIGURES = {"figure14": figure14, "figure16": figure16, "fairness": fairness, "robust": robust}
SHARED_TRACES = os.path.join(runner.ROOT, "..", "shared", "traces")


def main():
    parser = argparse.ArgumentParser(prog="scripts/figures")
    figures = parser.add_subparsers(dest="figure", required=True)
    for name, module in FIGURES.items():
        figure = figures.add_parser(name, help=module.__doc__.split(": ", 1)[1])
        figure.add_argument("--out", required=True,
                            help="directory for the results (JSON), charts (SVG) and tables (CSV)")
        figure.add_argument("--traces", default=SHARED_TRACES,
                            help="directory of the job traces (default ../shared/traces)")
        figure.add_argument("--build", default=runner.BUILD,
                            help="build directory (default build)")
        figure.add_argument("--seed", type=int, default=0,
                            help="of what is random, here and in esctl sim (default 0)")
        if hasattr(module, "add_options"):
            module.add_options(figure)
    args = parser.parse_args()
    runner.BUILD = os.path.abspath(args.build)
    os.makedirs(args.out, exist_ok=True)
    try:
        results, charts = FIGURES[args.figure].run(args)
    except runner.BenchError as error:
        sys.exit(f"scripts/figures: {error}")
    for name, svg in charts.items():
        with open(os.path.join(args.out, f"{name}.svg"), "w") as out:
            out.write(svg)
    with open(os.path.join(args.out, f"{args.figure}.json"), "w") as out:
        json.dump(results, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
