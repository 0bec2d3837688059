"""The rows of CSV and Parquet files, in pieces, with the place of each row in the file."""
from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import NotFoundError, UsageError

PIECE_ROWS = 8192


@dataclass(frozen=True)
class Piece:
    """Some rows: the values of each column, and the place of each row in the file.

    A value of CSV is a text, and one of Parquet has its type there; None is missing. A place is
    "line 7" of CSV, or "row 7" of Parquet, where the first row is 1.
    """

    columns: dict[str, list[Any]]
    places: list[str]


def header(file: Path) -> list[str]:
    """The names of the columns. Raises UsageError if one is there twice."""
    names = _parquet(file).schema_arrow.names if is_parquet(file) else _csv_header(file)
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise UsageError(f"{file}: line 1: column {twice[0]!r} is there twice: allowed is once")
    return list(names)


def pieces(file: Path, columns: Sequence[str]) -> Iterator[Piece]:
    """The values of these columns, which the file has, in the order of the rows."""
    return _parquet_pieces(file, columns) if is_parquet(file) else _csv_pieces(file, columns)


def is_parquet(file: Path) -> bool:
    """Whether the ending says that the file is a Parquet file."""
    return file.suffix in (".parquet", ".pq")


def _csv_header(file: Path) -> list[str]:
    for _, row in _csv_rows(file):
        return row
    raise UsageError(f"{file} is empty: allowed is a file with a header line")


def _csv_pieces(file: Path, columns: Sequence[str]) -> Iterator[Piece]:
    rows = _csv_rows(file)
    names = next(rows)[1]
    chosen = [names.index(name) for name in columns]
    found: list[list[str]] = []
    places: list[str] = []
    for line, row in rows:
        if not row and len(names) > 1:  # an empty line
            continue
        if len(row) != len(names):
            raise UsageError(f"{file}: line {line} has {len(row)} values: allowed are {len(names)}, "
                             "one for each column of the header")
        found.append([row[i].strip() for i in chosen])
        places.append(f"line {line}")
        if len(found) == PIECE_ROWS:
            yield Piece(_by_column(columns, found), places)
            found, places = [], []
    if found:
        yield Piece(_by_column(columns, found), places)


def _by_column(columns: Sequence[str], rows: list[list[str]]) -> dict[str, list[Any]]:
    return {name: [text or None for text in values]
            for name, values in zip(columns, zip(*rows))}


def _csv_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Every row with the number of its last line."""
    try:
        with open(file, encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(text, strict=True)
            while True:
                try:
                    row = next(reader)
                except StopIteration:
                    return
                yield reader.line_num, row
    except OSError as error:
        raise NotFoundError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} has bytes that are no UTF-8: allowed is UTF-8") from error
    except csv.Error as error:
        raise UsageError(f"{file}: line {reader.line_num}: {error}: allowed is CSV with commas and "
                         "double quotes") from error


def _parquet(file: Path) -> Any:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise UsageError(f"{file}: Parquet needs the package pyarrow, which is not installed: allowed "
                         "is CSV without it (pip install pyarrow)") from error
    try:
        return ParquetFile(file)
    except OSError as error:
        raise NotFoundError(f"{file} cannot be read: {error}") from error
    except ArrowException as error:
        raise UsageError(f"{file} is no Parquet file: {error}") from error


def _parquet_pieces(file: Path, columns: Sequence[str]) -> Iterator[Piece]:
    first = 1
    for batch in _parquet(file).iter_batches(batch_size=PIECE_ROWS, columns=list(columns)):
        values = {name: batch.column(name).to_pylist() for name in columns}
        yield Piece(values, [f"row {first + i}" for i in range(batch.num_rows)])
        first += batch.num_rows
