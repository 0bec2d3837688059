"""The work of `scripts/bench shards`: a small GPT-2 of transformers that AdamW trains on the same
sequences in every step, so that both sides compute the same losses whatever their order is."""
import torch
import workloads

SEQUENCES, TOKENS, VOCABULARY = 8, 16, 8192  # of the global batch
CLIP = 1.0
WORK = workloads.decoder("GPT2", TOKENS, VOCABULARY, 1, n_layer=6, n_embd=512, n_head=8,
                         **workloads.GPT2)


def model_and_samples():
    torch.manual_seed(0)
    return WORK.make().train(), WORK.samples(SEQUENCES)


def optimizer_settings():
    return {"lr": 3e-4, "betas": (0.9, 0.95), "weight_decay": 0.1}
