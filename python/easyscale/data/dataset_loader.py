"""The loader process: computes samples of a dataset for a worker.

    python -m easyscale.data.dataset_loader SOCKET MEMORY DATASET NAME

The three numbers are descriptors that the worker has opened. Its side, and the messages, are
described in store/dataset/python/loader_channel.h.
"""
from __future__ import annotations

import faulthandler
import mmap
import socket
import struct
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError
from .array_samples import converted
from .dataset_file import DatasetFile, read
from .dataset_samples import STORED, Column, check_columns, columns_of, padded, sample_of

VERSION = 2
READY, SAMPLE, FAILED = 1, 2, 3
MESSAGE_BYTES_MAX = 1 << 20
TEXT_MAX = 4000
FRAMES_MAX = 8
TYPES = [np.dtype(x) for x in (np.float32, np.int32, np.uint8, np.bool_)]
INDEX_BYTES = 8


@dataclass(frozen=True)
class Input:
    """An input of the model: its name, its shape, and its first byte in a sample."""

    name: str
    shape: tuple[int, ...]
    begin: int


@dataclass(frozen=True)
class Setup:
    """What the worker says first."""

    samples: int  # that the shared memory has room for
    seed: int
    sample_bytes: int
    buckets: list[list[Input]]  # the inputs with the shapes of each length bucket


def parse_setup(message: bytes) -> Setup:
    """Reads the first message of the worker. Raises UsageError for one of another release."""
    version, samples, seed, sample_bytes, buckets, count = struct.unpack_from("<IIQQII", message)
    if version != VERSION:
        raise UsageError(f"this package easyscale speaks version {VERSION} of the protocol of "
                         f"loader processes: allowed is {version}, as that of the worker")
    at = struct.calcsize("<IIQQII")
    found: list[list[Input]] = [[] for _ in range(buckets)]
    for inputs in found:
        for _ in range(count):
            begin, axes, name_bytes = struct.unpack_from("<QII", message, at)
            at += struct.calcsize("<QII")
            shape = struct.unpack_from(f"<{axes}Q", message, at)
            at += axes * struct.calcsize("<Q")
            inputs.append(Input(message[at:at + name_bytes].decode(), shape, begin))
            at += name_bytes
    return Setup(samples, seed, sample_bytes, found)


class Loader:
    """Writes samples of a dataset into the shared memory."""

    def __init__(self, setup: Setup, file: DatasetFile, memory: Any):
        self._setup, self._file = setup, file
        self.indices = np.ndarray(setup.samples, np.uint64, memory)
        first = INDEX_BYTES * setup.samples
        self._views = [[self._view(memory, first, x) for x in inputs] for inputs in setup.buckets]

    def ready(self) -> bytes:
        """The lengths of the halves, and the number of the type of every array."""
        return struct.pack("<QQ", self._file.length(0), self._file.length(1)) + bytes(
            TYPES.index(view.dtype) for _, view in self._views[0])

    def write(self, half: int, bucket: int, epoch: int, index: int, position: int) -> None:
        """Computes sample `index` and writes it with the shapes of a bucket. Raises what is wrong
        with it."""
        arrays = sample_of(self._file.halves[half], half, self._setup.seed, epoch, index)
        check_columns(self._comparable(arrays), self._file.columns)
        for key, view in self._views[bucket]:
            array = self._padded(key, arrays[key], view.shape[1:])
            allowed = self._file.allowed.get(key)
            if array.dtype != view.dtype or allowed is not None:
                one = array[np.newaxis]
                array = converted(one, view.dtype.type, f"array {key!r}", index, allowed)[0]
            view[position] = array

    def _comparable(self, arrays: dict[Any, np.ndarray]) -> dict[Any, Column]:
        """The types and shapes of a sample; those that are padded have the extents of the column."""
        wanted = self._file.columns
        return {key: Column(x.dtype, wanted[key].shape)
                if key in self._file.padding and len(x.shape) == len(wanted[key].shape) else x
                for key, x in columns_of(arrays).items()}

    def _padded(self, key: Any, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        if key not in self._file.padding:
            return array
        if any(found > most for found, most in zip(array.shape, shape)):
            raise UsageError(f"its array {key!r} has the shape {list(array.shape)}: allowed is at most "
                             f"{list(shape)}, that of its length bucket")
        return padded(array, shape, self._file.padding[key])

    def _view(self, memory: Any, first: int, wanted: Input) -> tuple[Any, np.ndarray]:
        """The key of the array of an input, and the places of that array in all samples."""
        if wanted.name not in self._file.keys:
            raise UsageError(f"it has no array for the input {wanted.name!r} of the model; it has "
                             f"arrays for {', '.join(self._file.keys)}")
        key = self._file.keys[wanted.name]
        column = self._file.columns[key]
        if column.shape != wanted.shape and key not in self._file.padding:
            raise UsageError(f"its array {key!r} has the shape {list(column.shape)}: allowed is "
                             f"{list(wanted.shape)}, as the input {wanted.name!r} of the model")
        stored = np.dtype(STORED[column.dtype.name])
        strides = (self._setup.sample_bytes, *np.ndarray(wanted.shape, stored).strides)
        return key, np.ndarray((self._setup.samples, *wanted.shape), stored, memory,
                               first + wanted.begin, strides)


def text_of(error: BaseException) -> str:
    """The error in one line, with the places in the code of the dataset."""
    if isinstance(error, UsageError):
        return str(error)
    package = str(Path(__file__).parent)
    frames = [x for x in traceback.extract_tb(error.__traceback__)
              if not x.filename.startswith(package)]
    places = ", ".join(f"{x.filename}:{x.lineno} in {x.name}" for x in frames[-FRAMES_MAX:])
    text = f"the dataset raises {type(error).__name__}: {error}"
    text += f" ({places})" if places else ""
    return " ".join(text.split())[:TEXT_MAX]


def serve(channel: socket.socket, loader: Loader) -> None:
    """Answers requests until the worker closes the socket."""
    while request := channel.recv(MESSAGE_BYTES_MAX):
        half, bucket, count, epoch = struct.unpack("<IIIQ", request)
        for position, index in enumerate(loader.indices[:count].tolist()):
            try:
                loader.write(half, bucket, epoch, index, position)
            except BaseException as error:
                if not isinstance(error, UsageError):
                    traceback.print_exc()
                fail(channel, position, error)
                return
            channel.send(struct.pack("<II", SAMPLE, position))


def fail(channel: socket.socket, position: int, error: BaseException) -> None:
    """Says why a sample cannot be computed."""
    channel.send(struct.pack("<II", FAILED, position) + text_of(error).encode(errors="replace"))


def main(words: list[str]) -> None:
    """Serves the worker that has started this process."""
    faulthandler.enable()
    numbers = [int(word) for word in words[:3]]
    channel = socket.socket(fileno=numbers[0])
    try:
        setup = parse_setup(channel.recv(MESSAGE_BYTES_MAX))
        loader = Loader(setup, read(Path(f"/dev/fd/{numbers[2]}")), mmap.mmap(numbers[1], 0))
        ready = loader.ready()
    except BaseException as error:
        traceback.print_exc()
        fail(channel, 0, error)
        return
    channel.send(struct.pack("<II", READY, 0) + ready)
    serve(channel, loader)


if __name__ == "__main__":
    main(sys.argv[1:])
