"""Attributes of a node that depend on the number of samples, found from those at two numbers."""
from __future__ import annotations

import math
from dataclasses import dataclass

from .lower.builder import Emitted

# Products of B + term, which sums over pairs of samples and covariances have as divisors.
COUNTS = ((0,), (-1,), (1,), (0, 0), (0, -1))
Sizes = tuple[int, int]


def count_of(size: int, terms: tuple[int, ...]) -> int:
    """One of COUNTS for a number of samples."""
    return math.prod(size + term for term in terms)


@dataclass(frozen=True)
class Cut:
    """A slice from `begin` * B to `end` * B, as the halves of a batch are."""

    begin: int
    end: int


@dataclass(frozen=True)
class Factor:
    """A factor: `number` times one of COUNTS ("mul"), or divided by it ("div")."""

    kind: str
    terms: tuple[int, ...]
    number: float


@dataclass(frozen=True)
class Multiple:
    """A term `number` * B: a running count."""

    number: float


@dataclass(frozen=True)
class Logarithm:
    """A term `factor` * log(B) + `rest`, where the factor is 1 or -1."""

    factor: float
    rest: float


Change = Cut | Factor | Multiple | Logarithm


def change_of(first: Emitted, second: Emitted, sizes: Sizes) -> Change | None:
    """What the attributes of a node at two numbers of samples have in common; None for anything
    else. The nodes have one kind."""
    if first.kind == "slice":
        return _cut(first, second, sizes)
    values = first.attributes.get("value"), second.attributes.get("value")
    if first.kind == "mul_scalar":
        return _factor(*values, sizes)
    if first.kind == "add_scalar":
        return _multiple(*values, sizes) or _logarithm(*values, sizes)
    return None


def _cut(first: Emitted, second: Emitted, sizes: Sizes) -> Cut | None:
    small, large = first.attributes, second.attributes
    if small["step"] != 1 or any(small[name] != large[name] for name in ("axis", "step")) or any(
            small[name] % sizes[0] or small[name] * sizes[1] != large[name] * sizes[0]
            for name in ("begin", "end")):
        return None
    return Cut(small["begin"] // sizes[0], small["end"] // sizes[0])


def _factor(small: float, large: float, sizes: Sizes) -> Factor | None:
    for terms in COUNTS:
        counts = [count_of(size, terms) for size in sizes]
        for kind, each in (("mul", (small / counts[0], large / counts[1])),
                           ("div", (small * counts[0], large * counts[1]))):
            if math.isclose(*each, rel_tol=1e-12):
                return Factor(kind, terms, each[0])
    return None


def _multiple(small: float, large: float, sizes: Sizes) -> Multiple | None:
    each = small / sizes[0], large / sizes[1]
    return Multiple(each[0]) if math.isclose(*each, rel_tol=1e-12) else None


def _logarithm(small: float, large: float, sizes: Sizes) -> Logarithm | None:
    for factor in (1.0, -1.0):
        rests = [value - factor * math.log(size) for value, size in zip((small, large), sizes)]
        if math.isclose(*rests, rel_tol=1e-6, abs_tol=1e-6):
            return Logarithm(factor, rests[0] if abs(rests[0]) > 1e-6 else 0.0)
    return None
