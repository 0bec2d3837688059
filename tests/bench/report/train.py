"""scripts/bench train: one training step of each workload, ours at D1 and D2 beside PyTorch."""

import os

import chart
import runner

# Workload: (whether channels_last is tried, warm-up steps, measured steps of one round)
WORKLOADS = {
    "resnet18_cifar32_b32": (True, 1, 4),
    "resnet50_64_b8": (True, 1, 5),
    "shufflenetv2_64_b32": (True, 2, 10),
    "vgg19_64_b8": (True, 1, 3),
    "swin_t_64_b4": (False, 1, 4),
    "yolov3_96_b2": (True, 1, 5),
    "neumf_b1024": (False, 20, 200),
    "bert_base_s64_b4": (False, 1, 3),
    "electra_small_s64_b4": (False, 1, 5),
}
LEVELS = ("D1", "D2")


def batch_of(workload):
    return int(workload.rsplit("_b", 1)[1])


class Peer:
    """PyTorch with the better of its two memory layouts, which the first round finds."""

    def __init__(self, directory, workload, core):
        self.workload, self.core, self.directory = workload, core, directory
        both, self.warm, self.steps = WORKLOADS[workload]
        self.layouts = (0, 1) if both else (0,)

    def run(self):
        tries = [runner.run_json(
            ["/usr/bin/python3", "bench.py", self.workload, str(layout), str(self.warm),
             str(self.steps)], self.core, cwd=self.directory) for layout in self.layouts]
        best = min(range(len(tries)), key=lambda i: tries[i]["step_ms"])
        self.layouts = (self.layouts[best],)
        return tries[best]["step_ms"], tries[best]["rss_MiB"]


def run_ours(program, workload, level, core, threads):
    _, warm, steps = WORKLOADS[workload]
    return runner.run_json(
        [program, "--workload", workload, "--level", level, "--device", "cpu-" + runner.kernel_class(),
         "--warm", str(warm), "--steps", str(steps), "--threads", str(threads)], core)


def measure(args, program, workload):
    """Runs all contestants in turn, args.rounds times. Returns a list with one result for each
    level."""
    peer = Peer(args.peers, workload, args.core) if args.peers else None
    ours, peers = {level: [] for level in args.levels}, []
    for _ in range(args.rounds):
        if peer:
            peers.append(peer.run())
        for level in args.levels:
            ours[level].append(run_ours(program, workload, level, args.core, args.threads))
    return [result_of(workload, level, runs, peers) for level, runs in ours.items()]


def result_of(workload, level, runs, peers):
    ms = runner.median([r["ms"] for r in runs])
    result = {
        "workload": workload, "level": level, "batch": batch_of(workload), "ms": round(ms, 4),
        "spread": round(runner.spread([r["ms"] for r in runs]), 4),
        "samples_per_s": round(batch_of(workload) / ms * 1e3, 2),
        "peak_rss_mib": round(max(r["peak_rss_mib"] for r in runs), 1),
        "peer_ms": None, "peer_peak_rss_mib": None, "speedup": None,
        "fraction_of_peak": round(
            runs[0]["gflop"] / (ms * 1e-3) / max(r["peak_gflops"] for r in runs), 3),
    }
    if peers:
        peer_ms = runner.median([p[0] for p in peers])
        result.update(peer_ms=peer_ms, peer_peak_rss_mib=max(p[1] for p in peers),
                      peer_spread=round(runner.spread([p[0] for p in peers]), 4),
                      speedup=round(peer_ms / ms, 3))
    return result


def table(results):
    rows = ["| workload | level | ms | spread | samples/s | of fp32 peak | MiB | PyTorch ms | its "
            "MiB | speed-up |", "|---|---|---|---|---|---|---|---|---|---|"]
    show = lambda value, form: "-" if value is None else form.format(value)
    for r in results:
        rows.append(
            f"| {r['workload']} | {r['level']} | {r['ms']:.4g} | {100 * r['spread']:.1f} % "
            f"| {r['samples_per_s']:.5g} | {r['fraction_of_peak']:.2f} | {r['peak_rss_mib']:.0f} "
            f"| {show(r['peer_ms'], '{:.4g}')} | {show(r['peer_peak_rss_mib'], '{:.0f}')} "
            f"| {show(r['speedup'], '{:.2f}')} |")
    return "\n".join(rows)


def summary(results):
    """Returns the geometric mean and the worst speed-up of each level, and the cost of D2 relative
    to D1."""
    lines = []
    by_level = {level: {r["workload"]: r for r in results if r["level"] == level}
                for level in LEVELS}
    for level, found in by_level.items():
        ratios = [r["speedup"] for r in found.values() if r["speedup"]]
        if ratios:
            mean = runner.geometric_mean(ratios)
            lines.append(f"{level}: geometric mean {mean:.2f} times faster than PyTorch, "
                         f"slowest workload {min(ratios):.2f}")
    both = by_level["D1"].keys() & by_level["D2"].keys()
    if both:
        cost = {w: by_level["D2"][w]["ms"] / by_level["D1"][w]["ms"] - 1 for w in both}
        worst = max(cost, key=cost.get)
        lines.append(f"D2 over D1: at most {100 * cost[worst]:+.1f} % ({worst})")
    return "\n".join(lines)


def svg(results):
    labels = list(dict.fromkeys(r["workload"] for r in results))
    series = {level: [next((r["speedup"] for r in results
                            if (r["workload"], r["level"]) == (w, level)), None) for w in labels]
              for level in LEVELS}
    return chart.bars("PyTorch step time / ours, one core (above 1: ours is faster)", labels,
                      series, mark=1.0)


def peers_directory(given):
    directory = given or os.path.join(runner.ROOT, "..", "shared", "peers")
    if os.path.exists(os.path.join(directory, "bench.py")):
        return directory
    runner.progress(f"no PyTorch peer: {directory}/bench.py is not there; ours only")
    return None


def main(args):
    args.peers = peers_directory(args.peers)
    args.levels = args.levels.split(",")
    for name in args.workloads:
        if name not in WORKLOADS:
            raise runner.BenchError(f"workload {name}: allowed are {', '.join(WORKLOADS)}")
    (program,) = runner.build("train_bench")
    results = []
    for workload in args.workloads or WORKLOADS:
        runner.progress(f"{workload} ...")
        results += measure(args, program, workload)
    print(f"{runner.processor()}, core {args.core}, medians of {args.rounds} alternating rounds"
          f"\n\n{table(results)}\n\n{summary(results)}")
    runner.write_results(args, results, svg(results))


def add_arguments(parser):
    parser.add_argument("workloads", nargs="*", help="all nine by default")
    parser.add_argument("--rounds", type=int, default=3, help="alternations (default 3)")
    parser.add_argument("--levels", default="D1,D2")
    parser.add_argument("--threads", type=int, default=1, help="ours; PyTorch has always one")
    parser.add_argument("--peers", help="folder of the PyTorch peer's bench.py")
