"""torch.ctc_loss while a forward pass is traced: the sums over alignments, written with operators.

The gradient follows from the sums, as that of the definition does. PyTorch's own assumes that the
probabilities come from a log-softmax; behind one both are the same.
"""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .errors import CaptureError
from .selected import Selected

NONE = -1e30        # the logarithm of no probability: sums of it stay finite
NO_ALIGNMENT = 1e29  # a loss above it has no alignment at all
STEPS_MAX = 512     # each takes about ten nodes


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any,
             blank: int = 0, reduction: int = 1, zero_infinity: bool = False) -> Tensor:
    """log_probs [time, n, classes] or [time, classes], targets [n, labels] or [labels]."""
    single = log_probs.dim() == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
    time, n, classes = log_probs.shape
    if time > STEPS_MAX:
        raise CaptureError(f"ctc_loss of {time} steps; at most {STEPS_MAX} can be captured")
    if isinstance(targets, Selected) and targets.mask.numel() % n == 0:
        targets = _compact(targets, n)
    elif targets.dim() == 1 and not single:
        raise CaptureError("ctc_loss with all targets one after the other in one axis, where their "
                           "places depend on their lengths; pass them padded as [n, labels]")
    targets = targets.reshape(n, -1).long()
    input_lengths, target_lengths = (_lengths(x, n) for x in (input_lengths, target_lengths))
    used = torch.arange(targets.shape[1]) < target_lengths
    labels = torch.where(used, targets, blank)
    states = _states(labels, blank)
    losses = _sums(log_probs, states, states != blank, input_lengths, target_lengths)
    if zero_infinity:
        losses = torch.where(losses > NO_ALIGNMENT, torch.zeros_like(losses), losses)
    if reduction == 1:
        return (losses / target_lengths.squeeze(1).clamp(min=1)).mean()
    if reduction == 2:
        return losses.sum()
    return losses.squeeze(0) if single else losses


def _compact(targets: Selected, n: int) -> Tensor:
    """Labels [n, labels] of which a mask chooses some: those come first, in their order."""
    labels, mask = targets.full.reshape(n, -1), targets.mask.reshape(n, -1)
    place = mask.long().cumsum(1) - 1
    goes = mask.unsqueeze(2) & (place.unsqueeze(2) == torch.arange(labels.shape[1]))
    return (labels.unsqueeze(2) * goes).sum(1)


def _lengths(lengths: Any, n: int) -> Tensor:
    """[n, 1]."""
    if not isinstance(lengths, Tensor):
        lengths = torch.tensor(lengths)
    return lengths.reshape(-1, 1).expand(n, 1).long()


def _states(labels: Tensor, blank: int) -> Tensor:
    """[n, 2 * labels + 1]: a blank before, between and behind the labels."""
    n = labels.shape[0]
    pairs = torch.stack([torch.full_like(labels, blank), labels], 2).reshape(n, -1)
    return torch.cat([pairs, torch.full_like(labels[:, :1], blank)
                      if labels.shape[1] else labels.new_full((n, 1), blank)], 1)


def _sums(log_probs: Tensor, states: Tensor, is_label: Tensor, input_lengths: Tensor,
          target_lengths: Tensor) -> Tensor:
    """The negative logarithm of the sum over all alignments, [n]."""
    time, n, _ = log_probs.shape
    count = states.shape[1]
    emitted = torch.gather(log_probs, 2, states.unsqueeze(0).expand(time, n, count))

    def moved(x: Tensor, by: int) -> Tensor:
        return torch.nn.functional.pad(x[:, :-by], (by, 0), value=NONE)[:, :count]
    # A label may follow the one before it without a blank, if they differ.
    before = torch.nn.functional.pad(states[:, :-2], (2, 0), value=-1)[:, :count]
    skips = is_label & (states != before) & (torch.arange(count) >= 2)
    none = torch.full((), NONE)
    alpha = torch.where(torch.arange(count) < 2, emitted[0], none)
    for t in range(1, time):
        ways = [alpha, moved(alpha, 1)]
        if count > 2:
            ways.append(torch.where(skips, moved(alpha, 2), none))
        new = torch.logsumexp(torch.stack(ways), 0) + emitted[t]
        alpha = torch.where(t < input_lengths, new, alpha)
    last = torch.gather(alpha, 1, 2 * target_lengths)
    other = torch.gather(alpha, 1, (2 * target_lengths - 1).clamp(min=0))
    other = torch.where(target_lengths > 0, other, none)
    return -torch.logsumexp(torch.cat([last, other], 1), 1)
