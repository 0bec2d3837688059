"""The model file of a captured model, and what the engine says about it."""
from __future__ import annotations

import re
from pathlib import Path

from .errors import UsageError
from .folders import TemporaryFolder
from .program import Node, Program
from .programs import run_json

# Kinds that end a step by a number that is not finite if an integer is no row.
CHOOSING = {"embedding", "gather", "take_rows"}
VALUE = re.compile(r"values\[(\d+)\]")
# How the engine names a node: by its module, or by its kind and number.
LABEL = re.compile(r'(?:model \S+: \w+ "([^"]+)")|(?:operator[^:]*: (\S+) \()')


def pack(model: Path, to: Path, *options: str) -> None:
    """Writes the model file of the JSON form `model`."""
    run_json(["models", "pack", str(model), "-o", str(to), *options])


def check_by_engine(program: Program, batch_size: int) -> None:
    """Raises CaptureError for a program that the engine does not execute with such mini-batches."""
    from .tracing.errors import CaptureError
    with TemporaryFolder("model-") as folder:
        model = folder / "model.json"
        model.write_text(program.to_json())
        try:
            pack(model, folder / "model.esmodel", "--batch-size", str(batch_size))
        except UsageError as error:
            text = str(error).replace(f"{model}: ", "")
            raise CaptureError(
                f"the engine does not execute the model with batch_size {batch_size}: "
                f"{explained(program, text)}; change the model there") from None


def explained(program: Program, text: str) -> str:
    """An error of the engine with the line of the model that it is about."""
    node = _node_of(program, text)
    if node is None or not node.source or node.source in text:
        return text
    chosen = [x.kind for x in program.nodes if x.source == node.source and x.kind in CHOOSING]
    hint = (f". It chooses rows by integers ({chosen[0]}): one below 0 or beyond the last row "
            "gives no finite number, and neither do two numbers that are written to one place"
            if chosen and "not finite" in text else "")
    return f"{text}; this is {node.kind} at {node.source}{hint}"


def _node_of(program: Program, text: str) -> Node | None:
    if found := VALUE.search(text):
        return next((x for x in program.nodes if int(found[1]) in x.outputs), None)
    label = LABEL.search(text)
    name = label and (label[1] or label[2])
    return next((x for i, x in enumerate(program.nodes) if name == (x.name or f"{x.kind}_{i}")),
                None)
