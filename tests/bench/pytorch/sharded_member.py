#!/usr/bin/env python3
"""Trains the model of sharded_work.py as a member of torchrun, with sharded state.

  sharded_member.py fsdp2|zero --warm N --steps N
  sharded_member.py fsdp2 --saves FOLDER

fsdp2 is `fully_shard` of every block and of the whole; zero is DistributedDataParallel with
ZeroRedundancyOptimizer. All members compute parts of the same global batch, as even as possible.

The first form prints a JSON object for the steps after the first --warm ones: bytes that the
loopback of this network namespace has sent in a step, seconds, losses, and of every member its
largest memory in these steps and what it had before there was a model. The second form trains
until it is ended, saves every CHECKPOINT_STEPS steps, continues from what was saved, and prints

    step NUMBER workers WORLD_SIZE run PID"""
import argparse
import ctypes
import json
import os
import re
import statistics
import time
from pathlib import Path

import sharded_work as work
import torch
import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

CHECKPOINT_STEPS = 10


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("fsdp2", "zero"))
    parser.add_argument("--warm", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--saves", type=Path, help="of fsdp2 only")
    return parser.parse_args()


def memory_mib():
    text = Path("/proc/self/status").read_text()
    return {key: int(re.search(rf"{key}:\s+(\d+)", text)[1]) / 1024
            for key in ("VmHWM", "VmRSS", "RssAnon", "RssFile")}


def sent_bytes():
    return int(Path("/proc/self/net/dev").read_text().split("lo:")[1].split()[8])


class Member:
    def __init__(self, kind):
        self.kind, self.rank, self.world = kind, dist.get_rank(), dist.get_world_size()
        model, samples = work.model_and_samples()
        begin, end = (work.SEQUENCES * r // self.world for r in (self.rank, self.rank + 1))
        self.samples = {name: rows[begin:end].clone() for name, rows in samples.items()}
        # The mean over the members is then the mean over all sequences.
        self.share = (end - begin) * self.world / work.SEQUENCES
        settings = work.optimizer_settings()
        if kind == "fsdp2":
            mesh = dist.device_mesh.init_device_mesh("cpu", (self.world,))
            for block in model.transformer.h:
                fully_shard(block, mesh=mesh)
            self.model = fully_shard(model, mesh=mesh)
            self.optimizer = torch.optim.AdamW(self.model.parameters(), **settings)
        else:
            self.model = DistributedDataParallel(model, gradient_as_bucket_view=True)
            self.optimizer = ZeroRedundancyOptimizer(
                self.model.parameters(), optimizer_class=torch.optim.AdamW, **settings)

    def step(self):
        """Returns the loss of the own sequences, weighted so that the mean of all members is that
        of the global batch."""
        loss = work.WORK.loss_of(self.model, self.samples) * self.share
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), work.CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    # --- checkpoints of fsdp2: each member writes its shards

    def save(self, folder, step):
        partial = folder / f"step-{step}.partial"
        model, optimizer = get_state_dict(self.model, self.optimizer)
        checkpoint.save({"model": model, "optimizer": optimizer}, checkpoint_id=partial)
        if self.rank == 0:
            partial.rename(folder / f"step-{step}")

    def load(self, folder):
        """Returns the number of the newest saved step; 0: nothing was saved."""
        newest = max((int(path.name[5:]) for path in folder.glob("step-*") if not path.suffix),
                     default=0)
        if newest:
            model, optimizer = get_state_dict(self.model, self.optimizer)
            checkpoint.load({"model": model, "optimizer": optimizer},
                            checkpoint_id=folder / f"step-{newest}")
            set_state_dict(self.model, self.optimizer, model_state_dict=model,
                           optim_state_dict=optimizer)
        return newest


def measure(member, options, before):
    losses, seconds = [], []
    for number in range(options.warm + options.steps):
        if number == options.warm:
            ctypes.CDLL("libc.so.6").malloc_trim(0)  # what building the model has left
            Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
            dist.barrier()
            sent = sent_bytes()
        begin = time.perf_counter()
        loss = member.step()
        seconds.append(time.perf_counter() - begin)
        losses.append(loss)
    dist.barrier()
    sent = sent_bytes() - sent
    after = memory_mib()
    found = [None] * member.world
    dist.all_gather_object(found, {"peak": after["VmHWM"], "anonymous": after["RssAnon"],
                                   "before": before["VmRSS"]})
    total = torch.stack(losses)
    dist.all_reduce(total)
    if member.rank == 0:
        print(json.dumps({
            "torch": torch.__version__, "kind": options.kind, "members": member.world,
            "bytes": sent / options.steps,
            "seconds": statistics.median(seconds[options.warm:]),
            "losses": (total / member.world).tolist(),
            "mib": {key: [one[key] for one in found] for key in found[0]}}), flush=True)


def train(member, folder):
    step = member.load(folder)
    while True:
        member.step()
        step += 1
        if member.rank == 0:
            print(f"step {step} workers {member.world} run {os.getpid()}", flush=True)
        if step % CHECKPOINT_STEPS == 0:
            member.save(folder, step)


def main():
    options = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    before = memory_mib()
    member = Member(options.kind)
    if options.saves:
        train(member, options.saves)
    else:
        measure(member, options, before)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
