"""What the tests of captured optimizers share: programs of updates beside torch."""
import warnings

import torch
from torch import nn
from torch_training import listed

from easyscale.tracing.updates import capture_updates
from easyscale.tracing.updates.check import Trained

STEPS = 50
SHAPES = ((4, 3), (5,), (4, 3), (2, 3, 2))
MATRICES = ((4, 3), (3, 6), (4, 3))
ERROR = 1e-4  # of the norm of the parameter


def orthogonal(g, steps=5):
    """A matrix made orthogonal by steps of Newton and Schulz, in fp32, as Muon does."""
    x = g / (g.norm() + 1e-7)
    if g.size(0) > g.size(1):
        x = x.T
    for _ in range(steps):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.T if g.size(0) > g.size(1) else x


def parameters_of(shapes):
    """Parameters with their names."""
    return [(f"p{i}", nn.Parameter(torch.randn(shape))) for i, shape in enumerate(shapes)]


def captured(make, steps=STEPS, shapes=SHAPES, schedule=None, every=1):
    """What an optimizer becomes that `make` makes of a list of parameters."""
    parameters = parameters_of(shapes)
    optimizer = make([p for _, p in parameters])
    return capture_updates(optimizer, parameters, steps, schedule and schedule(optimizer), every)


def made_steps(optimizer, scheduler, parameters, count):
    """Makes steps of torch with random gradients."""
    for _ in range(count):
        for p in parameters:
            p.grad = torch.randn(p.shape)
        for x in listed(optimizer):
            x.step()
        for x in listed(scheduler):
            if x is not None:
                x.step()
    for p in parameters:
        p.grad = None


def largest_error(make, steps=STEPS, shapes=SHAPES, schedule=None, every=1, mode=None, before=0):
    """The largest difference of a parameter to that of torch, relative to its norm, over all steps,
    and what was captured. `mode` is a context in which torch makes its steps, of which the capture does
    not see those `before`."""
    torch.manual_seed(1)
    parameters = parameters_of(shapes)
    optimizer = make([p for _, p in parameters])
    scheduler = schedule and schedule(optimizer)
    made_steps(optimizer, scheduler, [p for _, p in parameters], before)
    found = capture_updates(optimizer, parameters, steps, scheduler, every)
    of_name = {name: update for update in found.updates for name in update.parameters}
    assert sorted(of_name) == sorted(name for name, _ in parameters)
    own = {name: Trained(of_name[name], found.numbers, p, {
        state: torch.from_numpy(found.states[f"{state}.{name}"])
        for state in of_name[name].states()} if found.states else {}) for name, p in parameters}
    worst = 0.0
    for step in range(steps):
        for name, p in parameters:
            p.grad = torch.randn(p.shape)
            own[name].step(step, p.grad.clone())
        with mode() if mode else warnings.catch_warnings():
            for x in listed(optimizer):
                x.step()
        if scheduler is not None and (step + 1) % every == 0 and step + 1 < steps:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of SequentialLR, about itself
                for x in listed(scheduler):
                    x.step()
        for name, p in parameters:
            difference = own[name].tensors["parameter"] - p.detach()
            worst = max(worst, float(difference.norm() / (p.detach().norm() + 1e-6)))
    return worst, found


def states_of(update):
    """The names of the states of an update."""
    return list(update.states())


class Lion(torch.optim.Optimizer):
    """Chen et al., 2023: the sign of an interpolated momentum."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                first, second = group["betas"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = state["momentum"].mul(first).add(p.grad, alpha=1 - first).sign()
                p.add_(update, alpha=-group["lr"])
                state["momentum"].mul_(second).add_(p.grad, alpha=1 - second)
