"""What can be wrong with an optimizer that a user brings."""
from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from ...errors import EasyScaleError
from ...optimizers import class_name
from ..errors import CaptureError
from ..lines import _in_library, _short
from .together import Together

HERE = os.path.join(os.path.dirname(__file__), "")
OWN = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
OPTIM = os.path.join("torch", "optim", "")
ADVICE = ("compute with tensors of the same parameter only (torch.where, clamp, maximum), or with "
          "numbers that depend on the step alone")


class OptimizerRefused(CaptureError):
    """An optimizer cannot be captured."""


def refused(optimizer: Any, reason: str) -> OptimizerRefused:
    """The error of an optimizer that cannot be captured for a reason."""
    name = class_name(optimizer.parts if isinstance(optimizer, Together) else optimizer)
    return OptimizerRefused(f"optimizer {name} cannot be captured: {reason}")


def place() -> str:
    """The line of the optimizer that runs now, with "at" before it; "" if there is none."""
    frame: Any = sys._getframe(1)
    found = ""
    while frame is not None:
        path, line = frame.f_code.co_filename, frame.f_lineno
        if not _in_library(path):
            return f" at {_short(path, line)}"
        if OPTIM in path and not found and "optimizer.py" not in path:
            found = f" at {_short(path, line)}"
        frame = frame.f_back
        if frame is not None and frame.f_code.co_filename.startswith(HERE) and found:
            break
    return found


def place_of(error: BaseException) -> str:
    """The line of the optimizer that has raised an error, or called what has raised it."""
    own, found, trace = "", "", error.__traceback__
    while trace is not None:
        path, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        if not _in_library(path):
            own = f" at {_short(path, line)}"
        elif OPTIM in path and "optimizer.py" not in path:
            found = f" at {_short(path, line)}"
        trace = trace.tb_next
    return own or found


@contextlib.contextmanager
def explained(optimizer: Any) -> Iterator[None]:
    """Says which optimizer an error is about, and at which line."""
    try:
        yield
    except OptimizerRefused as error:
        text = str(error)
        raise error if text.startswith("optimizer ") else refused(optimizer, text) from error
    except EasyScaleError:
        raise
    except Exception as error:  # a step raises whatever it does not support
        raise refused(optimizer, f"its step fails{place_of(error)} on tensors without contents, with "
                                 f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                      ) from error
