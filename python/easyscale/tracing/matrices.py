"""Linear algebra of small matrices, written out: an elimination takes a few operators for each row.

Registers functions as rewrites/ does. Rows are exchanged as LAPACK exchanges them: the largest
element of a column is its pivot, so the numbers differ from torch's by rounding only.
"""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .rewrites import rewrites

ROWS_MAX = 32
EXPONENTIAL_TERMS, SQUARINGS = 18, 4  # exact to fp32 for matrices with a norm of up to 32


def _checked(matrix: Tensor) -> int:
    """The number of rows. Raises NotImplementedError if there are too many."""
    if matrix.shape[-1] > ROWS_MAX:
        raise NotImplementedError
    return matrix.shape[-1]


def _eliminated(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x with a @ x = b; the pivots [..., n]; and which row each is in, [..., n]."""
    size = _checked(a)
    numbers = torch.arange(size)
    free = torch.ones_like(a[..., 0])
    chosen, pivots, places = [], [], []
    for k in range(size):
        column = a[..., k]
        sizes = torch.where(free > 0, torch.abs(column.detach()), torch.full_like(free, -1.0))
        place = torch.argmax(sizes, -1, keepdim=True)
        row = (numbers == place).to(a.dtype)
        picked = row.unsqueeze(-2)
        own, other = picked @ a, picked @ b
        pivot = own[..., k:k + 1]
        factor = (column / pivot.squeeze(-1) * (1 - row)).unsqueeze(-1)
        a, b = a - factor * own, b - factor * other
        free = free - row
        chosen.append(picked)
        pivots.append(pivot.squeeze(-1))
        places.append(place)
    found = torch.cat(pivots, -1)
    return (torch.cat(chosen, -2) @ b) / found.unsqueeze(-1), found, torch.cat(places, -1)


def _parity(places: Tensor) -> Tensor:
    """1 or -1: whether an even or an odd number of pairs is in the wrong order."""
    size = places.shape[-1]
    wrong = (places.unsqueeze(-1) > places.unsqueeze(-2)) & torch.ones(
        size, size, dtype=torch.bool).triu(1)
    count = wrong.float().sum((-2, -1))
    return 1 - 2 * (count - 2 * torch.floor(count / 2))


@rewrites("linalg_solve.default")
def linalg_solve(A: Tensor, B: Tensor, left: bool) -> Tensor:
    if B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1]):
        return _eliminated(A, B.unsqueeze(-1))[0].squeeze(-1)
    if not left:
        return linalg_solve(A.mT, B.mT, True).mT
    return _eliminated(A, B)[0]


@rewrites("linalg_inv.default", "inverse.default")
def linalg_inv(A: Tensor) -> Tensor:
    return _eliminated(A, torch.eye(A.shape[-1]).expand(A.shape))[0]


@rewrites("linalg_det.default", "det.default")
def linalg_det(A: Tensor) -> Tensor:
    _, pivots, places = _eliminated(A, A[..., :1])
    return pivots.prod(-1) * _parity(places)


@rewrites("linalg_slogdet.default", "slogdet.default")
def linalg_slogdet(A: Tensor) -> tuple[Tensor, Tensor]:
    _, pivots, places = _eliminated(A, A[..., :1])
    sign = torch.sign(pivots).prod(-1) * _parity(places)
    return sign, torch.log(torch.abs(pivots)).sum(-1)


@rewrites("logdet.default")
def logdet(self: Tensor) -> Tensor:
    return linalg_slogdet(self)[1]  # of a matrix with a determinant above 0


@rewrites("linalg_cholesky.default", "cholesky.default")
def linalg_cholesky(self: Tensor, upper: bool) -> Tensor:
    size, rest, columns = _checked(self), self, []
    for j in range(size):
        below = (torch.arange(size) >= j).to(self.dtype)
        column = rest[..., j] / torch.sqrt(rest[..., j, j:j + 1]) * below
        rest = rest - column.unsqueeze(-1) * column.unsqueeze(-2)
        columns.append(column)
    return torch.stack(columns, -2 if upper else -1)


@rewrites("linalg_solve_triangular.default")
def linalg_solve_triangular(self: Tensor, B: Tensor, upper: bool, left: bool,
                            unitriangular: bool) -> Tensor:
    if not left:
        return linalg_solve_triangular(self.mT, B.mT, not upper, True, unitriangular).mT
    size, rest, rows = _checked(self), B, {}
    for j in reversed(range(size)) if upper else range(size):
        row = rest[..., j:j + 1, :]
        rows[j] = row if unitriangular else row / self[..., j:j + 1, j:j + 1]
        rest = rest - self[..., j:j + 1] * rows[j]
    return torch.cat([rows[j].expand(*rest.shape[:-2], 1, rest.shape[-1]) for j in range(size)], -2)


@rewrites("cholesky_solve.default")
def cholesky_solve(self: Tensor, input2: Tensor, upper: bool) -> Tensor:
    lower = input2.mT if upper else input2
    inner = linalg_solve_triangular(lower, self, False, True, False)
    return linalg_solve_triangular(lower.mT, inner, True, True, False)


@rewrites("cholesky_inverse.default")
def cholesky_inverse(self: Tensor, upper: bool) -> Tensor:
    return cholesky_solve(torch.eye(self.shape[-1]), self, upper)


@rewrites("linalg_matrix_exp.default", "matrix_exp.default")
def linalg_matrix_exp(self: Tensor) -> Tensor:
    small = self / 2 ** SQUARINGS
    one = torch.eye(self.shape[-1])
    total = one.expand(self.shape)
    for k in range(EXPONENTIAL_TERMS, 0, -1):
        total = one + small @ total / k
    for _ in range(SQUARINGS):
        total = total @ total
    return total


@rewrites("linalg_householder_product.default", "orgqr.default")
def linalg_householder_product(input: Tensor, tau: Tensor) -> Tensor:
    rows, columns = input.shape[-2:]
    if columns > ROWS_MAX:
        raise NotImplementedError
    product: Any = torch.eye(rows, columns).expand(input.shape)
    for i in reversed(range(tau.shape[-1])):
        number = torch.arange(rows)
        vector = (torch.where(number > i, input[..., i], torch.zeros(()))
                  + (number == i).to(input.dtype)).unsqueeze(-1)
        product = product - tau[..., i:i + 1, None] * vector @ (vector.mT @ product)
    return product
