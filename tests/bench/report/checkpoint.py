"""scripts/bench checkpoint: how much a checkpoint slows down the steps during which it is written,
beside torch.save."""

import math
import os
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass

import chart
import runner
from elastic_ours import GLOBAL_BATCH, ChaosError, Ours
from elastic_torch import PYTHON

PEER = os.path.join(runner.ROOT, "tests", "bench", "elastic", "save_resnet18.py")
WORKERS = (1, 2)
WATCH_S = 0.02
WARM = 3  # The first steps are not counted.
DEADLINE_S = 300
WRITER = "checkpoint"  # The name of the writing thread in a worker.
SPEC = """[checkpoint]
every_steps = {every}
directory = "{directory}"
keep = 2
"""


@dataclass
class Timed:
    number: int
    begin: float
    end: float
    overlapped: bool

    @property
    def seconds(self):
        return self.end - self.begin


class Writing:
    """The times at which checkpoints were written or removed, observed as unfinished
    directories."""

    def __init__(self, directory):
        self._directory, self._over = directory, threading.Event()
        self._times = []
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _watch(self):
        while not self._over.wait(WATCH_S):
            if next(self._directory.glob("*/.step-*"), None):
                self._times.append(time.monotonic())

    def overlaps(self, begin, end):
        return any(begin <= t <= end for t in self._times)


def observe(contestant, writing, count, every):
    """Selects among `count` steps. A checkpoint overlaps the step that begins with its version,
    because from then on the version is read, and parts that are not read yet are copied at the end
    of that step. It also overlaps every step during which an unfinished checkpoint was seen."""
    steps = contestant.steps
    first = steps.wait_for_more("warming up", WARM, DEADLINE_S)
    steps.wait_for_more("measuring", count, DEADLINE_S)
    seen = [s for s in steps.steps if s.time >= first.time]
    return [Timed(b.number, a.time, b.time,
                  a.number % every == 0 or writing.overlaps(a.time, b.time))
            for a, b in zip(seen, seen[1:]) if b.number == a.number + 1]


def writer_seconds(contestant):
    """Processor time of the threads that wrote checkpoints."""
    total = 0
    for daemon in contestant.cluster.daemons.values():
        for worker in daemon.workers():
            for task in os.listdir(f"/proc/{worker.pid}/task"):
                path = f"/proc/{worker.pid}/task/{task}"
                if open(f"{path}/comm").read().strip() == WRITER:
                    total += int(open(f"{path}/schedstat").read().split()[0])
    return total / 1e9


def ours(programs, workers, args):
    """One run, in which the two kinds of steps alternate."""
    contestant = Ours(programs, {"first": workers}, ("first",), workers=workers)
    directory = contestant.add_to_job(SPEC, every=args.every)
    with contestant, Writing(directory) as writing:
        timed = observe(contestant, writing, args.steps, args.every)
        written = contestant.steps.steps[-1].number // args.every
        return {"steps": timed, "writer_s": writer_seconds(contestant) / written}


def peer(args):
    with tempfile.TemporaryDirectory() as directory:
        return runner.run_json([PYTHON, PEER, directory, str(GLOBAL_BATCH), str(args.steps),
                                str(args.every)], args.core)


def by_checkpoint(steps, every):
    """Returns [(overlapped, other)] seconds of the steps after each checkpoint, until the next
    one."""
    cycles = {}
    for step in steps:
        cycle, place = divmod(step.number - 1, every)
        if cycle > 0 and place == 0:
            cycles[cycle] = ([], [])
        if cycle in cycles:
            cycles[cycle][0 if step.overlapped else 1].append(step.seconds)
    return [kinds for kinds in cycles.values() if all(kinds)]


def mean_and_error(values):
    """Returns the mean and half of its 95 % confidence interval (for ten values or more)."""
    return statistics.mean(values), 2 * statistics.stdev(values) / math.sqrt(len(values))


def result_of(workers, runs, every):
    cycles = [cycle for run in runs for cycle in by_checkpoint(run["steps"], every)]
    if len(cycles) < 2:
        raise runner.BenchError("too few checkpoints that overlap some steps and not all: "
                                "change --every or --steps")
    # Each step is compared with the other steps of its own cycle, because the speed of the machine
    # drifts.
    cost, error = mean_and_error([statistics.mean(slow) / statistics.mean(plain) - 1
                                  for slow, plain in cycles])
    plain = [s for _, other in cycles for s in other]
    slow = [s for overlapped, _ in cycles for s in overlapped]
    usual = statistics.mean(plain)
    added = statistics.mean([sum(s - statistics.mean(other) for s in overlapped)
                             for overlapped, other in cycles])
    return {"system": "EasyScale", "workers": workers, "steps_without": len(plain),
            "steps_with": len(slow), "step_ms": round(1e3 * usual, 2),
            "spread": round(runner.spread(plain), 4),
            "step_with_ms": round(1e3 * statistics.mean(slow), 2),
            "first_with_ms": round(1e3 * statistics.mean([o[0] for o, _ in cycles]), 2),
            "added_ms": round(1e3 * added, 2), "checkpoints": len(cycles),
            "writer_cpu_ms": round(1e3 * statistics.mean([r["writer_s"] for r in runs]), 2),
            "cost": round(cost, 4), "cost_error": round(error, 4)}


def peer_result(runs):
    steps = [ms for run in runs for ms in run["step_ms"]]
    saves = [ms for run in runs for ms in run["save_ms"]]
    usual, still = statistics.mean(steps), statistics.mean(saves)
    ratios = [ms / usual for ms in saves]
    return {"system": "torch.save", "workers": 1, "steps_without": len(steps),
            "steps_with": len(saves), "step_ms": round(usual, 2),
            "spread": round(runner.spread(steps), 4), "step_with_ms": round(usual + still, 2),
            "first_with_ms": round(usual + still, 2),
            "added_ms": round(still, 2), "checkpoints": len(saves), "writer_cpu_ms": None,
            "cost": round(still / usual, 4), "cost_error": round(mean_and_error(ratios)[1], 4)}


def table(results):
    rows = ["| system | workers | step, ms | spread | overlapped steps, ms | the first of them "
            "| cost | added by one checkpoint, ms | steps and checkpoints |",
            "|---|---|---|---|---|---|---|---|---|"]
    rows += [f"| {r['system']} | {r['workers']} | {r['step_ms']:.1f} | {100 * r['spread']:.0f} % "
             f"| {r['step_with_ms']:.1f} | {r['first_with_ms']:.1f} "
             f"| {100 * r['cost']:+.1f} ± {100 * r['cost_error']:.1f} % "
             f"| {r['added_ms']:.1f} "
             f"| {r['steps_without']} + {r['steps_with']}, {r['checkpoints']} |" for r in results]
    return "\n".join(rows)


def measure(programs, args):
    runs, peers = {workers: [] for workers in WORKERS}, []
    for number in range(args.rounds):
        for workers in WORKERS:
            runner.progress(f"round {number + 1}: EasyScale, {workers} workers")
            runs[workers].append(ours(programs, workers, args))
        if not args.ours_only:
            runner.progress(f"round {number + 1}: torch.save")
            peers.append(peer(args))
    results = [result_of(workers, found, args.every) for workers, found in runs.items()]
    return results + ([peer_result(peers)] if peers else [])


def main(args):
    if not args.ours_only:
        runner.require_torch(PYTHON)
    try:
        results = measure(runner.build_programs(), args)
    except ChaosError as error:
        raise runner.BenchError(str(error)) from error
    print(f"{runner.processor()}, a checkpoint every {args.every} steps\n\n{table(results)}")
    labels = [f"{r['system']}, {r['workers']} workers" for r in results]
    runner.write_results(args, results, chart.bars(
        "Cost of a checkpoint to a step that it overlaps, %", labels,
        {"cost": [100 * max(0.0, r["cost"]) for r in results]}, mark=2.0, form="{:.1f}"))


def add_arguments(parser):
    parser.add_argument("--rounds", type=int, default=3, help="alternations (default 3)")
    parser.add_argument("--steps", type=int, default=60, help="measured in a round (default 60)")
    parser.add_argument("--every", type=int, default=10,
                        help="steps between checkpoints (default 10)")
    parser.add_argument("--ours-only", action="store_true", help="without PyTorch")
