"""The two loads of Figure 16, generated from a seed: a serving load by the hour, and training jobs.

Serving. In the part of the cluster with each type, this share of the devices is claimed at hour h
of the day:

    share(h) = NIGHT + (DAY - NIGHT) * (1 - cos(2 pi (h - LOWEST_H) / 24)) / 2 + noise
    noise uniform in [-NOISE, NOISE], drawn every SLOT_S seconds

Each replica has REPLICA devices and is one claim. The claim that was made last ends first.

Training. Jobs of the SC '23 models. Half of them exist when the second day begins, and half of them
are submitted at uniformly random times in its first twelve hours. Their max_p is a power of two
from 4 to 64, and with all their devices of the fastest type they take one to eight hours. Jobs are
added until their work is LOAD times what serving leaves idle on that day. Every second job may mix
device types (D2), the others use one type."""

import csv
import math

DEVICES = {"v100": 1000, "p100": 1000, "t4": 1000}
NIGHT, DAY, LOWEST_H, NOISE = 0.55, 0.95, 4, 0.02
SLOT_S, REPLICA, DAYS, DAY_S = 600, 5, 2, 86_400
LOAD = 1.2
BATCH = 8


def serving_share(time_s, random):
    hour = time_s / 3600 % 24
    wave = (1 - math.cos(2 * math.pi * (hour - LOWEST_H) / 24)) / 2
    return NIGHT + (DAY - NIGHT) * wave + random.uniform(-NOISE, NOISE)


def write_serving(path, random):
    """Writes a claims file for `esctl sim`. Returns the device-seconds that are idle on day two."""
    replicas = {kind: 0 for kind in DEVICES}
    idle = 0
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["time_s", "type", "count", "name"])
        for time_s in range(0, DAYS * DAY_S, SLOT_S):
            for kind, devices in DEVICES.items():
                wanted = int(serving_share(time_s, random) * devices / REPLICA)
                for i in range(replicas[kind], wanted):
                    out.writerow([time_s, kind, REPLICA, f"{kind}-{i}"])
                for i in range(replicas[kind] - 1, wanted - 1, -1):
                    out.writerow([time_s, kind, 0, f"{kind}-{i}"])
                replicas[kind] = wanted
                if time_s >= DAY_S:
                    idle += (devices - wanted * REPLICA) * SLOT_S
    return idle


def write_training(path, step_times, device_s, random):
    """Writes a trace for `esctl sim` with jobs that need these seconds of their fastest devices."""
    with open(step_times) as file:
        seconds = {}
        for row in csv.DictReader(file):
            seconds.setdefault(row["model"], {})[row["gpu_type"]] = float(
                row["seconds_per_local_step"])
    models = sorted(m for m, by_type in seconds.items() if set(by_type) >= set(DEVICES))
    jobs, given = [], 0
    while given < device_s:
        model, max_p = random.choice(models), 2 ** random.randint(2, 6)
        duration_s = 3600 * 2 ** random.uniform(0, 3)
        given += duration_s * max_p
        mixes = len(jobs) % 2
        own = "v100" if mixes else random.choice(list(DEVICES))
        samples = duration_s / min(seconds[model].values()) * max_p * BATCH
        submit_s = DAY_S + max(0, random.uniform(-0.5, 0.5)) * DAY_S
        jobs.append([round(submit_s, 1), model, max_p, BATCH,
                     round(samples), mixes, own])
    jobs.sort()
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["job_id", "submit_s", "model", "max_p", "batch_size", "samples_total", "d2",
                      "gpu_type"])
        out.writerows([f"job-{i}", *job] for i, job in enumerate(jobs))
    return len(jobs)
