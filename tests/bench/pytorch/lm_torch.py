#!/usr/bin/env python3
"""Trains the decoder of shakespeare.py by PyTorch, alone or as a member of torchrun.

  lm_torch.py FOLDER --steps N [--begin N] [--end N] [--state FILE] [--threads N]

FOLDER is what lm_ours.py has written. With `--state` the run begins with what an earlier one has
left in this file, if it is there, and leaves its own state. The first member prints a JSON object.
"""
import argparse
import hashlib
import json
import os
import statistics
import time
from pathlib import Path

import shakespeare as work
import step
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, required=True, help="of the whole training")
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--end", type=int, help="default: all steps")
    parser.add_argument("--state", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def train(model, optimizer, options, world, rank):
    """Returns the losses of the global batches and the seconds of the steps."""
    ids, labels = work.windows(options.folder / "data" / "train.bin")
    member = DistributedDataParallel(model) if world > 1 else model
    losses, seconds = [], []
    for number in range(options.begin, options.end or options.steps):
        batch = work.global_batch(len(ids), number)
        share = len(batch) // world
        own = batch[rank * share:(rank + 1) * share]
        for group in optimizer.param_groups:
            group["lr"] = work.rate(number, options.steps)
        optimizer.zero_grad(set_to_none=True)
        begin = time.perf_counter()
        loss = work.loss_of(member(ids[own]), labels[own])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), work.CLIP)
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
        loss = loss.detach()
        if world > 1:
            dist.all_reduce(loss)
        losses.append(float(loss) / world)
    return losses, seconds


def validation(model, folder):
    """The mean loss of all windows of the validation."""
    ids, labels = work.windows(folder / "data" / "val.bin")
    with torch.no_grad():
        sums = [float(work.loss_of(model(ids[i:i + 64]), labels[i:i + 64])) * len(ids[i:i + 64])
                for i in range(0, len(ids), 64)]
    return sum(sums) / len(ids)


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    if world > 1:
        dist.init_process_group("gloo")
    else:
        step.refuse_crippled(options.threads)
    initial = torch.load(options.folder / "initial.pt", weights_only=True)
    model = work.Decoder(len(initial["token.weight"]))
    model.load_state_dict(initial)
    optimizer = work.optimizer_of(model)
    if options.state and options.state.exists():
        state = torch.load(options.state, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    losses, seconds = train(model, optimizer, options, world, rank)
    if rank == 0:
        if options.state:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                       options.state)
        digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
        print(json.dumps({
            "torch": torch.__version__, "losses": losses, "ms": 1e3 * statistics.median(seconds),
            "digest": digest.hexdigest()[:32], "validation": validation(model, options.folder),
            "product_gflops": step.product_gflops(), "threads": options.threads,
            "capability": torch.backends.cpu.get_cpu_capability(), "blas": "MKL, oneDNN"}))
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
