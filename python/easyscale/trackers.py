"""The curves of a run in TensorBoard and MLflow, which `esctl curve` writes meanwhile."""
from __future__ import annotations

import contextlib
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from typing import Any

from .errors import UsageError
from .programs import find_esctl

END_SECONDS = 30.0  # that the last points may take after the end of the job


def tracker_options(tensorboard: Any, mlflow: Any, experiment: Any) -> list[str]:
    """The options of `esctl curve`. Raises UsageError for a wrong argument of Job.run."""
    if not isinstance(tensorboard, (str, PathLike, type(None))) or tensorboard == "":
        raise UsageError(f"tensorboard = {tensorboard!r}: allowed is the path of a directory")
    if mlflow is not None and not str(mlflow).startswith(("http://", "https://")):
        raise UsageError(f"mlflow = {mlflow!r}: allowed is the address of a server, such as "
                         "http://127.0.0.1:5000")
    if experiment is not None and mlflow is None:
        raise UsageError("experiment: allowed with mlflow, whose runs it groups")
    return [*(["--tensorboard", fspath(tensorboard)] if tensorboard is not None else []),
            *(["--mlflow", mlflow] if mlflow is not None else []),
            *(["--experiment", experiment] if experiment is not None else [])]


@contextlib.contextmanager
def tracked(job: str, options: Sequence[str], head: Sequence[str]) -> Iterator[None]:
    """Writes the curves of a job in this block, at whose end the job is over. What the trackers do
    not take is a warning and never changes the run. `head` are the options that name the head."""
    if not options:
        yield
        return
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([find_esctl(), "curve", job, "--follow", *options, *head],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=errors, start_new_session=True)
        try:
            yield
        finally:
            _end(process)
            errors.seek(0)
            if process.returncode != 0:
                warnings.warn("the curves of this run are not complete: "
                              + (errors.read().strip() or "esctl curve did not end"), stacklevel=4)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
