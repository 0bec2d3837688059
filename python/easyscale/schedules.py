"""Schedules of the learning rate, from torch schedulers or from plain values.

Some schedulers have a closed form that the engine has too. Any other one that depends on nothing
but the number of steps is called once for every step of the job, and its rates become points.
Nothing here imports torch; a scheduler is recognised by the names of its classes.
"""
from __future__ import annotations

import copy
import math
import operator
import types
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .errors import UsageError
from .optimizers import (CAPTURED, NotBuiltIn, Optimizer, class_name, is_of_torch, listed,
                         read_optimizer)
from .settings import FACTOR_MAX, check_table


@dataclass(frozen=True)
class Schedule:
    """The table [schedule] of a job file; steps are global steps."""

    kind: str = "constant"  # constant, step, cosine, linear, points, plateau
    step_size: int = 0
    gamma: float = 0.1
    floor: float = 0.0  # cosine, linear: the share of the learning rate at the end
    warmup_steps: int = 0
    # points: (step, factor of the learning rate), linear between them, and constant behind the last
    points: Sequence[tuple[int, float]] = ()
    # (step, momentum of sgd, or beta1 of adam and adamw); () for that of the optimizer
    momentum_points: Sequence[tuple[int, float]] = ()
    # plateau: the rate is multiplied by gamma after more than `patience` evaluations in a row without
    # a better value of the metric, as by torch's ReduceLROnPlateau
    metric: str = "loss"
    patience: int = 10
    threshold: float = 1e-4
    threshold_mode: str = "rel"  # rel, abs
    cooldown: int = 0
    min_rate: float = 0.0
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        check_table(self, "schedule", without=[] if self.kind == "step" else ["step_size"])
        for name in ("points", "momentum_points"):
            object.__setattr__(self, name, _checked_points(name, getattr(self, name)))
        if bool(self.points) != (self.kind == "points"):
            raise UsageError(f"points = {list(self.points)}: allowed is at least one point with kind "
                             "points, and none with others")

    def reductions(self, steps: int, eval_every: int) -> int:
        """How often the evaluations of a job can lower the rate, at least once."""
        if self.kind != "plateau":
            return 0
        return max(1, (steps - 1) // max(1, eval_every) // (self.patience + 1))

    def table(self) -> dict[str, Any]:
        """The keys of the table that say something for this kind."""
        keys = {"step": ["step_size", "gamma"], "cosine": ["floor"], "linear": ["floor"],
                "plateau": ["gamma", "metric", "patience", "threshold", "threshold_mode", "cooldown",
                            "min_rate", "epsilon"]}
        found = {key: getattr(self, key) for key in ("kind", *keys.get(self.kind, []), "warmup_steps")}
        texts = {name: ",".join(f"{step}:{value!r}" for step, value in getattr(self, name))
                 for name in ("points", "momentum_points")}
        return found | {name: text for name, text in texts.items() if text}


def _checked_points(name: str, points: Any) -> tuple[tuple[int, float], ...]:
    """The points as plain numbers; `esctl` checks their ranges."""
    try:
        found = tuple((operator.index(step), float(value)) for step, value in points)
    except (TypeError, ValueError):
        raise UsageError(f"{name} = {points!r}: allowed is a list of (step, number)") from None
    steps = [step for step, _ in found]
    if steps and (steps[0] != 0 or any(b <= a for a, b in zip(steps, steps[1:]))):
        raise UsageError(f"{name} = {list(found)[:4]}...: allowed are rising steps from 0")
    return found


ALLOWED_SCHEDULES = ("allowed are easyscale.Schedule, ReduceLROnPlateau, and schedulers of "
                     "torch.optim.lr_scheduler that depend on nothing but the number of steps")
PLATEAU = "ReduceLROnPlateau"
# The error that an interpolated factor may have, of the largest factor and of its own value. The
# rates are rounded to fp32, so a part of them differs by the last place anyway.
TOLERANCE, OWN_TOLERANCE = 1e-6, 1e-3
POINTS_MAX = 2500  # their text must fit into a job file


def read_schedule(given: Any, steps: int, epoch_steps: int | None = None) -> Schedule:
    """The schedule of a job with this number of global steps; None means a constant rate.

    `given` is a Schedule, or a torch scheduler whose unit is the global step, or epochs of
    `epoch_steps` global steps.
    """
    if given is None:
        return Schedule()
    if isinstance(given, Schedule):
        if epoch_steps is not None:
            raise UsageError("schedule_unit = 'epoch': allowed is a torch scheduler as schedule")
        return given
    check_scheduler(given, steps, epoch_steps)
    if steps_made(given):
        raise NotBuiltIn(f"schedule {class_name(given)} has made steps: allowed is a new one with "
                         "easyscale.Optimizer")
    if epoch_steps is not None:
        return _called(given, steps, epoch_steps)
    of_torch = is_of_torch(given, "torch.optim.lr_scheduler")
    reader = _SCHEDULES.get(class_name(given)) if of_torch else None
    return (reader and reader(given, steps)) or _called(given, steps, 1)


def is_plateau(schedule: Any) -> bool:
    """Whether this is torch's scheduler that looks at evaluations, or a list with one."""
    return any(class_name(x) == PLATEAU and _is_scheduler(x) for x in schedulers_of(schedule))


def _read_plateau(given: Any, epoch_steps: int | None, metrics: Sequence[str]) -> Schedule:
    """Of a scheduler that looks for the least value, the metric is the loss; otherwise it is the main
    metric of the job."""
    if epoch_steps is not None:
        raise UsageError(f"schedule_unit = 'epoch' with {PLATEAU}: allowed is 'step'; the scheduler is "
                         "called after every evaluation, so give their distance as eval_every")
    if steps_made(given) or given.num_bad_epochs or given.cooldown_counter:
        raise UsageError(f"schedule {PLATEAU} has made steps: allowed is a new one")
    metric = "loss" if given.mode == "min" else (*metrics, "accuracy")[0]
    return Schedule("plateau", gamma=float(given.factor), metric=metric, patience=given.patience,
                    threshold=given.threshold, threshold_mode=given.threshold_mode,
                    cooldown=given.cooldown, min_rate=given.min_lrs[0], epsilon=given.eps)


def read_rules(optimizer: Any, schedule: Any, parameters: list[tuple[str, Any]] | None, steps: int,
               epoch_steps: int | None, captured: bool = False,
               metrics: Sequence[str] = ()) -> tuple[Optimizer, Schedule]:
    """The optimizer and the schedule of a job. If the engine's own kinds do not have both together, the
    optimizer has the kind "captured", and the schedule is part of what is captured. `captured` asks for
    this kind. `metrics` are those of the job."""
    schedulers = schedulers_of(schedule)
    scheduled = bool(schedulers)
    rule = read_optimizer(optimizer, parameters, scheduled, captured)
    plateau = next(filter(is_plateau, schedulers), None)
    if plateau is not None:
        found = _read_plateau(plateau, epoch_steps, metrics)
        others = [x for x in schedulers if x is not plateau]
        if rule.kind == CAPTURED or others or len(set(plateau.min_lrs)) > 1:
            rule = _captured_with(plateau, others, optimizer, parameters, steps)
        return rule, found
    if rule.kind != CAPTURED:
        try:
            if len(schedulers) > 1:
                raise NotBuiltIn(f"schedule {class_name(schedule)}: allowed is one for easyscale.Optimizer")
            return rule, read_schedule(schedulers[0] if scheduled else None, steps, epoch_steps)
        except NotBuiltIn as error:
            if isinstance(optimizer, Optimizer):
                raise UsageError(str(error)) from None
            rule = read_optimizer(optimizer, parameters, scheduled, captured=True)
    for scheduler in schedulers:
        if isinstance(scheduler, Schedule):
            raise UsageError(f"schedule: allowed is a torch scheduler with {class_name(optimizer)}, which "
                             "is captured together with it")
        check_scheduler(scheduler, steps, epoch_steps)
    if epoch_steps is not None and not scheduled:
        raise UsageError("schedule_unit = 'epoch': allowed is a torch scheduler as schedule")
    return rule, Schedule()


def _captured_with(plateau: Any, others: list[Any], optimizer: Any,
                   parameters: list[tuple[str, Any]] | None, steps: int) -> Optimizer:
    """A captured optimizer whose rates evaluations lower, and that may have schedulers for others."""
    if isinstance(optimizer, Optimizer):
        raise UsageError(f"schedule {PLATEAU} with another scheduler, or with a min_lr for each group: allowed "
                         "with an optimizer of torch, which is captured then")
    for scheduler in others:
        if isinstance(scheduler, Schedule) or is_plateau(scheduler) or (
                scheduler.optimizer is plateau.optimizer):
            raise UsageError(f"schedule {PLATEAU} and {class_name(scheduler)}: allowed is one {PLATEAU}, and for "
                             "other optimizers of a list schedulers that depend on the number of steps alone")
        check_scheduler(scheduler, steps, None)
    return read_optimizer(optimizer, parameters, True, captured=True)


def schedulers_of(schedule: Any) -> list[Any]:
    """The schedulers of a job, which may be a list with None for optimizers without one."""
    return [x for x in listed(schedule) if x is not None]


def check_scheduler(given: Any, steps: int, epoch_steps: int | None) -> None:
    """Raises UsageError unless `given` is a torch scheduler that depends on nothing but its steps."""
    if not _is_scheduler(given) or class_name(given) == PLATEAU:
        raise UsageError(f"schedule {class_name(given)}: {ALLOWED_SCHEDULES}")
    made = steps_made(given)
    if epoch_steps is None and class_name(given) == "CosineAnnealingLR" and given.T_max != made + steps:
        after = f" after {made} steps" if made else ""
        raise UsageError(f"schedule CosineAnnealingLR with T_max = {given.T_max}, in a job of {steps} "
                         f"global steps{after}: allowed is their number, or schedule_unit=\"epoch\" for a "
                         "T_max in epochs")


def steps_made(scheduler: Any) -> int:
    """The number of steps that a scheduler has made."""
    return max(getattr(part, "last_epoch", 0)
               for part in [scheduler, *getattr(scheduler, "_schedulers", [])])


def _is_scheduler(given: Any) -> bool:
    return any(base.__name__ == "LRScheduler" and base.__module__ == "torch.optim.lr_scheduler"
               for base in type(given).__mro__)


def _called(given: Any, steps: int, every: int) -> Schedule:
    """A schedule of points, from a copy of a scheduler that is called after every `every` steps."""
    scheduler, groups = _copy(given)
    first = [float(group.get("initial_lr", group["lr"])) for group in groups]
    if not any(first):
        raise NotBuiltIn(f"schedule {class_name(given)}: the learning rates are 0: allowed is one above "
                         "0, of which the others are multiples")
    factors, momenta = [], []
    others = _others(groups)
    for step in range(-(-steps // every)):
        if step:
            advance(scheduler, step)
            if _others(groups) != others:
                raise NotBuiltIn(f"schedule {class_name(given)} changes more than rates and momenta")
        factors.append(_common_factor(given, step, groups, first))
        momenta.append(_common_momentum(given, step, groups))
    own = max(map(abs, momenta)) if len(set(momenta)) > 1 else 0.0
    return Schedule("points", points=_points(given, factors, max(factors), every),
                    momentum_points=_points(given, momenta, own, every) if own else ())


def _copy(given: Any) -> tuple[Any, list[dict[str, Any]]]:
    """A copy of a scheduler with an optimizer of its own, and the groups of that."""
    optimizer = given.optimizer
    groups = copy.deepcopy([{key: value for key, value in group.items() if key != "params"}
                            for group in optimizer.param_groups])
    stand_in = types.SimpleNamespace(param_groups=groups, defaults=optimizer.defaults,
                                     step=lambda: None, _opt_called=True)
    return copy.deepcopy(given, {id(optimizer): stand_in}), groups


# What a schedule of points has, or what schedulers note for themselves.
CHANGED = ("lr", "momentum", "betas", "initial_lr", "max_lr", "min_lr", "max_momentum",
           "base_momentum")


def _others(groups: list[dict[str, Any]]) -> list[Any]:
    """The settings that a schedule of points does not change."""
    return [[{key: value for key, value in group.items() if key not in CHANGED},
             tuple(group.get("betas", ()))[1:]] for group in groups]


def advance(scheduler: Any, step: int) -> None:
    """Calls a scheduler for a step. Raises UsageError if it fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that no step of the optimizer came before
            scheduler.step()
    except Exception as error:  # a scheduler may raise anything
        raise UsageError(f"schedule {class_name(scheduler)} fails when it is called for the step "
                         f"{step}, with {type(error).__name__}: {error}") from None


def _common_factor(given: Any, step: int, groups: list[dict[str, Any]], first: list[float]) -> float:
    """The factor of the first rates in a step, which must be one for all groups."""
    found = [float(group["lr"]) / rate for group, rate in zip(groups, first) if rate]
    still = all(float(group["lr"]) == 0 for group, rate in zip(groups, first) if not rate)
    if not still or max(found) - min(found) > 1e-9 * max(map(abs, found)):
        raise NotBuiltIn(f"schedule {class_name(given)} changes the groups of parameters in different "
                         f"ways (in the step {step} to {[float(group['lr']) for group in groups]}, from "
                         f"{first}): allowed is one factor for all")
    if not 0 <= found[0] <= FACTOR_MAX:
        raise NotBuiltIn(f"schedule {class_name(given)} has the learning rate "
                         f"{float(groups[0]['lr'])} in the step {step}: allowed is 0 to {FACTOR_MAX} "
                         "times the first one")
    return found[0]


def _common_momentum(given: Any, step: int, groups: list[dict[str, Any]]) -> float:
    """The momentum or beta1 in a step, which must be one for all groups."""
    found = [float(group["betas"][0] if "betas" in group else group["momentum"]) for group in groups]
    if len(set(found)) > 1:
        raise NotBuiltIn(f"schedule {class_name(given)} gives the groups of parameters the momenta "
                         f"{found} in the step {step}: allowed is one for all")
    return found[0]


def _points(given: Any, values: list[float], largest: float, every: int) -> list[tuple[int, float]]:
    """Points at steps, of one value for every call of a scheduler."""
    if every == 1:
        places = _kept(values, largest)
        found = [(place, values[place]) for place in places]
    else:  # the values are constant between the calls
        changes = [i for i, value in enumerate(values) if i == 0 or value != values[i - 1]]
        found = [(0, values[0])]
        for i in changes[1:]:
            found += [(i * every - 1, values[i - 1])] * (found[-1][0] < i * every - 1)
            found += [(i * every, values[i])]
    if len(found) > POINTS_MAX:
        raise NotBuiltIn(f"schedule {class_name(given)} needs {len(found)} points with lines between "
                         f"them: allowed are {POINTS_MAX}")
    return found


def _kept(values: list[float], largest: float) -> list[int]:
    """Places of which lines from one to the next are close to all values."""
    places, anchor, last = [0], 0, 0
    low, high = -math.inf, math.inf
    for place in range(1, len(values)):
        run = place - anchor
        slope = (values[place] - values[anchor]) / run
        if not low <= slope <= high:
            places.append(last)
            anchor, low, high = last, -math.inf, math.inf
            run, slope = place - anchor, (values[place] - values[anchor]) / (place - anchor)
        allowed = min(TOLERANCE * largest, OWN_TOLERANCE * abs(values[place])) / run
        low, high, last = max(low, slope - allowed), min(high, slope + allowed), place
    return places if last == anchor else [*places, last]


def _read_step(given: Any, steps: int) -> Schedule:
    return Schedule("step", step_size=int(given.step_size), gamma=float(given.gamma))


def _read_exponential(given: Any, steps: int) -> Schedule:
    return Schedule("step", step_size=1, gamma=float(given.gamma))


def _read_cosine(given: Any, steps: int) -> Schedule | None:
    rates = set(given.base_lrs)
    if given.T_max != steps or given.eta_min < 0 or (
            given.eta_min > 0 and (len(rates) > 1 or given.eta_min > max(rates))):
        return None
    return Schedule("cosine", floor=given.eta_min / max(rates) if given.eta_min else 0.0)


def _warmup(given: Any) -> int | None:
    """The steps of a warm-up from 1/W to 1, or None if the scheduler is something else."""
    if class_name(given) != "LinearLR" or given.end_factor != 1:
        return None
    warmup = given.total_iters + 1
    return warmup if abs(given.start_factor * warmup - 1) < 1e-9 else None


def _is_linear_fall(given: Any, steps: int) -> bool:
    return (class_name(given) == "LinearLR" and 0 <= given.end_factor <= 1
            and (given.start_factor, given.total_iters) == (1, steps))


def _read_linear(given: Any, steps: int) -> Schedule | None:
    warmup = _warmup(given)
    if warmup is not None:
        return Schedule(warmup_steps=warmup)
    return Schedule("linear", floor=float(given.end_factor)) if _is_linear_fall(given, steps) else None


def _read_chained(given: Any, steps: int) -> Schedule | None:
    parts = given._schedulers
    warmups = [warmup for part in parts if (warmup := _warmup(part)) is not None]
    others = [part for part in parts if _warmup(part) is None]
    if len(warmups) != 1 or len(others) != 1 or class_name(others[0]) not in _FACTORS:
        return None
    base = _FACTORS[class_name(others[0])](others[0], steps)
    # With an eta_min torch computes its rates from the rate before, which the warm-up has changed.
    return replace(base, warmup_steps=warmups[0]) if base and base.floor == 0 else None


def _read_sequential(given: Any, steps: int) -> Schedule | None:
    parts, milestones = given._schedulers, list(given._milestones)
    warmup = _warmup(parts[0])
    if len(parts) != 2 or warmup is None or milestones != [warmup]:
        return None
    after = parts[1]
    if not _is_linear_fall(after, steps - warmup):
        return None
    return Schedule("linear", floor=float(after.end_factor), warmup_steps=warmup)


_FACTORS = {"StepLR": _read_step, "ExponentialLR": _read_exponential,
            "CosineAnnealingLR": _read_cosine}
_SCHEDULES = {**_FACTORS, "LinearLR": _read_linear, "ChainedScheduler": _read_chained,
              "SequentialLR": _read_sequential}
