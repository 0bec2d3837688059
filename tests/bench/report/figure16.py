"""scripts/figures figure16: Figure 16 of the paper: training beside a serving load on 3,000 devices for two days."""

import os
import random

import chart
import colocation
import runner
from colocation import DAY_S, DAYS, DEVICES
from simulate import Simulator, allocation, markdown, pick

ALL = sum(DEVICES.values())
POLICIES = ("easyscale", "elastic-srtf")
RESCALE_S = 1
# The utilisation of a serving device. It is not published, so the gain is given for three values.
BUSY = (0.3, 0.5, 0.7)
PUBLISHED = {"allocation_gain": 0.171, "utilisation_gain": 0.621, "preemptions": None,
             "failures": None}


def integrals(rows, begin_s, end_s):
    """Means over the interval: devices claimed, held, computing, and both claimed and held."""
    total = {"claimed": 0, "held": 0, "computing": 0, "waited_for": 0}
    rows = list(rows)
    for row, after in zip(rows, rows[1:] + [{"time_s": end_s}]):
        span = min(after["time_s"], end_s) - max(row["time_s"], begin_s)
        if span <= 0:
            continue
        row["waited_for"] = max(0, row["claimed"] + row["held"] - ALL)
        for name in total:
            total[name] += span * row[name]
    return {name: value / (end_s - begin_s) for name, value in total.items()}


def utilisation(means, busy):
    return (busy * (means["claimed"] - means["waited_for"]) + means["computing"]) / ALL


def allocated(means):
    return (means["claimed"] + means["held"] - means["waited_for"]) / ALL


def measure(args, simulator, policy):
    out = os.path.join(args.out, policy)
    report = simulator.run(out, "--policy", policy, "--rescale-cost", RESCALE_S)
    rows = list(allocation(out))
    before, after = (integrals(rows, day * DAY_S, (day + 1) * DAY_S) for day in range(DAYS))
    idle = ALL - after["claimed"]
    return rows, {
        **pick(report, "policy", "jobs", "unfinished", "refused_requests", "avg_jct_s",
               "avg_queue_s", "rescales", "scale_ins", "rescale_seconds", "history_hash"),
        "allocation_before": round(allocated(before), 4),
        "allocation_after": round(allocated(after), 4),
        "allocation_gain": round(allocated(after) / allocated(before) - 1, 4),
        "utilisation": [{"serving_busy": busy, "before": round(utilisation(before, busy), 4),
                         "after": round(utilisation(after, busy), 4),
                         "gain": round(utilisation(after, busy) / utilisation(before, busy) - 1, 4)}
                        for busy in BUSY],
        "training_devices_mean": round(after["held"], 1),
        "idle_devices_computing": round(after["computing"] / idle, 4),
        "claimed_devices_waited_for_mean": round(after["waited_for"], 3)}


def table(results):
    percent = lambda share: f"{100 * share:.1f} %"
    head = ["", "published", *(r["policy"] for r in results)]
    rows = [["allocation ratio, before > after", "not published",
             *(f"{percent(r['allocation_before'])} > {percent(r['allocation_after'])}"
               for r in results)],
            ["its gain", f"+{percent(PUBLISHED['allocation_gain'])}",
             *(f"+{percent(r['allocation_gain'])}" for r in results)]]
    for i, busy in enumerate(BUSY):
        rows.append([f"gain of utilisation, a serving device being busy {busy:.0%}",
                     f"+{percent(PUBLISHED['utilisation_gain'])}",
                     *(f"+{percent(r['utilisation'][i]['gain'])}" for r in results)])
    for text, name, form in (
            ("what serving leaves idle computes", "idle_devices_computing", percent),
            ("devices of training, mean", "training_devices_mean", "{:,.0f}".format),
            ("claimed devices that training still held, mean", "claimed_devices_waited_for_mean",
             "{:.2f}".format),
            ("training jobs", "jobs", "{:,}".format),
            ("preemptions (scale-ins, suspensions)", "scale_ins", "{:,}".format),
            ("failed training jobs", "unfinished", str)):
        rows.append([text, "not published", *(form(r[name]) for r in results)])
    return markdown(head, rows)


def svg(by_policy):
    """A point every few minutes is enough for a chart."""
    series, step_s = {}, 600
    for policy, rows in by_policy.items():
        last = -step_s
        for row in rows:
            if row["time_s"] < last + step_s or row["time_s"] > DAYS * DAY_S:
                continue
            last = row["time_s"]
            values = {f"serving and computing, {policy}": row["claimed"] + row["computing"]}
            if policy == POLICIES[-1]:
                values["serving"] = row["claimed"]
            for name, value in values.items():
                series.setdefault(name, []).append((last / 3600, min(ALL, value)))
    return chart.curves("Devices in use of 3,000, training from hour 24 on", "hours", "devices",
                        series, steps=True)


def run(args):
    times = os.path.join(args.traces, "easyscale-sc23-steptimes.csv")
    if not os.path.exists(times):
        raise runner.BenchError(f"{times} is not there: give --traces")
    generator = random.Random(args.seed)
    claims, jobs = (os.path.join(args.out, name) for name in ("claims.csv", "jobs.csv"))
    idle = colocation.write_serving(claims, generator)
    colocation.write_training(jobs, times, colocation.LOAD * idle, generator)
    cluster = ",".join(f"{kind}={count}" for kind, count in DEVICES.items())
    simulator = Simulator(args, jobs, cluster, "--steptimes", times, "--claims", claims)
    by_policy, results = {}, []
    for policy in POLICIES:
        by_policy[policy], result = measure(args, simulator, policy)
        results.append(result)
    print(table(results))
    return {"published": PUBLISHED, "runs": results}, {"figure16": svg(by_policy)}
