"""A model of several programs, one for each length bucket."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ..captured import Captured
from ..data.bucket_lengths import Size
from ..program import FORMAT_WITH_PROGRAMS, Program
from .errors import CaptureError


def joined(buckets: Iterable[tuple[Size, Callable[[], Captured]]]) -> Captured:
    """The captures of a module at the sizes of its buckets as one model.

    The first one is the model itself. Raises CaptureError for a size at which the module cannot be
    captured, or has other parameters, statistics, states, outputs or ranges of its inputs.
    """
    first: Captured | None = None
    for size, capture in buckets:
        try:
            found = capture()
            if first is None:
                first = found
                continue
            _check_same(first.program, found.program)
        except CaptureError as error:
            raise type(error)(f"in the length bucket {' x '.join(map(str, size))}: {error}") from error
        first.program.programs.append(_further(found.program))
    assert first is not None  # there is a bucket
    if first.program.programs:
        first.program.format = FORMAT_WITH_PROGRAMS
    return first


def _further(program: Program) -> Program:
    """A program without what a file has once, for the model itself."""
    parameters = [replace(x, aliases=[], init=None) for x in program.parameters]
    return replace(program, parameters=parameters, buffers=[])


def _check_same(first: Program, other: Program) -> None:
    for what, of in _SHARED.items():
        wanted, found = set(of(first)), set(of(other))
        if wanted != found:
            one = sorted(map(str, wanted ^ found))[0]
            raise CaptureError(f"the model has other {what} than in the largest bucket, such as {one}: "
                               "allowed is a model in which only the extents of values depend on the "
                               "length")


def _shapes(program: Program, items: Iterable[Any]) -> list[tuple[Any, ...]]:
    return [(x.name, getattr(x, "trainable", None), str(program.values[x.value])) for x in items]


_SHARED: dict[str, Callable[[Program], Iterable[Any]]] = {
    "parameters": lambda x: _shapes(x, x.parameters),
    "statistics": lambda x: [(y.name, y.size, y.is_variance) for y in x.statistics],
    "states": lambda x: _shapes(x, x.states),
    "outputs": lambda x: [y.name for y in x.outputs],
    "inputs or ranges of inputs": lambda x: [
        (y.name, x.values[y.value].type, y.low, y.high) for y in x.inputs]}
