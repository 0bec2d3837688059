"""One small model of each usual kind as users write it, for scripts/zoo."""
import torch
import torch.nn.functional as F
from torch import nn
from zoo_case import SAMPLES, Case, entries_of, floats, integers


class Mlp(nn.Module):
    """A tabular classifier with embeddings of its categories."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(10, 4), nn.Embedding(20, 4)])
        self.layers = nn.Sequential(nn.Linear(14, 32), nn.BatchNorm1d(32), nn.ELU(),
                                    nn.Dropout(0.2), nn.Linear(32, 3))

    def forward(self, numbers, categories):
        rows = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        return self.layers(torch.cat([numbers, *rows], dim=1))


class UNet(nn.Module):
    """Segments images; its output has their size."""

    def __init__(self):
        super().__init__()
        def block(inputs, outputs):
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs),
                                 nn.SiLU())
        self.down1, self.down2, self.middle = block(3, 8), block(8, 16), block(16, 16)
        self.up = nn.ConvTranspose2d(16, 16, 2, stride=2)
        self.up2, self.up1, self.head = block(32, 8), block(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        deep = self.up(self.middle(F.max_pool2d(second, 2)))
        shallow = self.up2(torch.cat([deep, second], 1))
        shallow = F.interpolate(shallow, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.up1(torch.cat([shallow, first], 1)))


class Autoencoder(nn.Module):
    """Reconstructs its input through a narrow layer."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 4))
        self.decode = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 64), nn.Sigmoid())

    def forward(self, x):
        return self.decode(self.encode(x)).view(x.shape)


class Vae(nn.Module):
    """A variational autoencoder; it draws normal numbers in training."""

    def __init__(self):
        super().__init__()
        self.encode, self.mean = nn.Linear(64, 16), nn.Linear(16, 4)
        self.spread, self.decode = nn.Linear(16, 4), nn.Linear(4, 64)

    def forward(self, x):
        hidden = F.relu(self.encode(x))
        mean, spread = self.mean(hidden), self.spread(hidden)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        return self.decode(mean + noise * torch.exp(0.5 * spread)), mean, spread


def vae_loss(outputs, target):
    image, mean, spread = outputs
    divergence = -0.5 * torch.mean(1 + spread - mean.pow(2) - spread.exp())
    return F.mse_loss(image, target) + 0.1 * divergence


class Tagger(nn.Module):
    """Tags the words of a sentence with an LSTM."""

    def __init__(self):
        super().__init__()
        self.words, self.lstm = nn.Embedding(50, 8), nn.LSTM(8, 8, batch_first=True,
                                                             bidirectional=True)
        self.head = nn.Linear(16, 5)

    def forward(self, ids):
        return self.head(self.lstm(self.words(ids))[0]).transpose(1, 2)


class Forecaster(nn.Module):
    """Predicts the next number of a series with a GRU."""

    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(2, 8, num_layers=2, batch_first=True), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


class Dlrm(nn.Module):
    """A recommender with products of all pairs of embeddings."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20, 8) for _ in range(3))
        self.bottom = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(14, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, dense, sparse):
        rows = [self.bottom(dense)] + [t(sparse[:, i]) for i, t in enumerate(self.tables)]
        stacked = torch.stack(rows, 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        i, j = torch.tril_indices(4, 4, offset=-1)
        return self.top(torch.cat([rows[0], products[:, i, j]], 1)).squeeze(1)


class Physics(nn.Module):
    """A network of coordinates with sines."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 32), nn.Linear(32, 32)
        self.last = nn.Linear(32, 1)

    def forward(self, x):
        return self.last(torch.sin(self.second(torch.sin(30 * self.first(x)))))


class PointNet(nn.Module):
    """Classifies a set of points by the largest of their features."""

    def __init__(self):
        super().__init__()
        self.points = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(),
                                    nn.Conv1d(16, 32, 1))
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.points(x).max(dim=2)[0])


class DenseGraph(nn.Module):
    """A graph network with a dense adjacency matrix."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, nodes, adjacency):
        degree = adjacency.sum(-1, keepdim=True).clamp(min=1)
        hidden = F.relu(self.first(torch.bmm(adjacency, nodes) / degree))
        return self.second(torch.bmm(adjacency, hidden) / degree).mean(1)


class Siamese(nn.Module):
    """Embeds two inputs with the same weights."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 16), nn.LeakyReLU(0.1), nn.Linear(16, 8))

    def forward(self, left, right):
        return F.normalize(self.body(left), dim=1), F.normalize(self.body(right), dim=1)


def contrastive_loss(outputs, same):
    distance = (outputs[0] - outputs[1]).pow(2).sum(1)
    apart = torch.clamp(1.0 - torch.sqrt(distance + 1e-9), min=0).pow(2)
    return torch.mean(same * distance + (1 - same) * apart)


class Diffusion(nn.Module):
    """Predicts noise from a noisy image and a time."""

    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 16), nn.Mish(), nn.Linear(16, 16))
        self.first, self.second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 1, 3, padding=1)
        self.register_buffer("frequencies", torch.exp(-torch.arange(8) / 2.0))

    def forward(self, image, time):
        angle = time[:, None] * self.frequencies[None]
        wave = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        return self.second(F.silu(self.first(image) + wave[:, :, None, None]))


class Generator(nn.Module):
    """The generator of a GAN, with a fixed critic as its loss."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.ConvTranspose2d(8, 16, 4), nn.BatchNorm2d(16), nn.ReLU(True),
            nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh())
        self.critic = nn.Sequential(nn.Flatten(), nn.Linear(64, 1))
        self.critic.requires_grad_(False)

    def forward(self, z):
        return self.critic(self.layers(z[:, :, None, None])).squeeze(1)


class CharTransformer(nn.Module):
    """A decoder with torch's own layers and a causal mask."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(30, 16), nn.Embedding(12, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.layers, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 30)
        self.head.weight = self.words.weight

    def forward(self, ids):
        length = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.words(ids) + self.places(torch.arange(length))
        return self.head(self.layers(x, mask=mask, is_causal=True)).transpose(1, 2)


class GatedConvolution(nn.Module):
    """A one-dimensional dilated network with gates and weight norm."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.utils.parametrizations.weight_norm(
            nn.Conv1d(4, 8, 3, padding=2 ** i, dilation=2 ** i)) for i in range(3))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        for layer in self.layers:
            x = x + F.glu(layer(x), dim=1)
        return self.head(x.mean(-1))


class Mixture(nn.Module):
    """Experts that are all computed and weighted by a gate."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.weights = nn.Parameter(torch.randn(4, 8, 6) * 0.1)

    def forward(self, x):
        return torch.einsum("be,bi,eio->bo", self.gate(x).softmax(-1), x, self.weights)


class Factorisation(nn.Module):
    """Ratings by the product of two embeddings and their biases."""

    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(30, 8), nn.Embedding(40, 8)
        self.bias = nn.Embedding(40, 1)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(-1) + self.bias(item).squeeze(-1)


class Video(nn.Module):
    """Classifies clips by three-dimensional convolutions."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv3d(1, 8, 3, padding=1), nn.BatchNorm3d(8),
                                    nn.Hardswish(), nn.MaxPool3d(2), nn.AdaptiveAvgPool3d(1),
                                    nn.Flatten(), nn.Linear(8, 3))

    def forward(self, x):
        return self.layers(x)


class Pixels(nn.Module):
    """Super-resolution by pixel shuffle."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 5, padding=2, padding_mode="reflect")
        self.slope, self.last = nn.PReLU(8), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x):
        up = F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        return F.pixel_shuffle(self.last(self.slope(self.first(x))), 2) + up


class Policy(nn.Module):
    """A policy and a value, trained with the loss of an actor and a critic."""

    def __init__(self):
        super().__init__()
        self.body, self.policy, self.value = nn.Linear(6, 16), nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, x):
        hidden = torch.tanh(self.body(x))
        return {"policy": self.policy(hidden), "value": self.value(hidden).squeeze(-1)}


def policy_loss(outputs, targets):
    log_probs = F.log_softmax(outputs["policy"], -1)
    chosen = log_probs.gather(1, targets["action"][:, None]).squeeze(1)
    advantage = (targets["reward"] - outputs["value"]).detach()
    entropy = -(log_probs.exp() * log_probs).sum(-1).mean()
    value = F.smooth_l1_loss(outputs["value"], targets["reward"])
    return -(chosen * advantage).mean() + 0.5 * value - 0.01 * entropy


CASES = {
    "tabular": lambda: Case(Mlp(), nn.CrossEntropyLoss(label_smoothing=0.1),
                            (floats(6), integers(10, 2)), integers(3)),
    "unet": lambda: Case(UNet(), nn.CrossEntropyLoss(ignore_index=255), floats(3, 32, 32),
                         integers(2, 32, 32)),
    "autoencoder": lambda: Case(Autoencoder(), nn.MSELoss(), torch.rand(SAMPLES, 1, 8, 8),
                                torch.rand(SAMPLES, 1, 8, 8)),
    "vae": lambda: Case(Vae(), vae_loss, floats(64), floats(64)),
    "lstm_tagger": lambda: Case(Tagger(), nn.CrossEntropyLoss(), integers(50, 7), integers(5, 7)),
    "gru_forecaster": lambda: Case(Forecaster(), nn.HuberLoss(), floats(9, 2), floats(1)),
    "dlrm": lambda: Case(Dlrm(), nn.BCEWithLogitsLoss(), (floats(4), integers(20, 3)),
                         torch.rand(SAMPLES)),
    "physics": lambda: Case(Physics(), nn.L1Loss(), floats(2), floats(1)),
    "pointnet": lambda: Case(PointNet(), nn.CrossEntropyLoss(), floats(3, 40), integers(4)),
    "dense_graph": lambda: Case(DenseGraph(), nn.CrossEntropyLoss(),
                                (floats(5, 6), torch.rand(SAMPLES, 5, 5)), integers(3)),
    "siamese": lambda: Case(Siamese(), contrastive_loss, (floats(16), floats(16)),
                            torch.ones(SAMPLES)),
    "diffusion": lambda: Case(Diffusion(), nn.MSELoss(), (floats(1, 8, 8), torch.rand(SAMPLES)),
                              floats(1, 8, 8)),
    "gan_generator": lambda: Case(Generator(), nn.SoftMarginLoss(), floats(8), torch.ones(SAMPLES)),
    "char_transformer": lambda: Case(CharTransformer(), nn.CrossEntropyLoss(), integers(30, 12),
                                     integers(30, 12)),
    "gated_convolution": lambda: Case(GatedConvolution(), nn.CrossEntropyLoss(), floats(4, 20),
                                      integers(2)),
    "mixture": lambda: Case(Mixture(), nn.SmoothL1Loss(), floats(8), floats(6)),
    "factorisation": lambda: Case(Factorisation(), nn.MSELoss(), (integers(30), integers(40)),
                                  floats()),
    "video": lambda: Case(Video(), nn.CrossEntropyLoss(), floats(1, 4, 8, 8), integers(3)),
    "super_resolution": lambda: Case(Pixels(), nn.L1Loss(), floats(1, 8, 8), floats(1, 16, 16)),
    "policy": lambda: Case(Policy(), policy_loss, floats(6),
                           {"action": integers(3), "reward": floats()}),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
