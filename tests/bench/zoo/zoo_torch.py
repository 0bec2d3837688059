"""Training steps of PyTorch on the samples that a job of EasyScale uses."""
import contextlib
from dataclasses import dataclass

import torch
import zoo_order
from easyscale import draws
from easyscale.tracing.same_draws import SameDraws
from zoo_case import BATCH, RANKS, SAMPLES

STEPS = 3
SEED = 1
NOISE = 1e-6          # relative; the sensitivity of a model is its answer to this
FIRST_UPDATE = 3e-4   # the largest element of the first update is at most this


@dataclass
class Training:
    """What some steps of SGD have done."""

    learning_rate: float
    losses: list[float]              # the mean over the global batch before each step
    updates: dict[str, torch.Tensor]  # of every trainable parameter: the end minus the beginning


def train(case, learning_rate=None, noise=None, steps=STEPS):
    """Steps of SGD; the weights are then as they were.

    Without a learning rate it is the largest of 1, 0.5, 0.2, 0.1, ... that moves no parameter by
    more than FIRST_UPDATE in the first step: larger steps amplify rounding in deep networks, and
    smaller ones are lost in the rounding of the parameters. With `noise`, the seed of normal numbers
    n, all inputs and parameters are multiplied by 1 + NOISE * n.
    """
    is_noisy = noise is not None
    generator = torch.Generator().manual_seed(noise if is_noisy else 0)

    def scaled(tensor):
        return tensor * (1 + NOISE * torch.randn(tensor.shape, generator=generator))
    state = {name: tensor.clone() for name, tensor in case.model.state_dict().items()}
    trainable = {name: p for name, p in case.model.named_parameters() if p.requires_grad}
    case.model.train()
    try:
        if is_noisy:
            with torch.no_grad():
                for parameter in trainable.values():
                    parameter.copy_(scaled(parameter))
        begin = {name: p.detach().clone() for name, p in trainable.items()}
        losses, kept = [], [None] * RANKS
        for step in range(steps):
            # Every rank has a mini-batch of its own; their gradients are added up.
            loss = 0.0
            for rank in range(RANKS):
                with own_state(case.model, kept, rank):
                    loss += backward(case, step, rank, scaled if is_noisy else None)
            losses.append(loss)
            learning_rate = learning_rate or _learning_rate(trainable.values())
            _update(trainable.values(), learning_rate)
        updates = {name: p.detach() - begin[name] for name, p in trainable.items()}
    finally:
        with torch.no_grad():
            for name, tensor in case.model.state_dict().items():
                tensor.copy_(state[name])
    return Training(learning_rate, losses, updates)


@contextlib.contextmanager
def own_state(model, kept, rank):
    """A rank has buffers and frozen parameters of its own, which a forward pass may write. They are
    kept in `kept`, and the model gets back what it had."""
    state = [*model.buffers(), *(p for p in model.parameters() if not p.requires_grad)]
    before = [tensor.detach().clone() for tensor in state]
    with torch.no_grad():
        for tensor, own in zip(state, kept[rank] or before):
            tensor.copy_(own)
    try:
        yield
    finally:
        kept[rank] = [tensor.detach().clone() for tensor in state]
        with torch.no_grad():
            for tensor, known in zip(state, before):
                tensor.copy_(known)


def backward(case, step, rank, scaled=None, around=contextlib.nullcontext()):
    """Adds the gradients of the mini-batch of a rank, and returns its part of the loss; `around` is
    entered for the forward pass."""
    rows = torch.tensor(zoo_order.batch(SAMPLES, SEED, RANKS, BATCH, step, rank))
    with _engine_draws(step, rank), around:
        loss = case.loss_of(rows, scaled) / RANKS
    loss.backward()
    return float(loss.detach())


def _engine_draws(step, rank):
    """Makes a model draw the random numbers of the engine."""
    key = draws.Key(SEED, step, rank)
    return SameDraws(lambda site, shape: torch.from_numpy(key.uniform(site, shape)))


def _learning_rate(parameters):
    largest = max(float(p.grad.abs().max()) for p in parameters if p.grad is not None)
    rates = (digit / 10 ** power for power in range(10) for digit in (1, 0.5, 0.2))
    return next((rate for rate in rates if rate * largest <= FIRST_UPDATE), 1e-10)


@torch.no_grad()
def _update(parameters, learning_rate):
    for parameter in parameters:
        if parameter.grad is not None:
            parameter -= learning_rate * parameter.grad
            parameter.grad = None
