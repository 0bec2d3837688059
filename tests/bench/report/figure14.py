"""scripts/figures figure14: Figures 14 and 15 of the paper: the SC '23 trace with YARN-CS,
EasyScale and ours."""

import csv
import os

import chart
import runner
from simulate import Simulator, allocation, markdown, pick

CLUSTER = "v100=32,p100=16,t4=16"
START_S, ROUND_S, RESCALE_S = 20, 60, 1
# Name, arguments for esctl sim, name of the published row, whether each job has one type only.
SYSTEMS = (("YARN-CS", ("--policy", "fifo-serial"), "YARN-CS", True),
           ("EasyScale homogeneous", ("--policy", "easyscale", "--homogeneous"), "EasyScale_{homo}",
            True),
           ("EasyScale heterogeneous", ("--policy", "easyscale"), "EasyScale_{heter}", False),
           ("ours", ("--policy", "elastic-srtf"), None, False))
# The authors' simulator on the same derived files (../shared/traces/README.md): JCT and makespan.
AUTHORS = {"YARN-CS": (8988.8, 16440), "EasyScale homogeneous": (1140.5, 6780),
           "EasyScale heterogeneous": (873.1, 5820)}


def published(traces):
    with open(os.path.join(traces, "easyscale-sc23-published-jct-makespan.tsv")) as file:
        return {row["#server"]: (float(row["JCT"]), float(row["Makespan"]))
                for row in csv.DictReader(file, delimiter="\t")}


def published_devices(traces):
    """{"published homogeneous": [(hours, devices)], ...}"""
    with open(os.path.join(traces, "easyscale-sc23-published-alloc.tsv")) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    names = {"EasyScale_{homo}": "published homogeneous",
             "EasyScale_{heter}": "published heterogeneous"}
    return {name: [(float(r["timestamp"]) / 3600, float(r[column])) for r in rows if r[column]]
            for column, name in names.items()}


def one_type_trace(trace, path):
    """Writes a copy of the jobs in which each one uses only the type that it asked for."""
    with open(trace) as source, open(path, "w", newline="") as copy:
        rows = csv.DictReader(source)
        writer = csv.DictWriter(copy, rows.fieldnames)
        writer.writeheader()
        writer.writerows({**row, "d2": "0"} for row in rows)
    return path


def measure(args, simulators, system, costs, words):
    name, policy, _, one_type = system
    out = os.path.join(args.out, f"{name.replace(' ', '-')}-{costs.replace(' ', '-')}")
    report = simulators[one_type].run(out, *policy, "--start-cost", START_S, *words)
    return {"system": name, "costs": costs, "directory": out,
            **pick(report, "policy", "jobs", "avg_jct_s", "p99_jct_s", "makespan_s",
                   "devices_held_mean", "devices_computing_mean", "rescales", "rescale_seconds",
                   "history_hash")}


def table(results, said):
    head = ["system", "published JCT / makespan, s", "authors' simulator", "ours, free rescaling",
            f"ours, {RESCALE_S} s a rescale", "JCT and makespan over YARN-CS: published",
            "the same, measured"]
    by = {(r["system"], r["costs"]): r for r in results}
    base, rows = by[("YARN-CS", "measured")], []
    text = lambda pair: f"{pair[0]:,.0f} / {pair[1]:,.0f}" if pair else "not published"
    for name, _, row, _ in SYSTEMS:
        free, real = by.get((name, "free")), by[(name, "measured")]
        of = lambda r: (r["avg_jct_s"], r["makespan_s"])
        gain = "not published"
        if row:
            gain = " / ".join(f"{a / b:.1f}x" for a, b in zip(said["YARN-CS"], said[row]))
        rows.append([name, text(said.get(row)), text(AUTHORS.get(name)) if row else "-",
                     text(of(free)), text(of(real)), gain,
                     " / ".join(f"{a / b:.1f}x" for a, b in zip(of(base), of(real)))])
    return markdown(head, rows)


def run(args):
    trace = os.path.join(args.traces, "easyscale-sc23-jobs.csv")
    times = os.path.join(args.traces, "easyscale-sc23-steptimes.csv")
    if not os.path.exists(trace):
        raise runner.BenchError(f"{trace} is not there: give --traces")
    one_type = one_type_trace(trace, os.path.join(args.out, "jobs-one-type.csv"))
    simulators = {True: Simulator(args, one_type, CLUSTER, "--steptimes", times),
                  False: Simulator(args, trace, CLUSTER, "--steptimes", times)}
    results = []
    for system in SYSTEMS:
        results.append(measure(args, simulators, system, "free",
                               ["--round", ROUND_S, "--rescale-cost", 0]))
        results.append(measure(args, simulators, system, "measured",
                               ["--rescale-cost", RESCALE_S]))
    said = published(args.traces)
    print(table(results, said))
    devices = {r["system"]: [(a["time_s"] / 3600, a["held"]) for a in allocation(r["directory"])]
               for r in results if r["costs"] == "measured"}
    devices.update(published_devices(args.traces))
    for r in results:
        del r["directory"]
    real = [r for r in results if r["costs"] == "measured"]
    charts = {
        "figure14": chart.bars("SC '23 trace, seconds (1 s a rescale)", [r["system"] for r in real],
                               {"average JCT": [r["avg_jct_s"] for r in real],
                                "makespan": [r["makespan_s"] for r in real]}, form="{:.0f}"),
        "figure15": chart.curves("Devices allocated on the SC '23 trace", "hours", "devices",
                                 devices, steps=True)}
    return {"published": {"YARN-CS": said["YARN-CS"],
                          "EasyScale homogeneous": said["EasyScale_{homo}"],
                          "EasyScale heterogeneous": said["EasyScale_{heter}"]},
            "authors_simulator": AUTHORS, "runs": results}, charts
