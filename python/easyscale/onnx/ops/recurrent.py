"""Recurrent layers. A direction is one node, as that of a layer of torch."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from ...tracing.lower.builder import Operand
from ...tracing.lower.moves import pick
from ...tracing.lower.recurrent import Direction, initial_state, plain_cell, stepwise, whole
from ...tracing.lower.table import CannotLower
from ..builder import OnnxBuilder
from ..table import Call, converts

# Where the gates of torch are among those of ONNX: input, forget, cell, output in place of input,
# output, forget, cell; and reset, update, new in place of update, reset, new.
LSTM_GATES, GRU_GATES = (0, 2, 3, 1), (1, 0, 2)
ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"]}


@converts("LSTM")
def lstm(b: OnnxBuilder, call: Call, x: Operand, w: Operand, r: Operand,
         bias: Operand | None = None, lengths: Operand | None = None, h: Operand | None = None,
         c: Operand | None = None, peepholes: Operand | None = None) -> list[Operand]:
    _refuse(call, "LSTM", lengths)
    if peepholes is not None or call.get("input_forget", 0):
        raise CannotLower("peepholes, or coupled gates")
    return _layer(b, call, whole("lstm"), LSTM_GATES, x, (w, r, bias), [h, c])


@converts("GRU")
def gru(b: OnnxBuilder, call: Call, x: Operand, w: Operand, r: Operand, bias: Operand | None = None,
        lengths: Operand | None = None, h: Operand | None = None) -> list[Operand]:
    _refuse(call, "GRU", lengths)
    if bias is not None and not call.get("linear_before_reset", 0):
        raise CannotLower("linear_before_reset = 0, which torch does not have")
    return _layer(b, call, whole("gru"), GRU_GATES, x, (w, r, bias), [h])


@converts("RNN")
def rnn(b: OnnxBuilder, call: Call, x: Operand, w: Operand, r: Operand, bias: Operand | None = None,
        lengths: Operand | None = None, h: Operand | None = None) -> list[Operand]:
    kinds = {name.lower() for name in call.get("activations") or ["Tanh"]}
    if not kinds <= {"tanh", "relu"} or len(kinds) > 1:
        raise CannotLower("activations other than one of Tanh and Relu")
    _refuse(call, "", lengths)
    return _layer(b, call, stepwise(plain_cell(kinds.pop())), (0,), x, (w, r, bias), [h])


def _refuse(call: Call, operator: str, lengths: Operand | None) -> None:
    if lengths is not None:
        raise CannotLower("sequences with lengths of their own")
    if call.get("layout", 0) or call.get("clip") is not None:
        raise CannotLower("its layout, or a clip")
    given, usual = call.get("activations"), ACTIVATIONS.get(operator)
    if given and usual and any(name != usual[i % len(usual)] for i, name in enumerate(given)):
        raise CannotLower("activations that torch does not have")


def _layer(b: OnnxBuilder, call: Call, run: Direction, gates: Sequence[int], x: Operand,
           weights: tuple, state: list[Operand | None]) -> list[Operand]:
    """All directions: the outputs [time, direction, n, hidden] and the last states."""
    direction = call.get("direction", "forward")
    outputs, last = [], []
    for place in range(weights[0].shape[0]):
        part = _weights(b, weights, place, gates)
        begin = [None if h is None else initial_state(b, [h], place)[0] for h in state]
        if len(begin) == 2 and (begin[0] is None) != (begin[1] is None):
            raise CannotLower("an initial state without the other one")
        backwards = direction == "reverse" or place == 1
        y, states = run(b, b.emit("linear", x, part[0], part[2]), begin, part[1], part[3], backwards)
        outputs.append(b.reshape(y, (y.shape[0], 1, *y.shape[1:])))
        last.append([b.reshape(h, (1, *h.shape)) for h in states if h is not None])
    return [b.concat(outputs, 1), *(b.concat(list(parts), 0) for parts in zip(*last))]


def _weights(b: OnnxBuilder, weights: tuple, place: int, gates: Sequence[int]) -> list:
    """Both matrices and both biases of a direction, with the gates in the order of torch."""
    w, r, bias = weights
    order: Callable[[Operand], Operand] = lambda x: _reordered(b, x, gates)
    found = [order(pick(b, x, 0, place)) for x in (w, r)]
    if bias is None:
        return [*found, None, None]
    both, size = pick(b, bias, 0, place), bias.shape[1] // 2
    return [*found, order(b.slice(both, 0, 0, size)), order(b.slice(both, 0, size, 2 * size))]


def _reordered(b: OnnxBuilder, x: Operand, gates: Sequence[int]) -> Operand:
    size = x.shape[0] // len(gates)
    if len(gates) == 1:
        return x
    return b.concat([b.slice(x, 0, gate * size, (gate + 1) * size) for gate in gates], 0)
