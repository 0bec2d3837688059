#!/usr/bin/env python3
"""PyTorch's side of gpu_check: training steps of each workload on the GPU, eager fp32, with the mini-batch
copied from pinned memory in each, as ours is.

  gpu_check_pytorch.py PEERS STEPS WORKLOAD...

PEERS is the folder of models.py. Prints a JSON line for each workload: milliseconds with TF32 off and on,
or why there are none; first a note of what PyTorch that is.
"""
import importlib
import json
import statistics
import sys
import time
import types

import torch
from torch import nn

torch.backends.cudnn.deterministic = True


def conv(inputs, outputs, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
                         nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(conv(inputs, width, 1), nn.ReLU(), conv(width, width, 3, stride),
                                  nn.ReLU(), conv(width, 4 * width, 1))
        same = inputs == 4 * width and stride == 1
        self.skip = nn.Identity() if same else conv(inputs, 4 * width, 1, stride)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def resnet50():
    layers, channels = [conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, 64 << stage, 2 if stage and not block else 1))
            channels = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def find_models(folder):
    """Imports models.py. Without torchvision only ResNet-50 of the models that need it is
    available."""
    sys.path.insert(0, folder)
    try:
        importlib.import_module("torchvision")
    except ImportError:
        sys.modules["torchvision"] = types.SimpleNamespace(
            models=types.SimpleNamespace(resnet50=resnet50))
    return importlib.import_module("models")


def allow_tf32(on):
    if hasattr(torch.backends.cudnn, "conv"):  # PyTorch 2.9 and newer.
        torch.backends.cuda.matmul.fp32_precision = "tf32" if on else "ieee"
        torch.backends.cudnn.conv.fp32_precision = "tf32" if on else "ieee"
    else:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = on


def error_of_products():
    """The relative error of a product of matrices, which shows whether TF32 is in use."""
    a = torch.randn(512, 512, generator=torch.Generator().manual_seed(1)).cuda()
    exact = a.double() @ a.double()
    return ((a @ a - exact).abs().max() / exact.abs().max()).item()


def note():
    errors = []
    for on in (False, True):
        allow_tf32(on)
        errors.append(error_of_products())
    return {"note": f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}: products err "
                    f"by {errors[0]:.1e}, with TF32 by {errors[1]:.1e}"}


def workload(models, name):
    """Model, mini-batch and loss. Sizes that models.py lacks are made from its parts."""
    work = dict(models.WORK)
    if "resnet50_64_b8" in work:
        work["resnet50_224_b32"] = models._img(work["resnet50_64_b8"][0], 32, 224, 1000)
    integers = torch.randint
    work["bert_base_s384_b8"] = (
        models.bert_base, 8,
        lambda g: (integers(0, 30522, (8, 384), generator=g), integers(0, 2, (8, 384), generator=g),
                   integers(0, 384, (8,), generator=g), integers(0, 384, (8,), generator=g)),
        work["bert_base_s64_b4"][3])
    make, _, samples, loss = work[name][:4]
    return make, samples, loss


def each(value, change):
    if isinstance(value, (list, tuple)):
        return [each(v, change) for v in value]
    return change(value)


def step_ms(make, samples, loss, steps):
    model = make().cuda().train()
    batch = each(samples(torch.Generator().manual_seed(1)), torch.Tensor.pin_memory)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    times = []
    for _ in range(3 + steps):
        begin = time.perf_counter()
        data = each(batch, lambda tensor: tensor.cuda(non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss(model, data).backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times[3:])


def main(folder, steps, *names):
    models = find_models(folder)
    print(json.dumps(note()), flush=True)
    for name in names:
        result = {"workload": name}
        try:
            for key, on in (("ms", False), ("tf32_ms", True)):
                allow_tf32(on)
                result[key] = step_ms(*workload(models, name), int(steps))
        except Exception as error:  # The results of the others are still useful.
            result = {"workload": name, "why_not": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
