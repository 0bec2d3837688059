#!/usr/bin/env python3
"""Compares one step of a language model in published size with that of transformers.

  lm_exact.py gpt2|llama FOLDER --tokens T --threads N --device TYPE

Both sides have the same random weights and the same sequences, and compute in fp32. EasyScale trains
one step of SGD without momentum, whose learning rate is so large that the difference of the weights
before and after is the gradient. FOLDER is a new folder. EASYSCALE_ESCTL names esctl. Prints a JSON
object with both losses, and with the largest difference of a gradient: of an element, divided by the
largest gradient of its parameter.
"""
import argparse
import json
import os
import subprocess
from pathlib import Path

import torch
import workloads
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

RATE = 1024.0  # a power of two, so the division is exact

JOB = """name = "exact"
max_p = 1
batch_size = {batch}
steps = 1
level = "D2"
[resources]
threads = {threads}
[model]
name = "{family}"
dropout = 0.0
weights = "weights.safetensors"
[data]
kind = "tokens"
path = "tokens"
length = {tokens}
vocabulary = {vocabulary}
[optimizer]
kind = "sgd"
momentum = 0.0
learning_rate = {rate}
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=("gpt2", "llama"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu-avx512")
    return parser.parse_args()


def parameters_of(model):
    """name -> parameter, those that are tied once."""
    return dict(model.named_parameters())


def write(options, model, ids):
    options.folder.mkdir(parents=True)
    (options.folder / "tokens").mkdir()
    save_file({name: p.detach().contiguous() for name, p in parameters_of(model).items()},
              options.folder / "weights.safetensors")
    # A window of every sequence, and the label after its last token.
    for number, row in enumerate(ids):
        folder = options.folder / "tokens/train"
        folder.mkdir(exist_ok=True)
        row.numpy().astype("<u2").tofile(folder / f"{number}.bin")
    (options.folder / "job.toml").write_text(JOB.format(
        batch=len(ids), threads=options.threads, family=options.family, tokens=options.tokens,
        vocabulary=model.config.vocab_size, rate=RATE))


def ours(options):
    """The loss, and the parameters after the step."""
    esctl = os.environ["EASYSCALE_ESCTL"]
    done = subprocess.run([esctl, "run", "job.toml", "--devices", options.device + ":1", "--json",
                           "--quiet", "--checkpoint", "after"],
                          cwd=options.folder, stdout=subprocess.PIPE, text=True, check=True)
    subprocess.run([esctl, "export", "after", "after.safetensors"], cwd=options.folder, check=True,
                   stdout=subprocess.DEVNULL)
    return json.loads(done.stdout)["loss_first"], load_file(options.folder / "after.safetensors")


def theirs(model, ids):
    logits = model(input_ids=ids[:, :-1]).logits
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    return loss.item()


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    work = workloads.DECODERS[f"{options.family}_s64_b2"]
    model = work.make().train()
    ids = torch.randint(0, model.config.vocab_size, (work.batch, options.tokens + 1))
    write(options, model, ids)
    own_loss, after = ours(options)
    loss = theirs(model, ids)
    worst, where, total = 0.0, "", 0
    for name, parameter in parameters_of(model).items():
        own = (parameter.detach().double() - after[name].double()) / RATE
        reference = parameter.grad.double()
        total += reference.numel()
        difference = ((own - reference).abs().max() / reference.abs().max()).item()
        if difference > worst:
            worst, where = difference, name
    print(json.dumps({"family": options.family, "tokens": options.tokens, "parameters": total,
                      "loss_ours": own_loss, "loss_torch": loss, "gradient_difference": worst,
                      "of": where, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
