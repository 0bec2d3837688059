"""scripts/bench captured: captured models beside the built-in ones of the same architecture, both
trained by `esctl run`."""

import os
import tempfile

import captured_job
import chart
import runner
import torch_peer
from train import WORKLOADS, batch_of

IMAGES = 'kind = "synthetic"\nheight = {side}\nwidth = {side}\nchannels = 3\n'
WORDS = 'kind = "synthetic"\ntokens = 64\nvocabulary = 30522\n'
# Workload: (built-in model, its classes, its data). The captured YOLOv3 has another loss, with a
# target for every cell; losses are a small part of its step.
PAIRS = {
    "resnet18_cifar32_b32": ("resnet18", 10, IMAGES.format(side=32)),
    "resnet50_64_b8": ("resnet50", 1000, IMAGES.format(side=64)),
    "shufflenetv2_64_b32": ("shufflenetv2", 1000, IMAGES.format(side=64)),
    "vgg19_64_b8": ("vgg19", 1000, IMAGES.format(side=64)),
    "swin_t_64_b4": ("swin_t", 1000, IMAGES.format(side=64)),
    "yolov3_96_b2": ("yolov3", 80, IMAGES.format(side=96) + "boxes = 4\n"),
    "neumf_b1024": ("neumf", 10, 'kind = "synthetic"\nusers = 943\nitems = 1682\n'),
    "bert_base_s64_b4": ("bert", 10, WORDS),
    "electra_small_s64_b4": ("electra", 10, WORDS),
}
JOB = """name = "{model}"
max_p = 1
batch_size = {batch}
steps = {steps}
level = "D2"

[model]
name = "{model}"
size = "published"
classes = {classes}

[data]
{data}samples = {samples}

[optimizer]
kind = "sgd"
learning_rate = 0.0001
momentum = 0.9

[resources]
threads = {threads}
"""


def write_built_in(workload, folder, cores, steps):
    """Writes the job of the built-in model, and returns its path."""
    model, classes, data = PAIRS[workload]
    batch = batch_of(workload)
    file = os.path.join(folder, f"{workload}.toml")
    with open(file, "w") as out:
        out.write(JOB.format(model=model, batch=batch, steps=steps, classes=classes, data=data,
                             samples=4 * batch, threads=len(cores)))
    return file


def measure(args, workload, folder):
    """Trains both in turn, in the opposite order in every other round."""
    _, warm, steps = WORKLOADS[workload]
    job = captured_job.CapturedJob(args.python, workload, folder, args.cores, warm, steps)
    built_in = write_built_in(workload, folder, args.cores, warm + steps)
    contestants = {
        "captured": lambda: job.run(args.level),
        "built_in": lambda: captured_job.step_ms(job.esctl, built_in, args.level, args.cores, warm,
                                                 steps)}
    runs = {name: [] for name in contestants}
    for number in range(args.rounds):
        for name in list(contestants)[::-1 if number % 2 else 1]:
            runs[name].append(contestants[name]()["ms"])
    result = {"workload": workload, "level": args.level, "cores": len(args.cores)}
    for name, ms in runs.items():
        result |= {f"{name}_ms": round(runner.median(ms), 4),
                   f"{name}_spread": round(runner.spread(ms), 4)}
    ratios = [captured / own for captured, own in zip(runs["captured"], runs["built_in"])]
    return result | {"ratio": round(runner.median(ratios), 4), "ratio_low": round(min(ratios), 4),
                     "ratio_high": round(max(ratios), 4)}


def table(results):
    rows = ["| workload | built-in ms | spread | captured ms | spread | captured / built-in "
            "| of the rounds |", "|---|---|---|---|---|---|---|"]
    for r in results:
        rows.append(
            f"| {r['workload']} | {r['built_in_ms']:.4g} | {100 * r['built_in_spread']:.1f} % "
            f"| {r['captured_ms']:.4g} | {100 * r['captured_spread']:.1f} % | {r['ratio']:.3f} "
            f"| {r['ratio_low']:.3f} to {r['ratio_high']:.3f} |")
    return "\n".join(rows)


def main(args):
    args.cores = runner.cores(args.core, args.threads)
    args.python = torch_peer.python(args.python)
    runner.allowed("workload", args.workloads, PAIRS)
    results = []
    with tempfile.TemporaryDirectory(prefix="easyscale-bench-") as folder:
        for workload in args.workloads or PAIRS:
            runner.progress(f"{workload} ...")
            results.append(measure(args, workload, folder))
    mean = runner.geometric_mean([r["ratio"] for r in results])
    print(f"{runner.processor()}, cores {','.join(map(str, args.cores))}, level {args.level}, "
          f"medians of {args.rounds} alternating rounds; captured with PyTorch "
          f"{torch_peer.version(args.python)}\n\n{table(results)}\n\n"
          f"captured / built-in: geometric mean {mean:.3f}, largest "
          f"{max(r['ratio'] for r in results):.3f}")
    runner.write_results(args, results, chart.bars(
        "step time of the captured model / that of the built-in one",
        [r["workload"] for r in results], {"ratio": [r["ratio"] for r in results]}, mark=1.0,
        form="{:.3f}"))


def add_arguments(parser):
    parser.add_argument("workloads", nargs="*", help="all nine by default")
    parser.add_argument("--rounds", type=int, default=5, help="alternations (default 5)")
    parser.add_argument("--level", choices=("D1", "D2"), default="D2")
    parser.add_argument("--threads", type=int, default=1, help="each on a core of its own")
    parser.add_argument("--python", help="Python with torch (default: that of setup_pytorch)")
