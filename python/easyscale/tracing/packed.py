"""Packed sequences while a forward pass is traced.

A packed sequence leaves out the time steps behind the end of each sequence, so its shapes depend on
contents. Here the sequences stay padded, and a recurrent layer computes what it computes for the
packed ones: zeros behind the ends, the states at the ends, and a backward direction that begins at
the ends. Nothing behind an end has an influence on a result or a gradient.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.utils import rnn

from .errors import CaptureError

# A number added to the gates of an LSTM behind an end: its cell state stays, because their sigmoids
# are exactly 0 (the input gate) and 1 (the forget gate).
CLOSED = 1e4

_RUN = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}


class Padded(rnn.PackedSequence):
    """What pack_padded_sequence returns to a traced model."""

    sequences: torch.Tensor  # [n, time, ...]
    lengths: torch.Tensor  # [n], each of 1 to `time`

    def __new__(cls, sequences: torch.Tensor, lengths: torch.Tensor) -> Padded:
        made = tuple.__new__(cls, (None, None, None, None))
        made.sequences, made.lengths = sequences, lengths
        return made

    def _refuse(self, *_: Any) -> Any:
        raise CaptureError(
            "the model reads the elements of a packed sequence, whose number depends on the lengths; "
            "compute with the padded sequences, pack them only for a recurrent layer, and unpack its "
            "result with torch.nn.utils.rnn.pad_packed_sequence")

    data = batch_sizes = sorted_indices = unsorted_indices = property(_refuse)
    __getitem__ = __iter__ = _replace = _refuse

    def to(self, *_: Any, **__: Any) -> Padded:
        """Devices and types of a captured model are the engine's."""
        return self

    cpu = cuda = to


@dataclass(frozen=True)
class _Ends:
    """Where sequences [n, time, ...] end."""

    lengths: torch.Tensor  # [n]
    time: int

    def _steps(self) -> torch.Tensor:
        return torch.arange(self.time, device=self.lengths.device)[None, :]

    def inside(self) -> torch.Tensor:
        """[n, time, 1]: whether a time step lies before the end."""
        return (self._steps() < self.lengths[:, None])[:, :, None]

    def last(self, x: torch.Tensor) -> torch.Tensor:
        """[n, features]: each sequence at its last time step."""
        places = (self.lengths - 1)[:, None, None].expand(-1, 1, x.shape[2])
        return x.gather(1, places)[:, 0]

    def zero(self) -> torch.Tensor:
        """[n]: 0 for each sequence, and not finite for one whose length torch would refuse, because no
        such place exists; so a job ends with an error."""
        zeros = torch.zeros(len(self.lengths), self.time, device=self.lengths.device)
        return zeros.gather(1, (self.lengths - 1)[:, None])[:, 0]

    def reversed(self, x: torch.Tensor) -> torch.Tensor:
        """[n, time, features]: each sequence backwards before its end, unchanged behind it."""
        steps, ends = self._steps(), self.lengths[:, None]
        places = torch.where(steps < ends, ends - 1 - steps, steps)[:, :, None]
        return x.gather(1, places.expand(-1, -1, x.shape[2]))


def pack(input: torch.Tensor, lengths: Any, batch_first: bool = False,
         enforce_sorted: bool = True) -> Padded:
    """Stands in for pack_padded_sequence. The order of the samples has no influence on a result."""
    sequences = input if batch_first else input.transpose(0, 1)
    return Padded(sequences, torch.as_tensor(lengths).to(torch.int64))


def unpack(sequence: Any, batch_first: bool = False, padding_value: float = 0.0,
           total_length: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Stands in for pad_packed_sequence."""
    if not isinstance(sequence, Padded):
        raise CaptureError("pad_packed_sequence is called with a sequence that was packed outside of "
                           "the forward pass; pack it there")
    x = sequence.sequences
    if total_length != x.shape[1]:
        raise CaptureError(
            "pad_packed_sequence returns as many time steps as the longest sequence of a mini-batch "
            f"has, which a captured model does not know; give it total_length={x.shape[1]}, the "
            "length of the padded sequences" + (
                "" if total_length is None else f", instead of {total_length}"))
    ends, others = _Ends(sequence.lengths, x.shape[1]), [1 for _ in x.shape[2:]]
    inside = ends.inside().reshape(*x.shape[:2], *others)
    x = torch.where(inside, x, padding_value) + ends.zero().reshape(-1, 1, *others)
    return x if batch_first else x.transpose(0, 1), sequence.lengths


def refuse_lists() -> Any:
    """Stands in for functions of lists of sequences."""
    raise CaptureError("the model packs or unpacks a list of sequences, whose shapes depend on their "
                       "lengths; use pad_sequence for the data and pack_padded_sequence")


def _held(x: torch.Tensor, weights: list[torch.Tensor],
          inside: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Inputs and weights of an LSTM whose cell state does not change behind the ends: another input
    is 1 there, and its weights close the gates."""
    hidden = weights[0].shape[0] // 4
    closed = torch.tensor([-CLOSED, CLOSED, 0.0, 0.0], device=x.device).repeat_interleave(hidden)
    return (torch.cat([x, (~inside).to(x.dtype)], 2),
            [torch.cat([weights[0], closed[:, None]], 1), *weights[1:]])


def _direction(module: nn.RNNBase, x: torch.Tensor, ends: _Ends, weights: list[torch.Tensor],
               state: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """One direction of a layer over x [n, time, features]: its outputs [n, time, hidden], which mean
    something before the ends only, and its last states [n, hidden]."""
    run = getattr(torch._VF, _RUN[module.mode])
    is_lstm = module.mode == "LSTM"
    if is_lstm:
        x, weights = _held(x, weights, ends.inside())
    states = [s[None] for s in state]
    out, *last = run(x, states if is_lstm else states[0], weights, module.bias, 1, 0.0,
                     module.training, False, True)
    return out, [ends.last(out), *(c[0] for c in last[1:])]


def _initial(module: nn.RNNBase, x: torch.Tensor, hx: Any) -> list[torch.Tensor]:
    """The states [layers * directions, n, hidden] at the start: h, and c of an LSTM."""
    if hx is not None:
        return list(hx) if module.mode == "LSTM" else [hx]
    count = module.num_layers * (2 if module.bidirectional else 1)
    h = x.new_zeros(count, x.shape[0], module.proj_size or module.hidden_size)
    return [h, x.new_zeros(count, x.shape[0], module.hidden_size)] if module.mode == "LSTM" else [h]


def run_padded(module: nn.RNNBase, packed: Padded, hx: Any = None) -> tuple[Padded, Any]:
    """What a recurrent layer returns for packed sequences."""
    # As torch does: reading a weight that is parametrized may change buffers.
    module._update_flat_weights()
    x, ends = packed.sequences, _Ends(packed.lengths, packed.sequences.shape[1])
    start, last = _initial(module, x, hx), []
    directions = 2 if module.bidirectional else 1
    width = len(module._flat_weights) // (module.num_layers * directions)
    for layer in range(module.num_layers):
        if layer > 0:
            x = nn.functional.dropout(x, module.dropout, module.training)
        outputs = []
        for backwards in range(directions):
            number = layer * directions + backwards
            out, states = _direction(module, ends.reversed(x) if backwards else x, ends,
                                     module._flat_weights[number * width:(number + 1) * width],
                                     [s[number] for s in start])
            outputs.append(ends.reversed(out) if backwards else out)
            last.append(states)
        x = torch.cat(outputs, 2) if len(outputs) > 1 else outputs[0]
    states = tuple(torch.stack(part) for part in zip(*last))
    return Padded(x, packed.lengths), states if module.mode == "LSTM" else states[0]


def _over_padded(real: Callable) -> Callable:
    def forward(module: nn.RNNBase, input: Any, hx: Any = None) -> Any:
        return run_padded(module, input, hx) if isinstance(input, Padded) else real(module, input, hx)
    return forward


# Code takes the place of the code of functions in torch, which a model may have imported by their
# names. It has the global names of torch, so it imports what it calls.
def _pack_by_name(*args: Any, **kwargs: Any) -> Any:
    from easyscale.tracing.packed import pack
    return pack(*args, **kwargs)


def _unpack_by_name(*args: Any, **kwargs: Any) -> Any:
    from easyscale.tracing.packed import unpack
    return unpack(*args, **kwargs)


def _refuse_by_name(*args: Any, **kwargs: Any) -> Any:
    from easyscale.tracing.packed import refuse_lists
    return refuse_lists()


@contextlib.contextmanager
def padded_sequences(exchanged: Callable) -> Iterator[None]:
    """In this block, packed sequences stay padded. `exchanged` sets an attribute for a block."""
    with contextlib.ExitStack() as stack:
        for function, replacement in ((rnn.pack_padded_sequence, _pack_by_name.__code__),
                                      (rnn.pad_packed_sequence, _unpack_by_name.__code__),
                                      (rnn.pack_sequence, _refuse_by_name.__code__),
                                      (rnn.unpack_sequence, _refuse_by_name.__code__)):
            stack.enter_context(exchanged(function, "__code__", replacement))
        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            stack.enter_context(exchanged(kind, "forward", _over_padded(kind.forward)))
        yield


def same_dropouts(model: nn.Module, exchanged: Callable) -> contextlib.AbstractContextManager:
    """A block in which the model draws as when it was traced: torch's dropout between recurrent layers
    draws a number for each element of a packed sequence, and the captured one for padding too."""
    for module in model.modules():
        if isinstance(module, nn.RNNBase) and module.training and module.dropout:
            return padded_sequences(exchanged)
    return contextlib.nullcontext()
