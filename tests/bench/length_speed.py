#!/usr/bin/env python3
"""Training on texts of several lengths in length buckets, beside padding to the longest one.

    ES_PYTHON length_speed.py [--rounds 3] [--steps 60] [--batch 16] [--longest 128] [--width 128]

A small encoder is trained on texts whose mean length is a third of the longest one, by one worker of
one thread, in turns with both. EASYSCALE_ESCTL names `esctl`.
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

WORDS, CLASSES, SAMPLES = 1000, 4, 2000


class Encoder(nn.Module):
    """Layers of attention over the tokens, and their mean."""

    def __init__(self, longest, width):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(longest, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, ids, mask):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        x = self.layers(x, src_key_padding_mask=mask == 0)
        mask = mask[..., None].float()
        return self.head((x * mask).sum(1) / mask.sum(1))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("rounds", 3), ("steps", 60), ("batch", 16), ("longest", 128),
                          ("width", 128)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def texts(longest):
    """Padded tokens, their mask, classes, and the lengths."""
    random = np.random.default_rng(0)
    lengths = np.minimum(4 + random.exponential(0.33 * longest, SAMPLES).astype(int), longest)
    lengths[0] = longest
    mask = np.arange(longest)[np.newaxis] < lengths[:, np.newaxis]
    return (random.integers(1, WORDS, mask.shape) * mask, mask.astype(np.int64),
            random.integers(0, CLASSES, SAMPLES), lengths)


def job(options, data):
    torch.manual_seed(0)
    model = Encoder(options.longest, options.width)
    return es.Job(model, loss=nn.CrossEntropyLoss(), data=data, batch_size=options.batch, max_p=2,
                  steps=options.steps, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))


def step_ms(options, trained):
    return 1e3 * trained.run(progress=False).view["stages"][0]["seconds"] / options.steps


def main():
    options = arguments()
    ids, mask, classes, lengths = texts(options.longest)
    padded = es.data.arrays(ids, mask, classes)
    buckets = es.data.bucketed(padded, lengths)
    print(f"mean length {lengths.mean() / options.longest:.2f} of the longest, {buckets.share:.2f} of the "
          f"padded tokens in the buckets {', '.join(str(x) for (x,) in buckets.buckets)}")
    jobs = [job(options, padded), job(options, buckets)]
    ratios = []
    for round_number in range(options.rounds):
        # Who comes first changes in every round.
        order = (0, 1) if round_number % 2 == 0 else (1, 0)
        found = {which: step_ms(options, jobs[which]) for which in order}
        ratios.append(found[0] / found[1])
        print(f"round {round_number + 1}: padded {found[0]:.1f} ms, buckets {found[1]:.1f} ms, "
              f"ratio {ratios[-1]:.2f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
