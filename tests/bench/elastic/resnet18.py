"""The model of the PyTorch peers: torchvision's ResNet18 with the stem for CIFAR images."""
import torch
import torchvision
from torch import nn


def make_model():
    model = torchvision.models.resnet18(num_classes=10)
    model.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    model.maxpool = nn.Identity()
    return model.to(memory_format=torch.channels_last)  # This layout is faster here.


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def make_batch(size, seed):
    """Returns made-up images (size, 3, 32, 32) in fp32, and labels (size,)."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(size, 3, 32, 32, generator=generator)
    return (images.contiguous(memory_format=torch.channels_last),
            torch.randint(10, (size,), generator=generator))
