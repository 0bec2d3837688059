"""Gradients of PyTorch with activations on the other side of a kink.

At a kink of an activation function, and where two elements of the window of a maximum are nearly
equal, rounding decides which slope an element has. This changes gradients by far more than rounding,
and correct programs differ. All changes of this kind are known, however: one gradient for each
element that is near a kink. So a gradient that differs is right if some of them add up to the
difference, each counted once.
"""
import copy
from dataclasses import dataclass

import torch
import zoo_torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from zoo_case import RANKS

aten = torch.ops.aten
NEAR = 8         # errors of fp32 (root mean square over its tensor): the farthest that is near
ELEMENTS = 64    # the nearest ones that are tried
PARTS = 512      # elements of a parameter that are compared to find out which kinks were crossed
# An element whose side was changed explains its own gradient once; other coefficients are noise.
CROSSED = (0.5, 1.5)
WEAK = 1e-4      # of the difference: an element that changes less explains nothing


@dataclass
class Crossing:
    """An element near a kink, and the value it has on the other side."""

    rank: int
    call: int        # which operator with a kink, in the order of the forward pass
    element: int     # of its argument, flat
    value: float
    distance: float  # relative to the error of fp32


def _bounds(args, low, high):
    return [float(x) for x in (args + [None] * 2)[low:high] if x is not None]


# Operator: the places of its kinks, by its arguments after the tensor.
KINKS = {
    **dict.fromkeys([aten.relu, aten.relu_, aten.leaky_relu, aten.leaky_relu_, aten.abs,
                     aten._prelu_kernel], lambda args: [0.0]),
    **dict.fromkeys([aten.hardswish, aten.hardswish_, aten.hardsigmoid, aten.hardsigmoid_],
                    lambda args: [-3.0, 3.0]),
    **dict.fromkeys([aten.hardtanh, aten.hardtanh_],
                    lambda args: [float(x) for x in args] or [-1.0, 1.0]),
    **dict.fromkeys([aten.clamp, aten.clamp_], lambda args: _bounds(args, 0, 2)),
    **dict.fromkeys([aten.clamp_min, aten.clamp_min_, aten.clamp_max, aten.clamp_max_],
                    lambda args: _bounds(args, 0, 1)),
}


class _Forward(TorchDispatchMode):
    """Looks at every operator with a kink in a forward pass."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        packet = func.overloadpacket
        if packet in KINKS or packet is aten.max_pool2d_with_indices:
            self.look(packet, *args)
            self.calls += 1
        return func(*args, **(kwargs or {}))


class _Keep(_Forward):
    """Keeps the arguments."""

    def __init__(self):
        super().__init__()
        self.arguments = []

    def look(self, packet, x, *args):
        self.arguments.append(x.clone())


class _Move(_Forward):
    """Moves elements to the other side. What autograd keeps of the argument is moved too."""

    def __init__(self, moved):
        super().__init__()
        self.moved = moved

    def look(self, packet, x, *args):
        for crossing in self.moved:
            if crossing.call == self.calls:
                x[torch.unravel_index(torch.tensor(crossing.element), x.shape)] = crossing.value


class _Find(_Forward):
    """Finds the elements that are near a kink; `rounded` are the arguments in fp32."""

    def __init__(self, rank, rounded):
        super().__init__()
        self.rank, self.rounded, self.found = rank, rounded, {}

    def look(self, packet, x, *args):
        scale = float((x - self.rounded[self.calls]).square().mean().sqrt()) or 1e-30
        if packet is aten.max_pool2d_with_indices:
            self._keep(*_second(x, *args), scale)
            return
        for kink in KINKS[packet](list(args)):
            far = (x - kink).abs().flatten()
            self._keep(torch.arange(len(far)), far, (2 * kink - x).flatten(), scale)

    def _keep(self, elements, far, values, scale):
        near = (far <= NEAR * scale) & (far > 0)
        for e, v, d in zip(elements[near], values[near], far[near]):
            # An element may be the second one of several windows.
            self.found.setdefault((self.calls, int(e)), Crossing(
                self.rank, self.calls, int(e), float(v), float(d) / scale))


def _second(x, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    """The second element of every window of a maximum: its place, how much less it is than the
    largest, and a value just above the largest."""
    low = x.contiguous().clone()
    largest, first = F.max_pool2d(x, kernel, stride, padding, dilation, ceil_mode, True)
    # Without the largest elements of all windows, the next maximum is the second one of a window,
    # or farther away.
    low.flatten(2).scatter_(2, first.flatten(2), float("-inf"))
    second, place = F.max_pool2d(low, kernel, stride, padding, dilation, ceil_mode, True)
    gap = (largest - second).flatten()
    planes = torch.arange(x.shape[:-2].numel()).view(*x.shape[:-2], 1, 1)
    return (planes * x.shape[-2:].numel() + place).flatten(), gap, (largest + (largest - second)).flatten()


def closest(case, updates):
    """The updates of a step of rate 1 in double precision at those sides of the kinks that fit
    `updates` best, and the number of elements that are then on another side than without rounding.
    """
    case, double = copy.deepcopy(case), case.in_double()
    near = sorted((c for rank in range(RANKS) for c in crossings(case, double, rank)),
                  key=lambda c: c.distance)[:ELEMENTS]
    passes = [updates_of(double, rank) for rank in range(RANKS)]
    exact = {name: sum(p[name] for p in passes) for name in passes[0]}
    places = {name: _places(updates[name] - exact[name]) for name in exact}
    scales = {name: float(update.abs().max()) for name, update in exact.items()}
    largest = max(scales.values())

    def picked(tensors):
        return torch.cat([tensors[name].flatten()[places[name]].double()
                          / (scales[name] + zoo_torch.NOISE * largest) for name in exact])
    unmoved = [picked(p) for p in passes]
    wanted = picked(updates) - picked(exact)
    columns = [(c, picked(updates_of(double, c.rank, [c])) - unmoved[c.rank]) for c in near]
    columns = [(c, column) for c, column in columns if column.norm() > WEAK * wanted.norm()]
    if not columns:
        return exact, 0
    parts = torch.linalg.lstsq(torch.stack([column for _, column in columns], 1), wanted,
                               driver="gelsd").solution
    crossed = [c for (c, _), part in zip(columns, parts) if CROSSED[0] < part < CROSSED[1]]
    totals = [updates_of(double, rank, crossed) for rank in range(RANKS)]
    return {name: sum(t[name] for t in totals) for name in exact}, len(crossed)


def _places(difference):
    """Some elements of a parameter: evenly spaced ones, and those that differ most."""
    flat = difference.abs().flatten()
    count = min(PARTS, len(flat))
    return torch.cat([torch.arange(count) * len(flat) // max(count, 1),
                      flat.topk(count // 4).indices])


def crossings(case, double, rank):
    """The elements near kinks in the mini-batch of a rank; `double` is the case in double
    precision."""
    keep = _Keep()
    _updates(case, rank, keep)
    find = _Find(rank, keep.arguments)
    _updates(double, rank, find)
    return list(find.found.values())


def updates_of(case, rank, moved=()):
    """The updates that the gradients of a rank make with some elements on the other side."""
    return _updates(case, rank, _Move([c for c in moved if c.rank == rank]))


def _updates(case, rank, forward):
    case.model.train()
    with zoo_torch.own_state(case.model, {rank: None}, rank):
        zoo_torch.backward(case, 0, rank, around=forward)
    updates = {}
    for name, p in case.model.named_parameters():
        if p.requires_grad:
            updates[name] = torch.zeros_like(p) if p.grad is None else -p.grad
            p.grad = None
    return updates
