"""The lines of a user's code, which messages name."""
from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch

FRAME = re.compile(r'File "([^"]+)", line (\d+)')
# Folders of code whose lines say nothing about a model. A user may have folders of the same names.
PACKAGES = tuple(os.path.join(folder, "") for folder in (
    os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__))))
PYTHON = os.path.join(os.path.dirname(os.__file__), "")
STEP = os.path.join(os.path.dirname(__file__), "step.py")  # what calls the model and its loss


def calling_line() -> str:
    """The line of the user that is running now; "" if there is none."""
    frame = _calling_frame()
    return _short(frame.f_code.co_filename, frame.f_lineno) if frame else ""


def line_of_caller() -> str:
    """The line that has called the function which asks; "" if it is in a library."""
    frame = sys._getframe(2)
    path = frame.f_code.co_filename
    return "" if _in_library(path) else _short(path, frame.f_lineno)


def line_of(error: BaseException) -> str:
    """Where the user's code has raised an error, or called what has raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not _in_library(f.filename)]
    frame = own[-1] if own else frames[-1]
    return _short(frame.filename, frame.lineno)


def line_of_node(node: Any) -> str:
    """The line that a node of a tracer's graph comes from; "" if there is none."""
    frames = FRAME.findall(node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not _in_library(frame[0])]
    return _short(*own[-1]) if own else ""


def with_lines(create_node: Callable) -> Callable:
    """torch.fx.Graph.create_node, which notes the line of the user: torch itself notes none in a
    function that is not called forward, as a loss."""
    def create(graph: Any, op: str, *args: Any, **kwargs: Any) -> Any:
        node = create_node(graph, op, *args, **kwargs)
        if op == "call_function" and (frame := _calling_frame()):
            code = frame.f_code
            node.meta["stack_trace"] = (f'File "{code.co_filename}", line {frame.f_lineno}, in '
                                        f"{code.co_name}")
        return node
    return create


def _calling_frame() -> Any:
    """The innermost frame of the user's code inside of a forward pass."""
    frame: Any = sys._getframe(1)
    found = None
    while frame is not None and frame.f_code.co_filename != STEP:
        if found is None and not _in_library(frame.f_code.co_filename):
            found = frame
        frame = frame.f_back
    return found if frame is not None else None


def _in_library(path: str) -> bool:
    # Other packages may be installed below Python's own files, and may define models.
    python = path.startswith(PYTHON) and "-packages/" not in path
    return path.startswith(("<", *PACKAGES)) or python


def _short(path: str, line: Any) -> str:
    """A line without the folder of the installation, so that files are equal on all machines."""
    if "/site-packages/" in path:
        return f"{path.rsplit('/site-packages/', 1)[1]}:{line}"
    return f"{path.rsplit('/', 1)[-1]}:{line}"
