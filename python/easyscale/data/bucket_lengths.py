"""Which length buckets a job has, and to which one a sample belongs. Pure functions of numbers.

A size is a length (n,), or the height and width of an image (h, w).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UsageError

Size = tuple[int, ...]

MOST = 16  # store/dataset/length_buckets.h
MULTIPLE = 8  # of the lengths that are chosen; the longest one stays as it is
CANDIDATES = 512


def as_sizes(sizes: Any, samples: int) -> np.ndarray:
    """The sizes of samples as integers [samples, axes]. Raises UsageError."""
    found = np.asarray(sizes)
    if found.ndim == 1:
        found = found[:, np.newaxis]
    if found.dtype.kind not in "iu" or found.ndim != 2 or found.shape[1] not in (1, 2):
        raise UsageError(f"lengths has the shape {np.shape(sizes)} and elements of the type "
                         f"{found.dtype}: allowed is an integer for each sample, or two, the height "
                         "and width of an image")
    if len(found) != samples:
        raise UsageError(f"lengths has {len(found)} elements: allowed are {samples}, one for each sample")
    wrong = np.flatnonzero((found < 1).any(axis=1))
    if wrong.size:
        raise UsageError(f"lengths: sample {wrong[0]} has {_text(found[wrong[0]])}: allowed is at least 1")
    return found.astype(np.int64)


def given(buckets: Sequence[int | Sequence[int]], axes: int) -> list[Size]:
    """The buckets that a user names, in the order of the programs. Raises UsageError."""
    if not 1 <= len(buckets) <= MOST:
        raise UsageError(f"buckets has {len(buckets)} entries: allowed are 1 to {MOST}")
    sizes: list[Size] = []
    for bucket in buckets:
        size = np.atleast_1d(np.asarray(bucket))
        if size.shape != (axes,) or size.dtype.kind not in "iu" or (size < 1).any():
            raise UsageError(f"buckets: {bucket!r} is no size: allowed is "
                             + ("a length of at least 1" if axes == 1 else "(height, width)"))
        sizes.append(tuple(int(x) for x in size))
    if len(set(sizes)) != len(sizes):
        raise UsageError(f"buckets = {list(buckets)!r}: allowed is each size once")
    return in_order(sizes)


def chosen(sizes: np.ndarray, most: int) -> list[Size]:
    """At most `most` buckets with which the samples have the fewest elements.

    Sizes of images are all that occur. Raises UsageError.

    >>> chosen(np.array([[3], [4], [4], [100]]), 2)
    [(100,), (8,)]
    """
    if not 1 <= most <= MOST:
        raise UsageError(f"buckets = {most}: allowed is 1 to {MOST}, or a list of sizes")
    if sizes.shape[1] == 1:
        return [(length,) for length in reversed(_best(sizes[:, 0], most))]
    different = [tuple(int(x) for x in size) for size in np.unique(sizes, axis=0)]
    if len(different) > most:
        raise UsageError(f"the images have {len(different)} sizes: allowed are at most {most}; give a "
                         "list buckets=[(height, width), ...], to which smaller images are padded, or "
                         "resize the images")
    return in_order(different)


def _best(lengths: np.ndarray, most: int) -> list[int]:
    """The lengths of the buckets in ascending order: a sum over all samples is minimised exactly
    among multiples of MULTIPLE and the longest length."""
    longest = int(lengths.max())
    step = MULTIPLE * max(1, -(-longest // (MULTIPLE * CANDIDATES)))
    rounded = np.minimum(-(-lengths // step) * step, longest)
    ends, counts = np.unique(rounded, return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)])  # samples below each candidate
    # cost[j]: the elements of the samples up to candidate j in the buckets used so far.
    cost, chains = below[1:] * ends, [[-1] * len(ends)]
    for _ in range(min(most, len(ends)) - 1):
        # [i, j]: the last bucket is candidate j, and the one before it is i.
        grown = cost[:, np.newaxis] + (below[1:][np.newaxis] - below[1:][:, np.newaxis]) * ends
        grown = np.where(np.tri(len(ends), k=-1, dtype=bool).T, grown, np.iinfo(np.int64).max)
        before = grown.argmin(axis=0)
        better = grown.min(axis=0) < cost
        chains.append([int(i) if x else -1 for i, x in zip(before, better)])
        cost = np.where(better, grown.min(axis=0), cost)
    return [int(ends[i]) for i in _walk(chains, len(ends) - 1)]


def _walk(chains: list[list[int]], last: int) -> list[int]:
    found = [last]
    for chain in reversed(chains):
        if chain[found[0]] >= 0:
            found.insert(0, chain[found[0]])
    return found


def holds(larger: Sequence[int], smaller: Sequence[int]) -> bool:
    """Whether a sample of the smaller size can be padded to the larger one.

    >>> holds((4, 6), (4, 2)), holds((4, 6), (5, 2))
    (True, False)
    """
    return all(x >= y for x, y in zip(larger, smaller))


def in_order(sizes: Sequence[Size]) -> list[Size]:
    """The sizes in the order of the programs: the largest first, and behind a size, as far as there
    is one, the largest of the others that it holds, so that ladders are long.

    >>> in_order([(2, 4), (4, 2), (2, 2), (4, 4)])
    [(4, 4), (4, 2), (2, 2), (2, 4)]
    """
    rest = sorted(sizes, key=lambda size: (int(np.prod(size)), size), reverse=True)
    found: list[Size] = []
    while rest:
        next_one = next((x for x in rest if found and holds(found[-1], x)), rest[0])
        rest.remove(next_one)
        found.append(next_one)
    return found


def numbers_of(sizes: np.ndarray, buckets: Sequence[Size], whose: str = "lengths") -> np.ndarray:
    """The number of the smallest bucket that holds each sample. Raises UsageError."""
    elements = np.array([int(np.prod(bucket)) for bucket in buckets])
    fits = np.stack([np.all(sizes <= np.array(bucket), axis=1) for bucket in buckets], axis=1)
    wrong = np.flatnonzero(np.logical_not(fits.any(axis=1)))
    if wrong.size:
        raise UsageError(f"{whose}: sample {wrong[0]} has {_text(sizes[wrong[0]])}: allowed is what a "
                         f"bucket holds, {', '.join(map(_text, buckets))}")
    return np.where(fits, elements, np.iinfo(np.int64).max).argmin(axis=1).astype(np.uint8)


def check_all_used(numbers: np.ndarray, buckets: Sequence[Size]) -> None:
    """Raises UsageError for a bucket to which no sample belongs."""
    unused = np.flatnonzero(np.bincount(numbers, minlength=len(buckets)) == 0)
    if unused.size:
        raise UsageError(f"buckets: no sample belongs to {_text(buckets[unused[0]])}: allowed are "
                         "buckets with samples")


def global_batches(numbers: np.ndarray, buckets: Sequence[Size], global_batch: int) -> int:
    """The global steps of an epoch (store/dataset/length_buckets.h). Raises UsageError."""
    counts = np.bincount(numbers, minlength=len(buckets))
    steps, begin = 0, 0
    for end in range(1, len(buckets) + 1):
        if end < len(buckets) and holds(buckets[end - 1], buckets[end]):
            continue
        samples = int(counts[begin:end].sum())
        if samples < global_batch:
            raise UsageError(f"data has {samples} samples in the buckets "
                             f"{', '.join(map(_text, buckets[begin:end]))}: allowed is at least max_p * "
                             f"batch_size = {global_batch}, one global step")
        steps, begin = steps + samples // global_batch, end
    return steps


def _text(size: Sequence[int]) -> str:
    return str(int(size[0])) if len(size) == 1 else f"({', '.join(str(int(x)) for x in size)})"
