"""Losses that take turns, each with an optimizer of its own, as in a GAN."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import UsageError
from .optimizers import Optimizer, class_name, listed, some


@dataclass(frozen=True, eq=False)
class Loss:
    """One loss of a job with several ones.

    function: (model, batch) -> number, or a dict with the number as "loss" and the outputs of an
    evaluation. `batch` is what data has for a mini-batch: a tensor, a tuple of them in the order of the
    arrays, or a dict by their names.
    optimizer: an optimizer of torch over the parameters that this loss trains, or a list of them. The
    others stay as they are in its steps, and so do their states.
    schedule: a torch scheduler of this optimizer, or a list of them. It is called after every step of
    this loss, or with schedule_unit="epoch" after every pass over the data.
    every: the loss makes a step in the iterations 0, every, 2 * every ...
    clip_norm: the largest norm of the gradient of what this loss trains, or a list with a limit for each of
    its optimizers, or for each group of the only one; 0 for no clipping, None for that of the job.
    """

    function: Callable[[Any, Any], Any]
    optimizer: Any
    schedule: Any = None
    every: int = 1
    clip_norm: Any = None

    def __post_init__(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            raise UsageError(f"Loss: function is {self.function!r}: allowed is a function (model, batch) -> "
                             "number")
        if isinstance(self.optimizer, Optimizer):
            raise UsageError("Loss: optimizer is an easyscale.Optimizer: allowed is an optimizer of torch, "
                             "which says what the loss trains")
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < 1:
            raise UsageError(f"Loss: every = {self.every!r}: allowed is a whole number from 1 on")

    def parameters(self) -> list[Any]:
        """What it trains."""
        try:
            return [p for part in listed(self.optimizer) for group in part.param_groups
                    for p in group["params"]]
        except (AttributeError, KeyError, TypeError):
            raise UsageError(f"Loss: optimizer {class_name(self.optimizer)}: allowed are optimizers of "
                             "torch.optim, classes that are derived from torch.optim.Optimizer, and lists of "
                             "those") from None


def turns_of(losses: Sequence[Loss], iterations: int) -> list[int]:
    """The number of the loss of each global step (proto/base/loss_turns.h)."""
    return [j for i in range(iterations) for j, loss in enumerate(losses) if i % loss.every == 0]


def names_of(losses: Sequence[Loss]) -> list[str]:
    """The names of the functions, or places in the list if these are not different names."""
    names = [getattr(loss.function, "__name__", "") for loss in losses]
    if len(set(names)) == len(names) and all(name.isidentifier() for name in names):
        return names
    return [f"losses[{place}]" for place in range(len(losses))]


def checked_losses(losses: Any, parameters: Sequence[tuple[str, Any]], in_epoch: int,
                   unit: str) -> list[Loss]:
    """The losses of a job whose parameters have these names. Raises UsageError."""
    found = list(losses) if isinstance(losses, (list, tuple)) else []
    if len(found) < 2 or not all(isinstance(loss, Loss) for loss in found):
        raise UsageError("losses: allowed is a list of two or more easyscale.Loss; a job with one loss has "
                         "it as loss, and its optimizer as optimizer")
    if all(loss.every != 1 for loss in found):
        raise UsageError(f"losses: every is {', '.join(str(loss.every) for loss in found)}: allowed is 1 for "
                         "at least one of them, so that every iteration has a step")
    for place, loss in enumerate(found):
        if unit == "epoch" and loss.schedule is not None and in_epoch % loss.every:
            raise UsageError(f"losses[{place}]: schedule_unit = 'epoch': allowed is an every that divides the "
                             f"{in_epoch} iterations of an epoch, not {loss.every}")
    owners: dict[int, int] = {}
    names = {id(p): name for name, p in reversed(parameters)}
    for place, loss in enumerate(found):
        shared = sorted(names.get(id(p), "one of no module") for p in loss.parameters()
                        if owners.setdefault(id(p), place) != place)
        if shared:
            raise UsageError(f"losses[{place}]: its optimizer has {len(shared)} parameters of another one "
                             f"({some(shared)}): allowed is one for each parameter")
    missing = sorted(name for name, p in parameters if p.requires_grad and id(p) not in owners)
    if missing:
        raise UsageError(f"losses: {len(missing)} parameters of the model that need a gradient are in no "
                         f"optimizer ({some(missing)}); call requires_grad_(False) for what is not to be "
                         "trained")
    return found
