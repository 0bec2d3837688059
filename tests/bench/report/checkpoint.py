"""scripts/bench checkpoint: what a checkpoint costs the steps it overlaps, beside torch.save."""

import os
import tempfile
import threading
import time

import chart
import runner
from elastic_ours import GLOBAL_BATCH, ChaosError, Ours
from elastic_torch import PYTHON

PEER = os.path.join(runner.ROOT, "tests", "bench", "elastic", "save_resnet18.py")
WORKERS = (1, 2)
WATCH_S = 0.01
WARM = 3  # first steps, not counted
DEADLINE_S = 300
SPEC = """[checkpoint]
every_steps = {every}
directory = "{directory}"
keep = 2
"""


class Writing:
    """When checkpoints were written or removed: the times at which unfinished ones were seen."""

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


def observe(contestant, writing, count):
    """[(seconds, overlapped)] of `count` steps: whether a checkpoint was written meanwhile."""
    steps = contestant.steps
    first = steps.wait_for_more("warming up", WARM, DEADLINE_S)
    steps.wait_for_more("measuring", count, DEADLINE_S)
    times = [s.time for s in steps.steps if s.time >= first.time]
    return [(end - begin, writing.overlaps(begin, end)) for begin, end in zip(times, times[1:])]


def ours(programs, workers, args):
    """One run: the two kinds of steps alternate in it."""
    contestant = Ours(programs, {"first": workers}, ("first",), workers=workers)
    directory = contestant.add_to_job(SPEC, every=args.every)
    with contestant, Writing(directory) as writing:
        seen = observe(contestant, writing, args.steps)
    return {"with": [s for s, overlapped in seen if overlapped],
            "without": [s for s, overlapped in seen if not overlapped]}


def peer(args):
    with tempfile.TemporaryDirectory() as directory:
        return runner.run_json([PYTHON, PEER, directory, str(GLOBAL_BATCH), str(args.steps),
                                str(args.every)], args.core)


def result_of(workers, runs):
    plain = [s for run in runs for s in run["without"]]
    slow = [s for run in runs for s in run["with"]]
    if not plain or not slow:
        raise runner.BenchError("every step or no step overlapped a checkpoint: change --every")
    usual, overlapped = runner.median(plain), runner.median(slow)
    return {"system": "EasyScale", "workers": workers, "steps_without": len(plain),
            "steps_with": len(slow), "step_ms": round(1e3 * usual, 2),
            "spread": round(runner.spread(plain), 4),
            "step_with_ms": round(1e3 * overlapped, 2), "stands_still_ms": None,
            "cost": round(overlapped / usual - 1, 4)}


def peer_result(runs):
    steps = [ms for run in runs for ms in run["step_ms"]]
    saves = [ms for run in runs for ms in run["save_ms"]]
    usual, still = runner.median(steps), runner.median(saves)
    return {"system": "torch.save", "workers": 1, "steps_without": len(steps),
            "steps_with": len(saves), "step_ms": round(usual, 2),
            "spread": round(runner.spread(steps), 4), "step_with_ms": round(usual + still, 2),
            "stands_still_ms": round(still, 2), "cost": round(still / usual, 4)}


def table(results):
    rows = ["| system | workers | step, ms | spread | step with a checkpoint, ms | cost "
            "| of steps |",
            "|---|---|---|---|---|---|---|"]
    rows += [f"| {r['system']} | {r['workers']} | {r['step_ms']:.1f} | {100 * r['spread']:.0f} % "
             f"| {r['step_with_ms']:.1f} | {100 * r['cost']:+.1f} % "
             f"| {r['steps_without']} and {r['steps_with']} |" for r in results]
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
    results = [result_of(workers, found) for workers, found in runs.items()]
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
    parser.add_argument("--steps", type=int, default=40, help="measured in a round (default 40)")
    parser.add_argument("--every", type=int, default=5,
                        help="steps between checkpoints (default 5)")
    parser.add_argument("--ours-only", action="store_true", help="without PyTorch")
