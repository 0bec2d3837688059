"""Generative models as users write them, for scripts/zoo.

Flows, diffusion, adversaries, autoencoders.
"""
import math
from collections import OrderedDict

import torch
import torch.distributions as D
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal, kl_divergence
from torch.func import functional_call
from zoo_case import SAMPLES, case, entries_of, floats, integers


class RealNvp(nn.Module):
    """A normalising flow of affine couplings; returns the log-likelihood."""

    def __init__(self, layers=3):
        super().__init__()
        def net():
            return nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(), nn.Linear(16, 4))
        self.scales = nn.ModuleList(nn.Sequential(net(), nn.Tanh()) for _ in range(layers))
        self.shifts = nn.ModuleList(net() for _ in range(layers))
        masks = torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]]).float().repeat(2, 1)[:layers]
        self.register_buffer("masks", masks)

    def forward(self, x):
        log_det = x.new_zeros(x.shape[0])
        for i in reversed(range(len(self.scales))):
            kept = self.masks[i] * x
            s = self.scales[i](kept) * (1 - self.masks[i])
            t = self.shifts[i](kept) * (1 - self.masks[i])
            x = (1 - self.masks[i]) * (x - t) * torch.exp(-s) + kept
            log_det -= s.sum(dim=1)
        prior = torch.distributions.Normal(torch.zeros(4), torch.ones(4))
        return -(prior.log_prob(x).sum(1) + log_det).mean()


class Gaussians(nn.Module):
    """A mixture density network."""

    def __init__(self):
        super().__init__()
        self.body, self.parts = nn.Sequential(nn.Linear(2, 16), nn.Tanh()), nn.Linear(16, 9)

    def forward(self, x):
        return self.parts(self.body(x)).chunk(3, dim=1)


def density_loss(outputs, target):
    weight, mean, spread = outputs
    mixture = torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(logits=weight),
        torch.distributions.Normal(mean, F.softplus(spread) + 1e-3))
    return -mixture.log_prob(target).mean()


class VqVae(nn.Module):
    """A quantised autoencoder with a straight-through gradient."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 4, 3, 1, 1))
        self.decoder = nn.Sequential(nn.ConvTranspose2d(4, 8, 4, 2, 1), nn.ReLU(),
                                     nn.Conv2d(8, 1, 3, 1, 1))
        self.codes = nn.Embedding(16, 4)
        self.codes.weight.data.uniform_(-1 / 16, 1 / 16)

    def forward(self, x):
        z = self.encoder(x).permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, 4)
        distance = (torch.sum(flat ** 2, dim=1, keepdim=True) + torch.sum(self.codes.weight ** 2, 1)
                    - 2 * torch.matmul(flat, self.codes.weight.t()))
        index = torch.argmin(distance, dim=1).unsqueeze(1)
        one_hot = torch.zeros(index.shape[0], 16).scatter_(1, index, 1)
        quantised = torch.matmul(one_hot, self.codes.weight).view(z.shape)
        loss = F.mse_loss(quantised.detach(), z) * 0.25 + F.mse_loss(quantised, z.detach())
        quantised = z + (quantised - z).detach()
        return self.decoder(quantised.permute(0, 3, 1, 2).contiguous()), loss


def vq_loss(outputs, target):
    return F.mse_loss(outputs[0], target) + outputs[1]


class Dcgan(nn.Module):
    """Both losses of a DCGAN in one forward pass."""

    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(8, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
            nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh())
        self.critic = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.utils.spectral_norm(nn.Conv2d(8, 1, 4, 1, 0, bias=False)), nn.Sigmoid())

    def forward(self, image, z):
        fake = self.generator(z.view(-1, 8, 1, 1))
        real_score = self.critic(image).view(-1)
        fake_score = self.critic(fake.detach()).view(-1)
        return (F.binary_cross_entropy(real_score, torch.ones_like(real_score))
                + F.binary_cross_entropy(fake_score, torch.zeros_like(fake_score)))


class MaskedConv2d(nn.Conv2d):
    """A convolution that sees only earlier pixels; its forward masks the weights in place."""

    def __init__(self, kind, *args, **kwargs):
        super().__init__(*args, **kwargs)
        mask = torch.ones_like(self.weight)
        _, _, h, w = self.weight.size()
        mask[:, :, h // 2, w // 2 + (kind == "B"):] = 0
        mask[:, :, h // 2 + 1:] = 0
        self.register_buffer("mask", mask)

    def forward(self, x):
        return self._conv_forward(x, self.weight * self.mask, self.bias)


class PixelCnn(nn.Module):
    """An autoregressive model of images."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(MaskedConv2d("A", 1, 8, 5, padding=2), nn.BatchNorm2d(8),
                                    nn.ReLU(), MaskedConv2d("B", 8, 8, 3, padding=1), nn.ReLU(),
                                    nn.Conv2d(8, 4, 1))

    def forward(self, x):
        return self.layers(x)


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


CASES = {
    "real_nvp": case(RealNvp, None, lambda: floats(4)),
    "mixture_density": case(Gaussians, density_loss, lambda: floats(2), lambda: floats()),
    "vq_vae": case(VqVae, vq_loss, lambda: floats(1, 8, 8), lambda: floats(1, 8, 8)),
    "dcgan": case(Dcgan, None, lambda: (floats(1, 8, 8), floats(8))),
    "pixel_cnn": case(PixelCnn, nn.CrossEntropyLoss, lambda: floats(1, 8, 8), lambda: integers(4, 8, 8)),
    "conditional_vae": case(ConditionalVae, None, lambda: {"x": floats(16), "labels": integers(4)}),
    "planar_flow": case(PlanarFlow, None, lambda: floats(4)),
    "mixture_of_normals": case(MixtureOfNormals, None, lambda: {"x": floats(5), "y": floats(2)}),
    "modulated_conv": case(ModulatedConv, nn.MSELoss, lambda: (floats(4, 8, 8), floats(6)),
                           lambda: floats(1, 8, 8)),
    "gradient_penalty": case(GradientPenalty, None, lambda: floats(4)),
    "full_covariance": case(Gaussian, None, lambda: {"x": floats(4), "y": floats(3)}),
    "ddpm": case(Ddpm, None, lambda: floats(1, 8, 8)),
    "both_players": case(BothPlayers, None, lambda: floats(8)),
    "gumbel_vae": case(GumbelVae, None, lambda: floats(1, 8, 8)),
    "total_correlation": case(TotalCorrelation, None, lambda: floats(8)),
    "glow": case(Glow, None, lambda: floats(1, 8, 8)),
    "style_transfer": case(StyleTransfer, None, lambda: torch.rand(SAMPLES, 3, 12, 12)),
    "esrgan": case(Esrgan, image_loss, lambda: torch.rand(SAMPLES, 3, 8, 8),
                   lambda: torch.rand(SAMPLES, 3, 16, 16)),
    "spline_flow": case(SplineFlow, None, lambda: floats(2)),
    "tied_autoencoder": case(TiedAutoencoder, None, lambda: floats(8)),
    "denoising_unet": case(DenoisingUNet, None, lambda: (floats(1, 8, 8), floats(1, 8, 8),
                                                         integers(20))),
    "lipschitz_critic": case(LipschitzCritic, None, lambda: (floats(2, 8), floats(2, 8))),
    "made": case(Made, None, lambda: floats(4)),
    "ffjord": case(Ffjord, None, lambda: floats(2)),
    "flow_matching": case(FlowMatching, None, lambda: {"x": floats(3), "y": integers(4)}),
    "sliced_score": case(SlicedScore, None, lambda: floats(3)),
    "cycle_gan": case(CycleGan, None, lambda: (floats(3, 8, 8), floats(3, 8, 8))),
    "conditional_norms": case(ConditionalNorms, nn.MSELoss, lambda: (floats(6), integers(4)),
                              lambda: floats(3, 4, 4)),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
