"""Optimizers, from torch objects or from plain values.

    es.Optimizer("adamw", learning_rate=1e-3)
    torch.optim.AdamW(model.parameters(), lr=1e-3)

The engine has SGD, Adam and AdamW. Every other optimizer of torch, also a class of the user's own, is
captured as a model is (tracing/updates). Nothing here imports torch; a torch object is recognised by
the names of its classes.
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
class ClipGroup:
    """A table [[optimizer.clip_groups]] of a job file (docs/JOB-FILE.md), with the same keys."""

    parameters: Sequence[str]  # names of the state dict; "*" stands for any characters
    clip_norm: float  # the largest norm of their gradient; 0 for no clipping

    def __post_init__(self) -> None:
        if isinstance(self.parameters, str):
            raise UsageError(f"parameters = {self.parameters!r}: allowed is a list of names")
        object.__setattr__(self, "parameters", tuple(self.parameters))
        check_table(self, "optimizer.clip_groups")


@dataclass(frozen=True)
class Optimizer:
    """The table [optimizer] of a job file (docs/JOB-FILE.md), with the same keys."""

    kind: str = "sgd"  # sgd, adam, adamw; captured is what a job makes of other optimizers of torch
    learning_rate: float = 0.1
    momentum: float = 0.0
    nesterov: bool = False
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    clip_norm: float = 0.0  # the largest norm of the gradient of what no clip group names; 0: no clipping
    clip_groups: Sequence[ClipGroup] = ()  # a parameter belongs to the first one that names it
    ema: float = 0.0  # decay of a moving average of the parameters; 0 for none
    groups: Sequence[ParameterGroup] = ()  # a parameter belongs to the first one that names it

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip_groups", tuple(self.clip_groups))
        object.__setattr__(self, "groups", tuple(self.groups))
        check_table(self, "optimizer")
        if self.nesterov and (self.kind != "sgd" or self.momentum == 0):
            raise UsageError("nesterov = True: allowed with kind sgd and a momentum above 0")


class NotBuiltIn(UsageError):
    """The engine's own kinds of optimizers and schedules do not have it, but a captured optimizer has."""


CAPTURED = "captured"


def read_optimizer(given: Any, parameters: Iterable[tuple[str, Any]] | None,
                   scheduled: bool = False, captured: bool = False) -> Optimizer:
    """The optimizer of a job: `given` is an Optimizer, or a torch optimizer, or a list of those.

    `parameters` are those of the model and its loss with their names in the model file; the torch
    optimizers must have all that need a gradient. Without them, for a captured model, only an
    Optimizer is allowed.
    `scheduled`: a torch scheduler has already changed the learning rate, so the initial one counts.
    What has the kind "captured" is to be captured, which `captured` asks of every optimizer.
    """
    if isinstance(given, Optimizer):
        if given.kind == CAPTURED:
            raise UsageError("kind = 'captured': allowed is sgd, adam or adamw; an optimizer of torch is "
                             "captured if it is passed itself")
        return given
    name, parts = class_name(given), listed(given)
    if parameters is None:
        raise UsageError(f"optimizer {name}: allowed for a captured model is easyscale.Optimizer")
    if not parts or not all(map(_is_optimizer, parts)):
        raise UsageError(f"optimizer {name}: allowed are optimizers of torch.optim, classes that are "
                         "derived from torch.optim.Optimizer, lists of those, and easyscale.Optimizer")
    known = list(parameters)
    groups = [group for part in parts for group in part.param_groups]
    _check_no_others(name, groups, {id(parameter) for _, parameter in known})
    names = {id(parameter): full for full, parameter in reversed(known) if parameter.requires_grad}
    _check_parameters(name, groups, names)
    _check_disjoint(name, parts, names)
    _check_owners(name, parts, known)
    for group in groups:
        _check_rate(name, group, scheduled)
    if captured or len(parts) > 1:
        return _captured(parts[0])
    try:
        return _built_in(name, parts[0], names)
    except NotBuiltIn:
        return _captured(parts[0])


def _is_optimizer(given: Any) -> bool:
    return any(base.__name__ == "Optimizer" and base.__module__ == "torch.optim.optimizer"
               for base in type(given).__mro__)


def _built_in(name: str, given: Any, names: dict[int, str]) -> Optimizer:
    """One of the engine's own kinds. Raises NotBuiltIn."""
    reader = _READERS.get(name)
    hooks = given._optimizer_step_pre_hooks or given._optimizer_step_post_hooks
    if reader is None or not is_of_torch(given, "torch.optim") or hooks:
        raise NotBuiltIn(name)
    if given.state:
        raise NotBuiltIn(f"the state of {name}")
    settings = [_settings(name, group) for group in given.param_groups]
    _check_settings(settings)
    # Factors are relative to the rate of this group.
    base = next((group for group in settings if group["lr"] > 0), settings[0])
    return replace(reader(name, base), groups=_own_groups(name, given.param_groups, settings, base,
                                                          names))


def _captured(given: Any) -> Optimizer:
    """What the job file says of an optimizer that is captured: the first rate, for those who read it."""
    group = given.param_groups[0]
    rate = float(group.get("initial_lr", group.get("lr", 0.0)))
    return Optimizer(CAPTURED, rate if 0 <= rate <= 10**6 else 0.0)


def is_average(given: Any) -> bool:
    """Whether it is an AveragedModel of torch."""
    return any(base.__name__ == "AveragedModel" and base.__module__ == "torch.optim.swa_utils"
               for base in type(given).__mro__)


def check_average(average: Any, model: Any) -> None:
    """Raises UsageError for an AveragedModel that a job cannot continue."""
    own = [(name, tuple(p.shape)) for name, p in average.module.named_parameters()]
    if not hasattr(model, "named_parameters") or own != [(name, tuple(p.shape))
                                                         for name, p in model.named_parameters()]:
        raise UsageError("ema: the AveragedModel has other parameters than the model: allowed is that of "
                         "the model of the job")
    if int(average.n_averaged) > 0:
        raise UsageError(f"ema: the AveragedModel has averages of {int(average.n_averaged)} steps: allowed "
                         "is a new one")
    if average.use_buffers:
        raise UsageError("ema: the AveragedModel has use_buffers=True: allowed is False; statistics of the "
                         "model are not averaged")


def listed(given: Any) -> list[Any]:
    """The items of a list or tuple, or the only one."""
    return list(given) if isinstance(given, (list, tuple)) else [given]


def class_name(given: Any) -> str:
    """The name of a class, or those of several in a list."""
    return " and ".join(type(x).__name__ for x in listed(given)) or "[]"


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
    missing = [full for key, full in names.items() if key not in known]
    if missing:
        raise UsageError(f"optimizer {name} has not all parameters of the model and its loss "
                         f"that need a gradient: {len(missing)} are missing ({some(sorted(missing))}); "
                         "call requires_grad_(False) for what is not to be trained")


def _check_disjoint(name: str, parts: list[Any], names: dict[int, str]) -> None:
    owners = [{id(parameter) for group in part.param_groups for parameter in group["params"]}
              for part in parts]
    shared = sorted(full for key, full in names.items() if sum(key in own for own in owners) > 1)
    if shared:
        raise UsageError(f"optimizer {name}: {len(shared)} parameters are in more than one of them "
                         f"({some(shared)}): allowed is one for each parameter")


def _check_owners(name: str, parts: list[Any], known: list[tuple[str, Any]]) -> None:
    owners = {id(parameter) for part in parts for parameter, state in part.state.items() if state}
    frozen = sorted(full for full, parameter in known
                    if id(parameter) in owners and not parameter.requires_grad)
    if frozen:
        raise UsageError(f"optimizer {name} has states of {len(frozen)} parameters that are not trained "
                         f"({some(frozen)}): remove them from optimizer.state, or call requires_grad_()")


def some(names: list[str]) -> str:
    """The first ones of names, for an error."""
    return ", ".join(names[:4]) + (" ..." if len(names) > 4 else "")


# What the groups of parameters may have of their own.
OWN_SETTINGS = ("lr", "weight_decay")


def _check_settings(settings: list[dict[str, Any]]) -> None:
    """Raises NotBuiltIn unless the groups agree in what cannot be their own."""
    first = settings[0]
    for other in settings:
        if any(option not in OWN_SETTINGS and other.get(option) != value
               for option, value in first.items()):
            raise NotBuiltIn("groups with settings of their own")


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


def _check_rate(name: str, group: dict[str, Any], scheduled: bool) -> None:
    rate = float(group.get("lr", 0.0))
    initial = float(group.get("initial_lr", rate))
    if initial != rate and not scheduled:
        raise UsageError(f"optimizer {name}: a scheduler has changed the learning rate from "
                         f"{initial} to {rate}; pass that scheduler as schedule=")


def _settings(name: str, group: dict[str, Any]) -> dict[str, Any]:
    if group.get("maximize") or group.get("amsgrad"):
        raise NotBuiltIn(name)
    others = {key: value for key, value in group.items() if key not in NO_SETTINGS}
    return {"lr": float(group.get("initial_lr", group["lr"])), **others}


def _read_sgd(name: str, group: dict[str, Any]) -> Optimizer:
    momentum = float(group["momentum"])
    if momentum and group["dampening"]:
        raise NotBuiltIn("dampening")
    return Optimizer("sgd", group["lr"], momentum, bool(group["nesterov"]),
                     weight_decay=float(group["weight_decay"]))


def _read_adam(name: str, group: dict[str, Any]) -> Optimizer:
    beta1, beta2 = (float(beta) for beta in group["betas"])
    decoupled = name == "AdamW" or group.get("decoupled_weight_decay", False)
    return Optimizer("adamw" if decoupled else "adam", group["lr"], beta1=beta1, beta2=beta2,
                     epsilon=float(group["eps"]), weight_decay=float(group["weight_decay"]))


_READERS = {"SGD": _read_sgd, "Adam": _read_adam, "AdamW": _read_adam}
