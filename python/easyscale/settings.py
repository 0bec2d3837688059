"""The values that the fields of a job file take, checked before a model is captured.

`esctl` checks every field of a job file. These are the fields that have an argument of their own in
this package, so that a wrong value is refused at once, by the name of its argument. A test compares
the ranges with those that `esctl fields` prints.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from .errors import UsageError


@dataclass(frozen=True)
class Number:
    """A range of numbers; `whole` are integers, and a limit may itself be left out."""

    low: int
    high: int
    whole: bool = False
    above: bool = False  # low is not allowed
    below: bool = False  # high is not allowed

    def read(self, value: Any) -> Any:
        """The value as an int or a float; None if it is not allowed."""
        if isinstance(value, (bool, str, bytes)):
            return None
        try:
            number = operator.index(value) if self.whole else float(value)
        except (TypeError, ValueError):
            return None
        inside = (self.low < number if self.above else self.low <= number) and (
            number < self.high if self.below else number <= self.high)
        return number if inside and math.isfinite(number) else None

    def allowed(self) -> str:
        """What is allowed, as `esctl fields` says it."""
        if self.above:
            return f"above {self.low}, at most {self.high}"
        return f"{self.low} to {'below ' if self.below else ''}{self.high}"


@dataclass(frozen=True)
class Choice:
    """One of some texts."""

    choices: Sequence[str]

    def read(self, value: Any) -> Any:
        """The value; None if it is not allowed."""
        return value if isinstance(value, str) and value in self.choices else None

    def allowed(self) -> str:
        """What is allowed, as `esctl fields` says it."""
        return ", ".join(self.choices)


class Flag:
    """True or False."""

    def read(self, value: Any) -> Any:
        """The value; None if it is not allowed."""
        return value if isinstance(value, bool) else None

    def allowed(self) -> str:
        """What is allowed."""
        return "True or False"


STEPS_MAX = 10**12
PATIENCE_MAX = 10**6  # evaluations
FACTOR_MAX = 10**6  # of a learning rate
Rule = Number | Choice | Flag
RULES: dict[str, Rule] = {
    "max_p": Number(1, 1024, whole=True),
    "batch_size": Number(1, 65_536, whole=True),
    "steps": Number(0, STEPS_MAX, whole=True),
    "epochs": Number(0, 10**6, whole=True),
    "seed": Number(0, 2**63 - 1, whole=True),
    "level": Choice(("D0", "D1", "D2", "auto")),
    "recompute": Choice(("captured", "blocks", "none")),
    "precision": Choice(("fp32", "bf16")),
    "arithmetic": Choice(("fp32", "x15", "x22")),
    "eval_every": Number(0, STEPS_MAX, whole=True),
    "resources.threads": Number(1, 256, whole=True),
    "checkpoint.every_steps": Number(0, STEPS_MAX, whole=True),
    "shard.state": Choice(("auto", "off", "on")),
    "lora.rank": Number(0, 4096, whole=True),
    "lora.alpha": Number(0, 10**6, above=True),
    "lora.dropout": Number(0, 1, below=True),
    "optimizer.kind": Choice(("sgd", "adam", "adamw", "captured")),
    "optimizer.learning_rate": Number(0, 10**6),
    "optimizer.momentum": Number(0, 1),
    "optimizer.nesterov": Flag(),
    "optimizer.beta1": Number(0, 1, below=True),
    "optimizer.beta2": Number(0, 1, below=True),
    "optimizer.epsilon": Number(0, 1, above=True),
    "optimizer.weight_decay": Number(0, 1000),
    "optimizer.clip_norm": Number(0, 10**9),
    "optimizer.clip_groups.clip_norm": Number(0, 10**9),
    "optimizer.ema": Number(0, 1, below=True),
    "optimizer.groups.learning_rate_factor": Number(0, FACTOR_MAX),
    "optimizer.groups.weight_decay": Number(0, 1000),
    "schedule.kind": Choice(("constant", "step", "cosine", "linear", "points", "plateau")),
    "schedule.step_size": Number(1, STEPS_MAX, whole=True),
    "schedule.gamma": Number(0, 1),
    "schedule.floor": Number(0, 1),
    "schedule.warmup_steps": Number(0, STEPS_MAX, whole=True),
    "schedule.patience": Number(0, PATIENCE_MAX, whole=True),
    "schedule.threshold": Number(0, 10**9),
    "schedule.threshold_mode": Choice(("rel", "abs")),
    "schedule.cooldown": Number(0, PATIENCE_MAX, whole=True),
    "schedule.min_rate": Number(0, 10**6),
    "schedule.epsilon": Number(0, 10**6),
    "stop.patience": Number(1, PATIENCE_MAX, whole=True),
    "stop.min_delta": Number(0, 10**9),
}


def checked(key: str, value: Any, name: str | None = None) -> Any:
    """The value of the field `key` of a job file, as int, float, bool or text.

    `name` is what the user calls it. Raises UsageError.
    """
    rule = RULES[key]
    found = rule.read(value)
    if found is None:
        whole = "a whole number, " if isinstance(rule, Number) and rule.whole else ""
        raise UsageError(f"{name or key.rpartition('.')[2]} = {value!r}: allowed is "
                         f"{'one of ' if isinstance(rule, Choice) else whole}{rule.allowed()}")
    return found


def check_table(settings: Any, table: str, without: Sequence[str] = ()) -> None:
    """Checks the members of a frozen dataclass whose names are keys of a table of the job file, but
    not those `without`, and replaces them with what was read. None stays. Raises UsageError."""
    for member in fields(settings):
        key, value = f"{table}.{member.name}", getattr(settings, member.name)
        if key in RULES and member.name not in without and value is not None:
            object.__setattr__(settings, member.name, checked(key, value))
