"""Windows of the tokens in a folder of shards, read from the disk when they are used.

The engine reads the same files when a job trains (docs/reference/data-formats.md, "Token files"),
and checks them then. Here the windows are counted, and the first ones are examples for the capture.
"""
from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError

# The headers of llm.c: the first of 256 int32, and the type of the tokens after them.
HEADERS: dict[int, np.dtype[Any]] = {20240520: np.dtype("<u2"), 20240801: np.dtype("<u4")}
HEADER_BYTES = 256 * 4


def training_shards(folder: Path, token_type: str) -> list[np.ndarray]:
    """The tokens of every training shard, as memory-mapped arrays in the order of the names."""
    train = folder / "train"
    if train.is_dir():
        files = sorted(x for x in train.iterdir() if x.suffix in (".bin", ".npy") and x.is_file())
    else:
        files = [x for x in (folder / "train.bin",) if x.is_file()]
    if not files:
        raise UsageError(f"{folder} has no tokens: allowed is a folder with train/*.bin, "
                         "train/*.npy or train.bin")
    return [_mapped(file, np.dtype(token_type).newbyteorder("<")) for file in files]


def _mapped(file: Path, raw_type: np.dtype[Any]) -> np.ndarray:
    if file.suffix == ".npy":
        return _mapped_array(file)
    mark = np.fromfile(file, "<i4", count=1)
    has_header = mark.size == 1 and int(mark[0]) in HEADERS
    dtype, begin = (HEADERS[int(mark[0])], HEADER_BYTES) if has_header else (raw_type, 0)
    tokens = max(0, file.stat().st_size - begin) // dtype.itemsize
    if tokens == 0:
        return np.zeros(0, dtype)  # nothing cannot be mapped
    return np.memmap(file, dtype, mode="r", offset=begin, shape=(tokens,))


def _mapped_array(file: Path) -> np.ndarray:
    try:
        array = np.load(file, mmap_mode="r")
    except (EOFError, ValueError) as error:
        raise UsageError(f"{file} is no NumPy array: {error}") from error
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UsageError(f"{file} has the shape {array.shape} and elements of the type "
                         f"{array.dtype}: allowed is one axis of integers")
    return array


class Windows:
    """An array [windows, length] whose rows are read when they are used.

    `lag` is the place of the first token of the first window; a window has `need` tokens, together
    with those of the labels.
    """

    def __init__(self, shards: Sequence[np.ndarray], length: int, need: int, lag: int):
        self._shards, self._length, self._lag = shards, length, lag
        counts = (max(0, len(shard) - (need - length)) // length for shard in shards)
        self._ends = list(accumulate(counts))
        self.shape = (self._ends[-1], length)
        self.dtype = shards[0].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        chosen = [self._row(i) for i in range(*rows.indices(len(self)))]
        return np.stack(chosen) if chosen else np.zeros((0, self._length), self.dtype)

    def _row(self, index: int) -> np.ndarray:
        shard = int(np.searchsorted(self._ends, index, side="right"))
        in_shard = index - (self._ends[shard - 1] if shard else 0)
        first = in_shard * self._length + self._lag
        return np.asarray(self._shards[shard][first:first + self._length])


IGNORED_LABEL = -100
POSITIONS, SEGMENTS = "position_ids", "segment_ids"


class Documents:
    """What the documents in windows say about their tokens: positions, segments or labels.

    `ids` and `labels` are Windows, and a token `end` ends a document. The engine computes the same
    when a job trains (docs/reference/data-formats.md, "Documents in windows").
    """

    def __init__(self, part: str, ids: Windows, labels: Windows, end: int, shifted: bool):
        self._part, self._ids, self._labels = part, ids, labels
        self._end, self._shifted = end, shifted
        self.shape, self.dtype = ids.shape, np.dtype(np.int64)

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, rows: slice) -> np.ndarray:
        ends = self._ids[rows] == self._end
        first = np.zeros_like(ends)  # whether a token is the first one after the end of a document
        first[:, 1:] = ends[:, :-1]
        if self._part == SEGMENTS:
            return first.cumsum(1, dtype=np.int64)
        if self._part == POSITIONS:
            places = np.broadcast_to(np.arange(ends.shape[1]), ends.shape)
            return places - np.maximum.accumulate(np.where(first, places, 0), 1)
        return np.where(ends if self._shifted else first, IGNORED_LABEL,
                        self._labels[rows].astype(np.int64))
