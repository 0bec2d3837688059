"""scripts/figures robust: every policy on traces and generated families of jobs, at several costs of a
rescale and with poor knowledge, over the best of all policies and over the bound of esctl sim. Rules
and constants are chosen by even seeds of the families; odd ones show whether they fit these only.

Each run of esctl sim is a line of robust_runs.jsonl in --out. A second call with the same --out makes
only the runs that are missing."""

import argparse
import concurrent.futures
import json
import math
import os
import random
import subprocess
import threading

import chart
import fairness
import robust_loads
import runner
from simulate import markdown

COSTS_S = (0, 1, 10, 30, 120)
OURS = "elastic-srtf"
# The policies that a user could choose instead. fifo-serial is never the best one.
RIVALS = ("easyscale", "max-min-fair", "srtf", "las", "fifo-gang", "fifo-backfill",
          "easy-backfill", "gavel-las", "gavel-ftf", "sia", "tiresias", "themis")
# What policies are told, at KNOWLEDGE_COST_S: name -> arguments of esctl sim.
KNOWLEDGE = {"estimates +-50 %": ("--estimate-error", 0.5), "lengths unknown": ("--unknown-lengths",),
             "20 % of users lie": ("--lying-users", 0.2), "speeds learned": ("--learn-speeds",)}
EXACT = "exact"
KNOWLEDGE_COST_S = 10
QUICK = {"costs": (0, 10, 120),
         "loads": ("sc23", "pollux-4", "gavel-moves", "type-bound", "width-1", "sync", "bursty", "wide",
                   "mixed", "idle-fast", "fixed", "tiny", "endless")}
MEASURES = {"avg_jct_s": "JCT", "makespan_s": "makespan"}
KEPT = ("avg_jct_s", "makespan_s", "avg_jct_bound_s", "makespan_bound_s", "rescales", "worst_rho",
        "unfinished", "history_hash")


def shared(directory):
    """Name -> arguments of esctl sim for the traces of others."""
    loads = {}
    for name, workloads in fairness.traces(directory).items():
        for i, words in enumerate(workloads):
            loads[name if len(workloads) == 1 else f"{name}-{i + 1}"] = words
    return {name: words for name, words in loads.items() if os.path.exists(words[0])}


def with_moves(args):
    """Gavel's trace with jobs that may change their type, which is the form in which its policies
    are at their best."""
    jobs, throughputs = (os.path.join(args.traces, f"gavel-{name}.csv")
                         for name in ("physical-max_min_fairness", "throughputs"))
    if not os.path.exists(jobs):
        return {}
    load = robust_loads.gavel_with_moves(jobs, throughputs)
    return {"gavel-moves": load.write(os.path.join(args.out, "gavel-moves"))}


def generated(args):
    """The same for the generated families. The long one is a tenth of its length."""
    loads = {}
    for name, family in robust_loads.FAMILIES.items():
        for seed in range(args.seed, args.seed + args.seeds):
            load = family(random.Random(f"{name}-{seed}"), 0.1 if name == "two-month" else 1)
            loads[f"{name}@{seed}"] = load.write(os.path.join(args.out, f"{name}@{seed}"))
    return loads


def family_of(load):
    return load.split("@")[0]


def origin_of(load):
    """Where a load comes from, in the words of the table."""
    _, is_generated, seed = load.partition("@")
    if not is_generated:
        return "traces"
    return "odd seeds" if int(seed) % 2 else "even seeds"


def planned(loads, costs, policies):
    """The keys (load, cost, knowledge, policy) of all runs."""
    settings = [(cost_s, EXACT) for cost_s in costs]
    settings += [(KNOWLEDGE_COST_S, name) for name in KNOWLEDGE]
    return [(load, cost_s, knowledge, policy) for cost_s, knowledge in settings for load in loads
            for policy in policies]


class Runs:
    """The runs that are made already, in a file of the output directory."""

    def __init__(self, path):
        self._path, self._lock = path, threading.Lock()
        self.results = {}
        if os.path.exists(path):
            with open(path) as file:
                for line in file:
                    key, result = json.loads(line)
                    self.results[tuple(key)] = result

    def add(self, key, result):
        with self._lock:
            self.results[key] = result
            with open(self._path, "a") as file:
                file.write(json.dumps([key, result]) + "\n")


def simulate(args, esctl, key, words):
    """The figures of one run, or None if it takes longer than --limit."""
    _, cost_s, knowledge, policy = key
    trace, cluster, *options = words
    command = [esctl, "sim", "--policy", policy, "--trace", trace, "--cluster", cluster, *options,
               "--rescale-cost", cost_s, *KNOWLEDGE.get(knowledge, ()), "--seed", args.seed, "--json"]
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              timeout=args.limit)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        raise runner.BenchError(f"{' '.join(map(str, key))}: {done.stderr.strip()[-2000:]}")
    report = json.loads(done.stdout)
    return {name: report[name] for name in KEPT}


def complete(args, loads, keys):
    (esctl,) = runner.build_paths([os.path.join("actors", "esctl", "esctl")])
    runs = Runs(os.path.join(args.out, "robust_runs.jsonl"))
    missing = [key for key in keys if key not in runs.results]
    with concurrent.futures.ThreadPoolExecutor(args.workers) as pool:
        running = {pool.submit(simulate, args, esctl, key, loads[key[0]]): key for key in missing}
        for count, future in enumerate(concurrent.futures.as_completed(running), 1):
            runs.add(running[future], future.result())
            if count % 20 == 0 or count == len(missing):
                runner.progress(f"{count} of {len(missing)} runs")
    return runs.results


def rows_of(results, keys):
    """One row for each run, beside the best of all on the same load, cost and knowledge."""
    rows = []
    for key in keys:
        load, cost_s, knowledge, policy = key
        result = results[key]
        if result is None:
            continue
        peers = [results[k] for k in keys if k[:3] == key[:3] and results[k]]
        row = {"load": load, "cost_s": cost_s, "knowledge": knowledge, "policy": policy, **result}
        exact = results.get((load, cost_s, EXACT, policy))
        for name in MEASURES:
            row[name + "_over_best"] = round(result[name] / min(p[name] for p in peers), 4)
            row[name + "_over_bound"] = round(
                result[name] / result[name.replace("_s", "_bound_s")], 4)
            if exact:
                row[name + "_over_exact"] = round(result[name] / exact[name], 4)
        rows.append(row)
    return rows


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def spread(values):
    """Geometric mean, largest value, and how many are at most 3 % above the best."""
    return [f"{geometric_mean(values):.3f}", f"{max(values):.3f}",
            f"{sum(v <= 1.03 for v in values)} of {len(values)}"]


def summary_table(rows, policies):
    """Each policy over the best of all and over the bound."""
    head = ["policy"]
    for name in MEASURES.values():
        head += [f"{name} over the best", "largest", "within 3 %", f"{name} over the bound"]
    summary = []
    for policy in policies:
        own = [r for r in rows if r["policy"] == policy]
        cells = [policy]
        for key in MEASURES:
            cells += spread([r[key + "_over_best"] for r in own])
            cells.append(f"{geometric_mean([r[key + '_over_bound'] for r in own]):.3f}")
        summary.append(cells)
    return markdown(head, summary)


def origin_table(rows):
    """Ours over the best of all, by where the loads come from."""
    ours = [r for r in rows if r["policy"] == OURS]
    table = []
    for origin in dict.fromkeys(origin_of(r["load"]) for r in ours):
        own = [r for r in ours if origin_of(r["load"]) == origin]
        table.append([origin] + [cell for key in MEASURES
                                 for cell in spread([r[key + "_over_best"] for r in own])])
    head = [origin for name in MEASURES.values() for origin in (name, "largest", "within 3 %")]
    return markdown(["loads", *head], table)


def load_table(rows, costs):
    """Every trace and family under ours; of a family the mean over its seeds."""
    ours = [r for r in rows if r["policy"] == OURS]
    detail = []
    for family in dict.fromkeys(family_of(r["load"]) for r in ours):
        cells, rescales = [], []
        for cost_s in costs:
            some = [r for r in ours if (family_of(r["load"]), r["cost_s"]) == (family, cost_s)]
            means = [geometric_mean([r[key + "_over_best"] for r in some]) for key in MEASURES
                     if some]
            cells.append(" / ".join(f"{mean:.3f}" for mean in means) or "-")
            rescales += [f"{sum(r['rescales'] for r in some) / len(some):.0f}"] if some else []
        detail.append([family, *cells, ", ".join(rescales)])
    return markdown(["load"] + [f"{c} s" for c in costs] + ["rescales"], detail)


def knowledge_table(rows, policies):
    """How much longer JCT / makespan become than with exact knowledge, and JCT over the best
    with the same knowledge."""
    table = []
    for policy in policies:
        cells = [policy]
        for knowledge in KNOWLEDGE:
            some = [r for r in rows if (r["policy"], r["knowledge"]) == (policy, knowledge)
                    and "avg_jct_s_over_exact" in r]
            if not some:
                cells.append("-")
                continue
            longer, later, beside = (geometric_mean([r[key] for r in some]) for key in (
                "avg_jct_s_over_exact", "makespan_s_over_exact", "avg_jct_s_over_best"))
            cells.append(f"{longer:.3f} / {later:.3f}, {beside:.3f}")
        table.append(cells)
    return markdown(["policy", *KNOWLEDGE], table)


def svg(rows, key, name, costs):
    """The ratio of ours to the best of all, a bar for each cost; of a family the mean of its seeds."""
    families = list(dict.fromkeys(family_of(r["load"]) for r in rows))
    ours = {}
    for r in rows:
        if r["policy"] == OURS:
            ours.setdefault((family_of(r["load"]), r["cost_s"]), []).append(r[key + "_over_best"])
    series = {f"{c} s a rescale": [geometric_mean(ours[f, c]) if (f, c) in ours else None
                                   for f in families] for c in costs}
    return chart.bars(f"{name} of {OURS} over that of the best policy", families, series, mark=1)


def names_in(allowed):
    """A type for argparse: names with commas between them, in the order of `allowed`."""
    def parse(text):
        chosen = text.split(",")
        if unknown := sorted(set(chosen) - set(allowed)):
            raise argparse.ArgumentTypeError(
                f"unknown: {', '.join(unknown)}; allowed: {', '.join(allowed)}")
        return tuple(name for name in allowed if name in chosen)
    return parse


def chosen_loads(args):
    loads = shared(args.traces) | with_moves(args) | generated(args)
    families = list(dict.fromkeys(map(family_of, loads)))
    wanted = args.loads or (QUICK["loads"] if args.quick else families)
    if unknown := sorted(set(wanted) - set(families)):
        raise runner.BenchError(f"--loads: unknown: {', '.join(unknown)}; there are "
                                f"{', '.join(families)}")
    return {name: words for name, words in loads.items() if family_of(name) in wanted}


def add_options(figure):
    figure.add_argument("--quick", action="store_true",
                        help="fewer loads and costs: about half an hour instead of hours")
    figure.add_argument("--seeds", type=int, default=2,
                        help="loads of each family, of the seeds from --seed on (default 2)")
    figure.add_argument("--policies", type=names_in((OURS, *RIVALS)), default=(OURS, *RIVALS),
                        help="only these, with commas between them (default all)")
    figure.add_argument("--loads", type=lambda text: text.split(","),
                        help="only these traces and families (default all)")
    figure.add_argument("--workers", type=int, default=2, help="simulations at a time (default 2)")
    figure.add_argument("--limit", type=float, default=600,
                        help="seconds after which a simulation is given up and left out (default 600)")


def run(args):
    loads = chosen_loads(args)
    costs = QUICK["costs"] if args.quick else COSTS_S
    policies = args.policies
    if OURS not in policies or len(policies) < 2:
        raise runner.BenchError(f"--policies: needs {OURS} and at least one other")
    keys = planned(loads, costs, policies)
    results = complete(args, loads, keys)
    rows = rows_of(results, keys)
    if any(row["unfinished"] for row in rows):
        raise runner.BenchError("some jobs did not end; see robust_runs.jsonl")
    exact = [row for row in rows if row["knowledge"] == EXACT]
    left_out = [" ".join(map(str, key)) for key in keys if results[key] is None]
    parts = [summary_table(exact, policies), origin_table(exact), load_table(exact, costs),
             knowledge_table(rows, policies)]
    if left_out:
        parts.append(f"Not ended within {args.limit:g} s and left out: " + "; ".join(left_out))
    text = "\n\n".join(parts)
    print(text)
    with open(os.path.join(args.out, "robust.md"), "w") as out:
        out.write(text + "\n")
    return rows, {f"robust_{name.lower()}": svg(exact, key, name, costs)
                  for key, name in MEASURES.items()}
