"""scripts/bench shards: memory, bytes and time of a job with sharded state, beside FSDP2 and ZeRO of PyTorch."""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import chart
import elastic_ours
import process_memory
import runner
import shards_limit
import torch_peer
from hosts import Hosts, sent_bytes
from step_stream import StepStream

STATES = ("off", "on")
PEERS = ("fsdp2", "zero")
SPARE_STEPS = 2  # in which the workers still live when they are read
DEADLINE_S = 600


def in_own_network():
    """Starts this program again in a network namespace, whose loopback nothing else uses."""
    if len(Path("/proc/self/net/dev").read_text().splitlines()) == 3:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    elif os.geteuid() != 0:
        raise runner.BenchError("shards: a network namespace needs root")
    else:
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])


def captured_job(args, esctl, folder):
    done = subprocess.run(
        [args.python, "sharded_job.py", folder, "--steps",
         str(args.warm + args.steps + SPARE_STEPS)],
        capture_output=True, text=True, cwd=torch_peer.FOLDER,
        env=os.environ | {"EASYSCALE_ESCTL": esctl, "PYTHONDONTWRITEBYTECODE": "1"})
    if done.returncode != 0:
        raise runner.BenchError(f"the model was not captured:\n{done.stderr[-2000:]}")
    job = Path(done.stdout.split()[-1])
    # The checkpoint of the last step is written with the lowest priority, so it can take long.
    job.write_text(job.read_text().partition("\n[checkpoint]")[0] + "\n")
    return job


def formula_mib(esctl, job):
    """(members, state) -> what a worker needs."""
    done = subprocess.run([esctl, "inspect", job, "--no-d2", "--json"], check=True,
                          stdout=subprocess.PIPE)
    keys = {"off": "whole_bytes", "on": "divided_bytes"}
    return {(row["workers"], state): row[key] / 2**20
            for row in json.loads(done.stdout)["worker_memory"] for state, key in keys.items()}


class Ours:
    """One run of the job."""

    def __init__(self, args, job):
        self.args, self.job = args, job

    def run(self, members, state, apart):
        """`apart`: each member is on a host of its own; otherwise all are on one machine."""
        device = f"cpu-{runner.kernel_class()}"
        devices = [f"{device}:1"] * members if apart else [f"{device}:{members}"]
        job = self.job.with_name(f"{state}.toml")
        job.write_text(f'{self.job.read_text()}\n[shard]\nstate = "{state}"\n')
        with tempfile.TemporaryDirectory(prefix="easyscale-bench-") as folder:
            cluster = Hosts(Path(runner.BUILD), devices, Path(folder))
            try:
                return self._measured(cluster, job, f"{device}:{members}")
            finally:
                cluster.stop()

    def _measured(self, cluster, job, devices):
        steps, last = StepStream(elastic_ours.parse_progress), self.args.warm + self.args.steps
        follower = elastic_ours.submit_and_follow(
            cluster.words("submit", job, "--stages", f"{devices}@{last + SPARE_STEPS}"), steps)
        try:
            first = steps.wait("the job begins", lambda s: s.number >= self.args.warm,
                               deadline_s=DEADLINE_S)
            sent = sent_bytes()
            for pid in process_memory.workers_of(os.getpid()):
                process_memory.begin_peak_anew(pid)
            watch = process_memory.Watch(os.getpid())
            end = steps.wait("the job goes on", lambda s: s.number >= last, deadline_s=DEADLINE_S)
            sent = sent_bytes() - sent
            workers = watch.stop()
            follower.wait(DEADLINE_S)
        finally:
            follower.kill()
            follower.wait()
        view = cluster.json("describe", cluster.json("ps", "--all")["jobs"][0]["job"])
        if view["state"] != "finished":
            raise runner.BenchError(f"the job is {view['state']}: {view.get('error')}")
        count = end.number - first.number
        return {"bytes": sent / count, "seconds": (end.time - first.time) / count,
                "digests": [view["params_digest"], view["state_digest"]],
                "mib": {key: [one[key] for one in workers] for key in workers[0]}}


def torchrun(args, kind, members):
    done = subprocess.run(
        [args.python, "-m", "torch.distributed.run", "--nproc_per_node", str(members),
         "--master_addr", "127.0.0.1", "--master_port", str(elastic_ours.free_port()),
         "sharded_member.py", kind, "--warm", str(args.warm), "--steps", str(args.steps)],
        capture_output=True, text=True, cwd=torch_peer.FOLDER, timeout=DEADLINE_S,
        env=runner.one_core_environment() | {"PYTHONDONTWRITEBYTECODE": "1"})
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise runner.BenchError(f"{kind} with {members} members: {done.stderr[-2000:]}")
    return json.loads(lines[-1])


def contestants(args, ours):
    """(name, function of the number of members)."""
    for where in args.where:
        for state in filter(args.sides.__contains__, STATES):
            yield f"{state} {where}", lambda n, s=state, w=where: ours.run(n, s, w == "hosts")
    for kind in filter(args.sides.__contains__, PEERS):
        yield kind, lambda n, k=kind: torchrun(args, k, n)


def measure(args, esctl, folder):
    job = captured_job(args, esctl, os.path.join(folder, "job"))
    formula, ours = formula_mib(esctl, job), Ours(args, job)
    rows, order = [], random.Random(1)
    for members in args.members:
        for number in range(args.rounds):
            sides = list(contestants(args, ours))
            order.shuffle(sides)
            for name, run in sides:
                if name in PEERS and number >= args.peer_rounds:
                    continue
                row = {"members": members, "round": number + 1, "side": name, **run(members)}
                if name not in PEERS:
                    row["formula_mib"] = formula[members, name.split()[0]]
                runner.progress(f"{members} {name}: {brief(row)}")
                rows.append(row)
                runner.write_results(args, rows, "")
    check_bits(rows)
    return rows


def brief(row):
    return (f"{row['bytes'] / 1e6:.1f} MB, {row['seconds']:.2f} s, "
            + ", ".join(f"{key} {min(v):.0f}-{max(v):.0f}" for key, v in row["mib"].items()))


def check_bits(rows):
    """Error: two runs of ours have other bits."""
    digests = {tuple(row["digests"]) for row in rows if "digests" in row}
    if len(digests) > 1:
        raise runner.BenchError(f"the runs do not have the same digests: {digests}")


# --- the report

def of(rows, side, members, value):
    return [value(row) for row in rows if row["side"] == side and row["members"] == members]


def own_mib(row):
    """The largest memory of a member beyond that of the program before it has a model: for us the
    pages of the program file, for PyTorch all that it has after the imports."""
    mib = row["mib"]
    if "before" in mib:
        return max(peak - before for peak, before in zip(mib["peak"], mib["before"]))
    return max(peak - file for peak, file in zip(mib["VmHWM"], mib["RssFile"]))


def cell(found, form):
    return form.format(max(found)) if found else ""


def memory_table(rows, members):
    lines = ["| members | whole, formula | whole | sharded, formula | sharded | FSDP2 | ZeRO |",
             "|---" * 7 + "|"]
    for n in members:
        cells = []
        for state in STATES:
            cells += [of(rows, f"{state} hosts", n, lambda row: row["formula_mib"]),
                      of(rows, f"{state} hosts", n, own_mib)]
        cells += [of(rows, kind, n, own_mib) for kind in PEERS]
        lines.append(f"| {n} | " + " | ".join(cell(found, "{:.0f}") for found in cells) + " |")
    return "\n".join(lines)


def machine_table(rows, members):
    lines = ["| members | state | formula | own | peak of resident memory | RssAnon |",
             "|---" * 6 + "|"]
    for n in members:
        for state in STATES:
            values = [of(rows, f"{state} machine", n, value) for value in (
                lambda row: row["formula_mib"],
                *(lambda row, k=key: max(row["mib"][k]) for key in ("Own", "VmHWM", "RssAnon")))]
            lines.append(f"| {n} | {state} | "
                         + " | ".join(cell(found, "{:.0f}") for found in values) + " |")
    return "\n".join(lines)


def bytes_table(rows, members):
    lines = ["| members | whole | sharded | FSDP2 | ZeRO |", "|---" * 5 + "|"]
    for n in members:
        found = [of(rows, side, n, lambda row: row["bytes"] / 1e6 / row["members"])
                 for side in ("off hosts", "on hosts", *PEERS)]
        lines.append(f"| {n} | " + " | ".join(
            f"{runner.median(f):.1f}" if f else "" for f in found) + " |")
    return "\n".join(lines)


def ratios(rows, where, members):
    """The time of a sharded step over that of an unsharded one, of every round."""
    times = {state: of(rows, f"{state} {where}", members, lambda row: row["seconds"])
             for state in STATES}
    return [on / off for on, off in zip(times["on"], times["off"])]


def time_table(rows, members, wheres):
    lines = ["| members | " + " | ".join(f"{where}: sharded / whole | least to most"
                                         for where in wheres) + " |",
             "|---" * (1 + 2 * len(wheres)) + "|"]
    for n in members:
        cells = []
        for where in wheres:
            found = ratios(rows, where, n)
            cells += [f"{runner.median(found):.3f}", f"{min(found):.3f} to {max(found):.3f}"]
        lines.append(f"| {n} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def report(rows, args):
    parts = [runner.processor()]
    if "hosts" in args.where:
        parts += ["Members on hosts of their own, MiB:", memory_table(rows, args.members),
                  "MB that a member sends in a step:", bytes_table(rows, args.members)]
    if "machine" in args.where:
        parts += ["Members on one machine, MiB:", machine_table(rows, args.members)]
    if set(STATES) <= set(args.sides):
        parts += ["Time of a step:", time_table(rows, args.members, args.where)]
    return "\n\n".join(parts)


def svg(rows, members):
    sides = [side for side in ("off hosts", "on hosts", *PEERS)
             if any(row["side"] == side for row in rows)]
    return chart.bars("Largest memory of a member beyond the program, MiB",
                      [str(n) for n in members],
                      {side: [max(of(rows, side, n, own_mib)) for n in members]
                       for side in sides})


def main(args):
    esctl, _ = runner.build_programs()
    if args.part_of_shards == "limit":
        return shards_limit.main(args, esctl)
    args.where, args.sides = args.where.split(","), args.sides.split(",")
    runner.allowed("--where", args.where, ("hosts", "machine"))
    runner.allowed("--sides", args.sides, STATES + PEERS)
    args.python = torch_peer.python(args.python)
    in_own_network()
    with tempfile.TemporaryDirectory(prefix="easyscale-bench-") as folder:
        rows = measure(args, esctl, folder)
    print(report(rows, args))
    runner.write_results(args, rows, svg(rows, args.members))


def add_arguments(parser):
    parser.add_argument("--part", dest="part_of_shards", choices=("table", "limit"),
                        default="table",
                        help="one to eight members (default), or GPT-2 on nodes that have no "
                             "memory for its whole state")
    parser.add_argument("--members", type=lambda text: [int(n) for n in text.split(",")],
                        default=list(range(1, 9)), help="numbers (default 1,2,3,4,5,6,7,8)")
    parser.add_argument("--where", default="hosts,machine",
                        help="members on hosts of their own, on one machine, or both (default)")
    parser.add_argument("--rounds", type=int, default=3, help="alternations (default 3)")
    parser.add_argument("--peer-rounds", type=int, default=1,
                        help="rounds that have PyTorch too (default 1)")
    parser.add_argument("--warm", type=int, default=2, help="steps before the measured ones")
    parser.add_argument("--steps", type=int, default=5, help="measured steps (default 5)")
    parser.add_argument("--python", help="Python with torch (default: that of setup_pytorch)")
    parser.add_argument("--sides", default=",".join(STATES + PEERS),
                        help="of %(default)s (default: all): ours by shard.state, and PyTorch")
    shards_limit.add_arguments(parser)
