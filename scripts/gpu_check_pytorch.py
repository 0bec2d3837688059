#!/usr/bin/env python3
"""PyTorch's side of gpu_check: training steps of workloads on the GPU, with the mini-batch copied from pinned
memory in each, as ours is. Images are channels_last; language models have fused AdamW, the others fused SGD.

  gpu_check_pytorch.py PEERS STEPS eager WORKLOAD...
  gpu_check_pytorch.py PEERS STEPS compiled WORKLOAD tf32|bf16

PEERS is the folder of models.py. `eager` prints a JSON line for each workload and variant: fp32, TF32 and autocast
to bf16, each as PyTorch is by default but with cuDNN's choice by measurement, and with deterministic algorithms;
first a note of what PyTorch that is and what the GPU reaches. `compiled` compiles, prints a line, and measures
after a line on stdin.
"""
import contextlib
import importlib
import json
import os
import statistics
import sys
import time
import types
import warnings

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what deterministic algorithms need

import torch
from torch import nn

PRECISIONS = ("bf16", "tf32", "fp32")


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


def set_up(precision, deterministic):
    allow_tf32(precision != "fp32")
    torch.backends.cudnn.benchmark = not deterministic
    torch.backends.cudnn.deterministic = deterministic
    torch.use_deterministic_algorithms(deterministic, warn_only=True)


def error_of_products():
    """The relative error of a product of matrices, which shows whether TF32 is in use."""
    a = torch.randn(512, 512, generator=torch.Generator().manual_seed(1)).cuda()
    exact = a.double() @ a.double()
    return ((a @ a - exact).abs().max() / exact.abs().max()).item()


def seconds(work, times=5):
    """The median, after one call that is not measured."""
    ran = []
    for _ in range(1 + times):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        ran.append(time.perf_counter() - begin)
    return statistics.median(ran[1:])


def note():
    errors = []
    for precision in ("fp32", "tf32"):
        set_up(precision, False)
        errors.append(error_of_products())
    source = torch.randn(1 << 30, device="cuda")
    copied = torch.empty_like(source)
    gb_per_s = 8e-9 * source.numel() / seconds(lambda: copied.copy_(source))
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    tflops = 2e-12 * 8192**3 / seconds(lambda: a @ a)
    return {"pytorch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "copy_gb_per_s": gb_per_s,
            "bf16_tflops": tflops,
            "note": f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}: products err by "
                    f"{errors[0]:.1e}, with TF32 by {errors[1]:.1e}; it copies {gb_per_s:.0f} GB/s, and a bf16 product "
                    f"of 8192 has {tflops:.0f} Tflop/s"}


def language_model(name):
    """GPT-2 and Llama of transformers in the sizes of ours."""
    import transformers
    if name == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
        num_key_value_heads=4, tie_word_embeddings=True, use_cache=False))


def tokens(name, vocabulary):
    """`name` ends with the length of the sequences and their number, e.g. gpt2_s1024_b8."""
    length, count = (int(part[1:]) for part in name.split("_")[-2:])
    return lambda g: [torch.randint(0, high, shape, generator=g) for high, shape in (
        (vocabulary, (count, length)), (2, (count, length)), (length, (count,)), (length, (count,)))]


def workload(models, name):
    """Model, mini-batch, loss and whether the optimizer is AdamW. Sizes that models.py lacks are made from its
    parts."""
    work = dict(models.WORK)
    family = name.split("_")[0]
    if family in ("gpt2", "llama"):
        return (lambda: language_model(family), tokens(name, 50257 if family == "gpt2" else 32000),
                lambda model, data: model(input_ids=data[0], labels=data[0]).loss, True)
    if name.startswith("bert"):
        return models.bert_base, tokens(name, 30522), work["bert_base_s64_b4"][3], False
    if name.startswith("resnet50_224"):
        work[name] = models._img(work["resnet50_64_b8"][0], int(name.split("_b")[1]), 224, 1000)
    make, _, samples, loss = work[name][:4]
    return make, samples, loss, False


def each(value, change):
    if isinstance(value, (list, tuple)):
        return [each(v, change) for v in value]
    return change(value)


def in_channels_last(tensor):
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


class Training:
    def __init__(self, models, name):
        make, samples, self.loss, adamw = workload(models, name)
        self.model = make().cuda().train().to(memory_format=torch.channels_last)
        batch = samples(torch.Generator().manual_seed(1))
        self.batch = each(batch, lambda tensor: in_channels_last(tensor).pin_memory())
        rule = (torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True) if adamw else
                torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, fused=True))
        self.optimizer = rule

    def step(self, precision):
        data = each(self.batch, lambda tensor: tensor.cuda(non_blocking=True))
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext():
            loss = self.loss(self.model, data)
        loss.backward()
        self.optimizer.step()

    def measured(self, precision, warm, steps):
        for _ in range(warm):
            self.step(precision)
        torch.cuda.reset_peak_memory_stats()
        ms = 1e3 * seconds(lambda: self.step(precision), steps)
        return {"ms": ms, "mib": torch.cuda.max_memory_allocated() / 2**20}


def why(error):
    return {"why_not": f"{type(error).__name__}: {error}"[:200]}


def eager(models, steps, *names):
    print(json.dumps(note()), flush=True)
    torch.cuda.empty_cache()
    for name in names:
        training = None
        for deterministic in (False, True):
            for precision in PRECISIONS:
                variant = precision + (" deterministic" if deterministic else "")
                set_up(precision, deterministic)
                try:
                    training = training or Training(models, name)
                    found = training.measured(precision, 2, steps)
                except Exception as error:  # The results of the others are still useful.
                    found = why(error)
                print(json.dumps({"workload": name, "variant": variant, **found}), flush=True)
        del training
        torch.cuda.empty_cache()


def compiled(models, steps, name, precision):
    set_up(precision, False)
    try:
        training = Training(models, name)
        training.model = torch.compile(training.model)
        for _ in range(3):
            training.step(precision)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        print("compiled", flush=True)
        sys.stdin.readline()
        found = training.measured(precision, 1, steps)
    except Exception as error:
        found = why(error)
    print(json.dumps(found), flush=True)


def main(folder, steps, kind, *words):
    warnings.filterwarnings("ignore")
    {"eager": eager, "compiled": compiled}[kind](find_models(folder), int(steps), *words)


if __name__ == "__main__":
    main(*sys.argv[1:])
