"""Rows of CSV and Parquet files as samples: numbers, categories and a target.

A file is read twice: the first time for the number of rows and the values of categories, the second
time to write the arrays, in pieces, into temporary files.
"""
from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..allowed import Allowed
from ..errors import UsageError
from ..folders import TemporaryFolder
from . import table_rows
from .array_samples import Arrays
from .rounding import Rounding

RECORD = "columns.json"  # in the folder of the samples of a job
FORMAT = 1
CATEGORIES_MAX = 1_000_000
SHOWN_VALUES = 8
FP32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Columns:
    """Which columns become samples, and the values of categories by their numbers.

    `numbers` are columns of f32 and `categories` columns of i32. The target is one of the others,
    or, with an entry in `values`, a class.
    """

    numbers: list[str]
    categories: list[str]
    target: str | None
    values: dict[str, list[str]]

    @property
    def all(self) -> list[str]:
        """The names of all columns that are read."""
        return [*self.numbers, *self.categories, *([] if self.target is None else [self.target])]

    def without_target(self) -> Columns:
        """The same columns for rows whose target is not known."""
        return Columns(self.numbers, self.categories, None, self.values)


@dataclass(frozen=True)
class Table(Arrays):
    """The rows of a table as arrays: the numbers [samples, columns], the categories [samples,
    columns] and the target [samples]; what the table has not is not there."""

    columns: Columns
    names: tuple[str, ...] | None
    holder: TemporaryFolder

    def read(self, path: str | Path) -> Table:
        """The rows of another file with the same columns and the same numbers of categories, for the
        evaluation."""
        return _read(Path(path), self.columns, self.names)

    def save_columns(self, file: str | Path) -> None:
        """Writes which columns are used and the numbers of categories, for `table(columns=FILE)`."""
        Path(file).write_text(json.dumps({"format": FORMAT, **asdict(self.columns)}, indent=2) + "\n")

    def check_eval(self, eval_data: Arrays) -> None:
        """Raises UsageError unless the evaluation has the same columns and categories."""
        super().check_eval(eval_data)
        if isinstance(eval_data, Table) and eval_data.columns != self.columns:
            raise UsageError("eval_data has other columns or categories: allowed is data.read(FILE)")

    def write(self, folder: Path, eval_data: Arrays | None, names: Mapping[str, Any],
              allowed: Mapping[str, Allowed]) -> None:
        """Writes the samples, and beside them which columns they are."""
        super().write(folder, eval_data, names, allowed)
        self.save_columns(folder / RECORD)


def table(path: str | Path, target: str | None = None, *,
          columns: Sequence[str] | str | Path | None = None,
          categories: Sequence[str] | Mapping[str, Sequence[Any]] = (),
          names: Sequence[str] | None = None) -> Table:
    """Samples from the rows of a CSV file with a header line, or of a Parquet file.

    The arrays are the numbers f32 [samples, columns], the categories i32 [samples, columns] and the
    target [samples], in this order; an array without columns is left out. The target is a class if it
    is among the categories, and otherwise a number.

    path: *.parquet and *.pq are read with the package pyarrow, and any other file is CSV in UTF-8.
    target: the column of the target; None if the rows have none.
    columns: the columns of the inputs in their order; None: all but the target. Or the file that
    `save_columns` or a job has written (data/columns.json): the same columns and numbers of
    categories, without the target unless it is named. So a trained model reads new rows.
    categories: columns whose values are classes, numbered from 0: a mapping from a column to its
    values, or the names of columns, whose values are sorted (whole numbers by value, others as texts).
    names: the arguments of the model for these arrays; see `arrays`.

    A missing value, a text in a column of numbers and a value that no category has are errors with
    the file, the line and the column.
    """
    file = Path(path).resolve()
    if isinstance(columns, (str, Path)):
        chosen = _recorded(Path(columns), target, categories)
    else:
        chosen = _chosen(file, target, columns, categories)
    return _read(file, chosen, tuple(names) if names is not None else None)


def _recorded(file: Path, target: str | None, categories: Any) -> Columns:
    if categories:
        raise UsageError(f"categories: allowed is none beside columns = {file}, which has them")
    try:
        found = json.loads(file.read_text())
        columns = Columns(**{key: found[key] for key in ("numbers", "categories", "target", "values")})
        is_known = found["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"columns = {file}: allowed is a file that save_columns or a job has "
                         f"written ({type(error).__name__}: {error})") from error
    if not is_known:
        raise UsageError(f"{file}: format = {found['format']}: allowed is {FORMAT}")
    if target is None:
        return columns.without_target()
    if target != columns.target:
        raise UsageError(f"target = {target!r}: allowed is {columns.target!r}, as {file} says, or none")
    return columns


def _chosen(file: Path, target: str | None, inputs: Sequence[str] | None,
            categories: Sequence[str] | Mapping[str, Sequence[Any]]) -> Columns:
    if isinstance(categories, str):
        raise UsageError(f"categories = {categories!r}: allowed is a list of columns, or a mapping")
    in_file = table_rows.header(file)
    inputs = list(inputs) if inputs is not None else [name for name in in_file if name != target]
    used = [*inputs, *([] if target is None else [target])]
    _check_there(file, in_file, [*used, *categories])
    if len(set(used)) != len(used) or not inputs:
        raise UsageError(f"columns = {inputs}: allowed is at least one column, each one once and not "
                         "the target")
    unused = [name for name in categories if name not in used]
    if unused:
        raise UsageError(f"categories: {unused[0]!r} is neither among the columns nor the target")
    if isinstance(categories, Mapping):
        values = {name: _listed(name, known) for name, known in categories.items()}
    else:
        values = _sorted_values(file, list(categories))
    return Columns([name for name in inputs if name not in values],
                   [name for name in inputs if name in values], target, values)


def _check_there(file: Path, in_file: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in in_file:
            raise UsageError(f"{file}: line 1: there is no column {name!r}: it has the columns "
                             + ", ".join(in_file))


def _listed(name: str, known: Sequence[Any]) -> list[str]:
    texts = [_text(value) for value in known]
    if isinstance(known, str) or not texts or len(set(texts)) != len(texts):
        raise UsageError(f"categories[{name!r}] = {known!r}: allowed is a list of different values")
    return texts


def _sorted_values(file: Path, columns: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {name: set() for name in columns}
    for piece in table_rows.pieces(file, columns) if columns else ():
        for name, values in piece.columns.items():
            found[name].update(_text(value) for value in values if value is not None)
            if len(found[name]) > CATEGORIES_MAX:
                raise UsageError(f"{file}: column {name!r} has more than {CATEGORIES_MAX} categories: "
                                 "allowed are at most these")
    return {name: _in_order(values) for name, values in found.items()}


def _in_order(values: set[str]) -> list[str]:
    try:
        return sorted(values, key=lambda text: (int(text), text))
    except ValueError:
        return sorted(values)


def _text(value: Any) -> str:
    return str(value).strip()


def _read(file: Path, columns: Columns, names: tuple[str, ...] | None) -> Table:
    file = file.resolve()
    _check_there(file, table_rows.header(file), columns.all)
    rows = sum(len(piece.places) for piece in table_rows.pieces(file, columns.all))
    if rows == 0:
        raise UsageError(f"{file} has no rows: allowed is at least one")
    holder = TemporaryFolder("table-")
    parts = _parts(columns)
    if names is not None and len(names) != len(parts):
        raise UsageError(f"names = {names}: allowed are {len(parts)}, for {', '.join(parts)}")
    arrays = {part: np.lib.format.open_memmap(
        holder.path / f"{part}.npy", mode="w+", dtype=dtype, shape=(rows, *shape))
        for part, (dtype, shape) in parts.items()}
    begin, rounding = 0, {name: Rounding(f"{file}: column {name!r}") for name in columns.all}
    for piece in table_rows.pieces(file, columns.all):
        end = begin + len(piece.places)
        for part, converted in _converted(file, piece, columns, rounding):
            arrays[part][begin:end] = converted
        begin = end
    for column in rounding.values():
        column.check()
    if begin != rows:
        raise UsageError(f"{file} has {begin} rows, and had {rows} before: allowed is a file that "
                         "nobody writes meanwhile")
    return Table(dict(zip(names or range(len(parts)), arrays.values())), columns, names, holder)


def _parts(columns: Columns) -> dict[str, tuple[type, tuple[int, ...]]]:
    """The arrays of a table: the type of their elements and the shape of a sample."""
    parts: dict[str, tuple[type, tuple[int, ...]]] = {}
    if columns.numbers:
        parts["numbers"] = (np.float32, (len(columns.numbers),))
    if columns.categories:
        parts["categories"] = (np.int32, (len(columns.categories),))
    if columns.target is not None:
        parts["target"] = (np.int32 if columns.target in columns.values else np.float32, ())
    return parts


def _converted(file: Path, piece: table_rows.Piece, columns: Columns,
               rounding: Mapping[str, Rounding]) -> Iterator[tuple[str, np.ndarray]]:
    def column(name: str) -> np.ndarray:
        if name in columns.values:
            return _classes(file, piece, name, columns.values[name])
        numbers = _numbers(file, piece, name)
        rounding[name].add(numbers)
        return numbers.astype(np.float32)
    if columns.numbers:
        yield "numbers", np.stack([column(name) for name in columns.numbers], axis=1)
    if columns.categories:
        yield "categories", np.stack([column(name) for name in columns.categories], axis=1)
    if columns.target is not None:
        yield "target", column(columns.target)


def _numbers(file: Path, piece: table_rows.Piece, name: str) -> np.ndarray:
    return np.array([_number(file, place, name, value)
                     for place, value in zip(piece.places, piece.columns[name])], np.float64)


def _number(file: Path, place: str, name: str, value: Any) -> float:
    if value is None:
        raise _wrong(file, place, name, "has no value", "a number")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or abs(number) > FP32_MAX:
        raise _wrong(file, place, name, f"is {value!r}",
                     "a number of fp32, or a column among the categories")
    return number


def _classes(file: Path, piece: table_rows.Piece, name: str, known: Sequence[str]) -> np.ndarray:
    numbers = {text: i for i, text in enumerate(known)}
    found = []
    for place, value in zip(piece.places, piece.columns[name]):
        if value is None:
            raise _wrong(file, place, name, "has no value", "one of the categories")
        if _text(value) not in numbers:
            more = f" and {len(known) - SHOWN_VALUES} more" if len(known) > SHOWN_VALUES else ""
            raise _wrong(file, place, name, f"is {value!r}", ", ".join(known[:SHOWN_VALUES]) + more)
        found.append(numbers[_text(value)])
    return np.array(found, np.int32)


def _wrong(file: Path, place: str, name: str, what: str, allowed: str) -> UsageError:
    return UsageError(f"{file}: {place}: column {name!r} {what}: allowed is {allowed}")
