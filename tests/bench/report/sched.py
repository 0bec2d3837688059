"""scripts/bench sched: the cost of decisions and of simulated events, by number of jobs and
devices."""

import argparse
import csv
import gzip
import json
import math
import os
import random
import subprocess
import tempfile
import time

import chart
import runner

TYPES = ("p100", "t4", "v100")
MODELS = 24
PHILLY = os.path.join(runner.ROOT, "..", "shared", "traces", "philly.csv.gz")
PHILLY_DEVICES = 2500
# Loads near the largest that a head is meant for: jobs, devices, ESTs of a job.
LARGE = {"many": (100_000, 10_000, (1, 1, 1, 2, 4, 8)),
         "wide": (10_000, 50_000, (16, 32, 64, 128, 256))}
LARGE_SPAN_S = 50_000


def write_table(path, head, rows):
    with open(path, "w", newline="") as out:
        table = csv.writer(out)
        table.writerow(head)
        table.writerows(rows)


def write_crowd_files(directory, name, speeds, rows, size):
    """The files of a trace on `size` devices of three types. `speeds` has those of each model.
    Returns the arguments of esctl."""
    times = os.path.join(directory, f"{name}-times.csv")
    write_table(times, ("model", "gpu_type", "seconds_per_local_step"),
                ((f"m{m}", TYPES[t], f"{1 / speeds[m][t]:.6f}")
                 for m in range(MODELS) for t in range(3)))
    jobs = os.path.join(directory, f"{name}.csv")
    write_table(jobs, ("job_id", "submit_s", "model", "max_p", "batch_size", "samples_total", "d2",
                       "gpu_type"),
                ((number, *row) for number, row in enumerate(sorted(rows))))
    cluster = ",".join(f"{t}={size // 3 + (i < size % 3)}" for i, t in enumerate(TYPES))
    return ["--trace", jobs, "--steptimes", times, "--cluster", cluster]


def draw_speeds(draw):
    return [[draw.uniform(1, 1.2 + 0.6 * t) for t in range(3)] for _ in range(MODELS)]


def write_crowd(directory, size):
    """A trace with as many devices of three types as jobs that run at its peak: 1.1 times `size`
    jobs of 1 to 4 devices of any types arrive within 1,000 s and need 1,000 to 5,000 s. Returns the
    arguments of esctl."""
    draw = random.Random(1)
    speeds = draw_speeds(draw)
    rows = []
    for _ in range(size * 11 // 10):
        max_p = draw.randint(2, 4) if draw.random() < 0.25 else 1
        rows.append((round(draw.uniform(0, 1000), 3), f"m{draw.randrange(MODELS)}", max_p, 1,
                     draw.randint(1000, 5000) * max_p, 1, draw.choice(TYPES)))
    return write_crowd_files(directory, f"crowd-{size}", speeds, rows, size)


def write_large(directory, name):
    """A load of LARGE: jobs of 500 to 5,000 s arrive within LARGE_SPAN_S, and half of them may mix
    types. Returns the arguments of esctl."""
    count, devices, widths = LARGE[name]
    draw = random.Random(1)
    speeds = draw_speeds(draw)
    rows = []
    for _ in range(count):
        max_p = draw.choice(widths)
        rows.append((round(draw.uniform(0, LARGE_SPAN_S), 3), f"m{draw.randrange(MODELS)}", max_p,
                     1, draw.randint(500, 5000) * max_p, int(draw.random() < 0.5),
                     draw.choice(TYPES)))
    return [*write_crowd_files(directory, name, speeds, rows, devices), "--start-cost", "20",
            "--rescale-cost", "10"]


def write_philly(directory, jobs):
    """The first `jobs` lines of the trace. Returns the arguments of esctl."""
    path = os.path.join(directory, f"philly-{jobs}.csv")
    with gzip.open(PHILLY, "rt") as whole, open(path, "w") as out:
        for _, line in zip(range(jobs + 1), whole):
            out.write(line)
    return ["--trace", path, "--cluster", f"gpu={PHILLY_DEVICES}"]


def simulate(esctl, arguments, policy, core):
    """One run on one core. Returns the report of esctl with processor seconds, wall seconds and
    MiB."""
    command = ["taskset", "-c", str(core), esctl, "sim", *arguments, "--policy", policy, "--json"]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=errors,
                                   env=runner.one_core_environment())
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - begin
        if process.returncode != 0:
            errors.seek(0)
            raise runner.BenchError(f"{' '.join(command)}: exit code {process.returncode}\n"
                                    + errors.read().decode()[-2000:])
        out.seek(0)
        report = json.load(out)
    return report, used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024


def result_of(trace, devices, policy, run):
    report, cpu, wall, mib = run
    if report["unfinished"] > 0:
        raise runner.BenchError(f"{trace}, {policy}: {report['unfinished']} jobs did not end")
    return {"trace": trace, "policy": policy, "devices": devices, "jobs": report["jobs"],
            "events": report["events"], "cpu_seconds": round(cpu, 2),
            "wall_seconds": round(wall, 2), "events_per_s": round(report["events"] / cpu),
            "jobs_per_s": round(report["jobs"] / cpu, 1),
            "us_per_event": round(1e6 * cpu / report["events"], 2),
            "decisions": report["decisions"],
            **{f"decision_ms_{k}": round(report[f"decision_ms_{k}"], 4)
               for k in ("mean", "p99", "max")},
            "rescales": report["rescales"], "mib": round(mib)}


def measure(esctl, args):
    results = []
    with tempfile.TemporaryDirectory() as directory:
        for size in args.sizes:
            arguments = write_crowd(directory, size)
            for policy in args.policies:
                runner.progress(f"crowd of {size}: {policy}")
                results.append(result_of("crowd", size, policy,
                                         simulate(esctl, arguments, policy, args.core)))
        for jobs in args.philly if os.path.exists(PHILLY) else ():
            runner.progress(f"{jobs} jobs of Philly: {args.policies[0]}")
            results.append(result_of("philly", PHILLY_DEVICES, args.policies[0], simulate(
                esctl, write_philly(directory, jobs), args.policies[0], args.core)))
        for name in args.large:
            runner.progress(f"{name}: {args.policies[0]}")
            results.append(result_of(name, LARGE[name][1], args.policies[0], simulate(
                esctl, write_large(directory, name), args.policies[0], args.core)))
    return results


def log_line(results, count):
    """The cost of an event if it had grown like the logarithm of `count` from the first result
    on."""
    first = results[0]
    return [first["us_per_event"] * math.log(r[count]) / math.log(first[count]) for r in results]


def runs(results):
    """The results of each policy on each trace, by size."""
    groups = {}
    for r in results:
        groups.setdefault((r["trace"], r["policy"]), []).append(r)
    for key, group in groups.items():
        yield *key, sorted(group, key=lambda r: r["events"])


# The quantity that grows in a trace. There is one run for each of the others.
COUNT = {"crowd": "devices", "philly": "events"}


def table(results):
    rows = ["| trace | policy | devices | jobs | events | events/s | jobs/s | us per event "
            "| of log n | decision, ms: mean | p99 | max | rescales | MiB |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for trace, _, group in runs(results):
        rows += [f"| {r['trace']} | {r['policy']} | {r['devices']:,} | {r['jobs']:,} "
                 f"| {r['events']:,} | {r['events_per_s']:,} | {r['jobs_per_s']:,.0f} "
                 f"| {r['us_per_event']:.1f} | {r['us_per_event'] / line:.2f} "
                 f"| {r['decision_ms_mean']:.4f} | {r['decision_ms_p99']:.3f} "
                 f"| {r['decision_ms_max']:.1f} | {r['rescales']:,} | {r['mib']} |"
                 for r, line in zip(group, log_line(group, COUNT.get(trace, "events")))]
    return "\n".join(rows)


def growth(trace, policy, group):
    """The cost of an event, beside a curve that grows like the logarithm."""
    count = COUNT[trace]
    what = {"devices": "devices, and as many running jobs",
            "events": f"events ({PHILLY_DEVICES:,} devices)"}[count]
    return chart.lines(f"{policy}: cost of an event", what, "us per event",
                       [f"{r[count]:,}" for r in group],
                       {policy: [r["us_per_event"] for r in group],
                        "c log n": log_line(group, count)})


def stacked(pages):
    """Several charts below each other."""
    height = 400
    parts = [f'<svg y="{height * i}">{page}</svg>' for i, page in enumerate(pages)]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="760" '
                      f'height="{height * len(pages)}">', *parts, "</svg>", ""])


def charts(results):
    return stacked([growth(*run) for run in runs(results) if run[0] in COUNT])


def main(args):
    esctl = runner.build_paths([os.path.join("actors", "esctl", "esctl")])[0]
    results = measure(esctl, args)
    print(f"{runner.processor()}, one core\n\n{table(results)}")
    busy = max((r["wall_seconds"] / r["cpu_seconds"] for r in results if r["cpu_seconds"] > 1),
               default=1)
    if busy > 1.1:
        print(f"\nThe machine was busy: up to {busy:.1f} times as long as the processor worked.")
    runner.write_results(args, results, charts(results))


def large_names(text):
    names = [part for part in text.split(",") if part]
    if unknown := sorted(set(names) - set(LARGE)):
        raise argparse.ArgumentTypeError(
            f"unknown: {', '.join(unknown)}; allowed: {', '.join(LARGE)}")
    return names


def add_arguments(parser):
    numbers = lambda text: [int(part) for part in text.split(",") if part]
    parser.add_argument("--sizes", type=numbers, default=[100, 300, 1000, 3000, 10000],
                        help="devices of the crowds (default 100,300,1000,3000,10000)")
    parser.add_argument("--philly", type=numbers, default=[1000, 3000, 10000, 30000, 82247],
                        help="jobs of Philly (default 1000,3000,10000,30000,82247)")
    parser.add_argument("--policies", type=lambda text: text.split(","),
                        default=["elastic-srtf", "easyscale", "srtf"],
                        help="the first one for Philly and the large loads (default "
                             "elastic-srtf,easyscale,srtf)")
    parser.add_argument("--large", type=large_names,
                        default=list(LARGE), help="large loads (default many,wide): 100,000 jobs on "
                        "10,000 devices, and 10,000 jobs of 16 to 256 ESTs on 50,000")
