"""Samples from token files, for language models: windows of tokens and their labels."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..allowed import Allowed
from ..errors import UsageError
from .array_samples import Arrays
from .token_files import POSITIONS, SEGMENTS, Documents, Windows, training_shards


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
              allowed: Mapping[str, Allowed]) -> None:
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
