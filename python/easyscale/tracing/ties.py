"""Which of two equal numbers has the gradient where one limits the other (clamp, fmax)."""
from __future__ import annotations

import torch


def _are_shared() -> bool:
    number, limit = (torch.zeros(1, requires_grad=True) for _ in range(2))
    with torch.enable_grad():
        gradient, = torch.autograd.grad(torch.clamp(number, min=limit), limit)
    return float(gradient) > 0


# Newer versions of torch give a half to each, as that of `maximum`; older ones all to the first. The
# newer ones also have the slope 0 of a clamp by numbers at its limits, and the older ones 1.
TIES_ARE_SHARED = _are_shared()
