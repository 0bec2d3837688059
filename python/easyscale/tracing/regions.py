"""torch.utils.checkpoint: the operators that are computed again in the backward pass.

While a forward pass is traced, a checkpoint only calls its function, and puts a mark in front of the
function's operators and one behind them. A mark is an operator that returns its input; the
operators between two marks form a region.
"""
from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint
from torch.utils._pytree import tree_flatten, tree_unflatten

MARK = "easyscale.region_mark.default"

LIBRARY = torch.library.Library("easyscale", "DEF")
LIBRARY.define("region_mark(Tensor x, int region) -> Tensor")
LIBRARY.impl("region_mark", lambda x, region: x.clone(), "CompositeExplicitAutograd")
_numbers = itertools.count(1)
_inside: list[int] = []  # The region that is being traced.


def _marked(tree: Any, region: int) -> tuple[Any, bool]:
    """The arguments or results with a mark on the first tensor; whether there is one."""
    leaves, form = tree_flatten(tree)
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            leaves[i] = torch.ops.easyscale.region_mark(leaf, region)
            return tree_unflatten(leaves, form), True
    return tree, False


def run_region(function: Callable, args: tuple, kwargs: dict) -> Any:
    """What a checkpoint does under a tracer. A checkpoint inside of another one is part of it."""
    if _inside:
        return function(*args, **kwargs)
    region = next(_numbers)
    (args, kwargs), begun = _marked((args, kwargs), region)
    if not begun:
        return function(*args, **kwargs)
    _inside.append(region)
    try:
        results = function(*args, **kwargs)
    finally:
        _inside.pop()
    return _marked(results, 0)[0]


def _checkpoint(function: Callable, *args: Any, use_reentrant: Any = None, context_fn: Any = None,
                determinism_check: Any = None, debug: Any = None, **kwargs: Any) -> Any:
    from easyscale.tracing.regions import run_region  # Runs with the globals of torch.
    kwargs.pop("preserve_rng_state", None)
    return run_region(function, args, kwargs)


@contextlib.contextmanager
def marked_checkpoints() -> Iterator[None]:
    """Makes torch.utils.checkpoint.checkpoint mark regions.

    The code of the function is exchanged and not its name, because modules import it by name.
    """
    function: Any = torch.utils.checkpoint.checkpoint
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    before = function.__code__
    function.__code__ = _checkpoint.__code__
    try:
        yield
    finally:
        function.__code__ = before
