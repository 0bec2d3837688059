"""Datasets of length_buckets_test.py, in a module that loader processes can import."""
import numpy as np

WORDS, CLASSES, LONGEST = 40, 3, 64


def text_lengths(samples, seed):
    """Lengths whose mean is about a third of the longest one, which occurs."""
    lengths = 3 + np.random.default_rng(seed).exponential(20, samples).astype(int)
    lengths = np.minimum(lengths, LONGEST)
    lengths[0] = LONGEST
    return lengths


class Texts:
    """Tokens without padding, with a mask, and a class for each token, or one for the text."""

    def __init__(self, samples, seed=0, for_tokens=False):
        self.lengths = text_lengths(samples, seed)
        self.seed, self.for_tokens = seed, for_tokens

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        length = self.lengths[index]
        ids = np.random.default_rng((self.seed, index)).integers(1, WORDS, length)
        labels = ids % CLASSES if self.for_tokens else int(ids[0] % CLASSES)
        return {"input_ids": ids, "attention_mask": np.ones(length, np.int64), "labels": labels}


class Images:
    """Images of three sizes, two of which do not hold each other."""

    SIZES = ((12, 8), (8, 12), (8, 8))

    def __init__(self, samples, seed=0):
        self.samples, self.seed = samples, seed

    def __len__(self):
        return self.samples

    def size(self, index):
        return self.SIZES[index * 7 % 3]

    def __getitem__(self, index):
        numbers = np.random.default_rng((self.seed, index))
        image = numbers.standard_normal((2, *self.size(index))).astype(np.float32)
        return image, int(image[0, 0, 0] > 0)
