"""torch.lstm and torch.gru while a forward pass is traced.

A tracer runs every time step of the real ones only to find the shapes of their results. Operators
with the same arguments, which know the shapes, take their place; the graph that is read has the
names of the real ones.
"""
from __future__ import annotations

import torch

# What stands in for which operator.
REAL_NAMES = {"easyscale.lstm.default": "aten.lstm.input",
              "easyscale.gru.default": "aten.gru.input"}

_OPTIONS = ("Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
            "bool bidirectional, bool batch_first")
_library = torch.library.Library("easyscale", "FRAGMENT")
_library.define(f"lstm(Tensor input, Tensor[] hx, {_OPTIONS}) -> (Tensor, Tensor, Tensor)")
_library.define(f"gru(Tensor input, Tensor hx, {_OPTIONS}) -> (Tensor, Tensor)")


def _outputs(input: torch.Tensor, h: torch.Tensor, bidirectional: bool) -> torch.Tensor:
    return input.new_empty(*input.shape[:2], h.shape[2] * (1 + bidirectional))


def _lstm(input: torch.Tensor, hx: list[torch.Tensor], params: list[torch.Tensor],
          has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
          batch_first: bool) -> tuple[torch.Tensor, ...]:
    return (_outputs(input, hx[0], bidirectional), *(h.new_empty(h.shape) for h in hx))


def _gru(input: torch.Tensor, hx: torch.Tensor, params: list[torch.Tensor], has_biases: bool,
         num_layers: int, dropout: float, train: bool, bidirectional: bool,
         batch_first: bool) -> tuple[torch.Tensor, ...]:
    return _outputs(input, hx, bidirectional), hx.new_empty(hx.shape)


_library.impl("lstm", _lstm, "Meta")
_library.impl("gru", _gru, "Meta")
