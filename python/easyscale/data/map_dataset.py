"""Samples of a map-style dataset, which loader processes compute while a job trains."""
from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..allowed import Allowed
from ..errors import UsageError
from . import dataset_file
from .array_samples import Arrays
from .dataset_samples import TRAIN, check_columns, columns_of, kept_random_state, sample_of

DATASET_FILE = "dataset.pickle"


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
              allowed: Mapping[str, Allowed]) -> None:
        """Writes both datasets into one file. The samples are checked when they are computed."""
        folder.mkdir(parents=True)
        evaluated = eval_data.dataset if isinstance(eval_data, Dataset) else None
        dataset_file.write(folder / DATASET_FILE, self.arrays, names, [self.dataset, evaluated],
                           allowed)


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
        if not hasattr(source, method) or _is_iterable_dataset(source):
            raise UsageError(f"the dataset {type(source).__name__} has no {method}: allowed is a "
                             "map-style dataset, with len(dataset) and dataset[index]; the first samples "
                             "of an IterableDataset are one as list(itertools.islice(source, COUNT))")
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


def _is_iterable_dataset(source: Any) -> bool:
    """Whether this is an IterableDataset of torch, whose base class has a __getitem__ that fails."""
    torch_data = sys.modules.get("torch.utils.data")
    return torch_data is not None and isinstance(source, torch_data.IterableDataset)
