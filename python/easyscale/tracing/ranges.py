"""The range of the integers of an input, from the tables that they choose rows of."""
from __future__ import annotations

import numpy as np

from .lower.builder import Emitted
from .merge import Static

INT32 = np.iinfo(np.int32)
MOVES = {"reshape", "permute", "expand", "slice", "concat", "pad", "roll", "flip", "index_select",
         "cast", "wrap", "narrow"}


def input_ranges(static: Static) -> dict[int, tuple[int, int]]:
    """The inclusive range (low, high) of every input; fp32 inputs have (0, 0)."""
    ranges = {val.id: _range(static, val.id) for val in static.inputs.values()
              if val.type == "i32"}
    return {val.id: ranges.get(val.id, (0, int(val.type == "bool")))
            for val in static.inputs.values()}


def _range(static: Static, source: int) -> tuple[int, int]:
    """The intersection of what the readers of an input allow; moves keep the integers.

    So do choices between them and others: a decoder whose words are its shifted labels allows only
    labels that are words.
    """
    low, high = int(INT32.min), int(INT32.max)
    same = {source}
    marks: dict[int, int] = {}  # conditions that find one integer, which is then replaced
    replaced: set[int] = set()
    words = False  # whether the integers choose rows of a table
    for node in static.builder.nodes:
        if not same.intersection(node.inputs):
            continue
        if node.kind == "where" and node.inputs[0] in marks:
            replaced.add(marks[node.inputs[0]])
        if node.kind == "eq" and (other := static.builder.constants.get(
                node.inputs[1])) is not None and other.size == 1:
            marks[node.output] = int(other.flat[0])
        if node.kind in MOVES or (node.kind == "where" and same.intersection(node.inputs[1:])):
            same.add(node.output)
            continue
        allowed = _allowed(static, node, same)
        if allowed and node.kind in ("embedding", "take_rows"):
            words = True
        if allowed:
            low, high = max(low, allowed[0]), min(high, allowed[1])
    if words:
        return low, high
    # A label that a loss ignores is allowed besides the classes.
    return min({low, *replaced}), max({high, *replaced})


def _allowed(static: Static, node: Emitted, same: set[int]) -> tuple[int, int] | None:
    shapes = [static.builder.values[i].shape if i >= 0 else () for i in node.inputs]
    if node.kind == "embedding" and node.inputs[1] in same:
        return 0, shapes[0][0] - 1
    if node.kind == "take_rows" and node.inputs[1] in same:
        return 0, shapes[0][0] - 1
    if node.kind in ("gather", "scatter_add") and node.inputs[1] in same:
        return 0, shapes[0][node.attributes["axis"]] - 1
    if node.kind in ("cross_entropy", "nll") and node.inputs[1] in same:
        return min(0, node.attributes["ignore_index"]), shapes[0][1] - 1
    return None
