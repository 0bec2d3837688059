"""Operators that the capture writes with others: each beside PyTorch, and one job with several."""
import unittest
from importlib.util import find_spec

import capture_support  # noqa: F401  (makes the package importable)
import torch
from easyscale.tracing import capture
from torch import nn
from torch.nn import functional as F

SEED = 5
NODES = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])


def positive(x):
    return F.softplus(x) + 0.1


def pairs(x):
    return torch.view_as_complex(x.view(-1, 4, 2))


def turned(x):
    """Complex matrices [n, 2, 2]."""
    return pairs(x).view(-1, 2, 2)


def written_parts(x):
    spectrum = torch.fft.rfft(x)
    out = torch.zeros(len(x), 5, dtype=torch.cfloat)
    out[:, :3] = spectrum[:, :3] * 2
    out[:, 1] *= 3
    return torch.fft.irfft(out, n=8)


def as_integers(x):
    return (x * 1000).long()


def written(x, places=0):
    index = x.argsort(1)[:, places]
    rows = torch.arange(len(x)).view(-1, *[1] * (index.dim() - 1))
    x = x * 1
    x[rows, index] -= 0.5
    return x


def clipped(x):
    x = x * 1
    x[x > 0.5] = 0.5
    x[x < -0.5] = -0.5
    return x


def square(x):
    """Matrices of two rows, which need an exchange of rows."""
    return x[:, :4].view(-1, 2, 2)


def wide(x):
    """Matrices of four rows."""
    return torch.sin(x[:, :4, None] * x[:, None, 4:] * torch.arange(1.0, 5)) + torch.eye(4).flip(0)


def definite(x):
    return 0.1 * wide(x) @ wide(x).mT + torch.eye(4)


def bag(x, mode):
    """Bags of two, one of which may be all padding."""
    ids = (x > 0).long().view(-1, 2)
    table = x[0, :6].view(2, 3)
    return F.embedding_bag(ids, table, mode=mode, padding_idx=0).view(len(x), -1)


# For each name a function of x [samples, 8].
REAL = {
    "quantile": lambda x: torch.quantile(x, 0.3, dim=1, keepdim=True) * x + x.quantile(0.75, 1)[:, None],
    "quantile of all": lambda x: torch.quantile(x[:1], 0.5, keepdim=True) + x - x[:1].quantile(1.0),
    "remainder": lambda x: torch.remainder(x, 1.5),
    "remainder by a tensor": lambda x: torch.remainder(x, positive(x)),
    "remainder of integers": lambda x: (as_integers(x) % 7).float() + x,
    "remainder of large integers": lambda x: (
        (as_integers(x) * 1_000_003) % 99_991).float() * 1e-5 + x,
    "remainder by a negative number": lambda x: (as_integers(x) % -13).float() + x,
    "fmod": lambda x: torch.fmod(x, 1.5),
    "fmod of integers": lambda x: torch.fmod(as_integers(x), 7).float() + x,
    "floor_divide": lambda x: (as_integers(x) // 7).float() * x,
    "div, trunc": lambda x: torch.div(as_integers(x), 7, rounding_mode="trunc").float() * x,
    "div, floor": lambda x: torch.div(as_integers(x), 7, rounding_mode="floor").float() * x,
    "trunc and frac": lambda x: torch.trunc(3 * x) * x + torch.frac(3 * x),
    "exp2": torch.exp2, "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh,
    "log2": lambda x: torch.log2(positive(x)), "log10": lambda x: torch.log10(positive(x)),
    "acosh": lambda x: torch.acosh(positive(x) + 1),
    "atanh": lambda x: torch.atanh(torch.tanh(x) * 0.5),
    "atan": lambda x: torch.atan(5 * x), "asin": lambda x: torch.asin(torch.tanh(x)),
    "acos": lambda x: torch.acos(torch.tanh(x) * 0.9),
    "atan2": lambda x: torch.atan2(x, x.flip(1)),
    "logaddexp": lambda x: torch.logaddexp(x, 2 * x),
    "logcumsumexp": lambda x: torch.logcumsumexp(x, 1),
    "long logcumsumexp": lambda x: torch.logcumsumexp(x.repeat(1, 12), 1)[:, -8:],
    "cumprod": lambda x: torch.cumprod(positive(x), 1),
    "isfinite": lambda x: torch.where(torch.isfinite(x) & ~torch.isinf(x), x, x * 0),
    "nan_to_num": torch.nan_to_num, "hardshrink": F.hardshrink, "softshrink": F.softshrink,
    "tanhshrink": F.tanhshrink, "erfc": torch.erfc, "sinc": torch.sinc, "deg2rad": torch.deg2rad,
    "logit": lambda x: torch.logit(torch.sigmoid(x), 1e-3),
    "xlogy": lambda x: torch.xlogy(positive(x), positive(x)),
    "lgamma": lambda x: torch.lgamma(20 * positive(x)) + torch.lgamma(x),
    "student": lambda x: torch.distributions.StudentT(positive(x) + 1, x, positive(x)).log_prob(x),
    "hypot": lambda x: torch.hypot(x, positive(x)), "sgn": lambda x: torch.sgn(x) * x,
    "copysign": lambda x: torch.copysign(x, -x),
    "nansum": lambda x: torch.nansum(x, 1), "nanmean": lambda x: torch.nanmean(x, 1),
    "count_nonzero": lambda x: torch.count_nonzero(x > 0, dim=1).float() * x.sum(1),
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:6]),
    "cdist": lambda x: torch.cdist(x.view(-1, 2, 4), 2 * x.view(-1, 2, 4) + 1),
    "diag_embed": torch.diag_embed,
    "diag_embed above": lambda x: torch.diag_embed(x, 2) @ torch.arange(10.0),
    "diag_embed below": lambda x: torch.diag_embed(x, -2) @ torch.arange(10.0),
    "fill_diagonal_": lambda x: x[:8].T.matmul(x[:8]).fill_diagonal_(2.0).sum() + x.sum(1),
    "index_add": lambda x: torch.zeros_like(x).index_add(
        1, torch.tensor([0, 0, 1, 2, 3, 4, 5, 5]), x),
    "index_copy": lambda x: x.index_copy(1, torch.tensor([7, 2]), 3 * x[:, :2]),
    "index_fill": lambda x: x.index_fill(1, torch.tensor([1, 2]), 0.5),
    "scatter_reduce": lambda x: torch.zeros_like(x).scatter_reduce(
        1, torch.tensor([[0, 0, 1, 2, 3, 4, 5, 5]]).expand(x.shape[0], 8), x, "sum"),
    "topk": lambda x: torch.topk(x, 3, dim=1)[0] * torch.arange(1.0, 4),
    "smallest": lambda x: torch.topk(x, 3, dim=1, largest=False)[0] * torch.arange(1.0, 4),
    "sort": lambda x: torch.sort(x, dim=1, descending=True)[0] * torch.arange(8.0),
    "argsort": lambda x: x.gather(1, torch.argsort(x, dim=1)) * torch.arange(8.0),
    "median": lambda x: x.median(1)[0], "kthvalue": lambda x: x.kthvalue(2, 1)[0],
    "solve": lambda x: torch.linalg.solve(square(x), x.view(-1, 2, 4)[:, :, :2]),
    "solve for a vector": lambda x: torch.linalg.solve(square(x), x[:, :2]),
    "solve from the right": lambda x: torch.linalg.solve(square(x), x.view(-1, 4, 2), left=False),
    "inverse": lambda x: torch.linalg.inv(wide(x)), "det": lambda x: torch.linalg.det(wide(x)),
    "slogdet": lambda x: torch.linalg.slogdet(wide(x))[1] + torch.slogdet(wide(x))[0],
    "logdet": lambda x: torch.logdet(definite(x)),
    "cholesky": lambda x: torch.linalg.cholesky(definite(x)),
    "cholesky, upper": lambda x: torch.linalg.cholesky(definite(x), upper=True),
    "solve_triangular": lambda x: torch.linalg.solve_triangular(
        definite(x).tril(), x.view(-1, 4, 2), upper=False),
    "solve_triangular, upper, from the right": lambda x: torch.linalg.solve_triangular(
        definite(x).triu(), x.view(-1, 2, 4), upper=True, left=False),
    "cholesky_solve": lambda x: torch.cholesky_solve(
        x.view(-1, 4, 2), torch.linalg.cholesky(definite(x))),
    "matrix_exp": lambda x: torch.matrix_exp(wide(x)),
    "householder_product": lambda x: torch.linalg.householder_product(
        x.view(-1, 4, 2), torch.sigmoid(x[:, :2])),
    "a write at a place of each sample": lambda x: written(x),
    "writes at several places of each sample": lambda x: written(x, slice(0, 3)),
    "a sum at places of each sample": lambda x: torch.zeros(len(x), 4).index_put(
        (torch.arange(len(x))[:, None], as_integers(x) % 4), x, accumulate=True),
    "writes of a number where a mask holds": lambda x: clipped(x),
    "a mask that is known": lambda x: x.index_put(
        ((torch.arange(8) > 5).expand_as(x),), torch.tensor(2.0)) * x,
    "cummax": lambda x: x.cummax(1)[0] * torch.arange(1.0, 9),
    "cummin": lambda x: x.cummin(1)[0] + x.cummin(1)[1], "digamma": lambda x: positive(x).digamma(),
    "erfinv": lambda x: torch.erfinv(torch.tanh(x) * 0.999),
    "log_ndtr": lambda x: torch.special.log_ndtr(4 * x),
    "fmax and fmin": lambda x: torch.fmax(x, x.sin()) * torch.fmin(x, x.cos()),
    "round to decimals": lambda x: torch.round(x, decimals=1) * x,
    "searchsorted": lambda x: torch.searchsorted(torch.tensor([-1.0, 0, 1]), x).float() * x,
    "einsum with a trace": lambda x: torch.einsum("bii->b", square(x)),
    "einsum with diagonals": lambda x: torch.einsum("bii,bi->bi", square(x), x[:, 6:]),
    "a resize with antialiasing": lambda x: F.interpolate(
        x.view(-1, 1, 2, 4), size=(1, 3), mode="bilinear", antialias=True),
    "scatter of the largest": lambda x: torch.zeros_like(x).scatter(
        1, x.topk(3, dim=1).indices, x.topk(3, dim=1).values.softmax(1)),
    "scatter that names a place twice": lambda x: x.scatter(
        1, as_integers(x[:, :5]) % 8, x[:, 1:6].detach() * 2),  # the last one, without gradients
    "scatter of a number": lambda x: x.scatter(1, as_integers(x[:, :3]) % 8, 1.5) * x,
    "scatter on an inner axis": lambda x: x.view(-1, 4, 2).scatter(
        1, x.view(-1, 4, 2).argsort(1)[:, :2], x.view(-1, 4, 2)[:, 2:]),
    "max_pool2d and its places": lambda x: F.max_unpool2d(*F.max_pool2d(
        x.view(-1, 1, 2, 4), 2, return_indices=True), 2),
    "places of pools that overlap": lambda x: F.max_pool2d(
        x.view(-1, 1, 2, 4), (1, 2), (1, 2), (0, 1), ceil_mode=True, return_indices=True)[1].float()
        * x[:, :6].view(-1, 1, 2, 3),
    "multilabel_margin_loss": lambda x: F.multilabel_margin_loss(
        x, torch.tensor([1, 4, -1, 2, 0, 0, 0, 0]).expand(len(x), 8), reduction="none"),
    "cosine_similarity of other ranks": lambda x: F.cosine_similarity(
        x.view(-1, 1, 8), torch.arange(24.0).view(3, 8), dim=-1),
    "cosine_similarity of repeated elements": lambda x: F.cosine_similarity(
        x.view(-1, 2, 4), torch.ones(1, 1), dim=1),
    "convolution with a weight for each sample": lambda x: F.conv2d(
        x.reshape(1, -1, 2, 4), x.reshape(-1, 1, 2, 2).sin(), padding=1, stride=(1, 2),
        groups=len(x)).view(len(x), -1),
    "transposed convolution with a weight for each sample": lambda x: F.conv_transpose2d(
        x.reshape(1, -1, 2, 4), x.reshape(-1, 2, 2, 2)[:, :, :1].sin().expand(-1, -1, 2, -1),
        stride=2, padding=(1, 0), output_padding=1, groups=len(x)).view(len(x), -1),
    "bag without its padding": lambda x: bag(x, "sum"),
    "mean bag without its padding": lambda x: bag(x, "mean"),
    "max bag without its padding": lambda x: bag(x, "max"),
    "reflected grid": lambda x: F.grid_sample(
        x.view(-1, 1, 2, 4), 1.7 * torch.tanh(x.view(-1, 2, 2, 2)), padding_mode="reflection",
        align_corners=False) + F.grid_sample(
            x.view(-1, 1, 2, 4), 1.7 * torch.tanh(x.view(-1, 2, 2, 2)), padding_mode="reflection",
            align_corners=True),
    "masked bits": lambda x: x * (((9 * x).long() & 6) - ((7 * x).long() | 5) + ((8 * x).long() ^ -3)
                                  + ((5 * x).long() & 3) + ~(3 * x).long()),
    "shifted bits": lambda x: x * (((x > 0).long() << 3) + (torch.arange(8) >> 1)),
    "scattered extremes": lambda x: torch.cat([
        torch.full((len(x), 4), 0.2).scatter_reduce(1, NODES.expand(len(x), 8), x, how, include_self=own)
        for how in ("amax", "amin", "mean", "sum") for own in (True, False)], 1),
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0, 1])).float() * x,
    "grid_sample": lambda x: F.grid_sample(
        x.view(-1, 1, 2, 4), 1.5 * torch.tanh(x.view(-1, 2, 2, 2)), align_corners=False),
    "grid_sample, border": lambda x: F.grid_sample(
        x.view(-1, 1, 2, 4), 1.5 * torch.tanh(x.view(-1, 2, 2, 2)), padding_mode="border",
        align_corners=True),
    "grid_sample, nearest": lambda x: F.grid_sample(
        x.view(-1, 1, 2, 4), torch.tanh(x.view(-1, 2, 2, 2)), mode="nearest",
        align_corners=False),
    "grid_sample of volumes": lambda x: sum(F.grid_sample(
        x.view(-1, 1, 2, 2, 2), 1.3 * torch.tanh(torch.cat([x, x.sin(), x.cos()], 1)).view(-1, 2, 2, 2, 3),
        padding_mode=padding, align_corners=corners).flatten(1)
        for padding in ("zeros", "border", "reflection") for corners in (False, True)),
    "grid_sample of volumes, nearest": lambda x: F.grid_sample(
        x.view(-1, 1, 2, 2, 2), torch.tanh(x[:, :6]).view(-1, 1, 1, 2, 3), mode="nearest",
        align_corners=True),
    "affine_grid": lambda x: F.grid_sample(
        x.view(-1, 1, 2, 4), F.affine_grid(x[:, :6].view(-1, 2, 3), (x.shape[0], 1, 2, 4),
                                           align_corners=False), align_corners=False),
    "multi_margin_loss": lambda x: F.multi_margin_loss(
        x, torch.ones(x.shape[0], dtype=torch.long), reduction="none"),
    "gaussian_nll_loss": lambda x: F.gaussian_nll_loss(
        x, x * 0 + 1, positive(x), reduction="none"),
    "diff": lambda x: torch.diff(x, dim=1), "rot90": lambda x: torch.rot90(
        x.view(-1, 2, 4), 1, [1, 2]) * torch.arange(2.0),
    "tensordot": lambda x: torch.tensordot(x, torch.ones(8, 3), 1),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[0], indexing="ij")[1].sum() + x.sum(1),
}
COMPLEX = {
    "a write to a part": lambda x: written_parts(x),
    "zeros and ones": lambda x: torch.view_as_real(
        (pairs(x) + torch.ones(4, dtype=torch.cfloat)) * (1 + torch.zeros_like(pairs(x)))),
    "exp": lambda x: torch.exp(1j * x).real + pairs(x).exp().imag.sum(1, True),
    "product": lambda x: torch.view_as_real(pairs(x) * pairs(x)),
    "quotient": lambda x: torch.view_as_real(pairs(x) / (pairs(x) + 4)),
    "rotation": lambda x: torch.view_as_real(
        pairs(x) * torch.polar(torch.ones(4), torch.arange(4.0))),
    "size": lambda x: pairs(x).abs(), "angle": lambda x: pairs(x).angle(),
    "product of matrices": lambda x: torch.view_as_real(
        pairs(x).reshape(-1, 2, 2) @ pairs(x).reshape(-1, 2, 2).conj()),
    "fft": lambda x: torch.fft.fft(x).imag, "fft, padded": lambda x: torch.fft.fft(x, 11).real,
    "fft, ortho": lambda x: torch.fft.fft(x, norm="ortho").real,
    "ifft": lambda x: torch.fft.ifft(pairs(x)).real,
    "fft2": lambda x: torch.fft.fft2(x.view(-1, 2, 4)).real,
    "fftn": lambda x: torch.fft.fftn(x.view(-1, 2, 4), dim=(1, 2)).imag,
    "rfft": lambda x: torch.fft.rfft(x).abs(),
    "irfft, odd": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=7),
    "transform of a vector": lambda x: torch.fft.irfft(
        torch.fft.rfft(x, n=16) * torch.fft.rfft(x[0], n=16), n=16),
    "filter": lambda x: torch.fft.irfft(
        torch.fft.rfft(x) * torch.tensor([1.0, 1, 0, 0, 0]), n=8),
    "conversions": lambda x: ((x.to(torch.cfloat) * pairs(x).sum()).imag
                              + (x[:, :4].cfloat() * pairs(x)).real.sum(1, True)),
    "transposes": lambda x: torch.cat([f(turned(x)).real.flatten(1) for f in (
        lambda z: z.mT @ z, lambda z: z.mH @ z, lambda z: z.adjoint() @ z.conj())], 1),
    "products of matrices": lambda x: torch.cat([
        F.linear(x.cfloat(), pairs(x).tile(2)[:3]).imag, torch.outer(pairs(x)[:, 0], pairs(x)[0]).real,
        torch.kron(pairs(x), pairs(x)[:1]).imag,
        torch.vdot(pairs(x)[0], pairs(x)[1]).imag.expand(len(x), 1)], 1),
    "powers": lambda x: torch.cat([(pairs(x) ** 3).real, (pairs(x) ** 0.5).imag, torch.sqrt(
        pairs(x)).real, (2.5 ** pairs(x)).real, ((0.3 + 0.4j) ** x[:, :4]).imag, torch.log(pairs(x)).imag,
        (pairs(x)[..., None] ** torch.arange(3)).real.flatten(1)], 1),
    "functions": lambda x: torch.cat([f(pairs(x)).real for f in (
        torch.sin, torch.cos, torch.tanh, torch.sinh, torch.cosh, torch.sigmoid, torch.sgn)], 1),
    "scans": lambda x: torch.cat([torch.cumsum(pairs(x), 1).imag, torch.cumprod(pairs(x), 1).imag,
                                  pairs(x).prod(1, keepdim=True).real], 1),
    "choices": lambda x: torch.cat([
        torch.where(x[:, :4] > 0, pairs(x), pairs(x).conj() * 2).imag, F.pad(pairs(x), (1, 2)).real,
        torch.tril(turned(x)).imag.flatten(1), (1 - pairs(x)).real], 1),
    "norms": lambda x: torch.cat([torch.linalg.vector_norm(pairs(x), dim=1, keepdim=True),
                                  pairs(x).norm(dim=1, keepdim=True)], 1),
    "convolution": lambda x: F.conv1d(pairs(x)[:, None], turned(x)[:2, :1, :2],
                                      pairs(x)[0, :2], padding=1).imag,
    "fftshift": lambda x: torch.fft.fftshift(torch.fft.fft2(turned(x)), dim=(1, 2)).abs(),
    "stft": lambda x: torch.stft(x, 4, 2, window=torch.hann_window(4), return_complex=True).abs(),
    "stft, short window": lambda x: torch.stft(
        x, 4, 1, 2, torch.ones(2), center=False, normalized=True, return_complex=True).real,
    "stft, both sides": lambda x: torch.view_as_real(torch.stft(
        x, 4, window=torch.ones(4), onesided=False, return_complex=True)),
    "istft": lambda x: torch.istft(torch.stft(
        x, 4, 2, window=torch.hann_window(4), return_complex=True) * 2, 4, 2,
        window=torch.hann_window(4), length=8),
    "istft, whole frames": lambda x: torch.istft(torch.stft(
        x, 4, 1, window=torch.ones(4), normalized=True, return_complex=True), 4, 1,
        window=torch.ones(4), normalized=True),
    "rfft2": lambda x: torch.fft.irfft2(
        torch.fft.rfft2(x.view(-1, 2, 4), norm="ortho") * 2, norm="ortho"),
}


def with_axes(name, *axes):
    """A function that gives a tensor other axes in place, and then writes a part of it."""
    def function(x):
        y = (x * 1).view(-1, 2, 1, 4)
        getattr(y, name)(*axes)
        y[:, 1].mul_(3)
        return y.flatten(1)
    return function


def copied(x):
    y = x.clone()
    y.copy_(x.mean())
    y[:, 2:].copy_(x[:, :1])
    return y * x


IN_PLACE = {
    "swapaxes_": with_axes("swapaxes_", 1, 3), "swapdims_": with_axes("swapdims_", 1, 3),
    "transpose_": with_axes("transpose_", 1, -1), "unsqueeze_": with_axes("unsqueeze_", -1),
    "squeeze_": with_axes("squeeze_"), "squeeze_ of an axis": with_axes("squeeze_", 2),
    "t_": lambda x: (x * 1).t_().square_().T, "copy_ of a broadcast": copied,
}


class Layer(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.function = function

    def forward(self, x):
        return self.function(self.linear(x))


def weighted(outputs, targets):
    """A loss that depends on every output in another way."""
    flat = outputs.flatten(1) if outputs.dim() > 1 else outputs[:, None]
    return (flat * torch.linspace(0.5, 1.5, flat.shape[1])).sin().mean()


class Rewrites(unittest.TestCase):
    """`capture` compares loss, outputs and gradients of the program with those of the module."""

    def check_all(self, functions):
        for name, function in functions.items():
            with self.subTest(name, seed=SEED):
                torch.manual_seed(SEED)
                capture(Layer(function), weighted, torch.randn(16, 8), torch.zeros(16))

    def test_real_numbers(self):
        self.check_all(REAL)

    def test_complex_numbers(self):
        self.check_all(COMPLEX)

    def test_axes_and_copies_in_place(self):
        self.check_all(IN_PLACE)

    def test_what_a_function_detaches_has_no_gradient(self):
        """That of its divisor would be infinite for small numbers; near 1 it is 0 but for rounding."""
        torch.manual_seed(SEED)
        program = capture(Layer(REAL["hypot"]), weighted, torch.randn(16, 8), torch.zeros(16)).program
        self.assertIn("stop_gradient", [node.kind for node in program.nodes])

    @unittest.skipUnless(find_spec("torchvision"), "torchvision is not installed")
    def test_deformable_convolutions(self):
        from torchvision.ops import DeformConv2d

        class Deformed(nn.Module):
            def __init__(self, masked, groups, offset_groups, **options):
                super().__init__()
                self.main = DeformConv2d(4, 6, (3, 2), groups=groups, **options)
                self.offset, self.mask = (nn.Conv2d(4, size * offset_groups * 6, (3, 2), **{
                    name: value for name, value in options.items() if name != "bias"})
                    for size in (2, 1))
                self.masked = masked

            def forward(self, x):
                mask = torch.sigmoid(self.mask(x)) if self.masked else None
                return self.main(x, self.offset(x), mask)
        for masked, groups, offset_groups, options in (
                (True, 1, 1, {"padding": 1}), (False, 2, 2, {"stride": 2, "padding": (1, 0), "bias": False}),
                (True, 1, 2, {"dilation": 2, "padding": 2})):
            torch.manual_seed(SEED)
            capture(Deformed(masked, groups, offset_groups, **options), weighted,
                    torch.randn(6, 4, 7, 6), torch.zeros(6))

    def test_a_complex_buffer(self):
        class Turned(Layer):
            def __init__(self):
                super().__init__(lambda x: torch.view_as_real(pairs(x) * self.turns))
                self.register_buffer("turns", torch.polar(torch.ones(4), torch.arange(4.0)),
                                     persistent=False)
        torch.manual_seed(SEED)
        capture(Turned(), weighted, torch.randn(16, 8), torch.zeros(16))

    def test_a_sampled_grid_at_the_pixels_themselves(self):
        """There rounding decides which side of a kink the gradient is of."""
        class Placed(nn.Module):
            def __init__(self):
                super().__init__()
                self.place = nn.Linear(8, 6)
                nn.init.zeros_(self.place.weight)
                self.place.bias.data = torch.tensor([1.0, 0, 0, 0, 1, 0])

            def forward(self, x):
                grid = F.affine_grid(self.place(x).view(-1, 2, 3), (len(x), 1, 6, 6),
                                     align_corners=False)
                image = (x[:, :6, None] * x[:, None, 2:]).unsqueeze(1)
                return F.grid_sample(image, grid, align_corners=False)
        torch.manual_seed(SEED)
        capture(Placed(), weighted, torch.randn(16, 8), torch.zeros(16))


class Assertions(unittest.TestCase):
    def test_an_assertion_about_contents_is_taken_as_true(self):
        def checked(x):
            assert torch.isfinite(x).all() and (x < 100).all(), "too large"
            assert not torch.isnan(x).any()
            if x.min() < -100 or torch.isnan(x).any():
                raise ValueError("too small")
            assert x.abs().max().item() <= 100
            return 2 * x
        torch.manual_seed(SEED)
        capture(Layer(checked), weighted, torch.randn(16, 8), torch.zeros(16))

    def test_an_assertion_that_fails_on_the_example_is_an_error(self):
        def checked(x):
            assert (x > 1000).all(), "too small"
            return x
        with self.assertRaisesRegex(AssertionError, "too small"):
            capture(Layer(checked), weighted, torch.randn(16, 8), torch.zeros(16))

    def test_an_assertion_that_decides_what_is_computed_is_refused(self):
        def caught(x):
            try:
                assert x.sum() > 0
            except AssertionError:
                return 3 * x
            return 2 * x

        def chosen(x):
            assert (y := 2 * x if x.sum() > 0 else 3 * x) is not None
            return y

        def beside(x):
            y = 2 * x if x.sum() > 0 else 3 * x; assert torch.isfinite(x).all()  # noqa: E702
            return y

        def kept(x):
            assert (y := [part for part in (x, 2 * x) if part.sum() > 0]) is not None
            return sum(y)
        for function in (caught, chosen, beside, kept):
            with self.subTest(function.__name__), \
                    self.assertRaisesRegex(Exception, "branches on the content"):
                capture(Layer(function), weighted, torch.randn(16, 8), torch.zeros(16))

    def test_other_branches_on_contents_are_refused(self):
        def branched(x):
            if x.sum() > 0:
                x = 2 * x
            return x
        with self.assertRaisesRegex(Exception, "branches on the content"):
            capture(Layer(branched), weighted, torch.randn(16, 8), torch.zeros(16))


if __name__ == "__main__":
    unittest.main()
