"""Decides which integers of a program have 32 bits and which 64.

The builder counts all integers as those of 64 bits, as most of torch's are. Where the ranges show that
32 bits are enough, or that only the lowest 32 bits are read, they have 32: this is so in most models.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..program import FORMAT_WITH_LONGS, LONG_KINDS, Constant, Dim, Node, Program, Value
from .number_ranges import INT32, fits, number_ranges

# The lowest bits of a result depend on those of the operands alone.
RINGS = {"add", "sub", "mul", "sum", "cumsum", "bit_and", "bit_or", "bit_xor"}
MOVES = {"reshape", "permute", "expand", "slice", "concat", "roll", "flip", "index_select", "where",
         "pad", "pad_reflect", "pad_replicate", "pad_circular"}
# The inputs that the engine takes with 32 bits only, by position.
SHORT_INPUTS = {"embedding": {1}, "gather": {1}, "take_rows": {1}, "scatter_add": {1},
                "cross_entropy": {1}, "regularised_cross_entropy": {1}, "nll": {1},
                "attention": {5, 6}, "set_state": {0}}


def with_widths(program: Program) -> Program:
    """The same program with the types i32 and i64, and without nodes `wrap`."""
    return _Widths(program).run()


class _Widths:
    def __init__(self, program: Program):
        self.old = program
        self.ranges = number_ranges(program)
        self.new = replace(program, values=[*program.values], constants=[], nodes=[])
        self.place = list(range(len(program.values)))  # old value -> the value that has it now
        self.wide: dict[int, int] = {}   # value of 32 bits -> the same with 64
        self.short: dict[int, int] = {}  # value of 64 bits -> its lowest 32
        self.constants = {c.value: c for c in program.constants}
        self.low = self._read_for_lowest_bits()

    def run(self) -> Program:
        for constant in self.old.constants:
            if self._is_int(constant.value) and not fits(self.ranges[constant.value]):
                self.new.values[constant.value] = replace(
                    self.old.values[constant.value], type="i64")
            self.new.constants.append(constant)
        for node in self.old.nodes:
            self._write(node)
        new = self.new
        new.loss = self.place[new.loss]
        new.outputs = [replace(x, value=self.place[x.value]) for x in new.outputs]
        _remove_unused(new)
        if any(v.type == "i64" for v in new.values) or any(n.kind in LONG_KINDS for n in new.nodes):
            new.format = FORMAT_WITH_LONGS
        return new

    def _is_int(self, value: int) -> bool:
        return value >= 0 and self.old.values[value].type == "i32"

    def _is_long(self, value: int) -> bool:
        """Whether a value of the old program needs 64 bits."""
        return (self._is_int(value) and not fits(self.ranges[value])
                and value not in self.low)

    def _read_for_lowest_bits(self) -> set[int]:
        """The values of which all readers take the lowest 32 bits only."""
        whole = {self.old.loss} | {x.value for x in self.old.outputs}
        for node in reversed(self.old.nodes):
            output = node.outputs[0]
            lowest = node.kind == "wrap" or (
                node.kind in RINGS | MOVES and self._is_int(output)
                and (output not in whole or fits(self.ranges[output]))
                and (node.kind in RINGS or output not in whole))
            if not lowest:
                whole.update(node.inputs)
        made = {node.outputs[0] for node in self.old.nodes
                if node.kind in RINGS | MOVES} | set(self.constants)
        return made - whole

    def _write(self, node: Node) -> None:
        kind, output = node.kind, node.outputs[0]
        if kind in ("wrap", "narrow") and self._changes_nothing(node):
            self.place[output] = self._with_32_bits(node.inputs[0], node)
        elif kind == "wrap":
            self._wrap(node)
        elif kind == "cast" and node.attributes["to"] == "i64":
            self._cast(node)
        elif kind in SHORT_INPUTS:
            inputs = [self._narrowed(x, node) if i in SHORT_INPUTS[kind] and self._is_int(x)
                      else self._kept(x, node) for i, x in enumerate(node.inputs)]
            self._add(node, inputs, self._is_long(output))
        else:
            self._compute(node)

    def _changes_nothing(self, node: Node) -> bool:
        a, given = node.attributes, self.ranges[node.inputs[0]]
        if node.kind == "narrow":
            return fits(given, (a["low"], a["high"]))
        return fits(given, self.ranges[node.outputs[0]]) or (
            a["bits"] == 32 and node.inputs[0] in self.low)

    def _compute(self, node: Node) -> None:
        """An operator of any types: it has 64 bits where an operand or the result needs them."""
        output = node.outputs[0]
        ints = [x for x in node.inputs if self._is_int(x)]
        lowest = self._is_int(output) and not self._is_long(output) and (
            node.kind in RINGS or output in self.low)
        converts = node.kind in ("cast", "narrow")
        long = not lowest and (any(map(self._is_long, ints)) or self._is_long(output))
        if node.kind in ("gather", "take_rows"):
            ints = node.inputs[:1]
        inputs = []
        for x in node.inputs:
            if x not in ints or not self._is_int(x):
                inputs.append(self.place[x] if x >= 0 else x)
            elif long:
                inputs.append(self._kept(x, node) if converts else self._with_64_bits(x, node))
            else:
                inputs.append(self._with_32_bits(x, node))
        gives_long = long and self._is_int(output) and not converts and node.kind not in (
            "argmax", "argmin")
        made = self._add(node, inputs, gives_long)
        if gives_long and not self._is_long(output):
            self.place[output] = self._lowest(made, node)

    def _cast(self, node: Node) -> None:
        """Real numbers to integers: those whose range is known have 32 bits."""
        to = "i64" if self._is_long(node.outputs[0]) else "i32"
        cast = replace(node, attributes={"to": to})
        self._add(cast, [self.place[node.inputs[0]]], to == "i64")

    def _wrap(self, node: Node) -> None:
        source = self._with_32_bits(node.inputs[0], node)
        bits, signed = node.attributes["bits"], node.attributes["signed"]
        dims = self.new.values[source].dims
        if bits < 32 and signed:
            by = self._number(32 - bits, dims)
            left = self._new("shift_left", [source, by], dims, "i32", node)
            source = self._new("shift_right", [left, by], dims, "i32", node)
        elif bits < 32:
            source = self._new("bit_and", [source, self._number((1 << bits) - 1, dims)], dims,
                               "i32", node)
        self.place[node.outputs[0]] = source

    # The value that an operand has now, with one of both widths.

    def _kept(self, value: int, node: Node) -> int:
        return self.place[value] if value >= 0 else value

    def _narrowed(self, value: int, node: Node) -> int:
        """With 32 bits, where another integer ends the step."""
        now = self.place[value]
        if self.new.values[now].type == "i32":
            return now
        return self._new("narrow", [now], self.new.values[now].dims, "i32", node, low=INT32[0],
                         high=INT32[1])

    def _with_64_bits(self, value: int, node: Node) -> int:
        now = self.place[value]
        if self.new.values[now].type == "i64":
            return now
        if now not in self.wide:
            if value in self.constants:
                self.wide[now] = self._constant(self.constants[value].array.astype(np.int64), "i64")
            else:
                self.wide[now] = self._new("cast", [now], self.new.values[now].dims, "i64", node,
                                           to="i64")
        return self.wide[now]

    def _with_32_bits(self, value: int, node: Node) -> int:
        now = self.place[value]
        return self._lowest(now, node) if self.new.values[now].type == "i64" else now

    def _lowest(self, now: int, node: Node) -> int:
        if now not in self.short:
            self.short[now] = self._new("cast", [now], self.new.values[now].dims, "i32", node,
                                        to="i32")
        return self.short[now]

    # What is added to the program.

    def _add(self, node: Node, inputs: list[int], long: bool) -> int:
        output = node.outputs[0]
        if long:
            self.new.values[output] = replace(self.new.values[output], type="i64")
        self.new.nodes.append(replace(node, inputs=inputs))
        return output

    def _new(self, kind: str, inputs: list[int], dims: list[Dim], type_: str, node: Node,
             **attributes: int | str) -> int:
        self.new.values.append(Value(type_, dims))
        output = len(self.new.values) - 1
        self.new.nodes.append(Node(kind, inputs, [output], attributes, node.name, node.source,
                                   region=node.region))
        return output

    def _number(self, number: int, dims: list[Dim]) -> int:
        return self._constant(np.full([1] * len(dims), number, np.int32), "i32")

    def _constant(self, array: np.ndarray, type_: str) -> int:
        self.new.values.append(Value(type_, [Dim(size) for size in array.shape]))
        number = len(self.new.values) - 1
        self.new.constants.append(Constant(f"constant{number}", number, array))
        return number


def _remove_unused(program: Program) -> None:
    """Gives the values the numbers from 0 on again, without those that nothing writes or reads."""
    read = {program.loss} | {x.value for x in program.outputs}
    read.update(i for node in program.nodes for i in (*node.inputs, *node.outputs))
    read.update(x.value for x in (*program.inputs, *program.parameters, *program.states))
    program.constants = [x for x in program.constants if x.value in read]
    numbers = {old: new for new, old in enumerate(sorted(read - {-1}))} | {-1: -1}
    program.values = [program.values[old] for old in sorted(read - {-1})]
    for name in ("inputs", "parameters", "states", "constants", "outputs"):
        setattr(program, name, [replace(x, value=numbers[x.value])
                                for x in getattr(program, name)])
    program.nodes = [replace(node, inputs=[numbers[i] for i in node.inputs],
                             outputs=[numbers[i] for i in node.outputs]) for node in program.nodes]
    program.loss = numbers[program.loss]
