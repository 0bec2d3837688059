"""The peer of `scripts/bench checkpoint`. It trains ResNet18 in one thread, calls torch.save every
few steps, and prints a JSON object: {"step_ms": [...], "save_ms": [...]}. A save stops the
training.

    save_resnet18.py DIRECTORY BATCH STEPS EVERY"""
import json
import os
import sys
import time

import torch
import torch.nn.functional as F

from resnet18 import make_batch, make_model, make_optimizer


def train_step(model, optimizer, images, labels):
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()


def milliseconds(what, *arguments):
    began = time.perf_counter()
    what(*arguments)
    return 1e3 * (time.perf_counter() - began)


def save(path, model, optimizer):
    """Saves the file durably: it is on the disk when the function returns, like a checkpoint of
    EasyScale."""
    with open(path, "wb") as file:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.flush()
        os.fsync(file.fileno())


def main():
    directory, batch, steps, every = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = make_model()
    optimizer = make_optimizer(model)
    data = make_batch(batch, seed=1)
    train_step(model, optimizer, *data)  # This step allocates memory.
    result = {"step_ms": [], "save_ms": []}
    for step in range(1, steps + 1):
        result["step_ms"].append(milliseconds(train_step, model, optimizer, *data))
        if step % every == 0:
            path = os.path.join(directory, f"step-{step}.pt")
            result["save_ms"].append(milliseconds(save, path, model, optimizer))
            os.unlink(path)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
