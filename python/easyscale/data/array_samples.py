"""Samples from arrays: NumPy arrays, tensors or memory-mapped .npy files."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..allowed import EVERY, INT32, Allowed
from ..errors import UsageError
from .dataset_samples import STORED, to_numpy
from .rounding import Rounding

CHUNK_BYTES = 16 << 20
FIRST_SAMPLES = 8  # that a capture looks at
ALL_INTEGERS = Allowed((EVERY,))


@dataclass(frozen=True)
class Arrays:
    """The samples of one half of the data; `arrays` is made of sequences [samples, ...].

    The keys are texts for named arrays, and numbers from 0 for the others.
    """

    arrays: Mapping[Any, Any]

    @property
    def is_named(self) -> bool:
        """Whether the user has named the arrays."""
        return all(isinstance(key, str) for key in self.arrays)

    @property
    def samples(self) -> int:
        """The number of samples."""
        return len(next(iter(self.arrays.values())))

    def head(self, samples: int) -> dict[Any, np.ndarray]:
        """The first samples of every array, as [samples, ...] in its own type."""
        return {key: to_numpy(array[:samples]).copy() for key, array in self.arrays.items()}

    def table(self, eval_data: Arrays | None) -> dict[str, Any]:
        """The table [data] of a job."""
        return {"kind": "arrays", "path": "data"}

    def check_eval(self, eval_data: Arrays) -> None:
        """Raises UsageError unless the evaluation data have samples like these."""
        if not type(eval_data) is type(self):
            raise UsageError(f"eval_data is {type(eval_data).__name__}: allowed is "
                             f"{type(self).__name__}, as data")
        heads = [half.head(1) for half in (self, eval_data)]
        wanted, found = ({key: array.shape[1:] for key, array in head.items()} for head in heads)
        if wanted != found:
            raise UsageError(f"eval_data has the arrays {found}: allowed is {wanted}, as in data "
                             "(the shape of a sample by array)")
        for key, array in heads[1].items():
            kinds = ["f" if half.dtype.kind == "f" else "i" for half in (heads[0][key], array)]
            if kinds[0] != kinds[1]:
                raise UsageError(f"eval_data: {name_of(key)} has elements of the type {array.dtype}: "
                                 f"allowed is {heads[0][key].dtype}, as in data")

    def check_numbers(self) -> None:
        """Raises UsageError if the first samples have a number that is not finite, or lose their
        differences in fp32."""
        for key, array in self.head(FIRST_SAMPLES).items():
            if array.dtype.kind == "f":
                _refuse_if(~np.isfinite(array), array, name_of(key), 0, _finite)
            rounding = Rounding(name_of(key))
            rounding.add(array)
            rounding.check()

    def write(self, folder: Path, eval_data: Arrays | None, names: Mapping[str, Any],
              allowed: Mapping[str, Allowed]) -> None:
        """Writes the samples of both halves; `names` says which array is which input of the model.

        The files are FOLDER/train/NAME.npy and FOLDER/eval/NAME.npy. `allowed` has the integers of
        the inputs by name. Raises UsageError, which names the array and the sample, for a value
        that is not allowed.
        """
        for half, data in (("train", self), ("eval", eval_data)):
            if data is not None:
                (folder / half).mkdir(parents=True)
                for name, key in names.items():
                    write_array(folder / half / f"{name}.npy", data.arrays[key], name_of(key),
                                allowed.get(name))

    def check_inputs(self, inputs: Sequence[str], keys: Mapping[str, Any]) -> None:
        """Raises UsageError if the engine fills the inputs of the model in another order."""


def arrays(*positional: Any, **named: Any) -> Arrays:
    """Samples from arrays [samples, ...]: NumPy arrays, tensors or memory-mapped .npy files.

    Arrays without names are the arguments of the model in their order, and the last one is the
    target of the loss. Named arrays are the arguments of the model with these names, and those with
    other names are the targets. A job whose model returns its loss has no targets.

    Floating-point numbers are stored as fp32 and integers with 32 bits. An integer that does not
    fit, a number that is not finite in fp32, and numbers of float64 whose differences are lost in
    fp32 (rounding.py) are errors.

    >>> arrays(np.zeros((10, 3)), np.arange(10)).samples
    10
    """
    if positional and named:
        raise UsageError("arrays: give either all arrays with names or all without")
    found: dict[Any, Any] = dict(named) or dict(enumerate(positional))
    if not found:
        raise UsageError("arrays: there is no array")
    for key, array in found.items():
        _check_array(name_of(key), array)
    counts = {name_of(key): len(array) for key, array in found.items()}
    if len(set(counts.values())) != 1:
        raise UsageError("arrays: all arrays must have the same number of samples, but there are "
                         + ", ".join(f"{count} in {name}" for name, count in counts.items()))
    return Arrays(found)


def write_array(file: Path, array: Any, name: str, allowed: Allowed | None) -> None:
    """Writes an array [samples, ...] as a .npy file of a stored type, in pieces of some MiB."""
    first = to_numpy(array[:1])
    stored = STORED[first.dtype.name]
    shape = (len(array), *first.shape[1:])
    out = np.lib.format.open_memmap(file, mode="w+", dtype=stored, shape=shape)
    rounding = Rounding(name)
    for begin, piece in pieces_of(array):
        out[begin:begin + len(piece)] = converted(piece, stored, name, begin, allowed)
        rounding.add(piece)
    rounding.check()
    out.flush()


def pieces_of(array: Any) -> Iterator[tuple[int, np.ndarray]]:
    """The samples of an array in pieces of some MiB, each with the number of its first one."""
    row_bytes = 8 * max(1, int(np.prod(to_numpy(array[:1]).shape[1:])))
    rows = max(1, CHUNK_BYTES // row_bytes)
    for begin in range(0, len(array), rows):
        yield begin, to_numpy(array[begin:begin + rows])


def converted(piece: np.ndarray, stored: type, name: str, begin: int,
              allowed: Allowed | None) -> np.ndarray:
    if piece.dtype.kind in "iu":
        limits = allowed or ALL_INTEGERS
        beyond = (piece < INT32.min) | (piece > INT32.max)
        more = ("; subtract an offset before, or give its quotient and remainder by 2**31 as two "
                "arrays" if beyond.any() else "")
        _refuse_if(limits.wrong(piece), piece, name, begin, lambda place: limits.at(place) + more)
        return piece.astype(stored)
    if piece.dtype.kind == "f":
        _refuse_if(~np.isfinite(piece), piece, name, begin, _finite)
    if piece.dtype == np.float64:
        with np.errstate(over="ignore"):
            single = piece.astype(np.float32)
        _refuse_if(np.isinf(single), piece, name, begin, lambda _: "the numbers of fp32")
        return single
    return piece.astype(stored)


def _finite(_: tuple[int, ...]) -> str:
    return "a finite number"


def _refuse_if(wrong: np.ndarray, piece: np.ndarray, name: str, begin: int,
               allowed: Callable[[tuple[int, ...]], str]) -> None:
    """`allowed` says what a place of a sample takes."""
    if not wrong.any():
        return
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    raise UsageError(f"{name}: sample {begin + place[0]} has the value {piece[place]}: allowed is "
                     f"{allowed(place[1:])}")


def _check_array(name: str, array: Any) -> None:
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise UsageError(f"{name} is {type(array).__name__}: allowed is a NumPy array, a tensor or "
                         "a memory-mapped .npy file")
    if len(array.shape) == 0 or len(array) == 0:
        raise UsageError(f"{name} has the shape {tuple(array.shape)}: allowed is [samples, ...] "
                         "with at least one sample")
    dtype = to_numpy(array[:1]).dtype
    if dtype.name not in STORED:
        raise UsageError(f"{name} has elements of the type {dtype}: allowed are "
                         + ", ".join(STORED))


def name_of(key: Any) -> str:
    return key if isinstance(key, str) else f"array {key}"
