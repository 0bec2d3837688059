"""Samples from NumPy arrays, tensors or memory-mapped files, from other files, or of a dataset.

    data = es.data.arrays(x_train, y_train)
    data = es.data.arrays(input_ids=ids, attention_mask=mask, labels=labels)
    data = es.data.tokens("folder", length=128)
    data = es.data.texts("book.txt", "tokenizer.json", length=128)
    data = es.data.images("folder", size=224)
    data = es.data.webdataset("folder", size=224)
    data = es.data.table("rows.csv", target="price")
    data = es.data.dataset(MyDataset("folder"))

An array is [samples, ...]. Nothing is copied until a job is written, and then in pieces. Token
files are never copied. A dataset computes its samples while the job trains.
"""
from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import dataset_file
from .dataset_samples import (STORED, TRAIN, check_columns, columns_of, kept_random_state,
                              sample_of, to_numpy)
from .errors import UsageError
from .token_files import POSITIONS, SEGMENTS, Documents, Windows, training_shards

DATASET_FILE = "dataset.pickle"
CHUNK_BYTES = 16 << 20
INT32 = np.iinfo(np.int32)


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
        return {key: to_numpy(array[:samples]).copy() for key, array in self.arrays.items()}

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
    document_end: int | None

    def table(self, eval_data: Arrays | None) -> dict[str, Any]:
        """The table [data] of a job."""
        length = next(iter(self.arrays.values())).shape[1]
        found = {"kind": "tokens", "path": str(self.folder), "length": length,
                 "token_type": self.token_type, "shifted": self.shifted}
        return found if self.document_end is None else found | {"document_end": self.document_end}

    def check_eval(self, eval_data: Arrays) -> None:
        """Raises UsageError: the folder has the evaluation data."""
        raise UsageError("eval_data: allowed is none with token files; the evaluation uses eval/ "
                         "or val.bin in the folder of data")

    def write(self, folder: Path, eval_data: Arrays | None, names: Mapping[str, Any],
              ranges: Mapping[str, Range]) -> None:
        """Writes nothing: a job reads token files where they are."""

    def check_inputs(self, inputs: Sequence[str], keys: Mapping[str, Any]) -> None:
        """Raises UsageError if the inputs of a model are not the two arrays in the order in which
        the engine fills them: the labels are "labels" or "label", otherwise the second input."""
        ids, labels = list(self.arrays)[:2]
        filled = sorted((name for name in inputs if keys[name] not in (POSITIONS, SEGMENTS)),
                        key=lambda name: name in ("labels", "label"))
        if [keys[name] for name in filled] != [ids, labels]:
            raise UsageError(f"data: the model has the inputs {', '.join(inputs)}: allowed are the "
                             "tokens and then the labels, or labels with the name labels")


def tokens(folder: str | Path, length: int, *, token_type: str = "uint16", shifted: bool = True,
           names: tuple[str, str] | None = None, document_end: int | None = None) -> Tokens:
    """Samples from token files, for a language model: windows of `length` tokens and their labels.

    folder: has the shards train/*.bin or *.npy, and maybe eval/*; or train.bin and maybe val.bin.
    The evaluation uses the second half of the folder, so the job has no `eval_data`.
    token_type: of .bin files without a header, "uint16" or "uint32".
    shifted: the labels are the tokens one place later. False: the labels are the tokens of the
    window themselves, for a model that shifts them itself, as those of transformers do.
    names: the arguments of the model for the tokens and the labels. Without them the tokens are the
    first argument and the labels the target of the loss; with shifted=False the names are
    ("input_ids", "labels"), and with document_end too.
    document_end: the token that ends a document. The model then has two more arguments,
    `position_ids`, which begin again in each document, and `segment_ids`, the number of the
    document in the window; its attention must compare these. The labels at the beginnings of
    documents are -100, which cross_entropy ignores.
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
    by_place = shifted and document_end is None
    keys = names or ((0, 1) if by_place else ("input_ids", "labels"))
    found: dict[Any, Any] = dict(zip(keys, (ids, labels)))
    if document_end is not None:
        found |= {key: Documents(part, ids, labels, document_end, shifted) for key, part in
                  ((keys[1], "labels"), (POSITIONS, POSITIONS), (SEGMENTS, SEGMENTS))}
    return Tokens(found, place, token_type, shifted, document_end)


@dataclass(frozen=True)
class Dataset(Arrays):
    """A map-style dataset, whose samples are computed while the job trains.

    `arrays` says what the first sample has: a Column for every key.
    """

    dataset: Any
    python: str
    python_path: str
    timeout_s: int

    @property
    def samples(self) -> int:
        """The number of samples."""
        return len(self.dataset)

    def head(self, samples: int) -> dict[Any, np.ndarray]:
        """The first samples, computed here, as [samples, ...]."""
        with kept_random_state():
            first = [sample_of(self.dataset, TRAIN, 0, 0, i)
                     for i in range(min(samples, self.samples))]
        return {key: np.stack([sample[key] for sample in first]) for key in self.arrays}

    def table(self, eval_data: Arrays | None) -> dict[str, Any]:
        """The table [data] of a job."""
        return {"kind": "python", "path": f"data/{DATASET_FILE}", "samples": self.samples,
                "eval_samples": 0 if eval_data is None else eval_data.samples,
                "python": self.python, "python_path": self.python_path,
                "timeout_s": self.timeout_s}

    def check_eval(self, eval_data: Arrays) -> None:
        """Raises UsageError unless the evaluation data are a dataset with samples like these."""
        super().check_eval(eval_data)
        check_columns(eval_data.arrays, self.arrays, "eval_data: its", "data")

    def write(self, folder: Path, eval_data: Arrays | None, names: Mapping[str, Any],
              ranges: Mapping[str, Range]) -> None:
        """Writes both datasets into one file. The samples are checked when they are computed."""
        folder.mkdir(parents=True)
        evaluated = eval_data.dataset if isinstance(eval_data, Dataset) else None
        dataset_file.write(folder / DATASET_FILE, self.arrays, names, [self.dataset, evaluated])


def dataset(source: Any, *, timeout_s: int = 300, python: str | Path | None = None) -> Dataset:
    """Samples of a map-style dataset: an object with len(source) and source[index].

    A sample is a tuple or list of arrays, tensors and numbers, a dict of them with texts as keys,
    or one array. Without names they are the arguments of the model in their order, and the last one
    is the target of the loss; names are as those of `arrays`. All samples have the same shapes and
    types.

    The dataset is pickled into the folder of the job, and loader processes on the nodes compute its
    samples while the job trains. Before each sample the random numbers of `random`, `numpy.random`
    and `torch` are seeded from the seed of the job, the epoch and the number of the sample. A
    dataset must not use others, and a sample must not depend on samples before it; `check` compares
    samples that two processes compute.

    timeout_s: the longest time for one sample.
    python: the interpreter on all nodes, with the packages of the dataset and easyscale; None is
    this one.
    """
    for method in ("__len__", "__getitem__"):
        if not hasattr(source, method):
            raise UsageError(f"the dataset {type(source).__name__} has no {method}: allowed is a "
                             "map-style dataset, with len(dataset) and dataset[index]")
    if len(source) == 0:
        raise UsageError("the dataset has no samples: allowed is at least one")
    if timeout_s < 1:
        raise UsageError(f"timeout_s = {timeout_s}: allowed is at least 1")
    with kept_random_state():
        first = sample_of(source, TRAIN, 0, 0, 0)
    keys = list(first)
    are_texts = all(isinstance(key, str) for key in keys)
    if not keys or not (are_texts or keys == list(range(len(keys)))):
        raise UsageError(f"sample 0 of the dataset has the keys {keys}: allowed are texts")
    interpreter = Path(python or sys.executable).absolute()
    return Dataset(columns_of(first), source, str(interpreter), dataset_file.module_path(),
                   timeout_s)


def check(data: Dataset, samples: int = 16, epochs: int = 2, seed: int = 1) -> None:
    """Computes samples of a dataset twice, in two new processes and in different orders.

    Raises UsageError, which names the first sample, array and element that differ. `samples` are
    spread over the dataset and computed for `epochs` epochs.
    """
    from .dataset_check import compare
    compare(data, samples, epochs, seed)


def write_array(file: Path, array: Any, name: str, allowed: Range | None) -> None:
    """Writes an array [samples, ...] as a .npy file of a stored type, in pieces of some MiB."""
    first = to_numpy(array[:1])
    stored = STORED[first.dtype.name]
    shape = (len(array), *first.shape[1:])
    out = np.lib.format.open_memmap(file, mode="w+", dtype=stored, shape=shape)
    for begin, piece in _pieces(array, shape):
        out[begin:begin + len(piece)] = converted(piece, stored, name, begin, allowed)
    out.flush()


def _pieces(array: Any, shape: tuple[int, ...]) -> Iterator[tuple[int, np.ndarray]]:
    row_bytes = 8 * max(1, int(np.prod(shape[1:])))
    rows = max(1, CHUNK_BYTES // row_bytes)
    for begin in range(0, shape[0], rows):
        yield begin, to_numpy(array[begin:begin + rows])


def converted(piece: np.ndarray, stored: type, name: str, begin: int,
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
    dtype = to_numpy(array[:1]).dtype
    if dtype.name not in STORED:
        raise UsageError(f"{name} has elements of the type {dtype}: allowed are "
                         + ", ".join(STORED))


def _name(key: Any) -> str:
    return key if isinstance(key, str) else f"array {key}"


# They derive from Arrays, so they are imported last.
from .image_data import Images, images, webdataset  # noqa: E402
from .table_data import Table, table  # noqa: E402
from .text_data import Texts, texts  # noqa: E402
