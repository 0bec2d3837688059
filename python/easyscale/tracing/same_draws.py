"""Makes a module draw given random numbers, so that it can be compared with its program."""
from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..interpret import Draw, normal_numbers
from .errors import CaptureError
from .lines import calling_line
from .schema import named_arguments

FIRST_SEED = 0x4553_0000_0000
DRAWS_MAX = 2 ** 31  # of a forward pass
LEAST_UNIFORM = 2.0 ** -25  # takes the place of 0 where exponential numbers are made


def drops_a_layer() -> bool:
    """Whether a single random number is asked for by transformers: a LayerDrop decision, which is no
    draw of a captured model (patches.py)."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
            ("torch.", "easyscale.")):
        frame = frame.f_back
    return frame.f_globals.get("__name__", "").startswith("transformers.")


def site_numbers(site: int, shape: tuple[int, ...]) -> torch.Tensor:
    """The uniform numbers of a random site in the self-check."""
    generator = torch.Generator().manual_seed(1000003 * (site + 1))
    return torch.rand(tuple(shape), generator=generator)


def refused_seed() -> CaptureError:
    """The error for a forward pass that sets the seed of torch."""
    return CaptureError(f"the forward pass at {calling_line()} sets the seed of torch (as by "
                        "torch.manual_seed), but the engine draws other numbers in each step: draw "
                        "numbers that stay the same once, in __init__, and keep them with "
                        "register_buffer")


class SameDraws(TorchDispatchMode):
    """Replaces the random numbers of a module by those of the sites, in the order of execution.

    `draw` returns the numbers of a site, and `site_of` the site of a draw; without it the draws are
    numbered from 0, as in training. The module gets 1 - u of the sites in `mirrored`.

    The number of draws so far is kept in the state of torch's random generator. A checkpoint of
    torch restores that state before it computes its function again, which then draws the same.
    """

    def __init__(self, draw: Draw = site_numbers, site_of: Callable[[int], int] = int,
                 mirrored: Collection[int] = ()) -> None:
        super().__init__()
        self.draw, self.site_of, self.mirrored = draw, site_of, mirrored

    def __enter__(self) -> SameDraws:
        self._state_before = torch.get_rng_state()
        torch.default_generator.manual_seed(FIRST_SEED)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.set_rng_state(self._state_before)

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (),
                           kwargs: dict | None = None) -> Any:
        name = str(function).removeprefix("aten.")
        if name not in REPLACED:
            return function(*args, **(kwargs or {}))
        named = named_arguments(function, args, kwargs or {})
        if name == "rand.default" and not list(named["size"]) and drops_a_layer():
            return function(*args, **(kwargs or {}))
        return REPLACED[name](self, **named)

    def _site(self) -> int:
        seed = torch.default_generator.initial_seed()
        draw = seed - FIRST_SEED
        if not 0 <= draw < DRAWS_MAX:
            raise refused_seed()
        torch.default_generator.manual_seed(seed + 1)
        return self.site_of(draw)

    def uniform(self, shape: Any) -> torch.Tensor:
        """The next uniform numbers."""
        site = self._site()
        numbers = self.draw(site, tuple(shape))
        return 1 - numbers if site in self.mirrored else numbers

    def normal(self, shape: Any) -> torch.Tensor:
        """The next normal numbers."""
        return normal_numbers(self.draw, self._site(), tuple(shape))

    def integers(self, low: int, high: int, shape: Any) -> torch.Tensor:
        """The next integers in [low, high)."""
        return (self.uniform(shape) * (high - low)).floor().long() + low

    def chosen(self, p: Any, shape: Any) -> torch.Tensor:
        """True with the probability p. A dropout keeps an element by the same comparison."""
        return self.uniform(shape) < p


def exponential(uniform: torch.Tensor) -> torch.Tensor:
    """Exponential numbers, which are above 0 as in torch, because many users take their log."""
    return -torch.log1p(-uniform.clamp(min=LEAST_UNIFORM))


REPLACED: dict[str, Callable] = {}


def _replaces(*names: str) -> Callable:
    def register(function: Callable) -> Callable:
        for name in names:
            REPLACED[name] = function
        return function
    return register


_replaces("rand.default")(lambda s, size, **_: s.uniform(size))
_replaces("randn.default")(lambda s, size, **_: s.normal(size))
_replaces("rand_like.default")(lambda s, self, **_: s.uniform(self.shape).to(self.dtype))
_replaces("randn_like.default")(lambda s, self, **_: s.normal(self.shape).to(self.dtype))
_replaces("randint.default")(lambda s, high, size, **_: s.integers(0, high, size))
_replaces("randint.low")(lambda s, low, high, size, **_: s.integers(low, high, size))
_replaces("randperm.default")(lambda s, n, **_: s.uniform((n,)).argsort(stable=True))
_replaces("exponential_.default")(
    lambda s, self, lambd=1.0, **_: self.copy_(exponential(s.uniform(self.shape)) / lambd))
_replaces("bernoulli_.float", "bernoulli_.Tensor")(
    lambda s, self, p=0.5, **_: self.copy_(s.chosen(p, self.shape)))
_replaces("bernoulli.p")(lambda s, self, p, **_: s.chosen(p, self.shape).to(self.dtype))
_replaces("bernoulli.default")(
    lambda s, self, **_: s.chosen(self, self.shape).to(self.dtype))


@_replaces("uniform_.default")
def _uniform_(s: SameDraws, self: torch.Tensor, to: float = 1.0, **named: Any) -> torch.Tensor:
    low = named["from"]
    return self.copy_(s.uniform(self.shape) * (to - low) + low)


@_replaces("normal_.default")
def _normal_(s: SameDraws, self: torch.Tensor, mean: float, std: float, **_: Any) -> torch.Tensor:
    return self.copy_(s.normal(self.shape) * std + mean)


@_replaces("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor",
           "normal.float_float")
def _normal(s: SameDraws, mean: Any, std: Any, size: Any = None, **_: Any) -> torch.Tensor:
    shape = size or torch.broadcast_shapes(*(x.shape for x in (mean, std)
                                             if isinstance(x, torch.Tensor)))
    return s.normal(shape) * std + mean


def _slopes(s: SameDraws, self: torch.Tensor, noise: torch.Tensor, lower: float, upper: float,
            training: bool) -> torch.Tensor:
    """What rrelu multiplies with; its own backward multiplies with it too."""
    slope = s.uniform(self.shape) * (upper - lower) + lower if training else (lower + upper) / 2
    return noise.copy_(torch.where(self > 0, torch.ones_like(self), torch.ones_like(self) * slope))


_replaces("rrelu_with_noise.default")(
    lambda s, self, noise, lower, upper, training, **_: self * _slopes(
        s, self, noise, lower, upper, training))
_replaces("rrelu_with_noise_.default")(
    lambda s, self, noise, lower, upper, training, **_: self.mul_(_slopes(
        s, self, noise, lower, upper, training)))
