"""What evaluations decide: when a job stops, which version is kept, and by which metric."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .data import Arrays, Table
from .errors import UsageError
from .schedules import Schedule
from .settings import check_table


@dataclass(frozen=True)
class EarlyStopping:
    """The table [stop] of a job file: the job ends after `patience` evaluations in a row in which the
    metric was not better than its best value by more than `min_delta`."""

    metric: str = "loss"
    patience: int = 10
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        check_table(self, "stop")


def check_decisions(schedule: Schedule, stop: Any, keep_best: Any, *, eval_every: int, data: Any,
                    eval_data: Any, metrics: Sequence[str], metric: Any) -> None:
    """Raises UsageError if a decision has no evaluation, or names a metric that these do not have.
    `metrics` are the names of the job, and `metric` is its function."""
    if not isinstance(stop, EarlyStopping | None):
        raise UsageError(f"stop = {stop!r}: allowed is easyscale.EarlyStopping(...) or None")
    used = {"schedule": schedule.metric if schedule.kind == "plateau" else None,
            "stop": stop.metric if stop else None, "keep_best": keep_best}
    for argument, name in used.items():
        if name is None:
            continue
        if eval_every == 0:
            raise UsageError(f"eval_every = 0: allowed is at least 1 with {argument}, which decides by "
                             "evaluations")
        if eval_data is None and type(data) in (Arrays, Table):
            raise UsageError(f"eval_data is None: allowed are samples for the evaluations by which "
                             f"{argument} decides")
        _check_metric(argument, name, metrics, metric)


def _check_metric(argument: str, name: Any, metrics: Sequence[str], function: Any) -> None:
    known = ["loss", *(metrics or ["accuracy"])]
    if name in known or (not metrics and name == "perplexity"):
        return
    why = ""
    if function is not None:
        why = (f"; the function {getattr(function, '__name__', 'metric')} is called in this process, after "
               "the steps, and cannot decide")
    raise UsageError(f"{argument}: the metric is {name!r}: allowed are {', '.join(known)}, those that the "
                     f"job computes{why}")
