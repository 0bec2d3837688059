#!/usr/bin/env python3
"""How exact convolutions would be that give a block of channels of an image one scale.

    ES_PYTHON exact_convolutions.py [--steps 60] [--batch 16]

Exact products (docs/ARITHMETIC.md) give each row of a chunk a scale of its own. A convolution reads a
pixel in many rows, so its integers would have to be made once for an image and a block of channels.
This program trains a ResNet18 on Fashion-MNIST, and computes the three products of each of its
convolutions in double precision: of the numbers themselves, of those integers, and of operands rounded
to TF32 and to bf16; and in fp32. It prints the relative errors (L2), of whole results and of the worst channel.
"""
import argparse
import gzip
import statistics

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torchvision.models import resnet18

DATA = "/usr/share/datasets/fashion-mnist/train-"
BLOCK = 64  # channels
PASSES = ("forward", "data gradient", "weight gradient")


def samples(batch, steps):
    with gzip.open(DATA + "images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(DATA + "labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    for at in range(0, batch * steps, batch):
        x = torch.from_numpy(images[at:at + batch].astype(np.float32) / 255 - 0.3)
        yield F.interpolate(x, 32).expand(-1, 3, -1, -1), torch.from_numpy(labels[at:at + batch].astype(np.int64))


def integers(x, groups, bits):
    """x as integers of `bits` bits times the scale of their group, which `groups` (a view of x with the
    group in the last dimension) names."""
    view = groups(x)
    largest = view.abs().amax(-1, keepdim=True)
    exponent = torch.where(largest > 0, torch.floor(torch.log2(largest)) + 1, 0).clamp(min=-100)
    most = 2.0**bits - 1
    q = torch.round(view * 2.0**(bits - exponent)).clamp(-most, most)
    return (q * 2.0**(exponent - bits)).reshape(x.shape)


def by_image(x):
    """One scale for an image and a block of channels."""
    return x.reshape(x.shape[0], x.shape[1] // BLOCK, -1)


def by_output_channel(w):
    return w.reshape(w.shape[0], -1)


def by_input_channel(w):
    return w.transpose(0, 1).reshape(w.shape[1], -1)


def by_exact_integers(bits):
    def rounded(x, w, dy):
        x, dy = (integers(t, by_image, bits) for t in (x, dy))
        other = integers(w.transpose(0, 1).contiguous(), by_output_channel, bits).transpose(0, 1)
        return (x, integers(w, by_output_channel, bits)), (other, dy), (x, dy)
    return rounded


def by_mantissa(bits):
    """Operands with `bits` bits behind the first one."""
    def number(x):
        mantissa, exponent = torch.frexp(x)
        return torch.ldexp(torch.round(mantissa * 2.0**(bits + 1)), exponent - bits - 1)

    def rounded(x, w, dy):
        x, w, dy = (number(t) for t in (x, w, dy))
        return (x, w), (w, dy), (x, dy)
    return rounded


def unchanged(x, w, dy):
    return (x, w), (w, dy), (x, dy)


def in_fp32(x, w, dy):
    return unchanged(*(t.float() for t in (x, w, dy)))


def products(rounded, layer, x, dy):
    """The results of the three passes."""
    w = layer.weight.detach().double()
    forward, data, weight = rounded(x.double(), w, dy.double())
    options = {"stride": layer.stride, "padding": layer.padding}
    return (F.conv2d(*forward, **options),
            nn.grad.conv2d_input(x.shape, *data, **options),
            nn.grad.conv2d_weight(weight[0], w.shape, weight[1], **options))


def error(result, exact):
    return float((result - exact).norm() / exact.norm())


def worst_channel(result, exact, dim):
    """The error of the channel that has the largest one, among those that are not zero."""
    channels = [(result.select(dim, i), exact.select(dim, i)) for i in range(exact.shape[dim])]
    return max(error(r, e) for r, e in channels if e.norm() > 0)


WAYS = {"x15": by_exact_integers(15), "x22": by_exact_integers(22),
        "fp32": in_fp32, "TF32": by_mantissa(10), "bf16": by_mantissa(7)}


def watch(model):
    """Keeps the operands of each convolution: [layer, input, gradient of the output]."""
    kept = {}

    def forward(layer, inputs, output):
        kept[layer] = [layer, inputs[0].detach()]
        output.register_hook(lambda gradient: kept[layer].append(gradient.detach()))
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(forward)
    return kept


def measure(kept):
    """{way: {pass: [(error, error of the worst channel) of a layer]}}"""
    found = {way: {name: [] for name in PASSES} for way in WAYS}
    for layer, x, dy in kept.values():
        if layer.in_channels < BLOCK:
            continue  # the first layer stays fp32 in any case
        exact = products(unchanged, layer, x, dy)
        for way, rounded in WAYS.items():
            for name, result, wanted, dim in zip(PASSES, products(rounded, layer, x, dy), exact, (1, 1, 0)):
                found[way][name].append((error(result, wanted), worst_channel(result, wanted, dim)))
    return found


def print_table(step, found):
    print(f"\nafter step {step}:\n\n| way | pass | mean of the layers | largest | worst channel |\n|---|---|---|---|---|")
    for way, passes in found.items():
        for name, errors in passes.items():
            whole, channel = zip(*errors)
            print(f"| {way} | {name} | {statistics.mean(whole):.1e} | {max(whole):.1e} | {max(channel):.1e} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()
    torch.manual_seed(1)
    model = resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    kept = watch(model)
    for step, (x, y) in enumerate(samples(options.batch, options.steps), 1):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        if step in (1, options.steps):
            print_table(step, measure(kept))
        optimizer.step()


if __name__ == "__main__":
    main()
