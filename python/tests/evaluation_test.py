#!/usr/bin/env python3
"""Evaluations beside PyTorch: the mean loss is that of its loss function over all samples.

EVALUATED is no multiple of the batch size, so the last mini-batch is filled up.
"""
import importlib.util
import unittest

import numpy as np
import torch
import torch.nn.functional as F
from support import FolderCase, offered_types, programs_train_model_files
from torch import nn

import easyscale as es

CLASSES, BATCH, MAX_P, EVALUATED, TOKENS = 5, 4, 2, 10, 6
WEIGHTS = torch.tensor([1.0, 3.0, 0.5, 2.0, 0.25])


def ignored_rows(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def weighted_rows(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), weight=WEIGHTS)


def smooth_rows(logits, labels):
    return F.cross_entropy(logits.transpose(1, 2), labels, weight=WEIGHTS, label_smoothing=0.2)


def likelihood(logits, labels):
    return F.nll_loss(logits.log_softmax(2).transpose(1, 2), labels, weight=WEIGHTS)


def smooth_distance(logits, labels):
    return F.smooth_l1_loss(logits, labels.clamp(min=0)[..., None].float().expand(logits.shape))


def focal(logits, labels):
    rows = F.cross_entropy(logits.flatten(0, 1), labels.clamp(min=0).flatten(), reduction="none")
    return ((1 - torch.exp(-rows)) ** 2 * rows).mean()


LOSSES = (ignored_rows, weighted_rows, smooth_rows, likelihood, smooth_distance, focal)


class Tagger(nn.Module):
    """The logits of a class for every token."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 8), nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.last(self.first(x).tanh())


def tokens(seed, count):
    """Inputs [count, TOKENS, 3] and labels, of which a different part is ignored in each sample."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, TOKENS, 3)).astype(np.float32)
    labels = random.integers(0, CLASSES, (count, TOKENS))
    labels[np.arange(TOKENS) >= random.integers(1, TOKENS + 1, (count, 1))] = -100
    return x, labels


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Evaluations(FolderCase):
    def runs(self, model, loss, evaluated):
        """The runs on two placements; their evaluations have equal bits."""
        fast, other = offered_types()
        job = es.Job(model, loss=loss, data=es.data.arrays(*tokens(1, MAX_P * BATCH)),
                     eval_data=es.data.arrays(*evaluated), batch_size=BATCH, max_p=MAX_P, steps=2,
                     optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        first, second = (job.run(stages=stages, progress=False)
                         for stages in (f"{fast}:2@1,{other}:1", f"{other}:1"))
        self.assertEqual(first.evaluations, second.evaluations)
        return first

    def check_mean(self, model, run, loss, evaluated):
        run.load_into(model)
        x, labels = (torch.from_numpy(part) for part in evaluated)
        expected = loss(model(x), labels).item()
        self.assertEqual(run.evaluations[-1]["total"], len(x))
        np.testing.assert_allclose(run.evaluations[-1]["mean_loss"], expected, rtol=2e-6)

    def test_the_mean_loss_is_that_of_pytorch(self):
        evaluated = tokens(2, EVALUATED)
        for loss in LOSSES:
            with self.subTest(loss.__name__):
                torch.manual_seed(6)
                model = Tagger()
                self.check_mean(model, self.runs(model, loss, evaluated), loss, evaluated)

    def test_without_any_label_there_is_no_mean_loss(self):
        x, labels = tokens(2, EVALUATED)
        model = Tagger()
        run = self.runs(model, weighted_rows, (x, np.full_like(labels, -100)))
        self.assertIsNone(run.evaluations[-1]["mean_loss"])

    def test_a_mean_in_which_samples_meet_needs_whole_mini_batches(self):
        def pairs(logits, labels):
            rows = logits.flatten(1)
            return (rows @ rows.t()).tanh().mean()

        def centred(logits, labels):
            return (logits - logits.mean(0)).square().mean()

        for loss in (pairs, centred):
            with self.subTest(loss.__name__), \
                    self.assertRaisesRegex(es.UsageError, "allowed is a multiple of batch_size"):
                self.runs(Tagger(), loss, tokens(2, EVALUATED))

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "there is no transformers")
    def test_a_causal_model_ignores_the_last_label(self):
        from transformers import GPT2Config, GPT2LMHeadModel
        length, windows = 16, 6
        for part, seed in (("train", 4), ("val", 5)):
            ids = np.random.default_rng(seed).integers(0, 40, length * (windows + 2))
            np.asarray(ids, "<u2").tofile(self.folder / f"{part}.bin")
        held = torch.from_numpy(ids).view(windows + 2, length)
        torch.manual_seed(5)
        model = GPT2LMHeadModel(GPT2Config(
            vocab_size=40, n_positions=length, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False))
        data = es.data.tokens(self.folder, length, shifted=False)
        run = es.Job(model, loss=None, data=data, batch_size=3, max_p=2, steps=1,
                     optimizer=torch.optim.SGD(model.parameters(), lr=0.1)
                     ).run(devices=offered_types()[0] + ":1", progress=False)
        run.load_into(model)
        self.assertEqual(run.evaluations[-1]["total"], len(held))
        with torch.no_grad():
            expected = model(input_ids=held, labels=held).loss.item()
        np.testing.assert_allclose(run.evaluations[-1]["mean_loss"], expected, rtol=2e-6)


if __name__ == "__main__":
    unittest.main()
