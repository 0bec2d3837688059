#!/usr/bin/env python3
"""Writes reference/MODEL.txt: what PyTorch says about each model.

  make_reference.py [MODEL...]      all, or these (needs torch, torchvision 0.14 and transformers;
                                    the unit tests read only its output, e2e_pytorch_models builds
                                    the models too)

Lines of a file:
  param NAME DIMS...        every parameter of the published model (1000 classes, yolov3: 80; the
                            language models have their own vocabularies)
  stat NAME DIMS...         every running statistic of the published model
  loss VALUE                of the tiny model on one mini-batch in training mode, without dropout
  grad NAME NORM PROBE      of that loss: Euclidean norm, dot product with fill("probe." + NAME)
  output INDEX NORM PROBE   of the tiny model in evaluation mode, likewise with fill("probe.output")
Weights and samples are a formula (fill) that the tests repeat. All sums are in fp64.
"""
import sys
from pathlib import Path

import numpy as np
import torch
import torchvision
import transformers
from torch import nn
from torch.nn import functional as F

CLASSES, BATCH, SIDE, TOKENS, VOCABULARY, USERS, ITEMS = 10, 4, 36, 20, 50, 30, 40
DETECTION_SIDE, BOXES = 64, 5
TABLES = ("embedding", "_table", "gu.", "gi.", "mu.", "mi.")  # Rows of it are looked up.


def fnv1a(name):
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 % 2**32
    return h


def hashes(name, count):
    h = (np.arange(1, count + 1, dtype=np.uint64) * 2654435761 + fnv1a(name)) % 2**32
    for _ in range(2):
        h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x45D9F3B)) % 2**32
    return h ^ (h >> np.uint64(16))


def fill(name, shape):
    """fp32 numbers in [-0.5, 0.5) that depend on the name and the position."""
    u = hashes(name, int(np.prod(shape))).astype(np.float64) / 2**32 - 0.5
    return torch.from_numpy(u.astype(np.float32)).double().reshape(*shape)


def integers(name, count, bound):
    return torch.from_numpy((hashes(name, count) % bound).astype(np.int64))


def weight(name, shape):
    u = fill(name, shape)
    if name.endswith("running_var") or (len(shape) == 1 and name.endswith("weight")):
        return (1 + u / 2).float().double()
    if len(shape) == 1:
        return u / 2
    fan_in = 1 if any(t in name for t in TABLES) else int(np.prod(shape[1:]))
    return (u * np.float32(np.sqrt(12 / fan_in)).item()).float().double()


# --- models that torchvision does not have, and its own models in their tiny sizes
class ResNet(nn.Module):
    def __init__(self, block, width, blocks, classes, small_images):
        super().__init__()
        kernel, stride = (3, 1) if small_images else (7, 2)
        self.conv1 = nn.Conv2d(3, width, kernel, stride, kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.Identity() if small_images else nn.MaxPool2d(3, 2, 1)
        channels = width
        for i, count in enumerate(blocks):
            layer = []
            for j in range(count):
                planes, stride = width << i, 2 if i and j == 0 else 1
                out, down = planes * block.expansion, None
                if stride != 1 or channels != out:
                    down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False),
                                         nn.BatchNorm2d(out))
                layer.append(block(channels, planes, stride, down))
                channels = out
            setattr(self, f"layer{i + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def vgg(groups, hidden, classes):
    features, channels = [], 3
    for count, out in groups:
        for _ in range(count):
            features += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU()]
            channels = out
        features.append(nn.MaxPool2d(2, 2))
    model = torchvision.models.VGG(nn.Sequential(*features))
    model.classifier = nn.Sequential(
        nn.Linear(channels * 49, hidden), nn.ReLU(), nn.Dropout(0), nn.Linear(hidden, hidden),
        nn.ReLU(), nn.Dropout(0), nn.Linear(hidden, classes))
    return model


class Conv(nn.Module):
    def __init__(self, i, o, k, s=1):
        super().__init__()
        self.conv = nn.Conv2d(i, o, k, s, k // 2, bias=False)
        self.bn = nn.BatchNorm2d(o)

    def forward(self, x):
        return F.leaky_relu(self.bn(self.conv(x)), 0.1)


class Bottleneck(nn.Module):
    def __init__(self, i, o, shortcut=True):
        super().__init__()
        self.cv1, self.cv2, self.shortcut = Conv(i, o // 2, 1), Conv(o // 2, o, 3), shortcut

    def forward(self, x):
        y = self.cv2(self.cv1(x))
        return x + y if self.shortcut else y


class Concat(nn.Module):
    pass


class Detect(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        # From fine to coarse, in cells of each grid.
        pixels = torch.tensor([[10, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119],
                               [116, 90, 156, 198, 373, 326]], dtype=torch.float32)
        strides = torch.tensor([8, 16, 32], dtype=torch.float32)
        self.register_buffer("anchors", (pixels / strides[:, None]).view(3, 3, 2))
        self.m = nn.ModuleList(nn.Conv2d(c, out, 1) for c in channels)


class YoloV3(nn.Module):
    """models/yolov3.yaml of ultralytics/yolov3, module by module."""

    def __init__(self, w, residual, classes):
        super().__init__()
        layers = [Conv(3, w, 3)]
        for i, n in enumerate(residual):
            c = w << (i + 1)
            blocks = [Bottleneck(c, c) for _ in range(n)]
            layers += [Conv(c // 2, c, 3, 2), blocks[0] if n == 1 else nn.Sequential(*blocks)]
        up = nn.Upsample(scale_factor=2, mode="nearest")
        layers += [Bottleneck(32 * w, 32 * w, False), Conv(32 * w, 16 * w, 1),
                   Conv(16 * w, 32 * w, 3), Conv(32 * w, 16 * w, 1), Conv(16 * w, 32 * w, 3),
                   Conv(16 * w, 8 * w, 1), up, Concat(),
                   Bottleneck(24 * w, 16 * w, False), Bottleneck(16 * w, 16 * w, False),
                   Conv(16 * w, 8 * w, 1), Conv(8 * w, 16 * w, 3),
                   Conv(8 * w, 4 * w, 1), up, Concat(), Bottleneck(12 * w, 8 * w, False),
                   nn.Sequential(*[Bottleneck(8 * w, 8 * w, False) for _ in range(2)]),
                   Detect([8 * w, 16 * w, 32 * w], 3 * (5 + classes))]
        self.model = nn.Sequential(*layers)

    def forward(self, x):
        kept = []
        for i, layer in enumerate(self.model):
            if i == 28:
                heads = [m(kept[j]) for m, j in zip(layer.m, (27, 22, 15))]
                return [h.permute(0, 2, 3, 1) for h in reversed(heads)]
            source = {16: 14, 23: 21}.get(i, i - 1)
            if isinstance(layer, Concat):
                x = torch.cat([kept[-1], kept[8 if i == 18 else 6]], 1)
            else:
                x = layer(x if i == 0 else kept[source])
            kept.append(x)


class Mlp(nn.Module):
    def __init__(self, inputs, width, classes):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(),
                                 nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, x):
        return self.net(x)


class SmallCnn(nn.Module):
    def __init__(self, side, width, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.fc1 = nn.Linear(2 * width * (side // 4)**2, 4 * width)
        self.fc2 = nn.Linear(4 * width, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class NeuMF(nn.Module):
    def __init__(self, factors, layers, users, items):
        super().__init__()
        self.gu, self.gi = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.mu, self.mi = nn.Embedding(users, layers[0] // 2), nn.Embedding(items, layers[0] // 2)
        self.mlp = nn.Sequential(*[m for a, b in zip(layers, layers[1:])
                                   for m in (nn.Linear(a, b), nn.ReLU())])
        self.out = nn.Linear(factors + layers[-1], 1)

    def forward(self, user, item):
        x = self.mlp(torch.cat([self.mu(user), self.mi(item)], 1))
        return self.out(torch.cat([self.gu(user) * self.gi(item), x], 1))[:, 0]


def modules(**named):
    return nn.ModuleDict(named)


class EncoderQa(nn.Module):
    """transformers' BertForQuestionAnswering and ElectraForQuestionAnswering."""

    def __init__(self, prefix, layers, hidden, heads, ff, embedding, positions, vocabulary):
        super().__init__()
        norm = lambda c: nn.LayerNorm(c, eps=1e-12)
        self.heads = heads
        body = modules(embeddings=modules(
            word_embeddings=nn.Embedding(vocabulary, embedding),
            position_embeddings=nn.Embedding(positions, embedding),
            token_type_embeddings=nn.Embedding(2, embedding), LayerNorm=norm(embedding)))
        if embedding != hidden:
            body["embeddings_project"] = nn.Linear(embedding, hidden)
        linear = lambda i=hidden, o=hidden: nn.Linear(i, o)
        body["encoder"] = modules(layer=nn.ModuleList(modules(
            attention=nn.ModuleDict({
                "self": modules(query=linear(), key=linear(), value=linear()),
                "output": modules(dense=linear(), LayerNorm=norm(hidden))}),
            intermediate=modules(dense=linear(o=ff)),
            output=modules(dense=linear(i=ff), LayerNorm=norm(hidden))) for _ in range(layers)))
        self.body = body
        self.add_module(prefix, body)
        del self._modules["body"]
        self.prefix = prefix
        self.qa_outputs = nn.Linear(hidden, 2)

    def attend(self, names, x, length):
        b, t, d = x.shape
        q, k, v = (names["self"][n](x).view(b, t, self.heads, -1).transpose(1, 2)
                   for n in ("query", "key", "value"))
        scores = q @ k.transpose(2, 3) / (d // self.heads)**0.5
        beyond = torch.arange(t)[None, None, None] >= length[:, None, None, None]
        y = torch.softmax(scores.masked_fill(beyond, -torch.inf), -1) @ v
        y = names["output"]["dense"](y.transpose(1, 2).reshape(b, t, d))
        return names["output"]["LayerNorm"](x + y)

    def forward(self, ids, types, length):
        body = self._modules[self.prefix]
        e = body["embeddings"]
        x = e["word_embeddings"](ids) + e["token_type_embeddings"](types)
        x = e["LayerNorm"](x + e["position_embeddings"](torch.arange(ids.shape[1])))
        if "embeddings_project" in body:
            x = body["embeddings_project"](x)
        for layer in body["encoder"]["layer"]:
            x = self.attend(layer["attention"], x, length)
            y = layer["output"]["dense"](F.gelu(layer["intermediate"]["dense"](x)))
            x = layer["output"]["LayerNorm"](x + y)
        return self.qa_outputs(x).transpose(1, 2)


def decoder(kind, **sizes):
    """A language model of transformers that returns its logits."""
    name = {"GPT2": "GPT2LMHeadModel", "Llama": "LlamaForCausalLM"}[kind]
    base = getattr(transformers, name)

    class Decoder(base):
        def forward(self, ids):
            return super().forward(input_ids=ids, use_cache=False).logits

    return Decoder(getattr(transformers, kind + "Config")(**sizes))


def gpt2(layers, hidden, heads, vocabulary=50257, **others):
    return decoder("GPT2", n_layer=layers, n_embd=hidden, n_head=heads, vocab_size=vocabulary,
                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **others)


def llama(layers, hidden, heads, groups, feed_forward, vocabulary, tied=True, theta=10000.0,
          **others):
    return decoder("Llama", num_hidden_layers=layers, hidden_size=hidden, vocab_size=vocabulary,
                   num_attention_heads=heads, num_key_value_heads=groups, rms_norm_eps=1e-5,
                   intermediate_size=feed_forward, tie_word_embeddings=tied, rope_theta=theta,
                   **others)


def llama_3(*sizes):
    """Llama 3.2, whose context is longer than that of its first training."""
    return llama(*sizes, 128256, theta=500000.0, max_position_embeddings=131072,
                 rope_scaling={"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                               "high_freq_factor": 4.0,
                               "original_max_position_embeddings": 8192})


def tiny_gpt2():
    return gpt2(2, 64, 4, VOCABULARY, n_positions=128)


def tiny_llama():
    return llama(2, 64, 4, 2, 176, VOCABULARY, tied=False)


# --- Mini-batches by task: (inputs, loss of the outputs).
def classification(side):
    image = 4 * fill("image", (BATCH, side, side, 3)).permute(0, 3, 1, 2)
    label = integers("label", BATCH, CLASSES)
    return [image], lambda logits: F.cross_entropy(logits, label)


def recommendation():
    label = integers("rated", BATCH, 2).double()
    inputs = [integers("user", BATCH, USERS), integers("item", BATCH, ITEMS)]
    return inputs, lambda logit: F.binary_cross_entropy_with_logits(logit, label)


def question_answering():
    ids = integers("ids", BATCH * TOKENS, VOCABULARY).view(BATCH, TOKENS)
    types = integers("types", BATCH * TOKENS, 2).view(BATCH, TOKENS)
    length = TOKENS - integers("length", BATCH, TOKENS - 1)
    span = integers("span", 2 * BATCH, TOKENS)
    return [ids, types, length], lambda logits: F.cross_entropy(logits.reshape(-1, TOKENS), span)


def language():
    ids = integers("ids", BATCH * TOKENS, VOCABULARY).view(BATCH, TOKENS)
    labels = integers("labels", BATCH * TOKENS, VOCABULARY)
    return [ids], lambda logits: F.cross_entropy(logits.reshape(-1, VOCABULARY), labels)


def shape_overlap(w, h, anchors):
    common = np.minimum(w, anchors[:, 0]) * np.minimum(h, anchors[:, 1])
    return common / (w * h + anchors[:, 0] * anchors[:, 1] - common)


def overlap_of_boxes(a, b):
    """Intersection over union of boxes (centre x, centre y, width, height)."""
    sides = [torch.minimum(a[..., i] + a[..., i + 2] / 2, b[i] + b[i + 2] / 2) -
             torch.maximum(a[..., i] - a[..., i + 2] / 2, b[i] - b[i + 2] / 2) for i in (0, 1)]
    common = sides[0].clamp(min=0) * sides[1].clamp(min=0)
    return common / (a[..., 2] * a[..., 3] + b[2] * b[3] - common)


def yolo_loss(heads, boxes, side):
    """Redmon & Farhadi 2018: each box is learned by the best of nine anchors; of several boxes with
    one place the last; other places learn "no object" unless they overlap a box by more than 0.5."""
    anchors = np.array([(116, 90), (156, 198), (373, 326), (30, 61), (62, 45), (59, 119),
                        (10, 13), (16, 30), (33, 23)]) * side / 416
    bce = F.binary_cross_entropy_with_logits
    total = 0
    for image, image_boxes in enumerate(boxes):
        image_boxes = image_boxes[image_boxes[:, 0] >= 0]
        places = {}
        for box in image_boxes:
            best = int(np.argmax(shape_overlap(box[3] * side, box[4] * side, anchors)))
            grid = heads[best // 3].shape[1]
            places[(best, int(box[2] * grid), int(box[1] * grid))] = (box, grid)
        for i in range(9):
            head = heads[i // 3][image]
            grid = head.shape[0]
            y = head.reshape(grid, grid, 3, -1)[:, :, i % 3]
            offset = torch.arange(grid)
            with torch.no_grad():
                mine = torch.stack([(torch.sigmoid(y[..., 0]) + offset[None, :]) / grid,
                                    (torch.sigmoid(y[..., 1]) + offset[:, None]) / grid,
                                    y[..., 2].exp() * anchors[i, 0] / side,
                                    y[..., 3].exp() * anchors[i, 1] / side], -1)
                free = torch.ones(grid, grid, dtype=torch.bool)
                for box in image_boxes:
                    free &= overlap_of_boxes(mine, box[1:]) <= 0.5
                for best, row, column in places:
                    if best == i:
                        free[row, column] = False
            total = total + bce(y[..., 4][free], torch.zeros(int(free.sum())), reduction="sum")
        for (i, row, column), (box, grid) in places.items():
            y = heads[i // 3][image].reshape(grid, grid, 3, -1)[row, column, i % 3]
            centre = torch.stack([box[1] * grid - column, box[2] * grid - row])
            size = torch.log(box[3:] * side / torch.from_numpy(anchors[i]))
            weight_ = 2 - box[3] * box[4]
            label = F.one_hot(box[0].long(), CLASSES).double()
            total = total + weight_ * (bce(y[:2], centre, reduction="sum") +
                                       ((y[2:4] - size)**2).sum()) + \
                bce(y[4], torch.tensor(1.0)) + bce(y[5:], label, reduction="sum")
    return total / len(boxes)


def detection():
    image = classification(DETECTION_SIDE)[0][0]
    boxes = 0.8 * fill("boxes", (BATCH, BOXES, 5)).float() + 0.5  # In [0.1, 0.9).
    boxes[..., 0] = integers("classes", BATCH * BOXES, CLASSES + 1).view(BATCH, BOXES) - 1
    return [image], lambda heads: yolo_loss(heads, boxes.double(), DETECTION_SIDE)


def swin(width, depths, heads, classes):
    """torchvision's model, without stochastic depth."""
    return torchvision.models.SwinTransformer([4, 4], width, depths, heads, [7, 7],
                                              stochastic_depth_prob=0.0, num_classes=classes)


def shufflenet(repeats, channels):
    return torchvision.models.ShuffleNetV2(repeats, channels, num_classes=CLASSES)


tv, rn = torchvision.models, torchvision.models.resnet
VGG_TINY = [(2, 8), (1, 8), (1, 16), (1, 16), (1, 16)]
QA = question_answering
# Name: (published model, tiny model, mini-batch of the tiny model).
MODELS = {
    "mlp": (lambda: Mlp(3 * 32 * 32, 128, 1000), lambda: Mlp(3 * SIDE * SIDE, 16, CLASSES),
            lambda: classification(SIDE)),
    "small_cnn": (lambda: SmallCnn(32, 16, 1000), lambda: SmallCnn(SIDE, 4, CLASSES),
                  lambda: classification(SIDE)),
    "resnet18": (lambda: ResNet(rn.BasicBlock, 64, [2, 2, 2, 2], 1000, True),
                 lambda: ResNet(rn.BasicBlock, 8, [1, 2, 1, 1], CLASSES, True),
                 lambda: classification(SIDE)),
    "resnet34": (tv.resnet34, lambda: ResNet(rn.BasicBlock, 8, [1, 2, 1, 1], CLASSES, False),
                 lambda: classification(SIDE)),
    **{name: (getattr(tv, name), lambda: ResNet(rn.Bottleneck, 8, [1, 2, 1, 1], CLASSES, False),
              lambda: classification(SIDE)) for name in ("resnet50", "resnet101", "resnet152")},
    **{"shufflenetv2" + suffix: (
        getattr(tv, "shufflenet_v2" + (suffix or "_x1_0")),
        lambda: shufflenet([2, 3, 2], [8, 12, 24, 48, 64]), lambda: classification(SIDE))
       for suffix in ("", "_x0_5", "_x1_5", "_x2_0")},
    **{name: (getattr(tv, name), lambda: vgg(VGG_TINY, 32, CLASSES),
              lambda: classification(SIDE)) for name in ("vgg11", "vgg13", "vgg16", "vgg19")},
    **{name: (getattr(tv, name), lambda: swin(16, [2, 2], [2, 4], CLASSES),
              lambda: classification(SIDE)) for name in ("swin_t", "swin_s", "swin_b")},
    "yolov3": (lambda: YoloV3(32, [1, 2, 8, 8, 4], 80), lambda: YoloV3(4, [1, 1, 2, 1, 1], CLASSES),
               detection),
    "neumf": (lambda: NeuMF(8, [64, 32, 16, 8], 943, 1682),
              lambda: NeuMF(4, [16, 8, 4], USERS, ITEMS), recommendation),
    "bert": (lambda: EncoderQa("bert", 12, 768, 12, 3072, 768, 512, 30522),
             lambda: EncoderQa("bert", 2, 128, 4, 512, 128, 64, VOCABULARY), QA),
    "bert_large": (lambda: EncoderQa("bert", 24, 1024, 16, 4096, 1024, 512, 30522),
                   lambda: EncoderQa("bert", 2, 128, 4, 512, 128, 64, VOCABULARY), QA),
    "electra": (lambda: EncoderQa("electra", 12, 256, 4, 1024, 128, 512, 30522),
                lambda: EncoderQa("electra", 2, 64, 2, 128, 32, 64, VOCABULARY), QA),
    "electra_base": (lambda: EncoderQa("electra", 12, 768, 12, 3072, 768, 512, 30522),
                     lambda: EncoderQa("electra", 2, 128, 4, 512, 128, 64, VOCABULARY), QA),
    "electra_large": (lambda: EncoderQa("electra", 24, 1024, 16, 4096, 1024, 512, 30522),
                      lambda: EncoderQa("electra", 2, 128, 4, 512, 128, 64, VOCABULARY), QA),
    "gpt2": (lambda: gpt2(12, 768, 12), tiny_gpt2, language),
    "gpt2_medium": (lambda: gpt2(24, 1024, 16), tiny_gpt2, language),
    "gpt2_large": (lambda: gpt2(36, 1280, 20), tiny_gpt2, language),
    "gpt2_xl": (lambda: gpt2(48, 1600, 25), tiny_gpt2, language),
    "llama": (lambda: llama(12, 768, 12, 4, 2048, 32000), tiny_llama, language),
    "llama_1b": (lambda: llama_3(16, 2048, 32, 8, 8192), tiny_llama, language),
    "llama_3b": (lambda: llama_3(28, 3072, 24, 8, 8192), tiny_llama, language),
}


def statistics(model):
    return [(name, t) for name, t in model.named_buffers()
            if name.endswith(("running_mean", "running_var"))]


def names_and_shapes(model):
    for name, p in model.named_parameters():
        yield f"param {name} " + " ".join(map(str, p.shape))
    for name, s in statistics(model):
        yield f"stat {name} " + " ".join(map(str, s.shape))


def summary(values, probe):
    return f"{values.norm().item():.9e} {(values * fill(probe, values.shape)).sum().item():.9e}"


def behaviour(model, inputs, loss_of):
    model.double()
    with torch.no_grad():
        for name, t in [*model.named_parameters(), *statistics(model)]:
            t.copy_(weight(name, t.shape))
    model.eval()
    outputs = model(*inputs)
    for i, y in enumerate(outputs if isinstance(outputs, list) else [outputs]):
        yield f"output {i} " + summary(y.detach(), "probe.output")
    model.train()
    loss = loss_of(model(*inputs))
    loss.backward()
    yield f"loss {loss.item():.9e}"
    for name, p in model.named_parameters():
        yield f"grad {name} " + summary(p.grad, "probe." + name)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    folder = Path(__file__).parent / "reference"
    folder.mkdir(exist_ok=True)
    for name, (published, tiny, batch) in MODELS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        with torch.device("meta"):  # the published models need no memory for their values
            shapes = [*names_and_shapes(published())]
        lines = [*shapes, *behaviour(tiny(), *batch())]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
        print(name, len(lines))
