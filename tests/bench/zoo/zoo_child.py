"""The process of one model of scripts/zoo. Importing this imports what all models need."""
import os
import sys
from pathlib import Path

import timm
import torch
import torchvision
import transformers
import zoo_check
import zoo_models
import zoo_report
import zoo_store

PRELOADED = (timm, torchvision, transformers)  # once, before the processes are forked


def main(family, model, file, options):
    """Writes the row of a model to FAMILY/MODEL.json and what it prints to MODEL.log."""
    file = Path(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(file.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    torch.set_num_threads(1)
    (entry,) = [e for e in zoo_models.entries([family]) if e.name == model]
    row = zoo_check.check(entry, *options) | {"machine": zoo_report.machine()}
    zoo_store.Store(file.parent.parent).write(row)
