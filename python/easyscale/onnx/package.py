"""The package `onnx`, whose absence has an error of its own."""
from __future__ import annotations

from .errors import OnnxNotInstalled

try:
    import onnx
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun
except ImportError as error:
    raise OnnxNotInstalled("reading an ONNX file needs the package onnx: pip install onnx "
                           f"({error})") from error

__all__ = ["OpRun", "ReferenceEvaluator", "helper", "numpy_helper", "onnx"]
