"""The samples of a map-style dataset, as arrays that do not depend on what was computed before.

The random numbers of `random`, `numpy.random` and `torch` are seeded before every sample from the
seed of the job, the half of the data, the epoch and the number of the sample. So augmentation is a
pure function of these, whichever process computes it.
"""
from __future__ import annotations

import contextlib
import hashlib
import random
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import UsageError

TRAIN, EVAL = 0, 1

# What an array becomes in the files of a job, and for the engine.
STORED = {"float64": np.float32, "float32": np.float32, "float16": np.float32,
          "int64": np.int32, "int32": np.int32, "int16": np.int32, "int8": np.int32,
          "uint64": np.int32, "uint32": np.int32, "uint16": np.int32,
          "uint8": np.uint8, "bool": np.bool_}
SEED_WORDS = 4  # of 32 bits


@dataclass(frozen=True)
class Column:
    """One array of every sample: the type of its elements and its shape."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


def sample_of(dataset: Any, half: int, seed: int, epoch: int, index: int) -> dict[Any, np.ndarray]:
    """Computes a sample; the keys are those of `arrays_of`. Raises what the dataset raises."""
    knew_torch = "torch" in sys.modules
    seed_numbers(half, seed, epoch, index)
    sample = dataset[index]
    if not knew_torch and "torch" in sys.modules:
        # The sample has imported torch, whose numbers had no seed yet.
        seed_numbers(half, seed, epoch, index)
        sample = dataset[index]
    return arrays_of(sample)


def seed_numbers(half: int, seed: int, epoch: int, index: int) -> None:
    """Seeds the random numbers of Python, NumPy and, if it is imported, PyTorch."""
    words = hashlib.blake2b(struct.pack("<4Q", half, seed, epoch, index),
                            digest_size=4 * SEED_WORDS).digest()
    random.seed(int.from_bytes(words, "little"))
    np.random.seed(struct.unpack(f"<{SEED_WORDS}I", words))
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(int.from_bytes(words[:8], "little") >> 1)


@contextlib.contextmanager
def kept_random_state() -> Iterator[None]:
    """Gives the process the states of its random numbers back."""
    python, numpy = random.getstate(), np.random.get_state()
    torch = sys.modules.get("torch")
    state = None if torch is None else torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None and state is not None:
            torch.set_rng_state(state)


def arrays_of(sample: Any) -> dict[Any, np.ndarray]:
    """The arrays of a sample: a mapping with texts as keys, a sequence with 0, 1, ..., or an array.

    An array may be a tensor, a number, or what numpy.asarray takes.
    """
    if isinstance(sample, Mapping):
        items = list(sample.items())
    elif isinstance(sample, tuple | list):
        items = list(enumerate(sample))
    else:
        items = [(0, sample)]
    return {key: _array(name_of(key), value) for key, value in items}


def to_numpy(array: Any) -> np.ndarray:
    """A NumPy array with the content of an array or tensor; bfloat16 becomes fp32."""
    if isinstance(array, np.ndarray):
        return array
    tensor = array.detach().cpu() if hasattr(array, "detach") else array
    if str(getattr(tensor, "dtype", "")) == "torch.bfloat16":
        tensor = tensor.float()
    return np.asarray(tensor)


def padded(array: np.ndarray, shape: tuple[int, ...], padding: Any) -> np.ndarray:
    """The array with these extents, none of which is smaller, and `padding` behind its elements."""
    if array.shape == shape:
        return array
    whole = np.full(shape, padding, array.dtype)
    whole[tuple(slice(extent) for extent in array.shape)] = array
    return whole


def columns_of(arrays: Mapping[Any, np.ndarray]) -> dict[Any, Column]:
    """The types and shapes of the arrays of a sample."""
    return {key: Column(array.dtype, array.shape) for key, array in arrays.items()}


def check_columns(found: Mapping[Any, Column], wanted: Mapping[Any, Column], whose: str = "its",
                  where: str = "sample 0") -> None:
    """Raises UsageError unless a sample has arrays like those of another one, which is `where`."""
    if found == wanted:
        return
    if found.keys() != wanted.keys():
        raise UsageError(f"{whose} arrays are {_names(found)}: allowed are {_names(wanted)}, as in "
                         f"{where}")
    key = next(key for key, column in found.items() if column != wanted[key])
    raise UsageError(f"{whose} {name_of(key)} is {found[key]}: allowed is {wanted[key]}, as in "
                     f"{where}")


def _array(name: str, value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray) and value.dtype.name in STORED:
        return value
    try:
        array = to_numpy(value)
    except Exception as error:
        raise UsageError(f"its {name} is {type(value).__name__}, which is no array: {error}"
                         ) from None
    if array.dtype.name not in STORED:
        raise UsageError(f"its {name} is {type(value).__name__} with elements of the type "
                         f"{array.dtype}: allowed are {', '.join(STORED)}")
    return array


def name_of(key: Any) -> str:
    return f"array {key!r}"


def _names(columns: Mapping[Any, Column]) -> str:
    return ", ".join(name_of(key) for key in columns)
