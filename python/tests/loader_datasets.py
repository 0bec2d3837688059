"""Datasets of dataset_test.py, in a module that loader processes can import."""
from __future__ import annotations

import os
import random
import signal
import sys
import threading
from pathlib import Path

import numpy as np

CLASSES = 5


class Points:
    """Points that are moved at random, and their classes; needs no torch."""

    def __init__(self, samples=64, shape=(6,)):
        self.centres = np.random.default_rng(7).normal(size=(samples, *shape)).astype(np.float32)

    def __len__(self):
        return len(self.centres)

    def __getitem__(self, index):
        moved = self.centres[index] + np.float32(0.1 * random.random() + np.random.normal(0, 0.1))
        return moved, index % CLASSES


class Images:
    """Images with the augmentations of torchvision: a padded crop, a flip, brightness, noise."""

    def __init__(self, samples=64):
        import torch
        generator = torch.Generator().manual_seed(3)
        self.images = torch.randint(0, 256, (samples, 3, 8, 8), dtype=torch.uint8,
                                    generator=generator)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        import torch
        image = torch.nn.functional.pad(self.images[index].float() / 255, (1, 1, 1, 1))
        top, left = torch.randint(0, 3, (2,)).tolist()
        image = image[:, top:top + 8, left:left + 8]
        if torch.rand(()) < 0.5:
            image = image.flip(2)
        image = image * random.uniform(0.8, 1.2) + 0.05 * torch.randn(image.shape)
        return {"input": image, "label": index % CLASSES}


class Wrapped:
    """The samples of another dataset, with something that goes wrong."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        return self.dataset[index]


class Killing(Wrapped):
    """Kills its loader process, or the worker that has started it, once for each of its files.

    `deaths` has (index, whose, file): at sample `index` the process ends unless the file exists.
    """

    def __init__(self, dataset, deaths):
        super().__init__(dataset)
        self.deaths = deaths

    def __getitem__(self, index):
        for at, whose, file in self.deaths:
            if index == at and _is_new(file):
                os.kill(os.getpid() if whose == "loader" else os.getppid(), signal.SIGKILL)
        return super().__getitem__(index)


class Raising(Wrapped):
    """Raises an error at one sample."""

    def __getitem__(self, index):
        if index == 11:
            raise ValueError("no such picture\n\x1b[31mat all")
        return super().__getitem__(index)


class Hanging(Wrapped):
    """Never returns from one sample."""

    def __getitem__(self, index):
        if index == 12:
            threading.Event().wait()
        return super().__getitem__(index)


class Exiting(Wrapped):
    """Ends its process at one sample."""

    def __getitem__(self, index):
        if index == 13:
            os._exit(3)
        return super().__getitem__(index)


class Differing(Wrapped):
    """One sample has an array of another shape, another type or another name."""

    def __init__(self, dataset, how):
        super().__init__(dataset)
        self.how = how

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        if index != 14:
            return x, y
        return {"shape": (x[:3], y), "type": (x.astype(np.float64), y), "count": (x, y, y),
                "overflow": (x, 2**40), "class": (x, CLASSES), "text": (x, "five")}[self.how]


class Growing(Wrapped):
    """Has one sample more in other processes than the one that has made it."""

    def __init__(self, dataset):
        super().__init__(dataset)
        self.process = os.getpid()

    def __len__(self):
        return super().__len__() + (os.getpid() != self.process)


class Broken(Wrapped):
    """Raises when 20 samples were computed, until the file `repaired` exists."""

    def __init__(self, dataset, folder):
        super().__init__(dataset)
        self.folder = Path(folder)

    def __getitem__(self, index):
        with open(self.folder / "computed", "ab") as computed:
            computed.write(b"x")
            is_late = computed.tell() > 20
        if is_late and not (self.folder / "repaired").exists():
            raise OSError("the disk is away")
        return super().__getitem__(index)


class Counting(Wrapped):
    """A sample depends on the samples that this object has computed before."""

    seen = 0

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        self.seen += 1
        x[2] += self.seen
        return x, y


class LateTorch(Wrapped):
    """Imports torch with its first sample, and draws from it."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        import torch
        return x + torch.rand(x.shape).numpy(), y


class Recording(Wrapped):
    """Writes its process into a folder."""

    def __init__(self, dataset, folder):
        super().__init__(dataset)
        self.folder = folder

    def __getitem__(self, index):
        (Path(self.folder) / str(os.getpid())).touch()
        print("a dataset may print", file=sys.stdout)
        return super().__getitem__(index)


def _is_new(file):
    try:
        Path(file).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
