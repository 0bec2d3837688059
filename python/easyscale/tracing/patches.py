"""What is exchanged in torch and in the module while the forward pass is traced.

Without this, some gradients would vanish silently: the forward of a torch.autograd.Function runs
without gradients under a tracer, and looks like a torch.no_grad region.
"""
from __future__ import annotations

import contextlib
import functools
import logging
import math
import random
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
import torch._dynamo
import torch.utils.checkpoint
from torch import nn
from torch._functorch import eager_transforms
from torch.fx.experimental import proxy_tensor

from . import recurrent_calls  # noqa: F401  It registers operators.
from .assertions import assumed_assertions, overridden
from .ctc import ctc_loss
from .dense_experts import dense_experts
from .errors import CaptureError, CustomFunction, DataDependent, StateChanged
from .gradients import traced_gradient
from .held import changed_where_held, functions
from .known import known_contents
from .lines import calling_line, with_lines
from .packed import padded_sequences
from .regions import marked_checkpoints, run_region
from .same_draws import drops_a_layer, refused_seed
from .selected import node_of

SIMPLE = (bool, int, float, str)


@contextlib.contextmanager
def exchanged(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Sets an attribute for the time of a block."""
    before = owner.__dict__[name] if name in vars(owner) else getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, before)


class _Context:
    """Stands in for the ctx of a Function whose forward is captured."""

    def save_for_backward(self, *tensors: torch.Tensor) -> None:
        """Keeps nothing: the gradient is derived from the forward."""

    def mark_non_differentiable(self, *tensors: torch.Tensor) -> None:
        """Is refused, because the gradient would differ."""
        raise CustomFunction("a captured Function marks outputs as not differentiable")

    def set_materialize_grads(self, value: bool) -> None:
        """Has no meaning for a captured forward."""


def _apply_with(allowed: tuple[type, ...]) -> Callable:
    def apply(cls: type, *args: Any, **kwargs: Any) -> Any:
        if cls is torch.utils.checkpoint.CheckpointFunction:
            return run_region(args[0], args[2:], {})
        if cls in allowed or cls.__module__.startswith("torch."):
            return _forward_of(cls, args, kwargs)
        raise CustomFunction(
            f"the model at {calling_line()} calls {cls.__module__}.{cls.__qualname__}, a "
            "torch.autograd.Function, whose backward cannot be captured. If it returns the "
            "gradient of y unchanged (straight through), write y + (f(y) - y).detach() with its "
            f"forward f; allow_functions=({cls.__name__},) is for a backward that is the derivative of the "
            "forward, and trains that derivative in place of any other backward")
    return classmethod(apply)


def _forward_of(cls: type, args: tuple, kwargs: dict) -> Any:
    separate_context = cls.setup_context is not torch.autograd.Function.setup_context
    return cls.forward(*args, **kwargs) if separate_context else cls.forward(
        _Context(), *args, **kwargs)


def _rand_for(model: nn.Module) -> Callable:
    """torch.rand, but a single number that transformers asks for (a LayerDrop decision) is 1.0 where no
    layer is dropped."""
    real = torch.rand
    dropping = [name for name, module in model.named_modules()
                if getattr(module, "layerdrop", 0) or 0 > 0]

    def rand(*size: Any, **kwargs: Any) -> Any:
        if size not in (([],), ((),), ()) or "size" in kwargs or not drops_a_layer():
            return real(*size, **kwargs)
        if dropping:
            raise DataDependent(f"layers of {dropping[0]} are dropped at random; set layerdrop=0")
        return 1.0
    return rand


def _mask_by_broadcasting(function: Callable, bh_indices: bool = True) -> Callable:
    """What transformers computes by torch.vmap, which torch.export cannot trace before 2.9."""
    def over_pairs(b: Any, h: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return function(b, h, q[:, None], k[None, :]).expand(q.shape[0], k.shape[0])

    def over_all(b: Any, h: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        mask = function(b[:, None, None, None], h[None, :, None, None], q[None, None, :, None],
                        k[None, None, None, :])
        return mask.expand(b.shape[0], h.shape[0], q.shape[0], k.shape[0])
    return over_all if bh_indices else over_pairs


def _item_of(kind: type) -> Callable:
    """A slice of a container is one of torch's class, and not of the tracer's class for it."""
    real = kind.__getitem__  # type: ignore[attr-defined]

    def item(self: Any, index: Any) -> Any:
        if not isinstance(index, slice):
            return real(self, index)
        return kind(*list(self)[index]) if kind is nn.Sequential else kind(list(self)[index])
    return item


def _quantile_with(real: Callable) -> Callable:
    """torch.quantile of a number, whose check branches on content; other calls are torch's."""
    def quantile(x: torch.Tensor, q: Any, dim: int | None = None, keepdim: bool = False,
                 *, interpolation: str = "linear", **kwargs: Any) -> torch.Tensor:
        if not isinstance(q, float) or not 0 <= q <= 1 or interpolation != "linear" or kwargs:
            return real(x, q, dim, keepdim, interpolation=interpolation, **kwargs)
        shape = [1] * x.dim()
        y, axis = (x.reshape(-1), 0) if dim is None else (x, dim)
        ordered = torch.sort(y, dim=axis)[0]
        last = ordered.shape[axis] - 1
        below = min(int(q * last), last)
        above = min(below + 1, last)
        found = torch.lerp(ordered.narrow(axis, below, 1), ordered.narrow(axis, above, 1),
                           q * last - below)
        if dim is None:
            return found.reshape(shape if keepdim else [])
        return found if keepdim else found.squeeze(axis)
    return quantile


def _is_said_to_be_causal(mask: Any, is_causal: bool | None = None, size: Any = None) -> bool:
    """What a layer of torch.nn reads from the content of a mask; the mask itself is always used."""
    return is_causal is True


def refuse_hooks(model: nn.Module) -> None:
    """Refuses hooks that may change the gradient of a module."""
    for path, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:
            raise CaptureError(f"the module {path.removeprefix('model.')} has a backward hook, which "
                               "cannot be captured; remove it, and change the gradient in the "
                               "forward pass or the loss")


def _refuse_hook(tensor: torch.Tensor, hook: Callable) -> Any:
    raise CaptureError(f"the forward pass at {calling_line()} registers a hook on a gradient "
                       "(register_hook), which cannot be captured: change the gradient in the "
                       "forward pass or the loss")


def _refuse_backward(*_: Any, **__: Any) -> Any:
    raise CaptureError(f"the forward pass at {calling_line()} calls backward(), which cannot be "
                       "captured: compute a gradient that it needs with torch.autograd.grad(..., "
                       "create_graph=True)")


def _refuse_seed(*_: Any) -> Any:
    raise refused_seed()


def _refuse_transform(name: str) -> Callable:
    def refuse(*_: Any) -> Any:
        raise CaptureError(f"the forward pass at {calling_line()} uses {name} of torch.func, which "
                           "cannot be captured: compute gradients with torch.autograd.grad(..., "
                           "create_graph=True)")
    return refuse


def refuse_cumulative_averages(model: nn.Module) -> None:
    """Refuses a batch norm in training whose statistics are means over all of its mini-batches."""
    for path, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.momentum is None and (
                module.training and module.track_running_stats):
            raise CaptureError(f"the batch norm {path or 'of the model'} has momentum=None, which "
                               "averages all mini-batches; give it a number, such as 0.1")


def _normalised(real: Callable) -> Callable:
    """nn.functional.normalize, which writes its result behind the division: a spectral norm gives the
    tensor for the result, and of an operator with such an argument torch does not know the gradient."""
    def normalize(input: torch.Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12,
                  out: torch.Tensor | None = None) -> torch.Tensor:
        result = real(input, p, dim, eps)
        return result if out is None else out.copy_(result)
    return normalize


def _lp_pooled(average: Callable, axes: int) -> Callable:
    """nn.functional.lp_pool of this number of axes, with the gradient zero where a window has only zeros. That of
    torch is an infinity times 0 there, which its relu drops and that of the engine does not."""
    def pool(input: torch.Tensor, norm_type: float, kernel_size: Any, stride: Any = None,
             ceil_mode: bool = False) -> torch.Tensor:
        stride = kernel_size if stride is None else stride
        mean = average(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        count = kernel_size ** axes if isinstance(kernel_size, int) else math.prod(kernel_size)
        zero = mean == 0
        powers = torch.where(zero, torch.ones_like(mean), mean) * count
        return torch.where(zero, torch.zeros_like(mean), powers.pow(1.0 / norm_type))
    return pool


def _with_variance(real: Callable) -> Callable:
    """nn.functional.gaussian_nll_loss, which limits the variance past autograd: a variance below the
    limit has the gradient that the limit has. A tracer shows the limit and not that it has no gradient."""
    def loss(input: torch.Tensor, target: torch.Tensor, var: Any, full: bool = False,
             eps: float = 1e-6, reduction: str = "mean") -> torch.Tensor:
        if isinstance(var, torch.Tensor):
            var, eps = var.detach().clamp(min=eps) + (var - var.detach()), 0.0
        return real(input, target, var, full, eps, reduction)
    return loss


def _assigning(real: Callable) -> Callable:
    """nn.Module.__setattr__, which shows the tracer the assignment of a tensor to a buffer that has the
    same shape and type. Others may be made once, and are compared after the trace."""
    def set_attribute(module: nn.Module, name: str, value: Any) -> None:
        before = module.__dict__.get("_buffers", {}).get(name)
        mode = proxy_tensor.get_proxy_mode()
        if before is not None and isinstance(value, torch.Tensor) and value is not before and (
                mode is not None and node_of(value, mode.tracer) is not None) and (
                (value.shape, value.dtype) == (before.shape, before.dtype)):
            value = torch.ops.easyscale.assign(before, value)
        real(module, name, value)
    return set_attribute


def _data() -> property:
    """Tensor.data, which a tracer does not see: a tensor of its own is detached instead, and what is
    assigned is copied into it."""
    real = torch.Tensor.data

    def get(tensor: torch.Tensor) -> torch.Tensor:
        mode = proxy_tensor.get_proxy_mode()
        if mode is not None and node_of(tensor, mode.tracer) is not None:
            return tensor.detach()
        return real.__get__(tensor)

    def set_content(tensor: torch.Tensor, value: torch.Tensor) -> None:
        mode = proxy_tensor.get_proxy_mode()
        if mode is not None and node_of(tensor, mode.tracer) is not None and (
                tensor.shape == value.shape):
            tensor.detach().copy_(value.detach())
        else:
            real.__set__(tensor, value)
    return property(get, set_content)


def _unpooled(real: Callable) -> Callable:
    """max_unpool of windows that do not overlap, where every place is named once at most."""
    @functools.wraps(real)
    def unpool(input: torch.Tensor, indices: torch.Tensor, kernel_size: Any, stride: Any = None,
               padding: Any = 0, output_size: Any = None) -> torch.Tensor:
        rank = int(real.__name__[-2])
        kernel, step = (x if isinstance(x, (list, tuple)) else (x,) * rank
                        for x in (kernel_size, stride or kernel_size))
        if any(s < k for s, k in zip(step, kernel)):
            raise CaptureError(f"{real.__name__} of windows {list(kernel)} with the strides "
                               f"{list(step)}: windows that overlap may name a place several times, "
                               "and which number stays is not defined; use a stride of the size "
                               "of the window")
        return real(input, indices, kernel_size, stride, padding, output_size)
    return unpool


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings and logs of torch: what matters of them is raised as an error."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"torch\.")
            # Newer versions warn of the weights of LSTM and GRU from a module of Python.
            warnings.filterwarnings("ignore", r"The tensor attributes? .* assigned during export")
            yield
    finally:
        logging.disable(level)


@contextlib.contextmanager
def tracing(step: nn.Module, allowed: tuple[type, ...], states: Collection[str]) -> Iterator[None]:
    """Everything that must hold while a forward pass is traced; `step` wraps the model, and `states` are
    its buffers that training is known to write."""
    model = step.model
    fast_path = torch.backends.mha.get_fastpath_enabled()
    before = functions()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_quiet())
        stack.enter_context(exchanged(torch.fx.Graph, "create_node",
                                      with_lines(torch.fx.Graph.create_node)))
        # What torch.compile has made inside of a model is called as it was written.
        stack.enter_context(torch._dynamo.config.patch(error_on_nested_fx_trace=False))
        stack.enter_context(exchanged(torch.autograd.Function, "apply", _apply_with(allowed)))
        stack.enter_context(marked_checkpoints())
        known_truth = stack.enter_context(known_contents(step, overridden, states))
        stack.enter_context(assumed_assertions(known_truth))
        for name in ("lstm", "gru"):
            stack.enter_context(exchanged(torch._VF, name, getattr(torch.ops.easyscale, name)))
        stack.enter_context(exchanged(torch, "rand", _rand_for(model)))
        stack.enter_context(overridden(torch.Tensor, "data", _data()))
        stack.enter_context(exchanged(nn.Module, "__setattr__", _assigning(nn.Module.__setattr__)))
        stack.enter_context(overridden(torch.Tensor, "register_hook", _refuse_hook))
        for owner in (torch, torch.Tensor):
            stack.enter_context(overridden(owner, "quantile", _quantile_with(torch.quantile)))
        stack.enter_context(exchanged(nn.functional, "normalize",
                                      _normalised(nn.functional.normalize)))
        stack.enter_context(exchanged(nn.functional, "gaussian_nll_loss",
                                      _with_variance(nn.functional.gaussian_nll_loss)))
        for axes in (1, 2, 3):
            stack.enter_context(exchanged(nn.functional, f"lp_pool{axes}d", _lp_pooled(
                getattr(nn.functional, f"avg_pool{axes}d"), axes)))
        for name in ("max_unpool1d", "max_unpool2d", "max_unpool3d"):
            real = getattr(nn.functional, name)
            stack.enter_context(exchanged(nn.functional, name, _unpooled(real)))
        # The checks of a distribution branch on the content of tensors.
        stack.enter_context(exchanged(torch.distributions.Distribution, "_validate_args", False))
        masks = sys.modules.get("transformers.masking_utils")
        if masks is not None and hasattr(masks, "_vmap_for_bhqkv"):
            stack.enter_context(exchanged(masks, "_vmap_for_bhqkv", _mask_by_broadcasting))
        stack.enter_context(overridden(torch.Tensor, "backward", _refuse_backward))
        for owner, name in ((torch, "manual_seed"), (torch, "seed"), (torch.random, "manual_seed"),
                            (torch.random, "seed")):
            stack.enter_context(exchanged(owner, name, _refuse_seed))
        for name, what in (("grad_increment_nesting", "grad, vjp or jacrev"),
                           ("jvp_increment_nesting", "jvp or jacfwd")):
            stack.enter_context(exchanged(eager_transforms, name, _refuse_transform(what)))
        stack.enter_context(exchanged(torch, "ctc_loss", ctc_loss))
        stack.enter_context(exchanged(torch.autograd, "grad", traced_gradient))
        for kind in (nn.Sequential, nn.ModuleList):
            stack.enter_context(exchanged(kind, "__getitem__", _item_of(kind)))
        stack.enter_context(dense_experts(exchanged))
        stack.enter_context(padded_sequences(exchanged))
        stack.enter_context(exchanged(torch.nn.modules.transformer, "_detect_is_causal_mask",
                                      _is_said_to_be_causal))
        # Its purpose is indexing inside of vmap, and newer versions cannot export what it does.
        if masks is not None and hasattr(masks, "TransformGetItemToIndex"):
            stack.enter_context(exchanged(masks, "TransformGetItemToIndex", contextlib.nullcontext))
        stack.enter_context(changed_where_held(step, before))
        stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        stack.enter_context(_without_caches(model))
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)


@contextlib.contextmanager
def _without_caches(model: nn.Module) -> Iterator[None]:
    """A transformers model returns no cache of keys and values, and a dict of named outputs."""
    with contextlib.ExitStack() as stack:
        config = getattr(model, "config", None)
        for name, value in (("use_cache", False), ("return_dict", True)):
            if config is not None and hasattr(config, name):
                stack.enter_context(exchanged(config, name, value))
        yield


@contextlib.contextmanager
def unchanged(model: nn.Module, what: str) -> Iterator[None]:
    """Restores a module after a block, and refuses Python state that the block has changed. `what` is
    the module in a message."""
    modules = list(model.modules())
    attributes = [dict(module.__dict__) for module in modules]
    containers = [(value, value.copy()) for before in attributes for value in before.values()
                  if type(value) in (dict, list, set)]
    tensors = {name: tensor.detach().clone() for name, tensor in model.named_buffers()}
    generators = (random.getstate(), _numpy_state())
    try:
        yield
        _compare(model, attributes, what)
        if generators != (random.getstate(), _numpy_state()):
            raise StateChanged("the forward pass draws from the random generator of Python or "
                               "numpy; a captured model would repeat one draw")
    finally:
        for module, before in zip(modules, attributes):
            module.__dict__.clear()
            module.__dict__.update(before)
        for container, before in containers:
            _restore(container, before)
        with torch.no_grad():
            for name, tensor in model.named_buffers():
                if tensor.shape == tensors[name].shape:
                    tensor.copy_(tensors[name])


def _restore(container: Any, before: Any) -> None:
    """Gives a container its former content, because a cache may hold tensors of the tracer."""
    container.clear()
    (container.extend if isinstance(container, list) else container.update)(before)


def _numpy_state() -> str:
    numpy = sys.modules["numpy"]
    return repr(numpy.random.get_state()[1:3])


def _compare(model: nn.Module, attributes: list[dict], what: str) -> None:
    for (path, module), before in zip(model.named_modules(), attributes):
        for name, value in module.__dict__.items():
            known = before.get(name)
            if name != "training" and isinstance(known, SIMPLE) and known != value:
                raise StateChanged(f"the forward pass changes the attribute {name} of "
                                   f"{path or what} from {known!r} to {value!r}; a captured "
                                   "model has no Python state")
