"""Samples of several lengths, or images of several sizes, in length buckets."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..allowed import Allowed
from ..errors import UsageError
from . import bucket_lengths, dataset_file
from .array_samples import Arrays, name_of, pieces_of, write_array
from .bucket_lengths import Size
from .dataset_samples import TRAIN, Column, check_columns, columns_of, kept_random_state
from .dataset_samples import padded, sample_of, to_numpy
from .map_dataset import DATASET_FILE, Dataset

BUCKETS = 8
NUMBERS = {"train": "train.npy", "eval": "eval.npy"}


@dataclass(frozen=True)
class Bucketed(Arrays):
    """Samples in length buckets.

    `arrays` is that of `source`, in which a sample of a dataset has the shapes of the first bucket.
    `sizes` [samples, 1 or 2] are the lengths, or the heights and widths. `buckets` are in the order
    of the programs of the model file, and bucket 0 is that of the model itself. `axes` says which
    axes of a sample have a length: by array, the axis and which of the sizes it is.
    """

    source: Arrays
    sizes: np.ndarray
    buckets: tuple[Size, ...]
    is_given: bool  # the user has named the buckets
    axes: Mapping[Any, Mapping[int, int]]
    padding: Mapping[Any, Any]

    @property
    def samples(self) -> int:
        """The number of samples."""
        return self.source.samples

    @property
    def numbers(self) -> np.ndarray:
        """The bucket of each sample."""
        return bucket_lengths.numbers_of(self.sizes, self.buckets)

    @property
    def share(self) -> float:
        """The elements of all samples in their buckets, as a part of those in the largest one."""
        elements = np.array([float(np.prod(bucket)) for bucket in self.buckets])
        return float(elements[self.numbers].mean() / elements.max())

    def head(self, samples: int) -> dict[Any, np.ndarray]:
        """The first samples of the first bucket, with its shapes."""
        return next(self.heads(samples))[1]

    def heads(self, samples: int) -> Iterator[tuple[Size, dict[Any, np.ndarray]]]:
        """The first samples of each bucket, with its shapes."""
        numbers = self.numbers
        for number, bucket in enumerate(self.buckets):
            yield bucket, self.head_of(number, samples, np.flatnonzero(numbers == number).tolist())

    def head_of(self, number: int, samples: int, of: Sequence[int]) -> dict[Any, np.ndarray]:
        """The first of these samples, with the shapes of a bucket."""
        shapes = self._shapes(number)
        found = []
        for index in of[:samples]:
            if isinstance(self.source, Dataset):
                with kept_random_state():
                    sample = sample_of(self.source.dataset, TRAIN, 0, 0, index)
                self._check_sample(index, sample)
                found.append({key: padded(array, shapes[key], self.padding.get(key, 0))
                              for key, array in sample.items()})
            else:
                found.append({key: to_numpy(array[index:index + 1])[0][_first(shapes[key])]
                              for key, array in self.arrays.items()})
        return {key: np.stack([sample[key] for sample in found]) for key in self.arrays}

    def table(self, eval_data: Arrays | None) -> dict[str, Any]:
        """The table [data] of a job."""
        own = eval_data.source if isinstance(eval_data, Bucketed) else None
        return self.source.table(own) | {"length_buckets": "length_buckets"}

    def check_eval(self, eval_data: Arrays) -> None:
        """Raises UsageError unless the evaluation data are in length buckets, of samples like these."""
        if not isinstance(eval_data, Bucketed):
            raise UsageError(f"eval_data is {type(eval_data).__name__}: allowed is what "
                             "easyscale.data.bucketed has returned, as data")
        if eval_data.is_given:
            raise UsageError("eval_data: allowed is bucketed without buckets; it has those of data")
        if type(eval_data.source) is not type(self.source):
            raise UsageError(f"eval_data is {type(eval_data.source).__name__}: allowed is "
                             f"{type(self.source).__name__}, as data")
        own = self.like_these(eval_data)
        number = int(own.numbers[0])
        place = int(np.argmax(self.numbers == number))
        found, wanted = own.head_of(number, 1, [0]), self.head_of(number, 1, [place])
        check_columns({key: Column(x.dtype, x.shape) for key, x in found.items()},
                      {key: Column(x.dtype, x.shape) for key, x in wanted.items()},
                      "eval_data: its", "data")

    def like_these(self, eval_data: Bucketed) -> Bucketed:
        """The evaluation data in these buckets. Raises UsageError for a sample that none holds."""
        bucket_lengths.numbers_of(eval_data.sizes, self.buckets, "lengths of eval_data")
        return replace(eval_data, buckets=self.buckets, axes=self.axes, padding=self.padding)

    def global_batches(self, global_batch: int) -> int:
        """The global steps of an epoch. Raises UsageError."""
        return bucket_lengths.global_batches(self.numbers, self.buckets, global_batch)

    def write(self, folder: Path, eval_data: Arrays | None, names: Mapping[str, Any],
              allowed: Mapping[str, Allowed]) -> None:
        """Writes the samples of both halves, and the numbers of their buckets beside FOLDER."""
        halves: dict[str, Bucketed] = {"train": self}
        if isinstance(eval_data, Bucketed):
            halves["eval"] = self.like_these(eval_data)
        numbers = folder.parent / "length_buckets"
        numbers.mkdir(parents=True)
        for half, data in halves.items():
            np.save(numbers / NUMBERS[half], data.numbers)
        if isinstance(self.source, Dataset):
            self._write_datasets(folder, halves, names, allowed)
            return
        for half, data in halves.items():
            (folder / half).mkdir(parents=True)
            for name, key in names.items():
                data.check_padding(key)
                write_array(folder / half / f"{name}.npy", _Cut(data.arrays[key], self._whole(key)),
                            name_of(key), allowed.get(name))

    def check_padding(self, key: Any) -> None:
        """Raises UsageError if an array has more than padding behind the lengths of its samples."""
        if isinstance(self.source, Dataset) or key not in self.axes:
            return
        padding = None
        for begin, piece in pieces_of(self.arrays[key]):
            ends = self.sizes[begin:begin + len(piece)]
            behind = np.arange(piece.shape[1])[np.newaxis] >= ends
            if padding is None and behind.any():
                padding = piece[behind].flat[0]
            different = (piece != padding).reshape(*piece.shape[:2], -1).any(axis=2)
            wrong = np.argwhere(behind & different)
            if wrong.size:
                row, place = wrong[0]
                raise UsageError(f"{name_of(key)}: sample {begin + row} has the length {ends[row, 0]}, and "
                                 f"{piece[row, place]} at place {place}: allowed is one value behind the "
                                 f"ends of all samples, such as {padding}, the padding")

    def _whole(self, key: Any) -> tuple[int, ...]:
        """The shape of a sample that has room for every bucket."""
        shapes = [self._shapes(number)[key] for number in range(len(self.buckets))]
        return tuple(max(extents) for extents in zip(*shapes))

    def _shapes(self, number: int) -> dict[Any, tuple[int, ...]]:
        """The shapes of a sample in a bucket."""
        found = {}
        for key, array in self.arrays.items():
            shape = array.shape if isinstance(self.source, Dataset) else array.shape[1:]
            axes = self.axes.get(key, {})
            found[key] = tuple(self.buckets[number][axes[axis]] if axis in axes else int(extent)
                               for axis, extent in enumerate(shape))
        return found

    def _check_sample(self, index: int, sample: Mapping[Any, np.ndarray]) -> None:
        """Raises UsageError if a sample of a dataset has not the size that the user has named."""
        for key, axes in self.axes.items():
            for axis, size in axes.items():
                extent, length = sample[key].shape[axis], int(self.sizes[index, size])
                if extent != length:
                    raise UsageError(f"sample {index} of the dataset: its {name_of(key)} has the shape "
                                     f"{list(sample[key].shape)}: allowed is {length} on axis {axis}, "
                                     "as in lengths")

    def _write_datasets(self, folder: Path, halves: Mapping[str, Bucketed],
                        names: Mapping[str, Any], allowed: Mapping[str, Allowed]) -> None:
        datasets: list[Any] = []
        for half in NUMBERS:
            source = halves[half].source if half in halves else None
            datasets.append(source.dataset if isinstance(source, Dataset) else None)
        columns = {key: Column(self.arrays[key].dtype, self._whole(key)) for key in self.arrays}
        folder.mkdir(parents=True)
        dataset_file.write(folder / DATASET_FILE, columns, names, datasets, allowed,
                           {key: self.padding.get(key, 0) for key in self.axes})


@dataclass(frozen=True)
class _Cut:
    """The first elements of the samples of an array."""

    array: Any
    sample: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: slice) -> np.ndarray:
        return to_numpy(self.array[rows])[(slice(None), *_first(self.sample))]


def _first(shape: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(extent) for extent in shape)


def bucketed(source: Arrays, lengths: Any = None, *,
             buckets: int | Sequence[int | Sequence[int]] | None = None,
             padding: Mapping[Any, Any] | None = None) -> Bucketed:
    """Samples of several lengths, which are padded to the length of their bucket and not to that of
    the longest one: the model is captured, and a step is computed, at each of these lengths.

    source: what `arrays` has returned, padded behind the end of each sample; or what `dataset` has
    returned, whose samples have different extents.
    lengths: the length of each sample, or (height, width) of each image. Arrays need it. None
    computes every sample of a dataset once, and finds them.
    buckets: the lengths, or sizes (height, width); or their number, at most 16, of which those are
    chosen that pad least. A sample belongs to the smallest bucket that holds it. None is 8. The
    evaluation data, which `bucketed` returns too, have the buckets of the training data.
    padding: the elements behind a sample of a dataset, by array; without it 0. `{"labels": -100}`
    are labels that the loss ignores.
    """
    if type(source) not in (Arrays, Dataset):
        raise UsageError(f"bucketed: source is {type(source).__name__}: allowed is what "
                         "easyscale.data.arrays or easyscale.data.dataset has returned")
    unknown = [key for key in padding or {} if key not in source.arrays]
    if unknown:
        raise UsageError(f"padding: there is no {name_of(unknown[0])}: allowed are "
                         + ", ".join(map(name_of, source.arrays)))
    if isinstance(source, Dataset):
        sizes, axes = _sizes_of_dataset(source, lengths)
    else:
        sizes, axes = _sizes_of_arrays(source, lengths, padding)
    if buckets is None or isinstance(buckets, int):
        found = bucket_lengths.chosen(sizes, BUCKETS if buckets is None else buckets)
    else:
        found = bucket_lengths.given(buckets, sizes.shape[1])
    made = Bucketed(source.arrays, source, sizes, tuple(found), buckets is not None, axes,
                    dict(padding or {}))
    bucket_lengths.check_all_used(made.numbers, made.buckets)
    _check_room(made)
    return made


def _sizes_of_arrays(source: Arrays, lengths: Any, padding: Any) -> tuple[np.ndarray, Any]:
    """Every array has its lengths on axis 1, if that is as long as that of the first one."""
    if padding:
        raise UsageError("padding: allowed for a dataset; arrays are padded already")
    if lengths is None:
        raise UsageError("lengths: allowed is the length of each sample, which padded arrays do not say")
    sizes = bucket_lengths.as_sizes(lengths, source.samples)
    count = sizes.shape[1]
    extents = {key: tuple(array.shape[1:]) for key, array in source.arrays.items()}
    ranked = [shape for shape in extents.values() if len(shape) >= count]
    if not ranked or count != 1:
        raise UsageError("lengths: allowed for arrays is one length for each sample, of arrays "
                         "[samples, length, ...]; images of several sizes come from a dataset")
    longest = ranked[0][0]
    wrong = np.flatnonzero(sizes[:, 0] > longest)
    if wrong.size:
        raise UsageError(f"lengths: sample {wrong[0]} has {sizes[wrong[0], 0]}: allowed is at most "
                         f"{longest}, the extent of the arrays")
    return sizes, {key: {0: 0} for key, shape in extents.items() if shape and shape[0] == longest}


def _check_room(data: Bucketed) -> None:
    for key, axes in data.axes.items():
        room = data.arrays[key].shape[1:]
        if not isinstance(data.source, Dataset) and data.buckets[0][0] > room[next(iter(axes))]:
            raise UsageError(f"buckets: {data.buckets[0][0]} is longer than {name_of(key)}: allowed is "
                             f"at most {room[0]}")


def _sizes_of_dataset(source: Dataset, lengths: Any) -> tuple[np.ndarray, Any]:
    if lengths is None:
        shapes = []
        with kept_random_state():
            for index in range(source.samples):
                arrays = sample_of(source.dataset, TRAIN, 0, 0, index)
                _check_kinds(index, arrays, source)
                shapes.append({key: array.shape for key, array in arrays.items()})
        return _found_sizes(shapes)
    sizes = bucket_lengths.as_sizes(lengths, source.samples)
    # Two samples of different sizes show which axes have them.
    shapes = []
    with kept_random_state():
        for index in dict.fromkeys([*sizes.argmin(axis=0).tolist(), *sizes.argmax(axis=0).tolist()]):
            arrays = sample_of(source.dataset, TRAIN, 0, 0, index)
            _check_kinds(index, arrays, source)
            shapes.append({key: array.shape for key, array in arrays.items()})
    return sizes, _axes(_varying(shapes), sizes.shape[1], shapes)


def _check_kinds(index: int, arrays: Mapping[Any, np.ndarray], source: Dataset) -> None:
    """Raises UsageError unless a sample has the arrays of the first one, of as many axes."""
    found, wanted = ({key: Column(x.dtype, (0,) * len(x.shape)) for key, x in columns.items()}
                     for columns in (columns_of(arrays), source.arrays))
    check_columns(found, wanted, f"sample {index} of the dataset: its")


def _varying(shapes: Sequence[Mapping[Any, tuple[int, ...]]]) -> list[tuple[Any, int]]:
    return [(key, axis) for key, shape in shapes[0].items() for axis in range(len(shape))
            if len({other[key][axis] for other in shapes}) > 1]


def _found_sizes(shapes: Sequence[Mapping[Any, tuple[int, ...]]]) -> tuple[np.ndarray, Any]:
    varying = _varying(shapes)
    if not varying:
        raise UsageError("bucketed: all samples of the dataset have the same shapes: allowed are samples "
                         "of several lengths")
    extents = np.array([[shape[key][axis] for key, axis in varying] for shape in shapes])
    if (extents == extents[:, :1]).all():
        return extents[:, :1].astype(np.int64), _axes(varying, 1, shapes)
    axes = _axes(varying, 2, shapes)
    columns = [next(i for i, (key, axis) in enumerate(varying) if axes[key][axis] == size)
               if any(axes[key][axis] == size for key, axis in varying) else None for size in (0, 1)]
    sizes = np.ones((len(shapes), 2), np.int64)
    for size, column in enumerate(columns):
        if column is not None:
            sizes[:, size] = extents[:, column]
    return sizes, axes


def _axes(varying: Sequence[tuple[Any, int]], count: int,
          shapes: Sequence[Mapping[Any, tuple[int, ...]]]) -> dict[Any, dict[int, int]]:
    """Which axis has which size: the only one, or the last two axes height and width."""
    axes: dict[Any, dict[int, int]] = {}
    for key, axis in varying:
        rank = len(shapes[0][key])
        size = 0 if count == 1 else axis - (rank - 2)
        if size < 0:
            raise UsageError(f"bucketed: axis {axis} of {name_of(key)} has several extents: allowed is "
                             "one length of all arrays, or the height and width of images [..., height, "
                             "width]")
        axes.setdefault(key, {})[axis] = size
    return axes

