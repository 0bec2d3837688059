#!/usr/bin/env python3
"""A refusal names the line, what is allowed and a remedy, and the remedy is captured."""
import unittest
from unittest import mock

import capture_support as support
import torch
import torch.nn.functional as F
from easyscale.tracing import capture, errors
from easyscale.tracing.lower import LOWERINGS
from torch import nn

HERE = r"remedies_test\.py:\d+"


class Straight(torch.autograd.Function):
    """Rounds, and returns the gradient unchanged."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def with_weight(m, x, weight):
    return F.linear(x, weight, m.layer.bias)


def divided(m, x):
    with torch.no_grad():
        m.layer.weight.div_(m.layer.weight.norm(dim=1, keepdim=True))
    return m.layer(x)


def under_autocast(m, x):
    with torch.autocast("cpu", torch.bfloat16):
        return (m.layer.weight.sum() * x).float()


def seeded(m, x):
    torch.manual_seed(1)
    return m.layer(x) + torch.randn(8)


def seeded_past_functions(m, x):
    torch.default_generator.manual_seed(1)
    return m.layer(x) + torch.randn(8)


def with_generator(m, x):
    return m.layer(x) + torch.randn(8, generator=torch.Generator())


def kept(m, x):
    m.kept = m.layer(x).detach()
    return m.layer(x) + m.kept.mean(0)


def kept_mean(m, x):
    mean = m.layer(x).detach().mean(0)
    if m.training:
        m.kept = mean
    return m.layer(x) + mean


def kept_slice(m, x):
    y = m.layer(x) + m.rows[:len(x)]
    if m.training:
        m.rows[torch.arange(len(x))] = y.detach()
    return y


def kept_rows(m, x):
    rows = torch.arange(len(x))
    y = m.layer(x) + m.rows[rows]
    if m.training:
        m.rows[rows] = y.detach()
    return y


def rows(m, x, places):
    y = torch.zeros(4, 8)
    y[places(x)] = m.layer(x)
    return m.layer(x) + y.sum(0)


def hooked(m, x):
    y = m.layer(x)
    y.register_hook(lambda gradient: 2 * gradient)
    return y


def joined(m, x):
    return torch.cat([m.layer(x), m.layer.weight[:2]])


# What is refused, its error and a part of the message, and what the message advises; None: nothing
# does the same.
FORWARD = {
    "the numbers of a tensor in numpy": (
        lambda m, x: m.layer(x) * float(x.numpy().mean()),
        errors.DataDependent, rf"{HERE} takes the numbers of a tensor out of torch \(numpy\); "
        "compute with torch", lambda m, x: m.layer(x) * x.mean()),
    "item": (
        lambda m, x: m.layer(x) * m.layer(x).abs().max().item(),
        errors.UnsupportedOperators, r"item.default: a number that Python reads .* x.detach\(\) is "
        rf"the number of x.item\(\).*{HERE}",
        lambda m, x: m.layer(x) * m.layer(x).abs().max().detach()),
    "arithmetic with item": (
        lambda m, x: m.layer(x) / (m.layer(x).abs().max().item() + 1),
        errors.DataDependent, rf"{HERE} computes with a number .* x.detach\(\)",
        lambda m, x: m.layer(x) / (m.layer(x).abs().max().detach() + 1)),
    "a weight that is divided": (
        divided, errors.StateChanged,
        rf"changes (layer.weight|a parameter) \({HERE}\).* w = weight / norm",
        lambda m, x: with_weight(m, x, m.layer.weight / m.layer.weight.norm(dim=1, keepdim=True))),
    "autocast around what has no module": (
        under_autocast, errors.ExportFailed, rf"autocast at {HERE}: capture the model in fp32",
        lambda m, x: m.layer.weight.sum() * x),
    "the question whether gradients are computed": (
        lambda m, x: m.layer(x) * (1 if torch.is_grad_enabled() else 2),
        errors.StateChanged, rf"is_grad_enabled at {HERE}\); ask self.training",
        lambda m, x: m.layer(x) * (1 if m.training else 2)),
    "a seed": (seeded, errors.CaptureError, rf"{HERE} sets the seed of torch .*register_buffer",
               None),
    "a seed past torch's functions": (
        seeded_past_functions, errors.CaptureError, rf"{HERE} sets the seed .*register_buffer",
        lambda m, x: m.layer(x) + m.noise),
    "a generator": (with_generator, errors.ExportFailed, rf"{HERE} (uses|draws with) "
                    ".*torch.Generator of its own.*leave it out",
                    lambda m, x: m.layer(x) + torch.randn(8)),
    "a buffer of a mini-batch": (
        kept, errors.StateChanged,
        rf"changes kept \({HERE}\) from the shape \[8\] to \[3, 8\].* a mean",
        kept_mean),
    "a buffer with as many rows as a mini-batch": (
        lambda m, x: m.layer(x) + m.four, errors.BatchTraced,
        rf"{HERE}.* runs with 4 samples and not with 8, 3, 5.*self.kept\[torch.arange\(len\(x\)\)\]",
        kept_rows),
    "a part of a buffer, one row for each sample": (
        kept_slice, errors.BatchTraced,
        rf"{HERE}\): a slice of an axis of 16 has as many elements as there are samples;.*"
        r"self.kept\[torch.arange\(len\(x\)\)\]", kept_rows),
    "a function with a backward of its own": (
        lambda m, x: Straight.apply(m.layer(x)), errors.CustomFunction,
        rf"{HERE} calls .*Straight.* y \+ \(f\(y\) - y\)\.detach\(\).* trains that derivative in "
        "place",
        lambda m, x: m.layer(x) + (m.layer(x).round() - m.layer(x)).detach()),
    "different values at one place": (
        lambda m, x: rows(m, x, lambda x: (x[:, 0] > 9).long()), errors.UndefinedResult,
        rf"{HERE}\): different values are written to one place.*index_add",
        lambda m, x: m.layer(x) + torch.zeros(4, 8).index_add(0, (x[:, 0] > 9).long(),
                                                              m.layer(x)).sum(0)),
    "a hook on a gradient": (hooked, errors.CaptureError, rf"{HERE} registers a hook on a gradient",
                             None),
    "a constant that depends on the samples": (
        lambda m, x: m.layer(x) + torch.full((8,), float(len(x) ** 3)), errors.BatchTraced,
        rf"{HERE}\): a constant of the shape \[8\] depends on the number of samples; use", None),
    "an axis that is no multiple of the samples": (
        joined, errors.BatchTraced,
        rf"concat in the model \({HERE}\): an extent is 5 for 3 samples and 7 for 5", None),
}


def model_of(function):
    torch.manual_seed(1)
    model = support.Model(function)
    model.register_buffer("kept", torch.zeros(8))
    model.register_buffer("noise", torch.ones(8))
    model.register_buffer("four", torch.zeros(4, 8))
    model.register_buffer("rows", torch.zeros(16, 8))
    return model


def captured(function, loss=None):
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    loss = loss or (lambda outputs, targets: outputs.square().mean())
    return capture(model_of(function), loss, x, torch.zeros(4, 8))


class Remedies(unittest.TestCase):
    def test_a_forward_pass(self):
        for name, (refused, error, text, advised) in FORWARD.items():
            with self.subTest(name):
                with self.assertRaisesRegex(error, "(?s)" + text):
                    captured(refused)
                if advised is not None:
                    captured(advised)

    def test_a_loss_has_lines_too(self):
        def scaled(outputs, targets):
            return F.mse_loss(outputs, targets) * outputs.abs().max().item()

        def double(outputs, targets):
            return F.mse_loss(outputs.double(), targets.double())
        for loss, text in ((scaled, "item.default: .*x.detach"),
                           (double, "a conversion to torch.float64, .* compute with float32")):
            with self.assertRaisesRegex(errors.UnsupportedOperators, f"(?s){text}.*{HERE}"):
                captured(lambda m, x: m.layer(x), loss)
        captured(lambda m, x: m.layer(x), lambda outputs, targets: F.mse_loss(
            outputs, targets) * outputs.abs().max().detach())

    def test_what_follows_from_constants_may_have_a_shape_that_contents_decide(self):
        for name in ("unique_consecutive", "unique", "bincount"):
            found = captured(lambda m, x, name=name: m.layer(x) * getattr(torch, name)(
                torch.tensor([1, 1, 2, 3])).sum())
            self.assertEqual(support.kinds(found)[0], "linear")
        captured(lambda m, x: m.layer(x) * float(m.noise.numpy().sum()))

    def test_lines_of_a_sequence_of_modules_are_none_of_the_caller(self):
        found = capture(nn.Sequential(nn.Linear(8, 8)), nn.MSELoss(), torch.randn(4, 8),
                        torch.randn(4, 8))
        self.assertEqual({node.source for node in found.program.nodes}, {""})

    def test_a_loss_that_differs_names_the_first_value_that_does(self):
        def wrong(b, self):
            return b.emit("sigmoid", self)

        def forward(m, x):
            y = m.layer(x) * 2
            return y.exp() + y.tanh().exp()
        with mock.patch.dict(LOWERINGS, {"aten.tanh.default": wrong}), self.assertRaisesRegex(
                errors.SelfCheckFailed, r"the loss differs .* the first operator with another "
                rf"result is aten.tanh.default in the model \({HERE}\), with 0\.\d+ in place of "
                r"-?0\.\d+ at \[\d, \d\]"):
            captured(forward)


if __name__ == "__main__":
    unittest.main()
