#!/usr/bin/env python3
"""Captures a workload and writes a job for it: model, weights and samples.

  captured.py WORKLOAD FOLDER --steps N [--threads N]

FOLDER is a new folder. Prints the path of its job file, which has no stages. EASYSCALE_ESCTL names
esctl.
"""
import argparse
import inspect
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
import easyscale as es
from workloads import WORKLOADS


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    work = WORKLOADS[options.workload]
    samples = work.samples(4 * work.batch)
    model = work.make()
    if len(work.targets) > 1:
        # Several targets have names, and so the inputs have those of the arguments.
        inputs = [name for name in samples if name not in work.targets]
        arguments = dict(zip(inputs, inspect.signature(model.forward).parameters))
        samples = {arguments.get(name, name): array for name, array in samples.items()}
    named = work.loss is None or len(work.targets) > 1
    data = es.data.arrays(**samples) if named else es.data.arrays(*samples.values())
    job = es.Job(model, loss=work.loss, data=data, batch_size=work.batch, max_p=1,
                 steps=options.steps, threads=options.threads, directory=options.folder,
                 optimizer=es.Optimizer("sgd", learning_rate=1e-4, momentum=0.9))
    print(job.write())


if __name__ == "__main__":
    main()
