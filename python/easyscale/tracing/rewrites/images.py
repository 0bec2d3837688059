"""Pools that return their places, and samples between the pixels of an image."""
from __future__ import annotations

import torch
from torch import Tensor

from .backward import _each
from .division import remainder
from .table import FP32_MAX, REWRITES, rewrites


def _windows(size: int, kernel: int, stride: int, padding: int, dilation: int,
             ceil_mode: bool) -> Tensor:
    """[windows, kernel]: the places that every window sees along an axis of this size."""
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (free + stride - 1 if ceil_mode else free) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    return (torch.arange(count)[:, None] * stride - padding + torch.arange(kernel) * dilation)


@rewrites("max_pool2d_with_indices.default")
def max_pool2d_with_indices(self: Tensor, kernel_size: list[int], stride: list[int],
                            padding: list[int], dilation: list[int],
                            ceil_mode: bool) -> tuple[Tensor, Tensor]:
    height, width = self.shape[-2:]
    kernel = _each(kernel_size, 2)
    steps, pads, spread = (_each(x, 2) for x in (stride or kernel, padding, dilation))
    rows, columns = (_windows(size, kernel[i], steps[i], pads[i], spread[i], ceil_mode)
                     for i, size in enumerate((height, width)))
    rows, columns = rows[:, None, :, None], columns[None, :, None, :]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    place = (torch.clamp(rows, 0, height - 1) * width
             + torch.clamp(columns, 0, width - 1)).flatten(2)  # [rows, columns, pixels of a window]
    taken = self.flatten(-2)[..., place]
    taken = torch.where(inside.flatten(2), taken, torch.full_like(taken, -FP32_MAX))
    first = torch.argmax(taken, -1, keepdim=True)
    chosen = torch.arange(place.shape[-1]) == first
    return torch.gather(taken, -1, first).squeeze(-1), (chosen.long() * place).sum(-1)


@rewrites("max_unpool2d.default")
def max_unpool2d(self: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
    # Windows that do not overlap name each place once at most.
    empty = torch.zeros([*self.shape[:-2], output_size[0] * output_size[1]])
    whole = torch.scatter_add(empty, -1, indices.flatten(-2), self.flatten(-2))
    return whole.unflatten(-1, tuple(output_size))


def _unnormalized(grid: Tensor, size: int, align_corners: bool) -> Tensor:
    """Places from -1 to 1 as places of pixels."""
    if align_corners:
        return (grid + 1) * ((size - 1) / 2)
    return ((grid + 1) * size - 1) / 2


def _reflected(x: Tensor, size: int, align_corners: bool) -> Tensor:
    """Places beyond the first and the last pixel, or beyond their outer edges, are mirrored there."""
    low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
    if span == 0:
        return torch.zeros_like(x)
    away = torch.abs(x - low)
    turns = torch.floor(away / span).detach()
    rest = away - turns * span
    is_odd = remainder(turns, 2.0) > 0
    return torch.where(is_odd, span - rest, rest) + low


def _sampled(input: Tensor, places: list[Tensor], nearest: bool) -> Tensor:
    """Elements [n,c,...] between those of input [n,c,spatial...], with zeros around it.

    `places` has a tensor [n,...] for each spatial axis.
    """
    sizes, flat = input.shape[2:], input.flatten(2)

    def pixels(chosen: list[Tensor]) -> Tensor:
        inside, place = torch.ones_like(chosen[0], dtype=torch.bool), torch.zeros_like(chosen[0])
        for x, size in zip(chosen, sizes):
            inside = inside & (x >= 0) & (x < size)
            place = place * size + torch.clamp(x, 0, size - 1)
        index = place.long().flatten(1).unsqueeze(1).expand(-1, flat.shape[1], -1)
        found = torch.gather(flat, 2, index).unflatten(2, tuple(place.shape[1:]))
        return found * inside.float().unsqueeze(1)
    if nearest:
        return pixels([torch.round(x).detach() for x in places])
    lower = [torch.floor(x).detach() for x in places]
    shares = [(x - low).unsqueeze(1) for x, low in zip(places, lower)]

    def between(chosen: list[Tensor]) -> Tensor:
        """Interpolates along all axes behind those for which a pixel is chosen."""
        axis = len(chosen)
        if axis == len(sizes):
            return pixels(chosen)
        return (between([*chosen, lower[axis]]) * (1 - shares[axis])
                + between([*chosen, lower[axis] + 1]) * shares[axis])
    return between([])


@rewrites("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
                 align_corners: bool) -> Tensor:
    if interpolation_mode > 1:
        raise NotImplementedError  # bicubic interpolation
    sizes = input.shape[2:]
    # The last column of the grid belongs to the first axis.
    places = [_unnormalized(x, size, align_corners)
              for x, size in zip(reversed(grid.unbind(-1)), sizes)]
    if padding_mode == 2:
        places = [_reflected(x, size, align_corners) for x, size in zip(places, sizes)]
    if padding_mode >= 1:
        places = [torch.clamp(x, 0, size - 1) for x, size in zip(places, sizes)]
    return _sampled(input, places, interpolation_mode == 1)


def deform_conv2d(input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor,
                  stride_h: int, stride_w: int, pad_h: int, pad_w: int, dilation_h: int,
                  dilation_w: int, groups: int, offset_groups: int, use_mask: bool) -> Tensor:
    """The deformable convolution of torchvision: every pixel of a window has a place of its own."""
    rows, columns = weight.shape[2:]
    count, (height, width) = rows * columns, offset.shape[2:]
    row = (torch.arange(height) * stride_h - pad_h + (torch.arange(rows) * dilation_h)[:, None])
    column = (torch.arange(width) * stride_w - pad_w + (torch.arange(columns) * dilation_w)[:, None])
    row = row[:, None, :, None].expand(rows, columns, height, width).reshape(count, height, width)
    column = column[None, :, None].expand(rows, columns, height, width).reshape(count, height, width)
    moved = offset.unflatten(1, (offset_groups, count, 2))
    parts = []
    for group, part in enumerate(input.chunk(offset_groups, 1)):
        y, x = (moved[:, group, :, i] for i in (0, 1))
        taken = _sampled(part, [row.float() + y, column.float() + x], False)  # [n,c,pixel,row,column]
        if use_mask:
            taken = taken * mask.unflatten(1, (offset_groups, count))[:, group].unsqueeze(1)
        parts.append(taken)
    windows = torch.cat(parts, 1).unflatten(1, (groups, -1))
    factors = weight.flatten(2).unflatten(0, (groups, -1))
    products = torch.einsum("ngckhw,gock->ngohw", windows, factors)
    return products.flatten(1, 2) + bias.reshape(-1, 1, 1)


REWRITES["torchvision.deform_conv2d.default"] = deform_conv2d
