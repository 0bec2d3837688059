#!/usr/bin/env python3
"""Trains models that compute with integers, and compares the steps with those of PyTorch.

Every case says its verdict: equal to PyTorch, with equal bits on all kernel classes, or refused with
the remedy. Without the programs the tests are skipped.
"""
import unittest

import numpy as np
import torch
import torch.nn.functional as F
from support import FolderCase, programs_train_model_files
from torch import nn
from torch_training import torch_losses

import easyscale as es

SAMPLES, STEPS, MAX_P, ROWS = 32, 4, 2, 61
CLASSES = ("cpu-scalar:1", "cpu-avx2:2", "cpu-scalar:1@2,cpu-avx2:1")


class Rows(nn.Module):
    """Chooses rows of a table by integers that a function makes of the samples."""

    def __init__(self, places):
        super().__init__()
        self.places, self.table, self.last = places, nn.Embedding(ROWS, 8), nn.Linear(8, 3)

    def forward(self, x, i):
        return self.last(self.table(self.places(x, i)))


def samples():
    random = np.random.default_rng(5)
    x = (random.normal(size=(SAMPLES, 3)) * 5).astype(np.float32)
    i = random.integers(0, 2 ** 31 - 1, (SAMPLES, 3))
    return x, i, random.integers(0, 3, SAMPLES)


EQUAL = {
    "floats beyond 32 bits": lambda x, i: (x[:, 0] * 1e9).long() % ROWS,
    "a hash of features": lambda x, i: (i[:, 0] * 73856093 ^ i[:, 1] * 19349663) % ROWS,
    "numbers of voxels": lambda x, i: ((x * 100).floor().long() * torch.tensor(
        [1, 100_003, 10_000_600_009])).sum(1) % ROWS,
    "bits of two columns": lambda x, i: (i[:, 0] ^ i[:, 1] & i[:, 2]) & 31,
    "a power": lambda x, i: i[:, 0] ** 5 % ROWS,
    "a sum and a running sum": lambda x, i: (i.sum(1) + i.cumsum(1)[:, 1]) % ROWS,
    "quotients": lambda x, i: (i[:, 0] // 7 + torch.fmod(-i[:, 1], 9) + torch.div(
        i[:, 2], -5, rounding_mode="trunc")) % ROWS,
    "32 bits that wrap": lambda x, i: (i[:, 0].int() * 1_000_003 % ROWS).long(),
    "eight bits that wrap": lambda x, i: ((i[:, 0] % 256).to(torch.uint8) * 3 + 7).long() % ROWS,
    "the largest": lambda x, i: (i * 4 + 1).argmax(1) + (i * 4).amax(1) % 50,
    "shifts": lambda x, i: ((i[:, 0] << 20) >> 9) % ROWS,
    "real numbers of integers": lambda x, i: (i[:, 0] * 3).float().mul(2.0 ** -8).long() % ROWS,
}


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class IntegersTrain(FolderCase):
    def job(self, model, optimizer=None):
        return es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(*samples()),
                      batch_size=SAMPLES // MAX_P, max_p=MAX_P, steps=STEPS,
                      optimizer=optimizer or torch.optim.SGD(model.parameters(), lr=0.5))

    def test_steps_are_those_of_pytorch_on_every_class(self):
        for name, places in EQUAL.items():
            with self.subTest(name):
                torch.manual_seed(3)
                model = Rows(places)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
                job = self.job(model, optimizer)
                runs = [job.run(stages=stages, progress=False) for stages in CLASSES]
                self.assertEqual(len({(run.params_digest, run.state_digest) for run in runs}), 1)
                losses = torch_losses(model, optimizer, F.cross_entropy, samples(), STEPS)
                np.testing.assert_allclose([r.loss for r in runs[0].history], losses, rtol=1e-5)

    def test_a_step_that_torch_does_not_define_is_refused_with_the_remedy(self):
        with self.assertRaisesRegex(es.EasyScaleError, "no integer of 64 bits.*clamp it before"):
            self.job(Rows(lambda x, i: (x[:, 0] * 1e30).long() % ROWS))

    def test_times_of_float64_are_refused_with_the_remedy(self):
        x, i, y = samples()
        times = 1.7e9 + np.random.default_rng(1).random((SAMPLES, 2)) * 100
        model = nn.Linear(2, 3)
        with self.assertRaisesRegex(es.EasyScaleError, "array 0.*subtract an offset"):
            es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(times, y),
                   batch_size=8, max_p=2, steps=1,
                   optimizer=torch.optim.SGD(model.parameters(), lr=0.1))


if __name__ == "__main__":
    unittest.main()
