"""Images and scenes as users' models see them, for scripts/zoo.

Classes, masks, boxes, flow, rays.
"""
import math
from collections import OrderedDict

import torch
import torch.distributions as D
import torch.nn.functional as F
from torch import nn
from zoo_case import SAMPLES, case, entries_of, floats, integers


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


class AttentionUNet(nn.Module):
    """Segments images; gates choose what the skips carry."""

    class Gate(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.skip, self.deep = nn.Conv2d(channels, 4, 1), nn.Conv2d(2 * channels, 4, 1)
            self.mask = nn.Sequential(nn.ReLU(), nn.Conv2d(4, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())

        def forward(self, skip, deep):
            deep = F.interpolate(deep, size=skip.shape[2:], mode="bilinear", align_corners=True)
            return skip * self.mask(self.skip(skip) + self.deep(deep))

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU())
        self.second = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU())
        self.gate, self.up = self.Gate(8), nn.ConvTranspose2d(16, 8, 2, 2)
        self.last = nn.Conv2d(16, 1, 1)

    def forward(self, x):
        skip = self.first(x)
        deep = self.second(F.avg_pool2d(skip, 2))
        return self.last(torch.cat([self.up(deep), self.gate(skip, deep)], 1)).squeeze(1)


def tversky_loss(logits, target):
    """An overlap that counts missed pixels more, plus a focal loss."""
    probs, target = logits.sigmoid().flatten(1), target.float().flatten(1)
    hit = (probs * target).sum(1)
    missed, wrong = ((1 - probs) * target).sum(1), (probs * (1 - target)).sum(1)
    overlap = 1 - (hit + 1) / (hit + 0.3 * wrong + 0.7 * missed + 1)
    bce = F.binary_cross_entropy_with_logits(logits.flatten(1), target, reduction="none")
    focal = (1 - torch.exp(-bce)) ** 2 * bce
    return overlap.mean() + focal.mean()


class Mixer(nn.Module):
    """MLPs over patches and over channels."""

    class Block(nn.Module):
        def __init__(self, patches, width):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.over_patches = nn.Sequential(nn.Linear(patches, 8), nn.GELU(), nn.Linear(8, patches))
            self.over_channels = nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width))

        def forward(self, x):
            x = x + self.over_patches(self.norms[0](x).mT).mT
            return x + self.over_channels(self.norms[1](x))

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 12, 4, stride=4)
        self.blocks = nn.Sequential(*[self.Block(16, 12) for _ in range(2)])
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.blocks(self.patches(x).flatten(2).mT).mean(1))


class Bags(nn.Module):
    """Sums of embeddings with a weight for each word, and a padding word."""

    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(30, 8, mode="sum", padding_idx=0)
        self.tags = nn.EmbeddingBag(10, 4, mode="max")
        self.head = nn.Linear(12, 3)

    def forward(self, words, weights, tags):
        return self.head(torch.cat([self.words(words, per_sample_weights=weights),
                                    self.tags(tags)], 1))


class GlobalFilter(nn.Module):
    """Multiplies two-dimensional spectra with weights (GFNet), and mixes tokens as FNet does."""

    def __init__(self, side=8, width=4):
        super().__init__()
        self.first = nn.Conv2d(1, width, 1)
        self.weight = nn.Parameter(0.02 * torch.randn(side, side // 2 + 1, width, 2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 3)

    def forward(self, image):
        x = self.first(image).permute(0, 2, 3, 1)
        spectrum = torch.fft.rfft2(x, dim=(1, 2), norm="ortho")
        spectrum = spectrum * torch.view_as_complex(self.weight)
        x = x + torch.fft.irfft2(spectrum, s=x.shape[1:3], dim=(1, 2), norm="ortho")
        x = x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=1).real
        return self.head(self.norm(x).mean((1, 2)))


class Involution(nn.Module):
    """Kernels that depend on the pixel, applied to unfolded patches; CBAM after it."""

    def __init__(self, channels=4, groups=2):
        super().__init__()
        self.groups = groups
        self.kernel = nn.Conv2d(channels, groups * 9, 1)
        self.mlp = nn.Sequential(nn.Linear(channels, 2), nn.ReLU(), nn.Linear(2, channels))
        self.spatial = nn.Conv2d(2, 1, 3, padding=1, padding_mode="reflect")
        self.head = nn.Linear(channels, 3)

    def forward(self, x):
        n, c, h, w = x.shape
        kernel = self.kernel(x).view(n, self.groups, 1, 9, h, w)
        patches = F.unfold(x, 3, padding=1).view(n, self.groups, c // self.groups, 9, h, w)
        y = (kernel * patches).sum(3).view(n, c, h, w)
        weights = self.mlp(y.mean((2, 3))) + self.mlp(y.amax((2, 3)))
        y = y * weights.sigmoid()[..., None, None]
        y = y * self.spatial(torch.cat([y.mean(1, True), y.max(1, keepdim=True)[0]], 1)).sigmoid()
        return self.head(y.mean((-2, -1)))


class RetinaHead(nn.Module):
    """A pyramid with heads that all levels share."""

    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)])
        self.side = nn.ModuleList(nn.Conv2d(8, 8, 1) for _ in range(2))
        self.tower = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU())
        self.classes, self.boxes = nn.Conv2d(8, 3, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)
        self.scales = nn.Parameter(torch.ones(2))

    def forward(self, x):
        a = F.relu(self.stages[0](x))
        b = F.relu(self.stages[1](a))
        deep = self.side[1](b)
        levels = [self.side[0](a) + F.interpolate(deep, scale_factor=2.0), deep]
        logits, boxes = [], []
        for scale, level in zip(self.scales, levels):
            h = self.tower(level)
            logits.append(self.classes(h).permute(0, 2, 3, 1).flatten(1, 2))
            boxes.append((scale * self.boxes(h)).exp().permute(0, 2, 3, 1).flatten(1, 2))
        return torch.cat(logits, 1), torch.cat(boxes, 1)


def retina_loss(outputs, targets):
    """A focal loss of all anchors, and an IoU loss of those with an object."""
    logits, boxes = outputs
    hot = F.one_hot(targets["classes"], 4)[..., 1:].float()
    p = logits.sigmoid()
    p_right = p * hot + (1 - p) * (1 - hot)
    weight = (0.25 * hot + 0.75 * (1 - hot)) * (1 - p_right) ** 2
    focal = F.binary_cross_entropy_with_logits(logits, hot, weight.detach(), reduction="sum")
    found = (targets["classes"] > 0).float()
    sides = targets["sides"]
    inner = torch.min(boxes[..., :2], sides[..., :2]) + torch.min(boxes[..., 2:], sides[..., 2:])
    overlap = inner.prod(-1)
    def area(b):
        return (b[..., :2] + b[..., 2:]).prod(-1)
    iou = overlap / (area(boxes) + area(sides) - overlap)
    return (focal + (found * -iou.clamp(min=1e-6).log()).sum()) / found.sum().clamp(min=1)


class DeepLab(nn.Module):
    """Dilated convolutions side by side, a pooled branch, and a pyramid of pools."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
                                  nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.rates = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=rate, dilation=rate)
                                   for rate in (1, 2, 3))
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 4, 1), nn.ReLU())
        self.pools = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(side), nn.Conv2d(8, 2, 1))
                                   for side in (1, 2, 3))
        self.head = nn.Sequential(nn.Dropout2d(0.1), nn.Conv2d(22, 3, 1))

    def forward(self, x):
        size = x.shape[-2:]
        h = self.stem(x)
        parts = [F.relu(conv(h)) for conv in self.rates]
        parts += [F.interpolate(branch(h), h.shape[-2:], mode="bilinear", align_corners=False)
                  for branch in (self.whole, *self.pools)]
        out = self.head(torch.cat(parts, 1))
        return {"out": F.interpolate(out, size, mode="bilinear", align_corners=False)}


class SegNet(nn.Module):
    """Pools whose places the decoder uses again."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 2, 3, padding=1)
        self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

    def forward(self, x):
        h, places = self.pool(F.relu(self.down(x)))
        return self.up(self.unpool(h, places))


class PlainVit(nn.Module):
    """A vision transformer from scratch, with an einsum for the patches and a class token."""

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.h, self.scale = heads, (width // heads) ** -0.5
            self.to_qkv, self.to_out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = (t.reshape(b, n, self.h, -1).transpose(1, 2)
                       for t in self.to_qkv(x).chunk(3, dim=-1))
            dots = torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
            return self.to_out(torch.einsum("bhij,bhjd->bihd", dots.softmax(dim=-1), v).flatten(2))

    def __init__(self, width=16, depth=2, patch=4, side=16):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(3 * patch * patch, width)
        self.cls_token = nn.Parameter(torch.randn(1, 1, width))
        self.pos = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width) * 0.02)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([
                nn.LayerNorm(width), self.Attention(width, 4), nn.LayerNorm(width),
                nn.Sequential(nn.Linear(width, 32), nn.GELU(approximate="tanh"),
                              nn.Linear(32, width))]))
        self.head = nn.Sequential(OrderedDict(norm=nn.LayerNorm(width), out=nn.Linear(width, 5)))

    def forward(self, img):
        b, p = img.shape[0], self.patch
        x = img.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5).contiguous()
        x = self.embed(x.view(b, -1, 3 * p * p))
        x = torch.cat((self.cls_token.expand(b, -1, -1), x), dim=1)
        x += self.pos[:, : x.size(1)]
        for norm1, attention, norm2, mlp in self.layers:
            x = attention(norm1(x)) + x
            x = mlp(norm2(x)) + x
        return self.head(x[:, 0])


class NestedUNet(nn.Module):
    """U-Net++ with deep supervision: a grid of nodes, kept in a dict."""

    def __init__(self, widths=(4, 8, 16)):
        super().__init__()
        def block(n, m):
            return nn.Sequential(nn.Conv2d(n, m, 3, padding=1, bias=False), nn.BatchNorm2d(m),
                                 nn.ReLU(True), nn.Conv2d(m, m, 3, padding=1), nn.ReLU(inplace=True))
        self.depth = len(widths)
        for i in range(self.depth):
            for j in range(self.depth - i):
                before = (3 if i == 0 else widths[i - 1]) if j == 0 else widths[i] * j + widths[i + 1]
                setattr(self, f"conv{i}_{j}", block(before, widths[i]))
        self.pool = nn.MaxPool2d(2, 2)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.finals = nn.ModuleList(nn.Conv2d(widths[0], 1, 1) for _ in range(self.depth - 1))

    def forward(self, x):
        nodes = {}
        for i in range(self.depth):
            nodes[i, 0] = getattr(self, f"conv{i}_0")(x if i == 0 else self.pool(nodes[i - 1, 0]))
        for j in range(1, self.depth):
            for i in range(self.depth - j):
                row = [nodes[i, k] for k in range(j)] + [self.up(nodes[i + 1, j - 1])]
                nodes[i, j] = getattr(self, f"conv{i}_{j}")(torch.cat(row, 1))
        return [final(nodes[0, j + 1]).squeeze(1) for j, final in enumerate(self.finals)]


def supervised_dice(outputs, target):
    """The mean over all heads of a cross-entropy and a Dice loss."""
    loss = 0.0
    for logits in outputs:
        probs = torch.sigmoid(logits).view(-1)
        flat = target.reshape(-1).float()
        dice = (2.0 * (probs * flat).sum() + 1) / (probs.sum() + flat.sum() + 1)
        loss += 0.5 * F.binary_cross_entropy_with_logits(logits, target.float()) + 1 - dice
    return loss / len(outputs)


class VolumeRender(nn.Module):
    """NeRF with its rendering: samples of rays, transmittance by an exclusive cumprod."""

    def __init__(self, bins=6, levels=3):
        super().__init__()
        self.bins = bins
        self.register_buffer("freqs", 2.0 ** torch.arange(levels))
        self.body = nn.Sequential(nn.Linear(3 + 6 * levels, 16), nn.ReLU(), nn.Linear(16, 17))
        self.colour = nn.Sequential(nn.Linear(16 + 3, 8), nn.ReLU(), nn.Linear(8, 3), nn.Sigmoid())

    def encode(self, x):
        angles = (x[..., None, :] * self.freqs[:, None]).flatten(-2)
        return torch.cat([x, angles.sin(), angles.cos()], -1)

    def forward(self, origins, directions, rgb):
        t = torch.linspace(0.1, 2.0, self.bins).expand(origins.shape[0], self.bins)
        mid = (t[:, :-1] + t[:, 1:]) / 2.0
        lower, upper = torch.cat((t[:, :1], mid), -1), torch.cat((mid, t[:, -1:]), -1)
        t = lower + (upper - lower) * torch.rand(t.shape)
        delta = torch.cat((t[:, 1:] - t[:, :-1],
                           torch.tensor([1e3]).expand(origins.shape[0], 1)), -1)
        x = origins.unsqueeze(1) + t.unsqueeze(2) * directions.unsqueeze(1)
        views = F.normalize(directions, dim=-1).unsqueeze(1).expand(-1, self.bins, -1)
        h, sigma = torch.split(self.body(self.encode(x)), [16, 1], dim=-1)
        colour = self.colour(torch.cat([h, views], -1))
        alpha = 1 - torch.exp(-F.relu(sigma.squeeze(-1)) * delta)
        keep = torch.cumprod(1 - alpha + 1e-10, 1)
        keep = torch.cat((torch.ones_like(keep[:, :1]), keep[:, :-1]), dim=1)
        weights = (keep * alpha).unsqueeze(-1)
        out = (weights * colour).sum(dim=1) + 1 - weights.sum(-1).sum(-1).unsqueeze(-1)
        return ((out - rgb) ** 2).mean()


class FourierFilm(nn.Module):
    """Random Fourier features that are a buffer, and a sine network that a code modulates."""

    class Sine(nn.Module):
        def __init__(self, n, m, w0=30.0, first=False):
            super().__init__()
            self.w0, self.linear = w0, nn.Linear(n, m)
            with torch.no_grad():
                bound = 1 / n if first else math.sqrt(6 / n) / w0
                self.linear.weight.uniform_(-bound, bound)

        def forward(self, x, gain):
            return torch.sin(self.w0 * self.linear(x)) * gain

    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.randn(2, 4), persistent=True)
        self.code = nn.Embedding(6, 4, max_norm=None)
        self.layers = nn.ModuleList([self.Sine(8, 12, first=True), self.Sine(12, 12)])
        self.gains = nn.ModuleList([nn.Linear(4, 12), nn.Linear(16, 12)])
        self.last = nn.Linear(12, 3)

    def forward(self, coords, which):
        z = self.code(which)
        proj = (2.0 * math.pi * coords) @ self.b
        x = torch.cat([proj.sin(), proj.cos()], dim=-1)
        hidden = None
        for layer, gain in zip(self.layers, self.gains):
            hidden = F.relu(gain(z if hidden is None else torch.cat((hidden, z), dim=1)))
            x = layer(x, hidden.unsqueeze(1))
        return torch.sigmoid(self.last(x))


class ShiftedWindows(nn.Module):
    """Swin's window attention: a mask from slices, a bias by a table of relative places."""

    def __init__(self, dim=8, side=8, ws=4, heads=2):
        super().__init__()
        self.side, self.ws, self.heads, self.shift = side, ws, heads, ws // 2
        self.table = nn.Parameter(torch.zeros((2 * ws - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        coords = torch.stack(torch.meshgrid([torch.arange(ws), torch.arange(ws)], indexing="ij"))
        rel = coords.flatten(1)[:, :, None] - coords.flatten(1)[:, None, :]
        rel = rel.permute(1, 2, 0).contiguous()
        rel[:, :, 0] += ws - 1
        rel[:, :, 1] += ws - 1
        rel[:, :, 0] *= 2 * ws - 1
        self.register_buffer("rel", rel.sum(-1))
        self.norm, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.embed, self.head = nn.Conv2d(1, dim, 1), nn.Linear(dim, 4)

    def windows(self, x):
        b, h, w, c = x.shape
        x = x.view(b, h // self.ws, self.ws, w // self.ws, self.ws, c)
        return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, self.ws, self.ws, c)

    def mask(self):
        mask = torch.zeros((1, self.side, self.side, 1))
        parts = (slice(0, -self.ws), slice(-self.ws, -self.shift), slice(-self.shift, None))
        count = 0
        for h in parts:
            for w in parts:
                mask[:, h, w, :] = count
                count += 1
        windows = self.windows(mask).view(-1, self.ws * self.ws)
        different = windows.unsqueeze(1) - windows.unsqueeze(2)
        return different.masked_fill(different != 0, -100.0).masked_fill(different == 0, 0.0)

    def forward(self, image):
        x = self.embed(image).permute(0, 2, 3, 1)
        shifted = torch.roll(self.norm(x), shifts=(-self.shift, -self.shift), dims=(1, 2))
        w = self.windows(shifted).view(-1, self.ws ** 2, x.shape[-1])
        b, n, c = w.shape
        qkv = self.qkv(w).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1)
        bias = self.table[self.rel.view(-1)].view(n, n, -1).permute(2, 0, 1).contiguous()
        attn = attn + bias.unsqueeze(0)
        mask = self.mask()
        attn = attn.view(b // mask.shape[0], mask.shape[0], self.heads, n, n)
        attn = (attn + mask.unsqueeze(1).unsqueeze(0)).view(-1, self.heads, n, n).softmax(-1)
        w = self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))
        w = w.view(-1, self.side // self.ws, self.side // self.ws, self.ws, self.ws, c)
        y = w.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, self.side, self.side, c)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return self.head(x.flatten(1, 2).mean(1))


class SetPrediction(nn.Module):
    """DETR's decoder with trained queries, and its losses for boxes in a fixed order."""

    def __init__(self, d=8, queries=3):
        super().__init__()
        self.backbone = nn.Conv2d(3, d, 4, 4)
        self.transformer = nn.Transformer(d, 2, 1, 1, 16, dropout=0.0)
        self.query_pos = nn.Parameter(torch.rand(queries, d))
        self.row, self.col = nn.Parameter(torch.rand(10, d // 2)), nn.Parameter(torch.rand(10, d // 2))
        self.classes, self.box = nn.Linear(d, 4), nn.Linear(d, 4)

    def forward(self, x):
        h = self.backbone(x)
        H, W = h.shape[-2:]
        pos = torch.cat([self.col[:W].unsqueeze(0).repeat(H, 1, 1),
                         self.row[:H].unsqueeze(1).repeat(1, W, 1)], dim=-1).flatten(0, 1).unsqueeze(1)
        h = self.transformer(pos + 0.1 * h.flatten(2).permute(2, 0, 1),
                             self.query_pos.unsqueeze(1).repeat(1, x.shape[0], 1)).transpose(0, 1)
        return {"pred_logits": self.classes(h), "pred_boxes": self.box(h).sigmoid()}


def set_loss(outputs, targets):
    """Classes with a small weight for nothing, and boxes where there is an object."""
    weight = torch.ones(4)
    weight[-1] = 0.1
    ce = F.cross_entropy(outputs["pred_logits"].transpose(1, 2), targets["labels"], weight)
    there = (targets["labels"] != 3).float()
    l1 = F.l1_loss(outputs["pred_boxes"], targets["boxes"], reduction="none").sum(-1)
    def corners(b):
        cx, cy, w, h = b.unbind(-1)
        return torch.stack([cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h], dim=-1)
    a, b = corners(outputs["pred_boxes"]), corners(targets["boxes"])
    def area(box):
        return (box[..., 2:] - box[..., :2]).clamp(min=0).prod(-1)
    inner = torch.cat([torch.max(a[..., :2], b[..., :2]), torch.min(a[..., 2:], b[..., 2:])], -1)
    outer = torch.cat([torch.min(a[..., :2], b[..., :2]), torch.max(a[..., 2:], b[..., 2:])], -1)
    union = area(a) + area(b) - area(inner)
    giou = 1 - area(inner) / union + (area(outer) - union) / area(outer)
    return ce + ((5 * l1 + 2 * giou) * there).sum() / there.sum().clamp(min=1)


class CenterNet(nn.Module):
    """Heat maps of centres with features picked at them."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.Hardswish(True),
                                  nn.ConvTranspose2d(8, 8, 3, 2, 1, output_padding=1), nn.ReLU6(True))
        self.hm, self.wh = nn.Conv2d(8, 2, 1), nn.Conv2d(8, 2, 1)
        self.hm.bias.data.fill_(-2.19)

    def forward(self, x):
        h = self.body(x)
        return {"hm": self.hm(h), "wh": self.wh(h)}


def centre_loss(outputs, batch):
    """The focal loss of CornerNet, and an L1 loss at the centres that exist."""
    pred = torch.clamp(outputs["hm"].sigmoid_(), min=1e-4, max=1 - 1e-4)
    gt = batch["heat"]
    pos_inds, neg_inds = gt.eq(1).float(), gt.lt(1).float()
    neg_weights = torch.pow(1 - gt, 4)
    pos = (torch.log(pred) * torch.pow(1 - pred, 2) * pos_inds).sum()
    neg = (torch.log(1 - pred) * torch.pow(pred, 2) * neg_weights * neg_inds).sum()
    count = pos_inds.float().sum()
    focal = -(pos + neg) / torch.clamp(count, min=1)
    feat = outputs["wh"].permute(0, 2, 3, 1).contiguous()
    feat = feat.view(feat.size(0), -1, feat.size(3))
    ind = batch["ind"].unsqueeze(2).expand(feat.size(0), batch["ind"].size(1), feat.size(2))
    picked = feat.gather(1, ind)
    mask = batch["mask"].unsqueeze(2).expand_as(picked).float()
    l1 = F.l1_loss(picked * mask, batch["sizes"] * mask, reduction="sum") / (mask.sum() + 1e-4)
    return focal + 0.1 * l1


class Ssd(nn.Module):
    """Two levels of anchors with heads of their own."""

    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)])
        self.l2 = nn.Parameter(torch.full((8,), 20.0))
        self.loc = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(2)])
        self.conf = nn.ModuleList([nn.Conv2d(8, 6, 3, padding=1) for _ in range(2)])

    def forward(self, x):
        loc, conf = list(), list()
        for i, stage in enumerate(self.stages):
            x = F.silu(stage(x), inplace=True)
            h = x / (x.pow(2).sum(dim=1, keepdim=True).sqrt() + 1e-10) * self.l2[None, :, None, None]
            loc.append(self.loc[i](h).permute(0, 2, 3, 1).contiguous())
            conf.append(self.conf[i](h).permute(0, 2, 3, 1).contiguous())
        loc = torch.cat([o.view(o.size(0), -1) for o in loc], 1)
        conf = torch.cat([o.view(o.size(0), -1) for o in conf], 1)
        return loc.view(loc.size(0), -1, 4), conf.view(conf.size(0), -1, 3)


def multibox_loss(outputs, targets):
    """Boxes of anchors with an object, and the hardest of the others by two sorts."""
    loc, conf = outputs
    loc_t, conf_t = targets["boxes"], targets["classes"]
    pos = conf_t > 0
    pos_idx = pos.unsqueeze(pos.dim()).expand_as(loc)
    loss_l = F.smooth_l1_loss(loc[pos_idx].view(-1, 4), loc_t[pos_idx].view(-1, 4), reduction="sum")
    loss_c = F.cross_entropy(conf.view(-1, 3), conf_t.view(-1), reduction="none").view_as(conf_t)
    mined = loss_c.detach().clone()
    mined[pos] = 0
    _, idx = mined.sort(1, descending=True)
    _, rank = idx.sort(1)
    num_pos = pos.long().sum(1, keepdim=True)
    neg = rank < torch.clamp(3 * num_pos, max=pos.size(1) - 1)
    total = (loss_c * (pos | neg).float()).sum()
    return (loss_l + total) / num_pos.sum().float().clamp(min=1)


class Crnn(nn.Module):
    """Reads a line of text: columns of a picture, recurrent layers, CTC."""

    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential()
        for i, (n, m) in enumerate(((1, 4), (4, 8))):
            self.cnn.add_module(f"conv{i}", nn.Conv2d(n, m, 3, 1, 1))
            self.cnn.add_module(f"norm{i}", nn.BatchNorm2d(m))
            self.cnn.add_module(f"pool{i}", nn.MaxPool2d((2, 2), (2, 1), (0, 1)))
        self.rnn = nn.GRU(8, 6, bidirectional=True, num_layers=2)
        self.fc = nn.Linear(12, 7)

    def forward(self, x):
        conv = self.cnn(x)
        b, c, h, w = conv.size()
        assert h == 1, "the height of conv must be 1"
        conv = conv.squeeze(2).permute(2, 0, 1)
        recurrent, _ = self.rnn(conv)
        T, b, h = recurrent.size()
        return self.fc(recurrent.view(T * b, h)).view(T, b, -1)


def line_loss(logits, labels):
    """CTC over [time, samples, classes]."""
    log_probs = logits.log_softmax(2)
    lengths = torch.full((log_probs.size(1),), log_probs.size(0), dtype=torch.long)
    return nn.CTCLoss(zero_infinity=True)(log_probs, labels, lengths, (labels > 0).sum(1))


class SlotAttention(nn.Module):
    """Slots compete for places; their beginnings are drawn."""

    def __init__(self, slots=3, d=6):
        super().__init__()
        self.slots, self.scale = slots, d ** -0.5
        self.mu, self.log_sigma = nn.Parameter(torch.randn(1, 1, d)), nn.Parameter(torch.zeros(1, 1, d))
        self.to_q, self.to_k, self.to_v = nn.Linear(d, d), nn.Linear(4, d), nn.Linear(4, d)
        self.gru = nn.GRUCell(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 8), nn.ReLU(inplace=True), nn.Linear(8, d))
        self.norm_in, self.norm_slots, self.norm_ff = nn.LayerNorm(4), nn.LayerNorm(d), nn.LayerNorm(d)
        self.decode = nn.Linear(d, 4 + 1)
        self.place = nn.Parameter(torch.randn(1, 1, 8, d))

    def forward(self, inputs):
        b, n, d = *inputs.shape[:2], self.mu.shape[-1]
        mu, sigma = self.mu.expand(b, self.slots, -1), self.log_sigma.exp().expand(b, self.slots, -1)
        slots = mu + sigma * torch.randn(mu.shape, device=inputs.device)
        inputs = self.norm_in(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(2):
            slots_prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
            attn = dots.softmax(dim=1) + 1e-8
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, d), slots_prev.reshape(-1, d)).reshape(b, -1, d)
            slots = slots + self.mlp(self.norm_ff(slots))
        values, masks = self.decode(slots.unsqueeze(2) + self.place).split((4, 1), -1)
        return (values * masks.softmax(1)).sum(1)


class Raft(nn.Module):
    """Optical flow: all pairs of places, a lookup around the flow so far, convex upsampling."""

    def __init__(self, d=6):
        super().__init__()
        self.fnet = nn.Conv2d(3, d, 3, stride=2, padding=1)
        self.update = nn.Conv2d(9 + 2, 8, 3, padding=1)
        self.flow, self.mask = nn.Conv2d(8, 2, 3, padding=1), nn.Conv2d(8, 4 * 9, 1)

    def forward(self, image1, image2):
        f1, f2 = self.fnet(image1), self.fnet(image2)
        b, d, h, w = f1.shape
        corr = torch.matmul(f1.view(b, d, h * w).transpose(1, 2), f2.view(b, d, h * w)) / d ** 0.5
        corr = corr.reshape(b * h * w, 1, h, w)
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack([xs, ys], dim=0).float()[None].repeat(b, 1, 1, 1)
        coords = grid.clone()
        r = torch.linspace(-1, 1, 3)
        window = torch.stack(torch.meshgrid(r, r, indexing="ij"), axis=-1).view(1, 3, 3, 2)
        for _ in range(2):
            coords = coords.detach()
            centre = coords.permute(0, 2, 3, 1).reshape(b * h * w, 1, 1, 2) + 0.25
            x, y = (centre + window).split([1, 1], dim=-1)
            at = torch.cat([2 * x / (w - 1) - 1, 2 * y / (h - 1) - 1], dim=-1)
            found = F.grid_sample(corr, at, align_corners=True).view(b, h, w, -1).permute(0, 3, 1, 2)
            hidden = F.relu(self.update(torch.cat([found, coords - grid], dim=1)))
            coords = coords + self.flow(hidden)
        mask = torch.softmax(self.mask(hidden).view(b, 1, 9, 2, 2, h, w), dim=2)
        up = F.unfold(2 * (coords - grid), [3, 3], padding=1).view(b, 2, 9, 1, 1, h, w)
        up = torch.sum(mask * up, dim=2).permute(0, 1, 4, 2, 5, 3)
        return up.reshape(b, 2, 2 * h, 2 * w)


class DynamicConv(nn.Module):
    """Kernels that are a mixture for each sample, run as groups; ECA and a stochastic pool."""

    def __init__(self, c=4, kernels=3):
        super().__init__()
        self.c, self.kernels = c, kernels
        self.weight = nn.Parameter(torch.randn(kernels, 8, c, 3, 3) * 0.2, requires_grad=True)
        self.bias = nn.Parameter(torch.zeros(kernels, 8))
        self.route = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, kernels, 1))
        self.eca = nn.Conv1d(1, 1, 3, padding=1, bias=False)
        self.fc = nn.Linear(8, 3)

    def forward(self, x):
        attention = torch.softmax(self.route(x).view(x.size(0), -1) / 3.0, dim=-1)
        b, c, h, w = x.size()
        weight = torch.mm(attention, self.weight.view(self.kernels, -1)).view(b * 8, c, 3, 3)
        bias = torch.mm(attention, self.bias).view(-1)
        y = F.conv2d(x.view(1, -1, h, w), weight=weight, bias=bias, stride=1, padding=1, groups=b)
        y = y.view(b, 8, y.size(-2), y.size(-1))
        s = self.eca(F.adaptive_avg_pool2d(y, 1).squeeze(-1).transpose(-1, -2))
        y = y * s.transpose(-1, -2).unsqueeze(-1).sigmoid().expand_as(y)
        return self.fc(F.lp_pool2d(y.clamp(min=1e-6).pow(1.0), 2.0, 2).amax((2, 3)))


class MaskedPatches(nn.Module):
    """A masked autoencoder: the tokens that are seen are drawn for every sample, and put back."""

    def __init__(self, patches=9, d=8, keep=3):
        super().__init__()
        self.keep = keep
        self.embed, self.decode = nn.Linear(4, d), nn.Linear(d, 4)
        self.encoder = nn.TransformerEncoderLayer(d, 2, 16, 0.0, batch_first=True, norm_first=True)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, d))
        self.place = nn.Parameter(torch.randn(1, patches, d) * 0.02)

    def forward(self, x):
        b, n, _ = x.shape
        tokens = self.embed(x) + self.place
        d = tokens.shape[-1]
        shuffle = torch.argsort(torch.rand(b, n), dim=1)
        restore = torch.argsort(shuffle, dim=1)
        kept = shuffle[:, : self.keep].unsqueeze(-1).repeat(1, 1, d)
        seen = self.encoder(torch.gather(tokens, dim=1, index=kept))
        every = torch.cat([seen, self.mask_token.repeat(b, n - self.keep, 1)], 1)
        every = torch.gather(every, 1, restore.unsqueeze(-1).repeat(1, 1, d))
        mask = torch.ones(b, n)
        mask[:, : self.keep] = 0
        mask = torch.gather(mask, 1, restore)
        loss = (self.decode(every + self.place) - x).pow(2).mean(-1)
        return (loss * mask).sum() / mask.sum()


class DeformableConv(nn.Module):
    """Offsets of a convolution, sampled by grid_sample, with a mask for each."""

    def __init__(self, k=3):
        super().__init__()
        self.k = k
        self.offset = nn.Conv2d(4, 2 * k, 3, padding=1)
        self.mask = nn.Conv2d(4, k, 3, padding=1)
        nn.init.normal_(self.offset.weight, std=0.01)
        nn.init.uniform_(self.offset.bias, -1.3, 1.3)
        self.stem, self.mix = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4 * k, 6, 1)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = F.leaky_relu(self.stem(x), 0.1, inplace=True)
        b, c, h, w = x.shape
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        base = torch.stack([xs, ys], -1).float()
        offset = self.offset(x).view(b, self.k, 2, h, w).permute(0, 1, 3, 4, 2)
        mask = torch.sigmoid(self.mask(x))
        taps = []
        for i in range(self.k):
            grid = base + offset[:, i]
            grid = 2.0 * grid / torch.tensor([w - 1.0, h - 1.0]) - 1.0
            taps.append(F.grid_sample(x, grid, padding_mode="zeros", align_corners=True)
                        * mask[:, i: i + 1])
        return self.head(F.gelu(self.mix(torch.cat(taps, 1))).mean((-2, -1)))


class DropPathNet(nn.Module):
    """ConvNeXt blocks with layer scale and paths that are dropped, channels last."""

    class Block(nn.Module):
        def __init__(self, d, drop):
            super().__init__()
            self.dw, self.norm = nn.Conv2d(d, d, 5, padding=2, groups=d), nn.LayerNorm(d, eps=1e-6)
            self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
            self.grn = nn.Parameter(torch.zeros(2, 2 * d))
            self.gamma, self.drop = nn.Parameter(1e-2 * torch.ones(d)), drop

        def forward(self, x):
            y = self.norm(self.dw(x).permute(0, 2, 3, 1))
            y = F.gelu(self.up(y))
            g = torch.norm(y, p=2, dim=(1, 2), keepdim=True)
            y = self.grn[0] * (y * (g / (g.mean(dim=-1, keepdim=True) + 1e-6))) + self.grn[1] + y
            y = (self.gamma * self.down(y)).permute(0, 3, 1, 2)
            if self.drop and self.training:
                keep = 1 - self.drop
                y = y / keep * torch.floor(keep + torch.rand((x.shape[0], 1, 1, 1)))
            return x + y

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 4)
        self.blocks = nn.Sequential(*(self.Block(8, p.item()) for p in torch.linspace(0, 0.3, 3)))
        self.head = nn.Linear(8, 4)
        self.to(memory_format=torch.channels_last)

    def forward(self, x):
        x = self.blocks(self.stem(x.contiguous(memory_format=torch.channels_last)))
        return self.head(x.mean([-2, -1]))


class BiFpn(nn.Module):
    """Features of three sizes, merged by positive weights that are normalised."""

    def __init__(self, c=8, epsilon=1e-4):
        super().__init__()
        self.epsilon = epsilon
        self.stem = nn.ModuleList([nn.Conv2d(3, c, 3, 2, 1), nn.Conv2d(c, c, 3, 2, 1),
                                   nn.Conv2d(c, c, 3, 2, 1)])
        self.up, self.down = nn.Upsample(scale_factor=2, mode="nearest"), nn.MaxPool2d(3, 2, 1)
        self.w1 = nn.Parameter(torch.ones(2, dtype=torch.float32), requires_grad=True)
        self.w2 = nn.Parameter(torch.ones(3, dtype=torch.float32), requires_grad=True)
        self.convs = nn.ModuleDict({f"conv{i}": nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1, groups=c), nn.Conv2d(c, c, 1),
            nn.BatchNorm2d(c, momentum=0.01, eps=1e-3)) for i in range(3)})
        self.box, self.objectness = nn.Conv2d(c, 4, 1), nn.Conv2d(c, 1, 1)

    def forward(self, x):
        p3, p4, p5 = (lambda a: (a, *(lambda b: (b, self.stem[2](b)))(self.stem[1](a))))(
            self.stem[0](x))
        swish = lambda t: t * torch.sigmoid(t)  # noqa: E731  as in the published code
        w = F.relu(self.w1)
        w = w / (torch.sum(w, dim=0) + self.epsilon)
        p4_up = self.convs["conv0"](swish(w[0] * p4 + w[1] * self.up(p5)))
        w = F.relu(self.w2)
        w = w / (w.sum() + self.epsilon)
        p4_out = self.convs["conv1"](swish(w[0] * p4 + w[1] * p4_up + w[2] * self.down(p3)))
        p4_out = self.convs["conv2"](p4_out)
        n, _, h, w_ = p4_out.shape
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w_), indexing="ij")
        grid = torch.stack((xs, ys), 2).view(1, h * w_, 2).float()
        box = self.box(p4_out).permute(0, 2, 3, 1).reshape(n, -1, 4)
        centre = (box[..., :2].sigmoid() * 2 - 0.5 + grid) / h
        size = (box[..., 2:].sigmoid() * 2) ** 2 * 0.25
        return torch.cat([centre - size / 2, centre + size / 2], -1), self.objectness(p4_out).flatten(1)


def ciou_loss(outputs, targets, eps=1e-7):
    """The complete IoU of boxes with one target each, which is also that of the objectness."""
    boxes, objectness = outputs
    x1, y1, x2, y2 = boxes.unbind(-1)
    a1, b1, a2, b2 = targets[:, None].unbind(-1)
    inter = (torch.min(x2, a2) - torch.max(x1, a1)).clamp(0) * (
        torch.min(y2, b2) - torch.max(y1, b1)).clamp(0)
    w1, h1, w2, h2 = x2 - x1, y2 - y1 + eps, a2 - a1, b2 - b1 + eps
    iou = inter / (w1 * h1 + w2 * h2 - inter + eps)
    cw, ch = torch.max(x2, a2) - torch.min(x1, a1), torch.max(y2, b2) - torch.min(y1, b1)
    rho2 = ((a1 + a2 - x1 - x2) ** 2 + (b1 + b2 - y1 - y2) ** 2) / 4
    v = (4 / math.pi ** 2) * torch.pow(torch.atan(w2 / h2) - torch.atan(w1 / h1), 2)
    with torch.no_grad():
        alpha = v / (v - iou + (1 + eps))
    ciou = iou - (rho2 / (cw ** 2 + ch ** 2 + eps) + v * alpha)
    gr = 1.0
    wanted = (1.0 - gr) + gr * ciou.detach().clamp(0).type(objectness.dtype)
    weight = F.softmax(-rho2.detach() * 10, dim=1)
    return ((1.0 - ciou) * weight).sum(1).mean() * 0.05 + nn.BCEWithLogitsLoss()(objectness, wanted)


class Hourglass(nn.Module):
    """Heat maps of joints by a recursive hourglass, and their expected places."""

    def __init__(self, c=8, depth=2, joints=3):
        super().__init__()
        def residual():
            return nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(inplace=True), nn.Conv2d(c, c, 3, 1, 1))
        self.depth = depth
        self.stem = nn.Conv2d(1, c, 3, 1, 1)
        self.hg = nn.ModuleList([nn.ModuleList([residual() for _ in range(3 + (i == 0))])
                                 for i in range(depth)])
        self.score = nn.Conv2d(c, joints, 1)
        self.register_buffer("places", torch.linspace(-1, 1, 8))

    def _hour_glass_forward(self, n, x):
        up1 = x + self.hg[n - 1][0](x)
        low1 = F.max_pool2d(x, 2, stride=2)
        low1 = low1 + self.hg[n - 1][1](low1)
        low2 = self._hour_glass_forward(n - 1, low1) if n > 1 else low1 + self.hg[n - 1][3](low1)
        low3 = low2 + self.hg[n - 1][2](low2)
        return up1 + F.interpolate(low3, scale_factor=2)

    def forward(self, x):
        maps = self.score(self._hour_glass_forward(self.depth, self.stem(x)))
        p = maps.flatten(2).softmax(-1).view_as(maps)
        xs = torch.einsum("bjhw,w->bj", p, self.places)
        ys = (p.sum(-1) * self.places).sum(-1)
        return {"heatmaps": maps, "coords": torch.stack([xs, ys], dim=-1)}


def joint_loss(outputs, targets):
    """The squared error of visible joints, and a smooth one of their places."""
    visible = targets["visible"].float()
    heat = ((outputs["heatmaps"] - targets["maps"]) ** 2).mean(dim=(2, 3)) * visible
    coords = F.smooth_l1_loss(outputs["coords"], targets["coords"], reduction="none", beta=0.5)
    return heat.sum() / visible.sum().clamp_min(1.0) + (coords * visible[..., None]).mean()


class DepthNet(nn.Module):
    """Disparity of a stereo pair without labels: warped images, SSIM and smoothness."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 8, 3), nn.ELU(inplace=True),
                                 nn.ReflectionPad2d(1), nn.Conv2d(8, 1, 3), nn.Sigmoid())

    @staticmethod
    def ssim(x, y):
        x, y = F.pad(x, (1, 1, 1, 1), mode="reflect"), F.pad(y, [1] * 4, "reflect")
        mu_x, mu_y = F.avg_pool2d(x, 3, 1), F.avg_pool2d(y, 3, 1)
        sigma_x = F.avg_pool2d(x ** 2, 3, 1) - mu_x ** 2
        sigma_y = F.avg_pool2d(y ** 2, 3, 1) - mu_y ** 2
        sigma_xy = F.avg_pool2d(x * y, 3, 1) - mu_x * mu_y
        n = (2 * mu_x * mu_y + 0.01 ** 2) * (2 * sigma_xy + 0.03 ** 2)
        d = (mu_x ** 2 + mu_y ** 2 + 0.01 ** 2) * (sigma_x + sigma_y + 0.03 ** 2)
        return torch.clamp((1 - n / d) / 2, 0, 1)

    @staticmethod
    def smooth(disp, img):
        dx = torch.abs(disp[:, :, :, :-1] - disp[:, :, :, 1:])
        dy = torch.abs(disp[:, :, :-1, :] - disp[:, :, 1:, :])
        ix = torch.mean(torch.abs(img[:, :, :, :-1] - img[:, :, :, 1:]), 1, keepdim=True)
        iy = torch.mean(torch.abs(img[:, :, :-1, :] - img[:, :, 1:, :]), 1, keepdim=True)
        return (dx * torch.exp(-ix)).mean() + (dy * torch.exp(-iy)).mean()

    def forward(self, left, right):
        disp = 0.3 * self.net(left)
        b, _, h, w = disp.shape
        x_base = torch.linspace(0, 1, w).repeat(b, h, 1).type_as(left)
        y_base = torch.linspace(0, 1, h).repeat(b, w, 1).transpose(1, 2).type_as(left)
        flow = torch.stack((x_base + disp[:, 0], y_base), dim=3)
        warped = F.grid_sample(right, 2 * flow - 1, mode="bilinear", padding_mode="border",
                               align_corners=True)
        photo = 0.85 * self.ssim(warped, left).mean(1, True) + 0.15 * (warped - left).abs().mean(1, True)
        mean_disp = disp.mean(2, True).mean(3, True)
        return photo.mean() + 1e-3 * self.smooth(disp / (mean_disp + 1e-7), left)


class AttentionMil(nn.Module):
    """Gated attention over the instances of a bag, of which some are padding."""

    def __init__(self, d=6, h=8):
        super().__init__()
        self.v, self.u, self.w = nn.Linear(d, h), nn.Linear(d, h), nn.Linear(h, 1)
        self.bag, self.instance = nn.Linear(d, 1), nn.Linear(d, 2)

    def forward(self, bags, sizes):
        mask = torch.arange(bags.shape[1])[None, :] < sizes[:, None]
        a = self.w(torch.tanh(self.v(bags)) * torch.sigmoid(self.u(bags))).squeeze(-1)
        a = a.masked_fill(~mask, torch.finfo(a.dtype).min).softmax(dim=1)
        z = torch.bmm(a[:, None], bags).squeeze(1)
        top = torch.topk(a, 2, dim=1)[1]
        best = torch.gather(bags, 1, top.unsqueeze(-1).expand(-1, -1, bags.size(-1)))
        return self.bag(z).squeeze(-1), self.instance(best)


def bag_loss(outputs, y):
    """The loss of the bags, and of the instances that have the most attention."""
    logit, instances = outputs
    inst = F.cross_entropy(instances.reshape(-1, 2), y.long()[:, None].expand(-1, 2).reshape(-1))
    return 0.7 * F.binary_cross_entropy_with_logits(logit, y, pos_weight=torch.tensor(2.0)) + 0.3 * inst


class VoxelMorph(nn.Module):
    """Registers volumes: a field that is integrated, a 3-D sampler, and local correlations."""

    def __init__(self, size=(6, 6, 6), steps=2):
        super().__init__()
        self.unet = nn.Sequential(nn.Conv3d(2, 6, 3, padding=1), nn.LeakyReLU(0.2))
        self.flow = nn.Conv3d(6, 3, 3, padding=1)
        self.flow.weight = nn.Parameter(D.Normal(0, 1e-2).sample(self.flow.weight.shape))
        self.flow.bias = nn.Parameter(torch.zeros(self.flow.bias.shape))
        vectors = [torch.arange(0, s) for s in size]
        grid = torch.stack(torch.meshgrid(vectors, indexing="ij")).unsqueeze(0).float()
        self.register_buffer("grid", grid, persistent=False)
        self.steps = steps

    def warp(self, src, flow):
        new_locs = self.grid + flow
        shape = flow.shape[2:]
        new_locs = torch.stack([2 * (new_locs[:, i] / (shape[i] - 1) - 0.5) for i in range(3)], 1)
        new_locs = new_locs.permute(0, 2, 3, 4, 1)[..., [2, 1, 0]]
        return F.grid_sample(src, new_locs, align_corners=True, mode="bilinear")

    @staticmethod
    def ncc(i, j, win=3):
        filt = torch.ones([1, 1, win, win, win])
        conv = lambda x: F.conv3d(x, filt, stride=1, padding=win // 2)  # noqa: E731
        i_sum, j_sum, i2, j2, ij = conv(i), conv(j), conv(i * i), conv(j * j), conv(i * j)
        n = win ** 3
        u_i, u_j = i_sum / n, j_sum / n
        cross = ij - u_j * i_sum - u_i * j_sum + u_i * u_j * n
        i_var = i2 - 2 * u_i * i_sum + u_i * u_i * n
        j_var = j2 - 2 * u_j * j_sum + u_j * u_j * n
        return -torch.mean(cross * cross / (i_var * j_var + 1e-5))

    def forward(self, source, target):
        vec = self.flow(self.unet(torch.cat([source, target], dim=1))) * (1.0 / 2 ** self.steps)
        for _ in range(self.steps):
            vec = vec + self.warp(vec, vec)
        y = self.warp(source, vec)
        d = [torch.diff(vec, dim=k) for k in (2, 3, 4)]
        return self.ncc(target, y) + 0.01 * sum((g * g).mean() for g in d) / 3.0


class TemporalShift(nn.Module):
    """Moves a part of the channels along time before a convolution of every frame."""

    def __init__(self, segments=4, c=8):
        super().__init__()
        self.n_segment = segments
        self.conv1, self.conv2 = nn.Conv2d(3, c, 3, 2, 1), nn.Conv2d(c, c, 3, 1, 1)
        self.fc = nn.Linear(c, 3)

    def shift(self, x, fold_div=4):
        nt, c, h, w = x.size()
        x = x.view(nt // self.n_segment, self.n_segment, c, h, w)
        fold = c // fold_div
        out = torch.zeros_like(x)
        out[:, :-1, :fold] = x[:, 1:, :fold]
        out[:, 1:, fold: 2 * fold] = x[:, :-1, fold: 2 * fold]
        out[:, :, 2 * fold:] = x[:, :, 2 * fold:]
        return out.view(nt, c, h, w)

    def forward(self, video):
        x = video.view((-1, 3) + video.size()[-2:])
        x = F.relu_(self.conv1(x))
        x = x + F.relu(self.conv2(self.shift(x)))
        x = self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))
        x = x.view((-1, self.n_segment) + x.size()[1:])
        return x.mean(dim=1, keepdim=True).squeeze(1)


CASES = {
    "unet_3d": case(UNet3d, dice_loss, lambda: floats(1, 8, 8, 8), lambda: integers(2, 8, 8, 8)),
    "se_resnet": case(SeResNet, nn.CrossEntropyLoss, lambda: floats(3, 16, 16), lambda: integers(10)),
    "nerf": case(Nerf, nn.MSELoss, lambda: (floats(3), floats(3)), lambda: torch.rand(SAMPLES, 3)),
    "siren": case(Siren, nn.MSELoss, lambda: floats(2), lambda: floats(1)),
    "capsules": case(Capsules, margin_loss, lambda: floats(1, 7, 7), lambda: integers(3)),
    "volume_autoencoder": case(Volumes, nn.MSELoss, lambda: floats(1, 8, 8, 8),
                               lambda: floats(1, 8, 8, 8)),
    "detector": case(Detector, detection_loss, lambda: floats(3, 16, 16),
                     lambda: {"classes": integers(4, 16), "sides": 0.1 + torch.rand(SAMPLES, 16, 4)}),
    "spatial_transformer": case(SpatialTransformer, nn.NLLLoss, lambda: floats(1, 12, 12),
                                lambda: integers(4)),
    "axial_attention": case(Attention3d, nn.L1Loss, lambda: floats(3, 8, 8),
                            lambda: floats(3, 16, 16)),
    "attention_unet": case(AttentionUNet, tversky_loss, lambda: floats(3, 16, 16),
                           lambda: integers(2, 16, 16)),
    "mlp_mixer": case(Mixer, nn.CrossEntropyLoss(torch.tensor([0.5, 1, 2, 1, 0.7]), label_smoothing=0.1),
                      lambda: floats(3, 16, 16), lambda: integers(5)),
    "bags": case(Bags, nn.CrossEntropyLoss, lambda: (integers(30, 6), floats(6), integers(10, 4)),
                 lambda: integers(3)),
    "global_filter": case(GlobalFilter, nn.CrossEntropyLoss, lambda: floats(1, 8, 8),
                          lambda: integers(3)),
    "involution": case(Involution, nn.CrossEntropyLoss, lambda: floats(4, 8, 8), lambda: integers(3)),
    "retina_head": case(RetinaHead, retina_loss, lambda: floats(3, 16, 16),
                        lambda: {"classes": integers(4, 80), "sides": 0.1 + floats(80, 4).abs()}),
    "deep_lab": case(DeepLab, lambda outputs, target: F.cross_entropy(outputs["out"], target,
                                                                      ignore_index=2),
                     lambda: floats(3, 24, 24), lambda: integers(3, 24, 24)),
    "seg_net": case(SegNet, nn.CrossEntropyLoss, lambda: floats(3, 8, 8), lambda: integers(2, 8, 8)),
    "plain_vit": case(PlainVit, nn.CrossEntropyLoss, lambda: floats(3, 16, 16), lambda: integers(5)),
    "nested_unet": case(NestedUNet, supervised_dice, lambda: floats(3, 16, 16),
                        lambda: integers(2, 16, 16)),
    "volume_render": case(VolumeRender, None, lambda: {
        "origins": floats(3), "directions": floats(3), "rgb": torch.rand(SAMPLES, 3)}),
    "fourier_film": case(FourierFilm, nn.MSELoss, lambda: (torch.rand(SAMPLES, 5, 2), integers(6)),
                         lambda: torch.rand(SAMPLES, 5, 3)),
    "shifted_windows": case(ShiftedWindows, nn.CrossEntropyLoss, lambda: floats(1, 8, 8),
                            lambda: integers(4)),
    "set_prediction": case(SetPrediction, set_loss, lambda: floats(3, 16, 16), lambda: {
        "labels": integers(4, 3), "boxes": 0.2 + 0.5 * torch.rand(SAMPLES, 3, 4)}),
    "center_net": case(CenterNet, centre_loss, lambda: floats(3, 8, 8), lambda: {
        "heat": torch.rand(SAMPLES, 2, 8, 8).add(0.05).clamp(max=1), "ind": integers(64, 3),
        "mask": integers(2, 3), "sizes": floats(3, 2)}),
    "ssd": case(Ssd, multibox_loss, lambda: floats(3, 8, 8), lambda: {
        "boxes": floats(40, 4), "classes": integers(3, 40)}),
    "crnn": case(Crnn, line_loss, lambda: floats(1, 4, 10), lambda: 1 + integers(6, 4)),
    "slot_attention": case(SlotAttention, nn.MSELoss, lambda: floats(8, 4), lambda: floats(8, 4)),
    "raft": case(Raft, lambda flow, target: ((flow - target).abs().sum(1) + 0.01).pow(0.4).mean(),
                 lambda: (floats(3, 10, 10), floats(3, 10, 10)), lambda: floats(2, 10, 10)),
    "dynamic_conv": case(DynamicConv, nn.CrossEntropyLoss, lambda: floats(4, 6, 6),
                         lambda: integers(3)),
    "masked_patches": case(MaskedPatches, None, lambda: floats(9, 4)),
    "deformable_conv": case(DeformableConv, nn.CrossEntropyLoss, lambda: floats(1, 7, 7),
                            lambda: integers(3)),
    "drop_path_net": case(DropPathNet, nn.CrossEntropyLoss, lambda: floats(3, 16, 16),
                          lambda: integers(4)),
    "bi_fpn": case(BiFpn, ciou_loss, lambda: floats(3, 16, 16),
                   lambda: torch.tensor([0.1, 0.2, 0.6, 0.8]) + 0.1 * torch.rand(SAMPLES, 4)),
    "hourglass": case(Hourglass, joint_loss, lambda: floats(1, 8, 8), lambda: {
        "maps": torch.rand(SAMPLES, 3, 8, 8), "coords": floats(3, 2), "visible": integers(2, 3)}),
    "depth_net": case(DepthNet, None, lambda: (torch.rand(SAMPLES, 3, 8, 8),
                                               torch.rand(SAMPLES, 3, 8, 8))),
    "attention_mil": case(AttentionMil, bag_loss, lambda: (floats(6, 6), 2 + integers(5)),
                          lambda: integers(2).float()),
    "voxel_morph": case(VoxelMorph, None, lambda: (floats(1, 6, 6, 6), floats(1, 6, 6, 6))),
    "temporal_shift": case(TemporalShift, nn.CrossEntropyLoss, lambda: floats(12, 8, 8),
                           lambda: integers(3)),
}


def entries():
    """The entries of all models."""
    return entries_of(CASES)
