"""EasyScale: trains one model elastically on any devices with the same bits.

    import torch, easyscale as es
    job = es.Job(model, loss=torch.nn.CrossEntropyLoss(), data=es.data.arrays(x, y), epochs=3,
                 optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))
    run = job.run(stages="cpu-avx2:2@20,cpu-scalar:1")
    run.load_into(model)

Torch is imported only when a model is captured.
"""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import data
from .client import Client
from .decisions import EarlyStopping
from .errors import EasyScaleError, FailedError, NotFoundError, RefusedError, UsageError
from .history import StepRecord
from .job import Job
from .lora import Lora
from .losses import Loss
from .optimizers import ClipGroup, Optimizer, ParameterGroup
from .program import Program
from .run import RemoteJob, Run
from .schedules import Schedule

if TYPE_CHECKING:
    from .onnx import from_onnx, to_onnx
    from .tracing import capture
    from .tracing.errors import CaptureError

__all__ = ["CaptureError", "Client", "ClipGroup", "EarlyStopping", "EasyScaleError", "FailedError", "Job", "Lora",
           "Loss", "NotFoundError", "Optimizer", "ParameterGroup", "Program", "RefusedError", "RemoteJob", "Run",
           "Schedule", "StepRecord", "UsageError", "capture", "data", "from_onnx", "to_onnx"]

# These import torch or onnx at their first use: name -> module.
_LATER = {"capture": ".tracing", "CaptureError": ".tracing.errors", "from_onnx": ".onnx",
          "to_onnx": ".onnx"}


def __getattr__(name: str) -> Any:
    """The names that are imported at their first use."""
    if name in _LATER:
        return getattr(import_module(_LATER[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
