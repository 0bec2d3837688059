"""scripts/bench kernels: each canonical kernel beside oneDNN and OpenBLAS."""

import json
import os
import tempfile

import chart
import runner


def table(rows):
    lines = ["| kernel | shape | GFLOP/s or GB/s | peer / ours | spread |", "|---|---|---|---|---|"]
    for r in rows:
        lines.append(f"| {r['kernel']} | {r['shape']} | {r['rate']:.1f} | {r['ratio']:.2f} "
                     f"| {100 * r['spread']:.0f} % |")
    return "\n".join(lines)


def main(args):
    (program,) = runner.build("kernels_bench")
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "kernels.json")
        command = [program, "--json", file] + ([args.filter] if args.filter else [])
        runner.run_plain(command, args.core)
        rows = json.load(open(file))
    print(table(rows))
    svg = chart.bars("peer time / ours (above 1: ours is faster)",
                     [f"{r['kernel']} {r['shape']}" for r in rows],
                     {"ratio": [r["ratio"] for r in rows]}, mark=1.0)
    runner.write_results(args, rows, svg)


def add_arguments(parser):
    parser.add_argument("filter", nargs="?", help="only kernels whose name contains this")
