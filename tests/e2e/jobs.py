"""Job specifications of the end-to-end tests."""
import re
import unittest
from pathlib import Path

# All features are on that could make bits depend on the placement: momentum, weight decay, a
# schedule that changes in every step, augmentation, batch statistics (ResNet18). The images are
# small enough for scalar code, and no side is a power of two.
_BASE = {
    "": {"max_p": 4, "batch_size": 3, "steps": 60, "seed": 11, "level": "D2"},
    "model": {"classes": 10},
    "data": {"kind": "synthetic", "height": 12, "width": 12, "channels": 3, "samples": 400,
             "eval_samples": 50, "crop_padding": 2, "flip": True},
    "optimizer": {"learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.0005},
    "schedule": {"kind": "cosine", "warmup_steps": 5},
}

# With these, a step does not depend on the number of later steps, so a prefix of a run is a run.
ANY_LENGTH = {"schedule.kind": "step", "schedule.step_size": 50, "schedule.gamma": 0.9}

_MODELS = {"small_cnn": {"name": "small_cnn"}, "resnet18": {"name": "resnet18", "width": 16}}


def _value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def job_text(word, model="small_cnn", changes=None):
    """A job spec as TOML. `changes`: {"max_p": 5, "data.height": 16}; None drops the key."""
    tables = {name: dict(table) for name, table in _BASE.items()}
    tables[""]["name"] = f"{model}-{word}"
    tables["model"].update(_MODELS[model])
    for key, value in (changes or {}).items():
        table, _, name = key.rpartition(".")
        tables.setdefault(table, {})[name] = value
    text = ""
    for name, table in tables.items():
        text += f"\n[{name}]\n" if name else ""
        text += "".join(f"{key} = {_value(value)}\n"
                        for key, value in table.items() if value is not None)
    return text


def shipped_job(source_root):
    """The text of configs/jobs/small_cnn.toml. Skips the test if its dataset is missing."""
    path = source_root / "configs/jobs/small_cnn.toml"
    text = path.read_text()
    dataset = Path(re.search(r'^path = "([^"]+)"', text, re.MULTILINE).group(1))
    if not dataset.is_dir():
        raise unittest.SkipTest(f"{dataset}, the dataset of {path.name}, is absent: "
                                "install the package dataset-fashion-mnist")
    return text, dataset
