#!/usr/bin/env python3
"""Runs all parts of scripts/gpu_check in tiny sizes, on host threads in the place of a GPU: the programs and jobs
that it starts exist, take its options, and give equal bits.

  gpu_check_on_host_test.py SCRIPTS_DIR BUILD_DIR"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS, BUILD = map(Path, sys.argv[1:3])
del sys.argv[1:3]
# Parts for which the host has nothing to do.
FOR_GPUS = {"exact": "only on a GPU", "pytorch": "only beside a GPU", "small-pytorch": "only beside a GPU",
            "checkers": "not installed"}


class GpuCheckOnHostTest(unittest.TestCase):
    def test_every_part_passes(self):
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "result.json"
            ran = subprocess.run([SCRIPTS / "gpu_check", "run", "--build", BUILD, "--device", "cuda-host", "--quick",
                                  "--json", file, "--seconds", "1200"], capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            content = json.loads(file.read_text())
            table = subprocess.run([SCRIPTS / "gpu_check", "table", file], capture_output=True, text=True)
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertEqual(content["cut"], [])
        states = {part["part"]: part["state"] for part in content["parts"]}
        for name in ("operators", "models", "whole-steps", "steps", "kernels"):
            self.assertIn(name, states)
        self.assertEqual(states, {name: FOR_GPUS.get(name, "passed") for name in states})
        for name in ("commit", "version", "date", "device", "cpu", "libraries"):
            self.assertTrue(content[name], name)
        for part in content["parts"]:
            self.assertEqual(bool(part["rows"]), part["part"] not in FOR_GPUS, part)


if __name__ == "__main__":
    unittest.main()
