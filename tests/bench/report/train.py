"""scripts/bench train: training steps of built-in and of captured models beside PyTorch 2, eager
and compiled."""

import os
import tempfile

import captured_job
import chart
import runner
import torch_peer

# Workload: (whether channels_last is tried, warm-up steps, measured steps of one round). The models
# are in train_workloads.cc and in pytorch/workloads.py.
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
# Models that are captured; they are trained by `esctl run`.
CAPTURED = {
    "mobilenet_v2_64_b32": (True, 2, 6),
    "efficientnet_b0_64_b16": (True, 2, 6),
    "densenet121_64_b8": (True, 2, 6),
    "regnet_y_400mf_64_b16": (True, 2, 6),
    "convnext_tiny_64_b8": (True, 1, 5),
    "vit_b_16_64_b8": (False, 1, 4),
    "mixer_s32_224_b8": (False, 1, 5),
    "distilbert_s64_b4": (False, 1, 4),
    "gpt2_s64_b4": (False, 1, 3),
    "llama_small_s64_b4": (False, 1, 5),
}
ALL = WORKLOADS | CAPTURED
LEVELS = ("D1", "D2")


def batch_of(workload):
    return int(workload.rsplit("_b", 1)[1])


class BuiltIn:
    """A workload of train_bench."""

    def __init__(self, args, workload):
        (self.program,) = runner.build("train_bench")
        self.workload, self.cores = workload, args.cores

    def run(self, level):
        _, warm, steps = WORKLOADS[self.workload]
        return runner.run_json(
            [self.program, "--workload", self.workload, "--level", level, "--device",
             "cpu-" + runner.kernel_class(), "--warm", str(warm), "--steps", str(steps),
             "--threads", str(len(self.cores))], self.cores)


class Captured:
    """A captured model; its files are made once."""

    def __init__(self, args, workload, folder):
        _, warm, steps = CAPTURED[workload]
        self.job = captured_job.CapturedJob(args.python, workload, folder, args.cores, warm, steps)

    def run(self, level):
        return self.job.run(level)


def measure(args, workload, folder):
    """Runs all contestants in turn, args.rounds times, every other round in the opposite order.
    Returns a list with one result for each level."""
    both, warm, steps = ALL[workload]
    ours = BuiltIn(args, workload) if workload in WORKLOADS else Captured(args, workload, folder)
    cache = args.cache or os.path.join(folder, "inductor")
    peer = torch_peer.Peer(args.python, workload, both, args.cores, cache)
    contestants = {level: lambda level=level: ours.run(level) for level in args.levels}
    contestants |= {mode: lambda mode=mode: peer.run(mode, warm, steps) for mode in args.modes}
    runs = {name: [] for name in contestants}
    for number in range(args.rounds):
        for name in list(contestants)[::-1 if number % 2 else 1]:
            runs[name].append(contestants[name]())
    return [result_of(args, workload, level, runs) for level in args.levels]


def result_of(args, workload, level, runs):
    own = runs[level]
    ms = runner.median([r["ms"] for r in own])
    result = {
        "workload": workload, "level": level, "captured": workload in CAPTURED,
        "batch": batch_of(workload), "cores": len(args.cores), "ms": round(ms, 4),
        "spread": round(runner.spread([r["ms"] for r in own]), 4),
        "samples_per_s": round(batch_of(workload) / ms * 1e3, 2),
        "peak_rss_mib": round(max(r["peak_rss_mib"] for r in own), 1),
        "fraction_of_peak": round(own[0]["gflop"] / (ms * 1e-3) / len(args.cores)
                                  / max(r["peak_gflops"] for r in own), 3)
                            if "gflop" in own[0] else None,
    }
    for mode in args.modes:
        peers = runs[mode]
        mode_ms = runner.median([p["ms"] for p in peers])
        result[mode] = {
            "ms": round(mode_ms, 4), "spread": round(runner.spread([p["ms"] for p in peers]), 4),
            "peak_rss_mib": round(max(p["peak_rss_mib"] for p in peers), 1),
            "speedup": round(mode_ms / ms, 3),
            "description": torch_peer.description(peers[0], mode)}
        torch_peer.refuse_slow(peers[0], args.peak_gflops, args.cores)
    return result


def table(results, modes):
    head = "".join(f" {mode} ms | spread | MiB | speed-up |" for mode in modes)
    rows = [f"| workload | level | ms | spread | samples/s | of fp32 peak | MiB |{head}",
            "|---" * (7 + 4 * len(modes)) + "|"]
    for r in results:
        peak = "-" if r["fraction_of_peak"] is None else f"{r['fraction_of_peak']:.2f}"
        peers = "".join(
            f" {r[mode]['ms']:.4g} | {100 * r[mode]['spread']:.1f} % "
            f"| {r[mode]['peak_rss_mib']:.0f} | {r[mode]['speedup']:.2f} |" for mode in modes)
        rows.append(
            f"| {r['workload']} | {r['level']} | {r['ms']:.4g} | {100 * r['spread']:.1f} % "
            f"| {r['samples_per_s']:.5g} | {peak} | {r['peak_rss_mib']:.0f} |{peers}")
    return "\n".join(rows)


def summary(results, modes):
    """The geometric mean and the worst speed-up of built-in and captured models, and the cost of D2
    relative to D1."""
    lines = []
    for captured, what in ((False, "built-in"), (True, "captured")):
        for level in LEVELS:
            for mode in modes:
                ratios = [r[mode]["speedup"] for r in results
                          if (r["captured"], r["level"]) == (captured, level)]
                if ratios:
                    mean = runner.geometric_mean(ratios)
                    lines.append(f"{what}, {level}: geometric mean {mean:.2f} times as fast as "
                                 f"PyTorch {mode}, slowest {min(ratios):.2f}")
    ms = {(r["workload"], r["level"]): r["ms"] for r in results}
    cost = {w: ms[w, "D2"] / ms[w, "D1"] - 1 for w, level in ms
            if level == "D2" and (w, "D1") in ms}
    if cost:
        worst = max(cost, key=cost.get)
        lines.append(f"D2 over D1: at most {100 * cost[worst]:+.1f} % ({worst})")
    return "\n".join(lines)


def svg(results, modes):
    labels = list(dict.fromkeys(r["workload"] for r in results))
    series = {f"{level}, {mode}": [next((r[mode]["speedup"] for r in results
                                         if (r["workload"], r["level"]) == (w, level)), None)
                                   for w in labels]
              for level in sorted({r["level"] for r in results}) for mode in modes}
    return chart.bars("PyTorch step time / ours (above 1: ours is faster)", labels, series,
                      mark=1.0)


def main(args):
    args.levels, args.modes = args.levels.split(","), args.modes.split(",")
    args.cores = runner.cores(args.core, args.threads)
    args.python = torch_peer.python(args.python)
    runner.allowed("workload", args.workloads, ALL)
    runner.allowed("level", args.levels, LEVELS)
    runner.allowed("mode", args.modes, torch_peer.MODES)
    args.peak_gflops = BuiltIn(args, "neumf_b1024").run("D2")["peak_gflops"]
    results = []
    with tempfile.TemporaryDirectory(prefix="easyscale-bench-") as folder:
        for workload in args.workloads or ALL:
            runner.progress(f"{workload} ...")
            results += measure(args, workload, folder)
            runner.progress(table(results[-len(args.levels):], args.modes))
    peers = "; ".join(results[0][mode]["description"] for mode in args.modes)
    print(f"{runner.processor()}, cores {','.join(map(str, args.cores))}, medians of {args.rounds} "
          f"alternating rounds; {peers}\n\n{table(results, args.modes)}\n\n"
          f"{summary(results, args.modes)}")
    runner.write_results(args, results, svg(results, args.modes))


def add_arguments(parser):
    parser.add_argument("workloads", nargs="*", help="all by default")
    parser.add_argument("--rounds", type=int, default=3, help="alternations (default 3)")
    parser.add_argument("--levels", default="D1,D2")
    parser.add_argument("--modes", default="eager,compile", help="of PyTorch: eager, compile")
    parser.add_argument("--threads", type=int, default=1,
                        help="of both sides, each on a core of its own (default 1)")
    parser.add_argument("--cache", metavar="FOLDER", type=os.path.abspath,
                        help="keeps what torch.compile has compiled, which takes minutes, for "
                             "another run (default: none)")
    parser.add_argument("--python", help="the peer's Python (default: that of setup_pytorch)")
