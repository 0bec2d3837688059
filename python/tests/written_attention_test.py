#!/usr/bin/env python3
"""Attention that a module writes out becomes one node, where that is the same function.

Every capture here compares loss, outputs and gradients with those of the module, also with the
random numbers of dropouts.
"""
import math
import unittest

import capture_support as support
import torch
import torch.nn.functional as F
from torch import nn

TOKENS, HEADS, WIDTH = 6, 2, 4
SHAPE = (TOKENS, 8)
CAUSAL = torch.ones(TOKENS, TOKENS).tril() == 0
NEVER = torch.eye(TOKENS) == 1
NEIGHBOURS = CAUSAL.float() * -100.0
LEAST = torch.finfo(torch.float32).min


def heads(m, x):
    """Queries, keys and values [samples, HEADS, TOKENS, WIDTH]."""
    y = m.layer(x)
    return [part.unflatten(2, (HEADS, WIDTH)).transpose(1, 2) for part in (y, y.sin(), y.cos())]


def joined(y):
    return y.transpose(1, 2).flatten(2)


def written(scores=lambda q, k: q @ k.transpose(-1, -2), weights=lambda s: s.softmax(-1)):
    def function(m, x):
        q, k, v = heads(m, x)
        return joined(weights(scores(q, k)) @ v)
    return function


def product(q, k):
    return q @ k.transpose(-2, -1)


def padding(m, x):
    """A mask of the samples' own, with finite numbers."""
    hidden = (x[:, :, 0] > 1.5).float() * LEAST
    q, k, v = heads(m, x)
    return joined(F.softmax(product(q, k) / 2 + hidden[:, None, None], -1) @ v)


def windows(m, x):
    """Three windows of two tokens for each sample, with a trained bias and a mask for windows."""
    q, k, v = (y.unflatten(2, (3, 2)).permute(0, 2, 1, 3, 4).flatten(0, 1) for y in heads(m, x))
    bias = m.layer.weight[:2, :4].reshape(HEADS, 2, 2)[None]
    mask = torch.tensor([[[0.0, 0], [0, 0]], [[0, -100], [-100, 0]], [[0, 0], [-100, 0]]])
    scores = product(q * WIDTH ** -0.5, k) + bias
    scores = scores.view(-1, 3, HEADS, 2, 2) + mask[:, None][None]
    y = scores.view(-1, HEADS, 2, 2).softmax(-1) @ v
    return y.unflatten(0, (-1, 3)).permute(0, 1, 3, 2, 4).reshape(-1, TOKENS, 8)


def relative(m, x):
    """A trained bias, and a mask that hides."""
    bias = m.layer.weight[:TOKENS, :TOKENS]
    q, k, v = heads(m, x)
    return joined((product(q, k) + bias).masked_fill(CAUSAL, -math.inf).softmax(-1) @ v)


# Name: (function, what the node has beyond q, k and v, its attributes other than the defaults).
JOINED = {
    "plain": (written(), 0, {"scale": 1.0}),
    "scaled q": (written(lambda q, k: product(q * 0.5, k)), 0, {}),
    "scaled scores": (written(lambda q, k: product(q, k) * WIDTH ** -0.5), 0, {}),
    "divided scores": (written(lambda q, k: product(q, k) / math.sqrt(WIDTH)), 0, {}),
    "divided by a tensor": (written(lambda q, k: product(q, k) / torch.tensor(2.0)), 0, {}),
    "both scaled": (written(lambda q, k: product(q * WIDTH ** -0.25, k * WIDTH ** -0.25)), 0, {}),
    "an unusual scale": (written(lambda q, k: product(q, k) * 0.3), 0, {"scale": 0.3}),
    "softmax in single precision": (
        written(weights=lambda s: F.softmax(s * 0.5, -1, dtype=torch.float32).to(s.dtype)), 0, {}),
    "a mask": (written(lambda q, k: product(q, k) / 2 + NEIGHBOURS), 1, {}),
    "a mask first": (written(lambda q, k: NEIGHBOURS + product(q, k) / 2), 1, {}),
    "a mask of samples": (padding, 1, {}),
    "causal": (written(lambda q, k: (product(q, k) / 2).masked_fill(CAUSAL, -math.inf)), 0,
               {"causal": True}),
    "causal by the least number": (
        written(lambda q, k: torch.where(CAUSAL, LEAST, product(q, k) / 2)), 0, {"causal": True}),
    "causal by a sum": (
        written(lambda q, k: product(q, k) / 2 + torch.zeros(6, 6).masked_fill(CAUSAL, -math.inf)),
        0, {"causal": True}),
    "a diagonal that is hidden": (
        written(lambda q, k: (product(q, k) / 2).masked_fill(NEVER, -math.inf)), 1, {}),
    "a bias and a mask": (relative, 1, {"scale": 1.0, "causal": True}),
    "windows": (windows, 2, {}),
}


def hidden_by_samples(m, x):
    q, k, v = heads(m, x)
    hidden = (x[:, :, 0] > 1.5)[:, None, None]
    return joined(product(q, k).masked_fill(hidden, -math.inf).softmax(-1) @ v)


def read_twice(m, x):
    q, k, v = heads(m, x)
    weights = product(q, k).softmax(-1)
    return joined(weights @ v) + weights.mean((1, 3))[..., None]


def three_terms(m, x):
    q, k, v = heads(m, x)
    bias = m.layer.weight[:TOKENS, :TOKENS]
    own = x.mean((1, 2))[:, None, None, None]
    return joined((product(q, k) + bias + NEIGHBOURS + own * NEIGHBOURS).softmax(-1) @ v)


# What is almost attention, or not surely the same.
APART = {
    "over queries": written(weights=lambda s: s.softmax(2)),
    "a row that may see nothing": hidden_by_samples,
    "a row that sees nothing": written(
        lambda q, k: (product(q, k)).masked_fill(torch.arange(6)[:, None] == 2, LEAST)),
    "a number that hides nothing": written(lambda q, k: product(q, k).masked_fill(CAUSAL, -9.0)),
    "weights that are read twice": read_twice,
    "three terms": three_terms,
    "scaled behind the mask": written(lambda q, k: (product(q, k) + NEIGHBOURS) * 0.5),
}


def nodes(captured):
    return [node for node in captured.program.nodes if node.kind == "attention"]


class WrittenAttention(unittest.TestCase):
    def test_it_is_one_node(self):
        for name, (function, extras, attributes) in JOINED.items():
            with self.subTest(name):
                captured = support.capture_function(function, SHAPE)
                (node,) = nodes(captured)
                self.assertEqual(sum(value >= 0 for value in node.inputs[3:]), extras)
                expected = {"scale": 0.5, "causal": False, "dropout": 0.0} | attributes
                self.assertEqual(node.attributes, expected)
                self.assertNotIn("softmax", support.kinds(captured))
                self.assertNotIn("matmul", support.kinds(captured))

    def test_what_is_not_the_same_function_stays_written_out(self):
        for name, function in APART.items():
            with self.subTest(name):
                captured = support.capture_function(function, SHAPE)
                self.assertEqual(nodes(captured), [])
                self.assertIn("softmax", support.kinds(captured))

    def test_dropouts_keep_their_numbers_and_evaluation_has_the_node_of_training(self):
        def function(m, x):
            q, k, v = heads(m, F.dropout(x, 0.1, m.training))
            weights = (product(q, k) / 2).softmax(-1)
            y = joined(F.dropout(weights, 0.2, m.training) @ v)
            return F.dropout(y, 0.3, m.training)
        captured = support.capture_function(function, SHAPE)
        sites = [(node.kind, node.attributes["site"]) for node in captured.program.nodes
                 if "site" in node.attributes]
        self.assertEqual(sites, [("dropout", 0), ("attention", 1), ("dropout", 2)])
        self.assertEqual(nodes(captured)[0].attributes["dropout"], 0.2)
        self.assertEqual(len(nodes(captured)), 1)

    def test_a_dropped_product_of_weights_that_are_read_elsewhere_stays(self):
        def function(m, x):
            q, k, v = heads(m, x)
            weights = product(q, k).softmax(-1)
            return joined(F.dropout(weights, 0.2, m.training) @ v) + weights.mean((1, 3))[..., None]
        captured = support.capture_function(function, SHAPE)
        self.assertEqual(nodes(captured), [])

    def test_layers_of_a_recomputed_region_stay_in_it(self):
        def function(m, x):
            return torch.utils.checkpoint.checkpoint(
                lambda y: written()(m, y), x, use_reentrant=False)
        captured = support.capture_function(function, SHAPE)
        (node,) = nodes(captured)
        self.assertEqual(node.region, 1)

    def test_a_module_whose_keys_have_another_number_of_tokens(self):
        class Cross(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.memory = nn.Linear(8, 8), nn.Parameter(torch.randn(9, 8))

            def forward(self, x):
                q, _, _ = heads(self, x)
                k = self.memory.unflatten(1, (HEADS, WIDTH)).transpose(0, 1)
                k = k.expand(len(x), -1, -1, -1)
                return joined((product(q, k) / 2).softmax(-1) @ k.sin())

        from easyscale.tracing import capture
        torch.manual_seed(2)
        captured = capture(Cross(), lambda outputs, targets: outputs.square().mean(),
                           torch.randn(4, *SHAPE), torch.zeros(4))
        self.assertEqual(len(nodes(captured)), 1)


if __name__ == "__main__":
    unittest.main()
