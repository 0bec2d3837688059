"""What several tests need: programs that answer from files, and a test case with a folder."""
from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from easyscale import EasyScaleError
from easyscale.programs import find_easyscaled, find_esctl


def programs_train_model_files() -> bool:
    """Whether `esctl` is here and has the command `models`."""
    try:
        find_easyscaled()
        found = subprocess.run([find_esctl(), "models", "--help"], capture_output=True, check=False)
    except EasyScaleError:
        return False
    return found.returncode == 0


def offered_types() -> tuple[str, str]:
    """Two device types of this machine, the faster one first."""
    flags = Path("/proc/cpuinfo").read_text()
    return ("cpu-avx512", "cpu-avx2") if " avx512f " in flags else ("cpu-avx2", "cpu-scalar")


class FolderCase(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)


class FakeProgramsCase(FolderCase):
    """A test in which `esctl` and `easyscaled` are scripts (fake_esctl.py)."""

    def setUp(self) -> None:
        super().setUp()
        variables = {"FAKE_ESCTL": str(self.folder),
                     "EASYSCALE_ESCTL": str(self._script("esctl")),
                     "EASYSCALED": str(self._script("easyscaled"))}
        patch = mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)

    def _script(self, name: str) -> Path:
        path = self.folder / name
        program = shlex.join([sys.executable, str(HERE / f"fake_{name}.py")])
        path.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        path.chmod(0o755)
        return path

    def prepare(self, command: str, out: str, code: int = 0, err: str = "") -> None:
        """Decides what the command prints and how it ends."""
        reply = {"out": out, "code": code, "err": err}
        (self.folder / f"{command}.json").write_text(json.dumps(reply))

    def refuse(self, command: str, code: int, message: str) -> None:
        """Lets the command end with an error."""
        self.prepare(command, json.dumps({"error": message, "kind": "any"}), code)

    def calls(self) -> list[list[str]]:
        """All calls of `esctl`, without the option --json at their end."""
        file = self.folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line)[:-1] for line in lines]
