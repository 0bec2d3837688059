"""LSTM, GRU and plain recurrent layers, unrolled over time into products and gates."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .builder import Builder, Operand
from .moves import pick
from .table import CannotLower, lowers

MOST_STEPS = 512  # of all layers and directions; above it a program would be too long

State = list[Operand | None]  # [h] or [h, c], each [n, hidden]; None is zero


def _from_state(b: Builder, h: Operand | None, weight: Operand,
                bias: Operand | None) -> Operand | None:
    """The part of the gates that comes from the state before."""
    return bias if h is None else b.emit("linear", h, weight, bias)


def _sum(b: Builder, x: Operand, y: Operand | None) -> Operand:
    return x if y is None else b.emit("add", x, y)


def _parts(b: Builder, gates: Operand | None, count: int) -> list[Operand | None]:
    if gates is None:
        return [None] * count
    axis, size = gates.dim() - 1, gates.shape[-1] // count
    return [b.slice(gates, axis, i * size, (i + 1) * size) for i in range(count)]


def lstm_cell(b: Builder, x: Operand, state: State, weight: Operand,
              bias: Operand | None) -> State:
    """One step of an LSTM: gates in torch's order input, forget, cell, output."""
    h, c = state
    i, f, g, o = _parts(b, _sum(b, x, _from_state(b, h, weight, bias)), 4)
    new = b.emit("mul", b.emit("sigmoid", i), b.emit("tanh", g))
    if c is not None:
        new = b.emit("add", b.emit("mul", b.emit("sigmoid", f), c), new)
    return [b.emit("mul", b.emit("sigmoid", o), b.emit("tanh", new)), new]


def gru_cell(b: Builder, x: Operand, state: State, weight: Operand,
             bias: Operand | None) -> State:
    """One step of a GRU: gates in torch's order reset, update, new."""
    h = state[0]
    before = _from_state(b, h, weight, bias)
    (r, z, n), (hr, hz, hn) = _parts(b, x, 3), _parts(b, before, 3)
    reset, update = (b.emit("sigmoid", _sum(b, p, q)) for p, q in ((r, hr), (z, hz)))
    new = b.emit("tanh", n if hn is None else b.emit("add", n, b.emit("mul", reset, hn)))
    if h is None:
        return [b.emit("sub", new, b.emit("mul", update, new))]
    return [b.emit("add", new, b.emit("mul", update, b.emit("sub", h, new)))]


def plain_cell(kind: str) -> Callable:
    """One step of a recurrent layer with an activation."""
    def cell(b: Builder, x: Operand, state: State, weight: Operand,
             bias: Operand | None) -> State:
        return [b.emit(kind, _sum(b, x, _from_state(b, state[0], weight, bias)))]
    return cell


def _initial(b: Builder, hx: list[Operand], layer: int) -> State:
    """The state [n, hidden] of one layer and direction; a constant of zeros is left out."""
    return [None if isinstance(h, torch.Tensor) and not h.any() else pick(b, h, 0, layer)
            for h in hx]


def _direction(b: Builder, cell: Callable, x: Operand, state: State, weights: list,
               backwards: bool) -> tuple[Operand, State]:
    """Runs one direction over x [n, time, features]: ([n, time, hidden], last state)."""
    w_in, w_state, b_in, b_state = weights
    gates = b.emit("linear", x, w_in, b_in)
    steps = range(x.shape[1])
    outputs = []
    for t in reversed(steps) if backwards else steps:
        state = cell(b, pick(b, gates, 1, t), state, w_state, b_state)
        outputs.append(b.reshape(state[0], (state[0].shape[0], 1, state[0].shape[1])))
    return b.concat(outputs[::-1] if backwards else outputs, 1), state


def _run(b: Builder, cell: Callable, input: Operand, hx: list[Operand], params: list,
         has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
         batch_first: bool) -> list[Operand]:
    if dropout and train and num_layers > 1:
        raise CannotLower("a recurrent layer with dropout between its layers")
    directions, width = 1 + bidirectional, 4 if has_biases else 2
    if len(params) != directions * width * num_layers:
        raise CannotLower("a recurrent layer with a projection")
    x = input if batch_first else b.swap(input, 0, 1)
    if x.shape[1] * num_layers * directions > MOST_STEPS:
        raise CannotLower(f"a recurrent layer of more than {MOST_STEPS} steps")
    last: list[State] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            weights = params[number * width:(number + 1) * width] + [None] * (4 - width)
            out, state = _direction(b, cell, x, _initial(b, hx, number), weights, direction == 1)
            outputs.append(out)
            last.append(state)
        x = b.concat(outputs, 2)
    out = x if batch_first else b.swap(x, 0, 1)
    states = [b.concat([b.reshape(h, (1, *h.shape)) for h in part], 0) for part in zip(*last)]
    return [out] + [b.reshape(h, meta.shape) for h, meta in zip(states, b.results[1:])]


def _register(overload: str, cell: Callable) -> None:
    @lowers(overload)
    def lower(b: Builder, input: Operand, hx: Any, params: list, **options: Any) -> list[Operand]:
        return _run(b, cell, input, hx if isinstance(hx, list) else [hx], params, **options)


_register("lstm.input", lstm_cell)
_register("gru.input", gru_cell)
_register("rnn_tanh.input", plain_cell("tanh"))
_register("rnn_relu.input", plain_cell("relu"))


def _cell_gates(b: Builder, cell: Callable, input: Operand, state: State, w_ih: Operand,
                w_hh: Operand, b_ih: Operand | None, b_hh: Operand | None) -> State:
    return cell(b, b.emit("linear", input, w_ih, b_ih), state, w_hh, b_hh)


@lowers("lstm_cell.default")
def one_lstm_step(b: Builder, input: Operand, hx: list[Operand], **weights: Any) -> list[Operand]:
    return _cell_gates(b, lstm_cell, input, list(hx), **weights)


@lowers("gru_cell.default")
def one_gru_step(b: Builder, input: Operand, hx: Operand, **weights: Any) -> Operand:
    return _cell_gates(b, gru_cell, input, [hx], **weights)[0]
