"""A captured model: its program with the initial weights."""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .program import Program


@dataclass(frozen=True)
class ModuleNames:
    """What the state dict of a module has in another form than the parameters of its program."""

    aliases: Mapping[str, str]  # other names of tied weights, with the names in the program
    complex: Collection[str]    # names of complex parameters, whose parts [..., 2] are stored

    def state_dict(self, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Parameters and statistics of a program, as the state dict of the module has them."""
        whole = {name: array.view(np.complex64)[..., 0] for name, array in weights.items()
                 if name in self.complex}
        own = weights | whole
        return own | {alias: own[name] for alias, name in self.aliases.items() if name in own}


@dataclass
class Captured:
    """A model file's program, and the initial weights by their names in the state dict.

    `weights` has the parameters and the statistics of batch norms, as fp32 arrays, and the first
    contents of the states. `complex` are the names of complex parameters, of which a program has the
    parts [..., 2].
    """

    program: Program
    weights: dict[str, np.ndarray]
    complex: frozenset[str] = frozenset()

    def names(self) -> ModuleNames:
        """How the state dict of the module that was captured differs."""
        return ModuleNames({alias: parameter.name for parameter in self.program.parameters
                            for alias in parameter.aliases}, self.complex)

    def save(self, directory: str | Path) -> None:
        """Writes model.json and weights.safetensors into a folder, which is made."""
        from safetensors.numpy import save_file
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.json").write_text(self.program.to_json() + "\n")
        save_file(self.weights, folder / "weights.safetensors")
