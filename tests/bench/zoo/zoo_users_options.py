"""Options and habits of torch that users' models have, for scripts/zoo.

Wrappers, writes in place, losses, tricks.
"""
import math
from collections import OrderedDict, namedtuple
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import stack_module_state
from torch.nn.utils import parametrizations, parametrize
from zoo_case import SAMPLES, case, entries_of, floats, integers


class SpectralNet(nn.Module):
    """The newer spectral norm and an orthogonal parametrisation."""

    def __init__(self):
        super().__init__()
        norm = nn.utils.parametrizations.spectral_norm
        self.body = nn.Sequential(norm(nn.Linear(8, 16)), nn.ReLU(), norm(nn.Linear(16, 4)))

    def forward(self, x):
        return self.body(x)


class Hyper(nn.Module):
    """A network whose weights another network makes for every sample."""

    def __init__(self):
        super().__init__()
        self.make = nn.Linear(4, 8 * 3)

    def forward(self, condition, x):
        weights = self.make(condition).view(-1, 8, 3)
        return torch.bmm(x.unsqueeze(1), weights).squeeze(1)


class Quantised(nn.Module):
    """Fake quantisation with a straight-through estimator by detach."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 16), nn.Linear(16, 3)

    def quantise(self, x):
        scale = x.detach().abs().max() / 7
        return x + (torch.clamp(torch.round(x / scale), -8, 7) * scale - x).detach()

    def forward(self, x):
        h = F.hardtanh(F.linear(x, self.quantise(self.fc1.weight), self.fc1.bias))
        return F.linear(self.quantise(h), self.quantise(self.fc2.weight), self.fc2.bias)


class Highway(nn.Module):
    """Local response norm, LP pooling, softmin, threshold and other rare layers."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.LocalResponseNorm(2), nn.RReLU(), nn.LPPool2d(2, 2), nn.CELU(),
            nn.Conv2d(8, 8, 3, padding="same", dilation=2), nn.Softsign(), nn.Threshold(0.1, 0.0),
            nn.AdaptiveMaxPool2d((2, 2)), nn.Flatten(), nn.Linear(32, 8), nn.LogSigmoid(),
            nn.Softmax(dim=1))
        self.bilinear = nn.Bilinear(8, 8, 3)

    def forward(self, x):
        h = self.body(x)
        return self.bilinear(h, h)


class FocalClassifier(nn.Module):
    """A text classifier with EmbeddingBag and several losses of torch.nn."""

    def __init__(self):
        super().__init__()
        self.bag, self.fc = nn.EmbeddingBag(40, 8, mode="mean"), nn.Linear(8, 4)

    def forward(self, ids):
        return self.fc(self.bag(ids))


def several_losses(logits, labels):
    one_hot = F.one_hot(labels, 4).float()
    return (nn.MultiLabelSoftMarginLoss()(logits, one_hot) + nn.MultiMarginLoss()(logits, labels)
            + nn.PoissonNLLLoss()(logits, one_hot) + nn.SmoothL1Loss(reduction="none")(
                logits, one_hot).mean() + nn.HuberLoss(reduction="none")(logits, one_hot).sum(1).mean()
            + nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1)(logits, labels).mean()
            + nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2, 3, 4]), reduction="none")(
                logits, labels).mean()
            + nn.KLDivLoss(reduction="none")(F.log_softmax(logits, 1), F.softmax(one_hot, 1)).mean()
            + nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2, 3, 4]), reduction="none")(
                logits, one_hot).mean()
            + nn.GaussianNLLLoss()(logits, one_hot, torch.exp(logits))
            )


class WeightNormed(nn.Module):
    """Convolutions with the weight norm of parametrizations, and Highway layers."""

    def __init__(self):
        super().__init__()
        self.conv = parametrizations.weight_norm(nn.Conv1d(4, 8, 3, padding="same"))
        self.plain, self.gate = nn.Linear(8, 8), nn.Linear(8, 8)
        nn.init.constant_(self.gate.bias, -2.0)
        self.head = parametrizations.weight_norm(nn.Linear(8, 3), dim=None)

    def forward(self, x):
        h = F.relu(self.conv(x)).amax(-1)
        t = torch.sigmoid(self.gate(h))
        return self.head(t * F.relu(self.plain(h)) + (1 - t) * h)


class TwoTasks(nn.Module):
    """One body with two heads, whose losses are weighted by trained variances (Kendall 2018)."""

    def __init__(self):
        super().__init__()
        self.log_variances = nn.Parameter(torch.zeros(2))
        self.body = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.Hardswish())
        self.heads = nn.ModuleDict({"classes": nn.Linear(16, 4), "value": nn.Linear(16, 1)})

    def forward(self, x, labels, values):
        h = self.body(x)
        losses = torch.stack([F.cross_entropy(self.heads["classes"](h), labels),
                              F.smooth_l1_loss(self.heads["value"](h).squeeze(-1), values)])
        return (torch.exp(-self.log_variances) * losses + self.log_variances).sum()


class Modulated(nn.Module):
    """Adaptive instance norms of a style, and SPADE."""

    def __init__(self):
        super().__init__()
        self.encoder, self.style = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(5, 16)
        self.norm = nn.GroupNorm(2, 8, affine=False)
        self.scale, self.shift = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(1, 8, 3, padding=1)
        self.up = nn.Sequential(nn.Upsample(scale_factor=2, mode="bicubic"), nn.Conv2d(8, 3, 1),
                                nn.Tanh())

    def forward(self, image, style, mask):
        h = self.encoder(image)
        mean, deviation = h.mean((2, 3), keepdim=True), h.std((2, 3), keepdim=True) + 1e-5
        gain, bias = self.style(style)[:, :, None, None].chunk(2, 1)
        h = F.mish((h - mean) / deviation * (1 + gain) + bias)
        mask = F.interpolate(mask, size=h.shape[-2:], mode="nearest")
        return self.up(self.norm(h) * (1 + self.scale(mask)) + self.shift(mask))


class Rare(nn.Module):
    """Layers that few models use: Fold, channel shuffle, unshuffle, GLU, bilinear, cosine."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(12, 8, 1, groups=4),
                                   nn.ChannelShuffle(4), nn.ReLU6(), nn.CircularPad2d(1),
                                   nn.Conv2d(8, 8, 3, padding_mode="circular"))
        self.unfold, self.fold = nn.Unfold(2, stride=2), nn.Fold(4, 2, stride=2)
        self.mix = nn.Conv1d(32, 64, 1)
        self.similar, self.anchors = nn.CosineSimilarity(dim=-1), nn.Parameter(torch.randn(3, 128))

    def forward(self, x):
        h = self.unfold(self.first(x))
        h = F.glu(self.mix(h), dim=1)
        h = F.tanhshrink(self.fold(h)).flatten(1)
        h = F.layer_norm(h, h.shape[1:])
        return 5 * self.similar(h.unsqueeze(1), self.anchors)


def margins(outputs, labels):
    """Losses of torch.nn that few models use."""
    many = F.one_hot(labels, 3)
    signs = 2 * many.float() - 1
    return (F.multi_margin_loss(outputs, labels) + F.multilabel_soft_margin_loss(outputs, many.float())
            + F.hinge_embedding_loss(outputs, signs) + F.soft_margin_loss(outputs, signs)
            + F.gaussian_nll_loss(outputs, signs, outputs.square() + 0.1)
            + F.poisson_nll_loss(outputs, many.float())
            + F.cross_entropy(outputs, labels, torch.tensor([1.0, 2.0, 0.5]), label_smoothing=0.1))


class Orthogonal(nn.Module):
    """A layer whose weight stays orthogonal by the Cayley map."""

    def __init__(self):
        super().__init__()
        self.layer = parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley")

    def forward(self, x):
        return self.layer(x)


class InPlace(nn.Module):
    """Writes into slices, views and diagonals, as NumPy programs do."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 12), nn.Linear(12, 12), nn.Linear(12, 3)
        self.scale, self.gain = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(12))

    def forward(self, x):
        h = torch.tanh(self.first(x))
        out = h.new_empty(h.size(0), 4, 3)
        for i, part in enumerate(h.chunk(4, 1)):
            out[:, i] = part * self.scale
        out[:, 1:] += out[:, :-1].clone()
        out[:, ::2, 0] *= 2
        view = out.view(-1, 12)
        view[:, 3:6] = view[:, 3:6].clone().sin() + view[:, :3]
        out[:, 3].clamp_(min=-0.5).mul_(0.5)
        gram = torch.bmm(out.transpose(1, 2), out)
        gram.diagonal(dim1=-2, dim2=-1).add_(1.0)
        gram[:, torch.arange(3), torch.arange(3)] *= 0.5
        flat = out.flatten(1).clone()
        flat[flat < 0] = 0.1
        flat[:, [0, 5]] = gram[:, 0, 1:].detach() + self.scale[:2]
        y = self.second(flat)
        first, *_, last = y.unbind(1)
        y = y.index_fill(1, torch.tensor([2, 7]), 0.25).masked_fill_((y > 1.0), 1.0)
        y[torch.isnan(y)] = 0.0
        y = torch.where(y.abs() > 0.3, y, torch.zeros(())) + (first * last).unsqueeze(-1)
        y.sub_(y.mean(0, keepdim=True)).mul_(self.gain)
        return self.head(y + gram.flatten(1).repeat(1, 2)[:, :12])


class FrozenNorms(nn.Module):
    """A pretrained body whose batch norms stay in evaluation, by a `train` of its own."""

    class Fixed(nn.Module):
        """A batch norm that has only buffers."""

        def __init__(self, channels):
            super().__init__()
            for name, value in (("weight", 1.0), ("bias", 0.1), ("mean", -0.1), ("var", 0.7)):
                self.register_buffer(name, torch.full((channels,), value))

        def forward(self, x):
            w, b, mean, var = (t.reshape(1, -1, 1, 1)
                               for t in (self.weight, self.bias, self.mean, self.var))
            scale = w * (var + 1e-5).rsqrt()
            return x * scale + (b - mean * scale)

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(),
                                  nn.Conv2d(6, 6, 3), self.Fixed(6), nn.ReLU())
        self.body[1].running_mean.uniform_(-0.2, 0.2)
        self.body[1].running_var.uniform_(0.5, 2)
        self.inner, self.outer = (nn.ModuleList(nn.Conv2d(n, 4, k, padding=k // 2) for _ in range(2))
                                  for n, k in ((6, 1), (4, 3)))
        self.mlp = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(inplace=True),
                                 nn.Linear(8, 3))
        self.train()

    def train(self, mode=True):
        super().train(mode)
        for m in self.body.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.eval()
                m.weight.requires_grad_(False)
        return self

    def forward(self, x):
        h = self.body(x)
        features = OrderedDict(a=h, b=F.max_pool2d(h, 2))
        last, levels = None, []
        for lateral, output, level in zip(self.inner, self.outer, reversed(features.values())):
            inner = lateral(level)
            if last is not None:
                inner = inner + F.interpolate(last, size=inner.shape[-2:], mode="nearest")
            last = inner
            levels.insert(0, output(inner))
        return self.mlp(sum(level.mean((2, 3)) for level in levels))


class LightningStyle(nn.Module):
    """A module with training_step and a log, as PyTorch Lightning has them."""

    def __init__(self):
        super().__init__()
        self.hparams = {"lr": 1e-3, "smoothing": 0.1}
        self.logged = {}
        self.encoder = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Mish())
        self.head = nn.Linear(16, 4)
        self.register_buffer("class_weights", torch.tensor([1.0, 2.0, 0.5, 1.0]))

    def log(self, name, value, prog_bar=False):
        self.logged[name] = value.detach()

    def training_step(self, batch, stage="train"):
        x, y = batch["x"], batch["y"]
        logits = self.head(self.encoder(x))
        loss = F.cross_entropy(logits, y, weight=self.class_weights, ignore_index=3,
                               label_smoothing=self.hparams["smoothing"])
        self.log(f"{stage}/loss", loss, prog_bar=True)
        self.log(f"{stage}/acc", (logits.argmax(-1) == y).float().mean())
        return loss

    def forward(self, x, y):
        return self.training_step({"x": x, "y": y})


class Mixup(nn.Module):
    """Mixes every image with its neighbour in the mini-batch, with a share drawn for each."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.PReLU(8),
                                 nn.Dropout2d(0.2), nn.Flatten(), nn.Linear(128, 4))

    def forward(self, image, label):
        target = F.one_hot(label, 4).float()
        if self.training:
            share = torch.rand(image.size(0), 1, 1, 1)
            share = torch.maximum(share, 1 - share)
            image = share * image + (1 - share) * image.roll(1, 0)
            share = share.flatten(1)
            target = share * target + (1 - share) * target.roll(1, 0)
        return torch.sum(-target * F.log_softmax(self.net(image), dim=-1), dim=-1).mean()


class ShuffledMixup(nn.Module):
    """Mixes the mini-batch with itself in a random order, as in the paper."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))

    def forward(self, x, y):
        if not self.training:
            return F.cross_entropy(self.net(x), y)
        index, lam = torch.randperm(x.size(0)), torch.rand(())
        logits = self.net(lam * x + (1 - lam) * x[index, :])
        return lam * F.cross_entropy(logits, y) + (1 - lam) * F.cross_entropy(logits, y[index])


class Ensemble(nn.Module):
    """Members whose weights are stacked, evaluated by one batched product each."""

    def __init__(self, members=3):
        super().__init__()
        nets = [nn.Linear(5, 4) for _ in range(members)]
        params, _ = stack_module_state(nets)
        self.weight = nn.Parameter(params["weight"].detach().clone())
        self.bias = nn.Parameter(params["bias"].detach().clone())
        self.out = nn.Parameter(torch.randn(members, 4, 2) * 0.3)

    def forward(self, x):
        h = torch.tanh(torch.einsum("bi,moi->mbo", x, self.weight) + self.bias[:, None])
        mean, logvar = torch.bmm(h, self.out).unbind(-1)
        logvar = 4.0 - F.softplus(4.0 - logvar)
        return mean, logvar.clamp(min=-6.0)


def ensemble_loss(outputs, target):
    """The likelihood of normal distributions, summed over members."""
    mean, logvar = outputs
    return (((mean - target) ** 2 * torch.exp(-logvar)).mean(1) + logvar.mean(1)).sum(0)


class FakeQuant(nn.Module):
    """Quantisation-aware training: learned steps (LSQ) with gradients past round by detach."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.steps = nn.ParameterDict({"w": nn.Parameter(torch.tensor(0.05)),
                                       "x": nn.Parameter(torch.tensor(0.1))})
        self.fc = nn.Linear(8, 3)

    @staticmethod
    def quantise(x, step, low, high):
        grad_scale = 1.0 / math.sqrt(x.numel() / len(x) * high)
        step = (step - step * grad_scale).detach() + step * grad_scale
        x = (x / step).clamp(low, high)
        return ((x.round() - x).detach() + x) * step

    def forward(self, x):
        x = self.quantise(x, self.steps["x"], -8, 7)
        w = self.quantise(self.conv.weight, self.steps["w"], -8, 7)
        x = F.relu6(self.bn(F.conv2d(x, w, padding=1)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Parametrised(nn.Module):
    """A symmetric weight, a weight of the unit ball and an orthogonal one, by parametrizations."""

    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

    class Ball(nn.Module):
        def forward(self, x):
            return x / torch.clamp(x.norm(dim=1, keepdim=True), min=1.0)

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(6, 6) for _ in range(3))
        parametrize.register_parametrization(self.a, "weight", self.Symmetric())
        parametrize.register_parametrization(self.b, "weight", self.Ball())
        parametrizations.weight_norm(self.c)
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        with parametrize.cached():
            return self.head(self.c(torch.sin(self.b(F.softsign(self.a(x))))))


class NormOptions(nn.Module):
    """Batch norms with options: other momenta, none kept, no affine."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, momentum=0.3, eps=1e-3), nn.ReLU6(True),
            nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8, track_running_stats=False), nn.Hardswish(True),
            nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8, affine=False), nn.Hardtanh(-2.0, 2.0),
            nn.Conv2d(8, 8, 1), nn.InstanceNorm2d(8, affine=True),
            nn.CELU(0.5), nn.AdaptiveMaxPool2d((1, 2)), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Softplus(2.0),
                                  nn.Linear(8, 3))

    def forward(self, x):
        return self.head(self.net(x))


class Auxiliary(nn.Module):
    """Several outputs as a named tuple, with heads whose losses count differently."""

    Heads = namedtuple("Heads", "main aux boxes")

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.main, self.aux, self.boxes = nn.Linear(8, 3), nn.Linear(8, 3), nn.Linear(8, 4)
        for p in self.stem.parameters():
            p.requires_grad = False

    def forward(self, x):
        a = self.stem(x)
        b = self.deep(a).amax(dim=(2, 3))
        return self.Heads(self.main(b), self.aux(a.detach().mean((2, 3))), self.boxes(b).exp())


def auxiliary_loss(outputs, batch):
    """A sum of losses with their own reductions."""
    main = F.cross_entropy(outputs.main, batch["label"], reduction="none", label_smoothing=0.1)
    main = (main * batch["weight"]).sum() / batch["weight"].sum()
    aux = F.multi_margin_loss(outputs.aux, batch["label"], margin=0.5)
    boxes = F.smooth_l1_loss(outputs.boxes, batch["boxes"], beta=0.5, reduction="sum") / len(
        batch["boxes"])
    return main + 0.4 * aux + 0.1 * boxes


class InPlaceViews(nn.Module):
    """Writes into views, by masks, by lists of places and with steps."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 12), nn.Linear(12, 3)

    def forward(self, x):
        y = self.a(x)
        y[:, 0] += 1
        y[:, 1::3].mul_(2)
        y[..., [2, 5]] = y[..., [5, 2]].sigmoid()
        y.view(-1, 3, 4)[:, 1].relu_()
        y.flip(1)[:, :2].zero_()
        z = y.clone()
        z[z > 1.5] = 1.5
        z.masked_fill_(x.sum(1, keepdim=True) > 3, 0.25)
        z[:, -1], z[:, -2] = z[:, -2].clone(), z[:, -1].clone()
        z.t()[3] -= y[:, 3].detach()
        return self.b(torch.roll(z, -1, 1).index_fill_(1, torch.tensor([7]), 0.5))


class Kinks(nn.Module):
    """Values at which a slope jumps: zeros of a head that begins with 0, ties, limits."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 4)
        nn.init.zeros_(self.head.weight), nn.init.zeros_(self.head.bias)
        self.scale = nn.Parameter(torch.zeros(4))
        self.limit = nn.Parameter(torch.zeros(4))

    def forward(self, x, y):
        z = self.head(F.relu6(self.body(x)))
        loss = F.binary_cross_entropy_with_logits(z, y, pos_weight=torch.tensor([3.0, 1.0, 2.0, 1.0]))
        loss = loss + F.margin_ranking_loss(z[:, 0], z[:, 1], 2 * y[:, 0] - 1)
        loss = loss + (torch.asinh(z) * y).mean() + torch.sinh(z[:, 2]).mean()
        loss = loss + torch.clamp(z, min=self.limit).mul(y).mean() + F.hardtanh(z, 0, 1).mean()
        loss = loss + torch.maximum(z[:, 2], z[:, 3]).mean() + torch.amax(z, 1).mean()
        return loss + F.huber_loss(z, 0 * y) + (z + self.scale).abs().mean() + F.softsign(z).mean()


class ProbabilityLoss(nn.Module):
    """A sigmoid that is saturated under nn.BCELoss, whose logarithms torch limits."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(5, 2)

    def forward(self, x):
        return torch.sigmoid(self.net(x) * 3 - torch.tensor([60.0, 0.0]))


class Checkers(nn.Module):
    """Bits of features, integer divisions, sorting and searching of constants."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 6)
        self.register_buffer("edges", torch.linspace(-2, 2, 9))
        self.net = nn.Sequential(nn.Linear(18, 12), nn.Tanhshrink(), nn.Linear(12, 3))

    def forward(self, x, code):
        bucket = torch.bucketize(x[:, 0].detach(), self.edges)
        row = torch.div(code, 4, rounding_mode="floor") * 4 + torch.remainder(code, -4).abs()
        order = x.argsort(dim=1, descending=True)
        ranked = x.gather(1, order)
        last = torch.where(x > 0, x.clamp(min=1e-6).sqrt(), torch.zeros_like(x))
        return self.net(torch.cat([self.table(bucket) * self.table(row % 16), ranked, last], 1))


class WrappedNet(nn.DataParallel):
    """A network inside of nn.DataParallel, as old scripts make it."""

    def __init__(self):
        super().__init__(nn.Sequential(nn.Linear(6, 12), nn.Dropout(0.1), nn.RReLU(), nn.Linear(12, 3)))


class ScriptedParts(nn.Module):
    """A function of TorchScript and a compiled one inside of a model."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(_fused_gelu(self.a(x), torch.ones(8)))


@torch.jit.script
def _fused_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    y = x + bias
    return y * 0.5 * (1.0 + torch.tanh(0.79788456 * y * (1 + 0.044715 * y * y)))


class OwnBatchNorm(nn.Module):
    """A batch norm that its user has written, with running means that training changes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.register_buffer("running_mean", torch.zeros(3))

    def forward(self, x):
        y = self.layer(x)
        if self.training:
            mean = y.mean(0)
            self.running_mean = 0.9 * self.running_mean + 0.1 * mean.detach()
        return y - (mean if self.training else self.running_mean)


class Annealed(nn.Module):
    """A temperature that falls after a thousand calls, kept in an object."""

    class Clock:
        def __init__(self):
            self.calls = 0

        def temperature(self):
            self.calls += 1
            return 1.0 if self.calls < 1000 else 0.5

    def __init__(self):
        super().__init__()
        self.layer, self.clock = nn.Linear(6, 3), self.Clock()

    def forward(self, x):
        return self.layer(x) / self.clock.temperature()


class Outputs(NamedTuple):
    """What ManyHeads returns."""

    scores: Tensor
    rates: Tensor
    mean: Tensor
    variance: Tensor


class ManyHeads(nn.Module):
    """Heads for losses of torch.nn that are rare, and activations that shrink."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanhshrink(), nn.Linear(16, 16),
                                  nn.Softshrink(0.1), nn.Linear(16, 16), nn.Hardshrink(0.05))
        self.scores, self.rates, self.mean = nn.Linear(16, 4), nn.Linear(16, 2), nn.Linear(16, 2)
        self.variance = nn.Sequential(nn.Linear(16, 2), nn.Softplus())

    def forward(self, x):
        h = self.body(x)
        return Outputs(self.scores(h), self.rates(h), self.mean(h), self.variance(h) + 1e-3)


class ManyLosses(nn.Module):
    """A loss that is a module with parts and fixed weights."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({
            "margin": nn.MultiMarginLoss(p=2, margin=0.8, weight=torch.tensor([1.0, 2.0, 1.0, 0.5])),
            "poisson": nn.PoissonNLLLoss(log_input=True, full=True),
            "gaussian": nn.GaussianNLLLoss(full=True, eps=1e-4),
            "soft": nn.SoftMarginLoss(), "labels": nn.MultiLabelSoftMarginLoss(),
            "hinge": nn.HingeEmbeddingLoss(margin=0.7), "huber": nn.HuberLoss(delta=0.3)})
        self.register_buffer("eta", torch.linspace(-0.5, 0.5, len(self.parts)))

    def forward(self, outputs, targets):
        y, counts, values = targets["y"], targets["counts"], targets["values"]
        signs = 2.0 * F.one_hot(y, 4) - 1
        losses = [self.parts["margin"](outputs.scores, y),
                  self.parts["poisson"](outputs.rates, counts.float()),
                  self.parts["gaussian"](outputs.mean, values, outputs.variance),
                  self.parts["soft"](outputs.scores, signs),
                  self.parts["labels"](outputs.scores, F.one_hot(y, 4).float()),
                  self.parts["hinge"](outputs.scores.abs(), signs),
                  self.parts["huber"](outputs.mean, values)]
        total = torch.stack(losses) * torch.exp(-self.eta) + self.eta
        return total.sum()


CASES = {
    "spectral_norm": case(SpectralNet, nn.CrossEntropyLoss, lambda: floats(8), lambda: integers(4)),
    "hyper_network": case(Hyper, nn.MSELoss, lambda: (floats(4), floats(8)), lambda: floats(3)),
    "fake_quantisation": case(Quantised, nn.CrossEntropyLoss, lambda: floats(8), lambda: integers(3)),
    "rare_layers": case(Highway, nn.CrossEntropyLoss, lambda: floats(3, 14, 14), lambda: integers(3)),
    "many_losses": case(FocalClassifier, several_losses, lambda: integers(40, 6), lambda: integers(4)),
    "weight_normed": case(WeightNormed, nn.CrossEntropyLoss, lambda: floats(4, 12),
                          lambda: integers(3)),
    "learned_weights": case(TwoTasks, None, lambda: {"x": floats(6), "labels": integers(4),
                                                     "values": floats()}),
    "modulated_norms": case(Modulated, nn.L1Loss, lambda: (floats(3, 8, 8), floats(5),
                                                           floats(1, 4, 4)),
                            lambda: floats(3, 16, 16)),
    "rare_moves": case(Rare, margins, lambda: floats(3, 8, 8), lambda: integers(3)),
    "orthogonal": case(Orthogonal, nn.MSELoss, lambda: floats(4), lambda: floats(4)),
    "in_place": case(InPlace, nn.CrossEntropyLoss, lambda: floats(6), lambda: integers(3)),
    "frozen_norms": case(FrozenNorms, nn.CrossEntropyLoss, lambda: floats(3, 12, 12),
                         lambda: integers(3)),
    "lightning_style": case(LightningStyle, None, lambda: {"x": floats(6), "y": integers(4)}),
    "mixup": case(Mixup, None, lambda: {"image": floats(3, 8, 8), "label": integers(4)}),
    "shuffled_mixup": case(ShuffledMixup, None, lambda: {"x": floats(6), "y": integers(4)}),
    "ensemble": case(Ensemble, ensemble_loss, lambda: floats(5), lambda: floats()),
    "fake_quant": case(FakeQuant, nn.CrossEntropyLoss, lambda: floats(3, 6, 6), lambda: integers(3)),
    "parametrised": case(Parametrised, nn.CrossEntropyLoss, lambda: floats(6), lambda: integers(2)),
    "norm_options": case(NormOptions, nn.CrossEntropyLoss, lambda: floats(3, 12, 12),
                         lambda: integers(3)),
    "auxiliary_heads": case(Auxiliary, auxiliary_loss, lambda: floats(3, 12, 12), lambda: {
        "label": integers(3), "weight": torch.rand(SAMPLES), "boxes": floats(4)}),
    "in_place_views": case(InPlaceViews, nn.CrossEntropyLoss, lambda: floats(8), lambda: integers(3)),
    "kinks": case(Kinks, None, lambda: {"x": floats(6), "y": integers(2, 4).float()}),
    "probability_loss": case(ProbabilityLoss, nn.BCELoss, lambda: floats(5),
                             lambda: integers(2, 2).float()),
    "checkers": case(Checkers, nn.CrossEntropyLoss, lambda: (floats(6), integers(16)),
                     lambda: integers(3)),
    "data_parallel": case(WrappedNet, nn.CrossEntropyLoss, lambda: floats(6), lambda: integers(3)),
    "scripted_parts": case(ScriptedParts, nn.CrossEntropyLoss, lambda: floats(6),
                           lambda: integers(3)),
    "own_batch_norm": case(OwnBatchNorm, nn.CrossEntropyLoss, lambda: floats(6), lambda: integers(3)),
    "annealed": case(Annealed, nn.CrossEntropyLoss, lambda: floats(6), lambda: integers(3)),
    "many_heads": case(ManyHeads, ManyLosses, lambda: floats(6), lambda: {
        "y": integers(4), "counts": integers(5, 2), "values": floats(2)}),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
