#!/usr/bin/env python3
"""Samples per second of a Python dataset, beside the DataLoader of PyTorch with as many workers.

    ES_PYTHON dataset_speed.py DATASET_BENCH [--workers 2] [--rounds 3] [--size 224] [--batches 100]

Both sides load the same mini-batches of the same augmented images, in turns. EASYSCALE_ESCTL names
`esctl`. Each worker has loaded a mini-batch before the time begins.
"""
import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "python"), str(HERE / "pytorch")]
import torch  # noqa: E402
import torchvision  # noqa: E402
from augmented import CLASSES, Augmented  # noqa: E402
from torch import nn  # noqa: E402

import easyscale as es  # noqa: E402

BATCH = 32


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", type=Path, help="the program dataset_bench")
    for name, default in (("workers", 2), ("rounds", 3), ("size", 224), ("batches", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def write_job(folder, data, size):
    model = nn.Sequential(nn.AvgPool2d(size), nn.Flatten(), nn.Linear(3, CLASSES))
    job = es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.dataset(data), batch_size=BATCH,
                 max_p=1, steps=1, optimizer=es.Optimizer("sgd"), directory=folder / "job")
    return job.write()


def ours(options, job):
    done = subprocess.run(
        [options.bench.resolve(), job.name, "--workers", str(options.workers), "--batches",
         str(options.batches)], cwd=job.parent, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def theirs(options, data):
    loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True, num_workers=options.workers,
                                         drop_last=True)
    batches = iter(loader)
    for _ in range(options.workers):
        next(batches)
    begin = time.perf_counter()
    for _ in range(options.batches):
        next(batches)
    return options.batches * BATCH / (time.perf_counter() - begin)


def main():
    options = arguments()
    # The DataLoader waits at the end of an epoch, so no epoch ends.
    data = Augmented(2 * BATCH * options.batches, options.size)
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, Python "
          f"{platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
          f"{options.workers} workers, batches of {BATCH} x 3 x {options.size} x {options.size}")
    with tempfile.TemporaryDirectory() as name:
        job = write_job(Path(name), data, options.size)
        found = []
        for i in range(options.rounds):
            turn = [lambda: ("ours", ours(options, job)), lambda: ("theirs", theirs(options, data))]
            found.append(dict(side() for side in (turn if i % 2 == 0 else turn[::-1])))
            print(f"round {i + 1}: easyscale {found[-1]['ours']:.1f} samples/s, DataLoader "
                  f"{found[-1]['theirs']:.1f} samples/s", flush=True)
    ratios = [x["ours"] / x["theirs"] for x in found]
    middle = statistics.median(ratios)
    print(f"median ratio {middle:.3f}, spread {(max(ratios) - min(ratios)) / middle:.3f}")


if __name__ == "__main__":
    main()
