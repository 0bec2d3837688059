"""scripts/bench lm: language models beside PyTorch 2: on Shakespeare's plays, also beside torchrun; in
published sizes."""

import json
import os
import subprocess
import tempfile

import captured_job
import chart
import decoders
import runner
import torch_peer
from train import BuiltIn

TEXT = os.path.join(runner.ROOT, "..", "shared", "data", "tinyshakespeare", "input.txt")
CLOSE_STEPS = 200  # the first steps, whose losses are compared with those of PyTorch
SPEED_STEPS, SPEED_WARM = 100, 20
SHOWN = 200  # points of a curve


def child(words, variables=None):
    """Runs a program of tests/bench/pytorch, and returns the JSON object that it prints."""
    done = subprocess.run(
        words, capture_output=True, text=True, cwd=torch_peer.FOLDER,
        env=runner.one_core_environment() | {"PYTHONDONTWRITEBYTECODE": "1"} | (variables or {}))
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise runner.BenchError(f"{' '.join(words)}: exit code {done.returncode}\n"
                                f"{done.stderr[-2000:]}")
    return json.loads(lines[-1])


def train_ours(args, folder, esctl):
    fast = runner.kernel_class()
    other = {"avx512": "avx2", "avx2": "scalar", "scalar": "scalar"}[fast]
    return child([args.python, "lm_ours.py", args.text, folder, "--steps", str(args.steps),
                  "--fast", f"cpu-{fast}", "--other", f"cpu-{other}"], {"EASYSCALE_ESCTL": esctl})


def torchrun(args, folder, members):
    """Trains by torchrun. `members` = [(number of members, number of steps)]: a later one continues
    with the state of the one before. Returns the losses of all, and the last digest."""
    losses, result, begin = [], None, 0
    state = os.path.join(folder, f"torchrun_{len(members)}.pt")
    for count, steps in members:
        result = child([args.python, "-m", "torch.distributed.run", "--standalone",
                        f"--nproc_per_node={count}", "lm_torch.py", folder, "--steps",
                        str(args.steps), "--begin", str(begin), "--end", str(begin + steps),
                        "--state", state])
        losses += result["losses"]
        begin += steps
    return result | {"losses": losses}


def speed(args, folder, esctl):
    """The time of a step of the same global batch as one EST, on one core."""
    return captured_job.step_ms(esctl, os.path.join(folder, "one_est", "job.toml"), "D2",
                                [args.core], SPEED_WARM, SPEED_STEPS)["ms"]


def torch_alone(args, folder, *words):
    return runner.run_json([args.python, "lm_torch.py", folder, "--steps", str(args.steps), *words],
                           args.core, cwd=torch_peer.FOLDER,
                           variables={"PYTHONDONTWRITEBYTECODE": "1"})


def measure(args):
    esctl, _ = runner.build_programs()
    part = 3 * args.steps // 10
    with tempfile.TemporaryDirectory(prefix="easyscale-bench-") as folder:
        folder = os.path.join(folder, "lm")
        runner.progress("EasyScale: fixed, changing and mixed devices ...")
        results = {"steps": args.steps, "ours": train_ours(args, folder, esctl)}
        runner.progress("PyTorch ...")
        results["torch"] = torch_alone(args, folder)
        torch_peer.refuse_slow(results["torch"], args.peak_gflops, [args.core])
        runner.progress("torchrun: four members, and changing members ...")
        results["torchrun"] = {
            "fixed": torchrun(args, folder, [(4, args.steps)]),
            "changing": torchrun(args, folder, [(4, part), (1, part), (3, args.steps - 2 * part)])}
        runner.progress("the time of a step ...")
        pairs = [(speed(args, folder, esctl),
                  torch_alone(args, folder, "--end", str(SPEED_WARM + SPEED_STEPS))["ms"])
                 for _ in range(args.rounds)]
        results["ms"] = {"ours": [p[0] for p in pairs], "torch": [p[1] for p in pairs]}
    return results


def largest_difference(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


def table(results):
    ours, alone, elastic = results["ours"], results["torch"], results["torchrun"]
    fixed = ours["fixed"]
    rows = ["| run | devices or members | validation loss | loss from the fixed run, at most "
            "| digest of the parameters |", "|---|---|---|---|---|"]
    for name in ("fixed", "changing", "mixed"):
        run = ours[name]
        rows.append(f"| EasyScale, {name} | `{run['stages']}` | {run['validation']:.4f} "
                    f"| {largest_difference(run['losses'], fixed['losses']):.1e} "
                    f"| {run['params_digest']} |")
    for name, members in (("fixed", "4"), ("changing", "4, 1, 3")):
        run = elastic[name]
        apart = largest_difference(run["losses"], elastic["fixed"]["losses"])
        rows.append(f"| torchrun, {name} | {members} | {run['validation']:.4f} | {apart:.1e} "
                    f"| {run['digest']} |")
    rows.append(f"| PyTorch, one process | 1 | {alone['validation']:.4f} | | {alone['digest']} |")
    return "\n".join(rows)


def report(results):
    ours, alone, ms = results["ours"], results["torch"], results["ms"]
    first = largest_difference(ours["fixed"]["losses"][:CLOSE_STEPS], alone["losses"])
    ratios = [torch / own for own, torch in zip(ms["ours"], ms["torch"])]
    return "\n".join([
        f"{runner.processor()}; peer: {torch_peer.description(alone)}", "",
        table(results), "",
        f"* The losses of the first {CLOSE_STEPS} steps differ from those of PyTorch by at most "
        f"{first:.1e}; the validation losses by "
        f"{abs(ours['fixed']['validation'] - alone['validation']):.4f}.",
        f"* A step takes {runner.median(ms['ours']):.2f} ms, and {runner.median(ms['torch']):.2f} "
        f"ms in PyTorch: {runner.median(ratios):.2f} times as fast ({min(ratios):.2f} to "
        f"{max(ratios):.2f} in {len(ratios)} rounds)."])


def smoothed(losses):
    """(step, mean of the losses of as many steps as a point of the chart has)."""
    width = max(1, len(losses) // SHOWN)
    return [(begin + width, sum(losses[begin:begin + width]) / width)
            for begin in range(0, len(losses) - width + 1, width)]


def differences(losses, fixed):
    return smoothed([abs(a - b) for a, b in zip(losses, fixed)])


def svg(results):
    ours, elastic = results["ours"], results["torchrun"]
    fixed = ours["fixed"]["losses"]
    return chart.curves(
        "difference of the training loss from the run on four fixed devices", "step",
        "|difference|", {
            "EasyScale 4, 1, 3 devices and a kill": differences(ours["changing"]["losses"], fixed),
            "EasyScale two device types": differences(ours["mixed"]["losses"], fixed),
            "torchrun 4, 1, 3 members": differences(elastic["changing"]["losses"],
                                                    elastic["fixed"]["losses"])})


def main(args):
    if args.part_of_lm != "shakespeare":
        return decoders.main(args)
    if not os.path.exists(args.text):
        raise runner.BenchError(f"{args.text}: no such file: --text names Shakespeare's plays")
    args.text = os.path.abspath(args.text)
    args.python = torch_peer.python(args.python)
    args.cores = [args.core]
    args.peak_gflops = BuiltIn(args, "neumf_b1024").run("D2")["peak_gflops"]
    results = measure(args)
    print(report(results))
    if args.curve:
        with open(args.curve, "w") as out:
            out.write(chart.curves(
                "loss of the training", "step", "loss",
                {"EasyScale": smoothed(results["ours"]["fixed"]["losses"]),
                 "PyTorch": smoothed(results["torch"]["losses"])}, from_zero=False))
    runner.write_results(args, results, svg(results))


def add_arguments(parser):
    decoders.add_arguments(parser)
    parser.add_argument("--text", default=TEXT, help="the text (default: that of ../shared)")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3, help="of the time of a step (default 3)")
    parser.add_argument("--curve", metavar="FILE", help="file for the chart of the losses")
    parser.add_argument("--python", help="Python with torch (default: that of setup_pytorch)")
