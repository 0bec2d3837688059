"""Jobs of a chaos run whose samples come from token files, or from a Python dataset.

The losses of a step are those of its samples, and the ledgers of both runs must be equal at every
step. So a sample that a fault repeats or leaves out is a difference.
"""
import array
import json
import random
import subprocess

from jobs import job_text
from model_files import small_net, write_safetensors

VOCABULARY, LENGTH, DOCUMENT_END = 24, 16, 5
WINDOWS = 96
SAMPLES, EVAL_SAMPLES = 96, 16
KINDS = ("tokens", "python")


def tokens_job(directory, changes):
    """A decoder on windows of documents in several shards."""
    source = random.Random(3)
    for half, shards in (("train", 3), ("eval", 1)):
        folder = directory / "tokens" / half
        folder.mkdir(parents=True)
        for shard in range(shards):
            text = array.array("H", (source.randrange(VOCABULARY)
                                     for _ in range(WINDOWS // 3 * LENGTH + 1)))
            (folder / f"{shard}.bin").write_bytes(text.tobytes())
    return job_text("chaos", "small_cnn", {
        "model.name": "gpt2", "model.size": "tiny", "model.classes": None, "max_p": 4,
        "batch_size": 3, "optimizer.kind": "adamw", "optimizer.momentum": None,
        "optimizer.learning_rate": 0.005, **_only_data({
            "kind": "tokens", "path": str(directory / "tokens"), "length": LENGTH,
            "vocabulary": VOCABULARY, "document_end": DOCUMENT_END}), **changes})


def python_job(directory, changes, esctl, python, source_root):
    """A small net on images that a dataset moves at random."""
    net = small_net(random.Random(4))
    model = directory / "net.json"
    model.write_text(json.dumps(net.json))
    subprocess.run([esctl, "models", "pack", model, "-o", directory / "net.esmodel"], check=True,
                   capture_output=True)
    write_safetensors(directory / "weights.safetensors", net.weights)
    places = f"{source_root / 'python'}:{source_root / 'tests/chaos'}"
    subprocess.run([python, "-c", "import sys; import moved_images; moved_images.write(*sys.argv[1:])",
                    directory / "data", str(SAMPLES), str(EVAL_SAMPLES)], check=True,
                   env={"PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"})
    return job_text("chaos", "small_cnn", {
        "model.name": None, "model.classes": None, "model.file": str(directory / "net.esmodel"),
        "model.weights": str(directory / "weights.safetensors"), "max_p": 4, "batch_size": 3,
        **_only_data({
            "kind": "python", "path": str(directory / "data/dataset.pickle"), "samples": SAMPLES,
            "eval_samples": EVAL_SAMPLES, "python": str(python), "python_path": places}),
        **changes})


def _only_data(fields):
    """The changes that leave nothing but these fields in [data]."""
    others = ("kind", "height", "width", "channels", "samples", "eval_samples", "crop_padding",
              "flip")
    return {f"data.{name}": None for name in others} | {
        f"data.{name}": value for name, value in fields.items()}
