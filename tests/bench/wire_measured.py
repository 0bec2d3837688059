#!/usr/bin/env python3
"""Bytes and time of a step of a job whose members share no memory, beside gloo's all-reduce.

    sudo unshare --net python3 tests/bench/wire_measured.py --programs build --members 3 5 6 7

All processes talk over the loopback of the network namespace, which `tc` limits to --rate. Each
member is the only device of a node in a process namespace of its own. Bytes are those that the
loopback has sent, with all headers and heartbeats. --gloo PYTHON also measures `all_reduce` of
tensors of the same sizes with that interpreter, which has PyTorch."""
import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "report"))
from hosts import Hosts, sent_bytes, start  # noqa: E402

STEPS, FIRST = 12, 4
PARAMETERS = 2797034  # of the model of JOB
JOB = """name = "wire"
steps = {steps}
max_p = 64
batch_size = 1
[model]
name = "resnet18"
width = 32
[data]
crop_padding = 0
flip = false
[schedule]
kind = "step"
step_size = 50
gamma = 0.9
"""
GLOO = """
import sys, time, torch, torch.distributed as dist
rank, world, floats = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29500", rank=rank, world_size=world)
tensor = torch.ones(floats)
sent = lambda: int(open("/proc/self/net/dev").read().split("lo:")[1].split()[8])
for step in range(4 + 10):
    if step == 4:
        dist.barrier()
        begin, bytes_before = time.monotonic(), sent()
    dist.all_reduce(tensor)
dist.barrier()
if rank == 0:
    print((sent() - bytes_before) / 10, (time.monotonic() - begin) / 10)
"""


def measure(programs, members):
    """Bytes and seconds of a step."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        job_file = directory / "wire.toml"
        job_file.write_text(JOB.format(steps=STEPS))
        cluster = Hosts(programs, ["cpu-avx2:1"] * members, directory)
        try:
            job = cluster.json("submit", job_file, "--stages",
                               f"cpu-avx2:{members}@{STEPS}")["job"]
            first = None
            while True:
                view = cluster.json("describe", job)
                done, now = view["steps"], (sent_bytes(), time.monotonic())
                if first is None and done >= FIRST:
                    first = (done, *now)
                if view["state"] == "finished":
                    break
                if view["state"] == "failed":
                    raise RuntimeError(json.dumps(view))
            steps = done - first[0]
            return (now[0] - first[1]) / steps, (now[1] - first[2]) / steps
        finally:
            cluster.stop()


def gloo(python, members, floats):
    ranks = [start(python, "-c", GLOO, rank, members, floats) for rank in range(members)]
    return [float(word) for word in ranks[0].communicate()[0].split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=Path, nargs="+", required=True)
    parser.add_argument("--members", type=int, nargs="+", required=True)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--gloo", type=Path)
    options = parser.parse_args()
    if len(Path("/proc/self/net/dev").read_text().splitlines()) != 3:
        sys.exit("run this in a network namespace of its own: unshare --net")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", options.rate, "burst",
                    "256kb", "limit", "16mb"], check=True)
    for members in options.members:
        ring = 2 * (members - 1) * 4 * PARAMETERS
        for programs in options.programs:
            sent, seconds = measure(programs, members)
            print(f"{members} {programs}: {sent / 1e6:.1f} MB, {sent / ring:.2f} of a ring, "
                  f"{seconds:.2f} s", flush=True)
        if options.gloo:
            sent, seconds = gloo(options.gloo, members, PARAMETERS)
            print(f"{members} gloo: {sent / 1e6:.1f} MB, {sent / ring:.2f} of a ring, "
                  f"{seconds:.2f} s", flush=True)


if __name__ == "__main__":
    main()
