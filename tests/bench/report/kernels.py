"""scripts/bench kernels: each canonical kernel beside oneDNN and OpenBLAS."""

import json
import os
import tempfile

import chart
import runner


def table(rows):
    lines = ["| case | pass | peer | peer us | ours us | GFLOP/s | of peak | peer / ours | p10..p90 |",
             "|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        dense = r["gflops"] > 0
        lines.append(
            f"| {r['case']} | {r['pass']} | {r['vendor']} | {r['vendor_us']:.1f} "
            f"| {r['ours_us']:.1f} | {r['gflops'] if dense else '-'} "
            f"| {r['of_peak'] if dense else '-'} | {r['ratio']:.2f} "
            f"| {r['ratio_p10']:.2f}..{r['ratio_p90']:.2f} |")
    return "\n".join(lines)


def groups(rows):
    """Groups rows by the first word of a case, which is the model or the operator."""
    found = {}
    for r in rows:
        found.setdefault(r["case"].split()[0], []).append(r)
    return found


def summary(rows):
    lines = ["| group | kernels | peer / ours, geometric mean | slowest beside the peer | ratio |",
             "|---|---|---|---|---|"]
    for name, members in groups(rows).items():
        slowest = min(members, key=lambda r: r["ratio"])
        lines.append(f"| {name} | {len(members)} "
                     f"| {runner.geometric_mean([r['ratio'] for r in members]):.2f} "
                     f"| {slowest['case']} {slowest['pass']} | {slowest['ratio']:.2f} |")
    return "\n".join(lines)


def main(args):
    (program,) = runner.build("kernels_bench")
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "kernels.json")
        runner.run_plain([program, "--json", file] + ([args.filter] if args.filter else []),
                         args.core)
        with open(file) as results:
            measured = json.load(results)
    rows = measured["rows"]
    print(f"{measured['machine']}, {measured['class']}, fp32 peak "
          f"{measured['peak_gflops']:.0f} GFLOP/s\n\n{table(rows)}\n\n{summary(rows)}")
    svg = chart.bars("peer time / ours (above 1: ours is faster)",
                     [f"{r['case']} {r['pass']}" for r in rows],
                     {"ratio": [r["ratio"] for r in rows]}, mark=1.0)
    runner.write_results(args, measured, svg)


def add_arguments(parser):
    parser.add_argument("filter", nargs="?", help="only kernels whose name contains this")
