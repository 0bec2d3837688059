"""A fifth list of small models as users write them, for scripts/zoo.

They were chosen after the first four lists had been captured, for what these have not: wrappers and
batches of popular trainers, options of torch.nn that few models use, and values at which a slope
jumps.
"""
import math
from collections import namedtuple
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, stack_module_state
from torch.nn.utils import parametrizations, parametrize
from zoo_case import SAMPLES
from zoo_users_more import case, entries_of, floats, integers


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


@dataclass
class TokenOutput:
    """What TrainerStyle returns."""

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    hidden: tuple = ()


class TrainerStyle(nn.Module):
    """Keyword arguments of a tokenizer, and a dataclass of outputs, as the trainer of transformers
    wants them."""

    def __init__(self, words=30, d=16, labels=5):
        super().__init__()
        self.embeddings = nn.ModuleDict({"word": nn.Embedding(words, d, padding_idx=0),
                                         "place": nn.Embedding(12, d), "kind": nn.Embedding(2, d)})
        self.norm = nn.LayerNorm(d, eps=1e-12)
        layer = nn.TransformerEncoderLayer(d, 2, 32, 0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classifier = nn.Linear(d, labels)
        self.labels = labels

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        places = torch.arange(input_ids.size(1), device=input_ids.device)[None]
        x = self.embeddings["word"](input_ids) + self.embeddings["place"](places)
        if token_type_ids is not None:
            x = x + self.embeddings["kind"](token_type_ids)
        x = self.norm(x)
        x = self.encoder(x, src_key_padding_mask=~attention_mask.bool())
        logits = self.classifier(x)
        loss = None
        if labels is not None:
            active = labels.masked_fill(attention_mask == 0, -100)
            loss = nn.CrossEntropyLoss()(logits.view(-1, self.labels), active.view(-1))
        return TokenOutput(loss=loss, logits=logits, hidden=(x,))


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


class MaskedPatches(nn.Module):
    """A masked autoencoder: the tokens that are seen are drawn for every sample, and put back."""

    def __init__(self, patches=9, d=8, keep=3):
        super().__init__()
        self.keep = keep
        self.embed, self.decode = nn.Linear(4, d), nn.Linear(d, 4)
        self.encoder = nn.TransformerEncoderLayer(d, 2, 16, 0.0, batch_first=True, norm_first=True)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, d))
        self.place = nn.Parameter(torch.randn(1, patches, d) * 0.02)

    def forward(self, x):
        b, n, _ = x.shape
        tokens = self.embed(x) + self.place
        d = tokens.shape[-1]
        shuffle = torch.argsort(torch.rand(b, n), dim=1)
        restore = torch.argsort(shuffle, dim=1)
        kept = shuffle[:, : self.keep].unsqueeze(-1).repeat(1, 1, d)
        seen = self.encoder(torch.gather(tokens, dim=1, index=kept))
        every = torch.cat([seen, self.mask_token.repeat(b, n - self.keep, 1)], 1)
        every = torch.gather(every, 1, restore.unsqueeze(-1).repeat(1, 1, d))
        mask = torch.ones(b, n)
        mask[:, : self.keep] = 0
        mask = torch.gather(mask, 1, restore)
        loss = (self.decode(every + self.place) - x).pow(2).mean(-1)
        return (loss * mask).sum() / mask.sum()


class ClipTowers(nn.Module):
    """Two towers with a learned temperature that is limited, and both directions of the loss."""

    def __init__(self, d=8):
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.QuickGELU() if hasattr(
            nn, "QuickGELU") else nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, d))
        self.text = nn.EmbeddingBag(20, d, mode="mean")
        self.logit_scale = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))

    def forward(self, pixels, tokens):
        image = F.normalize(self.image(pixels), dim=-1)
        text = self.text(tokens)
        text = text / text.norm(dim=-1, keepdim=True)
        scale = self.logit_scale.clamp(max=math.log(100)).exp()
        logits = scale * image @ text.t()
        labels = torch.arange(logits.shape[0], device=logits.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


class BatchHard(nn.Module):
    """A triplet loss with the hardest positive and negative of the mini-batch."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(16, 4))

    def forward(self, x, y):
        z = self.net(x)
        square = (z * z).sum(1)
        distance = square[None] - 2 * z @ z.t() + square[:, None]
        distance = distance.clamp(min=0)
        zero = (distance == 0).float()
        distance = (1 - zero) * torch.sqrt(distance + zero * 1e-16)
        same = y[None] == y[:, None]
        eye = torch.eye(len(y), dtype=torch.bool)
        positive = (distance * (same & ~eye).float()).max(1)[0]
        far = distance.max(1, keepdim=True)[0]
        negative = (distance + far * same.float()).min(1)[0]
        return F.relu(positive - negative + 0.2).mean()


class PackedCtc(nn.Module):
    """A model of speech whose targets have lengths, with the loss of each sample weighted."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3, padding=1)
        self.rnn = nn.GRU(8, 8, batch_first=True, bidirectional=True)
        self.out = nn.Linear(16, 6)

    def forward(self, feats, targets, lengths):
        x = F.hardtanh(self.conv(feats.transpose(1, 2)), 0, 20).transpose(1, 2)
        x, _ = self.rnn(x)
        logp = self.out(x).log_softmax(-1).transpose(0, 1)
        frames = torch.full((feats.size(0),), logp.size(0), dtype=torch.long)
        loss = F.ctc_loss(logp, targets, frames, lengths, reduction="none", zero_infinity=True)
        return (loss / lengths.clamp(min=1)).mean()


class TransformerXl(nn.Module):
    """Attention with the relative places of Transformer-XL: two biases, and a shift by padding."""

    def __init__(self, words=20, d=8, h=2):
        super().__init__()
        self.h, self.dk = h, d // h
        self.word = nn.Embedding(words, d)
        self.qkv, self.r = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.r_w_bias, self.r_r_bias = (nn.Parameter(torch.zeros(h, d // h)) for _ in range(2))
        self.o, self.norm = nn.Linear(d, d, bias=False), nn.LayerNorm(d)
        self.register_buffer("inv_freq", 1 / (10000 ** (torch.arange(0.0, d, 2.0) / d)))

    def shift(self, x):
        pad = torch.zeros((x.size(0), 1, *x.size()[2:]))
        padded = torch.cat([pad, x], dim=1).view(x.size(1) + 1, x.size(0), *x.size()[2:])
        return padded[1:].view_as(x)

    def forward(self, ids):
        x = self.word(ids).transpose(0, 1)
        t, b, d = x.shape
        places = torch.arange(t - 1, -1, -1.0)
        angle = torch.outer(places, self.inv_freq)
        r = self.r(torch.cat([angle.sin(), angle.cos()], -1)).view(t, self.h, self.dk)
        q, k, v = (y.view(t, b, self.h, self.dk) for y in self.qkv(x).chunk(3, -1))
        ac = torch.einsum("ibnd,jbnd->ijbn", q + self.r_w_bias, k)
        bd = self.shift(torch.einsum("ibnd,jnd->ijbn", q + self.r_r_bias, r))
        score = (ac + bd) * self.dk ** -0.5
        mask = torch.triu(torch.ones(t, t, dtype=torch.uint8), diagonal=1)[:, :, None, None]
        score = score.float().masked_fill(mask.bool(), -float("inf")).type_as(score)
        y = torch.einsum("ijbn,jbnd->ibnd", F.softmax(score, dim=1), v).contiguous().view(t, b, d)
        x = self.norm(x + self.o(y))
        return (x @ self.word.weight.t()).permute(1, 2, 0)


class StateSpaceFft(nn.Module):
    """S4D: a kernel of complex exponentials, and a convolution by FFT."""

    def __init__(self, h=4, n=4):
        super().__init__()
        self.log_dt = nn.Parameter(torch.rand(h) * 2 - 4)
        self.c = nn.Parameter(torch.view_as_real(torch.randn(h, n, dtype=torch.cfloat)))
        self.log_a_real = nn.Parameter(torch.log(0.5 * torch.ones(h, n)))
        self.a_imag = nn.Parameter(math.pi * torch.arange(n).float().repeat(h, 1))
        self.d = nn.Parameter(torch.randn(h))
        self.encode, self.mix, self.decode = nn.Linear(2, h), nn.Conv1d(h, 2 * h, 1), nn.Linear(h, 3)

    def kernel(self, length):
        dt, c = torch.exp(self.log_dt), torch.view_as_complex(self.c)
        a = -torch.exp(self.log_a_real) + 1j * self.a_imag
        dta = a * dt.unsqueeze(-1)
        k = dta.unsqueeze(-1) * torch.arange(length)
        c = c * (torch.exp(dta) - 1.0) / a
        return 2 * torch.einsum("hn,hnl->hl", c, torch.exp(k)).real

    def forward(self, x):
        u = self.encode(x).transpose(-1, -2)
        length = u.size(-1)
        k_f = torch.fft.rfft(self.kernel(length), n=2 * length)
        u_f = torch.fft.rfft(u, n=2 * length)
        y = torch.fft.irfft(u_f * k_f, n=2 * length)[..., :length]
        y = F.glu(self.mix(F.gelu(y + u * self.d.unsqueeze(-1))), dim=-2)
        return self.decode(y.transpose(-1, -2).mean(dim=1))


class HyperLora(nn.Module):
    """Adapters by hand: a frozen layer, two small ones with a scale, merged by functional_call."""

    def __init__(self, d=8, rank=2):
        super().__init__()
        self.base = nn.Linear(d, d).requires_grad_(False)
        self.a = nn.Parameter(torch.empty(rank, d))
        self.b = nn.Parameter(torch.zeros(d, rank))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))
        self.scaling, self.norm, self.head = 16 / rank, nn.RMSNorm(d), nn.Linear(d, 3)

    def forward(self, x):
        weight = self.base.weight + self.scaling * self.b @ self.a
        y = functional_call(self.base, {"weight": weight, "bias": self.base.bias}, (x,))
        return self.head(self.norm(F.silu(y)) + x)


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


class SplineFlow(nn.Module):
    """A flow of rational-quadratic splines, whose bins are found by comparisons."""

    def __init__(self, bins=4, bound=3.0):
        super().__init__()
        self.bins, self.bound = bins, bound
        self.net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 3 * bins - 1))
        self.lu = nn.Parameter(torch.eye(2) + 0.1 * torch.randn(2, 2))

    def spline(self, x, params):
        w, h, d = params.split([self.bins, self.bins, self.bins - 1], dim=-1)
        def knots(p):
            p = 1e-3 + (1 - 1e-3 * self.bins) * F.softmax(p, dim=-1)
            edges = F.pad(torch.cumsum(p, dim=-1), pad=(1, 0), mode="constant", value=0.0)
            edges = 2 * self.bound * edges - self.bound
            edges[..., 0], edges[..., -1] = -self.bound, self.bound
            return edges, edges[..., 1:] - edges[..., :-1]
        (cw, w), (ch, h) = knots(w), knots(h)
        d = F.pad(1e-3 + F.softplus(d), (1, 1), value=1.0)
        inside = (x >= -self.bound) & (x <= self.bound)
        y = x.clamp(-self.bound, self.bound)
        bin_ = (y[..., None] >= cw[..., :-1]).sum(-1, keepdim=True) - 1
        cw, w, ch, h = (t.gather(-1, bin_)[..., 0] for t in (cw, w, ch, h))
        d0, d1 = d.gather(-1, bin_)[..., 0], d[..., 1:].gather(-1, bin_)[..., 0]
        delta, theta = h / w, (y - cw) / w
        mixed = theta * (1 - theta)
        denominator = delta + (d0 + d1 - 2 * delta) * mixed
        out = ch + h * (delta * theta.pow(2) + d0 * mixed) / denominator
        slope = delta.pow(2) * (d1 * theta.pow(2) + 2 * delta * mixed + d0 * (1 - theta).pow(2))
        logdet = torch.log(slope) - 2 * torch.log(denominator)
        return torch.where(inside, out, x), torch.where(inside, logdet, torch.zeros_like(logdet))

    def forward(self, x):
        lower = torch.tril(self.lu, -1) + torch.eye(2)
        upper = torch.triu(self.lu)
        x = x @ (lower @ upper).t()
        total = torch.log(torch.abs(torch.diagonal(self.lu))).sum().expand(len(x))
        for i in range(2):
            known, other = x[:, i], x[:, 1 - i]
            other, logdet = self.spline(other, self.net(known[:, None]))
            x = torch.stack([known, other], 1) if i == 0 else torch.stack([other, known], 1)
            total = total + logdet
        prior = torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(1)
        return -(prior + total).mean()


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


class TiedAutoencoder(nn.Module):
    """A decoder that uses the encoder's weight transposed, with a sparse code and its penalty."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(12, 8) * 0.2)
        self.pre, self.bias = nn.Parameter(torch.zeros(8)), nn.Parameter(torch.zeros(12))

    def forward(self, x):
        code = F.linear(x - self.pre, self.weight, self.bias)
        best = torch.topk(code, 4, dim=-1)
        sparse = torch.zeros_like(code).scatter_(-1, best.indices, F.relu(best.values))
        rebuilt = sparse @ F.normalize(self.weight, dim=-1) + self.pre
        return F.mse_loss(rebuilt, x) + 1e-2 * sparse.abs().sum(-1).mean()


class SageMax(nn.Module):
    """GraphSAGE on batches of graphs: edges belong to samples, messages by scatter_reduce."""

    def __init__(self, nodes=6):
        super().__init__()
        self.nodes = nodes
        self.own, self.other = nn.Linear(4, 8), nn.Linear(4, 8, bias=False)
        self.out = nn.Linear(16, 3)

    def forward(self, x, edges):
        b, n, f = x.shape
        offset = torch.arange(b)[:, None] * n
        src, dst = (edges[..., 0] + offset).reshape(-1), (edges[..., 1] + offset).reshape(-1)
        flat = x.reshape(b * n, f)
        index = dst[:, None].expand(-1, f)
        zero = flat.new_zeros(b * n, f)
        best = zero.scatter_reduce(0, index, flat[src], "amax", include_self=False)
        mean = zero.scatter_reduce(0, index, flat[src], "mean", include_self=False)
        h = F.elu(self.own(flat) + self.other(best - mean)).view(b, n, -1)
        return self.out(torch.cat([h.amax(1), h.mean(1)], -1))


class DeformableConv(nn.Module):
    """Offsets of a convolution, sampled by grid_sample, with a mask for each."""

    def __init__(self, k=3):
        super().__init__()
        self.k = k
        self.offset = nn.Conv2d(4, 2 * k, 3, padding=1)
        self.mask = nn.Conv2d(4, k, 3, padding=1)
        nn.init.normal_(self.offset.weight, std=0.01)
        nn.init.uniform_(self.offset.bias, -1.3, 1.3)
        self.stem, self.mix = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4 * k, 6, 1)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = F.leaky_relu(self.stem(x), 0.1, inplace=True)
        b, c, h, w = x.shape
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        base = torch.stack([xs, ys], -1).float()
        offset = self.offset(x).view(b, self.k, 2, h, w).permute(0, 1, 3, 4, 2)
        mask = torch.sigmoid(self.mask(x))
        taps = []
        for i in range(self.k):
            grid = base + offset[:, i]
            grid = 2.0 * grid / torch.tensor([w - 1.0, h - 1.0]) - 1.0
            taps.append(F.grid_sample(x, grid, padding_mode="zeros", align_corners=True)
                        * mask[:, i: i + 1])
        return self.head(F.gelu(self.mix(torch.cat(taps, 1))).mean((-2, -1)))


class DenoisingUNet(nn.Module):
    """A U-Net with an embedding of time, attention by heads, and the losses weighted by SNR."""

    class Res(nn.Module):
        def __init__(self, n, m, t):
            super().__init__()
            self.a = nn.Sequential(nn.GroupNorm(2, n), nn.SiLU(), nn.Conv2d(n, m, 3, padding=1))
            self.t = nn.Sequential(nn.SiLU(), nn.Linear(t, 2 * m))
            self.n, self.b = nn.GroupNorm(2, m), nn.Conv2d(m, m, 3, padding=1)
            self.skip = nn.Conv2d(n, m, 1) if n != m else nn.Identity()

        def forward(self, x, emb):
            scale, shift = self.t(emb)[..., None, None].chunk(2, 1)
            h = self.n(self.a(x)) * (1 + scale) + shift
            return self.skip(x) + self.b(F.silu(h))

    def __init__(self, d=8):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, 2 * d))
        self.inp = nn.Conv2d(1, d, 3, padding=1)
        self.res = nn.ModuleList([self.Res(d, d, 2 * d), self.Res(d, 2 * d, 2 * d),
                                  self.Res(3 * d, d, 2 * d)])
        self.attn, self.norm = nn.MultiheadAttention(2 * d, 2, batch_first=True), nn.LayerNorm(2 * d)
        self.down, self.out = nn.Conv2d(d, d, 3, 2, 1), nn.Conv2d(d, 1, 3, padding=1)
        self.register_buffer("bars", torch.cos(torch.linspace(0.01, 1.5, 20)) ** 2)
        self.d = d

    def forward(self, x0, noise, t):
        bar = self.bars[t][:, None, None, None]
        x = bar.sqrt() * x0 + (1 - bar).sqrt() * noise
        freqs = torch.exp(-math.log(10000) * torch.arange(self.d // 2) / (self.d // 2))
        args = t[:, None] * freqs[None]
        emb = self.time(torch.cat([args.cos(), args.sin()], -1))
        h0 = self.res[0](self.inp(x), emb)
        h = self.res[1](self.down(h0), emb)
        seq = h.flatten(2).transpose(1, 2)
        seq = seq + self.attn(*[self.norm(seq)] * 3, need_weights=False)[0]
        h = seq.transpose(1, 2).reshape_as(h)
        h = F.interpolate(h, scale_factor=2.0, mode="nearest")
        pred = self.out(self.res[2](torch.cat([h, h0], 1), emb))
        snr = self.bars / (1 - self.bars)
        weight = torch.stack([snr, 5 * torch.ones_like(snr)], 1).min(1)[0] / snr
        return ((pred - noise) ** 2).mean(dim=list(range(1, 4))).mul(weight[t]).mean()


class DropPathNet(nn.Module):
    """ConvNeXt blocks with layer scale and paths that are dropped, channels last."""

    class Block(nn.Module):
        def __init__(self, d, drop):
            super().__init__()
            self.dw, self.norm = nn.Conv2d(d, d, 5, padding=2, groups=d), nn.LayerNorm(d, eps=1e-6)
            self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
            self.grn = nn.Parameter(torch.zeros(2, 2 * d))
            self.gamma, self.drop = nn.Parameter(1e-2 * torch.ones(d)), drop

        def forward(self, x):
            y = self.norm(self.dw(x).permute(0, 2, 3, 1))
            y = F.gelu(self.up(y))
            g = torch.norm(y, p=2, dim=(1, 2), keepdim=True)
            y = self.grn[0] * (y * (g / (g.mean(dim=-1, keepdim=True) + 1e-6))) + self.grn[1] + y
            y = (self.gamma * self.down(y)).permute(0, 3, 1, 2)
            if self.drop and self.training:
                keep = 1 - self.drop
                y = y / keep * torch.floor(keep + torch.rand((x.shape[0], 1, 1, 1)))
            return x + y

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 4)
        self.blocks = nn.Sequential(*(self.Block(8, p.item()) for p in torch.linspace(0, 0.3, 3)))
        self.head = nn.Linear(8, 4)
        self.to(memory_format=torch.channels_last)

    def forward(self, x):
        x = self.blocks(self.stem(x.contiguous(memory_format=torch.channels_last)))
        return self.head(x.mean([-2, -1]))


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


class StackedLstm(nn.Module):
    """Two bidirectional LSTM layers whose first state is trained, pooled where words are."""

    def __init__(self, d=6):
        super().__init__()
        self.embed = nn.Embedding(20, d, padding_idx=0, scale_grad_by_freq=False)
        self.h0 = nn.Parameter(torch.zeros(4, 1, d))
        self.c0 = nn.Parameter(torch.zeros(4, 1, d))
        self.lstm = nn.LSTM(d, d, num_layers=2, bidirectional=True, dropout=0.2, batch_first=True)
        self.cell = nn.GRUCell(2 * d, d)
        self.out = nn.Linear(d + 2 * d, 3)

    def forward(self, ids):
        b = ids.size(0)
        mask = ids.ne(0).unsqueeze(-1)
        states = self.h0.repeat(1, b, 1), self.c0.repeat(1, b, 1)
        y, (h, c) = self.lstm(self.embed(ids), states)
        state = h[-1]
        for t in range(y.size(1)):
            state = torch.where(mask[:, t], self.cell(y[:, t], state), state)
        pooled = y.masked_fill(~mask, -1e9).max(dim=1).values.clamp(min=-1.0)
        return self.out(torch.cat([state, pooled], -1))


class AttentionOptions(nn.Module):
    """nn.MultiheadAttention with added keys, masks for each head, and weights that are used."""

    def __init__(self, d=8):
        super().__init__()
        self.first = nn.MultiheadAttention(d, 2, add_bias_kv=True, batch_first=True)
        self.second = nn.MultiheadAttention(d, 2, add_zero_attn=True, kdim=4, vdim=6)
        self.k, self.v, self.head = nn.Linear(d, 4), nn.Linear(d, 6), nn.Linear(d, 3)

    def forward(self, x, lengths):
        padded = torch.arange(x.size(1))[None] >= lengths[:, None]
        y, weights = self.first(x, x, x, key_padding_mask=padded, average_attn_weights=False)
        x = (x + y).transpose(0, 1)
        distance = (torch.arange(x.size(0))[None] - torch.arange(x.size(0))[:, None]).abs().float()
        z, mean = self.second(x, self.k(x), self.v(x), attn_mask=-0.5 * distance)
        entropy = -(weights * (weights + 1e-9).log()).sum(-1).mean((1, 2))
        keep = (~padded).float().t().unsqueeze(-1)
        pooled = ((x + z) * keep).sum(0) / keep.sum(0)
        return self.head(pooled), 0.1 * entropy + mean.diagonal(dim1=1, dim2=2).mean(1)


def attention_loss(outputs, labels):
    """A cross-entropy, and what the second output adds for each sample."""
    logits, more = outputs
    return (F.cross_entropy(logits, labels, reduction="none") + more).mean()


class BagsOfWords(nn.Module):
    """Bags with weights for each word, a bilinear product, and a lazy layer."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(15, 6, mode="sum", padding_idx=0)
        self.best = nn.EmbeddingBag(15, 6, mode="max")
        self.user = nn.Embedding(9, 6)
        self.pair = nn.Bilinear(6, 6, 4)
        self.wide = nn.LazyLinear(4)
        self.wide(torch.zeros(1, 12))

    def forward(self, words, weights, user):
        a = self.bag(words, per_sample_weights=weights)
        u = self.user(user)
        return self.pair(a, u) + self.wide(torch.cat([self.best(words), u], -1))


class AdaptiveWords(nn.Module):
    """A language model whose output layer is AdaptiveLogSoftmaxWithLoss."""

    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(30, 8), nn.RNN(8, 8, nonlinearity="tanh", batch_first=True)
        self.out = nn.AdaptiveLogSoftmaxWithLoss(8, 30, cutoffs=[5, 15], div_value=2.0)

    def forward(self, ids, targets):
        y, _ = self.rnn(self.embed(ids))
        logp = self.out.log_prob(y.reshape(-1, 8))
        return F.nll_loss(logp, targets.reshape(-1))


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


class LipschitzCritic(nn.Module):
    """A critic with the penalty of WGAN-GP, whose features are instance-normalised."""

    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Conv1d(2, 8, 3, padding=1), nn.LeakyReLU(0.2),
                                    nn.Conv1d(8, 8, 3, 2, 1), nn.InstanceNorm1d(8, affine=True),
                                    nn.Softplus(), nn.Flatten(), nn.Linear(32, 1))

    def forward(self, real, fake):
        eps = torch.rand(real.size(0), 1, 1)
        mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
        score = self.critic(mixed)
        grad = torch.autograd.grad(score, mixed, torch.ones_like(score), create_graph=True,
                                   retain_graph=True)[0]
        penalty = ((grad.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
        return self.critic(fake).mean() - self.critic(real).mean() + 10 * penalty


class RawBytes(nn.Module):
    """Pixels of 8 bits, normalised in the model, with arithmetic that wraps."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.48, 0.45, 0.4]).view(3, 1, 1), persistent=False)
        self.net = nn.Sequential(nn.Conv2d(6, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))

    def forward(self, image):
        x = image.float().div(255).sub_(self.mean).div_(0.22)
        shifted = (image + 100) * 3  # uint8, which wraps
        return self.net(torch.cat([x, (shifted - image).float() / 255 - 0.5], 1))


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


class MomentumQueue(nn.Module):
    """MoCo: an average of weights, and a queue of keys that is cut from queue and mini-batch, whose
    number a captured model cannot have."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(6, 4), nn.Linear(6, 4)
        self.k.load_state_dict(self.q.state_dict())
        self.k.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(4, 16), dim=0))

    @torch.no_grad()
    def update(self, keys):
        for p, q in zip(self.k.parameters(), self.q.parameters()):
            p.data = p.data * 0.999 + q.data * 0.001
        self.queue = torch.cat([keys.t(), self.queue], 1)[:, :16]

    def forward(self, a, b):
        q = F.normalize(self.q(a), dim=1)
        k = F.normalize(self.k(b), dim=1).detach()
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone().detach()], 1)
        self.update(k)
        return F.cross_entropy(logits / 0.2, torch.zeros(len(a), dtype=torch.long))


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


CASES = {
    "lightning_style": case(LightningStyle, None, lambda: {"x": floats(6), "y": integers(4)}),
    "trainer_style": case(TrainerStyle, None, lambda: {
        "input_ids": 1 + integers(29, 7), "token_type_ids": integers(2, 7),
        "attention_mask": torch.cat([torch.ones(SAMPLES, 4).long(), integers(2, 3)], 1),
        "labels": integers(5, 7)}),
    "mixup": case(Mixup, None, lambda: {"image": floats(3, 8, 8), "label": integers(4)}),
    "shuffled_mixup": case(ShuffledMixup, None, lambda: {"x": floats(6), "y": integers(4)}),
    "masked_patches": case(MaskedPatches, None, lambda: floats(9, 4)),
    "clip_towers": case(ClipTowers, None, lambda: (floats(3, 8, 8), integers(20, 5))),
    "batch_hard": case(BatchHard, None, lambda: {"x": floats(6), "y": integers(3)}),
    "packed_ctc": case(PackedCtc, None, lambda: {
        "feats": floats(12, 4), "targets": 1 + integers(5, 4), "lengths": 1 + integers(4)}),
    "transformer_xl": case(TransformerXl, nn.CrossEntropyLoss, lambda: integers(20, 7),
                           lambda: integers(20, 7)),
    "state_space_fft": case(StateSpaceFft, nn.CrossEntropyLoss, lambda: floats(10, 2),
                            lambda: integers(3)),
    "hyper_lora": case(HyperLora, nn.CrossEntropyLoss, lambda: floats(8), lambda: integers(3)),
    "ensemble": case(Ensemble, ensemble_loss, lambda: floats(5), lambda: floats()),
    "spline_flow": case(SplineFlow, None, lambda: floats(2)),
    "fake_quant": case(FakeQuant, nn.CrossEntropyLoss, lambda: floats(3, 6, 6), lambda: integers(3)),
    "parametrised": case(Parametrised, nn.CrossEntropyLoss, lambda: floats(6), lambda: integers(2)),
    "tied_autoencoder": case(TiedAutoencoder, None, lambda: floats(8)),
    "sage_max": case(SageMax, nn.CrossEntropyLoss, lambda: (floats(6, 4), integers(6, 9, 2)),
                     lambda: integers(3)),
    "deformable_conv": case(DeformableConv, nn.CrossEntropyLoss, lambda: floats(1, 7, 7),
                            lambda: integers(3)),
    "denoising_unet": case(DenoisingUNet, None, lambda: (floats(1, 8, 8), floats(1, 8, 8),
                                                         integers(20))),
    "drop_path_net": case(DropPathNet, nn.CrossEntropyLoss, lambda: floats(3, 16, 16),
                          lambda: integers(4)),
    "norm_options": case(NormOptions, nn.CrossEntropyLoss, lambda: floats(3, 12, 12),
                         lambda: integers(3)),
    "stacked_lstm": case(StackedLstm, nn.CrossEntropyLoss, lambda: integers(20, 6),
                         lambda: integers(3)),
    "attention_options": case(AttentionOptions, attention_loss,
                              lambda: (floats(5, 8), 1 + integers(5)), lambda: integers(3)),
    "bags_of_words": case(BagsOfWords, nn.CrossEntropyLoss,
                          lambda: (integers(15, 5), torch.rand(SAMPLES, 5), integers(9)),
                          lambda: integers(4)),
    "adaptive_words": case(AdaptiveWords, None, lambda: {"ids": integers(30, 5),
                                                         "targets": integers(30, 5)}),
    "auxiliary_heads": case(Auxiliary, auxiliary_loss, lambda: floats(3, 12, 12), lambda: {
        "label": integers(3), "weight": torch.rand(SAMPLES), "boxes": floats(4)}),
    "lipschitz_critic": case(LipschitzCritic, None, lambda: (floats(2, 8), floats(2, 8))),
    "raw_bytes": case(RawBytes, nn.CrossEntropyLoss,
                      lambda: torch.randint(0, 256, (SAMPLES, 3, 8, 8), dtype=torch.uint8),
                      lambda: integers(3)),
    "in_place_views": case(InPlaceViews, nn.CrossEntropyLoss, lambda: floats(8), lambda: integers(3)),
    "kinks": case(Kinks, None, lambda: {"x": floats(6), "y": integers(2, 4).float()}),
    "probability_loss": case(ProbabilityLoss, nn.BCELoss, lambda: floats(5),
                             lambda: integers(2, 2).float()),
    "checkers": case(Checkers, nn.CrossEntropyLoss, lambda: (floats(6), integers(16)),
                     lambda: integers(3)),
    "data_parallel": case(WrappedNet, nn.CrossEntropyLoss, lambda: floats(6), lambda: integers(3)),
    "scripted_parts": case(ScriptedParts, nn.CrossEntropyLoss, lambda: floats(6),
                           lambda: integers(3)),
    "momentum_queue": case(MomentumQueue, None, lambda: (floats(6), floats(6))),
    "own_batch_norm": case(OwnBatchNorm, nn.CrossEntropyLoss, lambda: floats(6), lambda: integers(3)),
    "annealed": case(Annealed, nn.CrossEntropyLoss, lambda: floats(6), lambda: integers(3)),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
