"""scripts/bench shards --part limit: GPT-2 124M on eight devices of a node whose processes may not
have memory of their own for the whole state."""

import json
import re
import subprocess
import tempfile
from pathlib import Path

import process_memory
import runner

WORKERS = 8
EXIT_REFUSED = 4
CHANGES = {"max_p": WORKERS, "batch_size": 1, "steps": 20, "samples": 256, "eval_samples": 8,
           "length": 32}


def write_job(folder, state):
    text = (Path(runner.ROOT) / "configs/jobs/published_gpt2.toml").read_text()
    for key, value in CHANGES.items():
        text, found = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        if found != 1:
            raise runner.BenchError(f"published_gpt2.toml: {key}: there must be one")
    file = folder / f"{state}.toml"
    file.write_text(f'{text}\n[shard]\nstate = "{state}"\n')
    return file


def run(esctl, job, devices, limit=None):
    """Returns the exit code, the outputs and the largest memory of every worker."""
    words = ["prlimit", f"--data={limit}"] if limit else []
    process = subprocess.Popen([*words, esctl, "run", job, "--devices", devices, "--json", "--quiet"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watch = process_memory.Watch(process.pid)
    out, err = process.communicate()
    return process.returncode, out, err, watch.stop()


def digests(what, code, out, err):
    if code != 0:
        raise runner.BenchError(f"{what}: exit code {code}: {err[-500:]}")
    summary = json.loads(out)
    return [summary["params_digest"], summary["state_digest"]]


def main(args, esctl):
    device = f"cpu-{runner.kernel_class()}"
    with tempfile.TemporaryDirectory(prefix="easyscale-bench-") as folder:
        jobs = {state: write_job(Path(folder), state) for state in ("off", "auto")}
        inspected = json.loads(subprocess.run([esctl, "inspect", jobs["off"], "--no-d2", "--json"],
                                              check=True, stdout=subprocess.PIPE).stdout)
        needed = inspected["worker_memory"][WORKERS - 1]
        code, _, refusal, _ = run(esctl, jobs["off"], f"{device}:{WORKERS}", args.limit)
        if code != EXIT_REFUSED:
            raise runner.BenchError(f"the whole state was not refused: exit code {code}")
        runner.progress(refusal.strip().splitlines()[-1])
        *ended, workers = run(esctl, jobs["auto"], f"{device}:{WORKERS}", args.limit)
        limited = digests("the limited run", *ended)
        runner.progress(f"limited: {limited}, MiB of the workers: {workers}")
        expected = args.expect.split(",") if args.expect else digests(
            "the run without a limit", *run(esctl, jobs["auto"], f"{device}:1")[:3])
    formula = needed["divided_bytes"] / 2**20
    results = {"limit": args.limit, "formula_mib": formula, "refusal": refusal.strip(),
               "digests": limited, "expected": expected, "workers": workers}
    print(report(results))
    runner.write_results(args, results, "")
    if limited != expected:
        raise runner.BenchError(f"the digests are {limited}, on one device {expected}")


def report(results):
    lines = ["| worker | own | of the formula | RssAnon | peak of resident memory |",
             "|---" * 5 + "|"]
    for number, mib in enumerate(results["workers"], 1):
        lines.append(f"| {number} | {mib['Own']:.0f} | {mib['Own'] / results['formula_mib']:.2f} "
                     f"| {mib['RssAnon']:.0f} | {mib['VmHWM']:.0f} |")
    same = "those" if results["digests"] == results["expected"] else "NOT those"
    return "\n".join([results["refusal"].splitlines()[-1], "",
                      f"formula: {results['formula_mib']:.0f} MiB", "", *lines, "",
                      f"digests: {', '.join(results['digests'])}: {same} of one device"])


def add_arguments(parser):
    limit = parser.add_argument_group("options of --part limit")
    limit.add_argument("--limit", type=int, default=1200 << 20,
                       help="bytes of its own that a process may have (default %(default)s)")
    limit.add_argument("--expect", metavar="PARAMS,STATE",
                       help="digests of one device (default: they are computed)")
