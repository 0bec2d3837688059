"""Models of torchvision for other tasks: segments, clips, flow, detection; for scripts/zoo."""
import torch
import torch.nn.functional as F
from torch import nn
from zoo_case import SAMPLES, Case, Entry

SEGMENTS = ("fcn_resnet50", "fcn_resnet101", "deeplabv3_resnet50", "deeplabv3_resnet101",
            "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")
CLIPS = {"r3d_18": (4, 32), "mc3_18": (4, 32), "r2plus1d_18": (4, 32), "swin3d_t": (4, 64), "mvit_v1_b": (16, 224), "mvit_v2_s": (16, 224)}


def segment_loss(outputs, masks):
    total = F.cross_entropy(outputs["out"], masks, ignore_index=255)
    return total + 0.5 * F.cross_entropy(outputs["aux"], masks) if "aux" in outputs else total


def segments(name):
    from torchvision.models import get_model
    model = get_model(name, weights=None, weights_backbone=None, num_classes=5)
    return Case(model, segment_loss, torch.randn(SAMPLES, 3, 64, 64),
                torch.randint(0, 5, (SAMPLES, 64, 64)))


def clips(name, frames, size):
    from torchvision.models import get_model
    model = get_model(name, weights=None, num_classes=10)
    return Case(model, nn.CrossEntropyLoss(), torch.randn(SAMPLES, 3, frames, size, size),
                torch.randint(0, 10, (SAMPLES,)))


class Flow(nn.Module):
    """RAFT with the sequence of its refinements."""

    def __init__(self, name):
        super().__init__()
        from torchvision.models import get_model
        self.net = get_model(name, weights=None)

    def forward(self, first, second):
        return torch.stack(self.net(first, second, num_flow_updates=2), 1)


def flow(name):
    return Case(Flow(name), lambda x, y: (x - y[:, None]).abs().mean(),
                (torch.randn(SAMPLES, 3, 128, 128), torch.randn(SAMPLES, 3, 128, 128)),
                torch.randn(SAMPLES, 2, 128, 128))


class Pyramid(nn.Module):
    """The backbone of Faster R-CNN with its feature pyramid and the heads of its proposals."""

    def __init__(self, name):
        super().__init__()
        from torchvision.models import detection
        if name.startswith("mobilenet"):
            self.body = detection.backbone_utils.mobilenet_backbone(
                backbone_name=name, weights=None, fpn=True)
        else:
            self.body = detection.backbone_utils.resnet_fpn_backbone(
                backbone_name=name, weights=None)
        self.head = detection.rpn.RPNHead(256, 3)

    def forward(self, x):
        scores, boxes = self.head(list(self.body(x).values()))
        return torch.cat([s.flatten(1) for s in scores], 1), torch.cat([b.flatten(1) for b in boxes], 1)


def pyramid(name):
    return Case(Pyramid(name), lambda y, t: F.binary_cross_entropy_with_logits(
        y[0], torch.ones_like(y[0])) + F.smooth_l1_loss(y[1], torch.zeros_like(y[1])) + 0 * t.sum(),
        torch.randn(SAMPLES, 3, 64, 64), torch.zeros(SAMPLES))


class Heads(nn.Module):
    """RetinaNet's or FCOS's heads on a backbone."""

    def __init__(self, kind):
        super().__init__()
        from torchvision.models import detection
        self.body = detection.backbone_utils.resnet_fpn_backbone(
            backbone_name="resnet18", weights=None, trainable_layers=5)
        self.head = (detection.retinanet.RetinaNetHead(256, 9, 5) if kind == "retinanet"
                     else detection.fcos.FCOSHead(256, 1, 5))

    def forward(self, x):
        out = self.head(list(self.body(x).values()))
        return torch.cat([v.flatten(1) for v in out.values()], 1)


def heads(kind):
    return Case(Heads(kind), lambda y, t: y.square().mean() + 0 * t.sum(),
                torch.randn(SAMPLES, 3, 64, 64), torch.zeros(SAMPLES))


class Features(nn.Module):
    """What torchvision's feature extractor makes of a network (torch.fx)."""

    def __init__(self):
        super().__init__()
        from torchvision.models import resnet18
        from torchvision.models.feature_extraction import create_feature_extractor
        self.body = create_feature_extractor(resnet18(), {"layer2": "a", "layer4": "b"})

    def forward(self, x):
        out = self.body(x)
        return torch.cat([out["a"].mean((2, 3)), out["b"].mean((2, 3))], 1)


class Ssd(nn.Module):
    """SSD's backbone and heads."""

    def __init__(self):
        super().__init__()
        from torchvision.models.detection import ssd300_vgg16
        net = ssd300_vgg16(weights=None, weights_backbone=None, num_classes=3)
        self.body, self.head = net.backbone, net.head

    def forward(self, x):
        out = self.head(list(self.body(x).values()))
        return torch.cat([v.flatten(1) for v in out.values()], 1)


class RoiHead(nn.Module):
    """Deformable convolution of torchvision.ops with its offsets."""

    def __init__(self):
        super().__init__()
        from torchvision.ops import DeformConv2d, FeaturePyramidNetwork, SqueezeExcitation
        self.offset, self.conv = nn.Conv2d(3, 18, 3, padding=1), DeformConv2d(3, 8, 3, padding=1)
        self.se, self.head = SqueezeExcitation(8, 4), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.se(self.conv(x, self.offset(x))).mean((2, 3)))


def classes(model, size):
    return Case(model, nn.CrossEntropyLoss(), torch.randn(SAMPLES, 3, size, size),
                torch.randint(0, 4, (SAMPLES,)))


def entries():
    """The entries of all models."""
    made = [(name, lambda name=name: segments(name)) for name in SEGMENTS]
    made += [(name, lambda name=name, s=s: clips(name, *s)) for name, s in CLIPS.items()]
    made += [(name, lambda name=name: flow(name)) for name in ("raft_small", "raft_large")]
    made += [(f"fpn_{name}", lambda name=name: pyramid(name))
             for name in ("resnet18", "mobilenet_v3_large")]
    made += [(name, lambda name=name: heads(name)) for name in ("retinanet", "fcos")]
    made += [("feature_extractor", lambda: classes(Features(), 64)),
             ("ssd300_vgg16", lambda: Case(Ssd(), lambda y, t: y.square().mean() + 0 * t.sum(),
                                           torch.randn(SAMPLES, 3, 300, 300), torch.zeros(SAMPLES))),
             ("deformable", lambda: classes(RoiHead(), 16))]
    return [Entry("vision", name, make) for name, make in made]
