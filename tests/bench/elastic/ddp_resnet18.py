"""The peer of `scripts/bench elastic`: ResNet18 under DistributedDataParallel, as a user of
torchrun writes it. The global batch is the same for every number of workers. Every CHECKPOINT_STEPS
steps rank 0 saves a checkpoint, and every start continues from it. For each step rank 0 prints:

    step NUMBER workers WORLD_SIZE run PID"""
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from resnet18 import make_batch, make_model, make_optimizer

CHECKPOINT_STEPS = 10


def save(path, step, model, optimizer):
    partial = path.with_suffix(".partial")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
               partial)
    partial.rename(path)


def load(path, model, optimizer):
    """Returns the step from which training continues."""
    if not path.exists():
        return 0
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def main():
    path, batch = Path(sys.argv[1]) / "checkpoint.pt", int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    net = make_model()
    optimizer = make_optimizer(net)
    step = load(path, net, optimizer)
    model = DistributedDataParallel(net)
    images, labels = make_batch(batch // world, seed=rank)
    while True:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        step += 1
        if rank == 0:
            print(f"step {step} workers {world} run {os.getpid()}", flush=True)
            if step % CHECKPOINT_STEPS == 0:
                save(path, step, net, optimizer)


if __name__ == "__main__":
    main()
