"""The results of scripts/zoo: a JSON file for each model, one file with the results of earlier runs,
and the placements of a run."""
import json
import os
from pathlib import Path

CLASSES = ("cpu-avx512", "cpu-avx2", "cpu-scalar")  # widest first


class Store:
    """A folder with FAMILY/MODEL.json, and `earlier`, a file with one result in a line, or None. A
    result in the folder replaces that of `earlier`."""

    def __init__(self, folder, earlier=None):
        self.folder = Path(folder)
        self.earlier = {}
        if earlier and earlier.exists():
            rows = map(json.loads, earlier.read_text().splitlines())
            self.earlier = {(row["family"], row["model"]): row for row in rows}

    def file(self, family, model):
        return self.folder / family / f"{model}.json"

    def row(self, family, model):
        """The result of a model; None if it has none."""
        file = self.file(family, model)
        return json.loads(file.read_text()) if file.exists() else self.earlier.get((family, model))

    def rows(self):
        """All results, by family and name."""
        rows = [json.loads(file.read_text()) for file in self.folder.glob("*/*.json")]
        found = self.earlier | {(row["family"], row["model"]): row for row in rows}
        return [found[key] for key in sorted(found)]

    def write_rows(self, file):
        """Writes all results into a file that a later run reads as `earlier`."""
        part = file.with_suffix(f".{os.getpid()}.part")
        part.write_text("".join(json.dumps(row) + "\n" for row in self.rows()))
        part.rename(file)

    def write(self, row):
        """Replaces the result of a model at once, so that no reader sees a part of it."""
        file = self.file(row["family"], row["model"])
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(row, indent=1) + "\n")
        part.rename(file)

    def remove(self, family, model):
        """Removes the result of a model, if there is one."""
        self.file(family, model).unlink(missing_ok=True)
        self.earlier.pop((family, model), None)

    def is_wanted(self, family, model, again):
        """Whether a model has no result, or one of the results `again`."""
        row = self.row(family, model)
        return row is None or row["status"] in again or "all" in again


def placements():
    """The stages of the three runs of a model, of the two widest device classes of this machine."""
    from easyscale.client import Client
    from easyscale.private_head import PrivateHead
    with PrivateHead() as head:
        nodes = Client(head.endpoint).nodes()
    text = json.dumps(nodes)
    wide, narrow, *_ = [c for c in CLASSES if f'"{c}' in text] * 2
    return [f"{wide}:1", f"{narrow}:1+{wide}:1", f"{wide}:2@1,{narrow}:1@1,{narrow}:1+{wide}:1"]
