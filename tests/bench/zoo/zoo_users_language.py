"""Models of texts as users write them: translation, tags, answers, words; for scripts/zoo."""
import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn
from zoo_case import SAMPLES, case, entries_of, floats, integers


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


class Pointer(nn.Module):
    """A pointer network with LSTM cells; places that were chosen are masked."""

    def __init__(self, width=8):
        super().__init__()
        self.encoder, self.cell = nn.LSTM(2, width, batch_first=True), nn.LSTMCell(2, width)
        self.a, self.b = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.v = nn.Linear(width, 1)
        self.begin = nn.Parameter(torch.randn(2))

    def forward(self, points, order):
        memory, (h, c) = self.encoder(points)
        h, c, step = h[0], c[0], self.begin.expand(points.size(0), -1)
        used = torch.zeros(points.shape[:2], dtype=torch.bool)
        loss = 0
        for t in range(order.size(1)):
            h, c = self.cell(step, (h, c))
            scores = self.v(torch.tanh(self.a(memory) + self.b(h)[:, None])).squeeze(-1)
            scores = scores.masked_fill(used, -1e4)
            chosen = order[:, t]
            loss = loss + F.nll_loss(F.log_softmax(scores, dim=1), chosen)
            used = used.scatter(1, chosen[:, None], True)
            step = points[torch.arange(points.size(0)), chosen]
        return loss / order.size(1)


class Memory(nn.Module):
    """A memory that is addressed by content, written and read in a loop."""

    def __init__(self, cells=6, width=4):
        super().__init__()
        self.cells, self.width = cells, width
        self.control = nn.GRUCell(3 + width, 8)
        self.heads = nn.Linear(8, 4 * width + 1)
        self.out = nn.Linear(8 + width, 2)

    def forward(self, x):
        n = x.size(0)
        memory = torch.full((n, self.cells, self.width), 1e-2)
        memory = memory + torch.linspace(-0.1, 0.1, self.cells)[None, :, None]
        h, read = x.new_zeros(n, 8), x.new_zeros(n, self.width)
        for t in range(x.size(1)):
            h = self.control(torch.cat((x[:, t], read), 1), h)
            key, add, erase, ask, sharp = self.heads(h).split([self.width] * 4 + [1], 1)
            sharp = 1 + F.softplus(sharp)
            def address(key):
                return F.softmax(sharp * F.cosine_similarity(memory, key[:, None], dim=-1), -1)
            w = address(key).unsqueeze(-1)
            memory = memory * (1 - w * erase.sigmoid()[:, None]) + w * add[:, None]
            read = (address(ask).unsqueeze(-1) * memory).sum(1)
        return self.out(torch.cat((h, read), 1))


class Annotated(nn.Module):
    """The annotated transformer: cloned layers, masks from tokens, smoothed labels by KL."""

    def __init__(self, width=8, words=20):
        super().__init__()
        self.words, self.d_k, self.h = words, width // 2, 2
        self.embed = nn.Embedding(words, width)
        pe = torch.zeros(50, width)
        position = torch.arange(0, 50).unsqueeze(1)
        div = torch.exp(torch.arange(0, width, 2) * -(math.log(10000.0) / width))
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe.unsqueeze(0))
        self.linears = nn.ModuleList([nn.Linear(width, width) for _ in range(12)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.generator = nn.Linear(width, words)

    def attend(self, start, query, key, value, mask):
        n = query.size(0)
        query, key, value = [
            lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears[start:], (query, key, value))]
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        x = torch.matmul(scores.softmax(dim=-1), value)
        return self.linears[start + 3](x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))

    def forward(self, src, tgt):
        src_mask = (src != 0).unsqueeze(-2)
        inputs, labels = tgt[:, :-1], tgt[:, 1:]
        ahead = torch.triu(torch.ones((1, inputs.size(1), inputs.size(1))), diagonal=1)
        tgt_mask = (inputs != 0).unsqueeze(-2) & (ahead.type(torch.uint8) == 0)
        scale = math.sqrt(self.d_k * self.h)
        m = self.embed(src) * scale + self.pe[:, : src.size(1)].requires_grad_(False)
        m = m + self.attend(0, m, m, m, src_mask)
        x = self.norms[0](self.embed(inputs) * scale + self.pe[:, : inputs.size(1)])
        x = self.norms[1](x + self.attend(4, x, x, x, tgt_mask))
        x = self.norms[2](x + self.attend(8, x, m, m, src_mask))
        log_probs = F.log_softmax(self.generator(x), dim=-1).contiguous().view(-1, self.words)
        flat = labels.contiguous().view(-1)
        true = log_probs.data.clone()
        true.fill_(0.1 / (self.words - 2))
        true.scatter_(1, flat.data.unsqueeze(1), 0.9)
        true[:, 0] = 0
        true = true.masked_fill((flat == 0).unsqueeze(1), 0.0)
        return F.kl_div(log_probs, true.clone().detach(), reduction="sum") / (flat != 0).sum()


@dataclass
class TokenOutput:
    """What TrainerStyle returns."""

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    hidden: tuple = ()


class TrainerStyle(nn.Module):
    """Keyword arguments of a tokenizer, and a dataclass of outputs, as the trainer of transformers
    wants them."""

    def __init__(self, words=30, d=16, labels=5):
        super().__init__()
        self.embeddings = nn.ModuleDict({"word": nn.Embedding(words, d, padding_idx=0),
                                         "place": nn.Embedding(12, d), "kind": nn.Embedding(2, d)})
        self.norm = nn.LayerNorm(d, eps=1e-12)
        layer = nn.TransformerEncoderLayer(d, 2, 32, 0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classifier = nn.Linear(d, labels)
        self.labels = labels

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        places = torch.arange(input_ids.size(1), device=input_ids.device)[None]
        x = self.embeddings["word"](input_ids) + self.embeddings["place"](places)
        if token_type_ids is not None:
            x = x + self.embeddings["kind"](token_type_ids)
        x = self.norm(x)
        x = self.encoder(x, src_key_padding_mask=~attention_mask.bool())
        logits = self.classifier(x)
        loss = None
        if labels is not None:
            active = labels.masked_fill(attention_mask == 0, -100)
            loss = nn.CrossEntropyLoss()(logits.view(-1, self.labels), active.view(-1))
        return TokenOutput(loss=loss, logits=logits, hidden=(x,))


class BagsOfWords(nn.Module):
    """Bags with weights for each word, a bilinear product, and a lazy layer."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(15, 6, mode="sum", padding_idx=0)
        self.best = nn.EmbeddingBag(15, 6, mode="max")
        self.user = nn.Embedding(9, 6)
        self.pair = nn.Bilinear(6, 6, 4)
        self.wide = nn.LazyLinear(4)
        self.wide(torch.zeros(1, 12))

    def forward(self, words, weights, user):
        a = self.bag(words, per_sample_weights=weights)
        u = self.user(user)
        return self.pair(a, u) + self.wide(torch.cat([self.best(words), u], -1))


class AdaptiveWords(nn.Module):
    """A language model whose output layer is AdaptiveLogSoftmaxWithLoss."""

    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(30, 8), nn.RNN(8, 8, nonlinearity="tanh", batch_first=True)
        self.out = nn.AdaptiveLogSoftmaxWithLoss(8, 30, cutoffs=[5, 15], div_value=2.0)

    def forward(self, ids, targets):
        y, _ = self.rnn(self.embed(ids))
        logp = self.out.log_prob(y.reshape(-1, 8))
        return F.nll_loss(logp, targets.reshape(-1))


class RawBytes(nn.Module):
    """Pixels of 8 bits, normalised in the model, with arithmetic that wraps."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.48, 0.45, 0.4]).view(3, 1, 1), persistent=False)
        self.net = nn.Sequential(nn.Conv2d(6, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3))

    def forward(self, image):
        x = image.float().div(255).sub_(self.mean).div_(0.22)
        shifted = (image + 100) * 3  # uint8, which wraps
        return self.net(torch.cat([x, (shifted - image).float() / 255 - 0.5], 1))


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


CASES = {
    "translator": case(Translator, nn.CrossEntropyLoss,
                       lambda: (1 + integers(19, 9), integers(20, 7)), lambda: integers(20, 7)),
    "decoder_layers": case(DecoderOnly, nn.MSELoss, lambda: floats(7, 6), lambda: floats(16)),
    "attention_seq2seq": case(AttentionSeq2Seq, nn.CrossEntropyLoss,
                              lambda: (integers(20, 6), integers(20, 5)), lambda: integers(20, 5)),
    "tied_lstm": case(TiedLanguageModel, lambda outputs, ids: F.nll_loss(outputs, ids.t().reshape(-1)),
                      lambda: integers(30, 7), lambda: integers(30, 7)),
    "char_cnn": case(CharCnn, nn.CrossEntropyLoss, lambda: integers(40, 10), lambda: integers(4)),
    "nano_gpt": case(MyGpt, None, lambda: {"idx": integers(30, 12), "targets": integers(30, 12)}),
    "complex_rotary": case(RotaryLlama, nn.CrossEntropyLoss, lambda: integers(30, 10),
                           lambda: integers(30, 10)),
    "crf": case(Crf, None, lambda: {"ids": integers(20, 6), "tags": integers(4, 6)}),
    "pointer": case(Pointer, None, lambda: {"points": floats(5, 2), "order": torch.stack(
        [torch.randperm(5) for _ in floats()])}),
    "memory": case(Memory, nn.CrossEntropyLoss, lambda: floats(4, 3), lambda: integers(2)),
    "annotated": case(Annotated, None, lambda: {"src": integers(20, 6), "tgt": 1 + integers(19, 6)}),
    "trainer_style": case(TrainerStyle, None, lambda: {
        "input_ids": 1 + integers(29, 7), "token_type_ids": integers(2, 7),
        "attention_mask": torch.cat([torch.ones(SAMPLES, 4).long(), integers(2, 3)], 1),
        "labels": integers(5, 7)}),
    "bags_of_words": case(BagsOfWords, nn.CrossEntropyLoss,
                          lambda: (integers(15, 5), torch.rand(SAMPLES, 5), integers(9)),
                          lambda: integers(4)),
    "adaptive_words": case(AdaptiveWords, None, lambda: {"ids": integers(30, 5),
                                                         "targets": integers(30, 5)}),
    "raw_bytes": case(RawBytes, nn.CrossEntropyLoss,
                      lambda: torch.randint(0, 256, (SAMPLES, 3, 8, 8), dtype=torch.uint8),
                      lambda: integers(3)),
    "skip_gram": case(SkipGram, None, lambda: (integers(30), integers(30), integers(30, 4))),
    "bi_daf": case(BiDaf, span_loss, lambda: (2 + integers(23, 7), integers(12, 7, 5),
                                              2 + integers(23, 4), integers(12, 4, 5)),
                   lambda: {"s_idx": integers(7), "e_idx": integers(7)}),
    "biaffine": case(Biaffine, None, lambda: {"words": integers(20, 6), "tags": integers(6, 6),
                                              "heads": integers(6, 6), "rels": integers(4, 6)}),
    "alibi_gpt": case(AlibiGpt, second, lambda: {"idx": integers(25, 9), "targets": integers(25, 9)},
                      lambda: {"unused": integers(2)}),
    "padded_encoder": case(PaddedEncoder, nn.CrossEntropyLoss, lambda: integers(20, 9),
                           lambda: integers(3)),
    "captioner": case(Captioner, None, lambda: (floats(3, 8, 8), torch.cat(
        [1 + integers(14, 4), integers(2, 3)], 1))),
    "teacher_forcing": case(TeacherForcing, None, lambda: (integers(15, 6), integers(12, 5))),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
