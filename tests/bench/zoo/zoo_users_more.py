"""More small models as users write them, for scripts/zoo.

They were chosen after the capture had been written, to find what it lacks.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn
from zoo_case import SAMPLES, Case, Entry


class UNet3d(nn.Module):
    """Segments volumes."""

    def __init__(self):
        super().__init__()
        def block(inputs, outputs):
            return nn.Sequential(nn.Conv3d(inputs, outputs, 3, padding=1), nn.InstanceNorm3d(outputs),
                                 nn.LeakyReLU(0.01, inplace=True))
        self.down, self.deep = block(1, 4), block(4, 8)
        self.up, self.last = nn.ConvTranspose3d(8, 4, 2, stride=2), block(8, 4)
        self.head = nn.Conv3d(4, 2, 1)

    def forward(self, x):
        first = self.down(x)
        deep = self.deep(F.max_pool3d(first, 2))
        return self.head(self.last(torch.cat([self.up(deep), first], dim=1)))


def dice_loss(outputs, target):
    """The overlap of soft masks, averaged over classes."""
    probs = outputs.softmax(1)
    wanted = F.one_hot(target, 2).movedim(-1, 1).float()
    axes = tuple(range(2, probs.dim()))
    overlap = (probs * wanted).sum(axes)
    return 1 - ((2 * overlap + 1) / (probs.sum(axes) + wanted.sum(axes) + 1)).mean()


class WaveNet(nn.Module):
    """Causal dilated convolutions with gates, residuals and skips."""

    def __init__(self, width=8, layers=4):
        super().__init__()
        self.first = nn.Conv1d(16, width, 1)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2 ** i)
                                   for i in range(layers))
        self.mix = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.skips = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(width, 16, 1))

    def forward(self, ids):
        x = self.first(F.one_hot(ids, 16).float().transpose(1, 2))
        skip = 0
        for gate, mix, out in zip(self.gates, self.mix, self.skips):
            padded = F.pad(x, (gate.dilation[0], 0))
            a, b = gate(padded).chunk(2, dim=1)
            y = torch.tanh(a) * torch.sigmoid(b)
            skip = skip + out(y)
            x = x + mix(y)
        return self.head(skip)


class Chomp(nn.Module):
    """Cuts the end off, so that a convolution is causal."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return x[:, :, :-self.size].contiguous()


class Tcn(nn.Module):
    """A temporal convolutional network with the older weight norm."""

    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for i in range(3):
            pad = 2 * 2 ** i
            layers += [nn.utils.weight_norm(nn.Conv1d(channels, 8, 3, padding=pad, dilation=2 ** i)),
                       Chomp(pad), nn.ReLU(), nn.Dropout(0.1)]
            channels = 8
        self.body, self.head = nn.Sequential(*layers), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.body(x)[:, :, -1])


class SqueezeExcite(nn.Module):
    """A gate for each channel."""

    def __init__(self, channels):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(channels, 4), nn.Linear(4, channels)

    def forward(self, x):
        b, c, _, _ = x.size()
        y = F.adaptive_avg_pool2d(x, 1).view(b, c)
        y = torch.sigmoid(self.fc2(F.relu(self.fc1(y), inplace=True))).view(b, c, 1, 1)
        return x * y.expand_as(x)


class SeResNet(nn.Module):
    """Residual blocks with squeeze and excitation."""

    def __init__(self):
        super().__init__()
        def block(inputs, outputs, stride):
            return nn.ModuleDict({
                "body": nn.Sequential(
                    nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs),
                    nn.ReLU(inplace=True), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
                    nn.BatchNorm2d(outputs), SqueezeExcite(outputs)),
                "short": nn.Sequential() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride)})
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.blocks = nn.ModuleList([block(8, 8, 1), block(8, 16, 2)])
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = F.relu(block["body"](x) + block["short"](x))
        return self.fc(torch.flatten(F.avg_pool2d(x, x.size(2)), 1))


class Translator(nn.Module):
    """torch.nn.Transformer with sines as places and masks of padding."""

    def __init__(self, width=16):
        super().__init__()
        self.source, self.target = nn.Embedding(20, width, padding_idx=0), nn.Embedding(20, width)
        place = torch.arange(12).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(12, width)
        table[:, 0::2], table[:, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        self.register_buffer("table", table.unsqueeze(0))
        self.body = nn.Transformer(width, 2, 1, 1, 32, batch_first=True)
        self.head = nn.Linear(width, 20)

    def forward(self, source, target):
        mask = self.body.generate_square_subsequent_mask(target.size(1))
        x = self.source(source) * math.sqrt(16) + self.table[:, :source.size(1)]
        y = self.target(target) + self.table[:, :target.size(1)]
        out = self.body(x, y, tgt_mask=mask, src_key_padding_mask=source == 0,
                        memory_key_padding_mask=source == 0)
        return self.head(out).transpose(1, 2)


class DecoderOnly(nn.Module):
    """torch.nn.TransformerDecoder over a memory, sequence first."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerDecoderLayer(16, 4, 32, norm_first=True)
        self.body, self.inputs = nn.TransformerDecoder(layer, 2, nn.LayerNorm(16)), nn.Linear(6, 16)
        self.queries = nn.Parameter(torch.randn(5, 1, 16))

    def forward(self, x):
        memory = self.inputs(x).transpose(0, 1)
        out = self.body(self.queries.expand(-1, x.shape[0], -1), memory)
        return out.permute(1, 0, 2).mean(1)


class AttentionSeq2Seq(nn.Module):
    """A GRU encoder and a decoder with additive attention, with teacher forcing."""

    def __init__(self):
        super().__init__()
        self.words, self.encoder = nn.Embedding(20, 8), nn.GRU(8, 8, batch_first=True)
        self.cell, self.score = nn.GRUCell(16, 8), nn.Linear(16, 8)
        self.v, self.head = nn.Parameter(torch.rand(8)), nn.Linear(8, 20)

    def forward(self, source, target):
        states, h = self.encoder(self.words(source))
        h = h.squeeze(0)
        logits = []
        for t in range(target.shape[1]):
            wide = h.unsqueeze(1).repeat(1, states.shape[1], 1)
            energy = torch.tanh(self.score(torch.cat((wide, states), dim=2)))
            weights = F.softmax(torch.matmul(energy, self.v), dim=1)
            context = torch.bmm(weights.unsqueeze(1), states).squeeze(1)
            h = self.cell(torch.cat([self.words(target[:, t]), context], 1), h)
            logits.append(self.head(h))
        return torch.stack(logits, 2)


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


class Nerf(nn.Module):
    """Colours along rays from encoded places, with volume rendering."""

    def __init__(self, octaves=4):
        super().__init__()
        self.octaves = octaves
        self.first = nn.Linear(3 + 6 * octaves, 32)
        self.second, self.out = nn.Linear(32 + 3 + 6 * octaves, 32), nn.Linear(32, 4)

    def encode(self, x):
        parts = [x]
        for i in range(self.octaves):
            for function in (torch.sin, torch.cos):
                parts.append(function(2.0 ** i * math.pi * x))
        return torch.cat(parts, -1)

    def forward(self, origin, direction):
        depth = torch.linspace(2.0, 6.0, 8, device=origin.device)
        points = origin[:, None, :] + direction[:, None, :] * depth[..., :, None]
        encoded = self.encode(points)
        hidden = F.relu(self.first(encoded))
        raw = self.out(F.relu(self.second(torch.cat([hidden, encoded], -1))))
        colour, density = torch.sigmoid(raw[..., :3]), F.relu(raw[..., 3])
        gaps = torch.cat([depth[1:] - depth[:-1], torch.tensor([1e10])])
        gaps = gaps.expand(density.shape)
        alpha = 1.0 - torch.exp(-density * gaps)
        clear = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)
        weights = alpha * clear[:, :-1]
        return torch.sum(weights[..., None] * colour, -2)


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


class SimClr(nn.Module):
    """The normalised temperature-scaled loss over all pairs of a mini-batch."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, left, right):
        z = F.normalize(torch.cat([self.encoder(left), self.encoder(right)]), dim=1)
        similarity = z @ z.T / 0.5
        n = left.shape[0]
        similarity = similarity.masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
        labels = torch.cat([torch.arange(n) + n, torch.arange(n)])
        return F.cross_entropy(similarity, labels)


class InfoNce(nn.Module):
    """Pairs of two towers with a learned temperature, in both directions."""

    def __init__(self):
        super().__init__()
        self.texts, self.images = nn.EmbeddingBag(30, 8), nn.Linear(12, 8)
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, text, image):
        a, b = F.normalize(self.texts(text), dim=-1), F.normalize(self.images(image), dim=-1)
        logits = self.scale.exp() * a @ b.t()
        labels = torch.arange(len(logits))
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


class Embedder(nn.Module):
    """Embeds three inputs."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.PReLU(), nn.Linear(16, 4))

    def forward(self, anchor, positive, negative):
        return self.net(anchor), self.net(positive), self.net(negative)


class Speech(nn.Module):
    """Convolutions and a bidirectional GRU under CTC."""

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv2d(1, 4, 3, stride=(2, 1), padding=1), nn.GELU())
        self.gru, self.head = nn.GRU(16, 8, bidirectional=True, batch_first=True), nn.Linear(16, 6)

    def forward(self, mel):
        x = self.front(mel.unsqueeze(1))
        x = x.flatten(1, 2).transpose(1, 2)
        return F.log_softmax(self.head(self.gru(x)[0]), dim=-1)


def ctc_loss(log_probs, target):
    n, t, _ = log_probs.shape
    return F.ctc_loss(log_probs.transpose(0, 1), target, torch.full((n,), t, dtype=torch.long),
                      torch.full((n,), target.shape[1], dtype=torch.long))


class GraphAttention(nn.Module):
    """Graph attention with a dense adjacency matrix."""

    def __init__(self):
        super().__init__()
        self.w, self.a = nn.Linear(6, 8, bias=False), nn.Parameter(torch.randn(16, 1) * 0.3)
        self.head = nn.Linear(8, 3)

    def forward(self, nodes, adjacency):
        h = self.w(nodes)
        n = h.shape[1]
        pairs = torch.cat([h.repeat_interleave(n, dim=1), h.repeat(1, n, 1)], dim=2)
        e = F.leaky_relu((pairs @ self.a).squeeze(2), 0.2).view(-1, n, n)
        e = torch.where(adjacency > 0, e, -9e15 * torch.ones_like(e))
        return self.head(F.elu(torch.matmul(torch.softmax(e, dim=2), h)).mean(1))


class DenseExperts(nn.Module):
    """A mixture of experts in which every token goes to its two best, computed densely."""

    def __init__(self, experts=4):
        super().__init__()
        self.gate = nn.Linear(8, experts, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8))
                                     for _ in range(experts))

    def forward(self, x):
        weights, chosen = torch.topk(F.softmax(self.gate(x), dim=-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            share = ((chosen == i) * weights).sum(-1, keepdim=True)
            out = out + share * expert(x)
        return out


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


class Siren(nn.Module):
    """Sines with their initialisation; the loss has a gradient of the output by finite steps."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 1)])
        with torch.no_grad():
            for i, layer in enumerate(self.layers):
                bound = 1 / 2 if i == 0 else math.sqrt(6 / 32) / 30
                layer.weight.uniform_(-bound, bound)

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.sin(30.0 * layer(x))
        return self.layers[-1](x)


class KanLayer(nn.Module):
    """A layer of B-splines, as efficient-kan writes it."""

    def __init__(self, inputs, outputs, grid=5, order=3):
        super().__init__()
        self.order = order
        step = 2 / grid
        knots = (torch.arange(-order, grid + order + 1) * step - 1).expand(inputs, -1).contiguous()
        self.register_buffer("grid", knots)
        self.base = nn.Parameter(torch.randn(outputs, inputs) * 0.3)
        self.spline = nn.Parameter(torch.randn(outputs, inputs, grid + order) * 0.1)

    def forward(self, x):
        x, grid = x.unsqueeze(-1), self.grid
        bases = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            bases = ((x - grid[:, :-(k + 1)]) / (grid[:, k:-1] - grid[:, :-(k + 1)])
                     * bases[:, :, :-1]
                     + (grid[:, k + 1:] - x) / (grid[:, k + 1:] - grid[:, 1:(-k)])
                     * bases[:, :, 1:])
        base = F.linear(F.silu(x.squeeze(-1)), self.base)
        return base + F.linear(bases.view(x.size(0), -1), self.spline.view(self.spline.size(0), -1))


def squash(x, dim=-1):
    squared = (x ** 2).sum(dim=dim, keepdim=True)
    return squared / (1 + squared) * x / (squared.sqrt() + 1e-8)


class Capsules(nn.Module):
    """Capsules with three rounds of routing."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, stride=2)
        self.w = nn.Parameter(torch.randn(1, 36, 3, 6, 4) * 0.1)

    def forward(self, x):
        u = squash(self.conv(x).view(x.size(0), -1, 4))
        hat = torch.matmul(self.w, u[:, :, None, :, None]).squeeze(-1)  # [n,36,3,6]
        detached, b = hat.detach(), torch.zeros(x.size(0), 36, 3, 1)
        for i in range(3):
            c = F.softmax(b, dim=2)
            s = (c * (hat if i == 2 else detached)).sum(dim=1)
            v = squash(s)
            if i < 2:
                b = b + (detached * v.unsqueeze(1)).sum(-1, keepdim=True)
        return v.norm(dim=-1)


def margin_loss(lengths, labels):
    wanted = torch.eye(3).index_select(dim=0, index=labels)
    left, right = F.relu(0.9 - lengths) ** 2, F.relu(lengths - 0.1) ** 2
    return (wanted * left + 0.5 * (1 - wanted) * right).sum(1).mean()


class NeuralOde(nn.Module):
    """A neural differential equation, solved by Runge-Kutta with fixed steps."""

    def __init__(self):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))

    def slope(self, t, y):
        return self.field(torch.cat([y, t.expand(y.shape[0], 1)], 1))

    def forward(self, y):
        times = torch.linspace(0.0, 1.0, 5)
        for t0, t1 in zip(times[:-1], times[1:]):
            h = t1 - t0
            k1 = self.slope(t0, y)
            k2 = self.slope(t0 + h / 2, y + h * k1 / 2)
            k3 = self.slope(t0 + h / 2, y + h * k2 / 2)
            k4 = self.slope(t1, y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y


class TiedLanguageModel(nn.Module):
    """An LSTM language model whose output layer is its embedding; sequence first."""

    def __init__(self):
        super().__init__()
        self.drop, self.encoder = nn.Dropout(0.2), nn.Embedding(30, 12)
        self.rnn, self.decoder = nn.LSTM(12, 12, 2, dropout=0.2), nn.Linear(12, 30)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)

    def forward(self, ids):
        hidden = (torch.zeros(2, ids.shape[0], 12), torch.zeros(2, ids.shape[0], 12))
        out, hidden = self.rnn(self.drop(self.encoder(ids.t())), hidden)
        decoded = self.decoder(self.drop(out)).view(-1, 30)
        return F.log_softmax(decoded, dim=1)


class CharCnn(nn.Module):
    """Convolutions of several widths over characters, and a highway layer."""

    def __init__(self):
        super().__init__()
        self.chars = nn.Embedding(40, 8, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv2d(1, 6, (k, 8)) for k in (2, 3, 4)])
        self.gate, self.change, self.fc = nn.Linear(18, 18), nn.Linear(18, 18), nn.Linear(18, 4)

    def forward(self, ids):
        x = self.chars(ids).unsqueeze(1)
        x = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        x = torch.cat([F.max_pool1d(i, i.size(2)).squeeze(2) for i in x], 1)
        gate = torch.sigmoid(self.gate(x))
        return self.fc(gate * F.relu(self.change(x)) + (1 - gate) * x)


class TabTransformer(nn.Module):
    """Categories through a transformer, numbers beside it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("offsets", torch.tensor([0, 5, 12]))
        self.rows = nn.Embedding(20, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, activation=F.gelu, batch_first=True)
        self.body, self.norm = nn.TransformerEncoder(layer, 1), nn.LayerNorm(4)
        self.head = nn.Sequential(nn.Linear(28, 16), nn.SELU(), nn.Linear(16, 1))

    def forward(self, categories, numbers):
        x = self.body(self.rows(categories + self.offsets)).flatten(1)
        return self.head(torch.cat((x, self.norm(numbers)), -1)).squeeze(-1)


class DeepFm(nn.Module):
    """A factorisation machine and a deep network over shared embeddings."""

    def __init__(self):
        super().__init__()
        self.first = nn.ModuleList(nn.Embedding(15, 1) for _ in range(4))
        self.second = nn.ModuleList(nn.Embedding(15, 6) for _ in range(4))
        self.deep = nn.Sequential(nn.Linear(24, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5),
                                  nn.Linear(16, 1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, fields):
        rows = [table(fields[:, i]) for i, table in enumerate(self.second)]
        total = sum(rows)
        pairs = 0.5 * (total * total - sum(row * row for row in rows)).sum(1)
        linear = sum(table(fields[:, i]) for i, table in enumerate(self.first)).sum(1)
        return torch.sigmoid(linear + pairs + self.deep(torch.cat(rows, 1)).sum(1) + self.bias)


class WideDeep(nn.Module):
    """A linear part of crossed categories beside a deep one."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Embedding(60, 1, padding_idx=0)
        self.tables = nn.ModuleDict({"city": nn.Embedding(10, 4), "job": nn.Embedding(6, 4)})
        self.deep = nn.Sequential(nn.Linear(11, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.out = nn.Linear(8, 1)

    def forward(self, city, job, numbers):
        crossed = 1 + city * 6 + job % 6
        deep = torch.cat([self.tables["city"](city), self.tables["job"](job), numbers], dim=-1)
        return (self.wide(crossed.clamp(max=59)) + self.out(self.deep(deep))).squeeze(1)


class Volumes(nn.Module):
    """An autoencoder of volumes."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv3d(1, 4, 3, 2, 1), nn.ELU(), nn.Conv3d(4, 8, 3, 2, 1))
        self.decode = nn.Sequential(
            nn.ConvTranspose3d(8, 4, 3, 2, 1, output_padding=1), nn.ELU(),
            nn.ConvTranspose3d(4, 1, 3, 2, 1, output_padding=1))

    def forward(self, x):
        return self.decode(self.encode(x))


class SpectralNet(nn.Module):
    """The newer spectral norm and an orthogonal parametrisation."""

    def __init__(self):
        super().__init__()
        norm = nn.utils.parametrizations.spectral_norm
        self.body = nn.Sequential(norm(nn.Linear(8, 16)), nn.ReLU(), norm(nn.Linear(16, 4)))

    def forward(self, x):
        return self.body(x)


class Teacher(nn.Module):
    """A student that follows a frozen average of itself (the target network of BYOL)."""

    def __init__(self):
        super().__init__()
        self.student = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        self.teacher = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        self.teacher.load_state_dict(self.student.state_dict())
        self.teacher.requires_grad_(False)
        self.predict = nn.Linear(8, 8)

    def forward(self, left, right):
        with torch.no_grad():
            goal = self.teacher(right)
        return 2 - 2 * F.cosine_similarity(self.predict(self.student(left)), goal, dim=-1).mean()


class Distiller(nn.Module):
    """A student with the temperature loss of a frozen teacher."""

    def __init__(self):
        super().__init__()
        self.student = nn.Linear(8, 4)
        self.teacher = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4)).requires_grad_(
            False).eval()

    def forward(self, x, labels):
        with torch.no_grad():
            soft = F.softmax(self.teacher(x) / 3, dim=1)
        logits = self.student(x)
        return (F.cross_entropy(logits, labels) * 0.3
                + F.kl_div(F.log_softmax(logits / 3, 1), soft, reduction="batchmean") * 6.3)


class MyGpt(nn.Module):
    """A decoder as nanoGPT writes it, with its own causal mask as a buffer."""

    def __init__(self, width=16, heads=2, length=12):
        super().__init__()
        self.heads = heads
        self.wte, self.wpe = nn.Embedding(30, width), nn.Embedding(length, width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.register_buffer("bias", torch.tril(torch.ones(length, length)).view(
            1, 1, length, length))
        self.head = nn.Linear(width, 30, bias=False)
        self.wte.weight = self.head.weight

    def forward(self, idx, targets=None):
        b, t = idx.size()
        x = self.wte(idx) + self.wpe(torch.arange(0, t, dtype=torch.long))
        q, k, v = self.qkv(self.ln1(x)).split(x.size(2), dim=2)
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = F.softmax(att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf")), dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(b, t, -1)
        x = x + self.proj(y)
        x = x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))
        logits = self.head(x)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


class RotaryLlama(nn.Module):
    """Rotary places by complex numbers, grouped queries and RMS norm, as Llama's own code has them."""

    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(30, 16), nn.RMSNorm(16)
        self.wq, self.wk, self.wv = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 8)
        self.wo, self.head = nn.Linear(16, 16), nn.Linear(16, 30)
        rates = 1.0 / (10000 ** (torch.arange(0, 4, 2).float() / 4))
        angles = torch.outer(torch.arange(10).float(), rates)
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def turn(self, x):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns[None, :, None]).flatten(3).type_as(x)

    def forward(self, ids):
        h = self.words(ids)
        x = self.norm(h)
        b, t, _ = x.shape
        q, k = self.turn(self.wq(x).view(b, t, 4, 4)), self.turn(self.wk(x).view(b, t, 2, 4))
        v = self.wv(x).view(b, t, 2, 4)
        y = F.scaled_dot_product_attention(*(z.transpose(1, 2) for z in (q, k, v)), is_causal=True,
                                           enable_gqa=True)
        return self.head(h + self.wo(y.transpose(1, 2).reshape(b, t, -1))).transpose(1, 2)


class Rnn(nn.Module):
    """A plain recurrent layer and a state that is written out with a cell."""

    def __init__(self):
        super().__init__()
        self.rnn, self.cell = nn.RNN(4, 8, batch_first=True, nonlinearity="relu"), nn.RNNCell(8, 8)
        self.lstm, self.head = nn.LSTMCell(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        out, _ = self.rnn(x)
        h = x.new_zeros(x.size(0), 8)
        hx, cx = torch.zeros(x.size(0), 8), torch.zeros(x.size(0), 8)
        for t in range(out.size(1)):
            h = self.cell(out[:, t], h)
            hx, cx = self.lstm(h, (hx, cx))
        return self.head(hx)


class Crf(nn.Module):
    """The likelihood of a chain of tags, by logsumexp over steps."""

    def __init__(self, tags=4):
        super().__init__()
        self.words, self.emit = nn.Embedding(20, 8), nn.Linear(8, tags)
        self.moves, self.begin = nn.Parameter(torch.randn(tags, tags)), nn.Parameter(torch.zeros(tags))

    def forward(self, ids, tags):
        scores = self.emit(self.words(ids))
        total = self.begin + scores[:, 0]
        for t in range(1, ids.size(1)):
            total = torch.logsumexp(total.unsqueeze(2) + self.moves, dim=1) + scores[:, t]
        log_z = torch.logsumexp(total, dim=1)
        gold = scores.gather(2, tags.unsqueeze(2)).squeeze(2).sum(1) + self.begin[tags[:, 0]]
        gold = gold + self.moves[tags[:, :-1], tags[:, 1:]].sum(1)
        return (log_z - gold).mean()


class Gru4Rec(nn.Module):
    """Sessions of items, scored against sampled negatives with BPR."""

    def __init__(self):
        super().__init__()
        self.items, self.gru = nn.Embedding(50, 8), nn.GRU(8, 8, batch_first=True)

    def forward(self, session, wanted, others):
        last = self.gru(self.items(session))[1][-1]
        good = (last * self.items(wanted)).sum(1, keepdim=True)
        bad = torch.einsum("bd,bnd->bn", last, self.items(others))
        return -F.logsigmoid(good - bad).mean()


class Detector(nn.Module):
    """A one-stage detector without anchors, with its focal and GIoU losses."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.SiLU(),
                                  nn.Conv2d(8, 16, 3, 2, 1), nn.SiLU())
        self.scores, self.boxes = nn.Conv2d(16, 3, 1), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        x = self.body(x)
        return self.scores(x).flatten(2).transpose(1, 2), F.softplus(
            self.boxes(x)).flatten(2).transpose(1, 2)


def detection_loss(outputs, targets):
    scores, sides = outputs
    wanted = F.one_hot(targets["classes"], 4)[..., :3].float()
    p = torch.sigmoid(scores)
    focal = (F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
             * (0.25 * wanted + 0.75 * (1 - wanted)) * (p * (1 - wanted) + (1 - p) * wanted) ** 2)
    from torchvision.ops import generalized_box_iou_loss
    place = torch.cat([-sides[..., :2], sides[..., 2:]], -1)
    goal = torch.cat([-targets["sides"][..., :2], targets["sides"][..., 2:]], -1)
    boxes = generalized_box_iou_loss(place, goal, reduction="none")
    return focal.sum(-1).mean() + boxes.mean()


class Hyper(nn.Module):
    """A network whose weights another network makes for every sample."""

    def __init__(self):
        super().__init__()
        self.make = nn.Linear(4, 8 * 3)

    def forward(self, condition, x):
        weights = self.make(condition).view(-1, 8, 3)
        return torch.bmm(x.unsqueeze(1), weights).squeeze(1)


class SparseAttention(nn.Module):
    """Windows of tokens with relative places, as Swin, Longformer and others write them by hand."""

    def __init__(self):
        super().__init__()
        self.qkv, self.table = nn.Linear(8, 24), nn.Parameter(torch.zeros(7, 2))
        index = torch.arange(4)[:, None] - torch.arange(4)[None] + 3
        self.register_buffer("index", index)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        b, t, c = x.shape
        x = torch.roll(x, -2, 1).unfold(1, 4, 4).transpose(2, 3).reshape(-1, 4, c)
        q, k, v = self.qkv(x).reshape(-1, 4, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.table[self.index.view(-1)].view(4, 4, -1).permute(2, 0, 1)
        att = ((q * 0.5) @ k.transpose(-2, -1) + bias.unsqueeze(0)).softmax(-1)
        x = (att @ v).transpose(1, 2).reshape(b, t, c)
        return self.head(torch.roll(x, 2, 1).mean(1))


class Perceiver(nn.Module):
    """Latents that attend to inputs by torch.nn.MultiheadAttention with other widths of keys."""

    def __init__(self):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(1, 4, 16))
        self.cross = nn.MultiheadAttention(16, 4, kdim=6, vdim=6, batch_first=True)
        self.self_attention = nn.MultiheadAttention(16, 4, batch_first=True, add_bias_kv=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x, padding):
        z = self.latents.repeat(x.shape[0], 1, 1)
        z = z + self.cross(z, x, x, key_padding_mask=padding, need_weights=False)[0]
        y, weights = self.self_attention(z, z, z)
        return self.head((z + y).mean(1)) + weights.mean()


class Fno(nn.Module):
    """A Fourier neural operator."""

    def __init__(self, width=4, modes=3):
        super().__init__()
        self.modes, self.lift = modes, nn.Linear(2, width)
        self.weights = nn.Parameter(torch.rand(width, width, modes, dtype=torch.cfloat) / width)
        self.local, self.head = nn.Conv1d(width, width, 1), nn.Linear(width, 1)

    def forward(self, x):
        grid = torch.linspace(0, 1, x.shape[1]).expand(x.shape[0], -1)
        h = self.lift(torch.stack([x, grid], -1)).transpose(1, 2)
        spectrum = torch.fft.rfft(h)
        out = torch.zeros(x.shape[0], h.shape[1], spectrum.shape[-1], dtype=torch.cfloat)
        out[:, :, :self.modes] = torch.einsum("bix,iox->box", spectrum[:, :, :self.modes],
                                              self.weights)
        h = F.gelu(torch.fft.irfft(out, n=h.shape[-1]) + self.local(h))
        return self.head(h.transpose(1, 2)).squeeze(-1)


class FnoReal(nn.Module):
    """The same with real parameters, viewed as complex numbers."""

    def __init__(self, width=4, modes=3):
        super().__init__()
        self.modes, self.lift = modes, nn.Linear(2, width)
        self.weights = nn.Parameter(torch.rand(width, width, modes, 2) / width)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        grid = torch.linspace(0, 1, x.shape[1]).expand(x.shape[0], -1)
        h = self.lift(torch.stack([x, grid], -1)).transpose(1, 2)
        spectrum = torch.fft.rfft(h, norm="ortho")
        out = torch.zeros_like(spectrum)
        out[:, :, :self.modes] = torch.einsum("bix,iox->box", spectrum[:, :, :self.modes],
                                              torch.view_as_complex(self.weights))
        return self.head(torch.fft.irfft(out, n=h.shape[-1], norm="ortho").transpose(1, 2)).squeeze(-1)


class DeepOperator(nn.Module):
    """DeepONet: a branch of sensors and a trunk of places."""

    def __init__(self):
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 8))
        self.trunk = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 8))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, sensors, places):
        return torch.einsum("bi,bni->bn", self.branch(sensors),
                            self.trunk(places.unsqueeze(-1))) + self.bias


class StateSpace(nn.Module):
    """A diagonal state-space layer, as a convolution with its kernel."""

    def __init__(self, width=4, states=8):
        super().__init__()
        self.log_a = nn.Parameter(torch.log(torch.arange(1, states + 1).float()).repeat(width, 1))
        self.c, self.log_dt = nn.Parameter(torch.randn(width, states)), nn.Parameter(torch.zeros(width))
        self.d, self.head = nn.Parameter(torch.ones(width)), nn.Linear(width, 2)

    def forward(self, u):
        length = u.shape[-1]
        dt = torch.exp(self.log_dt).unsqueeze(-1) * 0.1
        a = -torch.exp(self.log_a) * dt
        kernel = torch.einsum("hn,hnl->hl", self.c * (torch.exp(a) - 1) / a,
                              torch.exp(a.unsqueeze(-1) * torch.arange(length)))
        padded = F.pad(u, (length - 1, 0))
        y = F.conv1d(padded, kernel.flip(-1).unsqueeze(1), groups=u.shape[1]) + u * self.d[:, None]
        return self.head(F.gelu(y).mean(-1))


class SpatialTransformer(nn.Module):
    """A digit classifier that straightens its input."""

    def __init__(self):
        super().__init__()
        self.locate = nn.Sequential(nn.Conv2d(1, 4, 5), nn.MaxPool2d(2, stride=2), nn.ReLU(True))
        self.theta = nn.Sequential(nn.Linear(4 * 4 * 4, 8), nn.ReLU(True), nn.Linear(8, 6))
        self.theta[2].weight.data.zero_()
        self.theta[2].bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))
        self.conv, self.fc = nn.Conv2d(1, 4, 3), nn.Linear(4 * 5 * 5, 4)

    def forward(self, x):
        theta = self.theta(self.locate(x).view(-1, 64)).view(-1, 2, 3)
        x = F.grid_sample(x, F.affine_grid(theta, x.size(), align_corners=False), align_corners=False)
        x = F.dropout(F.relu(F.max_pool2d(self.conv(x), 2)), training=self.training)
        return F.log_softmax(self.fc(x.flatten(1)), dim=1)


class Attention3d(nn.Module):
    """Axial attention with einops-like moves, group norm and upsampling."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, padding_mode="circular"), nn.GroupNorm(2, 8)
        self.qkv = nn.Conv1d(8, 24, 1)
        self.up, self.head = nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(8, 3, 1)

    def forward(self, x):
        h = F.silu(self.norm(self.conv(x)))
        b, c, height, width = h.shape
        rows = h.permute(0, 2, 1, 3).reshape(b * height, c, width)
        q, k, v = self.qkv(rows).chunk(3, 1)
        att = torch.einsum("bci,bcj->bij", q, k).mul(c ** -0.5).softmax(-1)
        rows = torch.einsum("bij,bcj->bci", att, v)
        return self.head(self.up(h + rows.view(b, height, c, width).permute(0, 2, 1, 3)))


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


class Set(nn.Module):
    """A set with a learned size: masks by lengths, masked means and softmax."""

    def __init__(self):
        super().__init__()
        self.phi, self.rho = nn.Sequential(nn.Linear(3, 8), nn.ReLU()), nn.Linear(24, 2)

    def forward(self, x, length):
        mask = torch.arange(x.size(1))[None, :] < length[:, None]
        h = self.phi(x)
        mean = (h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        largest = h.masked_fill(~mask.unsqueeze(-1), float("-inf")).amax(1)
        last = h[torch.arange(x.size(0)), length - 1]
        return self.rho(torch.cat([mean, largest, last], -1))


class PackedGru(nn.Module):
    """A GRU over packed sequences."""

    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x, length):
        packed = nn.utils.rnn.pack_padded_sequence(x, length, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.head(h[-1])


def floats(*shape):
    return torch.randn(SAMPLES, *shape)


def integers(high, *shape):
    return torch.randint(0, high, (SAMPLES, *shape))


def case(model, loss, inputs, targets=None):
    return lambda: Case(model(), loss() if isinstance(loss, type) else loss, inputs(),
                        None if targets is None else targets())


CASES = {
    "unet_3d": case(UNet3d, dice_loss, lambda: floats(1, 8, 8, 8), lambda: integers(2, 8, 8, 8)),
    "wavenet": case(WaveNet, nn.CrossEntropyLoss, lambda: integers(16, 24),
                    lambda: integers(16, 24)),
    "tcn": case(Tcn, nn.CrossEntropyLoss, lambda: floats(3, 20), lambda: integers(2)),
    "se_resnet": case(SeResNet, nn.CrossEntropyLoss, lambda: floats(3, 16, 16), lambda: integers(10)),
    "translator": case(Translator, nn.CrossEntropyLoss,
                       lambda: (1 + integers(19, 9), integers(20, 7)), lambda: integers(20, 7)),
    "decoder_layers": case(DecoderOnly, nn.MSELoss, lambda: floats(7, 6), lambda: floats(16)),
    "attention_seq2seq": case(AttentionSeq2Seq, nn.CrossEntropyLoss,
                              lambda: (integers(20, 6), integers(20, 5)), lambda: integers(20, 5)),
    "real_nvp": case(RealNvp, None, lambda: floats(4)),
    "mixture_density": case(Gaussians, density_loss, lambda: floats(2), lambda: floats()),
    "nerf": case(Nerf, nn.MSELoss, lambda: (floats(3), floats(3)), lambda: torch.rand(SAMPLES, 3)),
    "vq_vae": case(VqVae, vq_loss, lambda: floats(1, 8, 8), lambda: floats(1, 8, 8)),
    "sim_clr": case(SimClr, None, lambda: (floats(12), floats(12))),
    "info_nce": case(InfoNce, None, lambda: (integers(30, 5), floats(12))),
    "triplet": case(Embedder, lambda outputs, _: F.triplet_margin_loss(*outputs),
                    lambda: (floats(10), floats(10), floats(10)), lambda: floats()),
    "ctc_speech": case(Speech, ctc_loss, lambda: floats(8, 12), lambda: 1 + integers(5, 4)),
    "graph_attention": case(GraphAttention, nn.CrossEntropyLoss,
                            lambda: (floats(5, 6), torch.eye(5) + integers(2, 5, 5)),
                            lambda: integers(3)),
    "dense_experts": case(DenseExperts, nn.MSELoss, lambda: floats(6, 8), lambda: floats(6, 8)),
    "dcgan": case(Dcgan, None, lambda: (floats(1, 8, 8), floats(8))),
    "pixel_cnn": case(PixelCnn, nn.CrossEntropyLoss, lambda: floats(1, 8, 8), lambda: integers(4, 8, 8)),
    "siren": case(Siren, nn.MSELoss, lambda: floats(2), lambda: floats(1)),
    "kan": case(lambda: nn.Sequential(KanLayer(3, 8), KanLayer(8, 2)), nn.CrossEntropyLoss,
                lambda: floats(3), lambda: integers(2)),
    "capsules": case(Capsules, margin_loss, lambda: floats(1, 7, 7), lambda: integers(3)),
    "neural_ode": case(NeuralOde, nn.MSELoss, lambda: floats(3), lambda: floats(3)),
    "tied_lstm": case(TiedLanguageModel, lambda outputs, ids: F.nll_loss(outputs, ids.t().reshape(-1)),
                      lambda: integers(30, 7), lambda: integers(30, 7)),
    "char_cnn": case(CharCnn, nn.CrossEntropyLoss, lambda: integers(40, 10), lambda: integers(4)),
    "tab_transformer": case(TabTransformer, nn.BCEWithLogitsLoss,
                            lambda: (integers(5, 3), floats(4)), lambda: torch.rand(SAMPLES)),
    "deep_fm": case(DeepFm, nn.BCELoss, lambda: integers(15, 4), lambda: torch.rand(SAMPLES)),
    "wide_deep": case(WideDeep, nn.BCEWithLogitsLoss,
                      lambda: (integers(10), integers(6), floats(3)), lambda: torch.rand(SAMPLES)),
    "volume_autoencoder": case(Volumes, nn.MSELoss, lambda: floats(1, 8, 8, 8),
                               lambda: floats(1, 8, 8, 8)),
    "spectral_norm": case(SpectralNet, nn.CrossEntropyLoss, lambda: floats(8), lambda: integers(4)),
    "teacher": case(Teacher, None, lambda: (floats(8), floats(8))),
    "distillation": case(Distiller, None, lambda: {"x": floats(8), "labels": integers(4)}),
    "nano_gpt": case(MyGpt, None, lambda: {"idx": integers(30, 12), "targets": integers(30, 12)}),
    "complex_rotary": case(RotaryLlama, nn.CrossEntropyLoss, lambda: integers(30, 10),
                           lambda: integers(30, 10)),
    "rnn_cells": case(Rnn, nn.CrossEntropyLoss, lambda: floats(6, 4), lambda: integers(2)),
    "crf": case(Crf, None, lambda: {"ids": integers(20, 6), "tags": integers(4, 6)}),
    "gru4rec": case(Gru4Rec, None, lambda: {"session": integers(50, 6), "wanted": integers(50),
                                            "others": integers(50, 5)}),
    "detector": case(Detector, detection_loss, lambda: floats(3, 16, 16),
                     lambda: {"classes": integers(4, 16), "sides": 0.1 + torch.rand(SAMPLES, 16, 4)}),
    "hyper_network": case(Hyper, nn.MSELoss, lambda: (floats(4), floats(8)), lambda: floats(3)),
    "window_attention": case(SparseAttention, nn.CrossEntropyLoss, lambda: floats(16, 8),
                             lambda: integers(3)),
    "perceiver": case(Perceiver, nn.CrossEntropyLoss,
                      lambda: (floats(7, 6), torch.arange(7).expand(SAMPLES, 7) > 4),
                      lambda: integers(3)),
    "fourier_operator": case(FnoReal, nn.MSELoss, lambda: floats(16), lambda: floats(16)),
    "fourier_operator_complex": case(Fno, nn.MSELoss, lambda: floats(16), lambda: floats(16)),
    "deep_o_net": case(DeepOperator, nn.MSELoss, lambda: (floats(10), floats(7)), lambda: floats(7)),
    "state_space": case(StateSpace, nn.CrossEntropyLoss, lambda: floats(4, 20), lambda: integers(2)),
    "spatial_transformer": case(SpatialTransformer, nn.NLLLoss, lambda: floats(1, 12, 12),
                                lambda: integers(4)),
    "axial_attention": case(Attention3d, nn.L1Loss, lambda: floats(3, 8, 8),
                            lambda: floats(3, 16, 16)),
    "fake_quantisation": case(Quantised, nn.CrossEntropyLoss, lambda: floats(8), lambda: integers(3)),
    "rare_layers": case(Highway, nn.CrossEntropyLoss, lambda: floats(3, 14, 14), lambda: integers(3)),
    "many_losses": case(FocalClassifier, several_losses, lambda: integers(40, 6), lambda: integers(4)),
    "deep_sets": case(Set, nn.CrossEntropyLoss, lambda: (floats(6, 3), 1 + integers(6)),
                      lambda: integers(2)),
    "packed_gru": case(PackedGru, nn.CrossEntropyLoss, lambda: (floats(6, 3), 1 + integers(6)),
                       lambda: integers(2)),
}


def entries_of(cases):
    """The entries of a table of cases."""
    return [Entry("users", name, make) for name, make in cases.items()]


def entries():
    """The entries of all models."""
    return entries_of(CASES)
