"""Models that learn to compare, adapt or imitate, as users write them, for scripts/zoo."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from zoo_case import case, entries_of, floats, integers


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


CASES = {
    "sim_clr": case(SimClr, None, lambda: (floats(12), floats(12))),
    "info_nce": case(InfoNce, None, lambda: (integers(30, 5), floats(12))),
    "triplet": case(Embedder, lambda outputs, _: F.triplet_margin_loss(*outputs),
                    lambda: (floats(10), floats(10), floats(10)), lambda: floats()),
    "teacher": case(Teacher, None, lambda: (floats(8), floats(8))),
    "distillation": case(Distiller, None, lambda: {"x": floats(8), "labels": integers(4)}),
    "arc_face": case(ArcFace, None, lambda: {"x": floats(8), "labels": integers(5)}),
    "sup_con": case(SupCon, None, lambda: {"x": floats(8), "labels": integers(3)}),
    "barlow_twins": case(BarlowTwins, None, lambda: (floats(8), floats(8))),
    "triplets": case(Triplets, None, lambda: (floats(1, 8, 8), floats(1, 8, 8), floats(1, 8, 8))),
    "prototypes": case(Prototypes, None, lambda: (floats(3, 2, 5), floats(3, 2, 5))),
    "maml": case(Maml, None, lambda: (floats(3), floats(1), floats(3), floats(1))),
    "clip_towers": case(ClipTowers, None, lambda: (floats(3, 8, 8), integers(20, 5))),
    "batch_hard": case(BatchHard, None, lambda: {"x": floats(6), "y": integers(3)}),
    "momentum_queue": case(MomentumQueue, None, lambda: (floats(6), floats(6))),
    "relation_net": case(RelationNet, nn.NLLLoss, lambda: (floats(5, 6), floats(4)),
                         lambda: integers(5)),
    "domain_adversarial": case(DomainAdversarial, None, lambda: {
        "source": floats(12), "target": floats(12), "labels": integers(3)}),
    "vic_reg": case(VicReg, None, lambda: (floats(10), floats(10))),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
