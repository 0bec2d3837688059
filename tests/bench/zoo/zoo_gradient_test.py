#!/usr/bin/env python3
"""The measure of scripts/zoo for gradients: it finds wrong ones, and accepts rounding at a kink."""
import copy
import sys
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "python")]

import zoo_case
import zoo_kinks
import zoo_torch
from zoo_check import worst_gradient


def case_at_a_kink():
    """A network of which the first unit of the first sample is 0 before its ReLU."""
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    case = zoo_case.Case(model, nn.MSELoss(), torch.randn(zoo_case.SAMPLES, 4),
                         torch.randn(zoo_case.SAMPLES, 3))
    for _ in range(8):  # until rounding is all that is left
        with torch.no_grad():
            model[0].bias[0] -= model[0](case.inputs)[0, 0]
    return case


def on_the_other_side(case):
    """The same case, with the unit just above or below the kink, whichever it was not."""
    other = replace(case, model=copy.deepcopy(case.model))
    with torch.no_grad():
        above = float(case.model[0](case.inputs)[0, 0]) > 0
        other.model[0].bias[0] += -3e-7 if above else 3e-7
    return other


def after_a_step(case, updates):
    return {name: p.detach() + updates[name] for name, p in case.model.named_parameters()}


class Gradients(unittest.TestCase):
    def setUp(self):
        self.case = case_at_a_kink()
        self.updates = zoo_torch.train(self.case, 1.0, steps=1).updates

    def test_the_gradients_of_pytorch_are_right(self):
        self.assertLess(worst_gradient(self.case, after_a_step(self.case, self.updates))["excess"], 1)

    def test_an_element_on_the_other_side_of_a_kink_is_rounding(self):
        other = zoo_torch.train(on_the_other_side(self.case), 1.0, steps=1).updates
        difference = (other["0.weight"] - self.updates["0.weight"]).abs().max()
        self.assertGreater(difference, 0.01 * self.updates["0.weight"].abs().max())
        self.assertLess(worst_gradient(self.case, after_a_step(self.case, other))["excess"], 1)

    def test_a_gradient_that_is_wrong_by_half_is_found(self):
        for name, update in self.updates.items():
            for factor in (0.5, 1.5):
                with self.subTest(name, factor=factor):
                    wrong = after_a_step(self.case, self.updates | {name: factor * update})
                    worst = worst_gradient(self.case, wrong)
                    self.assertEqual(worst["name"], name)
                    self.assertGreater(worst["excess"], 1)


ACTIVATIONS = {"relu": F.relu, "leaky_relu": nn.LeakyReLU(0.1), "relu6": F.relu6,
               "hardswish": lambda x: F.hardswish(x - 3), "abs": torch.abs,
               "relu_": nn.ReLU(inplace=True), "clamp": lambda x: x.clamp(min=0),
               "prelu": nn.PReLU()}


class Activated(nn.Module):
    """A convolution and a linear layer with an activation between them."""

    def __init__(self, activation):
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 3, 3, padding=1), nn.Linear(48, 2)
        self.activation = activation

    def forward(self, x):
        return self.last(self.activation(self.first(x)).flatten(1))


class Crossings(unittest.TestCase):
    """zoo_kinks.closest finds out which elements are on the other side."""

    def closest_to_crossed(self, activation, side=4):
        torch.manual_seed(5)
        case = zoo_case.Case(Activated(activation), nn.MSELoss(),
                             torch.randn(zoo_case.SAMPLES, 2, side, side),
                             torch.randn(zoo_case.SAMPLES, 2))
        double, ranks = case.in_double(), range(zoo_case.RANKS)
        exact = zoo_torch.train(double, 1.0, steps=1).updates
        with mock.patch.object(zoo_kinks, "NEAR", 3e5):
            near = [c for rank in ranks for c in zoo_kinks.crossings(case, double, rank)]
            self.assertGreater(len(near), 3)
            crossed = near[::3]
            parts = [zoo_kinks.updates_of(double, rank, crossed) for rank in ranks]
            wanted = {name: sum(part[name] for part in parts) for name in exact}
            self.assertGreater(max(float((wanted[n] - exact[n]).abs().max()) for n in exact), 1e-3)
            found, count = zoo_kinks.closest(case, wanted)
        self.assertEqual(count, len(crossed))
        for name in exact:
            torch.testing.assert_close(found[name], wanted[name])

    def test_activations(self):
        for name, activation in ACTIVATIONS.items():
            with self.subTest(name):
                self.closest_to_crossed(activation)

    def test_largest_elements_of_windows(self):
        self.closest_to_crossed(nn.MaxPool2d(3, 2, 1), 8)

    def test_no_crossing_explains_a_wrong_gradient(self):
        case = case_at_a_kink()
        exact = zoo_torch.train(case.in_double(), 1.0, steps=1).updates
        wrong = exact | {"0.weight": 1.01 * exact["0.weight"]}
        found, _ = zoo_kinks.closest(case, wrong)
        self.assertGreater((found["0.weight"] - wrong["0.weight"]).abs().max(),
                           0.005 * exact["0.weight"].abs().max())


if __name__ == "__main__":
    unittest.main()
