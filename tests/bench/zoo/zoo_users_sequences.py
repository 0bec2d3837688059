"""Layers over sequences as users write them, for scripts/zoo.

Attention, recurrence, state spaces, experts.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from zoo_case import SAMPLES, case, entries_of, floats, integers


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


class PackedGru(nn.Module):
    """A GRU over packed sequences."""

    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x, length):
        packed = nn.utils.rnn.pack_padded_sequence(x, length, batch_first=True, enforce_sorted=False)
        _, h = self.gru(packed)
        return self.head(h[-1])


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


CASES = {
    "dense_experts": case(DenseExperts, nn.MSELoss, lambda: floats(6, 8), lambda: floats(6, 8)),
    "rnn_cells": case(Rnn, nn.CrossEntropyLoss, lambda: floats(6, 4), lambda: integers(2)),
    "window_attention": case(SparseAttention, nn.CrossEntropyLoss, lambda: floats(16, 8),
                             lambda: integers(3)),
    "perceiver": case(Perceiver, nn.CrossEntropyLoss,
                      lambda: (floats(7, 6), torch.arange(7).expand(SAMPLES, 7) > 4),
                      lambda: integers(3)),
    "state_space": case(StateSpace, nn.CrossEntropyLoss, lambda: floats(4, 20), lambda: integers(2)),
    "packed_gru": case(PackedGru, nn.CrossEntropyLoss, lambda: (floats(6, 3), 1 + integers(6)),
                       lambda: integers(2)),
    "linear_attention": case(LinearAttention, nn.CrossEntropyLoss, lambda: integers(20, 9),
                             lambda: integers(20, 9)),
    "selective": case(Selective, nn.CrossEntropyLoss, lambda: floats(7, 3), lambda: integers(2)),
    "top_experts": case(TopExperts, None, lambda: {"x": floats(6), "labels": integers(3)}),
    "learned_states": case(LearnedStates, nn.CrossEntropyLoss, lambda: integers(20, 6),
                           lambda: integers(2)),
    "torch_transformer": case(Translator, nn.CrossEntropyLoss,
                              lambda: (integers(20, 6), integers(20, 5)), lambda: integers(20, 5)),
    "noisy_experts": case(NoisyExperts, None, lambda: {"x": floats(6), "y": integers(3)}),
    "minimal_mamba": case(MinimalMamba, None, lambda: integers(24, 8)),
    "rwkv": case(Rwkv, nn.CrossEntropyLoss, lambda: floats(5, 6), lambda: integers(4, 5)),
    "min_gru": case(MinGru, nn.CrossEntropyLoss, lambda: floats(7, 3), lambda: integers(2)),
    "retention": case(Retention, nn.CrossEntropyLoss, lambda: floats(6, 8), lambda: integers(3)),
    "transformer_xl": case(TransformerXl, nn.CrossEntropyLoss, lambda: integers(20, 7),
                           lambda: integers(20, 7)),
    "state_space_fft": case(StateSpaceFft, nn.CrossEntropyLoss, lambda: floats(10, 2),
                            lambda: integers(3)),
    "hyper_lora": case(HyperLora, nn.CrossEntropyLoss, lambda: floats(8), lambda: integers(3)),
    "stacked_lstm": case(StackedLstm, nn.CrossEntropyLoss, lambda: integers(20, 6),
                         lambda: integers(3)),
    "attention_options": case(AttentionOptions, attention_loss,
                              lambda: (floats(5, 8), 1 + integers(5)), lambda: integers(3)),
    "switch_moe": case(SwitchMoe, with_auxiliary, lambda: floats(9, 8), lambda: integers(4)),
    "nystrom": case(Nystrom, nn.CrossEntropyLoss, lambda: floats(12, 8), lambda: integers(3)),
    "hyena": case(Hyena, nn.CrossEntropyLoss, lambda: floats(12, 6), lambda: integers(3)),
    "linear_recurrence": case(LinearRecurrence, nn.CrossEntropyLoss, lambda: floats(7, 4),
                              lambda: integers(3)),
    "test_time_training": case(TestTimeTraining, nn.CrossEntropyLoss, lambda: floats(4, 4),
                               lambda: integers(2)),
    "bit_net": case(BitNet, with_auxiliary, lambda: floats(6), lambda: integers(4)),
    "projected_lstm": case(ProjectedLstm, nn.CrossEntropyLoss, lambda: floats(5, 6),
                           lambda: integers(5, 5)),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
