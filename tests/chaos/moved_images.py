"""The dataset of data_jobs.py, in a module that loader processes can import."""
import random
from pathlib import Path

import numpy as np

import easyscale as es

SIDE, CLASSES = 8, 4


class MovedImages:
    """Images around the pattern of their class, with a random shift and noise in every epoch."""

    def __init__(self, samples):
        self.patterns = np.random.default_rng(7).normal(size=(CLASSES, 1, SIDE, SIDE))
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        label = index % CLASSES
        moved = np.roll(self.patterns[label], random.randrange(SIDE), axis=2)
        noise = np.random.normal(0, 0.5, moved.shape)
        return (moved + noise + 0.01 * index).astype(np.float32), label


def write(folder, samples, eval_samples):
    """Writes FOLDER/dataset.pickle."""
    data, evaluated = (es.data.dataset(MovedImages(int(count))) for count in (samples, eval_samples))
    data.write(Path(folder), evaluated, {"image": 0, "label": 1}, {})
