#!/usr/bin/env python3
"""Loops of public repositories in small: their optimizers, schedules and losses, beside PyTorch.

Each is written here after what the repository does; a model of it is a few layers. All samples are one
global batch, so their order in it does not matter.
"""
import copy
import unittest

import numpy as np
import torch
from support import ElasticCase, programs_train_model_files
from torch import nn
from torch.nn import functional
from updates_support import orthogonal

import easyscale as es

SAMPLES, STEPS, MAX_P = 16, 50, 4
WORDS, TOKENS, WIDTH = 31, 12, 16
MIX = "cpu-avx2:2@20,cpu-scalar:1@10,cpu-avx2:1+cpu-scalar:2"


class Block(nn.Module):
    """A layer of a decoder: causal attention with normed queries and keys, and squared ReLU."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.mix = nn.Parameter(torch.tensor([1.0, 0.1]))

    def forward(self, x):
        q, k, v = self.qkv(functional.rms_norm(x, (WIDTH,))).view(*x.shape[:2], 3, 2, -1).permute(
            2, 0, 3, 1, 4)
        q, k = (functional.rms_norm(y, (y.shape[-1],)) for y in (q, k))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = self.mix[0] * x + self.mix[1] * self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(functional.relu(self.up(functional.rms_norm(x, (WIDTH,)))).square())


class Decoder(nn.Module):
    """A small language model."""

    def __init__(self):
        super().__init__()
        self.words, self.blocks = nn.Embedding(WORDS, WIDTH), nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = functional.rms_norm(self.words(tokens), (WIDTH,))
        for block in self.blocks:
            x = block(x)
        return 15 * torch.tanh(self.head(functional.rms_norm(x, (WIDTH,))) / 15)


class LanguageModel(nn.Module):
    """Predicts the next token."""

    def __init__(self):
        super().__init__()
        self.decoder = Decoder()

    def forward(self, tokens):
        logits = self.decoder(tokens[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


class Preferences(nn.Module):
    """Direct preference optimization (Rafailov et al., 2023) with a frozen reference."""

    def __init__(self):
        super().__init__()
        self.policy, self.reference = Decoder(), Decoder()
        self.reference.load_state_dict(self.policy.state_dict())
        self.reference.requires_grad_(False)

    @staticmethod
    def likelihood(decoder, tokens, counted):
        logits = decoder(tokens[:, :-1]).log_softmax(-1)
        chosen = logits.gather(2, tokens[:, 1:, None]).squeeze(2)
        return (chosen * counted[:, 1:]).sum(1)

    def forward(self, chosen, rejected, chosen_mask, rejected_mask):
        gain = 0.0
        for sign, tokens, mask in ((1, chosen, chosen_mask), (-1, rejected, rejected_mask)):
            with torch.no_grad():
                known = self.likelihood(self.reference, tokens, mask)
            gain = gain + sign * (self.likelihood(self.policy, tokens, mask) - known)
        return -functional.logsigmoid(0.1 * gain).mean()


class Recursive(nn.Module):
    """A tiny recursive model: one layer improves an answer several times, of which the last round has
    gradients; puzzles have embeddings of their own."""

    def __init__(self):
        super().__init__()
        self.words, self.puzzles = nn.Embedding(WORDS, WIDTH), nn.Embedding(SAMPLES, WIDTH)
        nn.init.zeros_(self.puzzles.weight)
        self.layer, self.head = Block(), nn.Linear(WIDTH, WORDS, bias=False)

    def round(self, x, y, z):
        for _ in range(2):
            z = functional.rms_norm(self.layer(x + y + z), (WIDTH,))
        return functional.rms_norm(self.layer(y + z), (WIDTH,)), z

    def forward(self, tokens, puzzle, answer):
        x = self.words(tokens) + self.puzzles(puzzle)[:, None]
        y, z = torch.zeros_like(x), torch.zeros_like(x)
        with torch.no_grad():
            y, z = self.round(x, y, z)
        y, z = self.round(x, y, z)
        return functional.cross_entropy(self.head(y).flatten(0, 1), answer.flatten())


class Muon(torch.optim.Optimizer):
    """Jordan et al., 2024: the momentum of a matrix, made orthogonal by five steps of Newton and
    Schulz."""

    def __init__(self, params, lr=0.02, momentum=0.95, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                buffer = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonal(p.grad.lerp(buffer, group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * max(1, p.size(0) / p.size(1)) ** 0.5)


class AdamAtan2(torch.optim.Optimizer):
    """Everett et al., 2024: Adam whose quotient is an angle, so that it needs no epsilon."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
                p.mul_(1 - group["lr"] * group["weight_decay"])
                state["m"].lerp_(p.grad, 1 - first)
                state["v"].lerp_(p.grad.square(), 1 - second)
                m = state["m"] / (1 - first ** state["step"])
                v = state["v"] / (1 - second ** state["step"])
                p.add_(torch.atan2(m, v.sqrt()), alpha=-group["lr"])


class SignSGD(torch.optim.Optimizer):
    """Of embeddings of puzzles: the sign of the gradient, and a decay."""

    def __init__(self, params, lr=1e-2, weight_decay=0.1):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(p.grad.sign(), alpha=-group["lr"])


class MomentumAndRate(torch.optim.lr_scheduler.LRScheduler):
    """The momentum rises for some steps, and the rate falls at the end, as in speed runs of GPT-2."""

    def step(self):
        super().step()
        done = min(self.last_epoch / 30, 1)
        for group in self.optimizer.param_groups:
            group["momentum"] = 0.85 + 0.1 * done

    def get_lr(self):
        return [rate * min(1.0, (STEPS - self.last_epoch) / 20) for rate in self.base_lrs]


def falling(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min(1.0, (STEPS - t) / 20))


def speed_run(model):
    """modded-nanogpt: Muon for the matrices of the blocks, Adam for embeddings, head and scalars."""
    matrices = [p for p in model.decoder.blocks.parameters() if p.ndim == 2]
    scalars = [p for p in model.decoder.blocks.parameters() if p.ndim < 2]
    adam = torch.optim.Adam([{"params": model.decoder.words.parameters(), "lr": 0.03},
                             {"params": model.decoder.head.parameters(), "lr": 0.004},
                             {"params": scalars, "lr": 0.01}], betas=(0.8, 0.95), eps=1e-10)
    muon = Muon(matrices, lr=0.02)
    return [adam, muon], [falling(adam), MomentumAndRate(muon)]


def preferences(model):
    """The reference implementation of DPO: RMSprop, whose rate rises for some steps."""
    optimizer = torch.optim.RMSprop(model.policy.parameters(), lr=1e-3)
    return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: min(1.0, (t + 1) / 20))]


def recursive(model):
    """A tiny recursive model: AdamAtan2 with a warm-up, and the sign of the gradient for puzzles."""
    puzzles = list(model.puzzles.parameters())
    others = [p for name, p in model.named_parameters() if not name.startswith("puzzles")]
    adam, sign = AdamAtan2(others, lr=2e-3), SignSGD(puzzles)
    return [adam, sign], [torch.optim.lr_scheduler.LambdaLR(x, lambda t: min(1.0, (t + 1) / 10))
                          for x in (adam, sign)]


def random():
    return np.random.default_rng(3)


def tokens(numbers, length=TOKENS):
    return numbers.integers(0, WORDS, (SAMPLES, length))


def pairs(numbers):
    ends = numbers.integers(6, TOKENS + 1, (2, SAMPLES, 1))
    masks = [((np.arange(TOKENS) >= 4) & (np.arange(TOKENS) < end)).astype(np.float32) for end in ends]
    return (tokens(numbers), tokens(numbers), *masks)


def torch_losses(model, optimizers, schedulers, samples, clip_norm=None):
    tensors = [torch.from_numpy(array) for array in samples]
    losses = []
    for _ in range(STEPS):
        model.zero_grad()
        loss = model(*tensors)
        loss.backward()
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        for x in (*optimizers, *schedulers):
            x.step()
        losses.append(loss.item())
    return losses


@unittest.skipUnless(programs_train_model_files(), "no programs that train model files")
class Loops(ElasticCase):
    def check(self, make, optimizers_of, samples, **options):
        """Trains on one device and on devices that change."""
        torch.manual_seed(5)
        model = make()
        other = copy.deepcopy(model)
        wanted = torch_losses(other, *optimizers_of(other), samples, **options)
        optimizers, schedulers = optimizers_of(model)
        job = es.Job(model, data=es.data.arrays(*samples), steps=STEPS, batch_size=SAMPLES // MAX_P,
                     max_p=MAX_P, optimizer=optimizers, schedule=schedulers, **options)
        run, mixed = job.run(stages="cpu-avx2:1"), job.run(stages=MIX)
        self.assertEqual((mixed.params_digest, mixed.state_digest), (run.params_digest, run.state_digest))
        losses = [entry.loss for entry in run.history]
        np.testing.assert_allclose(losses, wanted, rtol=5e-3, atol=5e-4)
        self.assertLess(losses[-1], 0.9 * losses[0])

    def test_modded_nanogpt(self):
        self.check(LanguageModel, speed_run, [tokens(random())])

    def test_dpo(self):
        self.check(Preferences, preferences, pairs(random()), clip_norm=10.0)

    def test_trm(self):
        numbers = random()
        self.check(Recursive, recursive, [tokens(numbers), np.arange(SAMPLES), tokens(numbers)],
                   clip_norm=1.0)


if __name__ == "__main__":
    unittest.main()
