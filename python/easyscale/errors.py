"""The errors of the package. Each one names the place that is wrong and what is allowed."""
from __future__ import annotations


class EasyScaleError(Exception):
    """An error of the package or of a program that it has run; `exit_code` is that of `esctl`."""

    exit_code = 1


class FailedError(EasyScaleError):
    """The request was tried and has failed: the system, the data or the job had an error."""


class UsageError(EasyScaleError):
    """The request is wrong: an unknown name, a value that is not allowed, a file that is damaged."""

    exit_code = 2


class NotFoundError(EasyScaleError):
    """A job, a file, a program or the head does not exist."""

    exit_code = 3


class RefusedError(EasyScaleError):
    """The request is not allowed in this state, for example because a job has ended."""

    exit_code = 4


_BY_CODE = {kind.exit_code: kind for kind in (FailedError, UsageError, NotFoundError, RefusedError)}


def error_of(exit_code: int, message: str) -> EasyScaleError:
    """The error that belongs to an exit code of `esctl`; an unknown code is a failure."""
    return _BY_CODE.get(exit_code, FailedError)(message)
