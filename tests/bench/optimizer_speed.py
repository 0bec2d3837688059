#!/usr/bin/env python3
"""A step with a captured AdamW, beside the same step with the engine's own.

    ES_PYTHON optimizer_speed.py [--rounds 5] [--steps 40] [--batch 32] [--width 4096]

The model is a perceptron of about 2048 * width parameters. One worker of one thread trains it in
turns with both. The mini-batch decides what part of a step the update is. EASYSCALE_ESCTL names
`esctl`.
"""
import argparse
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

import easyscale as es  # noqa: E402

SIDE = 1024


class Captured(torch.optim.AdamW):
    """The engine knows no class of this name, so it is captured."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("rounds", 5), ("steps", 40), ("batch", 32), ("width", 4096)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def job(options, optimizer):
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    x = random.standard_normal((4 * options.batch, SIDE)).astype(np.float32)
    model = nn.Sequential(nn.Linear(SIDE, options.width), nn.ReLU(), nn.Linear(options.width, SIDE))
    return es.Job(model, loss=nn.MSELoss(), data=es.data.arrays(x, x), batch_size=options.batch,
                  max_p=1, steps=options.steps, optimizer=optimizer(model.parameters(), lr=1e-3))


def step_ms(options, trained):
    return 1e3 * trained.run(progress=False).view["stages"][0]["seconds"] / options.steps


def main():
    options = arguments()
    jobs = [job(options, optimizer) for optimizer in (Captured, torch.optim.AdamW)]
    times = []
    for round_number in range(options.rounds):
        # Who comes first changes in every round.
        order = (0, 1) if round_number % 2 == 0 else (1, 0)
        found = {which: step_ms(options, jobs[which]) for which in order}
        times.append((found[0], found[1]))
        print(f"round {round_number + 1}: captured {found[0]:.1f} ms, own {found[1]:.1f} ms, "
              f"ratio {found[0] / found[1]:.2f}")
    ratios = [captured / own for captured, own in times]
    floats = 2 * SIDE * options.width
    extra = statistics.median(captured - own for captured, own in times) * 1e6 / floats
    print(f"median ratio {statistics.median(ratios):.2f}, {extra:.2f} ns a parameter more; "
          f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
