"""Texts that become token files: `esctl data tokenize` encodes them once.

docs/reference/data-formats.md, "From texts to token files", describes the files.
"""
from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..allowed import Allowed
from ..errors import RefusedError, UsageError
from ..folders import TemporaryFolder
from ..programs import run_json
from .array_samples import Arrays
from .token_samples import Tokens, tokens

RECORD = "texts.json"  # beside tokens.json: what the token files were made of


@dataclass(frozen=True)
class Texts(Tokens):
    """The windows of texts, which were encoded into token files.

    `holder` is the temporary folder of the token files; None if the user has named their folder.
    """

    holder: TemporaryFolder | None

    def table(self, eval_data: Arrays | None) -> dict[str, Any]:
        """The table [data] of a job."""
        place = {} if self.holder is None else {"path": "data"}
        return super().table(eval_data) | place

    def write(self, folder: Path, eval_data: Arrays | None, names: Mapping[str, Any],
              allowed: Mapping[str, Allowed]) -> None:
        """Puts token files of a temporary folder into the folder of the job."""
        if self.holder is not None:
            shutil.copytree(self.folder, folder, copy_function=_link_or_copy)


def texts(paths: str | Path | Sequence[str | Path], tokenizer: str | Path, length: int, *,
          eval_share: float = 0.0, folder: str | Path | None = None, field: str = "text",
          append_token: str | None = None, shifted: bool = True,
          names: tuple[str, str] | None = None, document_end: int | None = None) -> Texts:
    """Samples from texts, for a language model: windows of `length` tokens and their labels.

    paths: text files in UTF-8, each one a document, and files *.jsonl and *.ndjson with a document
    in the field `field` of each line; also compressed with gzip.
    tokenizer: a tokenizer.json of Hugging Face.
    eval_share: the share of the texts that is kept for the evaluation, 0 to 0.9.
    folder: where the token files stay. It is made if it does not exist. It is used again if it was
    made of the same texts (by their content) with the same tokenizer and settings, and refused
    otherwise. Without it the texts are encoded now, and the folder of the job gets the files.
    append_token: a token behind every document, for example "<|endoftext|>".
    shifted, names, document_end: as for `tokens`.
    """
    files = [Path(x).resolve() for x in ([paths] if isinstance(paths, (str, Path)) else paths)]
    if not files:
        raise UsageError("paths is empty: allowed is at least one file of text")
    options = {"eval_share": eval_share, "field": field, "append_token": append_token}
    record = _record(files, Path(tokenizer).resolve(), options)
    holder = TemporaryFolder("texts-") if folder is None else None
    place = holder.path / "tokens" if holder else Path(folder or "").resolve()
    if place.exists():
        _check_record(place, record)
    else:
        _tokenize(files, Path(tokenizer).resolve(), options, place, record)
    made = tokens(place, length, shifted=shifted, names=names, document_end=document_end)
    return Texts(made.arrays, made.folder, made.token_type, made.shifted, document_end, holder)


def _tokenize(files: Sequence[Path], tokenizer: Path, options: Mapping[str, Any], place: Path,
              record: Mapping[str, Any]) -> None:
    """Makes the folder, which gets its name when it is complete."""
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_name(f"{place.name}.new-{os.getpid()}")
    arguments = ["data", "tokenize", *map(str, files), "--tokenizer", str(tokenizer), "--out",
                 str(unfinished), "--eval-share", str(options["eval_share"]), "--field",
                 options["field"]]
    if options["append_token"] is not None:
        arguments += ["--append-token", options["append_token"]]
    try:
        run_json(arguments)
        (unfinished / RECORD).write_text(json.dumps(record, indent=2) + "\n")
        unfinished.rename(place)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _record(files: Sequence[Path], tokenizer: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the tokens: contents and settings, not the places of the files."""
    kinds = [x.suffix if x.suffix != ".gz" else Path(x.stem).suffix for x in files]
    return {"format": 1, "texts": [{"sha256": _digest(file), "kind": kind}
                                   for file, kind in zip(files, kinds)],
            "tokenizer": _digest(tokenizer), **options}


def _digest(file: Path) -> str:
    try:
        with open(file, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


def _check_record(place: Path, record: Mapping[str, Any]) -> None:
    try:
        found = json.loads((place / RECORD).read_text())
    except (OSError, ValueError) as error:
        raise RefusedError(f"folder = {place} exists and has no {RECORD}: allowed is a new folder, or "
                           "one that this function has made") from error
    differ = [key for key in record if found.get(key) != record[key]]
    if differ:
        raise RefusedError(f"folder = {place}: its token files were made with other "
                           f"{', '.join(differ)}: allowed are the same, or another folder")


def _link_or_copy(source: str, target: str) -> None:
    """A second name of the file; a copy where the file system does not allow it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
