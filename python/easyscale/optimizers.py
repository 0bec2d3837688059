"""Optimizers, from torch objects or from plain values.

    es.Optimizer("adamw", learning_rate=1e-3)
    torch.optim.AdamW(model.parameters(), lr=1e-3)

Only what the engine computes exactly is accepted: SGD, Adam and AdamW. Everything else is refused
by its name before a job starts. Nothing here imports torch; a torch object is recognised by the
names of its classes.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .errors import UsageError
from .settings import check_table


@dataclass(frozen=True)
class ParameterGroup:
    """A table [[optimizer.groups]] of a job file (docs/JOB-FILE.md), with the same keys."""

    parameters: Sequence[str]  # names of the state dict; "*" stands for any characters
    learning_rate_factor: float = 1.0
    weight_decay: float | None = None  # None: that of the optimizer

    def __post_init__(self) -> None:
        if isinstance(self.parameters, str):
            raise UsageError(f"parameters = {self.parameters!r}: allowed is a list of names")
        object.__setattr__(self, "parameters", tuple(self.parameters))
        check_table(self, "optimizer.groups")


@dataclass(frozen=True)
class Optimizer:
    """The table [optimizer] of a job file (docs/JOB-FILE.md), with the same keys."""

    kind: str = "sgd"  # sgd, adam, adamw
    learning_rate: float = 0.1
    momentum: float = 0.0
    nesterov: bool = False
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    clip_norm: float = 0.0  # the largest norm of the whole gradient; 0 for no clipping
    ema: float = 0.0  # decay of a moving average of the parameters; 0 for none
    groups: Sequence[ParameterGroup] = ()  # a parameter belongs to the first one that names it

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(self.groups))
        check_table(self, "optimizer")
        if self.nesterov and (self.kind != "sgd" or self.momentum == 0):
            raise UsageError("nesterov = True: allowed with kind sgd and a momentum above 0")


def read_optimizer(given: Any, parameters: Iterable[tuple[str, Any]] | None,
                   scheduled: bool = False) -> Optimizer:
    """The optimizer of a job: `given` is an Optimizer, or a torch optimizer that has made no step.

    `parameters` are those of the model and its loss with their names in the model file; a torch
    optimizer must have all that need a gradient. Without them, for a captured model, only an
    Optimizer is allowed.
    `scheduled`: a torch scheduler has already changed the learning rate, so the initial one counts.
    """
    if isinstance(given, Optimizer):
        return given
    name = class_name(given)
    if parameters is None:
        raise UsageError(f"optimizer {name}: allowed for a captured model is easyscale.Optimizer")
    reader = _READERS.get(name)
    of_torch = is_of_torch(given, "torch.optim")
    if reader is None or not of_torch:
        origin = "" if of_torch or reader is None else f" of {type(given).__module__}"
        raise UsageError(f"optimizer {name}{origin}: allowed are torch.optim.SGD, Adam and AdamW, and "
                         "easyscale.Optimizer")
    if given._optimizer_step_pre_hooks or given._optimizer_step_post_hooks:
        raise UsageError(f"optimizer {name} has a hook on its steps, which a job does not call: "
                         "allowed is an optimizer without hooks")
    if given.state:
        raise UsageError(f"optimizer {name} has the state of steps that it has made, with which a "
                         "job cannot begin: make a new one")
    known = list(parameters)
    _check_no_others(name, given.param_groups, {id(parameter) for _, parameter in known})
    names = {id(parameter): full for full, parameter in reversed(known) if parameter.requires_grad}
    _check_parameters(name, given.param_groups, names)
    settings = [_settings(name, group, scheduled) for group in given.param_groups]
    _check_settings(name, settings)
    # Factors are relative to the rate of this group.
    base = next((group for group in settings if group["lr"] > 0), settings[0])
    return replace(reader(name, base), groups=_own_groups(name, given.param_groups, settings, base,
                                                          names))


def class_name(given: Any) -> str:
    return type(given).__name__


def is_of_torch(given: Any, module: str) -> bool:
    """Whether the class is one of torch's; another one of its name may have another rule."""
    return f"{type(given).__module__}.".startswith(f"{module}.")


def _check_no_others(name: str, groups: list[dict[str, Any]], known: set[int]) -> None:
    others = sum(parameter.requires_grad and id(parameter) not in known
                 for group in groups for parameter in group["params"])
    if others:
        raise UsageError(f"optimizer {name} has {others} parameters that are neither of the model nor "
                         "of its loss, so nothing would train them: allowed are those of the model, "
                         "and of a loss that is a torch.nn.Module")


def _check_parameters(name: str, groups: list[dict[str, Any]], names: dict[int, str]) -> None:
    known = {id(parameter) for group in groups for parameter in group["params"]}
    missing = len(names.keys() - known)
    if missing:
        raise UsageError(f"optimizer {name} has not all parameters of the model and its loss "
                         f"that need a gradient: {missing} are missing; call requires_grad_(False) "
                         "for what is not to be trained")


# What the groups of parameters may have of their own.
OWN_SETTINGS = ("lr", "weight_decay")


def _check_settings(name: str, settings: list[dict[str, Any]]) -> None:
    first = settings[0]
    for place, other in enumerate(settings):
        different = [f"{option} ({value} and {other.get(option)})"
                     for option, value in first.items()
                     if option not in OWN_SETTINGS and other.get(option) != value]
        if different:
            raise UsageError(f"optimizer {name}: the groups of parameters 0 and {place} differ in "
                             f"{', '.join(different)}: allowed is another lr or weight_decay")


def _own_groups(name: str, groups: list[dict[str, Any]], settings: list[dict[str, Any]],
                base: dict[str, Any], names: dict[int, str]) -> list[ParameterGroup]:
    """The groups whose settings differ from `base`, with the names of their parameters."""
    own = []
    for group, found in zip(groups, settings):
        members = [names[id(parameter)] for parameter in group["params"] if id(parameter) in names]
        if found == base or not members:
            continue
        for member in members:
            if "*" in member:
                raise UsageError(f"optimizer {name}: the parameter {member!r} is in a group with "
                                 "settings of its own: allowed is a name without *")
        factor = found["lr"] / base["lr"] if base["lr"] else 1.0
        decay = float(found["weight_decay"])
        own.append(ParameterGroup(members, factor, None if decay == base["weight_decay"] else decay))
    return own


# Keys that a scheduler adds to a group for itself.
SCHEDULED = ("max_lr", "min_lr", "max_momentum", "base_momentum")
# Keys of a group that choose between implementations of one rule, or that are read elsewhere.
NO_SETTINGS = {"foreach", "fused", "capturable", "differentiable", "maximize", "amsgrad", "params",
               "initial_lr", "lr", *SCHEDULED}


def _settings(name: str, group: dict[str, Any], scheduled: bool) -> dict[str, Any]:
    for option in ("maximize", "amsgrad"):
        if group.get(option):
            raise UsageError(f"optimizer {name}: {option} = True: allowed is False")
    rate = float(group["lr"])
    initial = float(group.get("initial_lr", rate))
    if initial != rate and not scheduled:
        raise UsageError(f"optimizer {name}: a scheduler has changed the learning rate from "
                         f"{initial} to {rate}; pass that scheduler as schedule=")
    others = {key: value for key, value in group.items() if key not in NO_SETTINGS}
    return {"lr": initial, **others}


def _read_sgd(name: str, group: dict[str, Any]) -> Optimizer:
    momentum = float(group["momentum"])
    if momentum and group["dampening"]:
        raise UsageError(f"optimizer {name}: dampening = {group['dampening']}: allowed is 0")
    return Optimizer("sgd", group["lr"], momentum, bool(group["nesterov"]),
                     weight_decay=float(group["weight_decay"]))


def _read_adam(name: str, group: dict[str, Any]) -> Optimizer:
    beta1, beta2 = (float(beta) for beta in group["betas"])
    decoupled = name == "AdamW" or group.get("decoupled_weight_decay", False)
    return Optimizer("adamw" if decoupled else "adam", group["lr"], beta1=beta1, beta2=beta2,
                     epsilon=float(group["eps"]), weight_decay=float(group["weight_decay"]))


_READERS = {"SGD": _read_sgd, "Adam": _read_adam, "AdamW": _read_adam}
