"""Compares samples that two new processes compute.

    python -m easyscale.data.dataset_check FILE OUT ORDER SEED EPOCHS INDEX...

computes samples of a dataset file in one of both orders and writes OUT/samples.npz, with an array
KEY-EPOCH-INDEX for each array of each sample.
"""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FailedError, UsageError
from ..folders import TemporaryFolder
from . import dataset_file
from .map_dataset import DATASET_FILE, Dataset
from .dataset_samples import TRAIN, sample_of

ORDERS = ("ascending", "descending")
SAMPLES = "samples.npz"
ALLOWED = ("allowed is a sample that depends on nothing but its number and the seeded random numbers of "
           "random, numpy.random and torch")
# As for loader processes (store/dataset/python/loader_process.cc).
FIXED = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
         "OPENBLAS_NUM_THREADS": "1"}


def check(data: Dataset, samples: int = 16, epochs: int = 2, seed: int = 1) -> None:
    """Computes samples of a dataset twice, in two new processes and in different orders.

    Raises UsageError, which names the first sample, array and element that differ. `samples` are
    spread over the dataset and computed for `epochs` epochs.
    """
    if not isinstance(data, Dataset):
        raise UsageError(f"data is {type(data).__name__}: allowed is what easyscale.data.dataset has "
                         "returned, also for samples of several lengths")
    if samples < 1 or epochs < 1:
        raise UsageError(f"samples = {samples}, epochs = {epochs}: allowed is at least 1")
    count = min(samples, data.samples)
    indices = np.unique(np.linspace(0, data.samples - 1, count).astype(np.int64))
    with TemporaryFolder("check-") as folder:
        keys = {f"array{i}": key for i, key in enumerate(data.arrays)}
        data.write(folder / "data", None, keys, {})
        first, second = (_computed(data, folder, order, seed, epochs, indices) for order in ORDERS)
        for epoch in range(epochs):
            for index in indices.tolist():
                for name, key in keys.items():
                    place = f"{name}-{epoch}-{index}"
                    _compare(f"epoch {epoch}, sample {index}, array {key!r}", first[place],
                             second[place])


def _compare(name: str, first: np.ndarray, second: np.ndarray) -> None:
    """Compares all bytes, so a NaN equals itself."""
    if first.shape == second.shape and first.tobytes() == second.tobytes():
        return
    if first.shape != second.shape:
        raise UsageError(f"{name} has the shape {list(first.shape)} in one process and "
                         f"{list(second.shape)} in another one: {ALLOWED}")
    left, right = (np.frombuffer(x.tobytes(), f"V{x.dtype.itemsize}") for x in (first, second))
    different = left != right
    place = tuple(int(x) for x in np.unravel_index(int(np.argmax(different)), first.shape))
    raise UsageError(f"{name}: element {list(place)} is {first[place]} in one process and "
                     f"{second[place]} in another one: {ALLOWED}")


def _computed(data: Dataset, folder: Path, order: str, seed: int, epochs: int,
              indices: np.ndarray) -> dict[str, np.ndarray]:
    out = folder / order
    out.mkdir()
    path = os.pathsep.join(filter(None, [data.python_path, os.environ.get("PYTHONPATH")]))
    ended = subprocess.run(
        [data.python, "-P", "-m", "easyscale.data.dataset_check", str(folder / "data" / DATASET_FILE),
         str(out), order, str(seed), str(epochs), *map(str, indices.tolist())],
        env=os.environ | FIXED | {"PYTHONPATH": path}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0:
        raise FailedError(f"{data.python} cannot compute the samples:\n{ended.stderr.strip()}")
    with np.load(out / SAMPLES) as samples:
        return dict(samples)


def main(words: list[str]) -> None:
    """Computes samples and writes them."""
    file, out, order, seed, epochs, *numbers = words
    content = dataset_file.read(Path(file))
    indices = [int(number) for number in numbers]
    wanted = [(epoch, index) for epoch in range(int(epochs)) for index in indices]
    if order != ORDERS[0]:
        wanted.reverse()
    found: dict[tuple[int, int], dict[Any, np.ndarray]] = {
        (epoch, index): sample_of(content.halves[TRAIN], TRAIN, int(seed), epoch, index)
        for epoch, index in wanted}
    arrays: dict[str, Any] = {
        f"{name}-{epoch}-{index}": sample[key]
        for (epoch, index), sample in found.items() for name, key in content.keys.items()}
    np.savez(Path(out) / SAMPLES, **arrays)


if __name__ == "__main__":
    main(sys.argv[1:])
