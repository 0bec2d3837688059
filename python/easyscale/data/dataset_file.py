"""The file with a dataset that a job names: a pickle of plain values, with both halves pickled.

A dataset is pickled by reference to its class, so loader processes import its module. A class or
function of __main__ (a script or a notebook) is pickled with its code if cloudpickle is installed.
"""
from __future__ import annotations

import os
import pickle
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..allowed import Allowed
from ..errors import UsageError
from .dataset_samples import Column

FORMAT = 1
PROTOCOL = 5  # of pickle: the file does not depend on the version of Python


@dataclass(frozen=True)
class DatasetFile:
    """What the file says: the arrays of a sample, and which of them is which input of the model.

    `allowed` are the integers of arrays by their keys, where they are not all those of one range.
    `padding` has the arrays whose samples have several extents, up to those of their column, and the
    elements with which they are padded.
    """

    columns: Mapping[Any, Column]
    keys: Mapping[str, Any]  # input of the model -> key of an array
    halves: Sequence[Any]  # the training data, and the evaluation data or None
    allowed: Mapping[Any, Allowed]
    padding: Mapping[Any, Any]

    def length(self, half: int) -> int:
        """The number of samples of a half."""
        return 0 if self.halves[half] is None else len(self.halves[half])


def pickled(dataset: Any) -> bytes:
    """The pickle of a dataset. Raises UsageError if other processes could not read it."""
    try:
        data = pickle.dumps(dataset, PROTOCOL)
        reason = "it uses a class or function of __main__"
    except Exception as error:  # pickle raises errors of many kinds
        data, reason = b"", f"{type(error).__name__}: {error}"
    if data and b"__main__" not in data:
        return data
    try:
        import cloudpickle
    except ImportError:
        raise UsageError(f"the dataset {type(dataset).__name__} cannot be pickled for the loader "
                         f"processes: {reason}. Put it into a module, or install cloudpickle"
                         ) from None
    return cloudpickle.dumps(dataset, PROTOCOL)


def write(file: Path, columns: Mapping[Any, Column], keys: Mapping[str, Any],
          halves: Sequence[Any], allowed: Mapping[str, Allowed],
          padding: Mapping[Any, Any] | None = None) -> None:
    """Writes the file; `halves` are the training data and the evaluation data or None, and
    `allowed` are the integers of the inputs. The range of an input is checked by the engine too."""
    content = {"format": FORMAT, "keys": dict(keys),
               "columns": {key: (x.dtype.str, x.shape) for key, x in columns.items()},
               "halves": [None if half is None else pickled(half) for half in halves]}
    if more := {keys[name]: (x.runs, None if x.places is None else x.places.tolist())
                for name, x in allowed.items() if not x.is_one_range()}:
        content["allowed"] = more
    if padding:
        content["padding"] = dict(padding)
    file.write_bytes(pickle.dumps(content, PROTOCOL))


def read(file: Path) -> DatasetFile:
    """Reads a file that `write` has written. Raises UsageError for another format."""
    import numpy as np
    content = pickle.loads(file.read_bytes())
    if content["format"] != FORMAT:
        raise UsageError(f"the file of the dataset has the format {content['format']}: allowed is "
                         f"{FORMAT}")
    columns = {key: Column(np.dtype(dtype), tuple(shape))
               for key, (dtype, shape) in content["columns"].items()}
    halves = [None if half is None else pickle.loads(half) for half in content["halves"]]
    allowed = {key: Allowed(runs, None if places is None else np.array(places))
               for key, (runs, places) in content.get("allowed", {}).items()}
    return DatasetFile(columns, content["keys"], halves, allowed, content.get("padding", {}))


def module_path() -> str:
    """The directories from which this process imports modules, but those of every interpreter."""
    usual = [Path(path) for path in {*sysconfig.get_paths().values(), sys.base_prefix, sys.prefix}]
    places = [Path(entry or os.curdir).resolve() for entry in sys.path]
    own = [str(place) for place in places
           if place.is_dir() and not any(place.is_relative_to(path) for path in usual)]
    if any(os.pathsep in place for place in own):
        raise UsageError(f"a directory of sys.path has a {os.pathsep!r} in its name: allowed is "
                         "none")
    return os.pathsep.join(dict.fromkeys(own))
