"""Clipping of the norm of gradients: of the whole one, or of groups of parameters by themselves."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .errors import UsageError
from .losses import Loss
from .optimizers import ClipGroup, Optimizer, class_name, listed
from .settings import checked

KEY = "optimizer.clip_norm"


def clipped(rule: Optimizer, clip_norm: Any, optimizer: Any, losses: Sequence[Loss] | None,
            names: Iterable[tuple[str, Any]] | None) -> Optimizer:
    """The optimizer of a job with its clipping.

    `clip_norm` is what the job was given: the limit of the whole gradient, a mapping of patterns of names to
    limits, or a list with a limit for each of several optimizers, or for each group of the only one.
    `names` are all names of the parameters, also second ones, with these; None for a captured model, whose
    parameters have no owners. Raises UsageError.
    """
    known = None if names is None else list(names)
    groups: list[ClipGroup] = []
    for place, loss in enumerate(losses or ()):
        if loss.clip_norm is not None:
            try:
                groups += _groups(loss.clip_norm, loss.optimizer, known)
            except UsageError as error:
                raise UsageError(f"losses[{place}]: {error}") from None
    if isinstance(clip_norm, Mapping):
        for pattern, limit in clip_norm.items():
            if not isinstance(pattern, str):
                raise UsageError(f"clip_norm: the name {pattern!r} is no text: allowed are names of parameters, "
                                 "with \"*\" for any characters")
            groups.append(ClipGroup([pattern], limit))
        whole = 0.0
    elif isinstance(clip_norm, (list, tuple)):
        if losses is not None:
            raise UsageError(f"clip_norm = {clip_norm!r}: allowed with losses is a number or a dict; a Loss has "
                             "a clip_norm of its own")
        groups += _groups(clip_norm, optimizer, known)
        whole = 0.0
    else:
        whole = checked(KEY, clip_norm)
    return replace(rule, clip_norm=whole or rule.clip_norm, clip_groups=(*groups, *rule.clip_groups))


def _groups(limits: Any, optimizer: Any, names: list[tuple[str, Any]] | None) -> list[ClipGroup]:
    """The groups of what optimizers own. `limits`: one for all of it, or one for each of several optimizers,
    or for each group of the only one."""
    if names is None or isinstance(optimizer, Optimizer):
        raise UsageError(f"clip_norm = {limits!r}: allowed is a number, or a dict of patterns of names; a list "
                         "has a limit for each of several optimizers of torch, or for each group of one")
    parts = listed(optimizer)
    owned = [[p for group in part.param_groups for p in group["params"]] for part in parts]
    what = "optimizers"
    if len(parts) == 1 and isinstance(limits, (list, tuple)):
        owned, what = [group["params"] for group in parts[0].param_groups], "groups"
    if not isinstance(limits, (list, tuple)):
        owned, limits = [[p for own in owned for p in own]], [limits]
    if len(limits) != len(owned):
        raise UsageError(f"clip_norm = {limits!r} has {len(limits)} limits: allowed is one for each of the "
                         f"{len(owned)} {what} of {class_name(optimizer)}")
    found = [(patterns({id(p) for p in own if p.requires_grad}, names), checked(KEY, limit))
             for own, limit in zip(owned, limits)]
    return [ClipGroup(own, limit) for own, limit in found if own]


def patterns(own: set[int], names: Sequence[tuple[str, Any]]) -> list[str]:
    """Patterns that name these parameters and no others: of whole modules, as far as they are in it.

    >>> a, b, c = object(), object(), object()
    >>> patterns({id(a), id(b)}, [("net.x", a), ("net.y", b), ("out", c)])
    ['net.*']
    """
    return _patterns("", own, [(name, id(parameter)) for name, parameter in names])


def _patterns(prefix: str, own: set[int], names: Sequence[tuple[str, int]]) -> list[str]:
    inside = [key in own for _, key in names]
    if not any(inside):
        return []
    if all(inside) and (not prefix or len(names) > 1):
        return [f"{prefix}*"]
    parts: dict[str, list[tuple[str, int]]] = {}
    for name, key in names:
        head, dot, _ = name[len(prefix):].partition(".")
        parts.setdefault(f"{prefix}{head}{dot}", []).append((name, key))
    found: list[str] = []
    for part, members in parts.items():
        if part.endswith("."):
            found += _patterns(part, own, members)
        elif members[0][1] in own:
            if "*" in part:
                raise UsageError(f"clip_norm: the parameter {part!r} is clipped with some others: allowed is a "
                                 "name without *")
            found.append(part)
    return found
