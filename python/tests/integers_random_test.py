#!/usr/bin/env python3
"""Random programs of integers through the whole engine: two steps of a table, of which every program chooses
rows, are those of PyTorch, and have equal bits on two kernel classes.

    ES_SEED=N python/tests/run integers_random_test.py     # the programs N, N + 1, ...
"""
import os
import unittest

import torch
import torch.nn.functional as F
from integers_test import RandomProgram
from support import offered_types, programs_train_model_files
from torch import nn
from torch_training import torch_losses

import easyscale as es

PROGRAMS, ROWS, SAMPLES, COLUMNS, STEPS, MAX_P = 40, 31, 32, 3, 2, 2
FIRST = int(os.environ.get("ES_SEED", "20261129"))


class Chosen(nn.Module):
    """The sum of numbers of a table; each program chooses one of its own rows for each sample."""

    def __init__(self, programs):
        super().__init__()
        self.programs = programs
        self.table = nn.Embedding(len(programs) * ROWS, 1)

    def forward(self, x, i):
        places = [k * ROWS + (program(x, i).long() * torch.tensor([1, 7, 13])).sum(1) % ROWS
                  for k, program in enumerate(self.programs)]
        return self.table(torch.stack(places, 1)).sum((1, 2))


def samples():
    """Half of the samples are large."""
    generator = torch.Generator().manual_seed(FIRST)
    large = torch.arange(SAMPLES)[:, None] % 2 == 0
    x = torch.randn(SAMPLES, COLUMNS, generator=generator) * torch.where(large, 2.0 ** 40, 5.0)
    i = torch.where(large, torch.randint(-2 ** 31, 2 ** 31 - 1, x.shape, generator=generator),
                    torch.randint(-50, 50, x.shape, generator=generator))
    return x.numpy(), i.numpy(), torch.randn(SAMPLES, generator=generator).numpy()


def wrong_programs(found, wanted):
    """The seeds of the programs whose part of the table differs."""
    close = torch.isclose(found, wanted, rtol=1e-4, atol=1e-5).reshape(PROGRAMS, ROWS)
    return [FIRST + k for k in (~close.all(1)).nonzero().flatten().tolist()]


class Wrong(RandomProgram):
    """A program with another result for one of the samples."""

    def __call__(self, x, i):
        return super().__call__(x, i) + (torch.arange(len(x)) == 5)[:, None].long()


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class IntegersRandom(unittest.TestCase):
    def setUp(self):
        print(f"ES_SEED={FIRST}")
        torch.manual_seed(FIRST)
        self.model = Chosen([RandomProgram(FIRST + k) for k in range(PROGRAMS)])

    def test_two_steps_are_those_of_torch_on_two_kernel_classes(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        job = es.Job(self.model, loss=nn.MSELoss(), data=es.data.arrays(*samples()),
                     batch_size=SAMPLES // MAX_P, max_p=MAX_P, steps=STEPS, optimizer=optimizer)
        runs = [job.run(devices=f"{name}:1", progress=False)
                for name in ("cpu-scalar", offered_types()[0])]
        self.assertEqual(len({(run.params_digest, run.state_digest) for run in runs}), 1)
        losses = torch_losses(self.model, optimizer, F.mse_loss, samples(), STEPS)
        table = torch.as_tensor(runs[0].state_dict()["table.weight"])
        self.assertEqual(wrong_programs(table, self.model.table.weight.detach()), [])
        for record, loss in zip(runs[0].history, losses, strict=True):
            self.assertAlmostEqual(record.loss, loss, delta=1e-5 * loss)

    def test_one_other_result_is_found(self):
        """By the same comparison, of two trainings by torch."""
        tables = []
        for kind in (RandomProgram, Wrong):
            torch.manual_seed(FIRST)
            model = Chosen(self.model.programs[:-1] + [kind(FIRST + PROGRAMS - 1)])
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            torch_losses(model, optimizer, F.mse_loss, samples(), STEPS)
            tables.append(model.table.weight.detach())
        self.assertIn(FIRST + PROGRAMS - 1, wrong_programs(*tables))


if __name__ == "__main__":
    unittest.main()
