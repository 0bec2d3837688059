"""Models of speech and other signals as users write them, for scripts/zoo."""
import itertools
import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn
from zoo_case import case, entries_of, floats, integers


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


CASES = {
    "wavenet": case(WaveNet, nn.CrossEntropyLoss, lambda: integers(16, 24),
                    lambda: integers(16, 24)),
    "ctc_speech": case(Speech, ctc_loss, lambda: floats(8, 12), lambda: 1 + integers(5, 4)),
    "spectrogram": case(Spectrogram, nn.CrossEntropyLoss, lambda: floats(96), lambda: integers(3)),
    "sinc_net": case(SincNet, si_snr, lambda: floats(40), lambda: floats(2, 40)),
    "conformer": case(Conformer, nn.NLLLoss, lambda: floats(6, 8), lambda: integers(5, 6)),
    "tacotron": case(Tacotron, None, lambda: {"text": integers(15, 6), "lengths": 2 + integers(4),
                                              "mels": floats(4, 4)}),
    "packed_ctc": case(PackedCtc, None, lambda: {
        "feats": floats(12, 4), "targets": 1 + integers(5, 4), "lengths": 1 + integers(4)}),
    "tas_net": case(TasNet, permutation_loss, lambda: floats(24), lambda: floats(2, 24)),
    "eeg_net": case(EegNet, nn.CrossEntropyLoss, lambda: floats(4, 32), lambda: integers(3)),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
