"""A third list of small models as users write them, for scripts/zoo.

They were chosen after the first two lists had been captured, to find what they do not show.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal, kl_divergence
from torch.nn.utils import parametrizations
from zoo_users_more import case, entries_of, floats, integers


class AttentionUNet(nn.Module):
    """Segments images; gates choose what the skips carry."""

    class Gate(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.skip, self.deep = nn.Conv2d(channels, 4, 1), nn.Conv2d(2 * channels, 4, 1)
            self.mask = nn.Sequential(nn.ReLU(), nn.Conv2d(4, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())

        def forward(self, skip, deep):
            deep = F.interpolate(deep, size=skip.shape[2:], mode="bilinear", align_corners=True)
            return skip * self.mask(self.skip(skip) + self.deep(deep))

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU())
        self.second = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU())
        self.gate, self.up = self.Gate(8), nn.ConvTranspose2d(16, 8, 2, 2)
        self.last = nn.Conv2d(16, 1, 1)

    def forward(self, x):
        skip = self.first(x)
        deep = self.second(F.avg_pool2d(skip, 2))
        return self.last(torch.cat([self.up(deep), self.gate(skip, deep)], 1)).squeeze(1)


def tversky_loss(logits, target):
    """An overlap that counts missed pixels more, plus a focal loss."""
    probs, target = logits.sigmoid().flatten(1), target.float().flatten(1)
    hit = (probs * target).sum(1)
    missed, wrong = ((1 - probs) * target).sum(1), (probs * (1 - target)).sum(1)
    overlap = 1 - (hit + 1) / (hit + 0.3 * wrong + 0.7 * missed + 1)
    bce = F.binary_cross_entropy_with_logits(logits.flatten(1), target, reduction="none")
    focal = (1 - torch.exp(-bce)) ** 2 * bce
    return overlap.mean() + focal.mean()


class Mixer(nn.Module):
    """MLPs over patches and over channels."""

    class Block(nn.Module):
        def __init__(self, patches, width):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.over_patches = nn.Sequential(nn.Linear(patches, 8), nn.GELU(), nn.Linear(8, patches))
            self.over_channels = nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width))

        def forward(self, x):
            x = x + self.over_patches(self.norms[0](x).mT).mT
            return x + self.over_channels(self.norms[1](x))

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 12, 4, stride=4)
        self.blocks = nn.Sequential(*[self.Block(16, 12) for _ in range(2)])
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.blocks(self.patches(x).flatten(2).mT).mean(1))


class ConvLstm(nn.Module):
    """Predicts the next frame of a film."""

    def __init__(self, width=6):
        super().__init__()
        self.width = width
        self.gates = nn.Conv2d(1 + width, 4 * width, 3, padding=1)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, frames):
        n, steps, _, height, width = frames.shape
        h = frames.new_zeros(n, self.width, height, width)
        c = torch.zeros_like(h)
        for t in range(steps):
            i, f, o, g = torch.split(self.gates(torch.cat((frames[:, t], h), 1)), self.width, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.out(h)


class NormalisedGraph(nn.Module):
    """A GCN with D^-1/2 (A + I) D^-1/2, and an attention over nodes that exist."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(5, 8), nn.Linear(8, 8)])
        self.score, self.head = nn.Linear(8, 1), nn.Linear(8, 3)

    def forward(self, nodes, adjacency, exists):
        adjacency = adjacency + torch.eye(adjacency.size(-1), device=adjacency.device)
        scale = torch.diag_embed(adjacency.sum(-1).pow(-0.5))
        adjacency = scale @ adjacency @ scale
        for layer in self.layers:
            nodes = F.leaky_relu(adjacency @ layer(nodes), 0.2)
        score = self.score(nodes).masked_fill(~exists.unsqueeze(-1), float("-inf"))
        return self.head((score.softmax(1) * nodes).sum(1))


class EdgeList(nn.Module):
    """Message passing over lists of edges, with scatter_add."""

    def __init__(self):
        super().__init__()
        self.message, self.update = nn.Linear(9, 8), nn.GRUCell(8, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, nodes, edges, weights):
        source, target = edges.unbind(-1)
        def pick(index):
            return nodes.gather(1, index.unsqueeze(-1).expand(-1, -1, nodes.size(-1)))
        for _ in range(2):
            sent = self.message(torch.cat([pick(source), pick(target), weights.unsqueeze(-1)], -1))
            total = torch.zeros(*nodes.shape[:2], 8).scatter_add(
                1, target.unsqueeze(-1).expand_as(sent), sent.tanh())
            nodes = self.update(total.flatten(0, 1), nodes.flatten(0, 1)).view_as(nodes)
        return self.head(nodes.amax(1))


class ConditionalVae(nn.Module):
    """A VAE that is told the class, with distributions of torch."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(16 + 4, 12), nn.Linear(6 + 4, 16)

    def forward(self, x, labels):
        classes = F.one_hot(labels, 4).to(x.dtype)
        mean, scale = self.encoder(torch.cat([x, classes], -1)).chunk(2, -1)
        posterior = Normal(mean, F.softplus(scale) + 1e-3)
        decoded = self.decoder(torch.cat([posterior.rsample(), classes], -1))
        prior = Normal(torch.zeros_like(mean), torch.ones_like(mean))
        divergence = kl_divergence(posterior, prior).sum(-1)
        return (F.mse_loss(decoded, x, reduction="none").sum(-1) + 0.5 * divergence).mean()


class PlanarFlow(nn.Module):
    """A normalizing flow of planar layers and a masked autoregressive one."""

    def __init__(self):
        super().__init__()
        self.u, self.w = (nn.ParameterList(nn.Parameter(0.1 * torch.randn(4)) for _ in range(3))
                          for _ in range(2))
        self.b = nn.Parameter(torch.zeros(3))
        self.net = nn.Linear(4, 8)
        self.register_buffer("mask", torch.ones(4, 4).tril(-1).repeat(2, 1))

    def forward(self, x):
        total = x.new_zeros(x.shape[0])
        for i, (u, w) in enumerate(zip(self.u, self.w)):
            wu = w @ u
            u = u + (F.softplus(wu) - 1 - wu) * w / w.square().sum()
            inner = torch.tanh(x @ w + self.b[i])
            total = total + torch.log((1 + torch.outer(1 - inner ** 2, w) @ u).abs())
            x = x + inner[:, None] * u
        shift, log_scale = F.linear(x, self.net.weight * self.mask, self.net.bias).chunk(2, 1)
        z = (x - shift) * torch.exp(-log_scale.tanh())
        total = total - log_scale.tanh().sum(1)
        return -(Normal(0.0, 1.0).log_prob(z).sum(1) + total).mean()


class MixtureOfNormals(nn.Module):
    """A mixture density network with distributions of torch."""

    def __init__(self, parts=3, width=2):
        super().__init__()
        self.parts, self.width = parts, width
        self.net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, parts * (1 + 2 * width)))

    def forward(self, x, y):
        logits, means, scales = self.net(x).split(
            [self.parts, self.parts * self.width, self.parts * self.width], -1)
        shape = (-1, self.parts, self.width)
        parts = Independent(Normal(means.view(shape), scales.view(shape).exp()), 1)
        return -MixtureSameFamily(Categorical(logits=logits), parts).log_prob(y).mean()


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


class Bags(nn.Module):
    """Sums of embeddings with a weight for each word, and a padding word."""

    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(30, 8, mode="sum", padding_idx=0)
        self.tags = nn.EmbeddingBag(10, 4, mode="max")
        self.head = nn.Linear(12, 3)

    def forward(self, words, weights, tags):
        return self.head(torch.cat([self.words(words, per_sample_weights=weights),
                                    self.tags(tags)], 1))


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


class Spectrogram(nn.Module):
    """Classifies sound by its short-time Fourier transform."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.register_buffer("mel", torch.rand(9, 6))
        self.net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                                 nn.Linear(16, 3))

    def forward(self, sound):
        spectrum = torch.stft(sound, 16, hop_length=8, window=self.window, return_complex=True)
        power = spectrum.abs().pow(2)
        mel = torch.matmul(power.transpose(1, 2), self.mel)
        return self.net(torch.log(mel + 1e-5).unsqueeze(1))


class GlobalFilter(nn.Module):
    """Multiplies two-dimensional spectra with weights (GFNet), and mixes tokens as FNet does."""

    def __init__(self, side=8, width=4):
        super().__init__()
        self.first = nn.Conv2d(1, width, 1)
        self.weight = nn.Parameter(0.02 * torch.randn(side, side // 2 + 1, width, 2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 3)

    def forward(self, image):
        x = self.first(image).permute(0, 2, 3, 1)
        spectrum = torch.fft.rfft2(x, dim=(1, 2), norm="ortho")
        spectrum = spectrum * torch.view_as_complex(self.weight)
        x = x + torch.fft.irfft2(spectrum, s=x.shape[1:3], dim=(1, 2), norm="ortho")
        x = x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=1).real
        return self.head(self.norm(x).mean((1, 2)))


class ModulatedConv(nn.Module):
    """Convolutions whose weights depend on the sample (StyleGAN2): groups are samples."""

    def __init__(self):
        super().__init__()
        self.style = nn.Linear(6, 4)
        self.weight = nn.Parameter(torch.randn(8, 4, 3, 3))
        self.last = nn.Conv2d(8, 1, 1)

    def forward(self, x, style):
        n, c, h, w = x.shape
        weight = self.weight[None] * (1 + self.style(style))[:, None, :, None, None]
        weight = weight * torch.rsqrt(weight.square().sum([2, 3, 4], keepdim=True) + 1e-8)
        y = F.conv2d(x.reshape(1, n * c, h, w), weight.reshape(n * 8, c, 3, 3), padding=1, groups=n)
        return self.last(F.leaky_relu(y.reshape(n, 8, h, w), 0.2) * math.sqrt(2))


class Involution(nn.Module):
    """Kernels that depend on the pixel, applied to unfolded patches; CBAM after it."""

    def __init__(self, channels=4, groups=2):
        super().__init__()
        self.groups = groups
        self.kernel = nn.Conv2d(channels, groups * 9, 1)
        self.mlp = nn.Sequential(nn.Linear(channels, 2), nn.ReLU(), nn.Linear(2, channels))
        self.spatial = nn.Conv2d(2, 1, 3, padding=1, padding_mode="reflect")
        self.head = nn.Linear(channels, 3)

    def forward(self, x):
        n, c, h, w = x.shape
        kernel = self.kernel(x).view(n, self.groups, 1, 9, h, w)
        patches = F.unfold(x, 3, padding=1).view(n, self.groups, c // self.groups, 9, h, w)
        y = (kernel * patches).sum(3).view(n, c, h, w)
        weights = self.mlp(y.mean((2, 3))) + self.mlp(y.amax((2, 3)))
        y = y * weights.sigmoid()[..., None, None]
        y = y * self.spatial(torch.cat([y.mean(1, True), y.max(1, keepdim=True)[0]], 1)).sigmoid()
        return self.head(y.mean((-2, -1)))


class EdgeConv(nn.Module):
    """A dynamic graph of the nearest points (DGCNN)."""

    def __init__(self, neighbours=3):
        super().__init__()
        self.neighbours = neighbours
        self.first, self.second = nn.Conv2d(6, 8, 1), nn.Conv2d(16, 8, 1)
        self.head = nn.Linear(16, 4)

    def edges(self, x):
        index = torch.cdist(x, x).topk(self.neighbours, dim=-1, largest=False).indices
        n, points, width = x.shape
        near = x.gather(1, index.reshape(n, -1, 1).expand(-1, -1, width))
        near = near.view(n, points, self.neighbours, width)
        centre = x.unsqueeze(2).expand_as(near)
        return torch.cat([centre, near - centre], -1).permute(0, 3, 1, 2)

    def forward(self, x):
        a = F.leaky_relu(self.first(self.edges(x)), 0.2).max(-1)[0]
        b = F.leaky_relu(self.second(self.edges(a.transpose(1, 2))), 0.2).max(-1)[0]
        return self.head(torch.cat([b.max(-1)[0], b.mean(-1)], 1))


class LinearAttention(nn.Module):
    """Causal linear attention with cumulative sums, beside one with slopes (ALiBi)."""

    def __init__(self, width=12, heads=3):
        super().__init__()
        self.heads, self.embed = heads, nn.Embedding(20, width)
        self.qkv, self.more = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, 20)
        slopes = torch.tensor([2.0 ** -(i + 1) for i in range(heads)])
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(self, ids):
        x = self.embed(ids)
        n, t, d = x.shape
        def split(layer, x):
            return layer(x).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q, k, v = split(self.qkv, x)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = torch.einsum("nhtd,nhte->nhtde", k, v).cumsum(2)
        norm = torch.einsum("nhtd,nhtd->nht", q, k.cumsum(2))
        y = torch.einsum("nhtd,nhtde->nhte", q, state) / (norm[..., None] + 1e-6)
        x = x + y.transpose(1, 2).reshape(n, t, d)
        q, k, v = split(self.more, x)
        place = torch.arange(t, device=x.device)
        bias = (place[None, :] - place[:, None]).float() * self.slopes[:, None, None]
        bias = bias.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -1e9)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)) + bias
        x = x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.head(x).transpose(1, 2)


class Selective(nn.Module):
    """A selective state space whose recurrence is a loop, and a gated unit."""

    def __init__(self, width=6, states=4):
        super().__init__()
        self.project, self.parts = nn.Linear(3, 2 * width), nn.Linear(width, 2 * states + 1)
        self.rate = nn.Linear(1, width)
        self.log_a = nn.Parameter(torch.log(torch.arange(1, states + 1).float()).repeat(width, 1))
        self.skip, self.out = nn.Parameter(torch.ones(width)), nn.Linear(width, 2)

    def forward(self, x):
        u, gate = self.project(x).chunk(2, dim=-1)
        b, c, rate = torch.split(self.parts(F.silu(u)), [4, 4, 1], dim=-1)
        rate = F.softplus(self.rate(rate))
        decay = torch.exp(-rate.unsqueeze(-1) * self.log_a.exp())
        drive = (rate * u).unsqueeze(-1) * b.unsqueeze(2)
        state, outputs = torch.zeros_like(drive[:, 0]), []
        for t in range(x.size(1)):
            state = decay[:, t] * state + drive[:, t]
            outputs.append(torch.einsum("nds,ns->nd", state, c[:, t]))
        y = torch.stack(outputs, dim=1) + u * self.skip
        return self.out((y * F.silu(gate))[:, -1])


class TopExperts(nn.Module):
    """The two best of four experts, with the loss that balances them."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(6, 4, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6))
                                     for _ in range(4))
        self.head = nn.Linear(6, 3)

    def forward(self, x, labels):
        probs = self.router(x).softmax(-1)
        values, index = probs.topk(2, dim=-1)
        gates = torch.zeros_like(probs).scatter(-1, index, values / values.sum(-1, keepdim=True))
        y = torch.stack([expert(x) for expert in self.experts], -2)
        y = (gates.unsqueeze(-1) * y).sum(-2)
        balance = 4 * ((gates > 0).float().mean(0) * probs.mean(0)).sum()
        return F.cross_entropy(self.head(x + y), labels) + 0.01 * balance


class Pointer(nn.Module):
    """A pointer network with LSTM cells; places that were chosen are masked."""

    def __init__(self, width=8):
        super().__init__()
        self.encoder, self.cell = nn.LSTM(2, width, batch_first=True), nn.LSTMCell(2, width)
        self.a, self.b = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.v = nn.Linear(width, 1)
        self.begin = nn.Parameter(torch.randn(2))

    def forward(self, points, order):
        memory, (h, c) = self.encoder(points)
        h, c, step = h[0], c[0], self.begin.expand(points.size(0), -1)
        used = torch.zeros(points.shape[:2], dtype=torch.bool)
        loss = 0
        for t in range(order.size(1)):
            h, c = self.cell(step, (h, c))
            scores = self.v(torch.tanh(self.a(memory) + self.b(h)[:, None])).squeeze(-1)
            scores = scores.masked_fill(used, -1e4)
            chosen = order[:, t]
            loss = loss + F.nll_loss(F.log_softmax(scores, dim=1), chosen)
            used = used.scatter(1, chosen[:, None], True)
            step = points[torch.arange(points.size(0)), chosen]
        return loss / order.size(1)


class ArcFace(nn.Module):
    """Angles to class centres with a margin, and a centre loss."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 12), nn.PReLU(12), nn.Linear(12, 6))
        self.weight = nn.Parameter(torch.randn(5, 6))
        self.centres = nn.Parameter(torch.randn(5, 6))

    def forward(self, x, labels):
        z = self.net(x)
        cosine = F.linear(F.normalize(z), F.normalize(self.weight)).clamp(-0.999, 0.999)
        wanted = torch.cos(torch.acos(cosine) + 0.3)
        hot = torch.zeros_like(cosine).scatter_(1, labels.view(-1, 1), 1.0)
        logits = 8 * torch.where(hot.bool(), wanted, cosine)
        centre = (z - self.centres[labels]).pow(2).sum(1).mean()
        return F.cross_entropy(logits, labels) + 0.01 * centre


class SupCon(nn.Module):
    """A supervised contrastive loss with the labels of the mini-batch."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 6))

    def forward(self, x, labels):
        z = F.normalize(self.net(x), dim=1)
        same = (labels[:, None] == labels[None, :]).float()
        others = 1 - torch.eye(len(x))
        logits = z @ z.T / 0.5
        logits = logits - logits.max(1, keepdim=True).values.detach()
        log_prob = logits - torch.log((logits.exp() * others).sum(1, keepdim=True))
        positive = same * others
        return -((positive * log_prob).sum(1) / positive.sum(1).clamp(min=1)).mean()


class BarlowTwins(nn.Module):
    """The correlation of two views over the mini-batch, and the variances of VICReg."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 6))
        self.norm = nn.BatchNorm1d(6, affine=False)

    def forward(self, a, b):
        a, b = self.net(a), self.net(b)
        c = self.norm(a).T @ self.norm(b) / a.size(0)
        on = (torch.diagonal(c) - 1).pow(2).sum()
        off = c.pow(2).sum() - torch.diagonal(c).pow(2).sum()
        spread = F.relu(1 - torch.sqrt(a.var(dim=0) + 1e-4)).mean()
        return on + 0.005 * off + spread


class CrossNetwork(nn.Module):
    """DCN v2, an attention over fields and a history of items with padding (DIN)."""

    def __init__(self):
        super().__init__()
        self.items, self.fields = nn.Embedding(30, 6, padding_idx=0), nn.Embedding(12, 6)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.interest = nn.Sequential(nn.Linear(24, 8), nn.Dice() if hasattr(nn, "Dice") else nn.PReLU(),
                                      nn.Linear(8, 1))
        self.cross = nn.ModuleList(nn.Linear(24, 24) for _ in range(2))
        self.head = nn.Linear(24, 1)

    def forward(self, fields, item, history):
        f = self.fields(fields)
        f = f + self.attention(f, f, f, need_weights=True)[0]
        query, past = self.items(item).unsqueeze(1), self.items(history)
        query = query.expand_as(past)
        score = self.interest(torch.cat([query, past, query - past, query * past], -1))
        score = score.masked_fill((history == 0).unsqueeze(-1), -1e9).softmax(1)
        x0 = x = torch.cat([f.flatten(1), (score * past).sum(1), query[:, 0]], 1)
        for layer in self.cross:
            x = x0 * layer(x) + x
        return torch.sigmoid(self.head(x)).flatten()


class NBeats(nn.Module):
    """Blocks that explain a part of a series, with reversible normalisation and a moving mean."""

    def __init__(self, past=12, ahead=4):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(past, 16), nn.ReLU(),
                                                  nn.Linear(16, past + ahead)) for _ in range(3))
        self.past, self.ahead = past, ahead
        self.trend = nn.Linear(past, ahead)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        mean, deviation = x.mean(-1, keepdim=True).detach(), x.std(-1, keepdim=True, unbiased=False)
        rest = (x - mean) / (deviation + 1e-5) * self.scale
        smooth = F.avg_pool1d(F.pad(rest.unsqueeze(1), (1, 1), mode="replicate"), 3, 1).squeeze(1)
        total, rest = self.trend(smooth), rest - smooth
        for block in self.blocks:
            back, ahead = block(rest).split((self.past, self.ahead), -1)
            rest, total = rest - back, total + ahead
        return total / self.scale * deviation + mean


def pinball(outputs, target):
    """The loss of three quantiles."""
    quantiles = torch.tensor([0.1, 0.5, 0.9])
    error = target.unsqueeze(-1) - torch.stack([outputs - 0.5, outputs, outputs + 0.5], -1)
    return torch.max(quantiles * error, (quantiles - 1) * error).mean()


class SincNet(nn.Module):
    """Band filters whose limits are trained, then separated sources with SI-SNR."""

    def __init__(self, filters=6, taps=9):
        super().__init__()
        self.low = nn.Parameter(torch.linspace(0.02, 0.3, filters).view(-1, 1))
        self.band = nn.Parameter(torch.full((filters, 1), 0.1))
        self.register_buffer("time", torch.arange(1, taps // 2 + 1).float().view(1, -1))
        self.register_buffer("window", torch.hamming_window(taps, periodic=False))
        self.mask = nn.Conv1d(filters, 2 * filters, 1)
        self.decode = nn.ConvTranspose1d(filters, 1, taps, padding=taps // 2)

    def forward(self, sound):
        low = self.low.abs()
        high = torch.clamp(low + self.band.abs(), 0.0, 0.5)
        def side(f):
            return torch.sin(2 * math.pi * f * self.time) / (math.pi * self.time)
        right = side(high) - side(low)
        filters = torch.cat([right.flip(1), 2 * (high - low), right], 1) * self.window
        h = F.conv1d(sound.unsqueeze(1), filters.unsqueeze(1), padding=4)
        masks = self.mask(F.relu(h)).view(len(sound), 2, -1, h.size(-1)).softmax(1)
        return self.decode((masks * h.unsqueeze(1)).flatten(0, 1)).view(len(sound), 2, -1)


def si_snr(estimate, target):
    """Minus the scale-invariant signal-to-noise ratio, by the better order of two sources."""
    def ratio(a, b):
        a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
        along = (a * b).sum(-1, keepdim=True) * b / (b.pow(2).sum(-1, keepdim=True) + 1e-8)
        noise = a - along
        return 10 * torch.log10(along.pow(2).sum(-1) / (noise.pow(2).sum(-1) + 1e-8) + 1e-8)
    straight, crossed = ratio(estimate, target).mean(1), ratio(estimate, target.flip(1)).mean(1)
    return -torch.maximum(straight, crossed).mean()


class Dueling(nn.Module):
    """A dueling network with the loss of double Q-learning, and a soft actor."""

    def __init__(self):
        super().__init__()
        def net():
            return nn.Sequential(nn.Linear(5, 16), nn.ELU(), nn.Linear(16, 4))
        self.online, self.target, self.actor = net(), net().requires_grad_(False), nn.Linear(5, 4)

    def q(self, net, x):
        out = net(x)
        value, advantage = out[:, :1], out[:, 1:]
        return value + advantage - advantage.mean(1, keepdim=True)

    def forward(self, state, action, reward, after, done):
        q = self.q(self.online, state).gather(1, action[:, None]).squeeze(1)
        with torch.no_grad():
            best = self.q(self.online, after).argmax(1, keepdim=True)
            wanted = reward + 0.9 * (1 - done) * self.q(self.target, after).gather(1, best).squeeze(1)
        mean, log_std = self.actor(state).chunk(2, -1)
        policy = Normal(mean, log_std.clamp(-5, 2).exp())
        raw = policy.rsample()
        log_prob = (policy.log_prob(raw) - torch.log(1 - raw.tanh().pow(2) + 1e-6)).sum(-1)
        return F.huber_loss(q, wanted) + 0.1 * log_prob.mean()


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


class RetinaHead(nn.Module):
    """A pyramid with heads that all levels share."""

    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)])
        self.side = nn.ModuleList(nn.Conv2d(8, 8, 1) for _ in range(2))
        self.tower = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU())
        self.classes, self.boxes = nn.Conv2d(8, 3, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)
        self.scales = nn.Parameter(torch.ones(2))

    def forward(self, x):
        a = F.relu(self.stages[0](x))
        b = F.relu(self.stages[1](a))
        deep = self.side[1](b)
        levels = [self.side[0](a) + F.interpolate(deep, scale_factor=2.0), deep]
        logits, boxes = [], []
        for scale, level in zip(self.scales, levels):
            h = self.tower(level)
            logits.append(self.classes(h).permute(0, 2, 3, 1).flatten(1, 2))
            boxes.append((scale * self.boxes(h)).exp().permute(0, 2, 3, 1).flatten(1, 2))
        return torch.cat(logits, 1), torch.cat(boxes, 1)


def retina_loss(outputs, targets):
    """A focal loss of all anchors, and an IoU loss of those with an object."""
    logits, boxes = outputs
    hot = F.one_hot(targets["classes"], 4)[..., 1:].float()
    p = logits.sigmoid()
    p_right = p * hot + (1 - p) * (1 - hot)
    weight = (0.25 * hot + 0.75 * (1 - hot)) * (1 - p_right) ** 2
    focal = F.binary_cross_entropy_with_logits(logits, hot, weight.detach(), reduction="sum")
    found = (targets["classes"] > 0).float()
    sides = targets["sides"]
    inner = torch.min(boxes[..., :2], sides[..., :2]) + torch.min(boxes[..., 2:], sides[..., 2:])
    overlap = inner.prod(-1)
    def area(b):
        return (b[..., :2] + b[..., 2:]).prod(-1)
    iou = overlap / (area(boxes) + area(sides) - overlap)
    return (focal + (found * -iou.clamp(min=1e-6).log()).sum()) / found.sum().clamp(min=1)


class DeepLab(nn.Module):
    """Dilated convolutions side by side, a pooled branch, and a pyramid of pools."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
                                  nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.rates = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=rate, dilation=rate)
                                   for rate in (1, 2, 3))
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 4, 1), nn.ReLU())
        self.pools = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(side), nn.Conv2d(8, 2, 1))
                                   for side in (1, 2, 3))
        self.head = nn.Sequential(nn.Dropout2d(0.1), nn.Conv2d(22, 3, 1))

    def forward(self, x):
        size = x.shape[-2:]
        h = self.stem(x)
        parts = [F.relu(conv(h)) for conv in self.rates]
        parts += [F.interpolate(branch(h), h.shape[-2:], mode="bilinear", align_corners=False)
                  for branch in (self.whole, *self.pools)]
        out = self.head(torch.cat(parts, 1))
        return {"out": F.interpolate(out, size, mode="bilinear", align_corners=False)}


class SegNet(nn.Module):
    """Pools whose places the decoder uses again."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 2, 3, padding=1)
        self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

    def forward(self, x):
        h, places = self.pool(F.relu(self.down(x)))
        return self.up(self.unpool(h, places))


class Lista(nn.Module):
    """Unrolled shrinkage, with shared weights and a threshold for each step."""

    def __init__(self):
        super().__init__()
        self.encode, self.again = nn.Linear(8, 12, bias=False), nn.Linear(12, 12, bias=False)
        self.thresholds = nn.Parameter(torch.full((3, 1, 12), 0.1))
        self.decode = nn.Linear(12, 8, bias=False)

    def forward(self, y):
        first = self.encode(y)
        x = F.softshrink(first, 0.1)
        for threshold in self.thresholds:
            c = first + self.again(x)
            x = torch.sign(c) * F.relu(c.abs() - threshold)
        return self.decode(x)


class Sinkhorn(nn.Module):
    """Assigns two sets to each other by entropic optimal transport."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 6)

    def forward(self, a, b):
        cost = torch.cdist(self.net(a), self.net(b), p=2.0) ** 2
        n, rows, columns = cost.shape
        f, g = cost.new_zeros(n, rows), cost.new_zeros(n, columns)
        for _ in range(5):
            f = -torch.logsumexp(g[:, None, :] - cost - math.log(columns), dim=2)
            g = -torch.logsumexp(f[:, :, None] - cost - math.log(rows), dim=1)
        plan = torch.exp(f[:, :, None] + g[:, None, :] - cost) / (rows * columns)
        return (plan * cost).sum((1, 2)).mean()


class Survival(nn.Module):
    """A Cox model: the loss orders the mini-batch by time."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 12), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(12, 1))

    def forward(self, x, time, event):
        risk = self.net(x).squeeze(-1)
        order = torch.argsort(time, descending=True)
        risk, event = risk[order], event[order].float()
        return -((risk - torch.logcumsumexp(risk, dim=0)) * event).sum() / (event.sum() + 1e-8)


class Ordinal(nn.Module):
    """Ordered classes by trained thresholds, counts by a negative binomial."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(5, 3)
        self.steps = nn.Parameter(torch.zeros(3))

    def forward(self, x, rank, count):
        score, mean, shape = self.net(x).unbind(-1)
        limits = torch.cumsum(F.softplus(self.steps), 0)
        below = torch.sigmoid(limits - score[:, None])
        edges = torch.cat([torch.zeros_like(below[:, :1]), below, torch.ones_like(below[:, :1])], 1)
        probs = edges.diff(dim=1).gather(1, rank[:, None]).clamp(min=1e-7)
        r, mu, k = F.softplus(shape) + 0.1, F.softplus(mean), count.float()
        binomial = (torch.lgamma(k + r) - torch.lgamma(r) - torch.lgamma(k + 1)
                    + r * torch.log(r / (r + mu)) + k * torch.log(mu / (r + mu)))
        return -probs.log().mean() - binomial.mean()


class LearnedStates(nn.Module):
    """Recurrent layers with trained first states, forwards and backwards, and an attention."""

    def __init__(self, width=6):
        super().__init__()
        self.embed = nn.Embedding(20, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(2 * width, width)
        self.h0, self.c0 = (nn.Parameter(torch.zeros(4, 1, width)) for _ in range(2))
        self.context = nn.Parameter(torch.randn(width))
        self.head = nn.Linear(3 * width, 2)

    def forward(self, ids):
        x = self.embed(ids)
        n = x.shape[0]
        h0, c0 = (state.repeat(1, n, 1) for state in (self.h0, self.c0))
        y, (hidden, _) = self.lstm(x, (h0, c0))
        z = self.gru(y.transpose(0, 1))[0].transpose(0, 1)
        scores = (z @ self.context).masked_fill(ids == 0, torch.finfo(z.dtype).min)
        pooled = torch.bmm(scores.softmax(1).unsqueeze(1), z).squeeze(1)
        return self.head(torch.cat([pooled, hidden[-2], hidden[-1]], -1))


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


class Translator(nn.Module):
    """nn.Transformer with its own masks, normalisation first, and paddings."""

    def __init__(self, width=8):
        super().__init__()
        self.source, self.target = nn.Embedding(20, width), nn.Embedding(20, width)
        self.net = nn.Transformer(width, 2, 1, 1, 16, dropout=0.0, batch_first=True, norm_first=True,
                                  activation="gelu")
        self.head = nn.Linear(width, 20)
        places = torch.arange(32.0)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("places", torch.stack([places.sin(), places.cos()], -1).flatten(1))

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        padding = source == 1
        h = self.net(self.source(source) + self.places[:source.size(1)],
                     self.target(target) + self.places[:target.size(1)], tgt_mask=mask,
                     src_key_padding_mask=padding, memory_key_padding_mask=padding,
                     tgt_is_causal=True)
        return self.head(h).permute(0, 2, 1)


class Memory(nn.Module):
    """A memory that is addressed by content, written and read in a loop."""

    def __init__(self, cells=6, width=4):
        super().__init__()
        self.cells, self.width = cells, width
        self.control = nn.GRUCell(3 + width, 8)
        self.heads = nn.Linear(8, 4 * width + 1)
        self.out = nn.Linear(8 + width, 2)

    def forward(self, x):
        n = x.size(0)
        memory = torch.full((n, self.cells, self.width), 1e-2)
        memory = memory + torch.linspace(-0.1, 0.1, self.cells)[None, :, None]
        h, read = x.new_zeros(n, 8), x.new_zeros(n, self.width)
        for t in range(x.size(1)):
            h = self.control(torch.cat((x[:, t], read), 1), h)
            key, add, erase, ask, sharp = self.heads(h).split([self.width] * 4 + [1], 1)
            sharp = 1 + F.softplus(sharp)
            def address(key):
                return F.softmax(sharp * F.cosine_similarity(memory, key[:, None], dim=-1), -1)
            w = address(key).unsqueeze(-1)
            memory = memory * (1 - w * erase.sigmoid()[:, None]) + w * add[:, None]
            read = (address(ask).unsqueeze(-1) * memory).sum(1)
        return self.out(torch.cat((h, read), 1))


class Orthogonal(nn.Module):
    """A layer whose weight stays orthogonal by the Cayley map."""

    def __init__(self):
        super().__init__()
        self.layer = parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley")

    def forward(self, x):
        return self.layer(x)


class GradientPenalty(nn.Module):
    """A critic with the penalty of WGAN-GP, which differentiates twice."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x):
        x = x.detach().requires_grad_(True)
        y = self.net(x)
        slope, = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y.mean() + 10 * (slope.norm(2, dim=1) - 1).pow(2).mean()


class Burgers(nn.Module):
    """A physics-informed network: its loss has the derivatives of its output."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(),
                                 nn.Linear(12, 1))

    def forward(self, x, t):
        x, t = x.requires_grad_(True), t.requires_grad_(True)
        u = self.net(torch.cat([x, t], dim=1))
        def derivative(y, z):
            return torch.autograd.grad(y, z, torch.ones_like(y), create_graph=True)[0]
        u_x = derivative(u, x)
        return (derivative(u, t) + u * u_x - 0.01 / math.pi * derivative(u_x, x)).pow(2).mean()


class Gaussian(nn.Module):
    """A normal distribution with a full covariance."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 3 + 9)

    def forward(self, x, y):
        mean, raw = self.net(x).split([3, 9], -1)
        lower = raw.view(-1, 3, 3).tril(-1) + torch.diag_embed(F.softplus(raw[:, :3]) + 0.1)
        error = torch.linalg.solve_triangular(lower, (y - mean).unsqueeze(-1), upper=False)
        return (0.5 * error.square().sum((1, 2))
                + torch.diagonal(lower, dim1=-2, dim2=-1).log().sum(-1)).mean()


CASES = {
    "attention_unet": case(AttentionUNet, tversky_loss, lambda: floats(3, 16, 16),
                           lambda: integers(2, 16, 16)),
    "mlp_mixer": case(Mixer, nn.CrossEntropyLoss(torch.tensor([0.5, 1, 2, 1, 0.7]), label_smoothing=0.1),
                      lambda: floats(3, 16, 16), lambda: integers(5)),
    "conv_lstm": case(ConvLstm, nn.MSELoss, lambda: floats(4, 1, 8, 8), lambda: floats(1, 8, 8)),
    "normalised_graph": case(NormalisedGraph, nn.CrossEntropyLoss,
                             lambda: (floats(6, 5), integers(2, 6, 6).float(),
                                      torch.arange(6).expand(len(floats()), 6) < 4),
                             lambda: integers(3)),
    "edge_list": case(EdgeList, nn.CrossEntropyLoss,
                      lambda: (floats(5, 4), integers(5, 9, 2), floats(9)), lambda: integers(2)),
    "conditional_vae": case(ConditionalVae, None, lambda: {"x": floats(16), "labels": integers(4)}),
    "planar_flow": case(PlanarFlow, None, lambda: floats(4)),
    "mixture_of_normals": case(MixtureOfNormals, None, lambda: {"x": floats(5), "y": floats(2)}),
    "weight_normed": case(WeightNormed, nn.CrossEntropyLoss, lambda: floats(4, 12),
                          lambda: integers(3)),
    "bags": case(Bags, nn.CrossEntropyLoss, lambda: (integers(30, 6), floats(6), integers(10, 4)),
                 lambda: integers(3)),
    "learned_weights": case(TwoTasks, None, lambda: {"x": floats(6), "labels": integers(4),
                                                     "values": floats()}),
    "spectrogram": case(Spectrogram, nn.CrossEntropyLoss, lambda: floats(96), lambda: integers(3)),
    "global_filter": case(GlobalFilter, nn.CrossEntropyLoss, lambda: floats(1, 8, 8),
                          lambda: integers(3)),
    "modulated_conv": case(ModulatedConv, nn.MSELoss, lambda: (floats(4, 8, 8), floats(6)),
                           lambda: floats(1, 8, 8)),
    "involution": case(Involution, nn.CrossEntropyLoss, lambda: floats(4, 8, 8), lambda: integers(3)),
    "edge_conv": case(EdgeConv, nn.CrossEntropyLoss, lambda: floats(10, 3), lambda: integers(4)),
    "linear_attention": case(LinearAttention, nn.CrossEntropyLoss, lambda: integers(20, 9),
                             lambda: integers(20, 9)),
    "selective": case(Selective, nn.CrossEntropyLoss, lambda: floats(7, 3), lambda: integers(2)),
    "top_experts": case(TopExperts, None, lambda: {"x": floats(6), "labels": integers(3)}),
    "pointer": case(Pointer, None, lambda: {"points": floats(5, 2), "order": torch.stack(
        [torch.randperm(5) for _ in floats()])}),
    "arc_face": case(ArcFace, None, lambda: {"x": floats(8), "labels": integers(5)}),
    "sup_con": case(SupCon, None, lambda: {"x": floats(8), "labels": integers(3)}),
    "barlow_twins": case(BarlowTwins, None, lambda: (floats(8), floats(8))),
    "cross_network": case(CrossNetwork, nn.BCELoss,
                          lambda: (integers(12, 2), 1 + integers(29), integers(30, 5)),
                          lambda: torch.rand(len(floats()))),
    "n_beats": case(NBeats, pinball, lambda: floats(12), lambda: floats(4)),
    "sinc_net": case(SincNet, si_snr, lambda: floats(40), lambda: floats(2, 40)),
    "dueling": case(Dueling, None, lambda: {
        "state": floats(5), "action": integers(3), "reward": floats(), "after": floats(5),
        "done": integers(2).float()}),
    "modulated_norms": case(Modulated, nn.L1Loss, lambda: (floats(3, 8, 8), floats(5),
                                                           floats(1, 4, 4)),
                            lambda: floats(3, 16, 16)),
    "retina_head": case(RetinaHead, retina_loss, lambda: floats(3, 16, 16),
                        lambda: {"classes": integers(4, 80), "sides": 0.1 + floats(80, 4).abs()}),
    "deep_lab": case(DeepLab, lambda outputs, target: F.cross_entropy(outputs["out"], target,
                                                                      ignore_index=2),
                     lambda: floats(3, 24, 24), lambda: integers(3, 24, 24)),
    "seg_net": case(SegNet, nn.CrossEntropyLoss, lambda: floats(3, 8, 8), lambda: integers(2, 8, 8)),
    "lista": case(Lista, nn.MSELoss, lambda: floats(8), lambda: floats(8)),
    "sinkhorn": case(Sinkhorn, None, lambda: (floats(4, 3), floats(5, 3))),
    "survival": case(Survival, None, lambda: {"x": floats(6), "time": floats().abs(),
                                              "event": integers(2)}),
    "ordinal": case(Ordinal, None, lambda: {"x": floats(5), "rank": integers(4),
                                            "count": integers(6)}),
    "learned_states": case(LearnedStates, nn.CrossEntropyLoss, lambda: integers(20, 6),
                           lambda: integers(2)),
    "rare_moves": case(Rare, margins, lambda: floats(3, 8, 8), lambda: integers(3)),
    "torch_transformer": case(Translator, nn.CrossEntropyLoss,
                              lambda: (integers(20, 6), integers(20, 5)), lambda: integers(20, 5)),
    "memory": case(Memory, nn.CrossEntropyLoss, lambda: floats(4, 3), lambda: integers(2)),
    "orthogonal": case(Orthogonal, nn.MSELoss, lambda: floats(4), lambda: floats(4)),
    "gradient_penalty": case(GradientPenalty, None, lambda: floats(4)),
    "burgers": case(Burgers, None, lambda: (floats(1), floats(1))),
    "full_covariance": case(Gaussian, None, lambda: {"x": floats(4), "y": floats(3)}),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
