#!/usr/bin/env python3
"""Captures the model of sharded_work.py and writes a job for it: one EST for each sequence.

  sharded_job.py FOLDER --steps N

FOLDER is a new folder. Prints the path of the job file, which has no [shard] table. EASYSCALE_ESCTL
names esctl.
"""
import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
import easyscale as es
import sharded_work as work


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, samples = work.model_and_samples()
    optimizer = torch.optim.AdamW(model.parameters(), **work.optimizer_settings())
    job = es.Job(model, data=es.data.arrays(**samples), batch_size=1, max_p=work.SEQUENCES,
                 steps=options.steps, directory=options.folder, optimizer=optimizer,
                 clip_norm=work.CLIP)
    print(job.write())


if __name__ == "__main__":
    main()
