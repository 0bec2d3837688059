"""Every lowered operator computes what torch computes, with its gradient.

Each case is a small function of (module, x), captured with the self-check, which compares the loss,
the outputs and all gradients.
"""
import math
import unittest
import warnings

import capture_support as support
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def write_apart(x, y):
    """Writes at indices of axes that are apart."""
    x[:, [0, 1], :, [1, 0]] = y[:, :2].t()[..., None]
    return x


def written_from_the_end(x, place):
    """Writes one element of each sample, at a place that is counted from the end."""
    value = x.sum(1).sin()
    x[torch.arange(len(x)), place] = value
    return x


ELEMENTWISE = {
    "relu6": lambda y: F.relu6(y), "elu": lambda y: F.elu(y, 0.5), "selu": lambda y: F.selu(y),
    "celu": lambda y: F.celu(y, 2.0), "softplus": lambda y: F.softplus(y),
    "logsigmoid": lambda y: F.logsigmoid(y), "mish": lambda y: F.mish(y),
    "hardswish": lambda y: F.hardswish(y), "hardsigmoid": lambda y: F.hardsigmoid(y),
    "threshold": lambda y: F.threshold(y, 0.1, 0.2), "softsign": lambda y: F.softsign(y),
    "glu": lambda y: F.glu(y), "gelu": lambda y: F.gelu(y, approximate="tanh"),
    "pow": lambda y: y.pow(3) + y.abs().add(1).pow(1.7) + (y.square() + 1) ** -0.5,
    "pow_base": lambda y: 2 ** y, "rsub": lambda y: 1 - y, "rdiv": lambda y: 1 / (y.exp() + 1),
    "clamp": lambda y: y.clamp(-0.5, 0.5) + y.clamp(min=0.1) + y.clamp(max=torch.zeros(8)),
    "lerp": lambda y: torch.lerp(y, y.sin(), 0.3), "addcmul": lambda y: torch.addcmul(y, y, y),
    "where": lambda y: torch.where((y > 0) & ~(y > 1), y, y * 2),
    "softplus, threshold": lambda y: F.softplus(y, 3, 0.5) + F.softplus(20 * y, 1.5, 30),
    "truth values": lambda y: y * ((y > 0) + (y < -1)) * torch.maximum(y > -1, y > 2) + torch.minimum(
        y > 0, y < 1) + ((y > 0) & True) + ((y > 0) ^ (y < 1)) + ((y > 1) | False),
    "masked_fill": lambda y: y.masked_fill(y < 0, -1.0), "floor": lambda y: y * y.floor(),
    "type_as": lambda y: y * (y > 0), "ceil": lambda y: y * y.ceil(), "tan": lambda y: y.tan(),
}
MOVES = {
    "split": lambda y: torch.cat([part * i for i, part in enumerate(y.split(3, 1))], 1),
    "chunk": lambda y: y.chunk(2, 1)[1], "unbind": lambda y: y.view(-1, 2, 4).unbind(1)[1],
    "stack": lambda y: torch.stack([y, y.sin()], -1), "roll": lambda y: y.roll((1, 3), (1, 1)),
    "flip": lambda y: y.flip(-1), "repeat": lambda y: y.repeat(1, 3), "tile": lambda y: y.tile(2),
    "repeat_interleave": lambda y: y.repeat_interleave(2, 1),
    "expand": lambda y: y[:, None].expand(-1, 3, -1),
    "movedim": lambda y: y.view(-1, 2, 2, 2).movedim(-1, 1),
    "pixel_shuffle": lambda y: F.pixel_shuffle(y.view(-1, 4, 1, 2), 2),
    "pixel_unshuffle": lambda y: F.pixel_unshuffle(y.view(-1, 1, 2, 4), 2),
    "unfold_axis": lambda y: y.unfold(1, 3, 2),
    "unfold": lambda y: F.unfold(y.view(-1, 1, 2, 4), 2, padding=1),
    "fold": lambda y: F.fold(F.unfold(y.view(-1, 1, 2, 4), 2, padding=1), (2, 4), 2, padding=1),
    "pad": lambda y: F.pad(y, (1, 2), value=3.0),
    "pad by -inf": lambda y: F.max_pool1d(F.pad(y, (1, 1), value=-float("inf")), 3, 1),
    "pad_reflect": lambda y: F.pad(y.view(-1, 2, 4), (2, 1), mode="reflect"),
    "pad_circular": lambda y: F.pad(y.view(-1, 2, 4), (2, 1), mode="circular"),
    "index": lambda y: y[:, [3, 1, 1]], "index_two": lambda y: y.view(-1, 2, 4)[:, [0, 1], [3, 2]],
    "index_apart": lambda y: y.view(-1, 2, 2, 2)[:, [0, 1, 1], :, [1, 0, 1]].transpose(0, 1),
    "write_apart": lambda y: write_apart(y.view(-1, 2, 2, 2) * 1, y),
    "no elements": lambda y: torch.cat([y[:, :0], y], 1) + y[:, 3:3].sum(1, keepdim=True) + y[
        :, 8:].prod(1, keepdim=True),
    "index_computed": lambda y: y.t()[y[:, 0].long().clamp(0, 7)],
    "gather": lambda y: y.gather(1, y.argmax(1, keepdim=True)),
    "per_sample": lambda y: y[torch.arange(len(y)), y.argmax(1)],
    "per_sample_constant": lambda y: y[torch.arange(len(y))[:, None], torch.tensor([[3, 1]])],
    "argmax_integers": lambda y: (10 * y).long().argmax(1, keepdim=True) * y,
    "tril": lambda y: y.view(-1, 2, 4).tril(), "diagonal": lambda y: y.view(-1, 2, 4).diagonal(
        dim1=1, dim2=2),
    "write_per_sample_from_the_end": lambda y: written_from_the_end(
        y * 1, (y[:, 0] > 0).long() - 2),
    "write_per_sample_constant": lambda y: written_from_the_end(y * 1, torch.tensor(-3)),
    "write_per_sample_constants": lambda y: written_from_the_end(
        y * 1, torch.tensor([-3]).expand(len(y))),
    "one_hot": lambda y: F.one_hot(y.argmax(1), 8) * y, "negative_slice": lambda y: y[:, -3:-1],
    "step_slice": lambda y: y[:, 1::2],
}
REDUCTIONS = {
    "extremes of truth values": lambda y: (y > 0).amax(1) * y[:, 0] + (y > 0).max(1)[0] * y[:, 1] + (
        y > 0).min() + (y > -1).prod(1) * y[:, 2],
    "sum": lambda y: y.sum(1), "mean": lambda y: y.mean((0, 1)), "amax": lambda y: y.amax(1),
    "max": lambda y: y.max(1)[0], "min": lambda y: y.min(1, keepdim=True)[0],
    "prod": lambda y: y.prod(1), "var": lambda y: y.var(1), "std": lambda y: y.std(1),
    "var_biased": lambda y: y.var(1, unbiased=False), "norm": lambda y: y.norm(dim=1),
    "norm_1": lambda y: y.norm(1, dim=1), "logsumexp": lambda y: y.logsumexp(1),
    "cumsum": lambda y: y.cumsum(1), "normalize": lambda y: F.normalize(y, dim=1),
    "any": lambda y: y * (y > 0.5).any(1, keepdim=True), "all": lambda y: y * (y > -9).all(),
    "cosine": lambda y: F.cosine_similarity(y, y.sin()), "cdf": lambda y: y.softmax(1).cumsum(-1),
}
PRODUCTS = {
    "matmul_vector": lambda y: y @ torch.ones(8), "outer": lambda y: torch.outer(y[:, 0], y[:, 1]
                                                                                 ).mean(1),
    "einsum": lambda y: torch.einsum("bhi,bhj->bij", y.view(-1, 2, 4), y.view(-1, 2, 4).sin()),
    "einsum_sum": lambda y: torch.einsum("bi,bj,bi->bj", y, y.sin(), y.cos()),
    "einsum_ellipsis": lambda y: torch.einsum("...i,ji->...j", y, torch.eye(3, 8)),
    "bilinear": lambda y: F.bilinear(y, y, torch.ones(2, 8, 8)),
    "addmm": lambda y: torch.addmm(y, y, torch.eye(8), beta=0.5, alpha=2.0),
}
LOSSES = {
    "nll": lambda o, t: F.nll_loss(o.log_softmax(1), t), "bce": lambda o, t: F.binary_cross_entropy(
        o.sigmoid(), F.one_hot(t, 8).float()),
    "smooth": lambda o, t: F.cross_entropy(o, t, label_smoothing=0.1),
    "weights": lambda o, t: F.cross_entropy(o, t, weight=torch.arange(1.0, 9.0)),
    "rows": lambda o, t: (F.cross_entropy(o, t, reduction="none") * 2).mean(),
    "rows, weighted": lambda o, t: F.cross_entropy(
        o, t, weight=torch.arange(1.0, 9.0), label_smoothing=0.1, reduction="none",
        ignore_index=2).square().mean(),
    "nll rows": lambda o, t: F.nll_loss(o.log_softmax(1), t, weight=torch.arange(1.0, 9.0),
                                        reduction="none").square().mean(),
    "smooth_l1 rows": lambda o, t: F.smooth_l1_loss(o, o.detach().sin(), beta=0.3, reduction="none"
                                                    ).square().mean(),
    "huber rows": lambda o, t: F.huber_loss(o, o.detach().sin() * 2, delta=0.3, reduction="none"
                                            ).square().mean(),
    "kl rows": lambda o, t: F.kl_div(o.log_softmax(1), F.one_hot(t, 8).float(), reduction="none"
                                     ).square().mean(),
    "bce rows, weighted": lambda o, t: F.binary_cross_entropy_with_logits(
        o, F.one_hot(t, 8).float(), weight=torch.arange(1.0, 9.0),
        pos_weight=torch.arange(2.0, 10.0), reduction="none").square().mean(),
    "poisson, full": lambda o, t: F.poisson_nll_loss(o, t[:, None].float(), full=True),
    "ctc": lambda o, t: F.ctc_loss(
        o.view(-1, 4, 2).transpose(0, 1).repeat(2, 1, 1).log_softmax(2), (t[:, None] * 0 + 1).repeat(
            1, 2), torch.full((len(t),), 7), torch.where(t > 3, 2, 1)),
    "ctc, no alignment": lambda o, t: F.ctc_loss(
        o.view(-1, 4, 2).transpose(0, 1).log_softmax(2), (t[:, None] * 0 + 1).repeat(1, 4),
        torch.full((len(t),), 4), torch.where(t > 3, 2, 4), zero_infinity=True, reduction="sum"),
    "ctc of one sequence": lambda o, t: F.ctc_loss(
        o[:, :4].log_softmax(1)[:3], torch.tensor([1, 2]), (3,), (2,)) + o.square().mean(),
    "soft": lambda o, t: F.cross_entropy(o, o.detach().sin().softmax(1)),
    "huber": lambda o, t: F.huber_loss(o, torch.ones_like(o), delta=0.3),
    "kl of one number": lambda o, t: F.kl_div(torch.tensor([-2.0]), o.log_softmax(1),
                                              reduction="batchmean", log_target=True),
    "kl of a row": lambda o, t: F.kl_div(o.log_softmax(1), torch.full((8,), 0.125), reduction="sum"),
    "kl": lambda o, t: F.kl_div(o.log_softmax(1), torch.full_like(o, 0.125), reduction="batchmean"),
    "triplet": lambda o, t: F.triplet_margin_loss(o, o.sin(), o.cos()),
    "margin": lambda o, t: F.margin_ranking_loss(o[:, 0], o[:, 1], torch.ones(len(o))),
    "cosine": lambda o, t: F.cosine_embedding_loss(o, o.sin(), 2 * (t > 3).long() - 1),
    "soft_margin": lambda o, t: F.soft_margin_loss(o, o.detach().sign()),
    "hinge": lambda o, t: F.hinge_embedding_loss(o, o.detach().sign()),
    "poisson": lambda o, t: F.poisson_nll_loss(o, torch.ones_like(o)),
    "focal": lambda o, t: ((1 - (p := torch.exp(-F.cross_entropy(o, t, reduction="none")))) ** 2
                           * -p.log()).mean(),
}
class LastState(nn.Module):
    """The last hidden state of an LSTM, as classifiers of sequences use it, or its cell state.

    The first states are those of another LSTM.
    """

    def __init__(self, cell=False):
        super().__init__()
        self.cell, self.first, self.lstm = cell, nn.LSTM(3, 4), nn.LSTM(3, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = x.transpose(0, 1)
        _, (h, c) = self.lstm(x, self.first(x)[1])
        return self.head((c if self.cell else h)[-1])


torch.manual_seed(2)  # of the weights below
LAYERS = {
    "conv1d": (nn.Conv1d(2, 4, 3, stride=2, padding=1), (2, 9)),
    "conv_same": (nn.Conv2d(2, 4, (4, 3), padding="same", groups=2), (2, 6, 6)),
    "conv_circular": (nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"), (2, 5, 5)),
    "conv_transpose": (nn.ConvTranspose2d(2, 4, 3, stride=2, output_padding=1), (2, 4, 4)),
    "conv3d": (nn.Conv3d(1, 2, 2, dilation=2), (1, 4, 4, 4)),
    "group_norm": (nn.GroupNorm(2, 4), (4, 5)), "instance_norm": (nn.InstanceNorm2d(3, affine=True),
                                                                  (3, 4, 4)),
    "layer_norm": (nn.LayerNorm((3, 4)), (3, 4)), "rms_norm": (nn.RMSNorm(6), (2, 6)),
    "batch_norm_untracked": (nn.BatchNorm1d(5, track_running_stats=False), (5,)),
    "max_pool": (nn.Sequential(nn.Conv2d(1, 2, 1), nn.MaxPool2d(3, 2, 1, ceil_mode=True)),
                 (1, 6, 6)),
    "avg_pool": (nn.Sequential(nn.Conv2d(1, 2, 1), nn.AvgPool2d(3, 2, 1, count_include_pad=False)),
                 (1, 6, 6)),
    "adaptive_pool": (nn.Sequential(nn.Conv2d(1, 2, 1), nn.AdaptiveMaxPool2d((2, 3))), (1, 7, 7)),
    "upsample": (nn.Sequential(nn.Conv2d(1, 2, 1), nn.Upsample(scale_factor=2)), (1, 3, 3)),
    "avg_pool_divisor": (nn.Sequential(nn.Conv2d(1, 2, 1), nn.AvgPool2d(
        3, 2, 1, ceil_mode=True, divisor_override=5)), (1, 6, 6)),
    "upsample_by_scale": (nn.Sequential(nn.Conv2d(1, 2, 1), nn.Upsample(scale_factor=(1.6, 2.3))), (1, 4, 5)),
    "bilinear_by_scale": (nn.Sequential(nn.Conv2d(1, 2, 1), nn.Upsample(
        scale_factor=(1.6, 0.7), mode="bilinear")), (1, 4, 5)),
    "bicubic_by_scale": (nn.Sequential(nn.Conv2d(1, 2, 1), nn.Upsample(
        scale_factor=1.3, mode="bicubic")), (1, 4, 5)),
    "trilinear_by_scale": (nn.Sequential(nn.Conv3d(1, 2, 1), nn.Upsample(
        scale_factor=1.3, mode="trilinear")), (1, 4, 5, 4)),
    "bilinear": (nn.Sequential(nn.Conv2d(1, 2, 1), nn.Upsample((5, 7), mode="bilinear")),
                 (1, 3, 3)),
    "lstm": (nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), (5, 3)),
    "lstm_state": (LastState(), (5, 3)), "gru": (nn.GRU(3, 4, batch_first=True), (5, 3)),
    "lstm_dropout": (nn.LSTM(3, 4, 3, batch_first=True, bidirectional=True, dropout=0.3), (5, 3)),
    "lstm_projection": (nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True, proj_size=2,
                                dropout=0.2), (5, 3)),
    "lstm_projection_no_bias": (nn.LSTM(3, 4, batch_first=True, proj_size=3, bias=False), (2, 3)),
    "lstm_cell_state": (LastState(cell=True), (5, 3)),
    "gru_dropout": (nn.GRU(3, 4, 2, batch_first=True, bidirectional=True, dropout=0.3), (1, 3)),
    "gru_no_bias": (nn.GRU(3, 4, batch_first=True, bias=False), (5, 3)),
    "rnn_dropout": (nn.RNN(3, 4, 2, batch_first=True, dropout=0.3), (5, 3)),
    "rnn": (nn.RNN(3, 4, batch_first=True, bias=False), (5, 3)),
    "attention": (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), (5, 8)),
    "dropout2d": (nn.Sequential(nn.Conv2d(1, 4, 1), nn.Dropout2d(0.5)), (1, 3, 3)),
    "prelu": (nn.PReLU(3), (3, 4)),
}


def mean_of_squares(outputs, targets):
    first = outputs[0] if isinstance(outputs, tuple) else outputs
    return (first.square().mean() + first.sin().sum() / 100)


class Operators(unittest.TestCase):
    def check_functions(self, functions):
        for name, function in functions.items():
            with self.subTest(name):
                support.capture_function(lambda m, x, f=function: f(m.layer(x)))

    def test_elementwise(self):
        self.check_functions(ELEMENTWISE)

    def test_an_infinite_bound_is_left_out(self):
        captured = support.capture_function(
            lambda m, x: (m.layer(x).clamp(0.1, math.inf) + m.layer(x).clamp(-math.inf, math.inf)
                          + F.hardtanh(m.layer(x), -math.inf, 0.3)))
        numbers = [value for node in captured.program.nodes for value in node.attributes.values()
                   if isinstance(value, float)]
        self.assertTrue(all(map(math.isfinite, numbers)), numbers)
        for constant in captured.program.constants:
            self.assertTrue(np.isfinite(constant.array).all(), constant)

    def test_moves(self):
        self.check_functions(MOVES)

    def test_a_constant_index_of_all_samples_is_a_move(self):
        captured = support.capture_function(
            lambda m, x: m.layer(x)[torch.arange(len(x))[:, None], torch.tensor([[3, 1]])])
        self.assertNotIn("gather", support.kinds(captured))

    def test_reductions(self):
        self.check_functions(REDUCTIONS)

    def test_products(self):
        self.check_functions(PRODUCTS)

    def test_losses(self):
        from easyscale.tracing import capture
        for name, loss in LOSSES.items():
            with self.subTest(name):
                capture(support.Model(lambda m, x: m.layer(x)), loss, torch.randn(4, 8),
                        torch.randint(0, 8, (4,)))

    def test_layers(self):
        from easyscale.tracing import capture
        for name, (layer, shape) in LAYERS.items():
            with self.subTest(name):
                torch.manual_seed(2)
                capture(layer, mean_of_squares, torch.randn(4, *shape), torch.zeros(4))

    def test_a_recurrent_layer_has_as_many_nodes_for_long_sequences(self):
        from easyscale.tracing import capture
        for kind, layer in (("lstm", nn.LSTM), ("gru", nn.GRU)):
            model = layer(3, 4, 2, batch_first=True, bidirectional=True)
            short, long = (capture(model, mean_of_squares, torch.randn(4, steps, 3), torch.zeros(4))
                           for steps in (2, 700))
            self.assertEqual(support.kinds(short), support.kinds(long))
            self.assertEqual(support.kinds(long).count(kind), 4)

    def test_a_capture_shows_no_warnings_of_torch(self):
        from easyscale.tracing import capture
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            capture(nn.GRU(3, 4, batch_first=True), mean_of_squares, torch.randn(4, 5, 3),
                    torch.zeros(4))

    def test_a_projection_of_a_long_sequence_is_refused(self):
        from easyscale.tracing import capture, errors
        with self.assertRaisesRegex(errors.UnsupportedOperators, "projected .* more than 512 steps"):
            capture(nn.LSTM(3, 4, proj_size=2, batch_first=True), mean_of_squares,
                    torch.randn(4, 513, 3), torch.zeros(4))


if __name__ == "__main__":
    unittest.main()
