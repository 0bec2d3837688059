"""Models of time series as users write them, for scripts/zoo."""
import itertools

import torch
import torch.distributions as D
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import weight_norm
from zoo_case import case, entries_of, floats, integers


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


CASES = {
    "tcn": case(Tcn, nn.CrossEntropyLoss, lambda: floats(3, 20), lambda: integers(2)),
    "conv_lstm": case(ConvLstm, nn.MSELoss, lambda: floats(4, 1, 8, 8), lambda: floats(1, 8, 8)),
    "n_beats": case(NBeats, pinball, lambda: floats(12), lambda: floats(4)),
    "normed_tcn": case(NormedTcn, nn.HuberLoss, lambda: floats(12, 2), lambda: floats(2)),
    "soft_dtw": case(SoftDtw, None, lambda: (floats(5, 2), floats(4, 3))),
    "fusion_transformer": case(Tft, quantile_loss, lambda: (floats(6, 3), integers(4)),
                               lambda: floats(2)),
    "patch_tst": case(PatchTst, nn.L1Loss, lambda: floats(14, 2), lambda: floats(4, 2)),
    "autocorrelation": case(Autocorrelation, nn.MSELoss, lambda: floats(12, 3), lambda: floats(4)),
    "kalman": case(TrainedBelief, None, lambda: floats(5, 2)),
    "deep_ar": case(DeepAr, None, lambda: (floats(9), integers(5))),
    "d_linear": case(DLinear, nn.L1Loss, lambda: floats(12, 3), lambda: floats(4, 3)),
    "graph_wave_net": case(GraphWaveNet, masked_mae, lambda: floats(1, 5, 8), lambda: floats(3, 5)),
    "time_machine": case(TimeMachine, nn.BCEWithLogitsLoss, lambda: (floats(5, 3), integers(2, 5, 3)),
                         lambda: integers(2).float()),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
