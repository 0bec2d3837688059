"""Gradients of convolutions and pools that a forward pass asks for (gradients.py)."""
from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .table import rewrites


def _input_gradient(gradient: Tensor, size: list[int], weight: Tensor, stride: list[int],
                    padding: list[int], dilation: list[int], groups: int) -> Tensor:
    """The gradient of a convolution with regard to its input, whose spatial extents are `size`."""
    rank = len(size)
    stride, padding, dilation = (_each(x, rank) for x in (stride, padding, dilation))
    missing = [n - ((out - 1) * s - 2 * p + d * (k - 1) + 1) for n, out, s, p, d, k in zip(
        size, gradient.shape[2:], stride, padding, dilation, weight.shape[2:])]
    transposed = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[rank - 1]
    return transposed(gradient, weight, None, stride, padding, missing, groups, dilation)


def _each(values: list[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


@rewrites("convolution_backward.default")
def convolution_backward(grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Any,
                         stride: list[int], padding: list[int], dilation: list[int],
                         transposed: bool, output_padding: list[int], groups: int,
                         output_mask: list[bool]) -> tuple[Tensor | None, None, None]:
    if transposed or output_mask[1] or output_mask[2]:
        raise NotImplementedError
    return _input_gradient(grad_output, list(input.shape[2:]), weight, stride, padding, dilation,
                           groups), None, None


@rewrites("avg_pool2d_backward.default")
def avg_pool2d_backward(grad_output: Tensor, self: Tensor, kernel_size: list[int],
                        stride: list[int], padding: list[int], ceil_mode: bool,
                        count_include_pad: bool, divisor_override: int | None) -> Tensor:
    if ceil_mode or divisor_override or (any(padding) and not count_include_pad):
        raise NotImplementedError
    kernel, channels = _each(kernel_size, 2), self.shape[1]
    weight = torch.full((channels, 1, *kernel), 1 / math.prod(kernel))
    return _input_gradient(grad_output, list(self.shape[2:]), weight, list(stride) or kernel, padding,
                           [1, 1], channels)


@rewrites("max_pool2d_with_indices_backward.default")
def max_pool2d_backward(grad_output: Tensor, self: Tensor, kernel_size: list[int],
                        stride: list[int], padding: list[int], dilation: list[int],
                        ceil_mode: bool, indices: Tensor) -> Tensor:
    summed = torch.scatter_add(torch.zeros_like(self.flatten(-2)), -1, indices.flatten(-2),
                               grad_output.flatten(-2))
    return summed.view(self.shape)
