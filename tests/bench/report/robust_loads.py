"""Generated families of job traces for scripts/figures robust. Each family stresses one thing that a
policy can do wrong. One seed gives one load, in the format `easyscale` of esctl sim.

    type-bound   each job may use one of three device types only, and the types are unequally loaded
    width-1      jobs of one device and nearly one length, all at once; half as many more as devices
    narrow       jobs of one device whose lengths differ a lot, at 95 % load
    sync         jobs with short steps whose devices wait for each other (--sync-cost)
    bursty       crowds of jobs of mixed widths, several hours apart
    two-month    jobs of one to eight devices that keep arriving for two months, at 90 % load
    wide         few jobs, each as wide as a large part of the cluster
    mixed        jobs of all widths on three types; half of them may mix types
    own-speeds   mostly narrow jobs, each with speeds of its own on four types, of which some are full
                 and others half empty; three of ten jobs may use one type only
    idle-fast    jobs that mix types, on few fast and many slow devices that are often idle
    fixed        a third of the jobs may not be suspended
    tiny         jobs of a minute or some arrive beside wide ones, on three types
    endless      short jobs keep arriving beside narrow ones of a day or two, and never all end"""

import csv
import os

DAY_S = 86_400
TYPES = {"v100": 1.0, "p100": 1.7, "t4": 2.6}  # relative seconds of a local step


class Load:
    """A trace with its cluster. `options` are further arguments of esctl sim."""

    def __init__(self, cluster, options=()):
        self.cluster, self.options = cluster, list(options)
        self.jobs, self.steps = [], {}

    def add(self, submit_s, max_p, alone_s, step_s=1.0, only="", ratios=None, suspendable=True):
        """A job that takes alone_s on max_p devices of its fastest type, on which a local step takes
        step_s times its ratio. Without `only` it may mix all types of the cluster."""
        number = len(self.jobs)
        ratios = ratios or {t: TYPES.get(t, 1.0) for t in self.cluster}
        own = only or min(ratios, key=ratios.get)
        self.steps[f"m{number}"] = {t: step_s * ratio for t, ratio in ratios.items()}
        steps = max(1, round(alone_s / (step_s * ratios[own])))
        self.jobs.append([f"j{number}", round(submit_s, 3), f"m{number}", max_p, 1, steps * max_p,
                          int(not only), own, int(suspendable)])

    def write(self, directory):
        """Returns the arguments of esctl sim after writing both files."""
        os.makedirs(directory, exist_ok=True)
        jobs, steps = (os.path.join(directory, name) for name in ("trace.csv", "steptimes.csv"))
        with open(jobs, "w", newline="") as file:
            out = csv.writer(file)
            out.writerow("job_id,submit_s,model,max_p,batch_size,samples_total,d2,gpu_type,suspendable"
                         .split(","))
            out.writerows(sorted(self.jobs, key=lambda job: job[1]))
        with open(steps, "w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["model", "gpu_type", "seconds_per_local_step"])
            for model, by_type in self.steps.items():
                out.writerows([model, t, repr(s)] for t, s in by_type.items())
        cluster = ",".join(f"{t}={n}" for t, n in self.cluster.items())
        return (jobs, cluster, "--steptimes", steps, *map(str, self.options))


def gavel_with_moves(jobs, throughputs):
    """The jobs of Gavel's trace as jobs that may change their type, which they do in that paper and
    not in the format `gavel` of esctl sim: there the bits of a job belong to one type."""
    types = {"v100": 8, "p100": 16, "k80": 24}
    with open(throughputs, newline="") as file:
        speeds = {(row["job_type"], row["gpus"]): row for row in csv.DictReader(file)}
    load = Load(types)
    with open(jobs, newline="") as file:
        for row in csv.DictReader(file):
            kind = speeds[row["job_type"], row["gpus"]]
            model = f"{row['job_type']} on {row['gpus']}"
            # The throughput is that of the whole gang; a step of it is one local step of each device.
            seconds = {t: float(kind[f"{t}_steps_per_s"]) for t in types}
            load.steps[model] = {t: 1 / s for t, s in seconds.items() if s > 0}
            gpus = int(row["gpus"])
            load.jobs.append([f"j{row['job_id']}", float(row["submit_s"]), model, gpus, 1,
                              int(float(row["total_steps"])) * gpus, 1, "", 1])
    return load


def lognormal(random, median, sigma):
    return median * 2.718281828 ** (sigma * random.gauss(0, 1))


def any_or_one(random, load):
    """Half of the jobs may mix all types, the others use one of them."""
    return random.choice(list(load.cluster)) if random.random() < 0.5 else ""


def type_bound(random, size):
    load = Load({"v100": 16, "p100": 12, "t4": 12})
    for _ in range(int(60 * size)):
        only = random.choices(list(load.cluster), (5, 3, 2))[0]
        load.add(random.uniform(0, 7200 * size), random.choice((1, 2, 4, 8, 16)),
                 lognormal(random, 1500, 1.2), 0.5, only=only)
    return load


def width_1(random, size):
    load = Load({"gpu": 34})
    for _ in range(51):
        load.add(0, 1, 10_000 * random.uniform(0.97, 1.03))
    return load


def arriving(load, random, days, use, widths, median, sigma):
    """Adds jobs until their work is the part `use` of the cluster over this time."""
    devices, work = sum(load.cluster.values()), 0
    drawn = []
    while work < use * devices * days * DAY_S:
        width, alone_s = random.choice(widths), min(lognormal(random, median, sigma), 5 * DAY_S)
        drawn.append((random.uniform(0, days * DAY_S), width, alone_s))
        work += width * alone_s
    for submit_s, width, alone_s in drawn:
        load.add(submit_s, width, alone_s)
    return load


def narrow(random, size):
    return arriving(Load({"gpu": 24}), random, 2 * size, 0.95, (1,), 4000, 1.3)


def sync(random, size):
    load = Load({"gpu": 32}, ("--sync-cost", 0.01))
    for _ in range(int(60 * size)):
        load.add(random.uniform(0, 10_000 * size), random.choice((1, 2, 4, 8, 8, 16)),
                 lognormal(random, 800, 1.0), random.choice((0.02, 0.05, 0.2)))
    return load


def bursty(random, size):
    load = Load({"v100": 16, "t4": 16})
    for burst in range(int(5 * size)):
        for _ in range(25):
            load.add(burst * 4 * 3600 + random.uniform(0, 120), random.choice((1, 1, 2, 4, 8, 16)),
                     lognormal(random, 1200, 1.3), 0.5, only=any_or_one(random, load))
    return load


def two_month(random, size):
    return arriving(Load({"gpu": 34}), random, 60 * size, 0.9, (1, 1, 1, 2, 4, 8), 5000, 1.8)


def wide(random, size):
    load = Load({"gpu": 48})
    for _ in range(int(24 * size)):
        load.add(random.uniform(0, 6 * 3600 * size), random.choice((16, 24, 32, 48)),
                 lognormal(random, 1500, 0.8), 0.5)
    return load


def mixed(random, size):
    load = Load({"v100": 24, "p100": 12, "t4": 12})
    for _ in range(int(100 * size)):
        ratios = {t: s * random.uniform(0.7, 1.4) for t, s in TYPES.items()}
        load.add(random.uniform(0, 6 * 3600 * size), random.choice((1, 2, 4, 8, 16)),
                 lognormal(random, 1500, 1.2), 0.5, only=any_or_one(random, load), ratios=ratios)
    return load


def own_speeds(random, size):
    load = Load({"t4": 40, "p100": 12, "v100": 12, "k80": 16})
    seconds = {"t4": 2.5, "p100": 1.7, "v100": 1.0, "k80": 3.3}
    for _ in range(int(660 * size)):
        ratios = {t: lognormal(random, s, 0.25) for t, s in seconds.items()}
        only = random.choices(list(load.cluster), (50, 15, 20, 15))[0]
        load.add(random.uniform(0, DAY_S * size), random.choices((1, 2, 4, 8), (80, 10, 6, 4))[0],
                 min(lognormal(random, 1200, 1.3), 50_000),
                 only=only if random.random() < 0.3 else "", ratios=ratios)
    return load


def idle_fast(random, size):
    load = Load({"v100": 12, "t4": 28})
    for _ in range(int(60 * size)):
        load.add(random.uniform(0, 6 * 3600 * size), random.choice((4, 6, 8, 12, 20)),
                 lognormal(random, 1200, 1.0), random.choice((0.25, 0.5)))
    return load


def fixed(random, size):
    load = Load({"v100": 16, "t4": 16})
    for _ in range(int(100 * size)):
        load.add(random.uniform(0, 5 * 3600 * size), random.choice((1, 2, 4, 8, 16)),
                 lognormal(random, 1200, 1.2), 0.5, only=any_or_one(random, load),
                 suspendable=random.random() > 1 / 3)
    return load


def tiny(random, size):
    load = Load({"v100": 12, "p100": 12, "t4": 12})
    for _ in range(int(300 * size)):
        load.add(random.uniform(0, 3 * 3600 * size), random.choice((1, 1, 1, 2)),
                 lognormal(random, 150, 0.6), 0.5, only=any_or_one(random, load))
    for _ in range(int(12 * size)):
        load.add(random.uniform(0, 2 * 3600 * size), random.choice((12, 24, 36)),
                 lognormal(random, 2000, 0.5), 0.5, only=any_or_one(random, load))
    return load


def endless(random, size):
    load = Load({"gpu": 24})
    for _ in range(int(14 * size)):
        load.add(random.uniform(0, 4 * DAY_S * size), random.choice((1, 1, 2, 4)),
                 random.uniform(0.7, 2.2) * DAY_S, 1)
    return arriving(load, random, 5 * size, 0.6, (1, 1, 2, 4, 8, 16), 1200, 1.2)


FAMILIES = {"type-bound": type_bound, "width-1": width_1, "narrow": narrow, "sync": sync,
            "bursty": bursty, "two-month": two_month, "wide": wide, "mixed": mixed,
            "own-speeds": own_speeds, "idle-fast": idle_fast, "fixed": fixed, "tiny": tiny,
            "endless": endless}
