"""Assertions about the contents of tensors, which a captured model takes as true.

`assert ok` and `if bad: raise ...` compute nothing: if they hold, the model is the same without
them, and if not, PyTorch computes nothing either. A tracer knows no contents, so it cannot evaluate
them. The example is checked all the same, because the module itself computes it beside the capture.
A branch for infinite numbers and NaN (`if torch.isinf(x).any(): x = x.clamp(...)`) is not taken: a
job that computes such a number ends with an error.
"""
from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch


@contextlib.contextmanager
def assumed_assertions(truth: Callable[[Any], bool | None]) -> Iterator[None]:
    """In this block a tensor of a tracer is what an assertion wants it to be.

    `truth` returns the truth of a tensor whose content is known, and None for others.
    """
    with contextlib.ExitStack() as stack:
        for owner in (torch.Tensor, torch.SymBool):
            stack.enter_context(overridden(owner, "__bool__", _truth_of(owner.__bool__, truth)))
        call = torch.jit.ScriptFunction.__call__
        stack.enter_context(overridden(torch.jit.ScriptFunction, "__call__", _python_of(call)))
        yield


@contextlib.contextmanager
def overridden(owner: Any, name: str, replacement: Callable) -> Iterator[None]:
    """Overrides an attribute that a class or module has or inherits."""
    own = vars(owner).get(name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def _truth_of(real: Callable, known_truth: Callable[[Any], bool | None]) -> Callable:
    def truth(value: Any) -> bool:
        if type(value) is not torch.Tensor:  # a value of the tracer
            known = known_truth(value)
            if known is not None:
                return known
            wanted = _asserted_truth(sys._getframe(1))
            if wanted is not None:
                return wanted
        return real(value)
    return truth


def _python_of(call: Callable) -> Callable:
    """A function of TorchScript hides its constants from a tracer, so its Python is called."""
    def run(function: Any, *args: Any, **kwargs: Any) -> Any:
        original = getattr(function, "_torchdynamo_inline", None)
        if original is None:
            return call(function, *args, **kwargs)
        return original(*args, **kwargs)
    return run


def _asserted_truth(frame: FrameType) -> bool | None:
    """What a condition that a frame evaluates now must be, so that an assertion holds.

    None if it belongs to no assertion, or to one that wants different answers of its parts.
    """
    # The span of the running instruction: several statements may stand on one line.
    positions = frame.f_code.co_positions()
    line, end_line, column, end_column = next(
        itertools.islice(positions, frame.f_lasti // 2, None))
    if None in (line, end_line, column, end_column):
        return None
    for found in _assertions(frame.f_code.co_filename):
        if found.begin <= (line, column) and (end_line, end_column) <= found.end:
            answers = _answers(found.condition, found.holds)
            return answers.pop() if len(answers) == 1 else None
    return None


@dataclass(frozen=True)
class _Assertion:
    """Where an assertion is evaluated, its condition, and whether this must be true or false."""

    begin: tuple[int, int]  # line, column
    end: tuple[int, int]
    condition: ast.expr
    holds: bool


def _assertion(node: ast.AST) -> _Assertion | None:
    """The assertion that a statement is."""
    if isinstance(node, ast.Assert):
        place, holds = node, True  # its jumps belong to the statement in some versions of Python
    elif isinstance(node, ast.If) and not node.orelse and isinstance(node.body[0], ast.Raise):
        place, holds = node, False
    elif isinstance(node, ast.If) and _finds_overflow(node.test):
        place, holds = node.test if node.orelse else node, False
    else:
        return None
    if _computes(node.test):
        return None
    end = (place.end_lineno or place.lineno, place.end_col_offset or place.col_offset)
    return _Assertion((place.lineno, place.col_offset), end, node.test, holds)


@functools.cache
def _assertions(path: str) -> list[_Assertion]:
    """The assertions of a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return []
    return list(_found(tree))


def _found(tree: ast.AST) -> Iterator[_Assertion]:
    """Assertions below a node, but not those of a `try` that catches what they raise."""
    for node in ast.iter_child_nodes(tree):
        found = _assertion(node)
        if found is not None:
            yield found
        if isinstance(node, ast.Try) and node.handlers:
            for part in [*node.handlers, *node.orelse, *node.finalbody]:
                yield from _found(part)
        else:
            yield from _found(node)


def _finds_overflow(condition: ast.expr) -> bool:
    """Whether a condition is true only for infinite numbers and NaN, with which a job ends anyway."""
    if isinstance(condition, ast.BoolOp):
        parts = [part for part in condition.values if not _names(part) & {"dtype", "training"}]
        return bool(parts) and all(map(_finds_overflow, parts))
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        return "isfinite" in _names(condition.operand) and "all" in _names(condition.operand)
    return bool(_names(condition) & {"isinf", "isnan"}) and "any" in _names(condition)


def _names(tree: ast.AST) -> set[str]:
    return {node.attr if isinstance(node, ast.Attribute) else node.id for node in ast.walk(tree)
            if isinstance(node, (ast.Attribute, ast.Name))}


def _computes(condition: ast.expr) -> bool:
    """True if a condition chooses or keeps a value, so that its parts decide more than itself."""
    return any(isinstance(node, (ast.IfExp, ast.NamedExpr, ast.Lambda))
               or isinstance(node, ast.comprehension) and bool(node.ifs)
               for node in ast.walk(condition))


def _answers(condition: ast.expr, holds: bool) -> set[bool]:
    """The answers that the parts of a condition must give."""
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        return _answers(condition.operand, not holds)
    if isinstance(condition, ast.BoolOp):
        return set().union(*(_answers(part, holds) for part in condition.values))
    return {holds}
