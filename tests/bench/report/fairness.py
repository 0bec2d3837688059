"""scripts/figures fairness: speed and fairness along the knob of elastic-srtf, beside
max-min-fair."""

import os
from statistics import mean

import chart
import runner
from simulate import Simulator, markdown, pick

VALUES = (0, 0.25, 0.5, 0.65, 0.8, 0.9, 1)
RESCALE_S = 1
PEER = "max-min-fair"


def traces(directory):
    """Name -> [(arguments for esctl sim)] with one entry for each workload."""
    at = lambda name: os.path.join(directory, name)
    nominal = os.path.join(runner.ROOT, "configs", "steptimes", "pollux_nominal.csv")
    return {
        "sc23": [(at("easyscale-sc23-jobs.csv"), "v100=32,p100=16,t4=16", "--steptimes",
                  at("easyscale-sc23-steptimes.csv"))],
        "pollux": [(at("pollux-osdi21-workloads.csv"), "gpu=64", "--steptimes", nominal,
                    "--workload", f"workload-{w}") for w in range(1, 9)],
        "gavel": [(at("gavel-physical-max_min_fairness.csv"), "v100=8,p100=16,k80=24",
                   "--steptimes", at("gavel-throughputs.csv"))]}


def measure(args, name, workloads):
    """Per policy: means over the workloads, and in how many of them it was fair and fast."""
    by_policy = {}
    for i, words in enumerate(workloads):
        out = os.path.join(args.out, name if len(workloads) == 1 else f"{name}-{i + 1}")
        reports = Simulator(args, *words).compare(
            out, "--policies", f"elastic-srtf,{PEER}", "--fairness", ",".join(map(str, VALUES)),
            "--rescale-cost", RESCALE_S)
        peer = next(r for r in reports if r["policy"] == PEER)
        for report in reports:
            report["fairer_and_faster"] = (report["worst_rho"] <= peer["worst_rho"] and
                                           report["avg_jct_s"] < peer["avg_jct_s"])
            by_policy.setdefault(report["policy"], []).append(report)
    return [{"trace": name, "policy": policy, "workloads": len(reports),
             "avg_jct_s": round(mean(r["avg_jct_s"] for r in reports), 1),
             "makespan_s": round(mean(r["makespan_s"] for r in reports), 1),
             "worst_rho": round(max(r["worst_rho"] for r in reports), 3),
             "mean_worst_rho": round(mean(r["worst_rho"] for r in reports), 3),
             "no_less_fair_and_faster_than_peer": sum(r["fairer_and_faster"] for r in reports),
             "runs": [pick(r, "avg_jct_s", "makespan_s", "worst_rho", "mean_rho", "rescales",
                           "history_hash") for r in reports]}
            for policy, reports in by_policy.items()]


def svg(name, results):
    knob = [(r["avg_jct_s"], r["mean_worst_rho"], r["policy"].split("@")[1])
            for r in results if "@" in r["policy"]]
    peer = [(r["avg_jct_s"], r["mean_worst_rho"], "") for r in results if r["policy"] == PEER]
    several = results[0]["workloads"] > 1
    return chart.curves(f"Speed against fairness on {name}: fairness = 0 ... 1",
                        "average JCT, s" + (" (mean of the workloads)" if several else ""),
                        "worst finish-time fairness rho" + (" (mean)" if several else ""),
                        {"elastic-srtf": knob, PEER: peer}, from_zero=False)


def run(args):
    results, charts = [], {}
    for name, workloads in traces(args.traces).items():
        if not os.path.exists(workloads[0][0]):
            raise runner.BenchError(f"{workloads[0][0]} is not there: give --traces")
        rows = measure(args, name, workloads)
        charts[f"fairness_{name}"] = svg(name, rows)
        results += rows
    print(markdown(["trace", "policy", "average JCT, s", "makespan, s", "worst rho",
                    "mean of the worst", f"no less fair and faster than {PEER}"],
                   [[r["trace"], r["policy"], f"{r['avg_jct_s']:,.0f}", f"{r['makespan_s']:,.0f}",
                     f"{r['worst_rho']:.2f}", f"{r['mean_worst_rho']:.2f}",
                     "-" if r["policy"] == PEER else
                     f"{r['no_less_fair_and_faster_than_peer']} of {r['workloads']}"]
                    for r in results]))
    return results, charts
