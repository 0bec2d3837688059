#!/usr/bin/env python3
"""Captures the models of gpu_check that no built-in model stands for, with the Python that scripts/setup_pytorch
prints: recurrent layers, buffers that training writes, long sequences, and an optimizer of PyTorch.

  gpu_check_captured.py ESCTL DIRECTORY     writes a folder for each model into DIRECTORY
"""
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import torch
import torch.nn.functional as F
from torch import nn

import easyscale as es

SAMPLES, LENGTH, WORDS, CLASSES = 256, 24, 50, 5
# Attention in strips, and a loss in chunks.
LONG, VOCABULARY, HEADS, WIDTH = 600, 2048, 2, 64


class Recurrent(nn.Module):
    """An embedding, an LSTM in both directions with a dropout, a GRU, and the mean over time."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 24)
        self.lstm = nn.LSTM(24, 32, num_layers=2, dropout=0.1, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(64, 40, batch_first=True)
        self.last = nn.Linear(40, CLASSES)

    def forward(self, ids):
        return self.last(self.gru(self.lstm(self.words(ids))[0])[0].mean(1))


class States(nn.Module):
    """A spectral norm, a running mean that the output reads, and a counter."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 24)
        self.first = nn.utils.parametrizations.spectral_norm(nn.Linear(24, 32))
        self.last = nn.Linear(32, CLASSES)
        self.register_buffer("mean", torch.zeros(32))
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, ids):
        hidden = torch.tanh(self.first(self.words(ids).mean(1)))
        if self.training:
            self.steps += 1
            self.mean = 0.9 * self.mean + 0.1 * hidden.detach().mean(0)
        return self.last(hidden - self.mean)


class Mean(nn.Module):
    """A layer on the mean of embeddings; it is here for its optimizer."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 24)
        self.last = nn.Linear(24, CLASSES)

    def forward(self, ids):
        return self.last(self.words(ids).mean(1))


class Long(nn.Module):
    """A decoder of one layer, whose attention has a dropout."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.norm, self.packed = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.last = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.last.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for part in self.packed(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1 if self.training else 0.0)
        return self.last(x + y.transpose(1, 2).flatten(2))


def next_word_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def classified(random):
    return (torch.randint(0, WORDS, (SAMPLES, LENGTH), generator=random),
            torch.randint(0, CLASSES, (SAMPLES,), generator=random))


def continued(random):
    words = torch.randint(0, VOCABULARY, (SAMPLES, LONG + 1), generator=random)
    return words[:, :-1], words[:, 1:]


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def rmsprop(parameters):
    return torch.optim.RMSprop(parameters, lr=0.01, momentum=0.9, centered=True)


# Model, loss, samples, the size of a mini-batch, and the optimizer: AdamW is one of ours, and others are
# captured.
CASES = {"recurrent": (Recurrent, nn.CrossEntropyLoss(), classified, 8, adamw),
         "states": (States, nn.CrossEntropyLoss(), classified, 8, adamw),
         "long": (Long, next_word_loss, continued, 4, adamw),
         "optimizer": (Mean, nn.CrossEntropyLoss(), classified, 8, rmsprop)}


def main(esctl, directory):
    os.environ["EASYSCALE_ESCTL"] = str(Path(esctl).resolve())
    for name, (make, loss, samples, batch_size, optimizer) in CASES.items():
        torch.manual_seed(1)
        model = make()
        data = es.data.arrays(*(part.contiguous() for part in samples(torch.Generator().manual_seed(1))))
        es.Job(model, loss=loss, data=data, batch_size=batch_size, max_p=4, steps=1, clip_norm=1.0, ema=0.9,
               optimizer=optimizer(model.parameters()),
               directory=Path(directory) / name).write()


if __name__ == "__main__":
    main(*sys.argv[1:])
