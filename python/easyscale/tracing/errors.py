"""What can be wrong with a model that a user brings. Every error names the place and what to do."""
from __future__ import annotations

from dataclasses import dataclass

from ..errors import EasyScaleError

KEPT = ("keep it in a tensor: x.detach() is the number of x.item() without a gradient, and "
        "torch.where chooses by a number")

TRAINED = ("parameters that are trained are changed by the optimizer only: compute with another "
           "tensor, as with w = weight / norm in place of weight.div_(norm), whose gradient takes "
           "the change into account")


class CaptureError(EasyScaleError):
    """A model cannot be captured."""

    exit_code = 2


class ExportFailed(CaptureError):
    """The forward pass cannot be traced."""


class DataDependent(CaptureError):
    """The forward pass branches on the content of a tensor."""


class CustomFunction(CaptureError):
    """The model calls a torch.autograd.Function, whose gradient a trace does not show."""


class NoTrainableParameter(CaptureError):
    """No parameter that needs a gradient takes part in the loss."""


class LossNotScalar(CaptureError):
    """The loss is not one number."""


class BatchTraced(CaptureError):
    """The number of samples of the example was traced as a constant."""


class UnsupportedType(CaptureError):
    """A tensor of the model has a type that the engine does not have."""


class StateChanged(CaptureError):
    """The forward pass changes buffers, Python attributes or random generators."""


class SelfCheckFailed(CaptureError):
    """The captured program does not compute what the module computes."""


class UndefinedResult(CaptureError):
    """The forward pass computes something of the first samples that torch does not define."""


class NotUnderstood(CaptureError):
    """The capture itself fails at an operator of a model that runs."""


@dataclass(frozen=True)
class Missing:
    """One operator that cannot be lowered: its name, why, the module's path and the user's line."""

    operator: str
    reason: str
    path: str
    source: str


class UnsupportedOperators(CaptureError):
    """The model uses operators that the engine does not have; `missing` lists all of them."""

    def __init__(self, missing: list[Missing], advice: str = ""):
        self.missing = missing
        super().__init__("the model uses what cannot be captured:\n" + _table(missing)
                         + (f"\n{advice}" if advice else ""))


def _table(missing: list[Missing]) -> str:
    groups: dict[tuple[str, str], list[Missing]] = {}
    for entry in missing:
        groups.setdefault((entry.operator, entry.reason), []).append(entry)
    lines = []
    for (operator, reason), entries in sorted(groups.items(), key=lambda g: -len(g[1])):
        first = entries[0]
        times = f"{len(entries)} times, first" if len(entries) > 1 else "once,"
        lines.append(f"  {operator}: {reason}; {times} in {first.path or 'the model'}"
                     + (f" ({first.source})" if first.source else ""))
    return "\n".join(lines)
