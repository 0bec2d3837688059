"""EasyScale: trains one model elastically on any devices with the same bits.

    import torch, easyscale as es
    job = es.Job(model, loss=torch.nn.CrossEntropyLoss(), data=es.data.arrays(x, y), epochs=3,
                 optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))
    run = job.run(stages="cpu-avx2:2@20,cpu-scalar:1")
    run.load_into(model)

Torch is imported only when a model is captured.
"""
from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from . import data
from .client import Client
from .errors import EasyScaleError, FailedError, NotFoundError, RefusedError, UsageError
from .history import StepRecord
from .job import Job
from .optimizers import Optimizer, Schedule
from .program import Program
from .run import RemoteJob, Run

__all__ = ["CaptureError", "Client", "EasyScaleError", "FailedError", "Job", "NotFoundError", "Optimizer",
           "Program", "RefusedError", "RemoteJob", "Run", "Schedule", "StepRecord", "UsageError",
           "capture", "data", "from_onnx", "to_onnx"]


class _Package(ModuleType):
    """This module, whose attribute `capture` is the function and not the sub-package with it."""

    @property
    def capture(self) -> Any:
        """The function that captures a model; see `help(easyscale.capture)`."""
        return import_module(".capture", __name__).capture

    @capture.setter
    def capture(self, _: ModuleType) -> None:
        """The import system sets every sub-package as an attribute; this one is left out."""

    @property
    def from_onnx(self) -> Any:
        """The function that reads an ONNX model; see `help(easyscale.from_onnx)`."""
        return import_module(".onnx", __name__).from_onnx

    @property
    def to_onnx(self) -> Any:
        """The function that writes an ONNX file; see `help(easyscale.to_onnx)`."""
        return import_module(".onnx", __name__).to_onnx

    @property
    def CaptureError(self) -> type[Exception]:
        """The error of a model that cannot be captured."""
        return import_module(".capture.errors", __name__).CaptureError


sys.modules[__name__].__class__ = _Package
