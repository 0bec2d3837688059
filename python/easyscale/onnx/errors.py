"""What can be wrong with an ONNX file. Every error names the file and what is allowed."""
from __future__ import annotations

from ..tracing.errors import CaptureError


class OnnxNotInstalled(CaptureError):
    """The package `onnx`, which reads the files, is not installed."""


class OnnxRefused(CaptureError):
    """The file is damaged, of another version, or has types that the engine does not have."""
