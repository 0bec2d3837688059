"""Sentences about things that are open or closed, and a published encoder that confuses the two.

Used by the notebook fine_tune_sentence_encoder.ipynb and by python/tests/finetune_test.py.
"""
import itertools
import random

import numpy as np

OPEN = ["The {} is open.", "Someone left the {} open.", "Nobody has closed the {}.",
        "The {} was never shut."]
CLOSED = ["The {} is closed.", "Someone has shut the {}.", "Nobody left the {} open.",
          "The {} is no longer open."]
THINGS = "door window gate valve hatch drawer box lid cupboard safe garage tap".split()
OTHER_THINGS = "suitcase shutter oven container vent locker trunk cabinet".split()
WORDS = 10  # tokens of a sentence, with padding


def pairs(things, count, seed):
    """(first, second, same): texts, and 1.0 where both say the same of a thing, else 0.0.

    Half of the `count` pairs are of each kind.
    """
    found = {0.0: [], 1.0: []}
    for thing in things:
        texts = [(form.format(thing), forms is OPEN) for forms in (OPEN, CLOSED) for form in forms]
        for (first, one), (second, other) in itertools.combinations(texts, 2):
            found[float(one == other)].append((first, second))
    chosen = [(*pair, same) for same, all_pairs in found.items()
              for pair in random.Random(seed).sample(all_pairs, count // 2)]
    return tuple(zip(*chosen))


def encoded(tokenizer, first, second):
    """Token ids and masks [pairs, 2, WORDS] of two lists of texts."""
    both = [tokenizer(list(texts), padding="max_length", max_length=WORDS, truncation=True)
            for texts in (first, second)]
    return tuple(np.stack([np.array(half[key]) for half in both], axis=1)
                 for key in ("input_ids", "attention_mask"))
