"""The integers that an input takes at each place, from the tables of which they choose rows.

A number of a program may be a function of one integer of a sample: what moves, comparisons, masks
and arithmetic with constants make of it. Where such a number chooses a row, the integers for
which it is a row are allowed. So a label of -100 that is replaced before, and columns of
categories of different size, have the ranges that they need. A number that depends on several
integers limits none of them; the engine ends a step in which it is no row.
"""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from ..allowed import EVERY, INT32, Allowed, Runs, both
from ..interpret import TORCH_TYPE, Context, Undefined, run_kind
from .lower.builder import Builder, Emitted
from .merge import Static

MOVES = {"reshape", "permute", "expand", "slice", "concat", "pad", "roll", "flip", "index_select"}
POINTWISE = {"add", "sub", "mul", "maximum", "minimum", "floor_div", "remainder", "bit_and",
             "bit_or", "bit_xor", "shift_left", "shift_right", "eq", "ne", "lt", "le", "gt", "ge",
             "and", "or", "not", "neg", "abs", "sign", "relu", "clamp", "add_scalar", "mul_scalar",
             "cast", "wrap", "where", "stop_gradient"}
KEPT = {"narrow"}  # another integer ends the step
BUILT = TORCH_TYPE | {"i32": torch.int64}  # all integers have 64 bits in the builder
ANYWHERE, UNKNOWN = -1, -2  # in place of the place of an integer: a constant; not known
FUNCTIONS_MAX = 4096
BRANCHES_MAX = 8  # that choices by conditions on other integers leave
RUNS_MAX = 16
# Integers at which a function is looked at first; between them only where it has changed.
POINTS = np.unique(np.concatenate([
    np.arange(-300, 301), *([sign * (1 << k) + d for sign in (-1, 1) for d in (-1, 0, 1)]
                            for k in range(8, 32))]).clip(INT32.min, INT32.max))


def input_ranges(static: Static) -> dict[int, Allowed]:
    """What every input of integers takes; the values of others are not there."""
    uses = [use for node in static.builder.nodes if (use := _use(static.builder, node))]
    return {val.id: _Input(static.builder, val.id, uses).allowed()
            for val in static.inputs.values() if val.type == "i32"}


@dataclass(frozen=True)
class _Use:
    """A value whose integers are rows: low <= x <= high, or `also`."""

    value: int
    low: int
    high: int
    also: int | None = None

    def takes(self, x: torch.Tensor) -> torch.Tensor:
        inside = (x >= self.low) & (x <= self.high)
        return inside if self.also is None else inside | (x == self.also)


def _use(b: Builder, node: Emitted) -> _Use | None:
    if node.kind in ("embedding", "take_rows"):
        return _Use(node.inputs[1], 0, b.values[node.inputs[0]].shape[0] - 1)
    if node.kind in ("gather", "scatter_add"):
        size = b.values[node.inputs[0]].shape[node.attributes["axis"]]
        return _Use(node.inputs[1], 0, size - 1)
    if node.kind in ("cross_entropy", "nll"):
        classes = b.values[node.inputs[0]].shape[1]
        ignored = node.attributes["ignore_index"]
        return _Use(node.inputs[1], 0, classes - 1, ignored if ignored < 0 else None)
    return None


@dataclass(frozen=True)
class _Function:
    """Of one integer: a kind of node of other functions. The kinds of its own are `input`,
    `constant`, and `if` and `unless`, which are the first operand where the second one is true or
    false, and have no value elsewhere."""

    kind: str
    operands: tuple[int, ...] = ()
    attributes: tuple[tuple[str, Any], ...] = ()
    type: str = "i32"


@dataclass
class _Branch:
    """For every element of a value: the place of the integer that it depends on, and how."""

    places: torch.Tensor
    functions: torch.Tensor
    implied: bool = False  # of conditions: the value is true only where the function is

    def known(self) -> torch.Tensor:
        return self.places != UNKNOWN


@dataclass
class _Functions:
    """All functions of an input, by their numbers."""

    entries: list[_Function] = field(default_factory=lambda: [_Function("input")])
    numbers: dict[_Function, int] = field(default_factory=dict)

    def number(self, function: _Function) -> int | None:
        """None if there are too many."""
        if function not in self.numbers:
            if len(self.entries) > FUNCTIONS_MAX:
                return None
            self.numbers[function] = len(self.entries)
            self.entries.append(function)
        return self.numbers[function]

    def values(self, number: int, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The function of integers, and where it has a value."""
        every = torch.ones(x.shape, dtype=torch.bool)
        found = {0: (x, every)}
        context = Context(shape=tuple(x.shape), ints=torch.int64)
        for entry in self._read_by(number):
            function, has = self.entries[entry], every
            operands = [found[operand] for operand in function.operands]
            for _, has_value in operands:
                has = has & has_value
            if function.kind == "where":  # the operand that is not chosen needs no value
                has = torch.where(operands[0][0], operands[1][1], operands[2][1]) & operands[0][1]
            if function.kind == "constant":
                value = torch.full(x.shape, dict(function.attributes)["value"],
                                   dtype=BUILT[function.type])
            elif function.kind in ("if", "unless"):
                value, has = operands[0][0], has & (operands[1][0] == (function.kind == "if"))
            elif function.kind != "input":
                value = run_kind(function.kind, [values for values, _ in operands],
                                 dict(function.attributes), context)
            else:
                continue
            found[entry] = value, has
        return found[number]

    def _read_by(self, number: int) -> list[int]:
        """A function with those that it is made of, which come first."""
        found, waiting = {number}, [number]
        while waiting:
            more = {*self.entries[waiting.pop()].operands} - found
            found |= more
            waiting += more
        return sorted(found)

    def constants(self, number: int) -> set[int]:
        """The integers in a function."""
        return {int(x) for entry in self._read_by(number)
                for _, x in self.entries[entry].attributes
                if isinstance(x, (int, float)) and abs(x) <= INT32.max}


class _Input:
    """One input, of which the elements are numbered as its places."""

    def __init__(self, builder: Builder, value: int, uses: list[_Use]):
        self.builder, self.uses = builder, uses
        self.shape = builder.values[value].shape
        self.functions = _Functions()
        self.known_runs: dict[tuple[int, _Use], Runs] = {}
        size = int(np.prod(self.shape))
        first = _Branch(torch.arange(size).reshape(self.shape),
                        torch.zeros(self.shape, dtype=torch.int64))
        self.branches: dict[int, list[_Branch]] = {value: [first]}
        needed = self._needed()
        for node in builder.nodes:
            if (node.output in needed or node.kind in MOVES) and any(
                    i in self.branches for i in node.inputs):
                self.branches[node.output] = self._after(node)

    def allowed(self) -> Allowed:
        sets: list[Runs] = [EVERY]
        numbers = np.zeros(int(np.prod(self.shape)), np.int64)  # of the set of each place
        for use in self.uses:
            for branch in self.branches.get(use.value, []):
                is_read = branch.places >= 0
                pairs = torch.stack([branch.places[is_read], branch.functions[is_read]])
                for function in pairs[1].unique().tolist():
                    at = pairs[0][pairs[1] == function].unique().numpy()
                    key = function, replace(use, value=0)
                    if key not in self.known_runs:
                        self.known_runs[key] = self._runs(function, use)
                    self._limit(numbers, at, sets, self.known_runs[key])
        return _by_place(numbers.reshape(self.shape), sets, self._read().reshape(self.shape))

    def _read(self) -> np.ndarray:
        """The places that something but a move reads, as the first label of a decoder is not."""
        read = np.zeros(int(np.prod(self.shape)), bool)
        for node in self.builder.nodes:
            if node.kind not in MOVES:
                for branch in (b for i in node.inputs for b in self.branches.get(i, [])):
                    read[branch.places[branch.places >= 0].numpy()] = True
        return read

    @staticmethod
    def _limit(numbers: np.ndarray, at: np.ndarray, sets: list[Runs], runs: Runs) -> None:
        for old in np.unique(numbers[at]):
            common = both(sets[old], runs)
            if common not in sets:
                sets.append(common)
            numbers[at[numbers[at] == old]] = sets.index(common)

    def _runs(self, function: int, use: _Use) -> Runs:
        """The integers for which a function is a row, or has no value."""
        def takes(points: np.ndarray) -> np.ndarray:
            try:
                found, has = self.functions.values(function, torch.from_numpy(points))
            except Undefined:
                return np.ones(points.shape, bool)
            return (use.takes(found) | ~has).numpy()
        known = self.functions.constants(function) | {0, use.low, use.high}
        near = [sign * a + b + d for a in known for b in known for sign in (1, -1)
                for d in (-1, 0, 1)] if len(known) <= 32 else [*known]
        points = np.unique(np.concatenate([POINTS, near]).clip(INT32.min, INT32.max))
        return _runs_of(takes, points.astype(np.int64))

    def _needed(self) -> set[int]:
        """What an index may depend on by the kinds that are followed."""
        needed = {use.value for use in self.uses}
        for node in reversed(self.builder.nodes):
            if node.output in needed and node.kind in MOVES | POINTWISE | KEPT:
                needed.update(node.inputs)
        return needed

    def _after(self, node: Emitted) -> list[_Branch]:
        if node.kind in KEPT:
            return self.branches[node.inputs[0]]
        if node.kind in MOVES:
            return self._moved(node)
        if node.kind not in POINTWISE:
            return []
        operands = [self._operand(i) for i in node.inputs]
        shape = self.builder.values[node.output].shape
        combined = [self._combined(node, combination) for combination in _combinations(operands)]
        found = [branch for branch in combined if branch is not None]
        if node.kind == "where":
            found += self._chosen(node, operands, found)
        if node.kind == "and":
            found += [_Branch(b.places.expand(shape), b.functions.expand(shape), implied=True)
                      for branches in operands for b in branches]
        return [branch for branch in found if bool((branch.places >= 0).any())][:BRANCHES_MAX]

    def _operand(self, value: int) -> list[_Branch]:
        """The branches of a value; none for one that does not depend on this input alone."""
        if value in self.branches:
            return self.branches[value]
        array = self.builder.constants.get(value)
        if array is None:
            return []
        constant = self._constant(array, self.builder.values[value].type)
        return [constant] if constant is not None else []

    def _constant(self, array: np.ndarray, type_: str) -> _Branch | None:
        known, which = np.unique(array, return_inverse=True)
        if len(known) > FUNCTIONS_MAX:
            return None
        numbers = [self.functions.number(_Function("constant", (), (("value", x.item()),), type_))
                   for x in known]
        if None in numbers:
            return None
        functions = torch.tensor(numbers)[torch.from_numpy(which.reshape(array.shape))]
        return _Branch(torch.full(array.shape, ANYWHERE), functions)

    def _moved(self, node: Emitted) -> list[_Branch]:
        """Moves keep the integers; a padding adds constants."""
        operands = [(self._operand(i), self.builder.values[i].shape) for i in node.inputs]
        output, attributes = self.builder.values[node.output], [node.attributes] * 2
        if node.kind == "pad":
            value = node.attributes["value"]
            added = self._constant(np.asarray(value if output.type == "f32" else int(value)),
                                   output.type)
            if added is None:
                return []
            attributes = [node.attributes | {"value": fill.item()}
                          for fill in (added.places, added.functions)]
        context = Context(shape=output.shape, ints=torch.int64)
        branches = []
        for number in range(max(len(known) for known, _ in operands)):
            parts = [_part(known, number, shape) for known, shape in operands]
            places, functions = (run_kind(node.kind, given, attribute, context)
                                 for given, attribute in zip(
                                     ([p.places for p in parts], [p.functions for p in parts]),
                                     attributes))
            branches.append(_Branch(places, functions, any(part.implied for part in parts)))
        return branches

    def _combined(self, node: Emitted, operands: tuple[_Branch, ...]) -> _Branch | None:
        """A pointwise node where its operands depend on one integer."""
        if any(operand.implied for operand in operands):
            return None
        places, functions = _at_one_place(operands)
        key = (node.kind, tuple(sorted(node.attributes.items())))
        type_ = self.builder.values[node.output].type
        return self._with(places, functions, lambda numbers: _Function(
            key[0], numbers, key[1], type_))

    def _with(self, places: torch.Tensor, functions: torch.Tensor, make: Any) -> _Branch | None:
        """The functions that `make` gives for those [operands, ...] of each element."""
        known = places != UNKNOWN
        if not bool(known.any()):
            return None
        rows, which = functions[:, known].unique(dim=1, return_inverse=True)
        numbers = [self.functions.number(make(tuple(row))) for row in rows.T.tolist()]
        if None in numbers:
            return None
        made = torch.zeros(places.shape, dtype=torch.int64)
        made[known] = torch.tensor(numbers)[which]
        return _Branch(places, made)

    def _chosen(self, node: Emitted, operands: list[list[_Branch]],
                exact: list[_Branch]) -> list[_Branch]:
        """What a choice leaves where it is no function of one integer: each branch, limited by the
        condition if this is one of the same integer."""
        shape = self.builder.values[node.output].shape
        done = torch.zeros(shape, dtype=torch.bool)
        for branch in exact:
            done |= branch.known()
        found: list[_Branch] = []
        for side, branches in enumerate(operands[1:]):
            for branch in branches:
                wide = _Branch(branch.places.expand(shape), branch.functions.expand(shape))
                rest = torch.where(done, UNKNOWN, wide.places)
                limited = self._limited(_Branch(rest, wide.functions), operands[0], side)
                found.append(limited)
        return found

    def _limited(self, branch: _Branch, conditions: list[_Branch], side: int) -> _Branch:
        for condition in conditions:
            if side and condition.implied:
                continue
            places, functions = _at_one_place((branch, condition))

            limited = self._with(places, functions, lambda numbers: _Function(
                "unless" if side else "if", numbers))
            if limited is not None:  # a constant depends on no place, and so on no condition
                known = limited.known() & (branch.places >= 0)
                branch = _Branch(branch.places, torch.where(known, limited.functions,
                                                            branch.functions))
        return branch


def _part(branches: list[_Branch], number: int, shape: tuple[int, ...]) -> _Branch:
    """One branch of an operand of a move, in which others may have more."""
    if number < len(branches):
        return branches[number]
    return _Branch(torch.full(shape, UNKNOWN), torch.zeros(shape, dtype=torch.int64))


def _combinations(operands: list[list[_Branch]]) -> list[tuple[_Branch, ...]]:
    found: list[tuple[_Branch, ...]] = [()]
    for branches in operands:
        found = [(*before, branch) for before in found for branch in branches]
    return found


def _at_one_place(operands: tuple[_Branch, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """The places of elements that depend on one integer, and the functions [operands, ...]."""
    all_places = torch.broadcast_tensors(*(x.places for x in operands))
    functions = torch.stack(torch.broadcast_tensors(*(x.functions for x in operands)))
    places = all_places[0].clone()
    for other in all_places[1:]:
        differ = (places != other) & (places != ANYWHERE) & (other != ANYWHERE)
        places = torch.where(places == ANYWHERE, other, places)
        places = torch.where(differ | (other == UNKNOWN), UNKNOWN, places)
    return places, functions


def _runs_of(takes: Any, points: np.ndarray) -> Runs:
    """The runs of integers that are taken: a change between two points is found by halving."""
    taken = takes(points)
    change = np.flatnonzero(taken[1:] != taken[:-1])
    if len(change) > 2 * RUNS_MAX:
        return EVERY  # such as a remainder that may be no row: the engine looks at it
    low, high, is_low = points[change], points[change + 1], taken[change]
    while len(low) and (high - low).max() > 1:
        middle = (low + high) // 2
        same = takes(middle) == is_low
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    begins = [int(INT32.min)] * bool(taken[0]) + high[~is_low].tolist()
    ends = low[is_low].tolist() + [int(INT32.max)] * bool(taken[-1])
    return tuple(zip(begins, ends))


def _by_place(numbers: np.ndarray, sets: list[Runs], read: np.ndarray) -> Allowed:
    """What all samples [samples, ...] have in common, with the sets that are used alone. A place
    that is not read takes what the others take."""
    common, first = list(sets), np.array(numbers[0])

    def number_of(runs: Runs) -> int:
        if runs not in common:
            common.append(runs)
        return common.index(runs)
    for other in numbers[1:]:
        for a, b in {*zip(first.ravel().tolist(), other.ravel().tolist())}:
            if a != b:
                first[(first == a) & (other == b)] = number_of(both(common[a], common[b]))
    is_read = np.array(read.any(0))
    of_read = [common[number] for number in np.unique(first[is_read])]
    if of_read:
        first[~is_read] = number_of(of_read[0] if len(of_read) == 1 else (
            Allowed(tuple(of_read)).ends(),))
    used, places = np.unique(first, return_inverse=True)
    runs = tuple(common[number] for number in used)
    return Allowed(runs, places.reshape(first.shape) if len(runs) > 1 else None)
