"""The small public comparison for language models: characters of Shakespeare's plays.

Model, data and settings are those of nanoGPT's CPU setting: 4 layers of 4 heads, 128 wide, windows
of 64 characters, 12 windows in a global batch, AdamW, no dropout. The windows do not overlap and
are drawn by the sampler of the engine, so both sides train on the same ones.
"""
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "zoo"))
import zoo_order

LAYERS, HEADS, WIDTH, LENGTH = 4, 4, 128, 64
MAX_P, BATCH, SEED = 4, 3, 1337
RATE, FLOOR, WARMUP, DECAY, BETAS, CLIP = 1e-3, 0.1, 100, 0.1, (0.9, 0.99), 1.0
TRAINING_SHARE = 0.9


class Block(nn.Module):
    """One layer: attention to earlier characters, and two linear layers."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, bias=False) for _ in range(2))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.attended = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, 2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attended(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Decoder(nn.Module):
    """Logits [windows, characters, vocabulary] of the next character; the head is the embedding."""

    def __init__(self, vocabulary):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                into_the_sum = name.endswith(("attended.weight", "narrow.weight"))
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * LAYERS) if into_the_sum else 1))
        self.head.weight = self.token.weight

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(LENGTH))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(logits, labels):
    """The mean over all characters."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def write_tokens(text, folder):
    """Writes train.bin and val.bin, whose tokens are numbers of characters. Returns how many
    characters there are."""
    content = text.read_text()
    characters = sorted(set(content))
    numbers = {character: number for number, character in enumerate(characters)}
    tokens = np.array([numbers[character] for character in content], "<u2")
    cut = int(TRAINING_SHARE * len(tokens))
    folder.mkdir(parents=True)
    tokens[:cut].tofile(folder / "train.bin")
    tokens[cut:].tofile(folder / "val.bin")
    return len(characters)


def windows(file):
    """All windows of a token file and their labels, each [windows, LENGTH]."""
    tokens = np.fromfile(file, "<u2").astype(np.int64)
    count = (len(tokens) - 1) // LENGTH
    return tuple(torch.from_numpy(tokens[lag:lag + count * LENGTH].reshape(count, LENGTH))
                 for lag in (0, 1))


def global_batch(samples, step):
    """The windows of a global step, in the order of the ESTs."""
    return [sample for rank in range(MAX_P)
            for sample in zoo_order.batch(samples, SEED, MAX_P, BATCH, step, rank)]


def optimizer_of(model):
    """AdamW without weight decay for the factors of the norms."""
    groups = [{"params": [p for p in model.parameters() if (p.dim() >= 2) == decays],
               "weight_decay": DECAY if decays else 0.0} for decays in (True, False)]
    return torch.optim.AdamW(groups, lr=RATE, betas=BETAS)


def rate(step, steps):
    """The learning rate of a step: the formula of ScheduleSpec (proto/base/job_spec.h)."""
    left = FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * step / steps)) / 2
    return RATE * left * min(1, (step + 1) / WARMUP)
