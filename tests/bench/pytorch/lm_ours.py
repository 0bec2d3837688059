#!/usr/bin/env python3
"""Trains the decoder of shakespeare.py by EasyScale on fixed and on changing devices.

  lm_ours.py TEXT FOLDER --steps N [--fast TYPE --other TYPE]

FOLDER is a new folder. It gets the token files, the initial weights (initial.pt) for the peer, and
a job with one EST for the time of a step. With device types it trains, and prints a JSON object with
the losses, the digests and the evaluation of every run. EASYSCALE_ESCTL names esctl.
"""
import argparse
import json
import os
import signal
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
import easyscale as es
import shakespeare as work
from easyscale.private_head import PrivateHead


def job_of(model, folder, name, steps, max_p, batch):
    data = es.data.tokens(folder / "data", length=work.LENGTH)
    return es.Job(model, loss=work.loss_of, data=data, max_p=max_p, batch_size=batch, steps=steps,
                  seed=work.SEED, level="D2", clip_norm=work.CLIP, directory=folder / name,
                  optimizer=work.optimizer_of(model),
                  schedule=es.Schedule("cosine", floor=work.FLOOR, warmup_steps=work.WARMUP))


def run_with_kill(job, stages, step):
    """Trains on the stages, and kills a worker process after a step."""
    with PrivateHead() as head:
        remote = job.submit(head.endpoint, stages=stages)
        for view in es.Client(head.endpoint).follow(remote.id, interval=0.05):
            if view["steps"] >= step and view["workers"] and view["workers"][0]["pid"] > 0:
                os.kill(view["workers"][0]["pid"], signal.SIGKILL)
                break
        else:
            sys.exit("lm_ours.py: the job ended before a worker could be killed")
        return remote.wait(progress=False)


def summary(run, stages):
    return {"stages": stages, "losses": [record.loss for record in run.history],
            "params_digest": run.params_digest, "state_digest": run.state_digest,
            "validation": run.evaluations[-1]["mean_loss"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--fast", help="a device type")
    parser.add_argument("--other", help="another device type")
    options = parser.parse_args()
    fast, other, steps = options.fast, options.other, options.steps
    vocabulary = work.write_tokens(options.text, options.folder / "data")
    torch.manual_seed(work.SEED)
    model = work.Decoder(vocabulary)
    torch.save(model.state_dict(), options.folder / "initial.pt")
    job_of(model, options.folder, "one_est", steps, 1, work.MAX_P * work.BATCH).write()
    if fast is None:
        return

    job = job_of(model, options.folder, "job", steps, work.MAX_P, work.BATCH)
    fixed, mixed = f"{fast}:4", f"{fast}:1+{other}:2"
    changing = f"{fast}:4@{3 * steps // 10},{fast}:1@{3 * steps // 10},{fast}:3"
    print(json.dumps({
        "parameters": sum(p.numel() for p in model.parameters()), "vocabulary": vocabulary,
        "fixed": summary(job.run(devices=fixed, progress=False), fixed),
        "changing": summary(run_with_kill(job, changing, 8 * steps // 10), changing),
        "mixed": summary(job.run(devices=mixed, progress=False), mixed)}))


if __name__ == "__main__":
    main()
