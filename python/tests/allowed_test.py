#!/usr/bin/env python3
"""Integers that choose rows: which of them an input takes at each place, and steps beside PyTorch.

A guard is what a model writes for labels that do not count and neighbours that are not there. With
it the integers that it replaces are allowed; any other integer that is no row is refused with its
value, its place and the integers that are allowed there.
"""
import unittest

import numpy as np
import torch
import torch.nn.functional as F
from support import FolderCase, programs_train_model_files
from torch import nn
from torch_training import torch_losses

import easyscale as es
from easyscale.allowed import EVERY, Allowed
from easyscale.data import dataset_file
from easyscale.data.array_samples import converted
from easyscale.tracing import capture

SAMPLES, STEPS, ROWS = 32, 4, 6
LOWEST, HIGHEST = EVERY[0]
BELOW, TO_LAST = ((LOWEST, ROWS - 1),), ((0, ROWS - 1),)
MARKED = ((-100, -100), (0, ROWS - 1))


class Rows(nn.Module):
    """Takes rows of a table by guarded integers, and leaves out what the guard has replaced."""

    def __init__(self, guard):
        super().__init__()
        self.table, self.last, self.guard = nn.Embedding(ROWS, 4), nn.Linear(4, 1), guard

    def forward(self, i):
        rows = self.guard(i.clone()), (i >= 0).float()
        return (self.last(self.table(rows[0]))[..., 0] * rows[1]).sum(1)


def written(i):
    i[i == -100] = 0
    return i


def at_places(i):
    mask = i.ne(-100)
    return torch.where(mask, i, torch.zeros_like(i))


# The guard, and the integers that it allows.
GUARDS = {
    "where with a mask": (at_places, MARKED),
    "where of what is negative": (lambda i: torch.where(i < 0, 0, i), BELOW),
    "a clamp": (lambda i: i.clamp(min=0), BELOW),
    "relu": (F.relu, BELOW),
    "a maximum": (lambda i: torch.maximum(i, torch.zeros_like(i)), BELOW),
    "masked_fill of one integer": (lambda i: i.masked_fill(i == -100, 0), MARKED),
    "masked_fill of a negated mask": (lambda i: i.masked_fill(~(i >= 0), 0), BELOW),
    "a product with the mask": (lambda i: i * (i != -100), MARKED),
    "a product with the mask as integers": (lambda i: i * (i >= 0).long(), BELOW),
    "a product of real numbers": (lambda i: (i.float() * (i >= 0).float()).long(), BELOW),
    "a write": (written, MARKED),
    "a mask of two conditions": (
        lambda i: torch.where((i >= 0) & (i.sum(1, keepdim=True) < 1e6), i, 0), BELOW),
    "a remainder": (lambda i: i % ROWS, EVERY),
    "a mask of another integer": (lambda i: torch.where(i[:, :1] > -1e6, i, 0).clamp(0), BELOW),
}


def allowed(model, *tensors, loss=None):
    """What the inputs of integers take."""
    targets = None if loss is None else torch.zeros(len(tensors[0]))
    return [x.allowed for x in capture(model, loss, tensors, targets).program.inputs if x.allowed]


class Columns(nn.Module):
    """A table for each of the first two columns; the third one is a number."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Embedding(5, 4), nn.Embedding(2, 4)
        self.last = nn.Linear(9, 1)

    def forward(self, x):
        rows = [table(x[:, i]) for i, table in enumerate((self.first, self.second))]
        return self.last(torch.cat([*rows, x[:, 2:].float() / 1000], 1))[:, 0]


class Hit(nn.Module):
    """Marks the places of a table that a mini-batch names, some of them several times."""

    def __init__(self, write):
        super().__init__()
        self.weights, self.write = nn.Parameter(torch.linspace(1, 2, 40)), write

    def forward(self, i):
        hit = self.write(i, self.weights)
        return (self.weights * hit / 10).square().mean() + 0 * i.sum(1)


def marked(i, weights):
    hit = torch.zeros(len(weights), dtype=torch.bool)
    hit[i.flatten()] = True
    return hit.float()


def marked_in_place(i, weights):
    hit = torch.zeros_like(weights)
    hit[i] = weights[3] * 2
    return hit


def marked_rows(i, weights):
    hit = torch.ones(len(weights), 3)
    hit[i.flatten()] = torch.stack([weights[0], weights[1], weights[2]])
    return hit.sum(1)


def marked_columns(i, weights):
    hit = torch.ones(3, len(weights))
    hit[:, i.flatten()] = torch.arange(3.0)[:, None]
    return hit.sum(0)


def integers(low, high, *shape):
    return np.random.default_rng(2).integers(low, high, (SAMPLES, *shape))


class Allows(unittest.TestCase):
    def test_a_guard_allows_what_it_replaces(self):
        for name, (guard, runs) in GUARDS.items():
            with self.subTest(name):
                (found,) = allowed(Rows(guard), torch.zeros(4, 3, dtype=torch.long),
                                   loss=lambda y, _: y.sum())
                self.assertEqual(found.runs, (runs,))

    def test_every_column_has_its_own_integers(self):
        (found,) = allowed(Columns(), torch.zeros(4, 3, dtype=torch.long),
                           loss=lambda y, _: y.sum())
        self.assertEqual([found.runs[k] for k in found.places], [((0, 4),), ((0, 1),), EVERY])

    def test_offsets_of_columns_in_one_table(self):
        class Offsets(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(7, 2)

            def forward(self, x):
                return self.table(x + torch.tensor([0, 4])).sum()
        (found,) = allowed(Offsets(), torch.zeros(4, 2, dtype=torch.long))
        self.assertEqual([found.runs[k] for k in found.places], [((0, 6),), ((-4, 2),)])

    def test_labels_and_words_of_a_decoder(self):
        class Decoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 9)

            def forward(self, labels):
                before = F.pad(labels[:, :-1], (1, 0), value=2)
                logits = self.head(self.words(before.masked_fill(before == -100, 1)))
                return F.cross_entropy(logits.transpose(1, 2), labels)
        (found,) = allowed(Decoder(), torch.randint(0, 9, (4, 5)))
        self.assertEqual(found.runs, (((-100, -100), (0, 8)),))

    def test_a_function_of_two_integers_limits_none(self):
        model = Rows(lambda i: (i + i.flip(1)) % ROWS)
        (found,) = allowed(model, torch.zeros(4, 3, dtype=torch.long), loss=lambda y, _: y.sum())
        self.assertEqual(found.runs, (EVERY,))

    def test_a_choice_by_random_numbers_limits_what_may_be_chosen(self):
        model = Rows(lambda i: torch.where(torch.rand(i.shape) < 0.5, i, 3))
        (found,) = allowed(model, torch.zeros(4, 3, dtype=torch.long), loss=lambda y, _: y.sum())
        self.assertEqual(found.runs, (TO_LAST,))

    def test_the_text_names_all_runs(self):
        found = Allowed((((-100, -100), (0, 5)), ((0, 1),)), np.array([0, 1]))
        self.assertEqual(found.at((0,)), "0 to 5, and -100 at [0] of a sample")
        self.assertEqual(found.ends(), (-100, 5))
        self.assertEqual(found.wrong(np.array([[-100, 1], [-1, 2]])).tolist(),
                         [[False, False], [True, True]])


class Files(FolderCase):
    def test_the_loaders_of_a_dataset_know_them(self):
        file = self.folder / "dataset.pickle"
        found = Allowed((((0, 5),), ((0, 1),)), np.array([0, 1]))
        dataset_file.write(file, {}, {"x": "key", "y": "other"}, [None, None],
                           {"x": found, "y": Allowed.between(0, 3)})
        known = dataset_file.read(file).allowed
        self.assertEqual([*known], ["key"])
        with self.assertRaisesRegex(es.UsageError, r"sample 7 has the value 2: allowed is 0 to 1 "
                                                   r"at \[1\] of a sample"):
            converted(np.array([[5, 2]]), np.int32, "x", 7, known["key"])


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Trains(FolderCase):
    def job(self, model, i, y, optimizer):
        return es.Job(model, loss=nn.MSELoss(), data=es.data.arrays(i, y), batch_size=SAMPLES,
                      max_p=1, steps=STEPS, optimizer=optimizer)

    def check(self, model, i):
        y = np.linspace(0, 1, SAMPLES, dtype=np.float32)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        job = self.job(model, i, y, optimizer)
        runs = [job.run(devices=device, progress=False)
                for device in ("cpu-avx2:1", "cpu-scalar:1")]
        self.assertEqual(len({run.params_digest for run in runs}), 1)
        losses = torch_losses(model, optimizer, nn.MSELoss(), (i, y), STEPS)
        np.testing.assert_allclose([r.loss for r in runs[0].history], losses, rtol=1e-5)

    def refused(self, text, model, i):
        with self.assertRaisesRegex(es.EasyScaleError, text):
            self.job(model, i, np.zeros(SAMPLES, np.float32),
                     torch.optim.SGD(model.parameters(), lr=0.01)).run(progress=False)

    def test_guarded_integers_train_as_in_pytorch(self):
        i = integers(0, ROWS, 3)
        i[::3, 1] = -100
        for name, (guard, _) in GUARDS.items():
            with self.subTest(name):
                torch.manual_seed(1)
                self.check(Rows(guard), i)

    def test_what_a_guard_does_not_replace_is_refused(self):
        i = integers(0, ROWS, 3)
        i[20, 1] = -50
        self.refused("sample 20 has the value -50: allowed is 0 to 5, and -100",
                     Rows(GUARDS["a write"][0]), i)
        i[20, 1] = ROWS
        self.refused("sample 20 has the value 6: allowed is -2147483648 to 5",
                     Rows(GUARDS["a clamp"][0]), i)

    def test_columns_of_categories_of_different_size_train_as_in_pytorch(self):
        torch.manual_seed(1)
        i = np.stack([integers(0, 5), integers(0, 2), integers(-1000, 1000)], 1)
        self.check(Columns(), i)
        i[20, 1] = 4
        self.refused(r"sample 20 has the value 4: allowed is 0 to 1 at \[1\] of a sample",
                     Columns(), i)

    def test_a_table_with_categories_of_different_size(self):
        file = self.folder / "rows.csv"
        file.write_text("city,kind,price\n" + "".join(
            f"{city},{kind},{number}\n" for number, (city, kind) in enumerate(
                [("Rome", "a"), ("Oslo", "b"), ("Bonn", "a"), ("Lima", "b")] * 8)))

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.city, self.kind = nn.Embedding(4, 2), nn.Embedding(2, 2)

            def forward(self, x):
                return (self.city(x[:, 0]) * self.kind(x[:, 1])).sum(1)
        model = Model()
        job = es.Job(model, loss=nn.MSELoss(), data=es.data.table(
            file, target="price", categories=["city", "kind"]), batch_size=8, max_p=2, steps=2,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.001))
        self.assertEqual(len(job.run(progress=False).history), 2)

    def test_one_number_at_places_that_repeat_is_written_as_in_pytorch(self):
        for write in (marked, marked_in_place, marked_rows, marked_columns):
            with self.subTest(write.__name__):
                self.check(Hit(write), integers(0, 40, 2))

    def test_different_numbers_at_one_place_are_refused(self):
        def numbered(i, weights):
            hit = torch.zeros_like(weights)
            hit[i.flatten()] = torch.ones_like(i).cumsum(0).flatten().float()
            return hit
        self.refused(r"allowed_test.py:\d+", Hit(numbered), integers(0, 2, 2))


if __name__ == "__main__":
    unittest.main()
