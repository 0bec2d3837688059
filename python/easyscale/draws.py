"""The random numbers of the engine, so that a step can be repeated in PyTorch with the same ones.

They are Philox4x32-10 as docs/reference/operators.md defines them: a function of the seed of the
job, the step, the rank and the site, on which nothing else has an influence.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

EVALUATION_RANK = 0xffffffff  # the `step` is then the number of the mini-batch
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xffffffff


@dataclass(frozen=True)
class Key:
    """Whose numbers they are. Steps count from 0."""

    seed: int
    step: int
    rank: int

    def uniform(self, site: int, shape: tuple[int, ...]) -> np.ndarray:
        """The uniform numbers in [0, 1) of a random site, as fp32."""
        element = np.arange(int(np.prod(shape)), dtype=np.uint64)
        counter = (element >> 7) * 32 + (element & 31)
        words = np.choose((element >> 5).astype(np.intp) & 3, self._words(counter, site))
        numbers = (words >> 8).astype(np.float32) * np.float32(2.0 ** -24)
        return numbers.reshape(shape)

    def _words(self, counter: np.ndarray, site: int) -> list[np.ndarray]:
        words = [counter] + [np.full_like(counter, x) for x in (site, self.step, self.rank)]
        key = [self.seed & _LOW, self.seed >> 32 & _LOW]
        for _ in range(10):
            first, second = (words[2 * i] * np.uint64(_MULTIPLIERS[i]) for i in range(2))
            words = [(second >> 32) ^ words[1] ^ np.uint64(key[0]), second & _LOW,
                     (first >> 32) ^ words[3] ^ np.uint64(key[1]), first & _LOW]
            key = [(part + step) & _LOW for part, step in zip(key, _KEY_STEPS)]
        return words
