"""Gradients of zeros, which the optimizers of torch treat unlike none, and norms that nothing reads."""
import copy
import unittest
from unittest import mock

import capture_support as support
import torch
import torch.nn.functional as F
from easyscale import tracing
from easyscale.tracing import capture
from support import programs_train_model_files
from torch import nn

import easyscale as es

WIDTH = 3
EMPTY = torch.tensor([], dtype=torch.long)

# What a model computes with a parameter whose gradient is zero: with none it would not decay.
ZERO = {
    "copysign": lambda x, p: torch.copysign(x, p),
    "empty slice": lambda x, p: x + p[:0].sum(), "empty index": lambda x, p: x + p[EMPTY].sum(),
    "empty rows": lambda x, p: torch.cat([x, p.expand(x.shape)[:, :0]], 1),
    "zero_": lambda x, p: x + (p * 1).zero_(), "fill_": lambda x, p: x + (p * 1).fill_(2.0),
    "copy_": lambda x, p: x + (p * 1).copy_(x.sum(0)),
    "addmm": lambda x, p: torch.addmm(p, x, torch.eye(WIDTH), beta=0),
    "bernoulli": lambda x, p: x + torch.bernoulli(p.sigmoid()),
    "normal": lambda x, p: x + torch.normal(p, 1.0),
    "sign": lambda x, p: x * p.sign(), "floor": lambda x, p: x + p.floor(),
    "round": lambda x, p: x + p.round(), "zeros": lambda x, p: x + p * torch.zeros(WIDTH),
    "product": lambda x, p: x + torch.zeros(WIDTH) @ torch.outer(p, p),
    "minus itself": lambda x, p: x + (p - p), "dead relu": lambda x, p: x + torch.relu(-p.abs() - 1),
    "padding": lambda x, p: x + F.embedding(torch.zeros(WIDTH, dtype=torch.long), p[:, None],
                                            padding_idx=0)[:, 0],
    "softmax of one": lambda x, p: x + p[:, None].softmax(1)[:, 0],
    "where": lambda x, p: torch.where(torch.zeros(WIDTH, dtype=torch.bool), p, x),
}
# To these torch gives no gradient.
NONE = {
    "unused": lambda x, p: x, "detach": lambda x, p: x + p.detach(), "data": lambda x, p: x + p.data,
    "int": lambda x, p: x + p.int(), "compared": lambda x, p: x * (p > 0),
    "place": lambda x, p: x + p.argmax(), "zeros_like": lambda x, p: x + torch.zeros_like(p),
    "no_grad": lambda x, p: x + torch.no_grad()(lambda: p * 2)(),
}


class With(nn.Module):
    """A linear layer on what a function makes of the input and a parameter."""

    def __init__(self, function):
        super().__init__()
        self.p = nn.Parameter(torch.tensor([0.7, -0.6, 1.7]))
        self.last = nn.Linear(WIDTH, 1)
        self.function = function

    def forward(self, x):
        return self.last(self.function(x, self.p))[:, 0]


class Many(nn.Module):
    """Parameters with a gradient, with zeros, and without one; tied, frozen, and of recurrent layers of
    one step, which multiply the state zero."""

    def __init__(self):
        super().__init__()
        for kind, count in (("zero", len(ZERO)), ("none", len(NONE))):
            setattr(self, kind, nn.ParameterList(torch.randn(WIDTH) for _ in range(count)))
        self.rnn = nn.RNN(WIDTH, 4, batch_first=True, num_layers=2, bidirectional=True)
        self.projected = nn.LSTM(WIDTH, 4, proj_size=2, batch_first=True)
        self.cells = nn.ModuleList([nn.RNNCell(WIDTH, 4), nn.GRUCell(WIDTH, 4), nn.LSTMCell(WIDTH, 4)])
        self.tied = nn.ParameterList([nn.Parameter(torch.randn(WIDTH))] * 2)
        self.frozen = nn.Parameter(torch.randn(WIDTH), requires_grad=False)
        self.last = nn.Linear(8 + 2 + 4 * 3 + WIDTH, 1)

    def forward(self, x):
        y = x
        for function, p in zip(ZERO.values(), self.zero):
            if function not in DRAWING:
                y = y + 0.1 * function(x, p)
        for function, p in zip(NONE.values(), self.none):
            y = y + 0.1 * function(x, p)
        y = y + torch.copysign(x, self.tied[0]) + torch.copysign(x, self.frozen) + self.tied[1].detach()
        steps = x[:, None]
        states = [cell(x) for cell in self.cells]
        parts = [self.rnn(steps)[0][:, 0], self.projected(steps)[0][:, 0], *states[:2], states[2][0], y]
        return self.last(torch.cat(parts, 1))[:, 0]


DRAWING = (ZERO["bernoulli"], ZERO["normal"])  # their numbers are not those of torch
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.5),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.5),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.5),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.5),
}


class Heads(nn.Module):
    """A head beside the one that the loss reads, with a batch norm of its own."""

    def __init__(self, returned):
        super().__init__()
        self.returned = returned
        self.norm, self.last = nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 1)
        self.aside, self.other = nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, x):
        beside = self.other(self.aside(x))
        y = self.last(self.norm(x))[:, 0]
        return {"y": y, "beside": beside} if self.returned else {"y": y}


class Unread(Heads):
    """The norm aside is read in evaluation only."""

    def forward(self, x):
        beside = self.aside(x * 2)
        y = self.last(self.norm(x))[:, 0]
        return {"y": y} if self.training else {"y": y, "beside": self.other(beside)}


class OtherInEvaluation(nn.Module):
    """Its norm has another input in evaluation, which must not move the statistics."""

    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x):
        return {"y": self.last(self.norm(x if self.training else 5 * x + 7))[:, 0]}


def samples():
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(8, WIDTH, generator=generator) + 2
    return x, torch.randn(8, generator=generator)


def of_y(outputs, targets):
    return F.mse_loss(outputs["y"], targets)


def trained_by_torch(model, loss, make, steps):
    """The state dict after some steps of torch, and the parameters that had no gradient."""
    twin = copy.deepcopy(model)
    optimizer, (x, y) = make(twin.parameters()), samples()
    for _ in range(steps):
        optimizer.zero_grad()
        loss(twin(x), y).backward()
        optimizer.step()
    return twin.state_dict(), {name for name, p in twin.named_parameters() if p.grad is None}


def trained_names(captured):
    program = captured.program
    return {p.name for p in program.parameters if p.trainable and p.value in program.reached()}


class Gradients(unittest.TestCase):
    def test_the_parameters_with_a_gradient_are_those_of_torch(self):
        for expected, functions in ((True, ZERO), (False, NONE)):
            for name, function in functions.items():
                with self.subTest(name):
                    model, (x, y) = With(function), samples()
                    F.mse_loss(model(x), y).backward()
                    self.assertEqual(model.p.grad is not None, expected)
                    captured = capture(model, nn.MSELoss(), x, y)
                    self.assertEqual("p" in trained_names(captured), expected)

    def test_without_terms_of_zero_some_are_lost(self):
        with mock.patch.object(tracing._Capture, "_add_zero_losses"):
            captured = capture(With(ZERO["copysign"]), nn.MSELoss(), *samples())
        self.assertEqual(trained_names(captured), {"last.weight", "last.bias"})

    def test_a_model_without_them_has_no_such_term(self):
        captured = support.capture_function(lambda m, x: m.layer(x))
        self.assertNotIn("zero_loss", support.kinds(captured))


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Trained(unittest.TestCase):
    def train(self, model, loss, make, steps=3):
        x, y = samples()
        job = es.Job(model, loss=loss, data=es.data.arrays(x, y), batch_size=len(x), max_p=1,
                     steps=steps, optimizer=make(model.parameters()))
        state = job.run(progress=False, devices="cpu-avx2:1").state_dict()
        return {name: torch.as_tensor(value) for name, value in state.items()}

    def compare(self, found, wanted):
        for name, theirs in wanted.items():
            with self.subTest(name):
                torch.testing.assert_close(found[name], theirs, rtol=1e-4, atol=1e-5)

    def test_zeros_decay_and_none_does_not_with_every_optimizer(self):
        for name, make in OPTIMIZERS.items():
            with self.subTest(name):
                torch.manual_seed(1)
                model = Many()
                before = {key: value.clone() for key, value in model.state_dict().items()}
                wanted, without = trained_by_torch(model, nn.MSELoss(), make, 3)
                self.assertEqual({key.split(".")[0] for key in without},
                                 {"none", "zero", "frozen"})  # zero: the functions that draw
                found = self.train(model, nn.MSELoss(), make)
                self.compare(found, wanted)
                for key in without:
                    self.assertTrue(torch.equal(found[key], before[key]), key)

    def test_a_norm_that_the_loss_does_not_read_moves_its_statistics(self):
        for model in (Heads(False), Heads(True), Unread(False), OtherInEvaluation()):
            with self.subTest(type(model).__name__):
                wanted, _ = trained_by_torch(model, of_y, OPTIMIZERS["sgd"], 3)
                self.compare(self.train(model, of_y, OPTIMIZERS["sgd"]), wanted)


if __name__ == "__main__":
    unittest.main()
