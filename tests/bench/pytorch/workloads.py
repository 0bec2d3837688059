"""The workloads of `scripts/bench train`, `captured` and `lm` as PyTorch modules with losses and samples.

BUILT_IN has the models of train_workloads.cc at the same sizes, of torchvision, transformers and
make_reference.py; the loss of YOLOv3 has a target for every cell, because the assignment of boxes
is no work of the device. CAPTURED has models that EasyScale only knows by capture, and DECODERS the
language models of `scripts/bench lm --part`, which are built in.
"""
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torchvision
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "gpu/models"))
import make_reference as reference

VOCABULARY, TOKENS = 30522, 64
USERS, ITEMS = 943, 1682


@dataclass
class Workload:
    """A step: `samples(count)` is a dict of tensors [count, ...], inputs first.

    `targets` names those that the loss gets: one as a tensor, several as a dict. Without a loss the
    model returns it, and gets all of them by their names.
    """

    make: Callable[[], nn.Module]
    batch: int
    samples: Callable[[int], dict[str, torch.Tensor]]
    loss: Any = None
    targets: tuple[str, ...] = ()
    is_image: bool = False
    optimizer: str = "sgd"

    def loss_of(self, model, samples):
        """The loss of one mini-batch."""
        if self.loss is None:
            return model(**samples).loss
        inputs = [value for name, value in samples.items() if name not in self.targets]
        targets = {name: samples[name] for name in self.targets}
        return self.loss(model(*inputs), targets if len(targets) > 1 else targets[self.targets[0]])


def images(make, batch, side, classes=1000):
    def samples(count):
        return {"input": torch.randn(count, 3, side, side),
                "label": torch.randint(0, classes, (count,))}
    return Workload(make, batch, samples, F.cross_entropy, ("label",), True)


def resnet18_cifar():
    """ResNet18 with the first layer for images of 32 pixels."""
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return model


def torchvision_images(name, batch, side, **options):
    return images(lambda: torchvision.models.get_model(name, **options), batch, side)


def timm_images(name, batch, side):
    def make():
        import timm
        return timm.create_model(name)
    return images(make, batch, side)


def yolo_samples(count):
    grids = {f"grid{side}": torch.rand(count, side, side, 3 * 85) for side in (12, 6, 3)}
    return {"input": torch.randn(count, 3, 96, 96), **grids}


def yolo_loss(heads, targets):
    total = 0.0
    for head, target in zip(heads, targets.values()):
        head, target = head.unflatten(-1, (3, 85)), target.unflatten(-1, (3, 85))
        total = total + F.mse_loss(head[..., 2:4], target[..., 2:4])
        for begin, end in ((0, 2), (4, 85)):
            total = total + F.binary_cross_entropy_with_logits(head[..., begin:end],
                                                               target[..., begin:end])
    return total


def ratings(count):
    return {"user": torch.randint(0, USERS, (count,)), "item": torch.randint(0, ITEMS, (count,)),
            "rated": torch.randint(0, 2, (count,)).float()}


def language(kind, task, samples, batch=4, **sizes):
    """A model of transformers at its published size, or with other sizes."""
    def make():
        import transformers
        return getattr(transformers, kind + task)(getattr(transformers, kind + "Config")(**sizes))
    return Workload(make, batch, samples)


def decoder(kind, tokens, vocabulary, batch=2, **sizes):
    """A language model that is trained by AdamW, without dropout."""
    def samples(count):
        words = torch.randint(0, vocabulary, (count, tokens))
        return {"input_ids": words, "labels": words}
    task = "LMHeadModel" if kind == "GPT2" else "ForCausalLM"
    work = language(kind, task, samples, batch, vocab_size=vocabulary, use_cache=False, **sizes)
    work.optimizer = "adamw"
    return work


GPT2 = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
LLAMA = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
         "num_key_value_heads": 4, "intermediate_size": 2048, "rms_norm_eps": 1e-5,
         "tie_word_embeddings": True}
LENGTHS = (64, 256, 1024)
DECODERS = {
    **{f"gpt2_s{tokens}_b2": decoder("GPT2", tokens, 50257, **GPT2) for tokens in LENGTHS},
    **{f"llama_s{tokens}_b2": decoder("Llama", tokens, 32000, **LLAMA) for tokens in LENGTHS}}


def questions(count):
    spans = {name: torch.randint(0, TOKENS, (count,)) for name in ("start_positions",
                                                                   "end_positions")}
    return {"input_ids": torch.randint(0, VOCABULARY, (count, TOKENS)),
            "token_type_ids": torch.randint(0, 2, (count, TOKENS)), **spans}


def texts(count):
    words = torch.randint(0, VOCABULARY, (count, TOKENS))
    return {"input_ids": words, "labels": words}


BUILT_IN = {
    "resnet18_cifar32_b32": images(resnet18_cifar, 32, 32, 10),
    "resnet50_64_b8": torchvision_images("resnet50", 8, 64),
    "shufflenetv2_64_b32": torchvision_images("shufflenet_v2_x1_0", 32, 64),
    "vgg19_64_b8": torchvision_images("vgg19", 8, 64),
    "swin_t_64_b4": torchvision_images("swin_t", 4, 64),
    "yolov3_96_b2": Workload(lambda: reference.YoloV3(32, [1, 2, 8, 8, 4], 80), 2, yolo_samples,
                             yolo_loss, ("grid12", "grid6", "grid3"), True),
    "neumf_b1024": Workload(lambda: reference.NeuMF(8, [64, 32, 16, 8], USERS, ITEMS), 1024,
                            ratings, F.binary_cross_entropy_with_logits, ("rated",)),
    "bert_base_s64_b4": language("Bert", "ForQuestionAnswering", questions),
    "electra_small_s64_b4": language("Electra", "ForQuestionAnswering", questions,
                                     embedding_size=128, hidden_size=256, num_attention_heads=4,
                                     intermediate_size=1024),
}
CAPTURED = {
    "mobilenet_v2_64_b32": torchvision_images("mobilenet_v2", 32, 64),
    "efficientnet_b0_64_b16": torchvision_images("efficientnet_b0", 16, 64),
    "densenet121_64_b8": torchvision_images("densenet121", 8, 64),
    "regnet_y_400mf_64_b16": torchvision_images("regnet_y_400mf", 16, 64),
    "convnext_tiny_64_b8": torchvision_images("convnext_tiny", 8, 64),
    "vit_b_16_64_b8": torchvision_images("vit_b_16", 8, 64, image_size=64),
    "mixer_s32_224_b8": timm_images("mixer_s32_224", 8, 224),
    "distilbert_s64_b4": language("DistilBert", "ForMaskedLM", texts),
    "gpt2_s64_b4": language("GPT2", "LMHeadModel", texts, vocab_size=VOCABULARY),
    "llama_small_s64_b4": language(
        "Llama", "ForCausalLM", texts, vocab_size=VOCABULARY, hidden_size=512, num_hidden_layers=8,
        num_attention_heads=8, num_key_value_heads=4, intermediate_size=1408),
}
WORKLOADS = BUILT_IN | CAPTURED | DECODERS
