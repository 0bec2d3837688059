"""A sixth list of small models as users write them, for scripts/zoo.

They were chosen after the first five lists had been captured: kinds of models that those have not,
from many fields, each in the style of its own field.
"""
import itertools
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import torch.distributions as D
import torch.nn.functional as F
from torch import Tensor, nn
from zoo_case import SAMPLES
from zoo_users_more import case, entries_of, floats, integers


class SkipGram(nn.Module):
    """word2vec with negative sampling: two tables, and a loss of products."""

    def __init__(self, words=30, dim=8):
        super().__init__()
        self.u_embeddings = nn.Embedding(words, dim)
        self.v_embeddings = nn.Embedding(words, dim)
        initrange = 1.0 / dim
        nn.init.uniform_(self.u_embeddings.weight.data, -initrange, initrange)
        nn.init.uniform_(self.v_embeddings.weight.data, -initrange, initrange)

    def forward(self, pos_u, pos_v, neg_v):
        emb_u, emb_v = self.u_embeddings(pos_u), self.v_embeddings(pos_v)
        emb_neg_v = self.v_embeddings(neg_v)
        score = torch.sum(torch.mul(emb_u, emb_v), dim=1)
        score = -F.logsigmoid(torch.clamp(score, max=10, min=-10))
        neg_score = torch.bmm(emb_neg_v, emb_u.unsqueeze(2)).squeeze()
        neg_score = torch.clamp(neg_score, max=10, min=-10)
        neg_score = -torch.sum(F.logsigmoid(-neg_score), dim=1)
        return torch.mean(score + neg_score)


class TransE(nn.Module):
    """Embeddings of a knowledge graph: norms of sums, and a loss by ranks."""

    def __init__(self, entities=20, relations=5, dim=6, p=1):
        super().__init__()
        self.entities = nn.Embedding(entities, dim)
        self.relations = nn.Embedding(relations, dim)
        self.relations.weight.data.div_(self.relations.weight.data.norm(p=1, dim=1, keepdim=True))
        self.criterion = nn.MarginRankingLoss(margin=1.0, reduction="none")
        self.p = p

    def distance(self, triplets):
        head, relation, tail = triplets[:, 0], triplets[:, 1] % 5, triplets[:, 2]
        return (F.normalize(self.entities(head)) + self.relations(relation)
                - F.normalize(self.entities(tail))).norm(p=self.p, dim=1)

    def forward(self, positive, negative):
        good, bad = self.distance(positive), self.distance(negative)
        target = torch.tensor([-1], dtype=torch.long)
        return self.criterion(good, bad, target).mean()


class Spiking(nn.Module):
    """Leaky neurons with spikes: a step in the forward pass, a fast sigmoid in the backward one."""

    def __init__(self, steps=5, beta=0.9):
        super().__init__()
        self.steps, self.beta = steps, beta
        self.fc1, self.fc2 = nn.Linear(12, 16), nn.Linear(16, 3)

    @staticmethod
    def spike(u):
        soft = u / (1 + 25 * u.abs())
        return ((u > 0).float() - soft).detach() + soft

    def forward(self, x):
        mem1 = torch.zeros(x.shape[0], 16)
        mem2 = torch.zeros(x.size(0), 3)
        spikes, potentials = [], []
        for step in range(self.steps):
            reset = (mem1 - 1.0 > 0).float().detach()
            mem1 = self.beta * mem1 + self.fc1(x) - reset
            spk1 = self.spike(mem1 - 1.0)
            mem2 = self.beta * mem2 + self.fc2(spk1)
            spikes.append(self.spike(mem2 - 1.0))
            potentials.append(mem2)
        return torch.stack(spikes, dim=0), torch.stack(potentials, dim=0)


def spiking_loss(outputs, target):
    """The cross entropy of every time step."""
    _, mem = outputs
    loss_val = torch.zeros((1), dtype=torch.float)
    for step in range(mem.size(0)):
        loss_val += F.cross_entropy(mem[step], target)
    return loss_val.sum()


class Sparsemax(nn.Module):
    """The projection onto the simplex, by a sort."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, z):
        z = z - z.max(dim=self.dim, keepdim=True)[0]
        zs = torch.sort(input=z, dim=self.dim, descending=True)[0]
        places = torch.arange(start=1, end=z.size(self.dim) + 1, step=1, dtype=z.dtype)
        bound = 1 + places * zs
        support = torch.gt(bound, torch.cumsum(zs, self.dim)).type(z.dtype)
        k = torch.max(support * places, self.dim, keepdim=True)[0]
        taus = (torch.sum(support * zs, self.dim, keepdim=True) - 1) / k
        return torch.max(torch.zeros_like(z), z - taus)


class TabNet(nn.Module):
    """Decision steps that choose columns by sparse masks, with gated blocks and norms."""

    class Glu(nn.Module):
        def __init__(self, i, o):
            super().__init__()
            self.fc, self.bn = nn.Linear(i, 2 * o, bias=False), nn.BatchNorm1d(2 * o, momentum=0.02)

        def forward(self, x):
            x = self.bn(self.fc(x))
            out = x.chunk(2, 1)
            return torch.mul(out[0], torch.sigmoid(out[1]))

    def __init__(self, columns=6, d=4, steps=2, gamma=1.3, epsilon=1e-15):
        super().__init__()
        self.steps, self.gamma, self.epsilon, self.d = steps, gamma, epsilon, d
        self.initial_bn = nn.BatchNorm1d(columns, momentum=0.01)
        self.shared = self.Glu(columns, 2 * d)
        self.transformers = nn.ModuleList(self.Glu(2 * d, 2 * d) for _ in range(steps + 1))
        self.attention = nn.ModuleList(
            nn.Sequential(nn.Linear(d, columns, bias=False), nn.BatchNorm1d(columns))
            for _ in range(steps))
        self.sparsemax = Sparsemax()
        self.head = nn.Linear(d, 3, bias=False)

    def block(self, i, x):
        shared = self.shared(x)
        return (shared + self.transformers[i](shared)) * math.sqrt(0.5)

    def forward(self, x):
        x = self.initial_bn(x)
        prior, m_loss, res = torch.ones(x.shape), 0, 0
        att = self.block(0, x)[:, self.d:]
        for step in range(self.steps):
            m = self.sparsemax(torch.mul(self.attention[step](att), prior))
            m_loss += torch.mean(torch.sum(torch.mul(m, torch.log(m + self.epsilon)), dim=1))
            prior = torch.mul(self.gamma - m, prior)
            out = self.block(step + 1, torch.mul(m, x))
            res = torch.add(res, F.relu(out[:, : self.d]))
            att = out[:, self.d:]
        return self.head(res), m_loss / self.steps


def tab_loss(outputs, y):
    """The cross entropy with the sparsity of the masks."""
    logits, m_loss = outputs
    return nn.functional.cross_entropy(logits, y) - 1e-3 * m_loss


class ObliviousTrees(nn.Module):
    """Soft trees whose nodes of one depth share a split, with one response for each leaf."""

    def __init__(self, inputs=6, trees=4, depth=3, outputs=2):
        super().__init__()
        self.depth = depth
        self.response = nn.Parameter(torch.randn(trees, outputs, 2 ** depth))
        self.feature_selection_logits = nn.Parameter(torch.rand(inputs, trees, depth))
        self.feature_thresholds = nn.Parameter(torch.randn(trees, depth))
        self.log_temperatures = nn.Parameter(torch.zeros(trees, depth))
        with torch.no_grad():
            indices = torch.arange(2 ** depth)
            offsets = 2 ** torch.arange(depth)
            codes = (indices.view(1, -1) // offsets.view(-1, 1) % 2).to(torch.float32)
            self.bin_codes_1hot = nn.Parameter(torch.stack([codes, 1.0 - codes], dim=-1),
                                               requires_grad=False)

    def forward(self, input):
        selectors = F.softmax(self.feature_selection_logits, dim=0)
        values = torch.einsum("bi,ind->bnd", input, selectors)
        logits = (values - self.feature_thresholds) * torch.exp(-self.log_temperatures)
        logits = torch.stack([-logits, logits], dim=-1)
        bins = torch.clamp(0.5 * logits + 0.5, 0, 1)
        matches = torch.einsum("btds,dcs->btdc", bins, self.bin_codes_1hot)
        weights = torch.prod(matches, dim=-2)
        return torch.einsum("bnd,ncd->bnc", weights, self.response).mean(1)


class RbfNet(nn.Module):
    """Radial basis functions around learned centres."""

    def __init__(self, i=4, k=6, o=3):
        super().__init__()
        self.centres = nn.Parameter(torch.Tensor(k, i))
        self.log_sigmas = nn.Parameter(torch.Tensor(k))
        nn.init.normal_(self.centres, 0, 1)
        nn.init.constant_(self.log_sigmas, 0)
        self.linear = nn.Linear(k, o)

    def forward(self, input):
        size = (input.size(0), self.centres.size(0), input.size(1))
        x = input.unsqueeze(1).expand(size)
        c = self.centres.unsqueeze(0).expand(size)
        distances = (x - c).pow(2).sum(-1).pow(0.5) / torch.exp(self.log_sigmas).unsqueeze(0)
        phi = torch.exp(-1 * distances.pow(2)) + 1 / (1 + torch.cdist(input, self.centres).pow(2))
        return self.linear(phi)


class MaskedLinear(nn.Linear):
    """A linear layer with a mask on its weights."""

    def __init__(self, i, o, bias=True):
        super().__init__(i, o, bias)
        self.register_buffer("mask", torch.ones(o, i))

    def set_mask(self, mask):
        self.mask.data.copy_(mask.T)

    def forward(self, input):
        return F.linear(input, self.mask * self.weight, self.bias)


class Made(nn.Module):
    """A masked autoregressive flow: an order of the inputs, and masks that keep it."""

    def __init__(self, n=4, hidden=12):
        super().__init__()
        self.net = nn.Sequential(OrderedDict([
            ("in", MaskedLinear(n, hidden)), ("act", nn.Tanh()), ("mid", MaskedLinear(hidden, hidden)),
            ("act2", nn.Tanh()), ("out", MaskedLinear(hidden, 2 * n))]))
        order = [torch.arange(n), torch.arange(hidden) % (n - 1), torch.arange(hidden) % (n - 1)]
        masks = [m0[:, None] <= m1[None, :] for m0, m1 in zip(order[:-1], order[1:])]
        masks.append((order[-1][:, None] < order[0][None, :]).repeat(1, 2))
        for layer, mask in zip([m for m in self.net if isinstance(m, MaskedLinear)], masks):
            layer.set_mask(mask)
        self.register_buffer("loc", torch.zeros(n))

    def forward(self, x):
        shift, log_scale = self.net(x).chunk(2, dim=-1)
        log_scale = torch.tanh(log_scale)
        z = (x - shift) * torch.exp(-log_scale)
        prior = D.Normal(self.loc, torch.ones_like(self.loc))
        log_prob = prior.log_prob(z).sum(dim=-1) + (-log_scale).sum(dim=-1)
        return -log_prob.mean()


class Ffjord(nn.Module):
    """A continuous flow whose trace is estimated by a product with the Jacobian."""

    def __init__(self, d=2, steps=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d + 1, 16), nn.Softplus(), nn.Linear(16, d))
        self.steps = steps

    def dynamics(self, t, z, e):
        with torch.set_grad_enabled(True):
            z = z.requires_grad_(True) if z.is_leaf else z
            dz = self.net(torch.cat([z, torch.ones_like(z[:, :1]) * t], 1))
            e_dzdx = torch.autograd.grad(dz, z, e, create_graph=True)[0]
        return dz, -(e_dzdx * e).sum(dim=1, keepdim=True)

    def forward(self, x):
        e = torch.randint(0, 2, x.shape).float() * 2 - 1
        z, logp, h = x * 1.0, torch.zeros(x.size(0), 1), 1 / self.steps
        for i in range(self.steps):
            k1, l1 = self.dynamics(i * h, z, e)
            k2, l2 = self.dynamics((i + 0.5) * h, z + 0.5 * h * k1, e)
            z, logp = z + h * k2, logp + h * l2
        log_pz = (-0.5 * z ** 2 - 0.5 * math.log(2 * math.pi)).sum(1, keepdim=True)
        return -(log_pz - logp).mean()


class FlowMatching(nn.Module):
    """Learns the velocity between noise and data at random times."""

    class Block(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, d))
            self.film = nn.Linear(d, 2 * d)

        def forward(self, h, emb):
            scale, shift = self.film(F.silu(emb)).tensor_split(2, dim=-1)
            return h + self.net(F.layer_norm(h, h.shape[-1:]) * (1 + scale) + shift)

    def __init__(self, d=16, classes=4):
        super().__init__()
        self.inp, self.out = nn.Linear(3, d), nn.Linear(d, 3)
        self.label = nn.Embedding(classes + 1, d)
        self.blocks = nn.ModuleList([self.Block(d) for _ in range(2)])
        self.register_buffer("freqs", torch.exp(torch.linspace(0, math.log(50), d // 2)),
                             persistent=False)

    def velocity(self, x, t, y):
        angles = t[:, None] * self.freqs
        emb = torch.cat([angles.cos(), angles.sin()], -1) + self.label(y)
        h = self.inp(x)
        for block in self.blocks:
            h = block(h, emb)
        return self.out(h)

    def forward(self, x, y):
        t = torch.sigmoid(torch.randn(x.shape[0]))
        noise = torch.randn_like(x)
        drop = torch.rand(y.shape) < 0.1
        y = torch.where(drop, torch.full_like(y, 4), y)
        xt = torch.lerp(noise, x, t.view(-1, 1))
        return F.mse_loss(self.velocity(xt, t, y), x - noise)


class SlicedScore(nn.Module):
    """An energy whose gradient is a score, trained by random projections of its Hessian."""

    def __init__(self):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(3, 16), nn.Softplus(beta=2), nn.Linear(16, 1))

    def forward(self, x):
        x = x.detach().clone().requires_grad_()
        v = torch.randn_like(x)
        v = v / v.norm(dim=-1, keepdim=True)
        logp = -self.energy(x).sum()
        grad1 = torch.autograd.grad(logp, x, create_graph=True)[0]
        gradv = torch.sum(grad1 * v)
        loss1 = torch.sum(grad1 * v, dim=-1) ** 2 * 0.5
        grad2 = torch.autograd.grad(gradv, x, create_graph=True)[0]
        return (loss1 + torch.sum(v * grad2, dim=-1)).mean()


class BayesLinear(nn.Module):
    """A layer with normal distributions for weights, and its divergence from a mixture."""

    def __init__(self, i, o):
        super().__init__()
        self.weight_mu = nn.Parameter(torch.empty(o, i).uniform_(-0.2, 0.2))
        self.weight_rho = nn.Parameter(torch.empty(o, i).uniform_(-5, -4))
        self.bias_mu = nn.Parameter(torch.zeros(o))
        self.bias_rho = nn.Parameter(torch.full((o,), -4.5))

    @staticmethod
    def log_prior(w, pi=0.5, s1=1.0, s2=math.exp(-3)):
        p1 = torch.exp(D.Normal(0, s1).log_prob(w))
        p2 = torch.exp(D.Normal(0, s2).log_prob(w))
        return torch.log(pi * p1 + (1 - pi) * p2).sum()

    def forward(self, x):
        sigma_w, sigma_b = torch.log1p(torch.exp(self.weight_rho)), F.softplus(self.bias_rho)
        w = self.weight_mu + sigma_w * torch.randn_like(sigma_w)
        b = self.bias_mu + sigma_b * torch.randn_like(sigma_b)
        log_q = (-math.log(math.sqrt(2 * math.pi)) - torch.log(sigma_w)
                 - (w - self.weight_mu) ** 2 / (2 * sigma_w ** 2)).sum()
        log_q = log_q + D.Normal(self.bias_mu, sigma_b).log_prob(b).sum()
        return F.linear(x, w, b), log_q - self.log_prior(w) - self.log_prior(b)


class BayesNet(nn.Module):
    """Bayes by backprop with the average of some forward passes."""

    def __init__(self):
        super().__init__()
        self.l1, self.l2 = BayesLinear(5, 8), BayesLinear(8, 3)

    def forward(self, x, y, samples: int = 2):
        outputs, kls = [], []
        for _ in range(samples):
            h, kl1 = self.l1(x)
            o, kl2 = self.l2(F.relu(h))
            outputs.append(F.log_softmax(o, dim=1))
            kls.append(kl1 + kl2)
        kl = torch.stack(kls).mean()
        return kl / 100 + F.nll_loss(torch.stack(outputs).mean(0), y, reduction="sum")


class DeepAr(nn.Module):
    """Probabilistic forecasts: scales by the mean, and a distribution for each step."""

    def __init__(self, hidden=8, series=5):
        super().__init__()
        self.embed = nn.Embedding(series, 4)
        self.lstm = nn.LSTM(5, hidden, num_layers=2, batch_first=True)
        self.relu = nn.ReLU()
        self.project = nn.ModuleDict({name: nn.Linear(hidden, 1) for name in ("df", "loc", "scale")})

    def forward(self, past, series):
        scale = past.abs().mean(1, keepdim=True).clamp(min=1e-3)
        z = past / scale
        e = self.embed(series)[:, None].expand(-1, z.size(1) - 1, -1)
        h, (hn, cn) = self.lstm(torch.cat([z[:, :-1, None], e], dim=-1))
        df, loc, s = (self.project[name](self.relu(h)).squeeze(-1) for name in self.project)
        base = D.StudentT(2 + F.softplus(df), loc, F.softplus(s) + 1e-3)
        student = -base.log_prob(z[:, 1:]).mean()
        negative = D.NegativeBinomial(total_count=F.softplus(s) + 0.5, logits=loc)
        counts = torch.floor(past[:, 1:].abs() * 3)
        return student - 0.1 * negative.log_prob(counts).mean()


class RevIn(nn.Module):
    """Normalises a series, and undoes it behind the model; it keeps the mean between both."""

    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.affine_weight = nn.Parameter(torch.ones(features))
        self.affine_bias = nn.Parameter(torch.zeros(features))

    def forward(self, x, mode: str):
        if mode == "norm":
            dim2reduce = tuple(range(1, x.ndim - 1))
            self.mean = torch.mean(x, dim=dim2reduce, keepdim=True).detach()
            self.stdev = torch.sqrt(torch.var(x, dim=dim2reduce, keepdim=True, unbiased=False)
                                    + self.eps).detach()
            return (x - self.mean) / self.stdev * self.affine_weight + self.affine_bias
        if mode == "denorm":
            x = (x - self.affine_bias) / (self.affine_weight + self.eps * self.eps)
            return x * self.stdev + self.mean
        raise NotImplementedError


class DLinear(nn.Module):
    """Decomposes a series into a trend and the rest, with a layer for every channel."""

    def __init__(self, length=12, horizon=4, channels=3, kernel=5):
        super().__init__()
        self.norm, self.kernel = RevIn(channels), kernel
        self.avg = nn.AvgPool1d(kernel_size=kernel, stride=1, padding=0)
        self.seasonal = nn.ModuleList(nn.Linear(length, horizon) for _ in range(channels))
        self.trend = nn.ModuleList(nn.Linear(length, horizon) for _ in range(channels))
        for layer in itertools.chain(self.seasonal, self.trend):
            layer.weight = nn.Parameter((1 / length) * torch.ones([horizon, length]))

    def forward(self, x):
        x = self.norm(x, "norm")
        front = x[:, 0:1, :].repeat(1, (self.kernel - 1) // 2, 1)
        end = x[:, -1:, :].repeat(1, (self.kernel - 1) // 2, 1)
        trend = self.avg(torch.cat([front, x, end], dim=1).permute(0, 2, 1)).permute(0, 2, 1)
        seasonal, trend = (x - trend).permute(0, 2, 1), trend.permute(0, 2, 1)
        output = torch.zeros([x.size(0), x.size(2), 4], dtype=x.dtype).to(x.device)
        for i in range(x.size(2)):
            output[:, i, :] = self.seasonal[i](seasonal[:, i, :]) + self.trend[i](trend[:, i, :])
        return self.norm(output.permute(0, 2, 1), "denorm")


class TasNet(nn.Module):
    """Separates two speakers; the loss takes the better permutation of them."""

    class Block(nn.Module):
        def __init__(self, c, h, dilation):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv1d(c, h, 1), nn.Conv1d(
                h, h, 3, dilation=dilation, padding=dilation, groups=h)
            self.norm1, self.norm2 = nn.GroupNorm(1, h, eps=1e-8), nn.GroupNorm(1, h, eps=1e-8)
            self.act1, self.act2 = nn.PReLU(), nn.PReLU()
            self.res, self.skip = nn.Conv1d(h, c, 1), nn.Conv1d(h, c, 1)

        def forward(self, x):
            y = self.norm2(self.act2(self.conv2(self.norm1(self.act1(self.conv1(x))))))
            return x + self.res(y), self.skip(y)

    def __init__(self, n=8, kernel=4, speakers=2):
        super().__init__()
        self.speakers = speakers
        self.encoder = nn.Conv1d(1, n, kernel, stride=kernel // 2, bias=False)
        self.blocks = nn.ModuleList([self.Block(n, 12, 2 ** i) for i in range(2)])
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(n, speakers * n, 1), nn.Sigmoid())
        self.decoder = nn.ConvTranspose1d(n, 1, kernel, stride=kernel // 2, bias=False)

    def forward(self, mix):
        w = self.encoder(mix.unsqueeze(1))
        x, skips = w, 0.0
        for block in self.blocks:
            x, skip = block(x)
            skips = skips + skip
        masks = self.mask(skips).view(mix.size(0), self.speakers, -1, w.size(-1))
        masked = w.unsqueeze(1) * masks
        out = self.decoder(masked.flatten(0, 1))
        return out.view(mix.size(0), self.speakers, -1)


def permutation_loss(estimates, targets, eps=1e-8):
    """The negative SI-SNR of the best permutation of the speakers."""
    def si_snr(a, b):
        a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
        t = (a * b).sum(-1, keepdim=True) * b / (b.pow(2).sum(-1, keepdim=True) + eps)
        return 20 * torch.log10(eps + t.norm(dim=-1) / ((a - t).norm(dim=-1) + eps))
    rows = [torch.stack([si_snr(estimates[:, s], targets[:, p]) for s, p in enumerate(order)]).mean(0)
            for order in itertools.permutations(range(2))]
    best, _ = torch.stack(rows, dim=0).max(dim=0)
    return -best.mean()


class BiFpn(nn.Module):
    """Features of three sizes, merged by positive weights that are normalised."""

    def __init__(self, c=8, epsilon=1e-4):
        super().__init__()
        self.epsilon = epsilon
        self.stem = nn.ModuleList([nn.Conv2d(3, c, 3, 2, 1), nn.Conv2d(c, c, 3, 2, 1),
                                   nn.Conv2d(c, c, 3, 2, 1)])
        self.up, self.down = nn.Upsample(scale_factor=2, mode="nearest"), nn.MaxPool2d(3, 2, 1)
        self.w1 = nn.Parameter(torch.ones(2, dtype=torch.float32), requires_grad=True)
        self.w2 = nn.Parameter(torch.ones(3, dtype=torch.float32), requires_grad=True)
        self.convs = nn.ModuleDict({f"conv{i}": nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1, groups=c), nn.Conv2d(c, c, 1),
            nn.BatchNorm2d(c, momentum=0.01, eps=1e-3)) for i in range(3)})
        self.box, self.objectness = nn.Conv2d(c, 4, 1), nn.Conv2d(c, 1, 1)

    def forward(self, x):
        p3, p4, p5 = (lambda a: (a, *(lambda b: (b, self.stem[2](b)))(self.stem[1](a))))(
            self.stem[0](x))
        swish = lambda t: t * torch.sigmoid(t)  # noqa: E731  as in the published code
        w = F.relu(self.w1)
        w = w / (torch.sum(w, dim=0) + self.epsilon)
        p4_up = self.convs["conv0"](swish(w[0] * p4 + w[1] * self.up(p5)))
        w = F.relu(self.w2)
        w = w / (w.sum() + self.epsilon)
        p4_out = self.convs["conv1"](swish(w[0] * p4 + w[1] * p4_up + w[2] * self.down(p3)))
        p4_out = self.convs["conv2"](p4_out)
        n, _, h, w_ = p4_out.shape
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w_), indexing="ij")
        grid = torch.stack((xs, ys), 2).view(1, h * w_, 2).float()
        box = self.box(p4_out).permute(0, 2, 3, 1).reshape(n, -1, 4)
        centre = (box[..., :2].sigmoid() * 2 - 0.5 + grid) / h
        size = (box[..., 2:].sigmoid() * 2) ** 2 * 0.25
        return torch.cat([centre - size / 2, centre + size / 2], -1), self.objectness(p4_out).flatten(1)


def ciou_loss(outputs, targets, eps=1e-7):
    """The complete IoU of boxes with one target each, which is also that of the objectness."""
    boxes, objectness = outputs
    x1, y1, x2, y2 = boxes.unbind(-1)
    a1, b1, a2, b2 = targets[:, None].unbind(-1)
    inter = (torch.min(x2, a2) - torch.max(x1, a1)).clamp(0) * (
        torch.min(y2, b2) - torch.max(y1, b1)).clamp(0)
    w1, h1, w2, h2 = x2 - x1, y2 - y1 + eps, a2 - a1, b2 - b1 + eps
    iou = inter / (w1 * h1 + w2 * h2 - inter + eps)
    cw, ch = torch.max(x2, a2) - torch.min(x1, a1), torch.max(y2, b2) - torch.min(y1, b1)
    rho2 = ((a1 + a2 - x1 - x2) ** 2 + (b1 + b2 - y1 - y2) ** 2) / 4
    v = (4 / math.pi ** 2) * torch.pow(torch.atan(w2 / h2) - torch.atan(w1 / h1), 2)
    with torch.no_grad():
        alpha = v / (v - iou + (1 + eps))
    ciou = iou - (rho2 / (cw ** 2 + ch ** 2 + eps) + v * alpha)
    gr = 1.0
    wanted = (1.0 - gr) + gr * ciou.detach().clamp(0).type(objectness.dtype)
    weight = F.softmax(-rho2.detach() * 10, dim=1)
    return ((1.0 - ciou) * weight).sum(1).mean() * 0.05 + nn.BCEWithLogitsLoss()(objectness, wanted)


class Hourglass(nn.Module):
    """Heat maps of joints by a recursive hourglass, and their expected places."""

    def __init__(self, c=8, depth=2, joints=3):
        super().__init__()
        def residual():
            return nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(inplace=True), nn.Conv2d(c, c, 3, 1, 1))
        self.depth = depth
        self.stem = nn.Conv2d(1, c, 3, 1, 1)
        self.hg = nn.ModuleList([nn.ModuleList([residual() for _ in range(3 + (i == 0))])
                                 for i in range(depth)])
        self.score = nn.Conv2d(c, joints, 1)
        self.register_buffer("places", torch.linspace(-1, 1, 8))

    def _hour_glass_forward(self, n, x):
        up1 = x + self.hg[n - 1][0](x)
        low1 = F.max_pool2d(x, 2, stride=2)
        low1 = low1 + self.hg[n - 1][1](low1)
        low2 = self._hour_glass_forward(n - 1, low1) if n > 1 else low1 + self.hg[n - 1][3](low1)
        low3 = low2 + self.hg[n - 1][2](low2)
        return up1 + F.interpolate(low3, scale_factor=2)

    def forward(self, x):
        maps = self.score(self._hour_glass_forward(self.depth, self.stem(x)))
        p = maps.flatten(2).softmax(-1).view_as(maps)
        xs = torch.einsum("bjhw,w->bj", p, self.places)
        ys = (p.sum(-1) * self.places).sum(-1)
        return {"heatmaps": maps, "coords": torch.stack([xs, ys], dim=-1)}


def joint_loss(outputs, targets):
    """The squared error of visible joints, and a smooth one of their places."""
    visible = targets["visible"].float()
    heat = ((outputs["heatmaps"] - targets["maps"]) ** 2).mean(dim=(2, 3)) * visible
    coords = F.smooth_l1_loss(outputs["coords"], targets["coords"], reduction="none", beta=0.5)
    return heat.sum() / visible.sum().clamp_min(1.0) + (coords * visible[..., None]).mean()


class DepthNet(nn.Module):
    """Disparity of a stereo pair without labels: warped images, SSIM and smoothness."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 8, 3), nn.ELU(inplace=True),
                                 nn.ReflectionPad2d(1), nn.Conv2d(8, 1, 3), nn.Sigmoid())

    @staticmethod
    def ssim(x, y):
        x, y = F.pad(x, (1, 1, 1, 1), mode="reflect"), F.pad(y, [1] * 4, "reflect")
        mu_x, mu_y = F.avg_pool2d(x, 3, 1), F.avg_pool2d(y, 3, 1)
        sigma_x = F.avg_pool2d(x ** 2, 3, 1) - mu_x ** 2
        sigma_y = F.avg_pool2d(y ** 2, 3, 1) - mu_y ** 2
        sigma_xy = F.avg_pool2d(x * y, 3, 1) - mu_x * mu_y
        n = (2 * mu_x * mu_y + 0.01 ** 2) * (2 * sigma_xy + 0.03 ** 2)
        d = (mu_x ** 2 + mu_y ** 2 + 0.01 ** 2) * (sigma_x + sigma_y + 0.03 ** 2)
        return torch.clamp((1 - n / d) / 2, 0, 1)

    @staticmethod
    def smooth(disp, img):
        dx = torch.abs(disp[:, :, :, :-1] - disp[:, :, :, 1:])
        dy = torch.abs(disp[:, :, :-1, :] - disp[:, :, 1:, :])
        ix = torch.mean(torch.abs(img[:, :, :, :-1] - img[:, :, :, 1:]), 1, keepdim=True)
        iy = torch.mean(torch.abs(img[:, :, :-1, :] - img[:, :, 1:, :]), 1, keepdim=True)
        return (dx * torch.exp(-ix)).mean() + (dy * torch.exp(-iy)).mean()

    def forward(self, left, right):
        disp = 0.3 * self.net(left)
        b, _, h, w = disp.shape
        x_base = torch.linspace(0, 1, w).repeat(b, h, 1).type_as(left)
        y_base = torch.linspace(0, 1, h).repeat(b, w, 1).transpose(1, 2).type_as(left)
        flow = torch.stack((x_base + disp[:, 0], y_base), dim=3)
        warped = F.grid_sample(right, 2 * flow - 1, mode="bilinear", padding_mode="border",
                               align_corners=True)
        photo = 0.85 * self.ssim(warped, left).mean(1, True) + 0.15 * (warped - left).abs().mean(1, True)
        mean_disp = disp.mean(2, True).mean(3, True)
        return photo.mean() + 1e-3 * self.smooth(disp / (mean_disp + 1e-7), left)


class CycleGan(nn.Module):
    """The step of the generators: adversarial, cycle and identity losses; critics are frozen."""

    class ResnetBlock(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.conv_block = nn.Sequential(*self.build(dim))

        def build(self, dim):
            block = []
            for last in (False, True):
                block += [nn.ReflectionPad2d(1), nn.Conv2d(dim, dim, kernel_size=3, padding=0),
                          nn.InstanceNorm2d(dim)]
                block += [] if last else [nn.ReLU(True)]
            return block

        def forward(self, x):
            out = x + self.conv_block(x)
            return out

    def __init__(self, lambda_a=10.0, lambda_idt=0.5):
        super().__init__()
        def generator():
            return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.InstanceNorm2d(8, affine=True),
                                 nn.ReLU(True), self.ResnetBlock(8),
                                 nn.ConvTranspose2d(8, 3, 3, 2, 1, output_padding=1), nn.Tanh())

        def critic():
            return nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(8, 1, 3))
        self.netG_A, self.netG_B = generator(), generator()
        self.netD_A, self.netD_B = critic(), critic()
        self.set_requires_grad([self.netD_A, self.netD_B], False)
        self.lambda_a, self.lambda_idt = lambda_a, lambda_idt
        self.register_buffer("real_label", torch.tensor(1.0))

    def set_requires_grad(self, nets, requires_grad=False):
        for net in nets:
            for param in net.parameters():
                param.requires_grad = requires_grad

    def gan(self, prediction):
        return nn.MSELoss()(prediction, self.real_label.expand_as(prediction))

    def forward(self, real_a, real_b):
        self.fake_b, self.fake_a = self.netG_A(real_a), self.netG_B(real_b)
        rec_a, rec_b = self.netG_B(self.fake_b), self.netG_A(self.fake_a)
        idt = F.l1_loss(self.netG_A(real_b), real_b) + F.l1_loss(self.netG_B(real_a), real_a)
        cycle = F.l1_loss(rec_a, real_a) + F.l1_loss(rec_b, real_b)
        adversarial = self.gan(self.netD_A(self.fake_b)) + self.gan(self.netD_B(self.fake_a))
        return adversarial + self.lambda_a * (cycle + self.lambda_idt * idt)


class ConditionalNorms(nn.Module):
    """A generator of classes: batch norms without weights, and gains of embeddings."""

    class Ccbn(nn.Module):
        def __init__(self, c, classes):
            super().__init__()
            self.bn = nn.BatchNorm2d(c, affine=False)
            self.gain, self.bias = nn.Embedding(classes, c), nn.Embedding(classes, c)
            nn.init.ones_(self.gain.weight), nn.init.zeros_(self.bias.weight)

        def forward(self, x, y):
            return self.gain(y)[..., None, None] * self.bn(x) + self.bias(y)[..., None, None]

    def __init__(self, z=6, c=8, classes=4):
        super().__init__()
        self.linear = nn.Linear(z, 2 * 2 * c)
        self.unflatten = nn.Unflatten(1, (c, 2, 2))
        self.bn1, self.bn2 = self.Ccbn(c, classes), self.Ccbn(c, classes)
        self.conv1, self.conv2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, z, y):
        h = self.unflatten(self.linear(z))
        h = self.conv1(F.interpolate(F.relu(self.bn1(h, y)), scale_factor=2))
        return torch.tanh(self.conv2(F.relu(self.bn2(h, y))))


class RelationNet(nn.Module):
    """Every pair of objects with a question."""

    def __init__(self, d=6, q=4):
        super().__init__()
        self.g = nn.Sequential(nn.Linear(2 * (d + 1) + q, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        self.f = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(p=0.5), nn.Linear(16, 5))

    def forward(self, objects, question):
        b, n, d = objects.size()
        tags = torch.arange(n, dtype=torch.float32).view(1, n, 1).expand(b, n, 1) / n
        o = torch.cat((objects, tags), 2)
        o_i = torch.unsqueeze(o, 1).repeat(1, n, 1, 1)
        o_j = torch.unsqueeze(o, 2).repeat(1, 1, n, 1)
        q = question.unsqueeze(1).repeat(1, n, 1).unsqueeze(2).repeat(1, 1, n, 1)
        pairs = torch.cat([o_i, o_j, q], 3).view(b * n * n, -1)
        relations = self.g(pairs).view(b, n * n, 16).sum(1).squeeze()
        return F.log_softmax(self.f(relations), dim=1)


class BiDaf(nn.Module):
    """Reads a text and a question: attention in both directions, and two pointers."""

    def __init__(self, words=25, chars=12, d=6):
        super().__init__()
        self.word = nn.Embedding(words, d, padding_idx=1)
        self.char = nn.Embedding(chars, 4, padding_idx=1)
        self.char_conv = nn.Sequential(nn.Conv2d(1, d, (4, 3)), nn.ReLU())
        for i in range(2):
            setattr(self, f"highway_linear{i}", nn.Sequential(nn.Linear(2 * d, 2 * d), nn.ReLU()))
            setattr(self, f"highway_gate{i}", nn.Sequential(nn.Linear(2 * d, 2 * d), nn.Sigmoid()))
        self.context = nn.LSTM(2 * d, d, bidirectional=True, batch_first=True)
        self.att_weight_c, self.att_weight_q, self.att_weight_cq = (
            nn.Linear(2 * d, 1) for _ in range(3))
        self.modelling = nn.LSTM(8 * d, d, num_layers=2, bidirectional=True, batch_first=True,
                                 dropout=0.2)
        self.p1, self.p2 = nn.Linear(10 * d, 1), nn.Linear(10 * d, 1)

    def embed(self, w, c):
        batch, length, letters = c.shape
        x = self.char(c).transpose(2, 3).reshape(-1, 1, 4, letters)
        x = self.char_conv(x).squeeze(2)
        x = F.max_pool1d(x, x.size(2)).squeeze(-1).view(batch, length, -1)
        x = torch.cat([x, self.word(w)], dim=-1)
        for i in range(2):
            h, g = getattr(self, f"highway_linear{i}")(x), getattr(self, f"highway_gate{i}")(x)
            x = g * h + (1 - g) * x
        return self.context(x)[0]

    def forward(self, c_word, c_char, q_word, q_char):
        c, q = self.embed(c_word, c_char), self.embed(q_word, q_char)
        c_len, q_len = c.size(1), q.size(1)
        cq = torch.stack([self.att_weight_cq(c * q.select(1, i).unsqueeze(1)).squeeze(-1)
                          for i in range(q_len)], dim=-1)
        s = (self.att_weight_c(c).expand(-1, -1, q_len)
             + self.att_weight_q(q).permute(0, 2, 1).expand(-1, c_len, -1) + cq)
        c2q = torch.bmm(F.softmax(s, dim=2), q)
        b = F.softmax(torch.max(s, dim=2)[0], dim=1).unsqueeze(1)
        q2c = torch.bmm(b, c).squeeze(1).unsqueeze(1).expand(-1, c_len, -1)
        g = torch.cat([c, c2q, c * c2q, c * q2c], dim=-1)
        m = self.modelling(g)[0]
        joined = torch.cat([g, m], dim=-1)
        mask = c_word == 1
        return tuple(head(joined).squeeze(-1).masked_fill(mask, -1e4) for head in (self.p1, self.p2))


def span_loss(outputs, targets):
    """The cross entropies of both ends."""
    criterion = nn.CrossEntropyLoss()
    return criterion(outputs[0], targets["s_idx"]) + criterion(outputs[1], targets["e_idx"])


class Biaffine(nn.Module):
    """A dependency parser: heads by a biaffine product, labels of the chosen arcs."""

    def __init__(self, words=20, tags=6, d=8, labels=4):
        super().__init__()
        self.word, self.tag = nn.Embedding(words, d), nn.Embedding(tags, 4)
        self.lstm = nn.LSTM(d + 4, d, bidirectional=True, batch_first=True)
        def mlp(n):
            return nn.Sequential(nn.Linear(2 * d, n), nn.LeakyReLU(0.1), nn.Dropout(0.3))
        self.arc_d, self.arc_h, self.rel_d, self.rel_h = mlp(6), mlp(6), mlp(4), mlp(4)
        self.arc = nn.Parameter(torch.zeros(1, 7, 6).normal_(0, 0.3))
        self.rel = nn.Parameter(torch.zeros(labels, 5, 5).normal_(0, 0.3))

    def forward(self, words, tags, heads, rels):
        mask = words.ne(0)
        mask[:, 0] = 0
        x, _ = self.lstm(torch.cat((self.word(words), self.tag(tags)), -1))
        one = torch.ones_like(x[..., :1])
        arc_d = torch.cat((self.arc_d(x), one), -1)
        s_arc = torch.einsum("bxi,oij,byj->boxy", arc_d, self.arc, self.arc_h(x)).squeeze(1)
        rel_d, rel_h = (torch.cat((m(x), one), -1) for m in (self.rel_d, self.rel_h))
        s_rel = torch.einsum("bxi,oij,byj->bxyo", rel_d, self.rel, rel_h)
        s_rel = s_rel.gather(2, heads[..., None, None].expand(-1, -1, -1, s_rel.size(-1))).squeeze(2)
        arc_loss = F.cross_entropy(s_arc.transpose(1, 2), heads, reduction="none")
        rel_loss = F.cross_entropy(s_rel.flatten(0, 1), rels.flatten(), reduction="none")
        return ((arc_loss + rel_loss.view_as(arc_loss)) * mask).sum() / mask.sum()


@dataclass
class GptConfig:
    """Settings of AlibiGpt."""

    vocab: int = 25
    heads: int = 4
    width: int = 16
    depth: int = 2
    window: int = 9
    slopes: list = field(default_factory=list)

    def __post_init__(self):
        self.slopes = self.slopes or [2 ** (-8 * (i + 1) / self.heads) for i in range(self.heads)]


class AlibiGpt(nn.Module):
    """A decoder with linear biases in place of positions, one key head, and soft caps."""

    class Layer(nn.Module):
        def __init__(self, cfg: GptConfig):
            super().__init__()
            self.cfg, self.hd = cfg, cfg.width // cfg.heads
            self.ln_1, self.ln_2 = (nn.LayerNorm(cfg.width, bias=False) for _ in "ab")
            self.q = nn.Linear(cfg.width, cfg.width, bias=False)
            self.kv = nn.Linear(cfg.width, 2 * self.hd, bias=False)
            self.proj = nn.Linear(cfg.width, cfg.width, bias=False)
            self.gate_up = nn.Linear(cfg.width, 4 * cfg.width, bias=False)
            self.down = nn.Linear(2 * cfg.width, cfg.width, bias=False)

        @property
        def scale(self):
            return 1.0 / math.sqrt(self.hd)

        def attend(self, x, bias):
            b, t, c = x.shape
            q = self.q(x).unflatten(-1, (self.cfg.heads, self.hd)).transpose(1, 2)
            k, v = self.kv(x).split(self.hd, -1)
            scores = (q * self.scale) @ k.unsqueeze(1).mT
            scores = 30.0 * torch.tanh(scores / 30.0) + bias
            y = scores.softmax(-1) @ v[:, None]
            return self.proj(y.transpose(1, 2).flatten(2))

        def forward(self, x, bias):
            x = x + self.attend(self.ln_1(x), bias)
            gate, up = self.gate_up(self.ln_2(x)).chunk(2, -1)
            return x + self.down(F.silu(gate) * up)

    def __init__(self, cfg: GptConfig | None = None):
        super().__init__()
        self.cfg = cfg = cfg or GptConfig()
        self.wte = nn.Embedding(cfg.vocab, cfg.width)
        self.h = nn.ModuleList([self.Layer(cfg) for _ in range(cfg.depth)])
        self.ln_f = nn.LayerNorm(cfg.width)
        self.lm_head = nn.Linear(cfg.width, cfg.vocab, bias=False)
        self.wte.weight = self.lm_head.weight
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02 if module is not self.wte else 0.1)

    def forward(self, idx, targets=None):
        t = idx.shape[1]
        assert t <= self.cfg.window, f"cannot forward {t} tokens, the window is {self.cfg.window}"
        places = torch.arange(t)
        distance = (places[None] - places[:, None]).float()
        bias = torch.tensor(self.cfg.slopes).view(-1, 1, 1) * distance
        bias = bias.masked_fill(distance > 0, float("-inf"))
        x = self.wte(idx) * self.cfg.width ** 0.5
        for block in self.h:
            x = block(x, bias)
        logits = self.lm_head(self.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1))


def second(outputs, _):
    """The loss that a model returns behind its logits."""
    return outputs[1]


class SwitchMoe(nn.Module):
    """Sends each token to one expert that has a capacity, by products with one-hot matrices."""

    def __init__(self, d=8, experts=3, capacity_factor=1.25):
        super().__init__()
        self.n, self.factor = experts, capacity_factor
        self.gate = nn.Linear(d, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, d, 2 * d) * d ** -0.5)
        self.w2 = nn.Parameter(torch.randn(experts, 2 * d, d) * (2 * d) ** -0.5)
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 4)

    def forward(self, x):
        b, t, d = x.shape
        capacity = int(t * self.factor / self.n)
        probs = self.gate(x).softmax(dim=-1)
        gate, index = probs.max(dim=-1)
        mask = F.one_hot(index, self.n).float()
        density, density_proxy = mask.mean(dim=-2), probs.mean(dim=-2)
        aux = (density_proxy * density).mean() * float(self.n ** 2)
        position = torch.cumsum(mask, dim=-2) * mask
        mask = mask * (position <= capacity).float()
        place = (position * mask).sum(-1).long()
        slots = F.one_hot(place, capacity + 1)[..., 1:].float()
        combine = (gate * mask.sum(-1))[..., None, None] * mask[..., :, None] * slots[..., None, :]
        dispatch = combine.bool().to(combine)
        inputs = torch.einsum("bnd,bnec->ebcd", x, dispatch)
        hidden = F.gelu(torch.einsum("ebcd,edh->ebch", inputs, self.w1))
        outputs = torch.einsum("ebch,ehd->ebcd", hidden, self.w2)
        y = torch.einsum("ebcd,bnec->bnd", outputs, combine)
        return self.head(self.norm(x + y).mean(1)), aux


def with_auxiliary(outputs, y):
    """The cross entropy and a part of a second loss."""
    return F.cross_entropy(outputs[0], y) + 1e-2 * outputs[1]


class Nystrom(nn.Module):
    """Attention through landmarks, with an iterated pseudo-inverse."""

    def __init__(self, d=8, heads=2, landmarks=4):
        super().__init__()
        self.heads, self.m = heads, landmarks
        self.to_qkv = nn.Linear(d, 3 * d, bias=False)
        self.res_conv = nn.Conv2d(heads, heads, (5, 1), padding=(2, 0), groups=heads, bias=False)
        self.to_out = nn.Linear(d, 3)

    @staticmethod
    def pinv(x, iters=4):
        abs_x = torch.abs(x)
        col, row = abs_x.sum(dim=-1), abs_x.sum(dim=-2)
        z = x.transpose(-1, -2) / (torch.max(col) * torch.max(row))
        eye = torch.eye(x.shape[-1]).unsqueeze(0)
        for _ in range(iters):
            xz = x @ z
            z = 0.25 * z @ (13 * eye - (xz @ (15 * eye - (xz @ (7 * eye - xz)))))
        return z

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        q = q * q.shape[-1] ** -0.5
        ql, kl = (t.reshape(b, self.heads, self.m, n // self.m, -1).sum(3) / (n // self.m)
                  for t in (q, k))
        a1, a2, a3 = (torch.einsum("...id,...jd->...ij", s, t).softmax(-1)
                      for s, t in ((q, kl), (ql, kl), (ql, k)))
        out = (a1 @ self.pinv(a2)) @ (a3 @ v) + self.res_conv(v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1).mean(1))


class Hyena(nn.Module):
    """Long convolutions with filters of a small network, and gates."""

    def __init__(self, d=6, length=12, order=2):
        super().__init__()
        self.order, self.length = order, length
        self.proj = nn.Linear(d, (order + 1) * d)
        self.short = nn.Conv1d((order + 1) * d, (order + 1) * d, 3, padding=2, groups=(order + 1) * d)
        t = torch.linspace(0, 1, length)[:, None]
        bands = torch.linspace(1e-4, 2, 3)[None]
        w = 2 * math.pi * torch.arange(length)[:, None] / length
        z = torch.exp(-1j * bands * w)
        self.register_buffer("z", torch.cat([t, z.real, z.imag], -1))
        self.register_buffer("deltas", torch.linspace(math.log(1e-2) / 1.5, math.log(1e-2) / 0.3,
                                                      d * order)[None])
        self.register_buffer("t", t)
        self.filter = nn.Sequential(nn.Linear(7, 8), nn.GELU(), nn.Linear(8, d * order, bias=False))
        self.bias = nn.Parameter(torch.randn(order, d))
        self.out = nn.Linear(d, 3)

    @staticmethod
    def fftconv(u, k, bias):
        n = u.shape[-1]
        k_f = torch.fft.rfft(k, n=2 * n) / (2 * n)
        u_f = torch.fft.rfft(u.to(dtype=k.dtype), n=2 * n)
        y = torch.fft.irfft(u_f * k_f, n=2 * n, norm="forward")[..., :n]
        return (y + u * bias.unsqueeze(-1)).to(dtype=u.dtype)

    def forward(self, u):
        l, d = u.shape[1], u.shape[2]
        x = self.short(self.proj(u).transpose(1, 2))[..., :l]
        *gates, v = x.split(d, dim=1)
        k = self.filter(self.z) * (torch.exp(-self.t * self.deltas.abs()) + 0.05)
        k = k / torch.norm(k, dim=-1, p=1, keepdim=True)
        filters = k.transpose(0, 1).reshape(self.order, d, l)
        for o, gate in enumerate(reversed(gates)):
            v = self.fftconv(v * gate, filters[o], self.bias[o])
        return self.out(v.transpose(1, 2)).mean(1)


class LinearRecurrence(nn.Module):
    """A diagonal recurrence of complex numbers, and a gated real one, both in loops."""

    def __init__(self, d=4, n=5):
        super().__init__()
        u1, u2 = torch.rand(n), torch.rand(n)
        self.nu_log = nn.Parameter(torch.log(-0.5 * torch.log(u1 * (0.9 - 0.4) + 0.4)))
        self.theta_log = nn.Parameter(torch.log(6.28 * u2 + 1e-3))
        self.b_re, self.b_im = (nn.Parameter(torch.randn(n, d) / (2 * d) ** 0.5) for _ in range(2))
        self.c_re, self.c_im = (nn.Parameter(torch.randn(d, n) / n ** 0.5) for _ in range(2))
        self.gamma_log = nn.Parameter(torch.zeros(n))
        self.a_param = nn.Parameter(torch.rand(d))
        self.gates, self.head = nn.Linear(d, 2 * d), nn.Linear(d, 3)

    def forward(self, x):
        lam = torch.exp(torch.complex(-torch.exp(self.nu_log), torch.exp(self.theta_log)))
        b = torch.complex(self.b_re, self.b_im) * torch.exp(self.gamma_log).unsqueeze(-1)
        c = torch.complex(self.c_re, self.c_im)
        state = torch.zeros(x.size(0), lam.numel(), dtype=torch.complex64)
        outputs = []
        for step in x.unbind(1):
            state = lam * state + step.to(b.dtype) @ b.T
            outputs.append((state @ c.mT).real)
        y = torch.stack(outputs, 1)
        r, i = torch.sigmoid(self.gates(y)).chunk(2, -1)
        log_a = -8.0 * r * F.softplus(self.a_param)
        a, mult = log_a.exp(), torch.sqrt(-torch.expm1(2 * log_a) + 1e-6)
        h, hidden = torch.zeros_like(y[:, 0]), []
        for k in range(y.size(1)):
            h = a[:, k] * h + mult[:, k] * (i * y)[:, k]
            hidden += [h]
        return self.head(hidden[-1])


class TestTimeTraining(nn.Module):
    """A layer whose state is a small matrix that a step of gradient descent changes at each token."""

    def __init__(self, d=4):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.w0 = nn.Parameter(torch.eye(d) * 0.1)
        self.log_lr, self.head = nn.Parameter(torch.tensor(-1.0)), nn.Linear(d, 2)

    def forward(self, x):
        w = self.w0.expand(x.size(0), -1, -1)
        outs = []
        for t in range(x.size(1)):
            xt = x[:, t]
            k, v = self.k(xt), self.v(xt)
            loss = ((torch.einsum("bij,bj->bi", w, k) - v) ** 2).sum()
            (grad,) = torch.autograd.grad(loss, w, create_graph=True)
            w = w - self.log_lr.exp() * grad
            outs.append(torch.einsum("bij,bj->bi", w, self.q(xt)))
        return self.head(torch.stack(outs, 1).mean(1))


class BitLinear(nn.Linear):
    """Ternary weights and activations of eight bits, with gradients that pass through."""

    def forward(self, x):
        w = self.weight
        x_norm = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        scale = 127.0 / x_norm.abs().max(dim=-1, keepdim=True).values.clamp_(min=1e-5)
        quant = (x_norm * scale).round().clamp_(-128, 127) / scale
        x_quant = x_norm + (quant - x_norm).detach()
        ws = 1.0 / w.abs().mean().clamp_(min=1e-5)
        w_quant = w + ((w * ws).round().clamp_(-1, 1) / ws - w).detach()
        return F.linear(x_quant, w_quant, self.bias)


class BitNet(nn.Module):
    """Ternary layers, a binary one with a clipped gradient, and L0 gates."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(BitLinear(6, 16, bias=False), nn.GELU(), BitLinear(16, 8))
        self.binary = nn.Parameter(torch.randn(8, 4) * 0.5)
        self.log_alpha = nn.Parameter(torch.randn(4) * 0.1)

    def gates(self):
        beta, gamma, zeta = 2 / 3, -0.1, 1.1
        if self.training:
            u = torch.rand_like(self.log_alpha).clamp(1e-6, 1 - 1e-6)
            s = torch.sigmoid((u.log() - (1 - u).log() + self.log_alpha) / beta)
        else:
            s = torch.sigmoid(self.log_alpha)
        penalty = torch.sigmoid(self.log_alpha - beta * math.log(-gamma / zeta)).sum()
        return (s * (zeta - gamma) + gamma).clamp(0, 1), penalty

    def forward(self, x):
        w = self.binary
        clipped = torch.clamp(w, -1.0, 1.0)
        binary = (torch.sign(w) - clipped).detach() + clipped
        gate, penalty = self.gates()
        return (self.net(x) @ binary) * gate, penalty


class DeepEquilibrium(nn.Module):
    """A fixed point that is found without gradients, and one step with them."""

    def __init__(self, d=8):
        super().__init__()
        self.w, self.u = nn.Linear(d, d), nn.Linear(5, d)
        self.w.weight.data.mul_(0.3)
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 3)

    def f(self, z, x):
        return self.norm(torch.tanh(self.w(z) + self.u(x)))

    def forward(self, x):
        with torch.no_grad():
            z = torch.zeros(x.shape[0], 8)
            for _ in range(6):
                z = self.f(z, x)
        z = self.f(z, x)
        return self.head(z)


class LagrangianNet(nn.Module):
    """Accelerations from a Lagrangian: a mass matrix, its Cholesky factor, and derivatives."""

    def __init__(self, n=2):
        super().__init__()
        self.n = n
        self.mass = nn.Sequential(nn.Linear(n, 12), nn.Softplus(), nn.Linear(12, n * (n + 1) // 2))
        self.potential = nn.Sequential(nn.Linear(n, 12), nn.Tanh(), nn.Linear(12, 1))
        rows, cols = torch.tril_indices(n, n)
        self.register_buffer("rows", rows), self.register_buffer("cols", cols)

    def lagrangian(self, q, v):
        l = torch.zeros(q.shape[0], self.n, self.n)
        l[:, self.rows, self.cols] = self.mass(q)
        m = l @ l.transpose(1, 2) + 0.5 * torch.eye(self.n)
        return 0.5 * torch.einsum("bi,bij,bj->b", v, m, v) - self.potential(q).squeeze(-1), m

    def forward(self, q, v):
        q, v = q.requires_grad_(), v
        lag, m = self.lagrangian(q, v)
        dq = torch.autograd.grad(lag.sum(), q, create_graph=True)[0]
        momentum = torch.einsum("bij,bj->bi", m, v)
        coriolis = torch.stack([
            (torch.autograd.grad(momentum[:, i].sum(), q, create_graph=True)[0] * v).sum(-1)
            for i in range(self.n)], 1)
        a, b = m[:, 0, 0], m[:, 0, 1]
        c, d = m[:, 1, 0], m[:, 1, 1]
        det = a * d - b * c
        inverse = torch.stack([torch.stack([d, -b], -1), torch.stack([-c, a], -1)], -2)
        inverse = inverse / det[:, None, None]
        return torch.einsum("bij,bj->bi", inverse, dq - coriolis)


class WavePinn(nn.Module):
    """The wave equation with a learned speed, and losses that weigh themselves."""

    def __init__(self, layers=(2, 16, 16, 1)):
        super().__init__()
        self.depth = len(layers) - 1
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in zip(layers, layers[1:]))
        self.a = nn.Parameter(torch.ones(self.depth - 1))
        self.c = nn.Parameter(torch.tensor([1.5]))
        self.log_vars = nn.ParameterDict({k: nn.Parameter(torch.zeros(())) for k in ("pde", "ic", "bc")})
        for linear in self.linears:
            nn.init.xavier_normal_(linear.weight.data, gain=1.0)
            nn.init.zeros_(linear.bias.data)

    def u(self, x, t):
        h = torch.cat((x, t), dim=1)
        for i, linear in enumerate(self.linears[:-1]):
            h = torch.sin(self.a[i] * linear(h))
        return self.linears[-1](h)

    def grads(self, u, *wrt):
        return torch.autograd.grad(u, wrt, grad_outputs=torch.ones_like(u), create_graph=True,
                                   retain_graph=True)

    def forward(self, x, t):
        x.requires_grad, t.requires_grad = True, True
        u_x, u_t = self.grads(self.u(x, t), x, t)
        u_xx, u_tt = self.grads(u_x, x)[0], self.grads(u_t, t)[0]
        t0 = torch.zeros_like(t, requires_grad=True)
        start = self.u(x, t0)
        losses = {
            "pde": F.mse_loss(u_tt, self.c ** 2 * u_xx),
            "ic": (start - torch.sin(math.pi * x)).square().mean() + self.grads(start, t0)[0].square().mean(),
            "bc": sum(self.u(torch.full_like(x, edge), t).square().mean() for edge in (0.0, 1.0))}
        return sum(torch.exp(-self.log_vars[k]) * v + self.log_vars[k] for k, v in losses.items())


class DeepKernel(nn.Module):
    """A Gaussian process on learned features: the marginal likelihood of the mini-batch."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
        self.raw_lengthscale = nn.Parameter(torch.zeros(1, 2))
        self.raw_noise, self.mean = nn.Parameter(torch.tensor(-2.0)), nn.Parameter(torch.zeros(1))

    def forward(self, x, y):
        z = self.features(x) / F.softplus(self.raw_lengthscale)
        square = z.pow(2).sum(-1)
        k = torch.exp(-0.5 * (square[:, None] + square[None] - 2 * z @ z.T).clamp_min(0))
        k = k + (F.softplus(self.raw_noise) + 1e-2) * torch.eye(x.size(0))
        chol = torch.linalg.cholesky(k)
        residual = (y - self.mean).unsqueeze(-1)
        alpha = torch.cholesky_solve(residual, chol)
        fit = -0.5 * (residual.mT @ alpha).squeeze()
        logdet = chol.diagonal().log().sum()
        return -(fit - logdet - 0.5 * x.size(0) * math.log(2 * math.pi)) / x.size(0)


class SacActor(nn.Module):
    """A squashed Gaussian policy and two frozen critics, with a learned temperature."""

    def __init__(self, obs=4, act=2):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, 16), nn.ReLU(), nn.Linear(16, 2 * act))
        self.q = nn.ModuleList([nn.Sequential(nn.Linear(obs + act, 16), nn.ReLU(), nn.Linear(16, 1))
                                for _ in range(2)]).requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.tensor(0.1).log())
        self.register_buffer("action_scale", torch.tensor([2.0, 0.5]))
        self.target_entropy = -float(act)

    def forward(self, obs):
        mean, log_std = self.trunk(obs).chunk(2, dim=-1)
        log_std = torch.tanh(log_std)
        log_std = -5 + 0.5 * (2 + 5) * (log_std + 1)
        normal = D.Independent(D.Normal(mean, log_std.exp()), 1)
        x_t = normal.rsample()
        y_t = torch.tanh(x_t)
        action = y_t * self.action_scale
        log_prob = normal.log_prob(x_t)
        log_prob = log_prob - torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6).sum(1)
        q1, q2 = (q(torch.cat([obs, action], 1)).squeeze(-1) for q in self.q)
        alpha = self.log_alpha.exp()
        actor = (alpha.detach() * log_prob - torch.min(q1, q2)).mean()
        temperature = (-alpha * (log_prob.detach() + self.target_entropy)).mean()
        return actor + temperature


class Rssm(nn.Module):
    """A world model: categorical states with gradients that pass through, and balanced divergences."""

    def __init__(self, obs=6, act=2, deter=8, stoch=3, classes=4):
        super().__init__()
        self.stoch, self.classes, self.deter = stoch, classes, deter
        self.encoder, self.inp = nn.Linear(obs, 8), nn.Linear(stoch * classes + act, 8)
        self.cell = nn.GRUCell(8, deter)
        self.prior = nn.Linear(deter, stoch * classes)
        self.posterior = nn.Linear(deter + 8, stoch * classes)
        self.decoder = nn.Linear(deter + stoch * classes, obs)
        self.reward = nn.Linear(deter + stoch * classes, 1)

    def state(self, logits):
        logits = logits.view(-1, self.stoch, self.classes)
        probs = 0.99 * logits.softmax(-1) + 0.01 / self.classes
        logits = probs.log()
        if self.training:
            index = (logits - torch.log(-torch.log(torch.rand_like(logits)))).argmax(-1)
        else:
            index = logits.argmax(-1)
        hard = F.one_hot(index, self.classes).to(probs.dtype)
        return logits, (hard + probs - probs.detach()).flatten(1)

    @staticmethod
    def kl(p, q):
        return (p.exp() * (p - q)).sum((-1, -2))

    def forward(self, obs, actions, rewards):
        h = obs.new_zeros(obs.size(0), self.deter)
        z = obs.new_zeros(obs.size(0), self.stoch * self.classes)
        total = 0.0
        for t in range(obs.size(1)):
            h = self.cell(F.elu(self.inp(torch.cat([z, actions[:, t]], -1))), h)
            prior, _ = self.state(self.prior(h))
            post, z = self.state(self.posterior(torch.cat([h, F.elu(self.encoder(obs[:, t]))], -1)))
            feat = torch.cat([h, z], -1)
            dyn = torch.clip(self.kl(post.detach(), prior), min=1.0)
            rep = torch.clip(self.kl(post, prior.detach()), min=1.0)
            target = torch.sign(rewards[:, t]) * torch.log(torch.abs(rewards[:, t]) + 1)
            total = total + (0.5 * dyn + 0.1 * rep).mean() + F.mse_loss(
                self.decoder(feat), obs[:, t]) + F.mse_loss(self.reward(feat)[:, 0], target)
        return total / obs.size(1)


class QMix(nn.Module):
    """Mixes the values of agents by a hypernetwork with positive weights."""

    def __init__(self, agents=3, obs=4, actions=5, state=6, embed=8):
        super().__init__()
        self.agents, self.embed = agents, embed
        self.agent = nn.Sequential(nn.Linear(obs + agents, 16), nn.ReLU(), nn.Linear(16, actions))
        self.hyper_w1, self.hyper_w2 = nn.Linear(state, agents * embed), nn.Linear(state, embed)
        self.hyper_b1 = nn.Linear(state, embed)
        self.hyper_b2 = nn.Sequential(nn.Linear(state, embed), nn.ReLU(), nn.Linear(embed, 1))

    def forward(self, obs, state, actions, avail, target):
        b = obs.shape[0]
        ids = torch.eye(self.agents).unsqueeze(0).expand(b, -1, -1)
        q = self.agent(torch.cat([obs, ids], dim=-1))
        q = torch.where(avail.bool(), q, torch.full_like(q, -9999999.0).detach() * 0 - 10.0)
        chosen = torch.gather(q, dim=2, index=actions.unsqueeze(2)).squeeze(2).view(b, 1, -1)
        w1 = torch.abs(self.hyper_w1(state)).view(-1, self.agents, self.embed)
        b1 = self.hyper_b1(state).view(-1, 1, self.embed)
        hidden = F.elu(torch.bmm(chosen, w1) + b1)
        w2 = torch.abs(self.hyper_w2(state)).view(-1, self.embed, 1)
        y = (torch.bmm(hidden, w2) + self.hyper_b2(state).view(-1, 1, 1)).view(b)
        td_error = y - target.detach()
        return (td_error ** 2).mean()


class EegNet(nn.Module):
    """Convolutions in time and over electrodes, and an inception block of wide kernels."""

    def __init__(self, electrodes=4, samples=32, f1=4, d=2):
        super().__init__()
        self.net = nn.Sequential(OrderedDict(
            conv=nn.Conv2d(1, f1, (1, 16), padding="same", bias=False), bn=nn.BatchNorm2d(f1),
            depth=nn.Conv2d(f1, f1 * d, (electrodes, 1), groups=f1, bias=False),
            bn2=nn.BatchNorm2d(f1 * d, momentum=0.01, affine=True, eps=1e-3), elu=nn.ELU(),
            pool=nn.AvgPool2d((1, 4)), drop=nn.Dropout(p=0.25)))
        self.inception = nn.ModuleList(
            [nn.Conv1d(f1 * d, 4, k, padding=k // 2, bias=False) for k in (5, 3, 1)])
        self.pooled = nn.Sequential(nn.MaxPool1d(3, 1, 1), nn.Conv1d(f1 * d, 4, 1, bias=False))
        self.shortcut = nn.Sequential(nn.Conv1d(f1 * d, 16, 1), nn.BatchNorm1d(16))
        self.bn, self.head = nn.BatchNorm1d(16), nn.LazyLinear(3)
        self(torch.zeros(2, electrodes, samples))

    def forward(self, x):
        x = self.net(x[:, None]).squeeze(2)
        y = self.bn(torch.cat([*(conv(x) for conv in self.inception), self.pooled(x)], dim=1))
        y = F.relu(y + self.shortcut(x))
        ppv = (y > 0.5).float().mean(-1)
        return self.head(torch.cat([y.mean(-1), y.amax(-1), ppv], 1))


class AttentionMil(nn.Module):
    """Gated attention over the instances of a bag, of which some are padding."""

    def __init__(self, d=6, h=8):
        super().__init__()
        self.v, self.u, self.w = nn.Linear(d, h), nn.Linear(d, h), nn.Linear(h, 1)
        self.bag, self.instance = nn.Linear(d, 1), nn.Linear(d, 2)

    def forward(self, bags, sizes):
        mask = torch.arange(bags.shape[1])[None, :] < sizes[:, None]
        a = self.w(torch.tanh(self.v(bags)) * torch.sigmoid(self.u(bags))).squeeze(-1)
        a = a.masked_fill(~mask, torch.finfo(a.dtype).min).softmax(dim=1)
        z = torch.bmm(a[:, None], bags).squeeze(1)
        top = torch.topk(a, 2, dim=1)[1]
        best = torch.gather(bags, 1, top.unsqueeze(-1).expand(-1, -1, bags.size(-1)))
        return self.bag(z).squeeze(-1), self.instance(best)


def bag_loss(outputs, y):
    """The loss of the bags, and of the instances that have the most attention."""
    logit, instances = outputs
    inst = F.cross_entropy(instances.reshape(-1, 2), y.long()[:, None].expand(-1, 2).reshape(-1))
    return 0.7 * F.binary_cross_entropy_with_logits(logit, y, pos_weight=torch.tensor(2.0)) + 0.3 * inst


class VoxelMorph(nn.Module):
    """Registers volumes: a field that is integrated, a 3-D sampler, and local correlations."""

    def __init__(self, size=(6, 6, 6), steps=2):
        super().__init__()
        self.unet = nn.Sequential(nn.Conv3d(2, 6, 3, padding=1), nn.LeakyReLU(0.2))
        self.flow = nn.Conv3d(6, 3, 3, padding=1)
        self.flow.weight = nn.Parameter(D.Normal(0, 1e-2).sample(self.flow.weight.shape))
        self.flow.bias = nn.Parameter(torch.zeros(self.flow.bias.shape))
        vectors = [torch.arange(0, s) for s in size]
        grid = torch.stack(torch.meshgrid(vectors, indexing="ij")).unsqueeze(0).float()
        self.register_buffer("grid", grid, persistent=False)
        self.steps = steps

    def warp(self, src, flow):
        new_locs = self.grid + flow
        shape = flow.shape[2:]
        new_locs = torch.stack([2 * (new_locs[:, i] / (shape[i] - 1) - 0.5) for i in range(3)], 1)
        new_locs = new_locs.permute(0, 2, 3, 4, 1)[..., [2, 1, 0]]
        return F.grid_sample(src, new_locs, align_corners=True, mode="bilinear")

    @staticmethod
    def ncc(i, j, win=3):
        filt = torch.ones([1, 1, win, win, win])
        conv = lambda x: F.conv3d(x, filt, stride=1, padding=win // 2)  # noqa: E731
        i_sum, j_sum, i2, j2, ij = conv(i), conv(j), conv(i * i), conv(j * j), conv(i * j)
        n = win ** 3
        u_i, u_j = i_sum / n, j_sum / n
        cross = ij - u_j * i_sum - u_i * j_sum + u_i * u_j * n
        i_var = i2 - 2 * u_i * i_sum + u_i * u_i * n
        j_var = j2 - 2 * u_j * j_sum + u_j * u_j * n
        return -torch.mean(cross * cross / (i_var * j_var + 1e-5))

    def forward(self, source, target):
        vec = self.flow(self.unet(torch.cat([source, target], dim=1))) * (1.0 / 2 ** self.steps)
        for _ in range(self.steps):
            vec = vec + self.warp(vec, vec)
        y = self.warp(source, vec)
        d = [torch.diff(vec, dim=k) for k in (2, 3, 4)]
        return self.ncc(target, y) + 0.01 * sum((g * g).mean() for g in d) / 3.0


class TemporalShift(nn.Module):
    """Moves a part of the channels along time before a convolution of every frame."""

    def __init__(self, segments=4, c=8):
        super().__init__()
        self.n_segment = segments
        self.conv1, self.conv2 = nn.Conv2d(3, c, 3, 2, 1), nn.Conv2d(c, c, 3, 1, 1)
        self.fc = nn.Linear(c, 3)

    def shift(self, x, fold_div=4):
        nt, c, h, w = x.size()
        x = x.view(nt // self.n_segment, self.n_segment, c, h, w)
        fold = c // fold_div
        out = torch.zeros_like(x)
        out[:, :-1, :fold] = x[:, 1:, :fold]
        out[:, 1:, fold: 2 * fold] = x[:, :-1, fold: 2 * fold]
        out[:, :, 2 * fold:] = x[:, :, 2 * fold:]
        return out.view(nt, c, h, w)

    def forward(self, video):
        x = video.view((-1, 3) + video.size()[-2:])
        x = F.relu_(self.conv1(x))
        x = x + F.relu(self.conv2(self.shift(x)))
        x = self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))
        x = x.view((-1, self.n_segment) + x.size()[1:])
        return x.mean(dim=1, keepdim=True).squeeze(1)


class DiffPool(nn.Module):
    """Pools graphs by soft assignments, with the losses of links and entropy."""

    def __init__(self, d=5, clusters=3, h=8):
        super().__init__()
        self.embed, self.assign = nn.Linear(d, h), nn.Linear(d, clusters)
        self.after, self.head = nn.Linear(h, h), nn.Linear(2 * h, 3)

    @staticmethod
    def gcn(layer, x, adj):
        adj = adj + torch.eye(adj.size(-1))
        deg = adj.sum(-1).clamp(min=1).pow(-0.5)
        return layer((deg.unsqueeze(-1) * adj * deg.unsqueeze(-2)) @ x)

    def forward(self, x, adj):
        adj = ((adj + adj.mT) > 1).float() * (1 - torch.eye(adj.size(-1)))
        z = F.relu(self.gcn(self.embed, x, adj))
        s = torch.softmax(self.gcn(self.assign, x, adj), dim=-1)
        out = torch.matmul(s.transpose(1, 2), z)
        out_adj = torch.matmul(torch.matmul(s.transpose(1, 2), adj), s)
        link_loss = torch.norm(adj - torch.matmul(s, s.transpose(1, 2)), p=2) / adj.numel()
        ent_loss = (-s * torch.log(s + 1e-15)).sum(dim=-1).mean()
        out = F.relu(self.gcn(self.after, out, out_adj))
        pooled = torch.cat([out.mean(1), out.max(1).values], -1)
        return self.head(pooled), link_loss * 16 + ent_loss


class RelationalGraph(nn.Module):
    """Relations with shared bases, messages of an edge list, and a pooling by an LSTM."""

    def __init__(self, nodes=8, d=5, relations=3, bases=2, steps=2):
        super().__init__()
        self.bases = nn.Parameter(torch.randn(bases, d, d) * 0.4)
        self.comp = nn.Parameter(torch.randn(relations, bases))
        self.root = nn.Parameter(torch.randn(d, d) * 0.4)
        self.lstm = nn.LSTMCell(2 * d, d)
        self.nodes, self.relations, self.steps, self.head = nodes, relations, steps, nn.Linear(2 * d, 3)

    def forward(self, x, source, target, kind):
        weight = torch.einsum("rb,bio->rio", self.comp, self.bases)
        out = x @ self.root
        for r in range(self.relations):
            hit = (kind == r).float().unsqueeze(-1)
            message = torch.gather(x, 1, source.unsqueeze(-1).expand(-1, -1, x.size(-1))) @ weight[r]
            index = target.unsqueeze(-1).expand_as(message)
            total = torch.zeros_like(x).scatter_add_(1, index, message * hit)
            count = torch.zeros_like(x[..., :1]).scatter_add_(1, target.unsqueeze(-1), hit)
            out = out + total / count.clamp_(min=1)
        out = F.relu(out)
        h = c = out.new_zeros(x.size(0), x.size(-1))
        q_star = out.new_zeros(x.size(0), 2 * x.size(-1))
        for _ in range(self.steps):
            h, c = self.lstm(q_star, (h, c))
            a = torch.softmax((out * h.unsqueeze(1)).sum(-1, keepdim=True), 1)
            q_star = torch.cat([h, (a * out).sum(1)], dim=-1)
        return self.head(q_star)


class GraphWaveNet(nn.Module):
    """Traffic of sensors: a learned adjacency, gated convolutions in time, and skips."""

    def __init__(self, nodes=5, c=6, horizon=3):
        super().__init__()
        self.nodevec1 = nn.Parameter(torch.randn(nodes, 4))
        self.nodevec2 = nn.Parameter(torch.randn(4, nodes))
        self.start_conv = nn.Conv2d(in_channels=1, out_channels=c, kernel_size=(1, 1))
        self.filter_convs, self.gate_convs, self.skips, self.mixes, self.bn = (
            nn.ModuleList() for _ in range(5))
        for i in range(2):
            self.filter_convs.append(nn.Conv2d(c, c, kernel_size=(1, 2), dilation=2 ** i))
            self.gate_convs.append(nn.Conv2d(c, c, kernel_size=(1, 2), dilation=2 ** i))
            self.skips.append(nn.Conv2d(c, c, (1, 1)))
            self.mixes.append(nn.Conv2d(3 * c, c, (1, 1)))
            self.bn.append(nn.BatchNorm2d(c))
        self.end = nn.Conv2d(c, horizon, (1, 1))

    def forward(self, input):
        x, skip = self.start_conv(input), 0
        adp = F.softmax(F.relu(torch.mm(self.nodevec1, self.nodevec2)), dim=1)
        for i in range(2):
            residual = x
            x = torch.tanh(self.filter_convs[i](x)) * torch.sigmoid(self.gate_convs[i](x))
            s = self.skips[i](x)
            try:
                skip = skip[:, :, :, -s.size(3):]
            except TypeError:
                skip = 0
            skip = s + skip
            out = [x]
            for _ in range(2):
                out.append(torch.einsum("ncvl,vw->ncwl", (out[-1], adp)).contiguous())
            x = self.mixes[i](torch.cat(out, dim=1)) + residual[:, :, :, -x.size(3):]
            x = self.bn[i](x)
        return self.end(F.relu(skip))[..., -1]


def masked_mae(preds, labels, null_val=0.0):
    """The mean error of the values that are there."""
    mask = (labels != null_val)
    mask = mask.float()
    mask /= torch.mean(mask)
    mask = torch.where(torch.isnan(mask), torch.zeros_like(mask), mask)
    loss = torch.abs(preds - labels) * mask
    return torch.mean(torch.where(torch.isnan(loss), torch.zeros_like(loss), loss))


class ConvexNet(nn.Module):
    """A function that is convex in its input, its gradient, and arithmetic units."""

    def __init__(self, d=3, h=8):
        super().__init__()
        self.wx, self.wz = nn.ModuleList(nn.Linear(d, h) for _ in range(2)), nn.Linear(h, h, bias=False)
        self.out = nn.Linear(h, 1)
        self.w_hat, self.m_hat = (nn.Parameter(torch.randn(2, d) * 0.5) for _ in range(2))
        self.g = nn.Parameter(torch.randn(2, d) * 0.1)

    def potential(self, x):
        z = F.softplus(self.wx[0](x))
        z = F.softplus(F.linear(z, F.softplus(self.wz.weight)) / 8 + self.wx[1](x))
        return F.linear(z, self.out.weight.exp() / 8, self.out.bias) + 0.05 * x.pow(2).sum(1, True)

    def forward(self, x):
        x = x.requires_grad_(True)
        transport = torch.autograd.grad(self.potential(x).sum(), x, create_graph=True)[0]
        w = torch.tanh(self.w_hat) * torch.sigmoid(self.m_hat)
        a = F.linear(x, w)
        m = torch.exp(F.linear(torch.log(torch.abs(x) + 1e-3), w))
        g = torch.sigmoid(F.linear(x, self.g))
        return torch.cat([transport, g * a + (1 - g) * m], 1)


class Mmoe(nn.Module):
    """Experts that tasks share through gates, a history with attention, and a joint probability."""

    def __init__(self, items=20, d=4, experts=3):
        super().__init__()
        self.item = nn.Embedding(items, d, padding_idx=0)
        self.activation = nn.Sequential(nn.Linear(4 * d, 8), nn.PReLU(), nn.Linear(8, 1))
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(2 * d, 8), nn.ReLU())
                                      for _ in range(experts)])
        self.gates = nn.ParameterList([nn.Parameter(torch.rand(2 * d, experts)) for _ in range(2)])
        self.towers = nn.ModuleList([nn.Linear(8, 1) for _ in range(2)])

    def forward(self, history, item):
        query, keys = self.item(item), self.item(history)
        q = query[:, None].expand_as(keys)
        weight = self.activation(torch.cat([q, keys, q - keys, q * keys], -1))
        weight = weight * (history > 0).unsqueeze(-1)
        x = torch.cat([(weight * keys).sum(1), query], 1)
        outs = torch.stack([e(x) for e in self.experts], dim=1)
        p = []
        for gate, tower in zip(self.gates, self.towers):
            mixed = torch.einsum("be,beh->bh", torch.softmax(x @ gate, dim=1), outs)
            p += [torch.sigmoid(tower(mixed)).squeeze(-1)]
        return dict(ctr=p[0], ctcvr=p[0] * p[1])


def both_rates(outputs, targets):
    """The binary cross entropies of both rates."""
    return sum(F.binary_cross_entropy(outputs[k].clamp(1e-6, 1 - 1e-6), targets[k].float())
               for k in outputs.keys())


class Ranker(nn.Module):
    """Scores the documents of a query: a loss of lists, one of pairs, and an approximate NDCG."""

    def __init__(self, d=5):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(d, 12), nn.SELU(), nn.Linear(12, 1, bias=False))

    def forward(self, docs, relevance):
        s = self.score(docs).squeeze(-1)
        y, order = relevance.sort(descending=True, dim=-1, stable=True)
        sorted_s = torch.gather(s, 1, order)
        cumsums = torch.logcumsumexp(sorted_s.flip(dims=[1]), dim=1).flip(dims=[1])
        list_mle = (cumsums - sorted_s).sum(1).mean()
        diff = s[:, :, None] - s[:, None, :]
        better = (relevance[:, :, None] > relevance[:, None, :]).float()
        pairs = (F.softplus(-diff) * better).sum() / better.sum().clamp(min=1)
        rank = 1 + torch.sigmoid(-10 * diff).sum(-1) - 0.5
        dcg = ((2.0 ** relevance - 1) / torch.log2(1 + rank)).sum(-1)
        ideal = ((2.0 ** y - 1) / torch.log2(2.0 + torch.arange(y.size(1)))).sum(-1).clamp(min=1)
        return list_mle + pairs + (1 - dcg / ideal).mean()


class PaddedEncoder(nn.Module):
    """torch's encoder with its fast path in evaluation, a class token, and padding."""

    def __init__(self, words=20, d=8):
        super().__init__()
        self.embed = nn.Embedding(words, d, padding_idx=0)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.register_buffer("pe", self.table(12, d))
        layer = nn.TransformerEncoderLayer(d_model=d, nhead=2, dim_feedforward=16, dropout=0.1,
                                           batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, norm=nn.LayerNorm(d))
        self.fc = nn.Linear(d, 3)

    @staticmethod
    def table(length, d):
        position = torch.arange(length).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe = torch.zeros(1, length, d)
        pe[0, :, 0::2], pe[0, :, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
        return pe

    def forward(self, tokens):
        pad = torch.cat([torch.zeros(tokens.size(0), 1, dtype=torch.bool), tokens == 0], dim=1)
        x = torch.cat([self.cls.expand(tokens.size(0), -1, -1), self.embed(tokens)], dim=1)
        x = x * math.sqrt(x.size(-1)) + self.pe[:, : x.size(1)]
        return self.fc(self.encoder(x, src_key_padding_mask=pad)[:, 0])


class Captioner(nn.Module):
    """Images to texts: a decoder with causal and padding masks, on a grid of features."""

    def __init__(self, words=15, d=8, length=6):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, d, 4, 4), nn.ReLU())
        self.embed, self.pos = nn.Embedding(words, d), nn.Embedding(length, d)
        layer = nn.TransformerDecoderLayer(d, 2, 16, 0.1, activation=F.gelu, batch_first=True,
                                           norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2, nn.LayerNorm(d))
        self.embed_scale = math.sqrt(d)

    def forward(self, images, captions):
        memory = self.backbone(images).flatten(2).permute(0, 2, 1)
        inputs, wanted = captions[:, :-1], captions[:, 1:]
        t = inputs.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(t)
        x = self.embed(inputs) * self.embed_scale + self.pos(torch.arange(t))
        padding = torch.zeros(inputs.shape).masked_fill_(inputs == 0, float("-inf"))
        x = self.decoder(x, memory, tgt_mask=mask, tgt_key_padding_mask=padding, tgt_is_causal=True)
        logits = F.linear(x, self.embed.weight)
        return F.cross_entropy(logits.permute(0, 2, 1), wanted, ignore_index=0, label_smoothing=0.1)


class TeacherForcing(nn.Module):
    """Translates with a cell for each step; its input is the label or its own word."""

    def __init__(self, source=15, target=12, d=8):
        super().__init__()
        self.src, self.tgt = nn.Embedding(source, d), nn.Embedding(target, d)
        self.encoder = nn.GRU(d, d, num_layers=2, bidirectional=True, dropout=0.1)
        self.bridge = nn.Linear(2 * d, d)
        self.attn = nn.Linear(3 * d, d)
        self.v = nn.Parameter(torch.rand(d))
        self.cell = nn.GRUCell(3 * d, d)
        self.out = nn.Linear(4 * d, target)

    def attention(self, hidden, outputs):
        h = hidden.repeat(outputs.shape[0], 1, 1).permute(1, 0, 2)
        outputs = outputs.permute(1, 0, 2)
        energy = torch.tanh(self.attn(torch.cat((h, outputs), dim=2))).permute(0, 2, 1)
        v = self.v.repeat(outputs.size(0), 1).unsqueeze(1)
        return F.softmax(torch.bmm(v, energy).squeeze(1), dim=1)

    def forward(self, src, trg):
        src, trg = src.t(), trg.t()
        outputs, hidden = self.encoder(self.src(src))
        hidden = torch.tanh(self.bridge(torch.cat((hidden[-2], hidden[-1]), dim=1)))
        results, token = [], trg[0]
        for t in range(1, trg.shape[0]):
            emb = self.tgt(token)
            weighted = torch.bmm(self.attention(hidden, outputs).unsqueeze(1),
                                 outputs.permute(1, 0, 2)).squeeze(1)
            hidden = self.cell(torch.cat((emb, weighted), dim=1), hidden)
            logits = self.out(torch.cat((hidden, weighted, emb), dim=1))
            results.append(logits)
            if self.training:
                force = torch.bernoulli(torch.full(token.shape, 0.5)).bool()
                token = torch.where(force, trg[t], logits.argmax(1))
            else:
                token = logits.argmax(1)
        return F.cross_entropy(torch.cat(results), trg[1:].reshape(-1))


class ProjectedLstm(nn.Module):
    """An LSTM of speech recognition: projections, layers in both directions, a stacked input."""

    def __init__(self, d=6, hidden=8, proj=4):
        super().__init__()
        self.lstm = nn.LSTM(d, hidden, num_layers=2, proj_size=proj, bidirectional=True,
                            batch_first=True, dropout=0.1)
        self.norm, self.fc = nn.LayerNorm(2 * proj), nn.Linear(2 * proj, 5)

    def forward(self, x):
        h0 = torch.zeros(4, x.size(0), 4)
        c0 = torch.zeros(4, x.size(0), 8)
        out, (h, c) = self.lstm(x, (h0, c0))
        return self.fc(self.norm(out)).transpose(1, 2)


class DomainAdversarial(nn.Module):
    """Features without a domain: the sign of the gradient is turned by a detached copy."""

    def __init__(self):
        super().__init__()
        self.feature = nn.Sequential(nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.MaxPool1d(2),
                                     nn.ReLU(True), nn.Flatten())
        self.class_classifier = nn.Sequential(nn.Linear(20, 8), nn.ReLU(True), nn.Linear(8, 3),
                                              nn.LogSoftmax(dim=1))
        self.domain_classifier = nn.Sequential(nn.Linear(20, 8), nn.ReLU(True), nn.Linear(8, 2),
                                               nn.LogSoftmax(dim=1))

    def forward(self, source, target, labels, alpha=0.3):
        nll = nn.NLLLoss()
        total = 0
        for domain, data in enumerate((source, target)):
            f = self.feature(data.unsqueeze(1))
            reversed_f = (1 + alpha) * f.detach() - alpha * f
            if domain == 0:
                total = total + nll(self.class_classifier(f), labels)
            wanted = torch.full((len(data),), domain).long()
            total = total + nll(self.domain_classifier(reversed_f), wanted)
        return total


class VicReg(nn.Module):
    """Two views, an expander, and the variance, invariance and covariance of the mini-batch."""

    def __init__(self, d=8):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(10, 12), nn.BatchNorm1d(12), nn.ReLU())
        self.projector = nn.Sequential(nn.Linear(12, d), nn.BatchNorm1d(d), nn.ReLU(True),
                                       nn.Linear(d, d, bias=False))
        self.num_features = d

    @staticmethod
    def off_diagonal(x):
        n, m = x.shape
        assert n == m
        return x.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()

    def forward(self, x, y):
        x, y = self.projector(self.backbone(x)), self.projector(self.backbone(y))
        repr_loss = F.mse_loss(x, y)
        x, y = x - x.mean(dim=0), y - y.mean(dim=0)
        std_x, std_y = torch.sqrt(x.var(dim=0) + 0.0001), torch.sqrt(y.var(dim=0) + 0.0001)
        std_loss = torch.mean(F.relu(1 - std_x)) / 2 + torch.mean(F.relu(1 - std_y)) / 2
        cov_x, cov_y = ((z.T @ z) / (x.shape[0] - 1) for z in (x, y))
        cov_loss = (self.off_diagonal(cov_x).pow_(2).sum().div(self.num_features)
                    + self.off_diagonal(cov_y).pow_(2).sum().div(self.num_features))
        return 25.0 * repr_loss + 25.0 * std_loss + cov_loss


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


class TimeMachine(nn.Module):
    """Irregular series: values decay to their means with the time since they were seen."""

    def __init__(self, d=3, h=6):
        super().__init__()
        self.gamma_x, self.gamma_h = nn.Linear(d, d), nn.Linear(d, h)
        self.cell = nn.GRUCell(2 * d, h)
        self.register_buffer("x_mean", torch.tensor([0.1, -0.2, 0.3]))
        self.head = nn.Linear(h, 1)

    def forward(self, values, mask):
        mask = mask.float()
        b, t, d = values.shape
        delta = torch.zeros_like(values)
        for i in range(1, t):
            delta[:, i] = 1.0 + (1 - mask[:, i - 1]) * delta[:, i - 1].clone()
        h, last = values.new_zeros(b, 6), self.x_mean.expand(b, -1)
        for i in range(t):
            m, x = mask[:, i], values[:, i]
            gx = torch.exp(-F.relu(self.gamma_x(delta[:, i])))
            gh = torch.exp(-torch.max(torch.zeros(b, 6), self.gamma_h(delta[:, i])))
            last = torch.where(m.bool(), x, last)
            x = m * x + (1 - m) * (gx * last + (1 - gx) * self.x_mean)
            h = self.cell(torch.cat([x, m], 1), gh * h)
        return self.head(h)[:, 0]


class PatchGraph(nn.Module):
    """Neighbours of points by distances, relative places, and attention of vectors."""

    def __init__(self, d=6, k=4):
        super().__init__()
        self.k, self.inp = k, nn.Linear(3, d)
        self.q, self.kk, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.pos = nn.Sequential(nn.Linear(3, d), nn.ReLU(), nn.Linear(d, d))
        self.gamma = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.head = nn.Linear(d, 4)

    @staticmethod
    def square_distance(a, b):
        return torch.sum((a[:, :, None] - b[:, None]) ** 2, dim=-1)

    @staticmethod
    def index_points(points, idx):
        size = idx.size()
        idx = idx.reshape(size[0], -1)
        res = torch.gather(points, 1, idx[..., None].expand(-1, -1, points.size(-1)))
        return res.reshape(*size, -1)

    def forward(self, xyz):
        x = self.inp(xyz)
        idx = self.square_distance(xyz, xyz).argsort()[:, :, : self.k]
        near = self.index_points(xyz, idx)
        q, k, v = self.q(x), self.index_points(self.kk(x), idx), self.index_points(self.v(x), idx)
        pos = self.pos(xyz[:, :, None] - near)
        attn = F.softmax(self.gamma(q[:, :, None] - k + pos) / k.size(-1) ** 0.5, dim=-2)
        return self.head((torch.einsum("bmnf,bmnf->bmf", attn, v + pos) + x).max(1)[0])


CASES = {
    "skip_gram": case(SkipGram, None, lambda: (integers(30), integers(30), integers(30, 4))),
    "trans_e": case(TransE, None, lambda: (integers(20, 3), integers(20, 3))),
    "spiking": case(Spiking, spiking_loss, lambda: floats(12), lambda: integers(3)),
    "tab_net": case(TabNet, tab_loss, lambda: floats(6), lambda: integers(3)),
    "oblivious_trees": case(ObliviousTrees, nn.CrossEntropyLoss, lambda: floats(6),
                            lambda: integers(2)),
    "rbf_net": case(RbfNet, nn.CrossEntropyLoss, lambda: floats(4), lambda: integers(3)),
    "made": case(Made, None, lambda: floats(4)),
    "ffjord": case(Ffjord, None, lambda: floats(2)),
    "flow_matching": case(FlowMatching, None, lambda: {"x": floats(3), "y": integers(4)}),
    "sliced_score": case(SlicedScore, None, lambda: floats(3)),
    "bayes_net": case(BayesNet, None, lambda: {"x": floats(5), "y": integers(3)}),
    "deep_ar": case(DeepAr, None, lambda: (floats(9), integers(5))),
    "d_linear": case(DLinear, nn.L1Loss, lambda: floats(12, 3), lambda: floats(4, 3)),
    "tas_net": case(TasNet, permutation_loss, lambda: floats(24), lambda: floats(2, 24)),
    "bi_fpn": case(BiFpn, ciou_loss, lambda: floats(3, 16, 16),
                   lambda: torch.tensor([0.1, 0.2, 0.6, 0.8]) + 0.1 * torch.rand(SAMPLES, 4)),
    "hourglass": case(Hourglass, joint_loss, lambda: floats(1, 8, 8), lambda: {
        "maps": torch.rand(SAMPLES, 3, 8, 8), "coords": floats(3, 2), "visible": integers(2, 3)}),
    "depth_net": case(DepthNet, None, lambda: (torch.rand(SAMPLES, 3, 8, 8),
                                               torch.rand(SAMPLES, 3, 8, 8))),
    "cycle_gan": case(CycleGan, None, lambda: (floats(3, 8, 8), floats(3, 8, 8))),
    "conditional_norms": case(ConditionalNorms, nn.MSELoss, lambda: (floats(6), integers(4)),
                              lambda: floats(3, 4, 4)),
    "relation_net": case(RelationNet, nn.NLLLoss, lambda: (floats(5, 6), floats(4)),
                         lambda: integers(5)),
    "bi_daf": case(BiDaf, span_loss, lambda: (2 + integers(23, 7), integers(12, 7, 5),
                                              2 + integers(23, 4), integers(12, 4, 5)),
                   lambda: {"s_idx": integers(7), "e_idx": integers(7)}),
    "biaffine": case(Biaffine, None, lambda: {"words": integers(20, 6), "tags": integers(6, 6),
                                              "heads": integers(6, 6), "rels": integers(4, 6)}),
    "alibi_gpt": case(AlibiGpt, second, lambda: {"idx": integers(25, 9), "targets": integers(25, 9)},
                      lambda: {"unused": integers(2)}),
    "switch_moe": case(SwitchMoe, with_auxiliary, lambda: floats(9, 8), lambda: integers(4)),
    "nystrom": case(Nystrom, nn.CrossEntropyLoss, lambda: floats(12, 8), lambda: integers(3)),
    "hyena": case(Hyena, nn.CrossEntropyLoss, lambda: floats(12, 6), lambda: integers(3)),
    "linear_recurrence": case(LinearRecurrence, nn.CrossEntropyLoss, lambda: floats(7, 4),
                              lambda: integers(3)),
    "test_time_training": case(TestTimeTraining, nn.CrossEntropyLoss, lambda: floats(4, 4),
                               lambda: integers(2)),
    "bit_net": case(BitNet, with_auxiliary, lambda: floats(6), lambda: integers(4)),
    "deep_equilibrium": case(DeepEquilibrium, nn.CrossEntropyLoss, lambda: floats(5),
                             lambda: integers(3)),
    "lagrangian": case(LagrangianNet, nn.MSELoss, lambda: (floats(2), floats(2)), lambda: floats(2)),
    "wave_pinn": case(WavePinn, None, lambda: (torch.rand(SAMPLES, 1), torch.rand(SAMPLES, 1))),
    "deep_kernel": case(DeepKernel, None, lambda: (floats(3), floats())),
    "sac_actor": case(SacActor, None, lambda: floats(4)),
    "rssm": case(Rssm, None, lambda: (floats(3, 6), floats(3, 2), floats(3))),
    "q_mix": case(QMix, None, lambda: (floats(3, 4), floats(6), integers(5, 3), integers(2, 3, 5),
                                       floats())),
    "eeg_net": case(EegNet, nn.CrossEntropyLoss, lambda: floats(4, 32), lambda: integers(3)),
    "attention_mil": case(AttentionMil, bag_loss, lambda: (floats(6, 6), 2 + integers(5)),
                          lambda: integers(2).float()),
    "voxel_morph": case(VoxelMorph, None, lambda: (floats(1, 6, 6, 6), floats(1, 6, 6, 6))),
    "temporal_shift": case(TemporalShift, nn.CrossEntropyLoss, lambda: floats(12, 8, 8),
                           lambda: integers(3)),
    "diff_pool": case(DiffPool, with_auxiliary, lambda: (floats(6, 5), torch.rand(SAMPLES, 6, 6)),
                      lambda: integers(3)),
    "relational_graph": case(RelationalGraph, nn.CrossEntropyLoss, lambda: (
        floats(8, 5), integers(8, 12), integers(8, 12), integers(3, 12)), lambda: integers(3)),
    "graph_wave_net": case(GraphWaveNet, masked_mae, lambda: floats(1, 5, 8), lambda: floats(3, 5)),
    "convex_net": case(ConvexNet, nn.MSELoss, lambda: floats(3), lambda: floats(5)),
    "mmoe": case(Mmoe, both_rates, lambda: (integers(20, 5), integers(20)),
                 lambda: {"ctr": integers(2), "ctcvr": integers(2)}),
    "ranker": case(Ranker, None, lambda: (floats(6, 5), integers(4, 6).float())),
    "padded_encoder": case(PaddedEncoder, nn.CrossEntropyLoss, lambda: integers(20, 9),
                           lambda: integers(3)),
    "captioner": case(Captioner, None, lambda: (floats(3, 8, 8), torch.cat(
        [1 + integers(14, 4), integers(2, 3)], 1))),
    "teacher_forcing": case(TeacherForcing, None, lambda: (integers(15, 6), integers(12, 5))),
    "projected_lstm": case(ProjectedLstm, nn.CrossEntropyLoss, lambda: floats(5, 6),
                           lambda: integers(5, 5)),
    "domain_adversarial": case(DomainAdversarial, None, lambda: {
        "source": floats(12), "target": floats(12), "labels": integers(3)}),
    "vic_reg": case(VicReg, None, lambda: (floats(10), floats(10))),
    "many_heads": case(ManyHeads, ManyLosses, lambda: floats(6), lambda: {
        "y": integers(4), "counts": integers(5, 2), "values": floats(2)}),
    "time_machine": case(TimeMachine, nn.BCEWithLogitsLoss, lambda: (floats(5, 3), integers(2, 5, 3)),
                         lambda: integers(2).float()),
    "point_attention": case(PatchGraph, nn.CrossEntropyLoss, lambda: floats(7, 3),
                            lambda: integers(4)),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
