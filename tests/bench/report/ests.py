"""scripts/bench ests: 1 to 16 ESTs on one device; switching between them; shared data workers."""

import glob
import json
import os
import subprocess

import chart
import runner
import train

COUNTS = (1, 2, 4, 8, 16)
WORKLOADS = ("resnet18_cifar32_b32", "shufflenetv2_64_b32", "electra_small_s64_b4")


def measure_workload(args, program, workload):
    """Throughput and memory by number of ESTs: args.rounds rounds, each with every number."""
    _, warm, steps = train.WORKLOADS[workload]
    runs = {count: [] for count in COUNTS}
    for _ in range(args.rounds):
        for count in COUNTS:
            runner.progress(f"{workload}: {count} ESTs")
            runs[count].append(runner.run_json(
                [program, "--workload", workload, "--level", "D2", "--class",
                 runner.kernel_class(), "--ests", str(count), "--warm", "1",
                 "--steps", str(max(2, steps * 4 // count))], args.core))
    return [result_of(workload, count, runs) for count in COUNTS]


def result_of(workload, count, runs):
    rates = [r["samples_per_s"] for r in runs[count]]
    # Round by round, so that a machine that becomes faster or slower does not decide.
    ratios = [rate / one["samples_per_s"] for rate, one in zip(rates, runs[1])]
    memory = max(r["peak_rss_mib"] for r in runs[count])
    slots = (runs[count][0]["live_gradient_buffers"] - 1) * runs[count][0]["gradient_mib"]
    memory_one = max(r["peak_rss_mib"] for r in runs[1])
    return {"workload": workload, "ests": count, "samples_per_s": round(runner.median(rates), 2),
            "spread": round(runner.spread(rates), 4),
            "throughput_ratio": round(runner.median(ratios), 4),
            "ratio_low": round(min(ratios), 4), "ratio_high": round(max(ratios), 4),
            "peak_rss_mib": round(memory, 1), "gradient_buffers_mib": round(slots, 1),
            "memory_ratio_without_buffers": round((memory - slots) / memory_one, 4)}


# A step of NeuMF takes a millisecond: more of them, so that the first does not decide.
SWITCH_STEPS = {"published_neumf": 2000}


def context_switches():
    """Every published model with four ESTs on one device, as a user runs it: who took the time."""
    (esctl, _) = runner.build_programs()
    results = []
    for job in sorted(glob.glob(os.path.join(runner.ROOT, "configs", "jobs", "published_*.toml"))):
        name = os.path.basename(job)[:-len(".toml")]
        runner.progress(f"{name}: context switches")
        steps = SWITCH_STEPS.get(name, 5)
        done = subprocess.run(
            [esctl, "run", job, "--json", "--quiet", "--stages",
             f"cpu-{runner.kernel_class()}:1@{steps}"], capture_output=True, text=True)
        if done.returncode != 0:
            raise runner.BenchError(f"{job}: {done.stderr.strip()[-500:]}")
        run = json.loads(done.stdout)
        results.append({"job": name, "steps": steps,
                        "context_switch_share": run["context_switch_share"],
                        "data_wait_share": run["data_wait_share"]})
    return results


def switch_table(switches):
    rows = ["| job | switching between ESTs | waiting for data |", "|---|---|---|"]
    rows += [f"| {s['job']} | {100 * s['context_switch_share']:.3f} % "
             f"| {100 * s['data_wait_share']:.3f} % |" for s in switches]
    return "\n".join(rows)


def first_batches(args, program):
    """Shared against separate data workers, on every core."""
    return [json.loads(runner.run_plain([program, job, "--ests", "8"], "0-1"))
            for job in args.loader_jobs]


def tables(scaling, loaders):
    rows = ["| workload | ESTs | samples/s | against one | lowest, highest round | MiB "
            "| gradient buffers MiB | the rest against one |", "|---|---|---|---|---|---|---|---|"]
    for r in scaling:
        rows.append(f"| {r['workload']} | {r['ests']} | {r['samples_per_s']:.5g} "
                    f"| {r['throughput_ratio']:.3f} | {r['ratio_low']:.3f}, {r['ratio_high']:.3f} "
                    f"| {r['peak_rss_mib']:.0f} | {r['gradient_buffers_mib']:.0f} "
                    f"| {r['memory_ratio_without_buffers']:.3f} |")
    rows += ["", "| job | first mini-batches, shared ms | separate ms | saving |", "|---|---|---|---|"]
    rows += [f"| {l['job']} | {l['shared_ms']:.1f} | {l['own_ms']:.1f} | {100 * l['saving']:.0f} % |"
             for l in loaders]
    return "\n".join(rows)


def main(args):
    program, loader = runner.build("train_bench", "loader_bench")
    scaling = [r for w in args.workloads or WORKLOADS
               for r in measure_workload(args, program, w)]
    args.loader_jobs = args.loader_jobs or [
        os.path.join(runner.ROOT, "configs", "jobs", "small_cnn.toml")]
    loaders = first_batches(args, loader)
    switches = context_switches()
    print(tables(scaling, loaders) + "\n\n" + switch_table(switches))
    series = {w: [r["throughput_ratio"] for r in scaling if r["workload"] == w]
              for w in dict.fromkeys(r["workload"] for r in scaling)}
    runner.write_results(
        args, {"scaling": scaling, "first_mini_batches": loaders, "context_switches": switches},
        chart.lines("Throughput of one device against one EST", "ESTs on the device",
                    "throughput / one EST", COUNTS, series))


def add_arguments(parser):
    parser.add_argument("workloads", nargs="*", help=f"default: {', '.join(WORKLOADS)}")
    parser.add_argument("--rounds", type=int, default=3, help="alternations (default 3)")
    parser.add_argument("--loader-jobs", nargs="*", help="job files for the data workers")
