"""Runs the captured program beside the module and compares loss, outputs and gradients."""
from __future__ import annotations

from typing import Any

import torch

from ..interpret import Context, interpret
from ..program import Program
from .errors import SelfCheckFailed
from .same_draws import SameDraws, site_numbers
from .state import State
from .step import Step

LOSS_ERROR = 1e-5      # relative
OUTPUT_ERROR = 1e-4    # of the largest magnitude
GRADIENT_ERROR = 1e-3  # of the gradient's norm
SMALL = 1e-5           # of the largest gradient's norm: below it a gradient is rounding only


def check_training(program: Program, step: Step, state: State, tensors: dict,
                   mirrored: set[int]) -> None:
    """Compares the loss and all gradients in training, with the same random draws."""
    parameters = {tied.names[0]: tied.tensor for tied in state.parameters.values()
                  if tied.tensor.requires_grad}
    with SameDraws(mirrored=mirrored):
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
def check_evaluation(program: Program, step: Step, state: State, tensors: dict,
                     sites: dict[int, int]) -> None:
    """Compares the outputs in evaluation; `sites` are those of the module's draws that are used."""
    with SameDraws(site_of=lambda draw: sites.get(draw, draw)):
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
