"""Runs the captured program beside the module and compares loss, outputs and gradients."""
from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..interpret import Context, interpret, normal_numbers
from ..program import Program
from .errors import SelfCheckFailed
from .state import State
from .step import Step

LOSS_ERROR = 1e-5      # relative
OUTPUT_ERROR = 1e-4    # of the largest magnitude
GRADIENT_ERROR = 1e-3  # of the gradient's norm
SMALL = 1e-5           # of the largest gradient's norm: below it a gradient is rounding only


def site_numbers(site: int, shape: tuple[int, ...]) -> torch.Tensor:
    """The uniform numbers of a random site, in [0, 1)."""
    generator = torch.Generator().manual_seed(1000003 * (site + 1))
    return torch.rand(tuple(shape), generator=generator)


class _SameDraws(TorchDispatchMode):
    """Makes a module draw the numbers of the sites, in the order of execution."""

    def __init__(self) -> None:
        super().__init__()
        self.site = 0

    def _next(self, shape: Any) -> torch.Tensor:
        self.site += 1
        return site_numbers(self.site - 1, tuple(shape))

    def _numbers(self, name: str, shape: Any) -> torch.Tensor:
        return normal_numbers(self._next(shape)) if "randn" in name else self._next(shape)

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (),
                           kwargs: dict | None = None) -> Any:
        name = str(function)
        if name == "aten.bernoulli_.float":
            keep = args[1] if len(args) > 1 else 0.5
            return args[0].copy_(self._next(args[0].shape) >= 1 - keep)
        if name == "aten.bernoulli.p":
            return (self._next(args[0].shape) >= 1 - args[1]).to(args[0].dtype)
        if name in ("aten.rand.default", "aten.randn.default") and list(args[0]):
            return self._numbers(name, args[0])
        if name in ("aten.rand_like.default", "aten.randn_like.default"):
            return self._numbers(name, args[0].shape)
        return function(*args, **(kwargs or {}))


def check_training(program: Program, step: Step, state: State, tensors: dict) -> None:
    """Compares the loss and all gradients in training, with the same random draws."""
    parameters = {tied.names[0]: tied.tensor for tied in state.parameters.values()
                  if tied.tensor.requires_grad}
    with _SameDraws():
        loss = step(*tensors.values())[0]
    wanted = _gradients(loss, list(parameters.values()))
    values = _interpret(program, state, tensors, True)
    found = _gradients(values[program.loss], list(parameters.values()))
    compare("the loss", values[program.loss], loss, LOSS_ERROR)
    largest = max((float(g.norm()) for g in wanted), default=0.0)
    for name, own, theirs in zip(parameters, found, wanted):
        error = float((own - theirs).norm())
        if not error <= GRADIENT_ERROR * float(theirs.norm()) + SMALL * largest:
            raise SelfCheckFailed(
                f"the gradient of {name} is {float(own.norm()):.6g} in norm, but the module has "
                f"{float(theirs.norm()):.6g} (difference {error:.3g}); a custom autograd.Function, "
                "a checkpoint or a torch.no_grad region may hide a part of it")


@torch.no_grad()
def check_evaluation(program: Program, step: Step, state: State, tensors: dict) -> None:
    """Compares the outputs in evaluation."""
    outputs = step(*tensors.values())
    wanted = dict(zip(step.outputs.names, outputs))
    values = _interpret(program, state, tensors, False)
    for output in program.outputs:
        compare(f"the output {output.name}", values[output.value], wanted[output.name], OUTPUT_ERROR)


def _interpret(program: Program, state: State, tensors: dict, training: bool) -> list:
    context = Context(training=training, draw=site_numbers)
    return interpret(program, state.tensors(), tensors, context)


def _gradients(loss: torch.Tensor, parameters: list) -> list[torch.Tensor]:
    """The gradients of parameters, whose own `grad` stays as it is.

    Uses backward(), because a reentrant checkpoint does not allow autograd.grad.
    """
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        if loss.requires_grad:
            loss.backward()
        return [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    finally:
        for parameter, gradient in zip(parameters, before):
            parameter.grad = gradient


def compare(what: str, own: torch.Tensor, theirs: torch.Tensor, allowed: float,
            reference: str = "the module") -> None:
    """Raises SelfCheckFailed if a value of the program is not that of the `reference`.

    `allowed` is the largest difference, as a part of the largest magnitude.
    """
    own, theirs = own.detach().double(), theirs.detach().double()
    if own.shape != theirs.shape:
        raise SelfCheckFailed(f"{what} has the shape {list(own.shape)}, but {reference} has "
                              f"{list(theirs.shape)}")
    same = (own == theirs) | (own.isnan() & theirs.isnan())
    error = torch.where(same, 0.0, (own - theirs).abs()).max() if own.numel() else torch.tensor(0.0)
    finite = theirs[theirs.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 1.0
    if not float(error) <= allowed * max(scale, 1e-3):
        raise SelfCheckFailed(f"{what} differs from that of {reference} by {float(error):.3g}, "
                              f"where the largest magnitude is {scale:.3g}")
