"""scripts/bench precision: losses, memory of activations and speed with bf16 activations beside
fp32."""

import json
import os
import re
import statistics
import subprocess
import tempfile

import chart
import runner

PRECISIONS = ("fp32", "bf16")
POINTS = 4  # evaluations of a run


def job_text(path, seed, precision, steps):
    """The job with another seed, precision and length, evaluated POINTS times."""
    with open(os.path.join(runner.ROOT, path)) as file:
        text = file.read()
    steps = steps or int(re.search(r"^steps = (\d+)", text, re.MULTILINE).group(1))
    text = re.sub(r"^(seed|precision|eval_every|steps) = .*\n", "", text, flags=re.MULTILINE)
    return (f'seed = {seed}\nprecision = "{precision}"\nsteps = {steps}\n'
            f"eval_every = {steps // POINTS}\n{text}")


def esctl_json(esctl, *arguments):
    done = subprocess.run([esctl, *arguments, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise runner.BenchError(f"{' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def measure(esctl, path, seeds, steps, devices):
    """Returns the runs of a job: {"precision", "seed", "losses" [[step, loss]], "samples_per_s",
    "arena_bytes"}."""
    runs = []
    for seed in range(1, seeds + 1):
        for precision in PRECISIONS:
            runner.progress(f"{path}: seed {seed}, {precision}")
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as job:
                job.write(job_text(path, seed, precision, steps))
                job.flush()
                memory = esctl_json(esctl, "inspect", job.name, "--no-d2")["classes"][0]["memory"]
                ran = esctl_json(esctl, "run", job.name, "--devices", devices, "--quiet")
            runs.append({"precision": precision, "seed": seed,
                         "losses": [[e["version"], e["mean_loss"]] for e in ran["evaluations"]],
                         "samples_per_s": ran["samples_per_s_mean"],
                         "arena_bytes": memory["arena_bytes"]})
    return {"job": path, "runs": runs}


def of_precision(result, precision):
    return [r for r in result["runs"] if r["precision"] == precision]


def losses_at(runs, point):
    return [r["losses"][point][1] for r in runs]


def mean_and_deviation(values):
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.4f} ± {deviation:.4f}"


def table(results):
    rows = ["| job | step | loss fp32 | loss bf16 | mean difference of a seed |",
            "|---|---|---|---|---|"]
    for result in results:
        fp32, bf16 = (of_precision(result, p) for p in PRECISIONS)
        for point, (step, _) in enumerate(fp32[0]["losses"]):
            a, b = losses_at(fp32, point), losses_at(bf16, point)
            difference = statistics.mean(y - x for x, y in zip(a, b))
            rows.append(f"| {result['job']} | {step} | {mean_and_deviation(a)} "
                        f"| {mean_and_deviation(b)} | {difference:+.4f} |")
    rows += ["", "| job | arena fp32, MiB | arena bf16, MiB | ratio | samples/s bf16 / fp32 |",
             "|---|---|---|---|---|"]
    for result in results:
        fp32, bf16 = (of_precision(result, p) for p in PRECISIONS)
        a, b = fp32[0]["arena_bytes"] / 2**20, bf16[0]["arena_bytes"] / 2**20
        speed = statistics.median(y["samples_per_s"] / x["samples_per_s"]
                                  for x, y in zip(fp32, bf16))
        rows.append(f"| {result['job']} | {a:.2f} | {b:.2f} | {b / a:.3f} | {speed:.2f} |")
    return "\n".join(rows)


def svg(results):
    series = {p: [statistics.mean(losses_at(of_precision(r, p), -1)) for r in results]
              for p in PRECISIONS}
    return chart.bars("mean loss of the evaluations after the last step",
                      [r["job"] for r in results], series, form="{:.3f}")


def main(args):
    (esctl, _) = runner.build_programs()
    devices = args.devices or f"cpu-{runner.kernel_class()}:1"
    results = [measure(esctl, job, args.seeds, args.steps, devices) for job in args.jobs]
    print(table(results))
    runner.write_results(args, results, svg(results))


def add_arguments(parser):
    parser.add_argument("--jobs", nargs="+", metavar="FILE",
                        default=[f"configs/jobs/tiny_{m}.toml"
                                 for m in ("gpt2", "llama", "resnet18", "swin_t")])
    parser.add_argument("--seeds", type=int, default=5, help="seeds 1 to N (default 5)")
    parser.add_argument("--steps", type=int, help="global steps (default: those of the job)")
    parser.add_argument("--devices", help="placement (default: one device of the widest class)")
