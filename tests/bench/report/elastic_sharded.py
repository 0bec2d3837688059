"""scripts/bench elastic --kills N: workers of a job with sharded state are killed at random moments,
beside FSDP2 under torchrun, which saves its shards every 10 steps."""

import os
import random
import sys
import tempfile
import threading
from pathlib import Path

import chart
import runner
import torch_peer
from elastic_ours import Ours, processes
from elastic_torch import Torch
from shards import captured_job

sys.path.append(os.path.join(runner.ROOT, "tests", "chaos"))
import compare  # noqa: E402

MEMBERS, NODE = 4, "first"
STEPS_BEFORE = (3, 12)  # between two kills: the checkpoints of the peer are 10 steps apart
ENDLESS = 1_000_000


def write_job(args, esctl, folder):
    args.warm, args.steps = 0, ENDLESS
    job = captured_job(args, esctl, os.path.join(folder, "job"))
    text = job.read_text()
    if "\nthreads = 1\n" not in text:
        raise runner.BenchError(f"{job}: a captured job names its threads")
    job.write_text(text.replace("\nthreads = 1\n", f"\nthreads = 1\nmin_devices = {MEMBERS}\n")
                   + '\n[shard]\nstate = "on"\n')
    return job


class Sharded(Ours):
    def __init__(self, programs, job):
        super().__init__(programs, {NODE: MEMBERS}, (NODE,), MEMBERS, job)

    def full(self):
        return self.recovered(MEMBERS)

    def repeated(self, before, first):
        """The steps that this kill has made the job compute again, by its log."""
        all_of_job = compare.lost_steps(self.cluster, self.job())
        new, self.known = all_of_job - getattr(self, "known", 0), all_of_job
        return new


class Fsdp2(Torch):
    def __init__(self, python):
        script = os.path.join(torch_peer.FOLDER, "sharded_member.py")
        super().__init__({NODE: MEMBERS}, (NODE,), [], [python, script, "fsdp2", "--saves"],
                         MEMBERS)

    def full(self):
        return lambda step: True  # All workers are started again at once.

    def repeated(self, before, first):
        """`before`: the newest step before the kill; `first`: the first one after it."""
        return max(0, before.number + 1 - first.number)


def one_kill(contestant, number, draws, deadline_s):
    steps = contestant.steps
    steps.wait_for_more("before the kill", draws.randint(*STEPS_BEFORE), deadline_s)
    usual = steps.usual_gap(3)
    threading.Event().wait(draws.random() * usual)
    pids = contestant.worker_pids(NODE)
    continues = contestant.continues(MEMBERS)
    before = steps.steps[-1]
    processes.send(draws.choice(pids), 9)
    first = steps.wait("after the kill", continues, before.time, deadline_s)
    settled = steps.wait_for_more("after the kill", 2, deadline_s)
    # A worker that replaces the killed one may join later.
    steps.wait("all workers", contestant.full(), first.time, deadline_s)
    return {"kill": number, "step_s": round(usual, 3),
            "pause_s": round(steps.longest_gap(before.time, settled.time), 3),
            "repeated_steps": contestant.repeated(newest_before(steps, first), first)}


def newest_before(steps, first):
    return [step for step in steps.steps if step.time < first.time][-1]


def play(name, contestant, args):
    draws, rows = random.Random(args.seed), []
    with contestant:
        for number in range(1, args.kills + 1):
            rows.append({"system": name, **one_kill(contestant, number, draws, args.deadline)})
            runner.progress(f"{name}: {rows[-1]}")
    return rows


def table(rows):
    lines = ["| system | kills | longest pause, s: median | least to most | one step, s "
             "| pause in steps | steps done again: all | at most |", "|---" * 8 + "|"]
    for name in dict.fromkeys(row["system"] for row in rows):
        of = {key: [row[key] for row in rows if row["system"] == name]
              for key in ("pause_s", "step_s", "repeated_steps")}
        relative = runner.median([p / s for p, s in zip(of["pause_s"], of["step_s"])])
        lines.append(f"| {name} | {len(of['pause_s'])} | {runner.median(of['pause_s']):.2f} "
                     f"| {min(of['pause_s']):.2f} to {max(of['pause_s']):.2f} "
                     f"| {runner.median(of['step_s']):.2f} | {relative:.1f} "
                     f"| {sum(of['repeated_steps'])} | {max(of['repeated_steps'])} |")
    return "\n".join(lines)


def main(args, programs):
    python = args.python = torch_peer.python(args.python)
    runner.progress(f"seed {args.seed}")
    with tempfile.TemporaryDirectory(prefix="easyscale-bench-") as folder:
        job = Path(write_job(args, programs[0], folder))
        rows = play("EasyScale", Sharded(programs, job), args)
        runner.write_results(args, rows, "")
        if not args.ours_only:
            rows += play(f"FSDP2 of PyTorch {torch_peer.version(python)}", Fsdp2(python), args)
    print(f"{runner.processor()}; seed {args.seed}\n\n{table(rows)}")
    names = list(dict.fromkeys(row["system"] for row in rows))
    runner.write_results(args, rows, chart.bars(
        "Longest pause of a kill, s", [str(n) for n in range(1, args.kills + 1)],
        {name: [row["pause_s"] for row in rows if row["system"] == name] for name in names}))


def add_arguments(parser):
    kills = parser.add_argument_group("kills of workers of a job with sharded state")
    kills.add_argument("--kills", type=int, default=0, help="how many, in place of the events")
    kills.add_argument("--seed", type=int, default=1, help="of their moments (default 1)")
    kills.add_argument("--python", help="Python with torch (default: that of setup_pytorch)")
