"""scripts/bench ests: 1 to 16 ESTs on one device, switches between them, and shared data
workers."""

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
    """Throughput and memory by number of ESTs, and the comparison with one EST."""
    steps = train.WORKLOADS[workload][2]
    alone, results = None, []
    for count in COUNTS:
        runner.progress(f"{workload}: {count} ESTs")
        words = [program, "--workload", workload, "--level", "D2", "--device",
                 "cpu-" + runner.kernel_class(), "--ests", str(count)]
        run = runner.run_json(words + ["--warm", "1", "--steps", str(max(2, steps * 4 // count))],
                              args.core)
        alone = alone or run
        duel = {"ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0} if count == 1 else (
            runner.run_json(words + ["--against-one"], args.core))
        results.append(result_of(workload, count, run, alone, duel))
    return results


def result_of(workload, count, run, alone, duel):
    slots = (run["live_gradient_buffers"] - 1) * run["gradient_mib"]
    rest = (run["peak_rss_mib"] - slots) / alone["peak_rss_mib"]
    return {"workload": workload, "ests": count, "samples_per_s": round(run["samples_per_s"], 2),
            "merge_share": round(run["merge_ms"] / run["ms"], 5),
            "update_share": round(run["update_ms"] / run["ms"], 5),
            "throughput_ratio": duel["ratio"], "ratio_low": duel["ratio_low"],
            "ratio_high": duel["ratio_high"],
            "peak_rss_mib": round(run["peak_rss_mib"], 1), "gradient_buffers_mib": round(slots, 1),
            "memory_ratio_without_buffers": round(rest, 4)}


# There are more short steps, so that the first ones have little weight.
SWITCH_STEPS = {"published_neumf": 2000, "published_shufflenetv2": 20}


def context_switches():
    """Every published model with four ESTs on one device, as a user runs it, and where the time is
    spent."""
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
    """Shared data workers compared with separate ones, on all cores."""
    return [json.loads(runner.run_plain([program, job, "--ests", "8"], "0-1"))
            for job in args.loader_jobs]


def tables(scaling, loaders):
    rows = ["| workload | ESTs | samples/s | against one | tenth, ninetieth percentile "
            "| merging | update | MiB | gradient buffers MiB | the rest against one |",
            "|---|---|---|---|---|---|---|---|---|---|"]
    for r in scaling:
        rows.append(f"| {r['workload']} | {r['ests']} | {r['samples_per_s']:.5g} "
                    f"| {r['throughput_ratio']:.3f} | {r['ratio_low']:.3f}, {r['ratio_high']:.3f} "
                    f"| {100 * r['merge_share']:.2f} % | {100 * r['update_share']:.2f} % "
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
    parser.add_argument("--loader-jobs", nargs="*", help="job files for the data workers")
