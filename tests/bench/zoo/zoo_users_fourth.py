"""A fourth list of small models as users write them, for scripts/zoo.

They were chosen after the first three lists had been captured. Many change tensors in place, write
into slices, or compute with gradients inside of the forward pass.
"""
import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torch.nn.utils import weight_norm
from zoo_case import SAMPLES
from zoo_users_more import case, entries_of, floats, integers


class PlainVit(nn.Module):
    """A vision transformer from scratch, with an einsum for the patches and a class token."""

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.h, self.scale = heads, (width // heads) ** -0.5
            self.to_qkv, self.to_out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (t.reshape(b, n, self.h, -1).transpose(1, 2)
                       for t in self.to_qkv(x).chunk(3, dim=-1))
            dots = torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
            return self.to_out(torch.einsum("bhij,bhjd->bihd", dots.softmax(dim=-1), v).flatten(2))

    def __init__(self, width=16, depth=2, patch=4, side=16):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(3 * patch * patch, width)
        self.cls_token = nn.Parameter(torch.randn(1, 1, width))
        self.pos = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width) * 0.02)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([
                nn.LayerNorm(width), self.Attention(width, 4), nn.LayerNorm(width),
                nn.Sequential(nn.Linear(width, 32), nn.GELU(approximate="tanh"),
                              nn.Linear(32, width))]))
        self.head = nn.Sequential(OrderedDict(norm=nn.LayerNorm(width), out=nn.Linear(width, 5)))

    def forward(self, img):
        b, p = img.shape[0], self.patch
        x = img.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5).contiguous()
        x = self.embed(x.view(b, -1, 3 * p * p))
        x = torch.cat((self.cls_token.expand(b, -1, -1), x), dim=1)
        x += self.pos[:, : x.size(1)]
        for norm1, attention, norm2, mlp in self.layers:
            x = attention(norm1(x)) + x
            x = mlp(norm2(x)) + x
        return self.head(x[:, 0])


class NestedUNet(nn.Module):
    """U-Net++ with deep supervision: a grid of nodes, kept in a dict."""

    def __init__(self, widths=(4, 8, 16)):
        super().__init__()
        def block(n, m):
            return nn.Sequential(nn.Conv2d(n, m, 3, padding=1, bias=False), nn.BatchNorm2d(m),
                                 nn.ReLU(True), nn.Conv2d(m, m, 3, padding=1), nn.ReLU(inplace=True))
        self.depth = len(widths)
        for i in range(self.depth):
            for j in range(self.depth - i):
                before = (3 if i == 0 else widths[i - 1]) if j == 0 else widths[i] * j + widths[i + 1]
                setattr(self, f"conv{i}_{j}", block(before, widths[i]))
        self.pool = nn.MaxPool2d(2, 2)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.finals = nn.ModuleList(nn.Conv2d(widths[0], 1, 1) for _ in range(self.depth - 1))

    def forward(self, x):
        nodes = {}
        for i in range(self.depth):
            nodes[i, 0] = getattr(self, f"conv{i}_0")(x if i == 0 else self.pool(nodes[i - 1, 0]))
        for j in range(1, self.depth):
            for i in range(self.depth - j):
                row = [nodes[i, k] for k in range(j)] + [self.up(nodes[i + 1, j - 1])]
                nodes[i, j] = getattr(self, f"conv{i}_{j}")(torch.cat(row, 1))
        return [final(nodes[0, j + 1]).squeeze(1) for j, final in enumerate(self.finals)]


def supervised_dice(outputs, target):
    """The mean over all heads of a cross-entropy and a Dice loss."""
    loss = 0.0
    for logits in outputs:
        probs = torch.sigmoid(logits).view(-1)
        flat = target.reshape(-1).float()
        dice = (2.0 * (probs * flat).sum() + 1) / (probs.sum() + flat.sum() + 1)
        loss += 0.5 * F.binary_cross_entropy_with_logits(logits, target.float()) + 1 - dice
    return loss / len(outputs)


class Ddpm(nn.Module):
    """A diffusion model that noises its images itself; its U-Net has an attention and a FiLM."""

    def __init__(self, width=8, steps=50):
        super().__init__()
        betas = torch.linspace(1e-4, 0.02, steps)
        bars = torch.cumprod(1.0 - betas, dim=0)
        self.register_buffer("sqrt_bars", torch.sqrt(bars))
        self.register_buffer("sqrt_rest", torch.sqrt(1.0 - bars))
        self.steps, self.width = steps, width
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 4, 2, 1)
        self.norms = nn.ModuleList([nn.GroupNorm(4, width), nn.GroupNorm(4, 2 * width)])
        self.film = nn.ModuleList([nn.Linear(width, 2 * width), nn.Linear(width, 4 * width)])
        self.qkv, self.proj = nn.Conv1d(2 * width, 6 * width, 1), nn.Conv1d(2 * width, 2 * width, 1)
        self.up = nn.ConvTranspose2d(2 * width, width, 4, 2, 1)
        self.last = nn.Conv2d(2 * width, 1, 3, padding=1)
        nn.init.zeros_(self.proj.weight)

    def embed(self, t):
        half = self.width // 2
        freqs = torch.exp(torch.arange(half, dtype=torch.float32) * -(math.log(10000) / (half - 1)))
        args = t[:, None].float() * freqs[None, :]
        return self.time(torch.cat((args.sin(), args.cos()), dim=-1))

    def modulate(self, i, h, emb):
        scale, shift = self.film[i](emb)[(...,) + (None,) * 2].chunk(2, dim=1)
        return F.silu(self.norms[i](h) * (scale + 1) + shift)

    def attend(self, x):
        b, c, *spatial = x.shape
        x = x.reshape(b, c, -1)
        qkv = self.qkv(x).reshape(b * 2, -1, x.shape[-1])
        q, k, v = qkv.split(qkv.shape[1] // 3, dim=1)
        scale = 1 / math.sqrt(math.sqrt(q.shape[1]))
        weight = torch.einsum("bct,bcs->bts", q * scale, k * scale)
        a = torch.einsum("bts,bcs->bct", torch.softmax(weight, dim=-1), v)
        return (x + self.proj(a.reshape(b, c, -1))).reshape(b, c, *spatial)

    def forward(self, x0):
        t = torch.randint(0, self.steps, (x0.size(0),), device=x0.device).long()
        noise = torch.randn_like(x0)
        def extract(a):
            return a.gather(-1, t).reshape(-1, *((1,) * (x0.dim() - 1)))
        x = extract(self.sqrt_bars) * x0 + extract(self.sqrt_rest) * noise
        emb = self.embed(t)
        h0 = self.modulate(0, self.first(x), emb)
        h = self.attend(self.modulate(1, self.down(h0), emb))
        predicted = self.last(torch.cat([self.up(h), h0], dim=1))
        return F.smooth_l1_loss(predicted, noise)


class BothPlayers(nn.Module):
    """A GAN whose two losses are one: the generator is judged by a critic with detached weights."""

    def __init__(self):
        super().__init__()
        self.g = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.LeakyReLU(0.2, inplace=True),
                               nn.Linear(16, 8), nn.Tanh())
        self.d = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, real):
        fake = self.g(torch.randn(real.size(0), 4))
        critic = F.relu(1.0 - self.d(real)).mean() + F.relu(1.0 + self.d(fake.detach())).mean()
        weights = {name: p.detach() for name, p in self.d.named_parameters()}
        return critic - functional_call(self.d, weights, (fake,)).mean()


class Gin(nn.Module):
    """A GIN on one fixed graph: edges are a buffer, messages are added by index_add."""

    def __init__(self, nodes=7):
        super().__init__()
        source = torch.arange(nodes).repeat(2)
        target = torch.cat([(torch.arange(nodes) + 1) % nodes, (torch.arange(nodes) + 3) % nodes])
        self.register_buffer("edge_index", torch.stack([source, target]))
        self.eps = nn.ParameterList([nn.Parameter(torch.zeros(())) for _ in range(2)])
        self.mlps = nn.ModuleList([nn.Sequential(nn.Linear(n, 8), nn.ReLU(), nn.Linear(8, 8))
                                   for n in (5, 8)])
        self.virtual = nn.Embedding(1, 8)
        self.readout = nn.Linear(13, 3)

    def forward(self, x):
        src, dst = self.edge_index
        pooled = [x.sum(dim=1)]
        for eps, mlp in zip(self.eps, self.mlps):
            out = torch.zeros_like(x)
            out.index_add_(1, dst, x[:, src])
            degree = torch.zeros(x.size(1)).index_add_(0, dst, torch.ones(dst.numel()))
            x = mlp((1 + eps) * x + out / degree.view(1, -1, 1))
            x = F.relu(x + self.virtual(torch.zeros(1, dtype=torch.long)))
        pooled.append(x.max(dim=1).values)
        return self.readout(torch.cat(pooled, dim=-1))


class PointNet2(nn.Module):
    """Farthest points are sampled in a loop, and their neighbours grouped; a T-Net before it."""

    def __init__(self, centres=4, near=3):
        super().__init__()
        self.centres, self.near = centres, near
        self.tnet = nn.Sequential(nn.Conv1d(3, 8, 1), nn.ReLU(), nn.AdaptiveMaxPool1d(1),
                                  nn.Flatten(), nn.Linear(8, 9))
        self.tnet[-1].weight.data.zero_()
        self.tnet[-1].bias.data.copy_(torch.eye(3).view(-1))
        self.conv, self.bn = nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    @torch.no_grad()
    def farthest(self, xyz):
        b, n, _ = xyz.shape
        chosen = torch.zeros(b, self.centres, dtype=torch.long)
        distance = torch.ones(b, n) * 1e10
        farthest = torch.zeros(b, dtype=torch.long)
        rows = torch.arange(b, dtype=torch.long)
        for i in range(self.centres):
            chosen[:, i] = farthest
            centroid = xyz[rows, farthest, :].view(b, 1, 3)
            dist = torch.sum((xyz - centroid) ** 2, -1)
            distance = torch.where(dist < distance, dist, distance)
            farthest = torch.max(distance, -1)[1]
        return chosen

    def pick(self, points, idx):
        shape = [idx.shape[0]] + [1] * (idx.dim() - 1)
        rows = torch.arange(points.shape[0]).view(shape).expand_as(idx)
        return points[rows, idx, :]

    def forward(self, xyz):
        t = self.tnet(xyz.permute(0, 2, 1)).view(-1, 3, 3)
        xyz = torch.bmm(xyz, t)
        centres = self.pick(xyz, self.farthest(xyz))
        square = -2 * torch.matmul(centres, xyz.permute(0, 2, 1))
        square += torch.sum(centres ** 2, -1, keepdim=True)
        square += torch.sum(xyz ** 2, -1).unsqueeze(1)
        grouped = self.pick(xyz, square.sort(dim=-1)[1][:, :, : self.near])
        grouped -= centres.unsqueeze(2)
        h = F.relu(self.bn(self.conv(grouped.permute(0, 3, 1, 2))))
        logits = self.head(torch.max(torch.max(h, 3)[0], 2)[0])
        return F.log_softmax(logits, -1), t


def pointnet_loss(outputs, labels):
    """The likelihood, and how far the transformation is from an orthogonal one."""
    log_probs, t = outputs
    eye = torch.eye(3)[None, :, :]
    regular = torch.mean(torch.norm(torch.bmm(t, t.transpose(2, 1)) - eye, dim=(1, 2)))
    return F.nll_loss(log_probs, labels) + 0.001 * regular


class VolumeRender(nn.Module):
    """NeRF with its rendering: samples of rays, transmittance by an exclusive cumprod."""

    def __init__(self, bins=6, levels=3):
        super().__init__()
        self.bins = bins
        self.register_buffer("freqs", 2.0 ** torch.arange(levels))
        self.body = nn.Sequential(nn.Linear(3 + 6 * levels, 16), nn.ReLU(), nn.Linear(16, 17))
        self.colour = nn.Sequential(nn.Linear(16 + 3, 8), nn.ReLU(), nn.Linear(8, 3), nn.Sigmoid())

    def encode(self, x):
        angles = (x[..., None, :] * self.freqs[:, None]).flatten(-2)
        return torch.cat([x, angles.sin(), angles.cos()], -1)

    def forward(self, origins, directions, rgb):
        t = torch.linspace(0.1, 2.0, self.bins).expand(origins.shape[0], self.bins)
        mid = (t[:, :-1] + t[:, 1:]) / 2.0
        lower, upper = torch.cat((t[:, :1], mid), -1), torch.cat((mid, t[:, -1:]), -1)
        t = lower + (upper - lower) * torch.rand(t.shape)
        delta = torch.cat((t[:, 1:] - t[:, :-1],
                           torch.tensor([1e3]).expand(origins.shape[0], 1)), -1)
        x = origins.unsqueeze(1) + t.unsqueeze(2) * directions.unsqueeze(1)
        views = F.normalize(directions, dim=-1).unsqueeze(1).expand(-1, self.bins, -1)
        h, sigma = torch.split(self.body(self.encode(x)), [16, 1], dim=-1)
        colour = self.colour(torch.cat([h, views], -1))
        alpha = 1 - torch.exp(-F.relu(sigma.squeeze(-1)) * delta)
        keep = torch.cumprod(1 - alpha + 1e-10, 1)
        keep = torch.cat((torch.ones_like(keep[:, :1]), keep[:, :-1]), dim=1)
        weights = (keep * alpha).unsqueeze(-1)
        out = (weights * colour).sum(dim=1) + 1 - weights.sum(-1).sum(-1).unsqueeze(-1)
        return ((out - rgb) ** 2).mean()


class XDeepFm(nn.Module):
    """A compressed interaction network beside an attention over fields (AutoInt)."""

    def __init__(self, dims=(5, 4, 6), width=4):
        super().__init__()
        offsets = torch.tensor((0, *dims[:-1])).cumsum(0)
        self.register_buffer("offsets", offsets.unsqueeze(0))
        self.embedding = nn.Embedding(sum(dims), width)
        nn.init.xavier_uniform_(self.embedding.weight.data)
        self.linear, self.bias = nn.Embedding(sum(dims), 1), nn.Parameter(torch.zeros((1,)))
        self.cin = nn.ModuleList([nn.Conv1d(3 * n, 4, 1) for n in (3, 2)])
        self.attention = nn.MultiheadAttention(width, 2)
        self.cin_out, self.out = nn.Linear(2 + 4, 1), nn.Linear(3 * width, 1)

    def forward(self, x):
        x = x + self.offsets
        e = self.embedding(x)
        h, kept = e, []
        for i, conv in enumerate(self.cin):
            z = torch.einsum("bmd,bhd->bmhd", e, h)
            z = F.relu(conv(z.reshape(z.size(0), -1, z.size(-1))))
            if i + 1 < len(self.cin):
                z, h = torch.split(z, 2, dim=1)
            kept.append(z)
        cross = e.transpose(0, 1)
        cross, _ = self.attention(cross, cross, cross)
        cross = F.relu(cross.transpose(0, 1) + e).contiguous().view(-1, e.size(1) * e.size(2))
        total = self.linear(x).sum(1) + self.bias + self.cin_out(torch.cat(kept, 1).sum(2))
        return torch.sigmoid((total + self.out(cross)).squeeze(1))


class NormedTcn(nn.Module):
    """Dilated convolutions with the older weight_norm, whose padding is cut off."""

    class Block(nn.Module):
        def __init__(self, n, m, dilation):
            super().__init__()
            self.conv1 = weight_norm(nn.Conv1d(n, m, 3, padding=2 * dilation, dilation=dilation))
            self.conv2 = weight_norm(nn.Conv1d(m, m, 3, padding=2 * dilation, dilation=dilation))
            self.cut = 2 * dilation
            self.skip = nn.Conv1d(n, m, 1) if n != m else None

        def forward(self, x):
            h = F.dropout(F.relu(self.conv1(x)[..., : -self.cut]), 0.0, self.training)
            h = self.conv2(h)[:, :, : -self.cut].contiguous().relu_()
            return F.relu(h + (x if self.skip is None else self.skip(x)))

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*[self.Block(2 if i == 0 else 6, 6, 2 ** i) for i in range(3)])
        self.out = weight_norm(nn.Linear(6, 2), name="weight")

    def forward(self, x):
        return self.out(self.net(x.transpose(1, 2))[:, :, -1])


class Annotated(nn.Module):
    """The annotated transformer: cloned layers, masks from tokens, smoothed labels by KL."""

    def __init__(self, width=8, words=20):
        super().__init__()
        self.words, self.d_k, self.h = words, width // 2, 2
        self.embed = nn.Embedding(words, width)
        pe = torch.zeros(50, width)
        position = torch.arange(0, 50).unsqueeze(1)
        div = torch.exp(torch.arange(0, width, 2) * -(math.log(10000.0) / width))
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe.unsqueeze(0))
        self.linears = nn.ModuleList([nn.Linear(width, width) for _ in range(12)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.generator = nn.Linear(width, words)

    def attend(self, start, query, key, value, mask):
        n = query.size(0)
        query, key, value = [
            lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears[start:], (query, key, value))]
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        x = torch.matmul(scores.softmax(dim=-1), value)
        return self.linears[start + 3](x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))

    def forward(self, src, tgt):
        src_mask = (src != 0).unsqueeze(-2)
        inputs, labels = tgt[:, :-1], tgt[:, 1:]
        ahead = torch.triu(torch.ones((1, inputs.size(1), inputs.size(1))), diagonal=1)
        tgt_mask = (inputs != 0).unsqueeze(-2) & (ahead.type(torch.uint8) == 0)
        scale = math.sqrt(self.d_k * self.h)
        m = self.embed(src) * scale + self.pe[:, : src.size(1)].requires_grad_(False)
        m = m + self.attend(0, m, m, m, src_mask)
        x = self.norms[0](self.embed(inputs) * scale + self.pe[:, : inputs.size(1)])
        x = self.norms[1](x + self.attend(4, x, x, x, tgt_mask))
        x = self.norms[2](x + self.attend(8, x, m, m, src_mask))
        log_probs = F.log_softmax(self.generator(x), dim=-1).contiguous().view(-1, self.words)
        flat = labels.contiguous().view(-1)
        true = log_probs.data.clone()
        true.fill_(0.1 / (self.words - 2))
        true.scatter_(1, flat.data.unsqueeze(1), 0.9)
        true[:, 0] = 0
        true = true.masked_fill((flat == 0).unsqueeze(1), 0.0)
        return F.kl_div(log_probs, true.clone().detach(), reduction="sum") / (flat != 0).sum()


class ChebyshevKan(nn.Module):
    """KAN layers of Chebyshev polynomials, then of radial functions (FastKAN)."""

    def __init__(self, degree=4):
        super().__init__()
        self.coefficients = nn.Parameter(torch.empty(3, 8, degree + 1))
        nn.init.normal_(self.coefficients, mean=0.0, std=1 / (3 * (degree + 1)))
        self.register_buffer("arange", torch.arange(0, degree + 1, 1))
        self.grid = nn.Parameter(torch.linspace(-2, 2, 5), requires_grad=False)
        self.norm, self.spline = nn.LayerNorm(8), nn.Linear(40, 2, bias=False)
        self.base = nn.Linear(8, 2)

    def forward(self, x):
        x = torch.tanh(x).view((-1, 3, 1)).expand(-1, -1, 5)
        x = 0.999 * x
        x = x.acos()
        x *= self.arange
        x = x.cos()
        y = torch.einsum("bid,iod->bo", x, self.coefficients)
        basis = torch.exp(-(((self.norm(y)[..., None] - self.grid) / 1.0) ** 2))
        return self.spline(basis.view(*basis.shape[:-2], -1)) + self.base(F.silu(y))


class NoisyExperts(nn.Module):
    """Noisy gates over experts whose weights are one tensor, with the losses of their use."""

    def __init__(self, experts=4):
        super().__init__()
        self.w_gate, self.w_noise = (nn.Parameter(torch.zeros(6, experts)) for _ in range(2))
        self.w1 = nn.Parameter(torch.randn(experts, 6, 10) * 0.3)
        self.b1 = nn.Parameter(torch.zeros(experts, 1, 10))
        self.w2 = nn.Parameter(torch.randn(experts, 10, 3) * 0.3)

    @staticmethod
    def cv_squared(x):
        return x.float().var() / (x.float().mean() ** 2 + 1e-10)

    def forward(self, x, y):
        clean = x @ self.w_gate
        noise_std = F.softplus(x @ self.w_noise) + 1e-2
        logits = clean + torch.randn_like(clean) * noise_std
        gates = F.softmax(logits, dim=1)
        h = torch.einsum("bd,edh->ebh", x, self.w1) + self.b1
        out = torch.bmm(F.gelu(h), self.w2)
        mixed = torch.einsum("ebo,be->bo", out, gates)
        load = torch.special.ndtr((clean - logits.detach().mean(1, True)) / noise_std).sum(0)
        loss = F.cross_entropy(mixed, y)
        return loss + 1e-2 * (self.cv_squared(gates.sum(0)) + self.cv_squared(load))


class FourierFilm(nn.Module):
    """Random Fourier features that are a buffer, and a sine network that a code modulates."""

    class Sine(nn.Module):
        def __init__(self, n, m, w0=30.0, first=False):
            super().__init__()
            self.w0, self.linear = w0, nn.Linear(n, m)
            with torch.no_grad():
                bound = 1 / n if first else math.sqrt(6 / n) / w0
                self.linear.weight.uniform_(-bound, bound)

        def forward(self, x, gain):
            return torch.sin(self.w0 * self.linear(x)) * gain

    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.randn(2, 4), persistent=True)
        self.code = nn.Embedding(6, 4, max_norm=None)
        self.layers = nn.ModuleList([self.Sine(8, 12, first=True), self.Sine(12, 12)])
        self.gains = nn.ModuleList([nn.Linear(4, 12), nn.Linear(16, 12)])
        self.last = nn.Linear(12, 3)

    def forward(self, coords, which):
        z = self.code(which)
        proj = (2.0 * math.pi * coords) @ self.b
        x = torch.cat([proj.sin(), proj.cos()], dim=-1)
        hidden = None
        for layer, gain in zip(self.layers, self.gains):
            hidden = F.relu(gain(z if hidden is None else torch.cat((hidden, z), dim=1)))
            x = layer(x, hidden.unsqueeze(1))
        return torch.sigmoid(self.last(x))


class Triplets(nn.Module):
    """A shared encoder for three inputs, with several metric losses."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.PReLU(),
                                  nn.MaxPool2d(2, stride=2), nn.Conv2d(4, 8, 3), nn.PReLU())
        self.fc = nn.Sequential(nn.Linear(8, 8), nn.PReLU(), nn.Linear(8, 4))
        self.triplet = nn.TripletMarginLoss(margin=0.5, p=2, swap=True)
        self.angular = nn.TripletMarginWithDistanceLoss(
            distance_function=lambda a, b: 1.0 - F.cosine_similarity(a, b), margin=0.2)

    def encode(self, x):
        h = self.conv(x)
        return self.fc(h.view(h.size()[0], -1))

    def forward(self, anchor, positive, negative):
        a, p, n = map(self.encode, (anchor, positive, negative))
        same = F.pairwise_distance(a, p, keepdim=True)
        other = F.pairwise_distance(a, n, keepdim=True)
        contrast = same.pow(2).mean() + torch.clamp(1.0 - other, min=0.0).pow(2).mean()
        cosine = F.cosine_embedding_loss(torch.cat([a, a]), torch.cat([p, n]),
                                         torch.cat([torch.ones(len(a)), -torch.ones(len(a))]), 0.1)
        ranking = F.margin_ranking_loss(other, same, torch.ones_like(same), margin=0.3)
        return self.triplet(a, p, n) + self.angular(a, p, n) + contrast + cosine + ranking


class MinimalMamba(nn.Module):
    """Mamba in one file: a causal convolution cut to length, and a scan into a list."""

    def __init__(self, width=8, states=4):
        super().__init__()
        self.embedding = nn.Embedding(24, width)
        self.norm_weight = nn.Parameter(torch.ones(width))
        self.in_proj = nn.Linear(width, 4 * width, bias=False)
        self.conv1d = nn.Conv1d(2 * width, 2 * width, 4, groups=2 * width, padding=3)
        self.x_proj = nn.Linear(2 * width, 2 + 2 * states, bias=False)
        self.dt_proj = nn.Linear(2, 2 * width)
        a = torch.arange(1, states + 1, dtype=torch.float32).unsqueeze(0).repeat(2 * width, 1)
        self.A_log, self.D = nn.Parameter(torch.log(a)), nn.Parameter(torch.ones(2 * width))
        self.out_proj = nn.Linear(2 * width, width, bias=False)
        self.lm_head = nn.Linear(width, 24, bias=False)
        self.lm_head.weight = self.embedding.weight

    def norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.norm_weight

    def scan(self, u, delta, A, B, C, D):
        delta_a = torch.exp(torch.einsum("bld,dn->bldn", delta, A))
        delta_bu = torch.einsum("bld,bln,bld->bldn", delta, B, u)
        x = torch.zeros((u.shape[0], u.shape[2], A.shape[1]))
        ys = []
        for i in range(u.shape[1]):
            x = delta_a[:, i] * x + delta_bu[:, i]
            ys.append(torch.einsum("bdn,bn->bd", x, C[:, i, :]))
        return torch.stack(ys, dim=1) + u * D

    def forward(self, ids):
        x = self.embedding(ids)
        u, res = self.in_proj(self.norm(x)).split(split_size=[16, 16], dim=-1)
        u = F.silu(self.conv1d(u.transpose(1, 2))[:, :, : ids.shape[1]].transpose(1, 2))
        delta, B, C = self.x_proj(u).split(split_size=[2, 4, 4], dim=-1)
        y = self.scan(u, F.softplus(self.dt_proj(delta)), -torch.exp(self.A_log.float()), B, C,
                      self.D.float())
        x = x + self.out_proj(y * F.silu(res))
        logits = self.lm_head(self.norm(x))
        return F.cross_entropy(logits[:, :-1].reshape(-1, 24), ids[:, 1:].reshape(-1))


class Rwkv(nn.Module):
    """RWKV's time mixing: a shift by a negative pad, a numerically safe recurrence in place."""

    def __init__(self, width=6):
        super().__init__()
        self.shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.decay, self.bonus = nn.Parameter(torch.randn(width)), nn.Parameter(torch.zeros(width))
        self.mix = nn.ParameterDict({k: nn.Parameter(torch.full((1, 1, width), 0.3)) for k in "kvr"})
        self.nets = nn.ModuleDict({k: nn.Linear(width, width, bias=False) for k in "kvro"})
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        h = self.ln(x)
        xx = self.shift(h)
        k, v, r = (self.nets[c](h * self.mix[c] + xx * (1 - self.mix[c])) for c in "kvr")
        B, T, C = k.shape
        y = torch.zeros_like(v)
        p, q = torch.zeros(B, C), torch.zeros(B, C)
        o = torch.full((B, C), -1e38)
        w = -torch.exp(self.decay)
        for t in range(T):
            no = torch.maximum(o, self.bonus + k[:, t])
            A, E = torch.exp(o - no), torch.exp(self.bonus + k[:, t] - no)
            y[:, t] = (A * p + E * v[:, t]) / (A * q + E)
            no = torch.maximum(w + o, k[:, t])
            A, E = torch.exp(w + o - no), torch.exp(k[:, t] - no)
            p, q, o = A * p + E * v[:, t], A * q + E, no
        x = x + self.nets["o"](torch.sigmoid(r) * y)
        return self.head(x).transpose(1, 2)


class MinGru(nn.Module):
    """minGRU by a parallel scan in logarithms."""

    def __init__(self, width=6):
        super().__init__()
        self.gate, self.hidden = nn.Linear(3, width), nn.Linear(3, width)
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        k = self.gate(x)
        log_z, log_coeffs = -F.softplus(-k), -F.softplus(k)
        h = self.hidden(x)
        log_h = torch.where(h >= 0, (F.relu(h) + 0.5).log(), -F.softplus(-h))
        a_star = F.pad(log_coeffs.cumsum(dim=1), (0, 0, 1, 0))
        values = torch.cat([torch.full_like(log_h[:, :1], math.log(0.5)), log_z + log_h], dim=1)
        log_states = a_star + (values - a_star).logcumsumexp(dim=1)
        return self.out(log_states.exp()[:, 1:].mean(1))


class Retention(nn.Module):
    """RetNet's retention with rotated keys, a decay mask and a norm of groups."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.h, self.d = heads, width // heads
        self.q, self.k, self.v, self.g, self.o = (nn.Linear(width, width, bias=False)
                                                  for _ in range(5))
        self.group = nn.GroupNorm(heads, width, affine=False)
        gamma = 1 - torch.exp(torch.linspace(math.log(1 / 4), math.log(1 / 16), heads))
        self.register_buffer("gamma", gamma)
        self.ff = nn.Sequential(nn.Linear(width, 8), nn.GELU(), nn.Linear(8, 3))

    @staticmethod
    def rotate(x):
        x1, x2 = x[..., ::2], x[..., 1::2]
        return torch.stack((-x2, x1), dim=-1).flatten(-2)

    def forward(self, x):
        b, t, _ = x.shape
        angle = 1.0 / (10000 ** torch.linspace(0, 1, self.d // 2))
        angle = angle.unsqueeze(-1).repeat(1, 2).flatten()
        index = torch.arange(t).to(angle)
        sin, cos = torch.sin(index[:, None] * angle[None]), torch.cos(index[:, None] * angle[None])
        q, k, v = (f(x).view(b, t, self.h, self.d).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = q * cos + self.rotate(q) * sin, k * cos + self.rotate(k) * sin
        n, m = index.unsqueeze(1), index.unsqueeze(0)
        D = (self.gamma[:, None, None] ** (n - m)) * (n >= m).float()
        D[D != D] = 0
        y = (q @ k.transpose(-1, -2) * self.d ** -0.5 * D) @ v
        y = self.group(y.transpose(1, 2).reshape(b * t, -1)).view(b, t, -1)
        return self.ff(x + self.o(F.silu(self.g(x)) * y)).mean(1)


class ShiftedWindows(nn.Module):
    """Swin's window attention: a mask from slices, a bias by a table of relative places."""

    def __init__(self, dim=8, side=8, ws=4, heads=2):
        super().__init__()
        self.side, self.ws, self.heads, self.shift = side, ws, heads, ws // 2
        self.table = nn.Parameter(torch.zeros((2 * ws - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        coords = torch.stack(torch.meshgrid([torch.arange(ws), torch.arange(ws)], indexing="ij"))
        rel = coords.flatten(1)[:, :, None] - coords.flatten(1)[:, None, :]
        rel = rel.permute(1, 2, 0).contiguous()
        rel[:, :, 0] += ws - 1
        rel[:, :, 1] += ws - 1
        rel[:, :, 0] *= 2 * ws - 1
        self.register_buffer("rel", rel.sum(-1))
        self.norm, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.embed, self.head = nn.Conv2d(1, dim, 1), nn.Linear(dim, 4)

    def windows(self, x):
        b, h, w, c = x.shape
        x = x.view(b, h // self.ws, self.ws, w // self.ws, self.ws, c)
        return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, self.ws, self.ws, c)

    def mask(self):
        mask = torch.zeros((1, self.side, self.side, 1))
        parts = (slice(0, -self.ws), slice(-self.ws, -self.shift), slice(-self.shift, None))
        count = 0
        for h in parts:
            for w in parts:
                mask[:, h, w, :] = count
                count += 1
        windows = self.windows(mask).view(-1, self.ws * self.ws)
        different = windows.unsqueeze(1) - windows.unsqueeze(2)
        return different.masked_fill(different != 0, -100.0).masked_fill(different == 0, 0.0)

    def forward(self, image):
        x = self.embed(image).permute(0, 2, 3, 1)
        shifted = torch.roll(self.norm(x), shifts=(-self.shift, -self.shift), dims=(1, 2))
        w = self.windows(shifted).view(-1, self.ws ** 2, x.shape[-1])
        b, n, c = w.shape
        qkv = self.qkv(w).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1)
        bias = self.table[self.rel.view(-1)].view(n, n, -1).permute(2, 0, 1).contiguous()
        attn = attn + bias.unsqueeze(0)
        mask = self.mask()
        attn = attn.view(b // mask.shape[0], mask.shape[0], self.heads, n, n)
        attn = (attn + mask.unsqueeze(1).unsqueeze(0)).view(-1, self.heads, n, n).softmax(-1)
        w = self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))
        w = w.view(-1, self.side // self.ws, self.side // self.ws, self.ws, self.ws, c)
        y = w.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, self.side, self.side, c)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return self.head(x.flatten(1, 2).mean(1))


class Conformer(nn.Module):
    """A conformer block: half steps, relative shift by a padded view, gated convolutions."""

    def __init__(self, d=8, h=2):
        super().__init__()
        self.h, self.dk = h, d // h
        self.ffs = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 16), nn.SiLU(),
                                               nn.Linear(16, d)) for _ in range(2))
        self.q, self.k, self.v, self.pos = (nn.Linear(d, d) for _ in range(4))
        self.u, self.w = (nn.Parameter(torch.Tensor(h, self.dk)) for _ in range(2))
        nn.init.xavier_uniform_(self.u), nn.init.xavier_uniform_(self.w)
        self.norm, self.last = nn.LayerNorm(d), nn.LayerNorm(d)
        self.point, self.out = nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 1)
        self.depth, self.bn = nn.Conv1d(d, d, 3, padding=1, groups=d), nn.BatchNorm1d(d)
        self.head = nn.Linear(d, 5)

    def relative(self, score):
        b, h, t, s = score.size()
        zeros = score.new_zeros(b, h, t, 1)
        padded = torch.cat([zeros, score], dim=-1).view(b, h, s + 1, t)
        return padded[:, :, 1:].view_as(score)[:, :, :, : s // 2 + 1]

    def attend(self, x):
        b, t, d = x.shape
        steps = torch.arange(t - 1, -t, -1.0).unsqueeze(1)
        freq = torch.exp(torch.arange(0, d, 2.0) * -(math.log(10000.0) / d))
        table = torch.cat([torch.sin(steps * freq), torch.cos(steps * freq)], 1)
        q = self.q(x).view(b, t, self.h, self.dk)
        k = self.k(x).view(b, t, self.h, self.dk).permute(0, 2, 1, 3)
        v = self.v(x).view(b, t, self.h, self.dk).permute(0, 2, 1, 3)
        p = self.pos(table).view(1, -1, self.h, self.dk).permute(0, 2, 3, 1)
        content = torch.matmul((q + self.u).transpose(1, 2), k.transpose(2, 3))
        place = self.relative(torch.matmul((q + self.w).transpose(1, 2), p))
        attn = F.softmax((content + place) / math.sqrt(d), -1)
        return torch.matmul(attn, v).transpose(1, 2).contiguous().view(b, -1, d)

    def forward(self, x):
        x = x + 0.5 * self.ffs[0](x)
        x = x + self.attend(self.norm(x))
        y = F.glu(self.point(x.transpose(1, 2)), dim=1)
        x = x + self.out(F.silu(self.bn(self.depth(y)))).transpose(1, 2)
        x = self.last(x + 0.5 * self.ffs[1](x))
        return self.head(x).log_softmax(-1).transpose(1, 2)


class Tacotron(nn.Module):
    """A decoder whose attention sees where it has been; frames are collected in a list."""

    def __init__(self, d=6):
        super().__init__()
        self.embedding = nn.Embedding(15, d)
        self.encoder = nn.LSTM(d, d // 2, 1, batch_first=True, bidirectional=True)
        self.prenet = nn.Sequential(nn.Linear(4, d), nn.ReLU())
        self.attention_rnn, self.decoder_rnn = nn.LSTMCell(2 * d, d), nn.LSTMCell(2 * d, d)
        self.query, self.memory = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.location = nn.Sequential(nn.Conv1d(2, 4, 5, padding=2, bias=False))
        self.dense, self.v = nn.Linear(4, d, bias=False), nn.Linear(d, 1, bias=False)
        self.projection, self.gate = nn.Linear(2 * d, 4), nn.Linear(2 * d, 1)

    def forward(self, text, lengths, mels):
        memory, _ = self.encoder(self.embedding(text))
        b, n, d = memory.shape
        mask = ~(torch.arange(n)[None, :] < lengths[:, None])
        processed = self.memory(memory)
        frames = torch.cat([torch.zeros_like(mels[:, :1]), mels[:, :-1]], 1).transpose(0, 1)
        hidden, cell, h2, c2 = (memory.data.new(b, d).zero_() for _ in range(4))
        weights, total = memory.new_zeros(b, n), memory.new_zeros(b, n)
        context = memory.new_zeros(b, d)
        outputs, gates = [], []
        for frame in frames:
            inputs = torch.cat((self.prenet(frame), context), -1)
            hidden, cell = self.attention_rnn(inputs, (hidden, cell))
            past = torch.cat((weights.unsqueeze(1), total.unsqueeze(1)), dim=1)
            where = self.dense(self.location(past).transpose(1, 2))
            energy = self.v(torch.tanh(self.query(hidden.unsqueeze(1)) + where + processed)).squeeze(-1)
            energy.data.masked_fill_(mask, -1e4)
            weights = F.softmax(energy, dim=1)
            total = total + weights
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            h2, c2 = self.decoder_rnn(torch.cat((hidden, context), -1), (h2, c2))
            both = torch.cat((h2, context), dim=1)
            outputs += [self.projection(both)]
            gates += [self.gate(both).squeeze(1)]
        mel = torch.stack(outputs).transpose(0, 1).contiguous()
        return F.mse_loss(mel, mels) + F.binary_cross_entropy_with_logits(
            torch.stack(gates, 1), torch.zeros(b, len(gates)).index_fill(1, torch.tensor([3]), 1.0))


class SetPrediction(nn.Module):
    """DETR's decoder with trained queries, and its losses for boxes in a fixed order."""

    def __init__(self, d=8, queries=3):
        super().__init__()
        self.backbone = nn.Conv2d(3, d, 4, 4)
        self.transformer = nn.Transformer(d, 2, 1, 1, 16, dropout=0.0)
        self.query_pos = nn.Parameter(torch.rand(queries, d))
        self.row, self.col = nn.Parameter(torch.rand(10, d // 2)), nn.Parameter(torch.rand(10, d // 2))
        self.classes, self.box = nn.Linear(d, 4), nn.Linear(d, 4)

    def forward(self, x):
        h = self.backbone(x)
        H, W = h.shape[-2:]
        pos = torch.cat([self.col[:W].unsqueeze(0).repeat(H, 1, 1),
                         self.row[:H].unsqueeze(1).repeat(1, W, 1)], dim=-1).flatten(0, 1).unsqueeze(1)
        h = self.transformer(pos + 0.1 * h.flatten(2).permute(2, 0, 1),
                             self.query_pos.unsqueeze(1).repeat(1, x.shape[0], 1)).transpose(0, 1)
        return {"pred_logits": self.classes(h), "pred_boxes": self.box(h).sigmoid()}


def set_loss(outputs, targets):
    """Classes with a small weight for nothing, and boxes where there is an object."""
    weight = torch.ones(4)
    weight[-1] = 0.1
    ce = F.cross_entropy(outputs["pred_logits"].transpose(1, 2), targets["labels"], weight)
    there = (targets["labels"] != 3).float()
    l1 = F.l1_loss(outputs["pred_boxes"], targets["boxes"], reduction="none").sum(-1)
    def corners(b):
        cx, cy, w, h = b.unbind(-1)
        return torch.stack([cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h], dim=-1)
    a, b = corners(outputs["pred_boxes"]), corners(targets["boxes"])
    def area(box):
        return (box[..., 2:] - box[..., :2]).clamp(min=0).prod(-1)
    inner = torch.cat([torch.max(a[..., :2], b[..., :2]), torch.min(a[..., 2:], b[..., 2:])], -1)
    outer = torch.cat([torch.min(a[..., :2], b[..., :2]), torch.max(a[..., 2:], b[..., 2:])], -1)
    union = area(a) + area(b) - area(inner)
    giou = 1 - area(inner) / union + (area(outer) - union) / area(outer)
    return ce + ((5 * l1 + 2 * giou) * there).sum() / there.sum().clamp(min=1)


class CenterNet(nn.Module):
    """Heat maps of centres with features picked at them."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.Hardswish(True),
                                  nn.ConvTranspose2d(8, 8, 3, 2, 1, output_padding=1), nn.ReLU6(True))
        self.hm, self.wh = nn.Conv2d(8, 2, 1), nn.Conv2d(8, 2, 1)
        self.hm.bias.data.fill_(-2.19)

    def forward(self, x):
        h = self.body(x)
        return {"hm": self.hm(h), "wh": self.wh(h)}


def centre_loss(outputs, batch):
    """The focal loss of CornerNet, and an L1 loss at the centres that exist."""
    pred = torch.clamp(outputs["hm"].sigmoid_(), min=1e-4, max=1 - 1e-4)
    gt = batch["heat"]
    pos_inds, neg_inds = gt.eq(1).float(), gt.lt(1).float()
    neg_weights = torch.pow(1 - gt, 4)
    pos = (torch.log(pred) * torch.pow(1 - pred, 2) * pos_inds).sum()
    neg = (torch.log(1 - pred) * torch.pow(pred, 2) * neg_weights * neg_inds).sum()
    count = pos_inds.float().sum()
    focal = -(pos + neg) / torch.clamp(count, min=1)
    feat = outputs["wh"].permute(0, 2, 3, 1).contiguous()
    feat = feat.view(feat.size(0), -1, feat.size(3))
    ind = batch["ind"].unsqueeze(2).expand(feat.size(0), batch["ind"].size(1), feat.size(2))
    picked = feat.gather(1, ind)
    mask = batch["mask"].unsqueeze(2).expand_as(picked).float()
    l1 = F.l1_loss(picked * mask, batch["sizes"] * mask, reduction="sum") / (mask.sum() + 1e-4)
    return focal + 0.1 * l1


class Ssd(nn.Module):
    """Two levels of anchors with heads of their own."""

    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)])
        self.l2 = nn.Parameter(torch.full((8,), 20.0))
        self.loc = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(2)])
        self.conf = nn.ModuleList([nn.Conv2d(8, 6, 3, padding=1) for _ in range(2)])

    def forward(self, x):
        loc, conf = list(), list()
        for i, stage in enumerate(self.stages):
            x = F.silu(stage(x), inplace=True)
            h = x / (x.pow(2).sum(dim=1, keepdim=True).sqrt() + 1e-10) * self.l2[None, :, None, None]
            loc.append(self.loc[i](h).permute(0, 2, 3, 1).contiguous())
            conf.append(self.conf[i](h).permute(0, 2, 3, 1).contiguous())
        loc = torch.cat([o.view(o.size(0), -1) for o in loc], 1)
        conf = torch.cat([o.view(o.size(0), -1) for o in conf], 1)
        return loc.view(loc.size(0), -1, 4), conf.view(conf.size(0), -1, 3)


def multibox_loss(outputs, targets):
    """Boxes of anchors with an object, and the hardest of the others by two sorts."""
    loc, conf = outputs
    loc_t, conf_t = targets["boxes"], targets["classes"]
    pos = conf_t > 0
    pos_idx = pos.unsqueeze(pos.dim()).expand_as(loc)
    loss_l = F.smooth_l1_loss(loc[pos_idx].view(-1, 4), loc_t[pos_idx].view(-1, 4), reduction="sum")
    loss_c = F.cross_entropy(conf.view(-1, 3), conf_t.view(-1), reduction="none").view_as(conf_t)
    mined = loss_c.detach().clone()
    mined[pos] = 0
    _, idx = mined.sort(1, descending=True)
    _, rank = idx.sort(1)
    num_pos = pos.long().sum(1, keepdim=True)
    neg = rank < torch.clamp(3 * num_pos, max=pos.size(1) - 1)
    total = (loss_c * (pos | neg).float()).sum()
    return (loss_l + total) / num_pos.sum().float().clamp(min=1)


class Crnn(nn.Module):
    """Reads a line of text: columns of a picture, recurrent layers, CTC."""

    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential()
        for i, (n, m) in enumerate(((1, 4), (4, 8))):
            self.cnn.add_module(f"conv{i}", nn.Conv2d(n, m, 3, 1, 1))
            self.cnn.add_module(f"norm{i}", nn.BatchNorm2d(m))
            self.cnn.add_module(f"pool{i}", nn.MaxPool2d((2, 2), (2, 1), (0, 1)))
        self.rnn = nn.GRU(8, 6, bidirectional=True, num_layers=2)
        self.fc = nn.Linear(12, 7)

    def forward(self, x):
        conv = self.cnn(x)
        b, c, h, w = conv.size()
        assert h == 1, "the height of conv must be 1"
        conv = conv.squeeze(2).permute(2, 0, 1)
        recurrent, _ = self.rnn(conv)
        T, b, h = recurrent.size()
        return self.fc(recurrent.view(T * b, h)).view(T, b, -1)


def line_loss(logits, labels):
    """CTC over [time, samples, classes]."""
    log_probs = logits.log_softmax(2)
    lengths = torch.full((log_probs.size(1),), log_probs.size(0), dtype=torch.long)
    return nn.CTCLoss(zero_infinity=True)(log_probs, labels, lengths, (labels > 0).sum(1))


class SoftDtw(nn.Module):
    """A differentiable alignment of two series, cell by cell."""

    def __init__(self, gamma=0.5):
        super().__init__()
        self.gamma, self.net = gamma, nn.GRU(2, 3, batch_first=True)

    def forward(self, x, y):
        a, _ = self.net(x)
        d = torch.pow(a.unsqueeze(2) - y.unsqueeze(1), 2).sum(3)
        b, n, m = d.shape
        r = [[d.new_full((b,), 1e6) for _ in range(m + 1)] for _ in range(n + 1)]
        r[0][0] = d.new_zeros(b)
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                options = torch.stack((r[i - 1][j - 1], r[i - 1][j], r[i][j - 1]), -1)
                softmin = -self.gamma * torch.logsumexp(-options / self.gamma, dim=-1)
                r[i][j] = d[:, i - 1, j - 1] + softmin
        return r[n][m].mean()


class Hamiltonian(nn.Module):
    """The derivatives of an energy give the motion."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 12), nn.Softplus(),
                                 nn.Linear(12, 1, bias=False))
        self.register_buffer("j", torch.cat([torch.eye(4)[2:], -torch.eye(4)[:2]]))

    def forward(self, x):
        with torch.enable_grad():
            x = x.clone().requires_grad_()
            energy = self.net(x)
            slope = torch.autograd.grad(energy.sum(), x, create_graph=True)[0]
        return slope @ self.j.t()


class Egnn(nn.Module):
    """An equivariant graph network over all pairs."""

    class Layer(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.edge = nn.Sequential(nn.Linear(2 * d + 1, 8), nn.SiLU(), nn.Linear(8, 8), nn.SiLU())
            self.node = nn.Sequential(nn.Linear(d + 8, 8), nn.SiLU(), nn.Linear(8, d))
            self.coord = nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 1, bias=False))
            nn.init.xavier_uniform_(self.coord[-1].weight, gain=0.01)

        def forward(self, h, x, mask):
            n = h.size(1)
            diff = x[:, :, None] - x[:, None]
            square = (diff ** 2).sum(-1, keepdim=True)
            pair = torch.cat([h[:, :, None].expand(-1, -1, n, -1),
                              h[:, None].expand(-1, n, -1, -1), square], -1)
            m = self.edge(pair) * mask
            norm = diff / (torch.sqrt(square + 1e-8) + 1)
            x = x + (norm * self.coord(m) * mask).sum(2) / (n - 1)
            return h + self.node(torch.cat([h, m.sum(2)], -1)), x

    def __init__(self, d=4):
        super().__init__()
        self.embed = nn.Embedding(5, d, padding_idx=0)
        self.layers = nn.ModuleList([self.Layer(d) for _ in range(2)])
        self.head = nn.Linear(d, 1)

    def forward(self, kinds, x):
        there = kinds > 0
        mask = there[:, :, None] & there[:, None, :]
        mask = mask & ~torch.eye(kinds.size(1), dtype=torch.bool)
        mask = mask.unsqueeze(-1).to(x.dtype)
        h = self.embed(kinds)
        for layer in self.layers:
            h, x = layer(h, x, mask)
        return (self.head(h).squeeze(-1) * there).sum(1), x


def molecule_loss(outputs, targets):
    """Energies and places."""
    energy, places = outputs
    return F.mse_loss(energy, targets["energy"]) + 0.5 * (places - targets["places"]).abs().mean()


class Schnet(nn.Module):
    """A potential whose forces are minus its gradient; both are trained."""

    def __init__(self, d=6):
        super().__init__()
        self.embedding = nn.Embedding(4, d)
        offset = torch.linspace(0.0, 4.0, 5)
        self.coeff = -0.5 / (offset[1] - offset[0]).item() ** 2
        self.register_buffer("offset", offset)
        self.filters = nn.Sequential(nn.Linear(5, d), nn.Softplus(), nn.Linear(d, d))
        self.dense, self.out = nn.Linear(d, d), nn.Linear(d, 1)

    def forward(self, z, pos, energy, forces):
        pos = pos.detach().requires_grad_(True)
        i, j = torch.triu_indices(pos.size(1), pos.size(1), 1)
        distance = (pos[:, i] - pos[:, j]).norm(dim=-1)
        rbf = torch.exp(self.coeff * torch.pow(distance.unsqueeze(-1) - self.offset, 2))
        cut = 0.5 * (torch.cos(distance * math.pi / 5.0) + 1.0) * (distance < 5.0).float()
        w = self.filters(rbf) * cut.unsqueeze(-1)
        x = self.embedding(z)
        message = torch.zeros_like(x)
        message = message.index_add(1, i, x[:, j] * w).index_add(1, j, x[:, i] * w)
        atom = self.out(F.softplus(self.dense(x + message)) - math.log(2.0))
        total = atom.sum(dim=1).squeeze(-1)
        grad, = torch.autograd.grad([total], [pos], grad_outputs=[torch.ones_like(total)],
                                    create_graph=True, retain_graph=True)
        return F.mse_loss(total, energy) + 10 * F.mse_loss(-grad, forces)


class SetTransformer(nn.Module):
    """Induced points, and seeds that pool."""

    class Mab(nn.Module):
        def __init__(self, d, heads=2):
            super().__init__()
            self.heads, self.d = heads, d
            self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
            self.ln0, self.ln1 = nn.LayerNorm(d), nn.LayerNorm(d)

        def forward(self, Q, K):
            Q, K, V = self.q(Q), self.k(K), self.v(K)
            split = self.d // self.heads
            Q_, K_, V_ = (torch.cat(x.split(split, 2), 0) for x in (Q, K, V))
            A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(self.d), 2)
            O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)
            O = self.ln0(O)
            return self.ln1(O + F.relu(self.o(O)))

    def __init__(self, d=6):
        super().__init__()
        self.first = nn.Linear(2, d)
        self.inducing, self.seeds = nn.Parameter(torch.Tensor(1, 3, d)), nn.Parameter(torch.Tensor(1, 2, d))
        nn.init.xavier_uniform_(self.inducing), nn.init.xavier_uniform_(self.seeds)
        self.mabs = nn.ModuleList(self.Mab(d) for _ in range(3))
        self.out = nn.Linear(d, 5)

    def forward(self, x):
        x = self.first(x)
        h = self.mabs[0](self.inducing.repeat(x.size(0), 1, 1), x)
        x = self.mabs[1](x, h)
        return self.out(self.mabs[2](self.seeds.repeat(x.size(0), 1, 1), x))


def mixture_loss(params, points):
    """The likelihood of points in a mixture of two round normals."""
    weights, means, scales = params[..., 0], params[..., 1:3], F.softplus(params[..., 3:]) + 1e-3
    z = (points.unsqueeze(2) - means.unsqueeze(1)) / scales.unsqueeze(1)
    log_prob = -0.5 * z.pow(2).sum(-1) - scales.log().sum(-1).unsqueeze(1) - math.log(2 * math.pi)
    return -torch.logsumexp(log_prob + F.log_softmax(weights, 1).unsqueeze(1), 2).mean()


class SlotAttention(nn.Module):
    """Slots compete for places; their beginnings are drawn."""

    def __init__(self, slots=3, d=6):
        super().__init__()
        self.slots, self.scale = slots, d ** -0.5
        self.mu, self.log_sigma = nn.Parameter(torch.randn(1, 1, d)), nn.Parameter(torch.zeros(1, 1, d))
        self.to_q, self.to_k, self.to_v = nn.Linear(d, d), nn.Linear(4, d), nn.Linear(4, d)
        self.gru = nn.GRUCell(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 8), nn.ReLU(inplace=True), nn.Linear(8, d))
        self.norm_in, self.norm_slots, self.norm_ff = nn.LayerNorm(4), nn.LayerNorm(d), nn.LayerNorm(d)
        self.decode = nn.Linear(d, 4 + 1)
        self.place = nn.Parameter(torch.randn(1, 1, 8, d))

    def forward(self, inputs):
        b, n, d = *inputs.shape[:2], self.mu.shape[-1]
        mu, sigma = self.mu.expand(b, self.slots, -1), self.log_sigma.exp().expand(b, self.slots, -1)
        slots = mu + sigma * torch.randn(mu.shape, device=inputs.device)
        inputs = self.norm_in(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(2):
            slots_prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
            attn = dots.softmax(dim=1) + 1e-8
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, d), slots_prev.reshape(-1, d)).reshape(b, -1, d)
            slots = slots + self.mlp(self.norm_ff(slots))
        values, masks = self.decode(slots.unsqueeze(2) + self.place).split((4, 1), -1)
        return (values * masks.softmax(1)).sum(1)


class GumbelVae(nn.Module):
    """Discrete codes that pass their gradient straight through."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 5, 1))
        self.codebook = nn.Embedding(5, 6)
        self.decoder = nn.Sequential(nn.ConvTranspose2d(6, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 1, 1))

    def forward(self, img):
        logits = self.encoder(img)
        hot = F.gumbel_softmax(logits, tau=0.9, dim=1, hard=True)
        sampled = torch.einsum("b n h w, n d -> b d h w", hot, self.codebook.weight)
        out = self.decoder(sampled)
        log_qy = F.log_softmax(logits.permute(0, 2, 3, 1).reshape(img.shape[0], -1, 5), dim=-1)
        log_uniform = torch.log(torch.tensor([1.0 / 5]))
        kl = F.kl_div(log_uniform, log_qy, None, None, "batchmean", log_target=True)
        return F.mse_loss(img, out) + 0.01 * kl


class TotalCorrelation(nn.Module):
    """beta-TCVAE: the densities of all codes under all posteriors of the mini-batch."""

    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(8, 6), nn.Linear(3, 8)

    @staticmethod
    def density(x, mu, logvar):
        return -0.5 * (math.log(2 * math.pi) + logvar + (x - mu) ** 2 * torch.exp(-logvar))

    def forward(self, x):
        mu, logvar = torch.split(self.enc(x), 3, 1)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        recon = F.binary_cross_entropy_with_logits(self.dec(z), x.sigmoid(), reduction="sum")
        log_q = self.density(z, mu, logvar).sum(dim=1)
        log_p = self.density(z, torch.zeros_like(z), torch.zeros_like(z)).sum(dim=1)
        mat = self.density(z.view(z.shape[0], 1, -1), mu.view(1, z.shape[0], -1),
                           logvar.view(1, z.shape[0], -1))
        mat = mat - math.log(100)
        log_qz = torch.logsumexp(mat.sum(2), dim=1)
        log_prod = torch.logsumexp(mat, dim=1).sum(1)
        return (recon / x.shape[0] + (log_q - log_qz).mean() + 2 * (log_qz - log_prod).mean()
                + (log_prod - log_p).mean())


class Glow(nn.Module):
    """Squeezes, scales, mixes channels by a matrix with a determinant, and couples."""

    class Step(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.bias, self.logs = (nn.Parameter(torch.zeros(1, c, 1, 1)) for _ in range(2))
            w = torch.linalg.qr(torch.randn(c, c))[0]
            self.register_buffer("p", torch.eye(c).flip(0))
            self.l, self.u = nn.Parameter(0.1 * w.tril(-1)), nn.Parameter(0.1 * w.triu(1))
            self.register_buffer("sign", torch.sign(torch.diagonal(w)))
            self.log_s = nn.Parameter(torch.zeros(c))
            self.net = nn.Sequential(nn.Conv2d(c // 2, 8, 3, padding=1), nn.ReLU(),
                                     nn.Conv2d(8, c, 3, padding=1))

        def forward(self, x, logdet):
            b, c, h, w = x.shape
            x = (x + self.bias) * torch.exp(self.logs)
            logdet = logdet + self.logs.sum() * h * w
            eye = torch.eye(c)
            lower = self.l * torch.tril(torch.ones(c, c), -1) + eye
            upper = self.u * torch.tril(torch.ones(c, c), -1).t().contiguous()
            upper += torch.diag(self.sign * torch.exp(self.log_s))
            x = F.conv2d(x, (self.p @ lower @ upper).view(c, c, 1, 1))
            logdet = logdet + self.log_s.sum() * h * w
            x1, x2 = x.chunk(2, 1)
            shift, scale = self.net(x1)[:, 0::2, ...], self.net(x1)[:, 1::2, ...]
            scale = torch.sigmoid(scale + 2.0)
            x2 = (x2 + shift) * scale
            return torch.cat([x1, x2], 1), logdet + torch.log(scale).sum(dim=[1, 2, 3])

    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleList([self.Step(4) for _ in range(2)])

    def forward(self, x):
        b, c, h, w = x.size()
        x = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(b, 4 * c, h // 2, w // 2)
        logdet = torch.zeros(b)
        for step in self.steps:
            x, logdet = step(x, logdet)
        prior = -0.5 * (x ** 2 + math.log(2 * math.pi)).flatten(1).sum(-1)
        return -((prior + logdet) / (math.log(2.0) * c * h * w)).mean()


class Tft(nn.Module):
    """Gated residual networks, a selection of variables, and quantiles."""

    class Grn(nn.Module):
        def __init__(self, n, d, m=None, context=None):
            super().__init__()
            m = m or n
            self.skip = nn.Linear(n, m) if n != m else nn.Identity()
            self.fc1, self.fc2, self.gate = nn.Linear(n, d), nn.Linear(d, d), nn.Linear(d, 2 * m)
            self.context = nn.Linear(context, d, bias=False) if context else None
            self.norm = nn.LayerNorm(m)

        def forward(self, x, context=None):
            h = self.fc1(x)
            if self.context is not None and context is not None:
                h = h + self.context(context)
            return self.norm(F.glu(self.gate(self.fc2(F.elu(h)))) + self.skip(x))

    def __init__(self, d=6, variables=3):
        super().__init__()
        self.embed = nn.ModuleList([nn.Linear(1, d) for _ in range(variables)])
        self.static = nn.Embedding(4, d)
        self.select = self.Grn(variables * d, d, variables, d)
        self.each = nn.ModuleList([self.Grn(d, d) for _ in range(variables)])
        self.lstm = nn.LSTM(d, d, batch_first=True)
        self.attention = nn.MultiheadAttention(d, 2, batch_first=True, bias=False)
        self.out = nn.Linear(d, 3)

    def forward(self, x, group):
        s = self.static(group)
        parts = [layer(x[..., i : i + 1]) for i, layer in enumerate(self.embed)]
        flat = torch.cat(parts, -1)
        weights = self.select(flat, s.unsqueeze(1)).softmax(-1).unsqueeze(2)
        stacked = torch.stack([grn(p) for grn, p in zip(self.each, parts)], dim=-1)
        h = (weights * stacked).sum(-1)
        state = s.unsqueeze(0)
        h, _ = self.lstm(h, (state, torch.zeros_like(state)))
        mask = torch.ones(h.size(1), h.size(1)).triu(1).bool()
        a, w = self.attention(h[:, -2:], h, h, attn_mask=mask[-2:], average_attn_weights=True)
        return self.out(a + h[:, -2:])


def quantile_loss(outputs, target):
    """Quantiles as a list of losses."""
    losses = []
    for i, q in enumerate((0.1, 0.5, 0.9)):
        errors = target - outputs[..., i]
        losses.append(torch.max((q - 1) * errors, q * errors).unsqueeze(-1))
    return torch.mean(torch.sum(torch.cat(losses, dim=-1), dim=-1))


class PatchTst(nn.Module):
    """Channels as samples, patches as tokens, and statistics that are put back."""

    def __init__(self, d=8):
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(2)), nn.Parameter(torch.zeros(2))
        self.pad = nn.ReplicationPad1d((0, 2))
        self.patch, self.pos = nn.Linear(4, d), nn.Parameter(torch.zeros(1, 7, d).uniform_(-0.02, 0.02))
        layer = nn.TransformerEncoderLayer(d, 2, 16, dropout=0.0, activation=F.gelu, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.BatchNorm1d(d), nn.Linear(7 * d, 4)

    def forward(self, x):
        mean = x.mean(1, keepdim=True).detach()
        std = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + 1e-5).detach()
        x = (x - mean) / std * self.gain + self.bias
        x = self.pad(x.permute(0, 2, 1)).unfold(dimension=-1, size=4, step=2)
        b, m, n, p = x.shape
        h = self.encoder(self.patch(torch.reshape(x, (b * m, n, p))) + self.pos)
        h = self.norm(h.transpose(1, 2)).transpose(1, 2)
        y = self.head(h.reshape(b, m, -1)).permute(0, 2, 1)
        return (y - self.bias) / (self.gain + 1e-10) * std + mean


class Autocorrelation(nn.Module):
    """Autoformer: correlations by Fourier transforms, the best delays by gathered indices."""

    def __init__(self, d=4):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(3 if i < 3 else d, d) for i in range(4))
        self.average = nn.AvgPool1d(3, stride=1, padding=0)

    def forward(self, x):
        q, k, v = (f(x).permute(0, 2, 1) for f in (self.q, self.k, self.v))
        length = q.size(-1)
        corr = torch.fft.irfft(torch.fft.rfft(q, dim=-1) * torch.conj(torch.fft.rfft(k, dim=-1)),
                               n=length, dim=-1)
        weights, delay = torch.topk(corr.mean(dim=1), 2, dim=-1)
        weights = torch.softmax(weights, dim=-1)
        index = torch.arange(length).unsqueeze(0).unsqueeze(0).repeat(v.size(0), v.size(1), 1)
        double = v.repeat(1, 1, 2)
        total = torch.zeros_like(v)
        for i in range(2):
            pattern = torch.gather(double, -1, index + delay[:, i, None, None])
            total = total + pattern * weights[:, i].unsqueeze(1).unsqueeze(1)
        front, end = total[..., 0:1].repeat(1, 1, 1), total[..., -1:].repeat(1, 1, 1)
        trend = self.average(torch.cat([front, total, end], dim=-1))
        return self.out((total - trend).permute(0, 2, 1)).mean(1)


class SasRec(nn.Module):
    """Recommends by the items so far; the items themselves are the classifier."""

    def __init__(self, items=20, d=8, length=6):
        super().__init__()
        self.item_emb, self.pos_emb = nn.Embedding(items + 1, d, padding_idx=0), nn.Embedding(length, d)
        self.attention_norms, self.attentions = nn.ModuleList(), nn.ModuleList()
        self.forward_norms, self.forwards = nn.ModuleList(), nn.ModuleList()
        self.last_norm = nn.LayerNorm(d, eps=1e-8)
        for _ in range(2):
            self.attention_norms.append(nn.LayerNorm(d, eps=1e-8))
            self.attentions.append(nn.MultiheadAttention(d, 2, 0.0))
            self.forward_norms.append(nn.LayerNorm(d, eps=1e-8))
            self.forwards.append(nn.Sequential(nn.Conv1d(d, d, 1), nn.ReLU(), nn.Conv1d(d, d, 1)))

    def features(self, log_seqs):
        seqs = self.item_emb(log_seqs)
        seqs *= self.item_emb.embedding_dim ** 0.5
        seqs += self.pos_emb(torch.arange(log_seqs.shape[1]).expand_as(log_seqs))
        timeline = log_seqs == 0
        seqs *= ~timeline.unsqueeze(-1)
        mask = ~torch.tril(torch.ones((seqs.shape[1], seqs.shape[1]), dtype=torch.bool))
        for n1, attention, n2, forward in zip(self.attention_norms, self.attentions,
                                              self.forward_norms, self.forwards):
            seqs = torch.transpose(seqs, 0, 1)
            q = n1(seqs)
            h, _ = attention(q, seqs, seqs, attn_mask=mask)
            seqs = torch.transpose(q + h, 0, 1)
            seqs = n2(seqs)
            seqs = forward(seqs.transpose(-1, -2)).transpose(-1, -2) + seqs
            seqs *= ~timeline.unsqueeze(-1)
        return self.last_norm(seqs)

    def forward(self, log_seqs, pos_seqs, neg_seqs):
        h = self.features(log_seqs)
        pos = (h * self.item_emb(pos_seqs)).sum(dim=-1)
        neg = (h * self.item_emb(neg_seqs)).sum(dim=-1)
        where = (pos_seqs != 0).float()
        loss = -(torch.log(torch.sigmoid(pos) + 1e-24) + torch.log(1 - torch.sigmoid(neg) + 1e-24))
        return (loss * where).sum() / where.sum()


class TwoTower(nn.Module):
    """Users and items meet in the mini-batch; a trained temperature and corrected frequencies."""

    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(12, 8), nn.Embedding(15, 8)
        self.tower = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
        self.temperature = nn.Parameter(torch.tensor(0.1).log())
        self.register_buffer("frequency", torch.rand(15) + 0.1)

    def forward(self, user, item):
        u = F.normalize(self.tower(self.users(user)), p=2, dim=-1)
        i = F.normalize(self.tower(self.items(item)), p=2.0, dim=-1)
        logits = u @ i.t() / self.temperature.exp() - self.frequency[item].log().unsqueeze(0)
        same = item.unsqueeze(0) == item.unsqueeze(1)
        logits = logits.masked_fill(same.fill_diagonal_(False), -1e4)
        labels = torch.arange(user.size(0), device=user.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


class Ppo(nn.Module):
    """The losses of PPO from one mini-batch, with an entropy and advantages by a reversed loop."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(4, 12), nn.Tanh())
        self.policy, self.value = nn.Linear(12, 3), nn.Linear(12, 1)

    def forward(self, states, actions, rewards, dones, old):
        h = self.shared(states)
        dist = torch.distributions.Categorical(logits=self.policy(h))
        values = self.value(h).squeeze(-1)
        with torch.no_grad():
            advantages = torch.zeros_like(rewards)
            last = torch.zeros_like(rewards[:, 0])
            for t in reversed(range(rewards.size(1) - 1)):
                delta = rewards[:, t] + 0.9 * values[:, t + 1] * (1 - dones[:, t]) - values[:, t]
                advantages[:, t] = last = delta + 0.8 * (1 - dones[:, t]) * last
            returns = advantages + values
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = torch.exp(dist.log_prob(actions) - old)
        s1, s2 = ratio * advantages, torch.clamp(ratio, 0.8, 1.2) * advantages
        actor = -torch.min(s1, s2).mean()
        clipped = values.detach() + (values - values.detach()).clamp(-0.2, 0.2)
        critic = torch.max((values - returns) ** 2, (clipped - returns) ** 2).mean()
        return actor + 0.5 * critic - 0.01 * dist.entropy().mean()


class C51(nn.Module):
    """Distributional Q-learning: a projection by index_add over the flat mini-batch."""

    def __init__(self, atoms=5):
        super().__init__()
        self.atoms, self.v_min, self.v_max = atoms, -2.0, 2.0
        self.register_buffer("support", torch.linspace(-2.0, 2.0, atoms))
        self.net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 2 * atoms))

    def dist(self, x):
        return F.softmax(self.net(x).view(-1, 2, self.atoms), dim=-1).clamp(min=1e-3)

    def forward(self, state, action, reward, next_state):
        n = state.size(0)
        delta_z = float(self.v_max - self.v_min) / (self.atoms - 1)
        with torch.no_grad():
            following = self.dist(next_state)
            best = (following * self.support).sum(2).argmax(1)
            following = following[range(n), best]
            tz = (reward.unsqueeze(1) + 0.9 * self.support).clamp(min=self.v_min, max=self.v_max)
            b = (tz - self.v_min) / delta_z
            l, u = b.floor().long(), b.ceil().long()
            offset = torch.linspace(0, (n - 1) * self.atoms, n).long().unsqueeze(1)
            offset = offset.expand(n, self.atoms)
            proj = torch.zeros(following.size())
            proj.view(-1).index_add_(0, (l + offset).view(-1), (following * (u.float() - b)).view(-1))
            proj.view(-1).index_add_(0, (u + offset).view(-1), (following * (b - l.float())).view(-1))
        log_p = torch.log(self.dist(state)[range(n), action])
        return -(proj * log_p).sum(1).mean()


class DecisionTransformer(nn.Module):
    """Returns, states and actions take turns in one sequence."""

    def __init__(self, d=8):
        super().__init__()
        self.timestep, self.ret = nn.Embedding(10, d), nn.Linear(1, d)
        self.state, self.action = nn.Linear(3, d), nn.Linear(2, d)
        self.ln = nn.LayerNorm(d)
        self.attn = nn.ModuleList([nn.Linear(d, 3 * d), nn.Linear(d, d)])
        self.mlp = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 16), nn.GELU(), nn.Linear(16, d))
        self.predict = nn.Sequential(nn.Linear(d, 2), nn.Tanh())

    def forward(self, states, actions, returns, times, mask):
        b, t = states.shape[:2]
        te = self.timestep(times)
        parts = (self.ret(returns) + te, self.state(states) + te, self.action(actions) + te)
        x = torch.stack(parts, dim=1).permute(0, 2, 1, 3).reshape(b, 3 * t, -1)
        x = self.ln(x)
        keep = torch.stack((mask, mask, mask), dim=1).permute(0, 2, 1).reshape(b, 3 * t)
        q, k, v = self.attn[0](x).view(b, 3 * t, 3, 2, -1).permute(2, 0, 3, 1, 4)
        causal = torch.ones(3 * t, 3 * t, dtype=torch.bool).tril()
        allowed = causal & keep.bool()[:, None, None, :] | torch.eye(3 * t, dtype=torch.bool)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        x = x + self.attn[1](y.transpose(1, 2).reshape(b, 3 * t, -1))
        x = x + self.mlp(x)
        x = x.reshape(b, t, 3, -1).permute(0, 2, 1, 3)
        action = self.predict(x[:, 1])
        chosen = mask.unsqueeze(-1).expand_as(action) > 0
        return F.mse_loss(action[chosen], actions[chosen])


class StyleTransfer(nn.Module):
    """An image net that frozen features judge: Gram matrices, content and total variation."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(3, 6, 5), nn.InstanceNorm2d(6, affine=True),
                                 nn.ReLU(), nn.Conv2d(6, 3, 3, padding=1))
        self.features = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(inplace=True),
                                      nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.ReLU(inplace=True))
        for p in self.features.parameters():
            p.requires_grad = False
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(-1, 1, 1))
        self.register_buffer("style", torch.rand(1, 3, 12, 12))

    def extract(self, x):
        x, found = (x - self.mean) / 0.22, []
        for name, layer in self.features._modules.items():
            x = layer(x)
            if name in ("1", "3"):
                found.append(x)
        return found

    @staticmethod
    def gram(y):
        b, ch, h, w = y.size()
        f = y.view(b, ch, w * h)
        return f.bmm(f.transpose(1, 2)) / (ch * h * w)

    def forward(self, x):
        y = torch.sigmoid(self.net(x))
        fy, fx, fs = self.extract(y), self.extract(x), self.extract(self.style)
        content = F.mse_loss(fy[1], fx[1])
        style = 0.0
        for a, b in zip(fy, fs):
            g = self.gram(a)
            style += F.mse_loss(g, self.gram(b).expand_as(g))
        tv = (torch.sum(torch.abs(y[:, :, :, :-1] - y[:, :, :, 1:]))
              + torch.sum(torch.abs(y[:, :, :-1, :] - y[:, :, 1:, :]))) / y.numel()
        return content + 10 * style + 0.1 * tv


class Esrgan(nn.Module):
    """Dense residual blocks, with losses of structure (SSIM), edges and Charbonnier."""

    def __init__(self, c=6, g=3):
        super().__init__()
        self.first = nn.Conv2d(3, c, 3, 1, 1)
        for i in range(1, 4):
            self.add_module(f"conv{i}", nn.Conv2d(c + (i - 1) * g, g if i < 3 else c, 3, 1, 1))
        self.up, self.last = nn.Conv2d(c, 4 * c, 3, 1, 1), nn.Conv2d(c, 3, 3, 1, 1)
        self.lrelu = nn.LeakyReLU(negative_slope=0.2, inplace=True)

    def forward(self, x):
        base = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        h = self.first(x)
        x1 = self.lrelu(self.conv1(h))
        x2 = self.lrelu(self.conv2(torch.cat((h, x1), 1)))
        x3 = self.conv3(torch.cat((h, x1, x2), 1))
        h = x3 * 0.2 + h
        return self.last(self.lrelu(F.pixel_shuffle(self.up(h), 2))).add_(base)


def image_loss(a, b):
    """1 - SSIM, edges of a Sobel filter, and Charbonnier."""
    g = torch.exp(-((torch.arange(5).float() - 2) ** 2) / (2 * 1.5 ** 2))
    g = (g / g.sum()).unsqueeze(1)
    window = g.mm(g.t()).float().unsqueeze(0).unsqueeze(0).expand(3, 1, 5, 5).contiguous()
    def blur(x):
        return F.conv2d(x, window, padding=2, groups=3)
    mu1, mu2 = blur(a), blur(b)
    s1, s2, s12 = blur(a * a) - mu1 ** 2, blur(b * b) - mu2 ** 2, blur(a * b) - mu1 * mu2
    ssim = ((2 * mu1 * mu2 + 1e-4) * (2 * s12 + 9e-4)) / (
        (mu1.pow(2) + mu2.pow(2) + 1e-4) * (s1 + s2 + 9e-4))
    sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]).view(1, 1, 3, 3).repeat(3, 1, 1, 1)
    edges = F.conv2d(a - b, sobel, groups=3).abs().mean()
    return 1 - ssim.mean() + edges + torch.sqrt((a - b).pow(2) + 1e-6).mean()


class Raft(nn.Module):
    """Optical flow: all pairs of places, a lookup around the flow so far, convex upsampling."""

    def __init__(self, d=6):
        super().__init__()
        self.fnet = nn.Conv2d(3, d, 3, stride=2, padding=1)
        self.update = nn.Conv2d(9 + 2, 8, 3, padding=1)
        self.flow, self.mask = nn.Conv2d(8, 2, 3, padding=1), nn.Conv2d(8, 4 * 9, 1)

    def forward(self, image1, image2):
        f1, f2 = self.fnet(image1), self.fnet(image2)
        b, d, h, w = f1.shape
        corr = torch.matmul(f1.view(b, d, h * w).transpose(1, 2), f2.view(b, d, h * w)) / d ** 0.5
        corr = corr.reshape(b * h * w, 1, h, w)
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack([xs, ys], dim=0).float()[None].repeat(b, 1, 1, 1)
        coords = grid.clone()
        r = torch.linspace(-1, 1, 3)
        window = torch.stack(torch.meshgrid(r, r, indexing="ij"), axis=-1).view(1, 3, 3, 2)
        for _ in range(2):
            coords = coords.detach()
            centre = coords.permute(0, 2, 3, 1).reshape(b * h * w, 1, 1, 2) + 0.25
            x, y = (centre + window).split([1, 1], dim=-1)
            at = torch.cat([2 * x / (w - 1) - 1, 2 * y / (h - 1) - 1], dim=-1)
            found = F.grid_sample(corr, at, align_corners=True).view(b, h, w, -1).permute(0, 3, 1, 2)
            hidden = F.relu(self.update(torch.cat([found, coords - grid], dim=1)))
            coords = coords + self.flow(hidden)
        mask = torch.softmax(self.mask(hidden).view(b, 1, 9, 2, 2, h, w), dim=2)
        up = F.unfold(2 * (coords - grid), [3, 3], padding=1).view(b, 2, 9, 1, 1, h, w)
        up = torch.sum(mask * up, dim=2).permute(0, 1, 4, 2, 5, 3)
        return up.reshape(b, 2, 2 * h, 2 * w)


class DynamicConv(nn.Module):
    """Kernels that are a mixture for each sample, run as groups; ECA and a stochastic pool."""

    def __init__(self, c=4, kernels=3):
        super().__init__()
        self.c, self.kernels = c, kernels
        self.weight = nn.Parameter(torch.randn(kernels, 8, c, 3, 3) * 0.2, requires_grad=True)
        self.bias = nn.Parameter(torch.zeros(kernels, 8))
        self.route = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, kernels, 1))
        self.eca = nn.Conv1d(1, 1, 3, padding=1, bias=False)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        attention = torch.softmax(self.route(x).view(x.size(0), -1) / 3.0, dim=-1)
        b, c, h, w = x.size()
        weight = torch.mm(attention, self.weight.view(self.kernels, -1)).view(b * 8, c, 3, 3)
        bias = torch.mm(attention, self.bias).view(-1)
        y = F.conv2d(x.view(1, -1, h, w), weight=weight, bias=bias, stride=1, padding=1, groups=b)
        y = y.view(b, 8, y.size(-2), y.size(-1))
        s = self.eca(F.adaptive_avg_pool2d(y, 1).squeeze(-1).transpose(-1, -2))
        y = y * s.transpose(-1, -2).unsqueeze(-1).sigmoid().expand_as(y)
        return self.fc(F.lp_pool2d(y.clamp(min=1e-6).pow(1.0), 2.0, 2).amax((2, 3)))


class Prototypes(nn.Module):
    """Few-shot learning: a sample is an episode of supports and queries."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 4))

    def forward(self, support, query):
        b, way, shot, d = support.shape
        prototypes = self.encoder(support.reshape(-1, d)).reshape(b, way, shot, -1).mean(2)
        z = self.encoder(query.flatten(0, 2)).view(b, -1, 4)
        distance = ((z.unsqueeze(2) - prototypes.unsqueeze(1)) ** 2).sum(-1)
        log_p = F.log_softmax(-distance, dim=-1).view(b, way, -1, way)
        target = torch.arange(0, way).view(1, way, 1, 1).expand(b, way, log_p.size(2), 1).long()
        return -log_p.gather(3, target).squeeze(-1).view(-1).mean()


class Maml(nn.Module):
    """One inner step of gradient descent by functional_call, whose result is trained."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.rate = nn.Parameter(torch.tensor(0.1))

    def forward(self, x, y, x_test, y_test):
        weights = dict(self.net.named_parameters())
        inner = F.mse_loss(functional_call(self.net, weights, x), y)
        grads = torch.autograd.grad(inner, tuple(weights.values()), create_graph=True)
        fast = {name: p - self.rate * g for (name, p), g in zip(weights.items(), grads)}
        return F.mse_loss(functional_call(self.net, fast, (x_test,)), y_test)


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


class TrainedBelief(nn.Module):
    """A Kalman filter with trained matrices, which are inverted in every step."""

    def __init__(self, n=3, m=2):
        super().__init__()
        self.A, self.C = nn.Parameter(0.9 * torch.eye(n)), nn.Parameter(torch.randn(m, n))
        self.log_q, self.log_r = nn.Parameter(torch.zeros(n)), nn.Parameter(torch.zeros(m))

    def forward(self, z):
        b, t, m = z.shape
        n = self.A.size(0)
        x, P = z.new_zeros(b, n, 1), torch.eye(n).expand(b, n, n)
        Q, R = torch.diag(self.log_q.exp()), torch.diag(self.log_r.exp())
        total = 0
        for i in range(t):
            x, P = self.A @ x, self.A @ P @ self.A.mT + Q
            S = self.C @ P @ self.C.T + R
            r = z[:, i].unsqueeze(-1) - self.C @ x
            L = torch.linalg.cholesky(S)
            half = torch.linalg.solve_triangular(L, r, upper=False)
            total = total + 0.5 * half.square().sum((1, 2)) + L.diagonal(dim1=1, dim2=2).log().sum(1)
            K = P @ self.C.T @ torch.linalg.inv(S)
            x, P = x + K @ r, (torch.eye(n) - K @ self.C) @ P
        return (total / t).mean()


CASES = {
    "plain_vit": case(PlainVit, nn.CrossEntropyLoss, lambda: floats(3, 16, 16), lambda: integers(5)),
    "nested_unet": case(NestedUNet, supervised_dice, lambda: floats(3, 16, 16),
                        lambda: integers(2, 16, 16)),
    "ddpm": case(Ddpm, None, lambda: floats(1, 8, 8)),
    "both_players": case(BothPlayers, None, lambda: floats(8)),
    "gin": case(Gin, nn.CrossEntropyLoss, lambda: floats(7, 5), lambda: integers(3)),
    "point_net_2": case(PointNet2, pointnet_loss, lambda: floats(9, 3), lambda: integers(4)),
    "volume_render": case(VolumeRender, None, lambda: {
        "origins": floats(3), "directions": floats(3), "rgb": torch.rand(SAMPLES, 3)}),
    "x_deep_fm": case(XDeepFm, nn.BCELoss, lambda: integers(4, 3), lambda: torch.rand(SAMPLES)),
    "normed_tcn": case(NormedTcn, nn.HuberLoss, lambda: floats(12, 2), lambda: floats(2)),
    "annotated": case(Annotated, None, lambda: {"src": integers(20, 6), "tgt": 1 + integers(19, 6)}),
    "chebyshev_kan": case(ChebyshevKan, nn.CrossEntropyLoss, lambda: floats(3), lambda: integers(2)),
    "noisy_experts": case(NoisyExperts, None, lambda: {"x": floats(6), "y": integers(3)}),
    "fourier_film": case(FourierFilm, nn.MSELoss, lambda: (torch.rand(SAMPLES, 5, 2), integers(6)),
                         lambda: torch.rand(SAMPLES, 5, 3)),
    "triplets": case(Triplets, None, lambda: (floats(1, 8, 8), floats(1, 8, 8), floats(1, 8, 8))),
    "minimal_mamba": case(MinimalMamba, None, lambda: integers(24, 8)),
    "rwkv": case(Rwkv, nn.CrossEntropyLoss, lambda: floats(5, 6), lambda: integers(4, 5)),
    "min_gru": case(MinGru, nn.CrossEntropyLoss, lambda: floats(7, 3), lambda: integers(2)),
    "retention": case(Retention, nn.CrossEntropyLoss, lambda: floats(6, 8), lambda: integers(3)),
    "shifted_windows": case(ShiftedWindows, nn.CrossEntropyLoss, lambda: floats(1, 8, 8),
                            lambda: integers(4)),
    "conformer": case(Conformer, nn.NLLLoss, lambda: floats(6, 8), lambda: integers(5, 6)),
    "tacotron": case(Tacotron, None, lambda: {"text": integers(15, 6), "lengths": 2 + integers(4),
                                              "mels": floats(4, 4)}),
    "set_prediction": case(SetPrediction, set_loss, lambda: floats(3, 16, 16), lambda: {
        "labels": integers(4, 3), "boxes": 0.2 + 0.5 * torch.rand(SAMPLES, 3, 4)}),
    "center_net": case(CenterNet, centre_loss, lambda: floats(3, 8, 8), lambda: {
        "heat": torch.rand(SAMPLES, 2, 8, 8).add(0.05).clamp(max=1), "ind": integers(64, 3),
        "mask": integers(2, 3), "sizes": floats(3, 2)}),
    "ssd": case(Ssd, multibox_loss, lambda: floats(3, 8, 8), lambda: {
        "boxes": floats(40, 4), "classes": integers(3, 40)}),
    "crnn": case(Crnn, line_loss, lambda: floats(1, 4, 10), lambda: 1 + integers(6, 4)),
    "soft_dtw": case(SoftDtw, None, lambda: (floats(5, 2), floats(4, 3))),
    "hamiltonian": case(Hamiltonian, nn.MSELoss, lambda: floats(4), lambda: floats(4)),
    "egnn": case(Egnn, molecule_loss, lambda: (integers(5, 6), floats(6, 3)),
                 lambda: {"energy": floats(), "places": floats(6, 3)}),
    "schnet": case(Schnet, None, lambda: {"z": integers(4, 5), "pos": floats(5, 3),
                                          "energy": floats(), "forces": floats(5, 3)}),
    "set_transformer": case(SetTransformer, mixture_loss, lambda: floats(7, 2), lambda: floats(7, 2)),
    "slot_attention": case(SlotAttention, nn.MSELoss, lambda: floats(8, 4), lambda: floats(8, 4)),
    "gumbel_vae": case(GumbelVae, None, lambda: floats(1, 8, 8)),
    "total_correlation": case(TotalCorrelation, None, lambda: floats(8)),
    "glow": case(Glow, None, lambda: floats(1, 8, 8)),
    "fusion_transformer": case(Tft, quantile_loss, lambda: (floats(6, 3), integers(4)),
                               lambda: floats(2)),
    "patch_tst": case(PatchTst, nn.L1Loss, lambda: floats(14, 2), lambda: floats(4, 2)),
    "autocorrelation": case(Autocorrelation, nn.MSELoss, lambda: floats(12, 3), lambda: floats(4)),
    "sas_rec": case(SasRec, None, lambda: {"log_seqs": integers(21, 6), "pos_seqs": integers(21, 6),
                                           "neg_seqs": 1 + integers(20, 6)}),
    "two_tower": case(TwoTower, None, lambda: (integers(12), integers(15))),
    "ppo": case(Ppo, None, lambda: {
        "states": floats(5, 4), "actions": integers(3, 5), "rewards": floats(5),
        "dones": integers(2, 5).float(), "old": floats(5).abs().neg()}),
    "c51": case(C51, None, lambda: {"state": floats(4), "action": integers(2), "reward": floats(),
                                    "next_state": floats(4)}),
    "decision_transformer": case(DecisionTransformer, None, lambda: {
        "states": floats(4, 3), "actions": torch.rand(SAMPLES, 4, 2), "returns": floats(4, 1),
        "times": integers(10, 4), "mask": torch.cat([torch.ones(SAMPLES, 2).long(), integers(2, 2)], 1)}),
    "style_transfer": case(StyleTransfer, None, lambda: torch.rand(SAMPLES, 3, 12, 12)),
    "esrgan": case(Esrgan, image_loss, lambda: torch.rand(SAMPLES, 3, 8, 8),
                   lambda: torch.rand(SAMPLES, 3, 16, 16)),
    "raft": case(Raft, lambda flow, target: ((flow - target).abs().sum(1) + 0.01).pow(0.4).mean(),
                 lambda: (floats(3, 10, 10), floats(3, 10, 10)), lambda: floats(2, 10, 10)),
    "dynamic_conv": case(DynamicConv, nn.CrossEntropyLoss, lambda: floats(4, 6, 6),
                         lambda: integers(3)),
    "prototypes": case(Prototypes, None, lambda: (floats(3, 2, 5), floats(3, 2, 5))),
    "maml": case(Maml, None, lambda: (floats(3), floats(1), floats(3), floats(1))),
    "in_place": case(InPlace, nn.CrossEntropyLoss, lambda: floats(6), lambda: integers(3)),
    "frozen_norms": case(FrozenNorms, nn.CrossEntropyLoss, lambda: floats(3, 12, 12),
                         lambda: integers(3)),
    "kalman": case(TrainedBelief, None, lambda: floats(5, 2)),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
