"""Images with classes: files in folders, or tar files in the form of WebDataset.

The engine reads, decodes and augments the images while a job trains
(docs/reference/data-formats.md). Here the samples are counted, and made-up images of the same shape
are the examples for the capture.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..allowed import Allowed
from ..errors import UsageError
from ..folders import TemporaryFolder
from ..programs import run_json
from .array_samples import Arrays

ENDINGS = (".jpg", ".jpeg", ".png")
NORMALISATIONS = ("half", "imagenet")


class ExampleImages:
    """An array f32 [samples, channels, height, width] of numbers between -1 and 1."""

    dtype = np.dtype(np.float32)

    def __init__(self, samples: int, shape: tuple[int, int, int]):
        self.shape = (samples, *shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        chosen = range(*rows.indices(len(self)))
        images = [np.random.default_rng(i).uniform(-1, 1, self.shape[1:]) for i in chosen]
        return np.asarray(images, self.dtype).reshape(-1, *self.shape[1:])


class ExampleLabels:
    """An array i64 [samples] of the numbers of the classes in turn."""

    dtype = np.dtype(np.int64)

    def __init__(self, samples: int, classes: int):
        self.shape, self._classes = (samples,), classes

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        return np.arange(*rows.indices(len(self)), dtype=self.dtype) % self._classes


@dataclass(frozen=True)
class Images(Arrays):
    """Images and their classes. A job reads the files where they are.

    `lists` has the paths of tar files for the training and the evaluation, if the user has named
    these; otherwise the folder has them.
    """

    settings: Mapping[str, Any]
    lists: tuple[Sequence[Path], Sequence[Path]] | None = None

    def table(self, eval_data: Arrays | None) -> dict[str, Any]:
        """The table [data] of a job."""
        return dict(self.settings)

    def check_eval(self, eval_data: Arrays) -> None:
        """Raises UsageError: the data have an evaluation of their own."""
        raise UsageError("eval_data: allowed is none with images; the evaluation uses val/ of a folder "
                         "of images, and eval/ or eval_shards of tar files")

    def check_inputs(self, inputs: Sequence[str], keys: Mapping[str, Any]) -> None:
        """Raises UsageError if the inputs are not the image and then the class, which is the order in
        which the engine fills them."""
        if [keys[name] for name in inputs] != list(self.arrays):
            raise UsageError(f"data: the model has the inputs {', '.join(inputs)}: allowed are the "
                             "image and then its class")

    def write(self, folder: Path, eval_data: Arrays | None, names: Mapping[str, Any],
              allowed: Mapping[str, Allowed]) -> None:
        """Writes the lists of tar files, if there are any."""
        if self.lists is not None:
            folder.mkdir(parents=True)
            write_lists(folder, self.lists)


def images(folder: str | Path, size: int | tuple[int, int], *, channels: int = 3,
           normalise: str = "half", crop_padding: int = 0, flip: bool = False,
           random_resized_crop: bool = False, names: tuple[str, str] | None = None) -> Images:
    """Samples from JPEG and PNG files: folder/train/CLASS/NAME.jpg and folder/val/CLASS/NAME.png.

    The classes are numbered from 0 in the order of their names. A job has no `eval_data`; its
    evaluation uses folder/val. Nothing is copied.

    size: height and width of a sample; one number for both.
    channels: 3, or 1 for grey.
    normalise: "half" maps 0..255 to -1..1, "imagenet" uses the mean and deviation of that set.
    crop_padding, flip, random_resized_crop: the augmentation of training images, as in a job file
    (docs/JOB-FILE.md).
    names: the arguments of the model for the image and the class. Without them the image is the
    first argument, and the class the target of the loss.
    """
    place = Path(folder).resolve()
    classes = _folders(place / "train")
    files = sum(len(_image_files(place / "train" / name)) for name in classes)
    if files == 0:
        raise UsageError(f"{place / 'train'} has no images: allowed is a folder with train/CLASS/NAME "
                         "and the endings " + ", ".join(ENDINGS))
    _folders(place / "val")
    settings = _settings("image_folder", str(place), size, channels, normalise, crop_padding, flip,
                         random_resized_crop)
    return _images(settings, files, len(classes), names)


def webdataset(shards: str | Path | Sequence[str | Path], size: int | tuple[int, int], *,
               eval_shards: Sequence[str | Path] = (), channels: int = 3, normalise: str = "half",
               crop_padding: int = 0, flip: bool = False, random_resized_crop: bool = False,
               names: tuple[str, str] | None = None) -> Images:
    """Samples from tar files in the form of WebDataset, which are read without being unpacked.

    A sample is made of adjacent members with one key: 000123.jpg (or .jpeg, .png) and its class in
    000123.cls (or .json with the field "label", or .txt). `esctl data inspect` reads all headers
    and classes, and an error names the shard and the key.

    shards: a folder with train/*.tar and maybe eval/*.tar, or the tar files of the training.
    eval_shards: the tar files of the evaluation, if `shards` is not a folder.
    The other arguments are those of `images`.
    """
    if isinstance(shards, (str, Path)):
        if eval_shards:
            raise UsageError("eval_shards: allowed is none beside a folder, which has eval/*.tar")
        place = Path(shards).resolve()
        lists = None
        found = run_json(["data", "inspect", str(place)])
    else:
        train, evaluation = ([Path(x).resolve() for x in half] for half in (shards, eval_shards))
        if not train:
            raise UsageError("shards is empty: allowed is a folder or at least one tar file")
        place, lists = Path("data"), (train, evaluation)
        with TemporaryFolder("shards-") as folder:
            write_lists(folder, lists)
            found = run_json(["data", "inspect", str(folder)])
    half = found["train"]
    if "samples" not in half:
        raise UsageError(f"{place} has token files: allowed is a folder with train/*.tar")
    settings = _settings("webdataset", str(place), size, channels, normalise, crop_padding, flip,
                         random_resized_crop)
    return _images(settings, half["samples"], half["largest_label"] + 1, names, lists)


def write_lists(folder: Path, lists: tuple[Sequence[Path], Sequence[Path]]) -> None:
    """Writes train.txt and eval.txt with a path in each line; no file for an empty list."""
    for name, shards in zip(("train.txt", "eval.txt"), lists):
        wrong = [shard for shard in shards if "\n" in str(shard)]
        if wrong:
            raise UsageError(f"the path {str(wrong[0])!r} has a line end: allowed is none")
        if shards:
            (folder / name).write_text("".join(f"{shard}\n" for shard in shards))


def _settings(kind: str, path: str, size: int | tuple[int, int], channels: int, normalise: str,
              crop_padding: int, flip: bool, random_resized_crop: bool) -> dict[str, Any]:
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 1:
        raise UsageError(f"size = {size}: allowed are at least 1 pixel")
    if channels not in (1, 3):
        raise UsageError(f"channels = {channels}: allowed is 1 or 3")
    if normalise not in NORMALISATIONS:
        raise UsageError(f"normalise = {normalise!r}: allowed is {' or '.join(NORMALISATIONS)}")
    return {"kind": kind, "path": path, "height": height, "width": width, "channels": channels,
            "normalise": normalise, "crop_padding": crop_padding, "flip": flip,
            "random_resized_crop": random_resized_crop}


def _images(settings: Mapping[str, Any], samples: int, classes: int, names: tuple[str, str] | None,
            lists: tuple[Sequence[Path], Sequence[Path]] | None = None) -> Images:
    shape = (settings["channels"], settings["height"], settings["width"])
    examples = (ExampleImages(samples, shape), ExampleLabels(samples, classes))
    return Images(dict(zip(names or (0, 1), examples)), settings, lists)


def _folders(place: Path) -> list[str]:
    if not place.is_dir():
        raise UsageError(f"{place} is no folder: allowed is a folder of images with train/CLASS and "
                         "val/CLASS")
    return [x.name for x in place.iterdir() if x.is_dir()]


def _image_files(place: Path) -> list[str]:
    return [x.name for x in place.iterdir() if x.suffix.lower() in ENDINGS and x.is_file()]
