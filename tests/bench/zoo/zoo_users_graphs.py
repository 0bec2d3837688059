"""Graphs, points, molecules and sets as users' models see them, for scripts/zoo."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from zoo_case import SAMPLES, case, entries_of, floats, integers
from zoo_users_sequences import with_auxiliary


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


class SageMax(nn.Module):
    """GraphSAGE on batches of graphs: edges belong to samples, messages by scatter_reduce."""

    def __init__(self, nodes=6):
        super().__init__()
        self.nodes = nodes
        self.own, self.other = nn.Linear(4, 8), nn.Linear(4, 8, bias=False)
        self.out = nn.Linear(16, 3)

    def forward(self, x, edges):
        b, n, f = x.shape
        offset = torch.arange(b)[:, None] * n
        src, dst = (edges[..., 0] + offset).reshape(-1), (edges[..., 1] + offset).reshape(-1)
        flat = x.reshape(b * n, f)
        index = dst[:, None].expand(-1, f)
        zero = flat.new_zeros(b * n, f)
        best = zero.scatter_reduce(0, index, flat[src], "amax", include_self=False)
        mean = zero.scatter_reduce(0, index, flat[src], "mean", include_self=False)
        h = F.elu(self.own(flat) + self.other(best - mean)).view(b, n, -1)
        return self.out(torch.cat([h.amax(1), h.mean(1)], -1))


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
    "graph_attention": case(GraphAttention, nn.CrossEntropyLoss,
                            lambda: (floats(5, 6), torch.eye(5) + integers(2, 5, 5)),
                            lambda: integers(3)),
    "deep_sets": case(Set, nn.CrossEntropyLoss, lambda: (floats(6, 3), 1 + integers(6)),
                      lambda: integers(2)),
    "normalised_graph": case(NormalisedGraph, nn.CrossEntropyLoss,
                             lambda: (floats(6, 5), integers(2, 6, 6).float(),
                                      torch.arange(6).expand(len(floats()), 6) < 4),
                             lambda: integers(3)),
    "edge_list": case(EdgeList, nn.CrossEntropyLoss,
                      lambda: (floats(5, 4), integers(5, 9, 2), floats(9)), lambda: integers(2)),
    "edge_conv": case(EdgeConv, nn.CrossEntropyLoss, lambda: floats(10, 3), lambda: integers(4)),
    "sinkhorn": case(Sinkhorn, None, lambda: (floats(4, 3), floats(5, 3))),
    "gin": case(Gin, nn.CrossEntropyLoss, lambda: floats(7, 5), lambda: integers(3)),
    "point_net_2": case(PointNet2, pointnet_loss, lambda: floats(9, 3), lambda: integers(4)),
    "egnn": case(Egnn, molecule_loss, lambda: (integers(5, 6), floats(6, 3)),
                 lambda: {"energy": floats(), "places": floats(6, 3)}),
    "schnet": case(Schnet, None, lambda: {"z": integers(4, 5), "pos": floats(5, 3),
                                          "energy": floats(), "forces": floats(5, 3)}),
    "set_transformer": case(SetTransformer, mixture_loss, lambda: floats(7, 2), lambda: floats(7, 2)),
    "sage_max": case(SageMax, nn.CrossEntropyLoss, lambda: (floats(6, 4), integers(6, 9, 2)),
                     lambda: integers(3)),
    "trans_e": case(TransE, None, lambda: (integers(20, 3), integers(20, 3))),
    "diff_pool": case(DiffPool, with_auxiliary, lambda: (floats(6, 5), torch.rand(SAMPLES, 6, 6)),
                      lambda: integers(3)),
    "relational_graph": case(RelationalGraph, nn.CrossEntropyLoss, lambda: (
        floats(8, 5), integers(8, 12), integers(8, 12), integers(3, 12)), lambda: integers(3)),
    "point_attention": case(PatchGraph, nn.CrossEntropyLoss, lambda: floats(7, 3),
                            lambda: integers(4)),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
