"""Where operators are registered that are written with others."""
from __future__ import annotations

from collections.abc import Callable

import torch

REWRITES: dict[str, Callable] = {}
FP32_MAX = torch.finfo(torch.float32).max


def rewrites(*names: str) -> Callable:
    """Registers a function for overloads such as "fmod.Scalar"."""
    def register(function: Callable) -> Callable:
        for name in names:
            REWRITES[f"aten.{name}"] = function
        return function
    return register
