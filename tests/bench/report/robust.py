"""scripts/figures robust: every policy on traces and generated families of jobs, at several costs of a
rescale, over the best policy and over the bound of esctl sim."""

import math
import os
import random

import chart
import fairness
import robust_loads
import runner
from simulate import Simulator, markdown

COSTS_S = (0, 1, 10, 30, 120)
OURS = "elastic-srtf"
# The policies that a user could choose instead. fifo-serial is never the best one.
RIVALS = ("easyscale", "max-min-fair", "srtf", "las", "fifo-gang", "fifo-backfill")
QUICK = {"costs": (0, 10, 120), "rivals": ("easyscale", "max-min-fair", "srtf"),
         "loads": ("sc23", "pollux-4", "type-bound", "width-1", "sync", "bursty", "wide", "mixed")}
MEASURES = {"avg_jct_s": "JCT", "makespan_s": "makespan"}


def shared(directory):
    """Name -> arguments of esctl sim for the traces of others."""
    loads = {}
    for name, workloads in fairness.traces(directory).items():
        for i, words in enumerate(workloads):
            loads[name if len(workloads) == 1 else f"{name}-{i + 1}"] = words
    return {name: words for name, words in loads.items() if os.path.exists(words[0])}


def generated(args):
    """The same for the generated families. The long one is a quarter of its length."""
    loads = {}
    for name, family in robust_loads.FAMILIES.items():
        load = family(random.Random(f"{name}-{args.seed}"), 0.25 if name == "two-month" else 1)
        loads[name] = load.write(os.path.join(args.out, name))
    return loads


def measure(args, name, words, cost_s, policies):
    """One row for each policy."""
    out = os.path.join(args.out, name)
    reports = Simulator(args, *words).compare(out, "--policies", ",".join(policies),
                                              "--rescale-cost", cost_s)
    rivals = [r for r in reports if r["policy"] != OURS]
    rows = []
    for report in reports:
        row = {"load": name, "cost_s": cost_s, "policy": report["policy"],
               "rescales": report["rescales"], "worst_rho": round(report["worst_rho"], 3),
               "unfinished": report["unfinished"], "history_hash": report["history_hash"]}
        for key in MEASURES:
            best = min(r[key] for r in rivals)
            row[key] = round(report[key], 1)
            row[key + "_over_best"] = round(report[key] / best, 4)
            row[key + "_over_bound"] = round(report[key] / report[key.replace("_s", "_bound_s")], 4)
        rows.append(row)
    return rows


def spread(rows, policy, key):
    """Geometric mean, largest value, and how many of the values lie above 1."""
    values = [r[key] for r in rows if r["policy"] == policy]
    return (math.exp(sum(map(math.log, values)) / len(values)), max(values),
            f"{sum(v > 1.0005 for v in values)} of {len(values)}")


def tables(rows, policies, costs):
    """The summary of all policies, and every load under ours."""
    head = ["policy"]
    for measure_name in MEASURES.values():
        head += [f"{measure_name} over the best rival", "largest", "above 1",
                 f"{measure_name} over the bound"]
    summary = []
    for policy in policies:
        cells = [policy]
        for key in MEASURES:
            mean, most, above = spread(rows, policy, key + "_over_best")
            bound, _, _ = spread(rows, policy, key + "_over_bound")
            cells += [f"{mean:.3f}", f"{most:.3f}", above, f"{bound:.3f}"]
        summary.append(cells)
    ours = {(r["load"], r["cost_s"]): r for r in rows if r["policy"] == OURS}
    detail = []
    for load in dict.fromkeys(r["load"] for r in rows):
        at = [ours[load, cost_s] for cost_s in costs]
        detail.append([load] + [f"{r['avg_jct_s_over_best']:.3f} / {r['makespan_s_over_best']:.3f}"
                                for r in at] + [", ".join(str(r["rescales"]) for r in at)])
    return [markdown(head, summary),
            markdown(["load"] + [f"{c} s" for c in costs] + ["rescales"], detail)]


def svg(rows, key, name, costs):
    """The ratio of ours to the best rival, a bar for each cost."""
    loads = list(dict.fromkeys(r["load"] for r in rows))
    ours = {(r["load"], r["cost_s"]): r[key + "_over_best"] for r in rows if r["policy"] == OURS}
    series = {f"{c} s a rescale": [ours[load, c] for load in loads] for c in costs}
    return chart.bars(f"{name} of {OURS} over that of the best rival", loads, series, mark=1)


def add_options(figure):
    figure.add_argument("--quick", action="store_true",
                        help="fewer loads, policies and costs: minutes instead of hours")


def run(args):
    loads = shared(args.traces) | generated(args)
    costs, rivals = (QUICK["costs"], QUICK["rivals"]) if args.quick else (COSTS_S, RIVALS)
    if args.quick:
        loads = {name: words for name, words in loads.items() if name in QUICK["loads"]}
    policies = (OURS, *rivals)
    rows = [row for name, words in loads.items() for cost_s in costs
            for row in measure(args, name, words, cost_s, policies)]
    if any(row["unfinished"] for row in rows):
        raise runner.BenchError("some jobs did not end; see robust.json")
    text = "\n\n".join(tables(rows, policies, costs))
    print(text)
    with open(os.path.join(args.out, "robust.md"), "w") as out:
        out.write(text + "\n")
    return rows, {f"robust_{name.lower()}": svg(rows, key, name, costs)
                  for key, name in MEASURES.items()}
