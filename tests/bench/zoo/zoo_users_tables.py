"""Models of tables, recommendation and ranking as users write them, for scripts/zoo."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from zoo_case import SAMPLES, case, entries_of, floats, integers


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


class CrossNetwork(nn.Module):
    """DCN v2, an attention over fields and a history of items with padding (DIN)."""

    def __init__(self):
        super().__init__()
        self.items, self.fields = nn.Embedding(30, 6, padding_idx=0), nn.Embedding(12, 6)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.interest = nn.Sequential(nn.Linear(24, 8), nn.Dice() if hasattr(nn, "Dice") else nn.PReLU(),
                                      nn.Linear(8, 1))
        self.cross = nn.ModuleList(nn.Linear(24, 24) for _ in range(2))
        self.head = nn.Linear(24, 1)

    def forward(self, fields, item, history):
        f = self.fields(fields)
        f = f + self.attention(f, f, f, need_weights=True)[0]
        query, past = self.items(item).unsqueeze(1), self.items(history)
        query = query.expand_as(past)
        score = self.interest(torch.cat([query, past, query - past, query * past], -1))
        score = score.masked_fill((history == 0).unsqueeze(-1), -1e9).softmax(1)
        x0 = x = torch.cat([f.flatten(1), (score * past).sum(1), query[:, 0]], 1)
        for layer in self.cross:
            x = x0 * layer(x) + x
        return torch.sigmoid(self.head(x)).flatten()


class Survival(nn.Module):
    """A Cox model: the loss orders the mini-batch by time."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 12), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(12, 1))

    def forward(self, x, time, event):
        risk = self.net(x).squeeze(-1)
        order = torch.argsort(time, descending=True)
        risk, event = risk[order], event[order].float()
        return -((risk - torch.logcumsumexp(risk, dim=0)) * event).sum() / (event.sum() + 1e-8)


class Ordinal(nn.Module):
    """Ordered classes by trained thresholds, counts by a negative binomial."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(5, 3)
        self.steps = nn.Parameter(torch.zeros(3))

    def forward(self, x, rank, count):
        score, mean, shape = self.net(x).unbind(-1)
        limits = torch.cumsum(F.softplus(self.steps), 0)
        below = torch.sigmoid(limits - score[:, None])
        edges = torch.cat([torch.zeros_like(below[:, :1]), below, torch.ones_like(below[:, :1])], 1)
        probs = edges.diff(dim=1).gather(1, rank[:, None]).clamp(min=1e-7)
        r, mu, k = F.softplus(shape) + 0.1, F.softplus(mean), count.float()
        binomial = (torch.lgamma(k + r) - torch.lgamma(r) - torch.lgamma(k + 1)
                    + r * torch.log(r / (r + mu)) + k * torch.log(mu / (r + mu)))
        return -probs.log().mean() - binomial.mean()


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


CASES = {
    "tab_transformer": case(TabTransformer, nn.BCEWithLogitsLoss,
                            lambda: (integers(5, 3), floats(4)), lambda: torch.rand(SAMPLES)),
    "deep_fm": case(DeepFm, nn.BCELoss, lambda: integers(15, 4), lambda: torch.rand(SAMPLES)),
    "wide_deep": case(WideDeep, nn.BCEWithLogitsLoss,
                      lambda: (integers(10), integers(6), floats(3)), lambda: torch.rand(SAMPLES)),
    "gru4rec": case(Gru4Rec, None, lambda: {"session": integers(50, 6), "wanted": integers(50),
                                            "others": integers(50, 5)}),
    "cross_network": case(CrossNetwork, nn.BCELoss,
                          lambda: (integers(12, 2), 1 + integers(29), integers(30, 5)),
                          lambda: torch.rand(len(floats()))),
    "survival": case(Survival, None, lambda: {"x": floats(6), "time": floats().abs(),
                                              "event": integers(2)}),
    "ordinal": case(Ordinal, None, lambda: {"x": floats(5), "rank": integers(4),
                                            "count": integers(6)}),
    "x_deep_fm": case(XDeepFm, nn.BCELoss, lambda: integers(4, 3), lambda: torch.rand(SAMPLES)),
    "sas_rec": case(SasRec, None, lambda: {"log_seqs": integers(21, 6), "pos_seqs": integers(21, 6),
                                           "neg_seqs": 1 + integers(20, 6)}),
    "two_tower": case(TwoTower, None, lambda: (integers(12), integers(15))),
    "tab_net": case(TabNet, tab_loss, lambda: floats(6), lambda: integers(3)),
    "oblivious_trees": case(ObliviousTrees, nn.CrossEntropyLoss, lambda: floats(6),
                            lambda: integers(2)),
    "rbf_net": case(RbfNet, nn.CrossEntropyLoss, lambda: floats(4), lambda: integers(3)),
    "mmoe": case(Mmoe, both_rates, lambda: (integers(20, 5), integers(20)),
                 lambda: {"ctr": integers(2), "ctcvr": integers(2)}),
    "ranker": case(Ranker, None, lambda: (floats(6, 5), integers(4, 6).float())),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
