"""A small reference interpreter of the kinds of nodes, in torch.

It defines every kind by one function of tensors, so that a lowered program can be run beside the
module that it came from. On meta tensors the same functions give the shapes of results. Integers have
the widths that they have in the engine, and wrap there.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from .program import NO_VALUE, Program

# Uniform numbers in [0, 1) of a random site.
Draw = Callable[[int, tuple[int, ...]], Tensor]
SECOND_SITE = 1 << 31  # added to a site: the second uniform numbers of `normal`

TORCH_TYPE = {"f32": torch.float32, "i32": torch.int32, "bool": torch.bool, "i64": torch.int64}
INT32 = torch.iinfo(torch.int32)


class Undefined(ArithmeticError):
    """A result that torch does not define. The engine ends the step or evaluation there."""


@dataclass
class Context:
    """What a node needs beyond its inputs.

    `shape` are the extents of the output, which some kinds take from the file. `draw` returns the
    numbers of a random site; a dropout keeps an element if its number is below 1 - p. `statistics`
    are the running means and variances, which a batch norm reads outside of training, and `states` the
    contents of the states at the beginning. `floats` is the type of real numbers, and `ints` that of
    the type i32, which a program that is being built has with 64 bits.
    """

    shape: tuple[int, ...] | None = None
    training: bool = True
    draw: Draw | None = None
    statistics: list[Tensor] = field(default_factory=list)
    states: list[Tensor] = field(default_factory=list)
    floats: torch.dtype = torch.float32
    ints: torch.dtype = torch.int32

    def type_of(self, name: str) -> torch.dtype:
        """The type in torch of a type of the program."""
        return {"f32": self.floats, "i32": self.ints}.get(name, TORCH_TYPE[name])


KINDS: dict[str, Callable] = {}


def kind(name: str) -> Callable:
    """Registers a function (inputs..., attributes=, context=) as the meaning of a kind."""
    def register(function: Callable) -> Callable:
        KINDS[name] = function
        return function
    return register


def run_kind(name: str, inputs: list[Tensor | None], attributes: dict, context: Context) -> Tensor:
    """The output of one node."""
    return KINDS[name](*inputs, a=attributes, c=context)


def interpret(program: Program, tensors: dict[str, Tensor], inputs: dict[str, Tensor],
              context: Context) -> list[Tensor]:
    """All values of a program.

    `tensors` has the parameters, statistics and states by name, `inputs` the fields of the samples with the
    extents [batch, ...]. The batch is read off the inputs. Returns the value of every index.
    """
    values: list[Tensor] = [None] * len(program.values)
    for entry in program.inputs:
        values[entry.value] = inputs[entry.name].to(context.type_of(program.values[entry.value].type))
    for parameter in program.parameters:
        values[parameter.value] = tensors[parameter.name]
    context.states = []
    for state in program.states:
        values[state.value] = tensors[state.name].to(
            context.type_of(program.values[state.value].type))
        context.states.append(values[state.value])
    for constant in program.constants:
        to = context.type_of(program.values[constant.value].type)
        values[constant.value] = torch.from_numpy(constant.array.copy()).to(to)
    batch = inputs[program.inputs[0].name].shape[0]
    context.statistics = [tensors[statistic.name] for statistic in program.statistics]
    for node in program.nodes:
        context.shape = program.values[node.outputs[0]].shape(batch)
        given = [None if i == NO_VALUE else values[i] for i in node.inputs]
        try:
            values[node.outputs[0]] = run_kind(node.kind, given, node.attributes, context)
        except Undefined as error:
            raise Undefined(f"{node.kind} in {node.name or 'the model'}"
                            + f" ({node.source})" * bool(node.source) + f": {error}") from None
    return values


def next_states(program: Program, values: list[Tensor]) -> dict[str, Tensor]:
    """The contents of the states after a step that has these values."""
    written = {node.attributes["state"]: values[node.inputs[0]] for node in program.nodes
               if node.kind == "set_state"}
    return {state.name: written[number] for number, state in enumerate(program.states)}


UNARY = {
    "relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "silu": F.silu,
    "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "mish": F.mish, "exp": torch.exp,
    "log": torch.log, "log1p": torch.log1p, "expm1": torch.expm1, "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal, "sin": torch.sin, "cos": torch.cos,
    "erf": torch.erf, "abs": torch.abs, "neg": torch.neg, "square": torch.square,
    "floor": torch.floor, "round": torch.round, "sign": torch.sign, "not": torch.logical_not,
    "stop_gradient": torch.Tensor.detach,
}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "maximum": torch.maximum, "minimum": torch.minimum, "eq": torch.eq, "ne": torch.ne,
    "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "and": torch.logical_and,
    "or": torch.logical_or, "bit_and": torch.bitwise_and, "bit_or": torch.bitwise_or,
    "bit_xor": torch.bitwise_xor,
}


def _register_elementwise() -> None:
    for name, function in UNARY.items():
        kind(name)(lambda x, a, c, f=function: f(x))
    for name, function in BINARY.items():
        kind(name)(lambda x, y, a, c, f=function: f(x, y))


_register_elementwise()
kind("leaky_relu")(lambda x, a, c: F.leaky_relu(x, a["slope"]))
kind("gelu")(lambda x, a, c: F.gelu(x, approximate=a["approximate"]))
kind("elu")(lambda x, a, c: F.elu(x, a["alpha"]))
kind("softplus")(lambda x, a, c: F.softplus(x, a["beta"]))
kind("clamp")(lambda x, a, c: torch.clamp(x, a.get("min"), a.get("max")))
kind("pow_scalar")(lambda x, a, c: torch.pow(x, a["exponent"]))
kind("add_scalar")(lambda x, a, c: x + a["value"])
kind("mul_scalar")(lambda x, a, c: x * a["value"])
kind("where")(lambda condition, x, y, a, c: torch.where(condition, x, y))
kind("zero_loss")(lambda x, a, c: x.new_zeros(()))
kind("shift_left")(lambda x, by, a, c: torch.bitwise_left_shift(x, by))
kind("shift_right")(lambda x, by, a, c: torch.bitwise_right_shift(x, by))


@kind("cast")
def _cast(x, a, c):
    to = c.type_of(a["to"])
    if not x.is_floating_point() or a["to"] not in ("i32", "i64") or x.is_meta:
        return x.to(to)
    if a["to"] == "i64":
        _refuse(~((x >= -2.0 ** 63) & (x < 2.0 ** 63)), x, "has no integer of 64 bits")
        return x.to(to)
    # The engine's conversion to 32 bits saturates, and NaN gives 0.
    return x.double().nan_to_num(0.0).clamp(INT32.min, INT32.max).to(to)


def _refuse(wrong: Tensor, x: Tensor, what: str) -> None:
    if not wrong.is_meta and wrong.any():
        raise Undefined(f"{x.expand(wrong.shape)[wrong].reshape(-1)[0].item()} {what}, and torch "
                        "defines no result; clamp it before")


@kind("narrow")
def _narrow(x, a, c):
    _refuse((x < a["low"]) | (x > a["high"]), x, f"is not in [{a['low']}, {a['high']}]")
    return x.to(c.ints)


@kind("wrap")
def _wrap(x, a, c):
    """The lowest bits; only in programs that are being built (widths.py)."""
    low = -(1 << a["bits"] - 1) if a["signed"] else 0
    return torch.remainder(x - low, 1 << a["bits"]) + low


def _divides(name: str, function: Callable) -> None:
    @kind(name)
    def divide(x, y, a, c):
        if not y.is_meta and (y == 0).any():
            raise Undefined("a division of integers by 0")
        return function(x, y)


_divides("floor_div", torch.floor_divide)
_divides("remainder", torch.remainder)


@kind("set_state")
def _set_state(x, a, c):
    return x if c.training else c.states[a["state"]]


def _drop(x: Tensor, p: float, site: int, shape: tuple[int, ...], c: Context) -> Tensor:
    """`x` with the elements scaled by 1 / (1 - p) that are kept, and the others zero."""
    if not c.training or c.draw is None:
        return x
    return x * ((c.draw(site, shape) < 1.0 - p) / (1.0 - p))


@kind("dropout")
def _dropout(x, a, c):
    return _drop(x, a["p"], a["site"], tuple(x.shape), c)


@kind("sample_dropout")
def _sample_dropout(x, a, c):
    return _drop(x, a["p"], a["site"], (x.shape[0],) + (1,) * (x.dim() - 1), c)


def normal_numbers(draw: Draw, site: int, shape: tuple[int, ...]) -> Tensor:
    """The normal numbers of a random site, from its uniform ones by Box and Muller."""
    radius = torch.sqrt(-2 * torch.log1p(-draw(site, shape)))
    return radius * torch.cos(2 * math.pi * draw(site | SECOND_SITE, shape))


@kind("uniform")
def _uniform(a, c):
    return torch.empty(c.shape, device="meta") if c.draw is None else c.draw(a["site"], c.shape)


@kind("normal")
def _normal(a, c):
    return _uniform(a, c) if c.draw is None else normal_numbers(c.draw, a["site"], c.shape)


# Reductions: an empty list of axes is not allowed in a file; the capture writes all of them.
kind("sum")(lambda x, a, c: x.sum(a["axes"], a["keepdim"], dtype=x.dtype))
kind("mean")(lambda x, a, c: x.mean(a["axes"], a["keepdim"]))
kind("amax")(lambda x, a, c: x.amax(a["axes"], a["keepdim"]))
kind("amin")(lambda x, a, c: x.amin(a["axes"], a["keepdim"]))
kind("var")(lambda x, a, c: x.var(a["axes"], correction=a["correction"], keepdim=a["keepdim"]))
kind("logsumexp")(lambda x, a, c: x.logsumexp(a["axes"], a["keepdim"]))
kind("cumsum")(lambda x, a, c: x.cumsum(a["axis"], dtype=x.dtype))
kind("argmax")(lambda x, a, c: x.argmax(a["axis"], a["keepdim"]).to(c.ints))
kind("argmin")(lambda x, a, c: x.argmin(a["axis"], a["keepdim"]).to(c.ints))


@kind("prod")
def _prod(x, a, c):
    for axis in sorted(a["axes"], reverse=True):
        x = x.prod(axis, keepdim=a["keepdim"])
    return x


# Products.
kind("linear")(lambda x, weight, bias=None, *, a, c: F.linear(x, weight, bias))
kind("matmul")(lambda x, y, a, c: torch.matmul(x, y))
CONVOLUTIONS = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
TRANSPOSED = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}


@kind("conv")
def _conv(x, weight, bias=None, *, a, c):
    return CONVOLUTIONS[x.dim()](x, weight, bias, a["stride"], a["padding"], a["dilation"],
                                 a["groups"])


@kind("conv_transpose")
def _conv_transpose(x, weight, bias=None, *, a, c):
    return TRANSPOSED[x.dim()](x, weight, bias, a["stride"], a["padding"], a["output_padding"],
                               a["groups"], a["dilation"])


@kind("embedding")
def _embedding(weight, ids, a, c):
    padding = a["padding_idx"]
    return F.embedding(ids, weight, padding if padding >= 0 else None)


@kind("attention")
def _attention(q, k, v, mask=None, bias=None, *, a, c):
    scores = torch.matmul(q, k.transpose(-1, -2)) * a["scale"]
    if a["causal"]:
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(ahead, float("-inf"))
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        if mask.dim() == 4 and mask.shape[0] not in (1, q.shape[0]):
            mask = mask.repeat(q.shape[0] // mask.shape[0], 1, 1, 1)  # in turn
        blocked = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, float("-inf")) if blocked else scores + mask
    weights = scores.softmax(-1)
    if a["dropout"] > 0:
        weights = _drop(weights, a["dropout"], a["site"], tuple(weights.shape), c)
    return torch.matmul(weights, v)


# Recurrent layers.
def _over_time(x: Tensor, h: Tensor, reverse: bool, step: Callable) -> Tensor:
    """The states [time, n, units] after `step(gates of the input, state before)`, by time."""
    states = [h] * x.shape[0]
    for t in reversed(range(x.shape[0])) if reverse else range(x.shape[0]):
        states[t] = h = step(x[t], h)
    return torch.stack(states)


@kind("lstm")
def _lstm(x, weight, bias=None, h=None, cell=None, *, a, c):
    units = weight.shape[1]
    if x.is_meta:
        return x.new_empty(x.shape[0] + 1, x.shape[1], units)
    zeros = x.new_zeros(x.shape[1], units)
    state = zeros if cell is None else cell

    def step(gates: Tensor, before: Tensor) -> Tensor:
        nonlocal state
        i, f, g, o = (gates + F.linear(before, weight, bias)).chunk(4, 1)
        state = f.sigmoid() * state + i.sigmoid() * g.tanh()
        return o.sigmoid() * state.tanh()
    y = _over_time(x, zeros if h is None else h, a["reverse"], step)
    return torch.cat([y, state[None]])


@kind("gru")
def _gru(x, weight, bias=None, h=None, *, a, c):
    units = weight.shape[1]
    if x.is_meta:
        return x.new_empty(*x.shape[:2], units)

    def step(gates: Tensor, before: Tensor) -> Tensor:
        (r, z, n), parts = gates.chunk(3, 1), F.linear(before, weight, bias).chunk(3, 1)
        new = torch.tanh(n + torch.sigmoid(r + parts[0]) * parts[2])
        return new + torch.sigmoid(z + parts[1]) * (before - new)
    return _over_time(x, x.new_zeros(x.shape[1], units) if h is None else h, a["reverse"], step)


# Normalisation.
@kind("batch_norm")
def _batch_norm(x, weight=None, bias=None, *, a, c):
    if c.training or x.is_meta:
        return F.batch_norm(x, None, None, weight, bias, True, 0.0, a["eps"])
    mean, variance = c.statistics[a["mean"]], c.statistics[a["variance"]]
    return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, a["eps"])


@kind("layer_norm")
def _layer_norm(x, weight=None, bias=None, *, a, c):
    return F.layer_norm(x, x.shape[x.dim() - a["axes"]:], weight, bias, a["eps"])


@kind("rms_norm")
def _rms_norm(x, weight=None, *, a, c):
    return F.rms_norm(x, x.shape[x.dim() - a["axes"]:], weight, a["eps"])


@kind("group_norm")
def _group_norm(x, weight=None, bias=None, *, a, c):
    return F.group_norm(x, a["groups"], weight, bias, a["eps"])


kind("softmax")(lambda x, a, c: x.softmax(a["axis"]))
kind("log_softmax")(lambda x, a, c: x.log_softmax(a["axis"]))

# Moves.
kind("reshape")(lambda x, a, c: x.reshape(c.shape))
kind("permute")(lambda x, a, c: x.permute(a["order"]))
kind("expand")(lambda x, a, c: x.expand(c.shape))
kind("concat")(lambda *xs, a, c: torch.cat(xs, a["axis"]))
kind("roll")(lambda x, a, c: x.roll(a["shift"], a["axis"]))
kind("flip")(lambda x, a, c: x.flip(a["axes"]))
kind("gather")(lambda x, index, a, c: x.gather(a["axis"], _rows(index, x.shape[a["axis"]])))
kind("take_rows")(lambda x, index, a, c: x[_rows(index, x.shape[0])])
kind("scatter_add")(lambda x, index, src, a, c: x.scatter_add(
    a["axis"], _rows(index, x.shape[a["axis"]]), src))


def _rows(index: Tensor, size: int) -> Tensor:
    """Numbers of rows, which are not counted from the end."""
    if not index.is_meta and (index < 0).any():
        raise Undefined(f"the place {index.min().item()} is counted from the end; use `index % {size}`")
    if not index.is_meta and (index > size).any():
        raise Undefined(f"the place {index.max().item()} is not in [0, {size - 1}]")
    if not index.is_meta and (index == size).any():  # so a lowering marks such a place
        raise Undefined("different values are written to one place, and torch does not say which "
                        "of them stays; add them up (index_add, scatter_add), take their largest "
                        "(scatter_reduce), or write each place once")
    return index.long()


@kind("slice")
def _slice(x, a, c):
    window = slice(a["begin"], a["end"], a["step"])
    return x[(slice(None),) * a["axis"] + (window,)]


@kind("index_select")
def _index_select(x, a, c):
    return x.index_select(a["axis"], torch.tensor(a["index"], device=x.device))


def _sides(a: dict) -> list[int]:
    """The pairs (before, after) of the axes, the last axis first, as torch's pad takes them."""
    pairs = zip(reversed(a["before"]), reversed(a["after"]))
    return [side for pair in pairs for side in pair]


kind("pad")(lambda x, a, c: F.pad(x, _sides(a), value=a["value"]))


def _pad_index(size: int, before: int, after: int, mode: str, device: torch.device) -> Tensor:
    """For every index of a padded axis, the index of the element that is repeated there."""
    at = torch.arange(-before, size + after, device=device)
    if mode == "circular":
        return at % size
    if mode == "replicate":
        return at.clamp(0, size - 1)
    at = at.abs()
    return torch.where(at >= size, 2 * (size - 1) - at, at)


def _pad_repeat(x: Tensor, a: dict, mode: str) -> Tensor:
    for axis, (before, after) in enumerate(zip(a["before"], a["after"])):
        if before or after:
            index = _pad_index(x.shape[axis], before, after, mode, x.device)
            x = x.index_select(axis, index)
    return x


for _mode in ("reflect", "replicate", "circular"):
    kind(f"pad_{_mode}")(lambda x, a, c, mode=_mode: _pad_repeat(x, a, mode))

# Pooling and resizing, for one to three spatial axes.
MAX_POOL = {3: F.max_pool1d, 4: F.max_pool2d, 5: F.max_pool3d}
AVG_POOL = {3: F.avg_pool1d, 4: F.avg_pool2d, 5: F.avg_pool3d}
ADAPTIVE_AVG = {3: F.adaptive_avg_pool1d, 4: F.adaptive_avg_pool2d, 5: F.adaptive_avg_pool3d}
ADAPTIVE_MAX = {3: F.adaptive_max_pool1d, 4: F.adaptive_max_pool2d, 5: F.adaptive_max_pool3d}
RESIZE = {("linear", 3): "linear", ("linear", 4): "bilinear", ("linear", 5): "trilinear",
          ("cubic", 4): "bicubic"}


@kind("max_pool")
def _max_pool(x, a, c):
    return MAX_POOL[x.dim()](x, a["kernel"], a["stride"], a["padding"], a["dilation"], a["ceil"])


@kind("avg_pool")
def _avg_pool(x, a, c):
    return AVG_POOL[x.dim()](x, a["kernel"], a["stride"], a["padding"], a["ceil"],
                             a["count_include_pad"])


kind("adaptive_avg_pool")(lambda x, a, c: ADAPTIVE_AVG[x.dim()](x, a["size"]))
kind("adaptive_max_pool")(lambda x, a, c: ADAPTIVE_MAX[x.dim()](x, a["size"]))


@kind("resize")
def _resize(x, a, c):
    if a["mode"] == "nearest":
        return F.interpolate(x, a["size"], mode="nearest")
    return F.interpolate(x, a["size"], mode=RESIZE[a["mode"], x.dim()],
                         align_corners=a["align_corners"])


# Losses.
@kind("cross_entropy")
def _cross_entropy(logits, labels, weight=None, *, a, c):
    return F.cross_entropy(logits, labels.long(), weight, ignore_index=a["ignore_index"],
                           label_smoothing=a["label_smoothing"], reduction=a["reduction"])


@kind("cross_entropy_soft")
def _cross_entropy_soft(logits, targets, a, c):
    return F.cross_entropy(logits, targets, reduction=a["reduction"])


@kind("regularised_cross_entropy")
def _regularised_cross_entropy(logits, labels, a, c):
    squares = torch.logsumexp(logits, 1).square()[labels >= 0].mean()
    return a["z_loss"] * squares + F.cross_entropy(
        logits, labels.long().clamp(min=-1), ignore_index=-1, label_smoothing=a["label_smoothing"])


@kind("nll")
def _nll(log_probs, labels, weight=None, *, a, c):
    return F.nll_loss(log_probs, labels.long(), weight, ignore_index=a["ignore_index"],
                      reduction=a["reduction"])


@kind("bce_with_logits")
def _bce_with_logits(x, target, weight=None, pos_weight=None, *, a, c):
    return F.binary_cross_entropy_with_logits(x, target, weight, pos_weight=pos_weight,
                                              reduction=a["reduction"])


kind("mse")(lambda x, y, a, c: F.mse_loss(x, y, reduction=a["reduction"]))
kind("l1")(lambda x, y, a, c: F.l1_loss(x, y, reduction=a["reduction"]))
kind("bce")(lambda x, y, a, c: F.binary_cross_entropy(x, y, reduction=a["reduction"]))
kind("smooth_l1")(lambda x, y, a, c: F.smooth_l1_loss(x, y, reduction=a["reduction"],
                                                      beta=a["beta"]))
kind("huber")(lambda x, y, a, c: F.huber_loss(x, y, reduction=a["reduction"], delta=a["delta"]))
kind("kl_div")(lambda x, y, a, c: F.kl_div(x, y, reduction=a["reduction"],
                                           log_target=a["log_target"]))
