"""What several tests need: programs that answer from files, and a test case with a folder."""
from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from easyscale import Client, EasyScaleError, Job, RemoteJob, Run
from easyscale.private_head import PrivateHead
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


class ElasticCase(FolderCase):
    """A test whose jobs run on a head of its own, where things happen to them."""

    def wait_for(self, head: PrivateHead, job: RemoteJob,
                 what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first description of the job for which `what` is true."""
        for view in Client(head.endpoint).follow(job.id, interval=0.05):
            if what(view):
                return view
        self.fail(f"the job has ended before: {view}")

    def disturbed(self, job: Job, stages: str, pause_at: int) -> Run:
        """The job through changes of devices, with a worker that is killed at its start and a pause
        behind step `pause_at`."""
        with PrivateHead() as head:
            client = Client(head.endpoint)
            remote = job.submit(head.endpoint, stages=stages)
            view = self.wait_for(head, remote, lambda view: view["steps"] >= 2 and view["workers"]
                                 and all(worker["pid"] > 0 for worker in view["workers"]))
            os.kill(view["workers"][0]["pid"], signal.SIGKILL)
            self.wait_for(head, remote, lambda view: view["steps"] >= pause_at)
            client.pause(remote.id)
            self.assertEqual(client.describe(remote.id)["workers"], [])
            client.resume(remote.id)
            return remote.wait(progress=False)


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
