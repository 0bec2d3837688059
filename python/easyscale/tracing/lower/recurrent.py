"""LSTM, GRU and plain recurrent layers.

Each direction of a layer of an LSTM or GRU is one node behind the products of all inputs. The time
steps of plain layers and of LSTMs with projections, and single steps, are written out as products
and gates.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .builder import Builder, Operand
from .moves import pick
from .random import drop
from .table import CannotLower, lowers

MOST_STEPS = 512  # of one direction; above it a program would be too long

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


def projected_cell(weights: Operand) -> Callable:
    """One step of an LSTM whose state is multiplied by a matrix [projection, hidden]."""
    def cell(b: Builder, x: Operand, state: State, weight: Operand,
             bias: Operand | None) -> State:
        h, c = lstm_cell(b, x, state, weight, bias)
        return [b.emit("linear", h, weights), c]
    return cell


def plain_cell(kind: str) -> Callable:
    """One step of a recurrent layer with an activation."""
    def cell(b: Builder, x: Operand, state: State, weight: Operand,
             bias: Operand | None) -> State:
        return [b.emit(kind, _sum(b, x, _from_state(b, state[0], weight, bias)))]
    return cell


def initial_state(b: Builder, hx: list[Operand], layer: int) -> State:
    """The state [n, hidden] of one layer and direction; a constant of zeros is left out."""
    return [None if isinstance(h, torch.Tensor) and not h.any() else pick(b, h, 0, layer)
            for h in hx]


# One direction over the gates [time, n, gates * hidden] of the inputs: the outputs and last states.
Direction = Callable[[Builder, Operand, State, Operand, Operand | None, bool],
                     tuple[Operand, State]]


def whole(kind: str) -> Direction:
    """A node for all time steps. An LSTM's has the last cell state behind the outputs."""
    def run(b: Builder, gates: Operand, state: State, weight: Operand, bias: Operand | None,
            backwards: bool) -> tuple[Operand, State]:
        y, steps = b.emit(kind, gates, weight, bias, *state, reverse=backwards), gates.shape[0]
        last = [pick(b, y, 0, 0 if backwards else steps - 1)]
        if kind == "lstm":
            last.append(pick(b, y, 0, steps))
        return b.slice(y, 0, 0, steps), last
    return run


def stepwise(cell: Callable) -> Direction:
    """Nodes for every time step."""
    def run(b: Builder, gates: Operand, state: State, weight: Operand, bias: Operand | None,
            backwards: bool) -> tuple[Operand, State]:
        if gates.shape[0] > MOST_STEPS:
            raise CannotLower(f"a plain or projected recurrent layer of more than {MOST_STEPS} steps")
        outputs = []
        for t in reversed(range(gates.shape[0])) if backwards else range(gates.shape[0]):
            state = cell(b, pick(b, gates, 0, t), state, weight, bias)
            outputs.append(b.reshape(state[0], (1, *state[0].shape)))
        return b.concat(outputs[::-1] if backwards else outputs, 0), state
    return run


def _layer(b: Builder, run: Direction, x: Operand, hx: list[Operand], params: list[list],
           first: int) -> tuple[Operand, list[State]]:
    """Every direction of a layer over x [time, n, features], side by side, and the last states.

    `first` is the number of its first direction, by which `hx` is indexed.
    """
    outputs, last = [], []
    for backwards, (w_in, w_state, b_in, b_state, w_out) in enumerate(params):
        gates = b.emit("linear", x, w_in, b_in)
        state = initial_state(b, hx, first + backwards)
        direction = run if w_out is None else stepwise(projected_cell(w_out))
        out, state = direction(b, gates, state, w_state, b_state, backwards == 1)
        outputs.append(out)
        last.append(state)
    return b.concat(outputs, 2), last


def _run(b: Builder, run: Direction, input: Operand, hx: list[Operand], params: list,
         has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
         batch_first: bool) -> list[Operand]:
    directions, width = 1 + bidirectional, len(params) // ((1 + bidirectional) * num_layers)
    has_projection = width > (4 if has_biases else 2)
    weights = []  # of each direction: both matrices, both biases and the projection, or None
    for i in range(0, len(params), width):
        found = params[i:i + width]
        biases = found[2:4] if has_biases else [None, None]
        weights.append([*found[:2], *biases, found[-1] if has_projection else None])
    x = b.swap(input, 0, 1) if batch_first else input
    last: list[State] = []
    for layer in range(num_layers):
        if layer > 0:
            x = drop(b, x, "dropout", dropout, layer - 1)
        first = layer * directions
        x, states = _layer(b, run, x, hx, weights[first:first + directions], first)
        last += states
    out = b.swap(x, 0, 1) if batch_first else x
    parts = [b.concat([b.reshape(h, (1, *h.shape)) for h in part], 0) for part in zip(*last)]
    return [out] + [b.reshape(h, meta.shape) for h, meta in zip(parts, b.results[1:])]


def _register(overload: str, run: Direction) -> None:
    @lowers(overload)
    def lower(b: Builder, input: Operand, hx: Any, params: list, **options: Any) -> list[Operand]:
        return _run(b, run, input, hx if isinstance(hx, list) else [hx], params, **options)


_register("lstm.input", whole("lstm"))
_register("gru.input", whole("gru"))
_register("rnn_tanh.input", stepwise(plain_cell("tanh")))
_register("rnn_relu.input", stepwise(plain_cell("relu")))


def _cell_gates(b: Builder, cell: Callable, input: Operand, state: State, w_ih: Operand,
                w_hh: Operand, b_ih: Operand | None, b_hh: Operand | None) -> State:
    return cell(b, b.emit("linear", input, w_ih, b_ih), state, w_hh, b_hh)


@lowers("lstm_cell.default")
def one_lstm_step(b: Builder, input: Operand, hx: list[Operand], **weights: Any) -> list[Operand]:
    return _cell_gates(b, lstm_cell, input, list(hx), **weights)


@lowers("gru_cell.default")
def one_gru_step(b: Builder, input: Operand, hx: Operand, **weights: Any) -> Operand:
    return _cell_gates(b, gru_cell, input, [hx], **weights)[0]
