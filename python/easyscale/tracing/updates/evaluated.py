"""Weights that evaluations use in place of the parameters, as the copy of an optimizer has them after a
step."""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


def evaluated_weights(optimizer: Optimizer) -> dict[int, Tensor]:
    """What `optimizer.eval()` makes of the parameters, by the ids of these; nothing for an optimizer
    without `eval` and `train`, as those of the package schedulefree have them.

    `eval` gets copies of the parameters, and its groups and attributes are set back, because `train`
    would give the parameters back with other roundings.
    """
    if not all(callable(getattr(optimizer, name, None)) for name in ("eval", "train")):
        return {}
    groups = [dict(group) for group in optimizer.param_groups]
    attributes = dict(vars(optimizer))
    copies: dict[int, Tensor] = {}
    for group in optimizer.param_groups:
        own = group["params"]
        group["params"] = [p.detach().clone() for p in own]
        for p, copied in zip(own, group["params"]):
            copies[id(p)] = copied
            if p in optimizer.state:
                optimizer.state[copied] = optimizer.state[p]
    optimizer.eval()  # type: ignore[attr-defined]
    for copied in copies.values():
        optimizer.state.pop(copied, None)
    for group, before in zip(optimizer.param_groups, groups):
        group.clear()
        group.update(before)
    vars(optimizer).update(attributes)
    return copies


def averages(model: Any, optimizer: Optimizer, before: dict[int, Tensor], count: int) -> dict[int, Tensor]:
    """The averages of the parameters by their ids, as `AveragedModel.update_parameters` of torch makes them
    from those of `count` steps."""
    found: dict[int, Tensor] = {}
    number = torch.tensor(count)
    for group in optimizer.param_groups:
        for p in group["params"]:
            current = p.detach()
            if count == 0:
                found[id(p)] = current.clone()
                continue
            mean = found[id(p)] = before[id(p)]
            if model.multi_avg_fn is not None:
                model.multi_avg_fn([mean], [current], number)
            elif model.avg_fn is not None:
                mean.copy_(model.avg_fn(mean, current, number))
            else:
                mean.lerp_(current, 1 / (count + 1))
    return found
