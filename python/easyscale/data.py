"""Samples from NumPy arrays, tensors or memory-mapped files, or from other files.

    data = es.data.arrays(x_train, y_train)
    data = es.data.arrays(input_ids=ids, attention_mask=mask, labels=labels)
    data = es.data.tokens("folder", length=128)
    data = es.data.texts("book.txt", "tokenizer.json", length=128)
    data = es.data.images("folder", size=224)
    data = es.data.webdataset("folder", size=224)
    data = es.data.table("rows.csv", target="price")

An array is [samples, ...]. Nothing is copied until a job is written, and then in pieces. Token
files are never copied.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import UsageError
from .token_files import Windows, training_shards

CHUNK_BYTES = 16 << 20
INT32 = np.iinfo(np.int32)

# What an array becomes in the files of a job.
STORED = {"float64": np.float32, "float32": np.float32, "float16": np.float32,
          "int64": np.int32, "int32": np.int32, "int16": np.int32, "int8": np.int32,
          "uint64": np.int32, "uint32": np.int32, "uint16": np.int32,
          "uint8": np.uint8, "bool": np.bool_}


@dataclass(frozen=True)
class Range:
    """The integers, or fp32 numbers of an input, that are allowed: low <= x <= high."""

    low: int
    high: int


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
        return {key: _numpy(array[:samples]).copy() for key, array in self.arrays.items()}

    def table(self, eval_data: Arrays | None) -> dict[str, Any]:
        """The table [data] of a job."""
        return {"kind": "arrays", "path": "data"}

    def check_eval(self, eval_data: Arrays) -> None:
        """Raises UsageError unless the evaluation data have samples like these."""
        if not type(eval_data) is type(self):
            raise UsageError(f"eval_data is {type(eval_data).__name__}: allowed is "
                             f"{type(self).__name__}, as data")
        wanted, found = ({key: array.shape[1:] for key, array in half.head(1).items()}
                         for half in (self, eval_data))
        if wanted != found:
            raise UsageError(f"eval_data has the arrays {found}: allowed is {wanted}, as in data "
                             "(the shape of a sample by array)")

    def write(self, folder: Path, eval_data: Arrays | None, names: Mapping[str, Any],
              ranges: Mapping[str, Range]) -> None:
        """Writes the samples of both halves; `names` says which array is which input of the model.

        The files are FOLDER/train/NAME.npy and FOLDER/eval/NAME.npy. `ranges` has the allowed
        integers by name. Raises UsageError, which names the array and the sample, for a value that
        is not allowed.
        """
        for half, data in (("train", self), ("eval", eval_data)):
            if data is not None:
                (folder / half).mkdir(parents=True)
                for name, key in names.items():
                    write_array(folder / half / f"{name}.npy", data.arrays[key], _name(key),
                                ranges.get(name))

    def check_inputs(self, inputs: Sequence[str], keys: Mapping[str, Any]) -> None:
        """Raises UsageError if the engine fills the inputs of the model in another order."""


def arrays(*positional: Any, **named: Any) -> Arrays:
    """Samples from arrays [samples, ...]: NumPy arrays, tensors or memory-mapped .npy files.

    Arrays without names are the arguments of the model in their order, and the last one is the
    target of the loss. Named arrays are the arguments of the model with these names, and those with
    other names are the targets. A job whose model returns its loss has no targets.

    Floating-point numbers are stored as fp32 and integers with 32 bits. An integer that does not
    fit, and a number that is infinite only in fp32, is an error.

    >>> arrays(np.zeros((10, 3)), np.arange(10)).samples
    10
    """
    if positional and named:
        raise UsageError("arrays: give either all arrays with names or all without")
    found: dict[Any, Any] = dict(named) or dict(enumerate(positional))
    if not found:
        raise UsageError("arrays: there is no array")
    for key, array in found.items():
        _check_array(_name(key), array)
    counts = {_name(key): len(array) for key, array in found.items()}
    if len(set(counts.values())) != 1:
        raise UsageError("arrays: all arrays must have the same number of samples, but there are "
                         + ", ".join(f"{count} in {name}" for name, count in counts.items()))
    return Arrays(found)


@dataclass(frozen=True)
class Tokens(Arrays):
    """The windows of token files. A job reads the files where they are."""

    folder: Path
    token_type: str
    shifted: bool

    def table(self, eval_data: Arrays | None) -> dict[str, Any]:
        """The table [data] of a job."""
        length = next(iter(self.arrays.values())).shape[1]
        return {"kind": "tokens", "path": str(self.folder), "length": length,
                "token_type": self.token_type, "shifted": self.shifted}

    def check_eval(self, eval_data: Arrays) -> None:
        """Raises UsageError: the folder has the evaluation data."""
        raise UsageError("eval_data: allowed is none with token files; the evaluation uses eval/ or "
                         "val.bin in the folder of data")

    def write(self, folder: Path, eval_data: Arrays | None, names: Mapping[str, Any],
              ranges: Mapping[str, Range]) -> None:
        """Writes nothing: a job reads token files where they are."""

    def check_inputs(self, inputs: Sequence[str], keys: Mapping[str, Any]) -> None:
        """Raises UsageError if the inputs of a model are not the two arrays in the order in which
        the engine fills them: the labels are "labels" or "label", otherwise the second input."""
        ids, labels = self.arrays
        filled = sorted(inputs, key=lambda name: name in ("labels", "label"))
        if [keys[name] for name in filled] != [ids, labels]:
            raise UsageError(f"data: the model has the inputs {', '.join(inputs)}: allowed are the "
                             "tokens and then the labels, or labels with the name labels")


def tokens(folder: str | Path, length: int, *, token_type: str = "uint16", shifted: bool = True,
           names: tuple[str, str] | None = None) -> Tokens:
    """Samples from token files, for a language model: windows of `length` tokens and their labels.

    folder: has the shards train/*.bin or *.npy, and maybe eval/*; or train.bin and maybe val.bin.
    The evaluation uses the second half of the folder, so the job has no `eval_data`.
    token_type: of .bin files without a header, "uint16" or "uint32".
    shifted: the labels are the tokens one place later. False: the labels are the tokens of the
    window themselves, for a model that shifts them itself, as those of transformers do.
    names: the arguments of the model for the tokens and the labels. Without them the tokens are the
    first argument and the labels the target of the loss; with shifted=False the names are
    ("input_ids", "labels").
    """
    if token_type not in ("uint16", "uint32"):
        raise UsageError(f"token_type = {token_type!r}: allowed is 'uint16' or 'uint32'")
    if length < 1:
        raise UsageError(f"length = {length}: allowed is at least 1")
    place = Path(folder).resolve()
    shards = training_shards(place, token_type)
    lag = 1 if shifted else 0
    ids, labels = (Windows(shards, length, length + lag, begin) for begin in (0, lag))
    if len(ids) == 0:
        raise UsageError(f"{place}: no file for the training has {length + lag} tokens, one window")
    keys = names or ((0, 1) if shifted else ("input_ids", "labels"))
    return Tokens(dict(zip(keys, (ids, labels))), place, token_type, shifted)


def write_array(file: Path, array: Any, name: str, allowed: Range | None) -> None:
    """Writes an array [samples, ...] as a .npy file of a stored type, in pieces of some MiB."""
    first = _numpy(array[:1])
    stored = STORED[first.dtype.name]
    shape = (len(array), *first.shape[1:])
    out = np.lib.format.open_memmap(file, mode="w+", dtype=stored, shape=shape)
    for begin, piece in _pieces(array, shape):
        out[begin:begin + len(piece)] = _converted(piece, stored, name, begin, allowed)
    out.flush()


def _pieces(array: Any, shape: tuple[int, ...]) -> Iterator[tuple[int, np.ndarray]]:
    row_bytes = 8 * max(1, int(np.prod(shape[1:])))
    rows = max(1, CHUNK_BYTES // row_bytes)
    for begin in range(0, shape[0], rows):
        yield begin, _numpy(array[begin:begin + rows])


def _converted(piece: np.ndarray, stored: type, name: str, begin: int,
               allowed: Range | None) -> np.ndarray:
    if piece.dtype.kind in "iu":
        limits = allowed or Range(int(INT32.min), int(INT32.max))
        wrong = (piece < limits.low) | (piece > limits.high)
        _refuse_if(wrong, piece, name, begin, f"{limits.low} to {limits.high}")
        return piece.astype(stored)
    if piece.dtype == np.float64:
        with np.errstate(over="ignore"):
            single = piece.astype(np.float32)
        _refuse_if(np.isinf(single) & ~np.isinf(piece), piece, name, begin, "the numbers of fp32")
        return single
    return piece.astype(stored)


def _refuse_if(wrong: np.ndarray, piece: np.ndarray, name: str, begin: int, allowed: str) -> None:
    if not wrong.any():
        return
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    raise UsageError(f"{name}: sample {begin + place[0]} has the value {piece[place]}: allowed is "
                     f"{allowed}")


def _check_array(name: str, array: Any) -> None:
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise UsageError(f"{name} is {type(array).__name__}: allowed is a NumPy array, a tensor or "
                         "a memory-mapped .npy file")
    if len(array.shape) == 0 or len(array) == 0:
        raise UsageError(f"{name} has the shape {tuple(array.shape)}: allowed is [samples, ...] "
                         "with at least one sample")
    dtype = _numpy(array[:1]).dtype
    if dtype.name not in STORED:
        raise UsageError(f"{name} has elements of the type {dtype}: allowed are "
                         + ", ".join(STORED))


def _numpy(array: Any) -> np.ndarray:
    """A NumPy array with the content of an array or tensor; bfloat16 becomes fp32."""
    if isinstance(array, np.ndarray):
        return array
    tensor = array.detach().cpu() if hasattr(array, "detach") else array
    if str(getattr(tensor, "dtype", "")) == "torch.bfloat16":
        tensor = tensor.float()
    return np.asarray(tensor)


def _name(key: Any) -> str:
    return key if isinstance(key, str) else f"array {key}"


# They derive from Arrays, so they are imported last.
from .image_data import Images, images, webdataset  # noqa: E402
from .table_data import Table, table  # noqa: E402
from .text_data import Texts, texts  # noqa: E402
