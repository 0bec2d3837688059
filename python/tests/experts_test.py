"""Mixtures of experts, written as users write them: rows that a computed mask or place chooses."""
import unittest

import capture_support as support
import easyscale as es
import numpy as np
import torch
from easyscale.tracing import capture, errors
from torch import nn
from torch_training import torch_losses

WIDTH, EXPERTS, TOP = 8, 4, 2


class Mixture(nn.Module):
    """`combine(model, x, weights, chosen)` adds up what the experts make of rows [n, WIDTH]."""

    def __init__(self, combine):
        super().__init__()
        self.gate, self.head = nn.Linear(WIDTH, EXPERTS), nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, WIDTH))
            for _ in range(EXPERTS))
        self.combine = combine

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(TOP, -1)
        return self.head(self.combine(self, x, weights, chosen))


def by_mask(m, x, weights, chosen):
    out = torch.zeros_like(x)
    for k, expert in enumerate(m.experts):
        for j in range(TOP):
            rows = chosen[:, j] == k
            out[rows] += weights[rows, j, None] * expert(x[rows])
    return out


def by_mask_of_any(m, x, weights, chosen):
    tokens = x.view(-1, 1, WIDTH)
    out, shares = torch.zeros_like(tokens), torch.zeros(len(x), EXPERTS).scatter(-1, chosen, weights)
    for k, expert in enumerate(m.experts):
        mask = (chosen.view(-1, 1, TOP) == k).any(dim=-1)
        flat = mask.view(-1)
        out[mask] += expert(tokens.view(-1, WIDTH)[flat]) * shares[flat, k].unsqueeze(1)
    return out.view(-1, WIDTH)


def by_places(m, x, weights, chosen):
    out = torch.zeros_like(x)
    for k, expert in enumerate(m.experts):
        rows, order = torch.where(chosen == k)
        out[rows] += weights[rows, order, None] * expert(x[rows])
    return out


def by_index_add(m, x, weights, chosen):
    out, hits = torch.zeros_like(x), nn.functional.one_hot(chosen, EXPERTS).permute(2, 1, 0).bool()
    for k, expert in enumerate(m.experts):
        order, rows = torch.where(hits[k])
        out.index_add_(0, rows, expert(x[rows]) * weights[rows, order, None])
    return out


def by_nonzero(m, x, weights, chosen):
    out = torch.zeros_like(x)
    for k, expert in enumerate(m.experts):
        rows = torch.nonzero(chosen[:, 0] == k).squeeze(-1)
        out = out.index_add(0, rows, expert(x[rows]) * weights[rows, 0].unsqueeze(-1), alpha=2)
    return out


def by_tuple(m, x, weights, chosen):
    out = torch.zeros_like(x)
    for k, expert in enumerate(m.experts):
        (rows,) = (chosen[:, 1] == k).nonzero(as_tuple=True)
        out[rows] = expert(x[rows]) - x[rows]
    return out


STYLES = (by_mask, by_mask_of_any, by_places, by_index_add, by_nonzero, by_tuple)


class Experts(unittest.TestCase):
    # Every capture, also that of a job, compares loss, outputs and gradients with those of the module.

    def test_training_is_that_of_torch_also_where_an_expert_gets_no_row(self):
        torch.manual_seed(4)
        x, labels = torch.randn(6, WIDTH).numpy(), torch.randint(0, 3, (6,)).numpy()
        for style in STYLES:
            with self.subTest(style.__name__):
                torch.manual_seed(5)
                model = Mixture(style)
                with torch.no_grad():
                    model.gate.bias[1] -= 100
                _, chosen = model.gate(torch.from_numpy(x)).topk(TOP, -1)
                self.assertNotIn(1, chosen)
                job = es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(x, labels),
                             batch_size=6, max_p=1, steps=4,
                             optimizer=torch.optim.AdamW(model.parameters(), lr=0.01))
                run = job.run(devices="cpu-scalar:1")
                losses = torch_losses(model, torch.optim.AdamW(model.parameters(), lr=0.01),
                                      nn.CrossEntropyLoss(), (x, labels), 4)
                np.testing.assert_allclose([step.loss for step in run.history], losses, rtol=1e-5)
                for name, weight in run.state_dict().items():
                    np.testing.assert_allclose(weight, dict(model.named_parameters())[name].detach(),
                                               rtol=1e-3, atol=1e-5, err_msg=name)

    def test_of_several_writes_to_a_place_the_last_one_stays(self):
        def forward(m, x):
            y, out = m.layer(x).view(-1, 4, 2), x * 0
            rows, order = torch.where(y.sum(-1) > 0)
            out[rows] = m.layer(x)[rows] * order[:, None]
            return out
        torch.manual_seed(4)
        capture(support.Model(forward), nn.MSELoss(), torch.randn(16, 8), torch.randn(16, 8))

    def test_a_change_in_place_that_a_view_shares_is_refused(self):
        def with_view(m, x):
            rows = m.layer(x)[:, 0] > 0
            part = x[rows]
            view = part.detach()
            part += 1
            return (view.sum() + m.layer(x)).sum()
        self.refused("in add_", with_view)

        def through_view(m, x):
            part = x[m.layer(x)[:, 0] > 0]
            view = part.detach()
            view *= 2
            return (part.sum() + m.layer(x)).sum()
        self.refused("in mul_", through_view)

    def refused(self, message, forward):
        with self.assertRaisesRegex(errors.DataDependent, message):
            capture(support.Model(forward), lambda o, t: o.sum(), torch.randn(4, 8), torch.randn(4, 8))

    def test_what_needs_their_number_is_refused(self):
        def places(m, x):
            return torch.where(m.layer(x) > 0)[0]
        self.refused("in numel", lambda m, x: x * places(m, x).numel())
        self.refused("in __len__", lambda m, x: x * len(places(m, x)))
        self.refused("in an index", lambda m, x: m.layer(x).T[torch.where(m.layer(x).T > 0)[1]])
        # An expert without a row has no gradient in torch then, so the optimizer leaves it out.
        self.refused("branches", lambda m, x: m.layer(x) if (m.layer(x)[:, 0] > 0).any() else x)


if __name__ == "__main__":
    unittest.main()
