"""scripts/bench precision: losses, memory of activations and speed with bf16 activations, or with
exact products, beside fp32."""

import json
import os
import re
import statistics
import subprocess
import tempfile

import chart
import lm
import runner
import torch_peer

# What a job file says for each setting.
LINES = {"fp32": "", "bf16": 'precision = "bf16"\n', "x15": 'arithmetic = "x15"\n',
         "x22": 'arithmetic = "x22"\n'}
POINTS = 4  # evaluations of a run
# The name of the job of `scripts/bench lm`, and how long it is trained.
SHAKESPEARE, SHAKESPEARE_STEPS = "shakespeare", 2000


def job_text(path, seed, setting, steps):
    """The job with another seed, setting and length, evaluated POINTS times."""
    with open(path) as file:
        text = file.read()
    steps = steps or int(re.search(r"^steps = (\d+)", text, re.MULTILINE).group(1))
    text = re.sub(r"^(seed|precision|arithmetic|eval_every|steps|epochs) = .*\n", "", text, flags=re.MULTILINE)
    return (f"seed = {seed}\n{LINES[setting]}steps = {steps}\n"
            f"eval_every = {steps // POINTS}\n{text}")


def esctl_json(esctl, *arguments):
    done = subprocess.run([esctl, *arguments, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise runner.BenchError(f"{' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def measure(esctl, name, path, settings, seeds, steps, devices):
    """Returns the runs of a job file: {"setting", "seed", "losses" [[step, loss]], "samples_per_s",
    "arena_bytes"}."""
    runs = []
    for seed in range(1, seeds + 1):
        for setting in settings:
            runner.progress(f"{name}: seed {seed}, {setting}")
            # Beside the job file, because its paths are relative to its folder.
            with tempfile.NamedTemporaryFile("w", suffix=".toml", dir=os.path.dirname(path)) as job:
                job.write(job_text(path, seed, setting, steps))
                job.flush()
                memory = esctl_json(esctl, "inspect", job.name, "--no-d2")["classes"][0]["memory"]
                ran = esctl_json(esctl, "run", job.name, "--devices", devices, "--quiet")
            runs.append({"setting": setting, "seed": seed,
                         "losses": [[e["version"], e["mean_loss"]] for e in ran["evaluations"]],
                         "samples_per_s": ran["samples_per_s_mean"],
                         "arena_bytes": memory["arena_bytes"]})
    return runs


def of_setting(result, setting):
    return [r for r in result["runs"] if r["setting"] == setting]


def losses_at(runs, point):
    return [r["losses"][point][1] for r in runs]


def mean_and_deviation(values):
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.4f} ± {deviation:.4f}"


def pairs(results, settings):
    """Each job's runs with fp32, and those with each other setting."""
    for result in results:
        for setting in settings[1:]:
            yield result["job"], setting, of_setting(result, "fp32"), of_setting(result, setting)


def table(results, settings):
    rows = ["| job | setting | step | loss fp32 | loss | mean difference of a seed |",
            "|---|---|---|---|---|---|"]
    for job, setting, fp32, other in pairs(results, settings):
        for point, (step, _) in enumerate(fp32[0]["losses"]):
            a, b = losses_at(fp32, point), losses_at(other, point)
            difference = statistics.mean(y - x for x, y in zip(a, b))
            rows.append(f"| {job} | {setting} | {step} | {mean_and_deviation(a)} "
                        f"| {mean_and_deviation(b)} | {difference:+.4f} |")
    rows += ["", "| job | setting | arena fp32, MiB | arena, MiB | ratio | samples/s beside fp32 |",
             "|---|---|---|---|---|---|"]
    for job, setting, fp32, other in pairs(results, settings):
        a, b = fp32[0]["arena_bytes"] / 2**20, other[0]["arena_bytes"] / 2**20
        speed = statistics.median(y["samples_per_s"] / x["samples_per_s"]
                                  for x, y in zip(fp32, other))
        rows.append(f"| {job} | {setting} | {a:.2f} | {b:.2f} | {b / a:.3f} | {speed:.2f} |")
    return "\n".join(rows)


def svg(results, settings):
    series = {s: [statistics.mean(losses_at(of_setting(r, s), -1)) for r in results]
              for s in settings}
    return chart.bars("mean loss of the evaluations after the last step",
                      [r["job"] for r in results], series, form="{:.3f}")


def shakespeare_job(python, esctl, text, folder):
    """Writes the job of `scripts/bench lm` with one EST, and returns its file."""
    done = subprocess.run(
        [python, "lm_ours.py", os.path.abspath(text), os.path.join(folder, SHAKESPEARE), "--steps",
         str(SHAKESPEARE_STEPS)], capture_output=True, text=True, cwd=torch_peer.FOLDER,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "EASYSCALE_ESCTL": esctl})
    if done.returncode != 0:
        raise runner.BenchError(f"the job of Shakespeare's plays: {done.stderr.strip()[-500:]}")
    return os.path.join(folder, SHAKESPEARE, "one_est", "job.toml")


def main(args):
    (esctl, _) = runner.build_programs()
    devices = args.devices or f"cpu-{runner.kernel_class()}:1"
    settings = ["fp32", *args.beside]
    with tempfile.TemporaryDirectory() as folder:
        files = {job: shakespeare_job(torch_peer.python(args.python), esctl, args.text, folder)
                 if job == SHAKESPEARE else os.path.join(runner.ROOT, job) for job in args.jobs}
        results = [{"job": job,
                    "runs": measure(esctl, job, file, settings, args.seeds, args.steps, devices)}
                   for job, file in files.items()]
    print(table(results, settings))
    runner.write_results(args, results, svg(results, settings))


def add_arguments(parser):
    parser.add_argument("--jobs", nargs="+", metavar="FILE",
                        help=f"job files, or {SHAKESPEARE}: the model of scripts/bench lm "
                             "(default: four tiny models)",
                        default=[f"configs/jobs/tiny_{m}.toml"
                                 for m in ("gpt2", "llama", "resnet18", "swin_t")])
    parser.add_argument("--beside", nargs="+", metavar="SETTING", default=["bf16"],
                        choices=[setting for setting in LINES if setting != "fp32"],
                        help="beside fp32: bf16, x15, x22 (default: bf16)")
    parser.add_argument("--seeds", type=int, default=5, help="seeds 1 to N (default 5)")
    parser.add_argument("--steps", type=int, help="global steps (default: those of the job)")
    parser.add_argument("--devices", help="placement (default: one device of the widest class)")
    parser.add_argument("--text", default=lm.TEXT, help=f"of {SHAKESPEARE} (default: that of ../shared)")
    parser.add_argument("--python", help="Python with torch (default: that of setup_pytorch)")
