#!/usr/bin/env python3
"""torch.autograd.grad inside of a forward pass: physics-informed losses and gradient penalties."""
import unittest

import capture_support  # noqa: F401  (makes the package importable)
import numpy as np
import torch
from support import FolderCase, programs_train_model_files
from torch import nn
from torch.autograd import grad

import easyscale as es
from easyscale.tracing import capture, errors

SEED = 3


class Model(nn.Module):
    def __init__(self, net, function):
        super().__init__()
        self.net, self.function = net, function

    def forward(self, x):
        return self.function(self.net, x)


def penalty(net, x):
    x = x.detach().requires_grad_(True)
    slope, = grad(net(x).sum(), x, create_graph=True)
    return (slope.flatten(1).norm(2, dim=1) - 1).pow(2).mean()


def burgers(net, x):
    x = x.requires_grad_(True)
    u = net(x)
    first = grad(u, x, torch.ones_like(u), create_graph=True)[0]
    second = grad(first[:, 0].sum(), x, create_graph=True)[0][:, :1]
    return (first[:, 1:2] + u * first[:, :1] - 0.01 * second).square().mean()


def laplace(net, x):
    x = x.requires_grad_(True)
    u = net(x)
    first, = grad(u, x, torch.ones_like(u), create_graph=True)
    return (sum(grad(first[:, i].sum(), x, create_graph=True)[0][:, i] for i in range(4))
            + u.squeeze(1)).square().mean()


def third(net, x):
    x = x.requires_grad_(True)
    u = net(x)
    for _ in range(3):
        u = grad(u.sum(), x, create_graph=True)[0][:, :1]
    return u.square().mean()


def two_inputs(net, x):
    a, b = (part.clone().requires_grad_(True) for part in x.chunk(2, 1))
    u = net(torch.cat([a, b], 1))
    first, second = grad(u, [a, b], torch.ones_like(u), create_graph=True)
    return (first * second).sin().mean() + u.mean()


def adapted(net, x):
    """A step of the last layer that the loss sees (MAML)."""
    h, weight = net[:-1](x), net[-1].weight
    slope, = grad((h @ weight.T - x[:, :1]).square().mean(), weight, create_graph=True)
    return (h @ (weight - 0.1 * slope).T - x[:, 1:2]).square().mean()


def sliced_score(net, x):
    """A score in a random direction."""
    x = x.requires_grad_(True)
    direction = torch.randn_like(x)
    score = net(x) * direction
    along = grad(score.sum(), x, create_graph=True)[0] * direction
    return (along.sum(1) + 0.5 * score.sum(1) ** 2).mean()


def force(net, x):
    """The gradient is used as a number."""
    x = x.requires_grad_()
    energy = net(x)
    return energy.mean() + (energy * grad(energy.sum(), x, retain_graph=True)[0]).square().mean()


def wasserstein(net, x):
    real, fake = x.chunk(2, 1)
    share = torch.rand(len(x), 1)
    mixed = (share * real + (1 - share) * fake).requires_grad_(True)
    out = net(mixed)
    slope = grad(outputs=out, inputs=mixed, grad_outputs=torch.ones_like(out), create_graph=True,
                 retain_graph=True, only_inputs=True)[0]
    return net(fake).mean() - net(real).mean() + 10 * ((slope.norm(2, dim=1) - 1) ** 2).mean()


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(3 * x)


def mlp(activation, width=4):
    return nn.Sequential(nn.Linear(width, 8), activation, nn.Linear(8, 8), activation, nn.Linear(8, 1))


ACTIVATIONS = [nn.Tanh(), nn.ReLU(), nn.LeakyReLU(0.2, inplace=True), nn.SiLU(), nn.GELU(),
               nn.GELU("tanh"), nn.Softplus(), nn.ELU(), nn.Sigmoid(), nn.LayerNorm(8), nn.Mish(),
               nn.Hardswish(), nn.PReLU(), nn.Softmax(-1), Sine()]
IMAGES = [
    nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(4, 4, 3),
                  nn.InstanceNorm2d(4, affine=True), nn.ReLU(), nn.Flatten(), nn.Linear(16, 1)),
    nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.MaxPool2d(2),
                  nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1)),
    nn.Sequential(nn.Flatten(2), nn.Conv1d(3, 4, 3, padding=2, dilation=2, groups=1), nn.SiLU(),
                  nn.Conv1d(4, 4, 2, stride=3), nn.Flatten(), nn.Linear(84, 1))]


class Gradients(unittest.TestCase):
    """`capture` compares loss, outputs and gradients of the program with those of the module."""

    def setUp(self):
        torch.manual_seed(SEED)

    def test_losses(self):
        for function in (penalty, burgers, laplace, third, two_inputs, adapted, sliced_score,
                         force):
            with self.subTest(function.__name__):
                capture(Model(mlp(nn.Tanh()), function), None, torch.randn(16, 4))
        capture(Model(mlp(nn.ReLU()), wasserstein), None, torch.randn(16, 8))

    def test_activations(self):
        for activation in ACTIVATIONS:
            with self.subTest(str(activation)):
                capture(Model(mlp(activation), penalty), None, torch.randn(16, 4))

    def test_images(self):
        for number, net in enumerate(IMAGES):
            with self.subTest(number):
                capture(Model(net, penalty), None, torch.randn(16, 3, 8, 8))

    def test_what_cannot_be_run_again_is_refused(self):
        for layer, text in ((nn.Dropout(0.5), "dropout.*draws random numbers between the inputs"),
                            (nn.BatchNorm1d(8), "batch_norm.*changes statistics between")):
            with self.assertRaisesRegex(errors.UnsupportedOperators, text):
                capture(Model(mlp(layer), penalty), None, torch.randn(16, 4))
        with self.assertRaisesRegex(errors.CaptureError, "is_grads_batched"):
            capture(Model(mlp(nn.Tanh()), lambda net, x: grad(
                net(x.requires_grad_(True)), x, torch.ones(1, len(x), 1), is_grads_batched=True)[0]
                .mean()), None, torch.randn(16, 4))


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Train(FolderCase):
    def test_steps_are_those_of_pytorch(self):
        torch.manual_seed(SEED)
        model, x = Model(mlp(nn.Tanh()), burgers), np.random.default_rng(1).normal(size=(8, 4))
        run = es.Job(model, loss=None, data=es.data.arrays(x), batch_size=8, max_p=1, steps=4,
                     optimizer=es.Optimizer("sgd", learning_rate=0.1)).run(devices="cpu-avx2:1")
        optimizer, samples = torch.optim.SGD(model.parameters(), 0.1), torch.tensor(x).float()
        for record in run.history:
            loss = model(samples)
            self.assertAlmostEqual(record.loss, loss.item(), delta=1e-5 * loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    unittest.main()
