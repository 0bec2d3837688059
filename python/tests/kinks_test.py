#!/usr/bin/env python3
"""The engine's gradients where slopes jump are those of PyTorch: at 0, at limits and of equal numbers.

A head that begins with zeros has such numbers in its first step. The programs are found as by the
package; without them the tests are skipped.
"""
import unittest

import capture_support  # noqa: F401  (makes the package importable)
import torch
import torch.nn.functional as F
from support import programs_train_model_files
from torch import nn

import easyscale as es

EIGHT = torch.arange(8.0).sub(4)  # -4, -3, ..., 3
HALF = torch.tensor([1.0, 0, 0, 1, 0, 1, 1, 0])
PAIR = torch.tensor([[0, 0, 1, 1, 2, 2, 0, 1]])

# For each name a function of p and q, which are EIGHT and its reverse, to any tensor.
FUNCTIONS = {
    "relu6": lambda p, q: F.relu6(2 * p), "hardtanh": lambda p, q: F.hardtanh(p),
    "clamp": lambda p, q: p.clamp(-1, 2), "clamp by a tensor": lambda p, q: torch.clamp(p, q, q + 1),
    "clamp to zeros": lambda p, q: torch.clamp(0 * p, min=0 * q),
    "fmax": lambda p, q: torch.fmax(p * 0, q * 0), "fmin": lambda p, q: torch.fmin(p, -q - 1),
    "maximum": lambda p, q: torch.maximum(p, -q - 1), "abs": lambda p, q: p.abs(),
    "sinh": lambda p, q: torch.sinh(p), "asinh": lambda p, q: torch.asinh(p),
    "xlogy": lambda p, q: torch.xlogy(p, q.abs() + 1),
    "amax": lambda p, q: (p * 0).amax() + p.clamp(min=0).view(2, 4).amax(1).sum(),
    "max": lambda p, q: p.clamp(max=0).view(2, 4).max(1)[0], "norm": lambda p, q: (p * 0).norm() + q,
    "logits": lambda p, q: F.binary_cross_entropy_with_logits(
        0 * p + q.clamp(0, 1), HALF, pos_weight=torch.tensor(3.0)),
    "logits with weights": lambda p, q: F.binary_cross_entropy_with_logits(
        p, HALF, weight=HALF + 1) + q.sum(),
    "logits and more": lambda p, q: F.binary_cross_entropy_with_logits(p, HALF) + q.square().sum(),
    "probabilities": lambda p, q: F.binary_cross_entropy(p.clamp(0, 1), HALF) + q.sum(),
    "saturated": lambda p, q: F.binary_cross_entropy(torch.sigmoid(20 * p), HALF) + q.sum(),
    "margin": lambda p, q: F.margin_ranking_loss(p, -q - 1, 2 * HALF - 1),
    "hinge": lambda p, q: F.hinge_embedding_loss(p, 2 * HALF - 1, margin=1.0),
    "scatter": lambda p, q: torch.zeros(1, 3).scatter_reduce(
        1, PAIR, p.clamp(min=0)[None], "amax", include_self=False)}


class Kinks(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.ParameterDict({name: nn.Parameter(EIGHT.clone()) for name in FUNCTIONS})
        self.q = nn.ParameterDict({name: nn.Parameter(EIGHT.flip(0)) for name in FUNCTIONS})
        self.weight = torch.linspace(0.5, 1.5, 8)

    def forward(self, x):
        total = 0 * x.mean()
        for name, function in FUNCTIONS.items():
            y = function(self.p[name], self.q[name]).flatten()
            total = total + (y * self.weight[:y.numel()]).sum()
        return total


@unittest.skipUnless(programs_train_model_files(), "no programs that train model files")
class Engine(unittest.TestCase):
    def test_gradients_at_kinks_are_those_of_pytorch(self):
        model = Kinks()
        begin = {name: p.detach().clone() for name, p in model.named_parameters()}
        model(torch.zeros(1)).backward()
        job = es.Job(model, data=es.data.arrays(torch.randn(8, 2)), batch_size=4, max_p=2, steps=1,
                     optimizer=es.Optimizer("sgd", learning_rate=1.0))
        weights = job.run(devices="cpu-avx2:1", progress=False).state_dict()
        for name, p in model.named_parameters():
            with self.subTest(name):
                wanted = torch.zeros_like(p) if p.grad is None else p.grad
                found = begin[name] - torch.as_tensor(weights[name])
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
