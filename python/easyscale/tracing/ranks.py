"""Refuses a forward pass that has another meaning among the ranks of DistributedDataParallel.

The ESTs of a job exchange gradients only, at the end of a step. A model or a loss that combines what
several ranks have computed would silently be trained as one of each EST. Whether it does so may depend
on questions such as `is_initialized()`, which have other answers in a job. So a forward pass is
run once as that of rank 1 of 2: it must call no collective, and have the loss that it has alone.
"""
from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .errors import CaptureError
from .patches import exchanged
from .lines import line_of

BACKEND = "easyscale_refusing"
REMEDY = ("the ESTs of a job exchange gradients only, at the end of a step. Compute it from the "
          "mini-batch of one EST, which may be larger (batch_size) where there are fewer ESTs (max_p)")


def refuse_synchronised_norms(model: nn.Module, modes: dict[nn.Module, bool]) -> None:
    """Raises CaptureError for a batch norm over the mini-batches of all ranks. One in evaluation reads
    its running statistics only. `modes` are those of a training."""
    for path, module in model.named_modules():
        if isinstance(module, nn.SyncBatchNorm) and modes[module]:
            raise CaptureError(
                f"the module {path or 'itself'} is a SyncBatchNorm, which normalises the mini-batches "
                "of all ranks together; the ESTs of a job exchange gradients only, at the end of a "
                "step. Use BatchNorm, which normalises the mini-batch of each EST (leave out "
                "convert_sync_batchnorm), with a larger batch_size and fewer ESTs (max_p), or "
                "GroupNorm")


def loss_among_ranks(run: Callable[[], torch.Tensor]) -> torch.Tensor | Exception | None:
    """What `run` returns or raises as rank 1 of 2, and None where there are no process groups.

    Raises CaptureError if it calls a collective.
    """
    if not dist.is_available():
        return None
    if dist.is_initialized():
        raise CaptureError("this process belongs to a process group (torch.distributed): capture the "
                           "model in a process without one, because a job has its own ranks")
    try:
        with _rank_of_two():
            return run()
    except Exception as error:  # whatever the model raises
        if any("/torch/distributed/" in frame.filename
               for frame in traceback.extract_tb(error.__traceback__)):
            raise CaptureError(f"the forward pass calls torch.distributed at {line_of(error)} "
                               f"({error}), to compute with other ranks: {REMEDY}, and leave the "
                               "call out") from None
        return error.with_traceback(None)  # the trace says what it is


def refuse_other(among: Any, differs: Callable[[torch.Tensor], bool]) -> None:
    """Raises CaptureError if what loss_among_ranks() has returned `differs` from the loss alone."""
    if isinstance(among, Exception):
        raise CaptureError("the forward pass asks torch.distributed about its ranks, and fails with "
                           f"two of them ({type(among).__name__}: {among}): {REMEDY}, and ask nothing")
    if among is not None and differs(among):
        raise CaptureError("the forward pass has another loss as rank 1 of 2 than alone, so it asks "
                           "torch.distributed about its rank or the number of ranks (get_rank, "
                           f"get_world_size, is_initialized): {REMEDY}, and ask nothing")


def _is_collective(name: str) -> bool:
    return any(part in name for part in ("reduce", "gather", "broadcast", "scatter", "alltoall",
                                         "barrier", "recv")) or name == "send"


def _refuse(name: str) -> Callable:
    def call(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"the collective {name.strip('_')}")
    return call


def _group(rank: int, size: int) -> Any:
    """A process group whose collectives raise their names."""
    def name(_: Any) -> str:
        return BACKEND
    methods = {name: _refuse(name) for name in dir(dist.ProcessGroup) if _is_collective(name)}
    return type("_Refusing", (dist.ProcessGroup,), methods | {"getBackendName": name})(rank, size)


@contextlib.contextmanager
def _rank_of_two() -> Iterator[None]:
    """In this block the process is rank 1 of 2."""
    if BACKEND not in dist.Backend.backend_list:
        dist.Backend.register_backend(
            BACKEND, lambda store, rank, size, timeout: _group(rank, size), devices=["cpu"])
    with exchanged(sys, "excepthook", sys.excepthook):  # torch puts the rank in front of errors
        dist.init_process_group(BACKEND, store=dist.HashStore(), rank=1, world_size=2)
        try:
            yield
        finally:
            dist.destroy_process_group()
