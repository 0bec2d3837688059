"""What the tests of language models share: tiny models of transformers, and windows of tokens in files
that are one global batch."""
import numpy as np
import torch
from support import FolderCase
from torch import nn

LENGTH, WINDOWS, VOCABULARY = 24, 8, 40


def twin(family):
    """The model of transformers with the shape of the tiny one, without dropout."""
    import transformers
    torch.manual_seed(6)
    if family == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=VOCABULARY, n_positions=128, n_embd=64, n_layer=2, n_head=4,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=176, rms_norm_eps=1e-5, use_cache=False))


def loss_of(outputs, labels):
    """The mean over all tokens, of which the labels are the next ones."""
    return nn.functional.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())


def state_of(model):
    return {name: tensor.detach().numpy().copy() for name, tensor in model.state_dict().items()}


def train(model, optimizer, x, y, steps):
    """The losses of PyTorch's training on all windows."""
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model(input_ids=x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class TokenCase(FolderCase):
    """A folder with token files, and their windows as tensors."""

    def setUp(self):
        super().setUp()
        ids = np.random.default_rng(4).integers(0, VOCABULARY, LENGTH * WINDOWS + 1)
        for half in ("train.bin", "val.bin"):
            ids.astype("<u2").tofile(self.folder / half)
        self.x = torch.from_numpy(ids[:-1]).view(WINDOWS, LENGTH)
        self.y = torch.from_numpy(ids[1:]).view(WINDOWS, LENGTH)
