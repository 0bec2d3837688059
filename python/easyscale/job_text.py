"""The text of a job file, and the placements of a run."""
from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .errors import UsageError

Table = Mapping[str, Any]


def toml_text(top: Table, tables: Mapping[str, Table]) -> str:
    """A TOML text with the keys `top`, and then the tables that are not empty."""
    parts = [_lines(top)]
    parts += [f"[{name}]\n{_lines(table)}" for name, table in tables.items() if table]
    return "\n".join(parts)


def _lines(table: Table) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        pairs = [f"{key} = {_value(item)}" for key, item in value.items() if item is not None]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def stages_text(stages: str | None, devices: str | None, steps: int) -> str:
    """The key `stages` of a job of `steps` global steps; empty if the scheduler decides.

    `devices` is one placement for all steps. `stages` is PLACEMENT@STEPS[,PLACEMENT@STEPS...]; the
    last one may be without its steps, and then has all that are left.

    >>> stages_text("cpu-avx512:4@20,cpu-avx2:2", None, 50)
    'cpu-avx512:4@20,cpu-avx2:2@30'
    """
    for name, value in (("stages", stages), ("devices", devices)):
        if not isinstance(value, str | None):
            raise UsageError(f"{name} = {value!r}: allowed is a text such as cpu-avx2:2")
    if stages and devices:
        raise UsageError("stages and devices: allowed is one of them")
    if devices:
        return f"{devices}@{steps}"
    if not stages:
        return ""
    *first, last = [entry.strip() for entry in stages.split(",")]
    used = sum(_steps_of(entry, stages) for entry in first)
    if "@" not in last:
        if used >= steps:
            raise UsageError(f"stages = {stages!r} has {used} steps before its last entry: allowed is "
                             f"less than {steps}, the steps of the job")
        last = f"{last}@{steps - used}"
    total = used + _steps_of(last, stages)
    if total != steps:
        raise UsageError(f"stages = {stages!r} has {total} steps: allowed is {steps}, the steps of "
                         "the job")
    return ",".join([*first, last])


def _steps_of(entry: str, stages: str) -> int:
    placement, at, count = entry.rpartition("@")
    if not at or not placement or not count.isdecimal() or int(count) == 0:
        raise UsageError(f"stages = {stages!r}: {entry!r} is not PLACEMENT@STEPS with at least one "
                         "step, for example cpu-avx2:2@20")
    return int(count)
