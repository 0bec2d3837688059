"""scripts/bench gain: what a second core gains, for training steps of both sides."""

import os
import subprocess

import chart
import runner
import torch_peer
import train

THREADS = (1, 2)


class Ours:
    """train_bench with a built-in model, or with the job of a captured one. A job is written once;
    `folder` keeps it for other runs."""

    def __init__(self, args, workload, folder):
        (self.program,) = runner.build("train_bench")
        _, self.warm, self.steps = train.ALL[workload]
        self.words, self.folder = ["--workload", workload], None
        if workload in train.CAPTURED:
            self.words, self.folder = ["--job", "job.toml"], os.path.join(folder, workload)
            if not os.path.exists(os.path.join(self.folder, "job.toml")):
                self._capture(args.python, workload)

    def _capture(self, python, workload):
        (esctl, _) = runner.build_programs()
        done = subprocess.run(
            [python, "captured.py", workload, self.folder, "--steps", "10"], capture_output=True,
            text=True, cwd=torch_peer.FOLDER,
            env={**os.environ, "EASYSCALE_ESCTL": esctl, "PYTHONDONTWRITEBYTECODE": "1"})
        if done.returncode != 0:
            raise runner.BenchError(f"{workload} was not captured:\n{done.stderr[-2000:]}")

    def run(self, cores):
        return runner.run_json(
            [self.program, *self.words, "--level", "D2", "--device",
             "cpu-" + runner.kernel_class(), "--warm", str(self.warm), "--steps", str(self.steps),
             "--threads", str(len(cores))], cores, cwd=self.folder)


def measure(args, workload):
    """Runs both sides with one and with two threads in turn. Of each, the fastest step counts,
    because other work on the machine only makes steps longer."""
    both, warm, steps = train.ALL[workload]
    ours = Ours(args, workload, args.captured)
    cores = {n: runner.cores(args.core, n) for n in THREADS}
    peers = {n: torch_peer.Peer(args.python, workload, both, cores[n], args.cache)
             for n in THREADS}
    peers[2].best = peers[1].best  # the memory layout that is better with one thread
    best, descriptions = {}, {}
    for number in range(args.rounds):
        for n in THREADS[::-1 if number % 2 and peers[1].best else 1]:
            runs = {"ours": ours.run(cores[n])["min_ms"]}
            found = {mode: peers[n].run(mode, warm, steps) for mode in args.modes}
            runs |= {mode: peer["min_ms"] for mode, peer in found.items()}
            descriptions |= {(mode, n): torch_peer.description(peer, mode)
                             for mode, peer in found.items()}
            for name, ms in runs.items():
                best[name, n] = min(ms, best.get((name, n), ms))
    result = {"workload": workload, "captured": workload in train.CAPTURED}
    for name in ("ours", *args.modes):
        one, two = best[name, 1], best[name, 2]
        result[name] = {"ms_1": round(one, 4), "ms_2": round(two, 4), "gain": round(one / two, 3)}
        if name != "ours":
            result[name] |= {f"speedup_{n}": round(best[name, n] / best["ours", n], 3)
                             for n in THREADS}
            result[name]["descriptions"] = [descriptions[name, n] for n in THREADS]
    return result


def table(results, modes):
    head = "".join(f" {mode} 1, ms | 2, ms | gain | speed-up 1 | 2 |" for mode in modes)
    rows = [f"| workload | 1 thread, ms | 2, ms | gain |{head}",
            "|---" * (4 + 5 * len(modes)) + "|"]
    for r in results:
        peers = "".join(
            f" {p['ms_1']:.4g} | {p['ms_2']:.4g} | {p['gain']:.2f} | {p['speedup_1']:.2f} "
            f"| {p['speedup_2']:.2f} |" for p in (r[mode] for mode in modes))
        own = r["ours"]
        rows.append(f"| {r['workload']} | {own['ms_1']:.4g} | {own['ms_2']:.4g} "
                    f"| {own['gain']:.2f} |{peers}")
    return "\n".join(rows)


def summary(results, modes):
    lines = []
    for mode in modes:
        for n in THREADS:
            ratios = [r[mode][f"speedup_{n}"] for r in results]
            lines.append(f"{n} thread{'s' * (n > 1)}: geometric mean "
                         f"{runner.geometric_mean(ratios):.2f} times as fast as PyTorch {mode}, "
                         f"slowest {min(ratios):.2f}")
        less = [r["workload"] for r in results if r["ours"]["gain"] < r[mode]["gain"]]
        lines.append(f"gain less than PyTorch {mode}: {', '.join(less) or 'none'}")
    return "\n".join(lines)


def svg(results, modes):
    series = {name: [r[name]["gain"] for r in results] for name in ("ours", *modes)}
    return chart.bars("time with one thread / time with two", [r["workload"] for r in results],
                      series, mark=1.0)


def main(args):
    args.modes = args.modes.split(",")
    args.python = torch_peer.python(args.python)
    runner.allowed("workload", args.workloads, train.ALL)
    runner.allowed("mode", args.modes, torch_peer.MODES)
    os.makedirs(args.captured, exist_ok=True)
    results = []
    for workload in args.workloads or train.ALL:
        runner.progress(f"{workload} ...")
        results.append(measure(args, workload))
        runner.progress(table(results[-1:], args.modes))
    peers = "; ".join(text for mode in args.modes for text in results[0][mode]["descriptions"])
    print(f"{runner.processor()}, cores {runner.cores(args.core, 2)}, fastest steps of "
          f"{args.rounds} rounds; {peers}\n\n{table(results, args.modes)}\n\n"
          f"{summary(results, args.modes)}")
    runner.write_results(args, results, svg(results, args.modes))


def add_arguments(parser):
    parser.add_argument("workloads", nargs="*", help="of scripts/bench train; all by default")
    parser.add_argument("--rounds", type=int, default=2, help="alternations (default 2)")
    parser.add_argument("--modes", default="eager", help="of PyTorch: eager, compile")
    parser.add_argument("--captured", metavar="FOLDER", type=os.path.abspath,
                        default=os.path.join(runner.BUILD, "captured"),
                        help="keeps captured models (default build/captured)")
    parser.add_argument("--cache", metavar="FOLDER", type=os.path.abspath,
                        default=os.path.join(runner.BUILD, "inductor"),
                        help="keeps what torch.compile has compiled (default build/inductor)")
    parser.add_argument("--python", help="the peer's Python (default: that of setup_pytorch)")
