#!/usr/bin/env python3
"""Runs the examples in the docstrings of the package, and checks its types with mypy."""
import doctest
import pkgutil
import subprocess
import sys
import unittest
from importlib import import_module
from importlib.util import find_spec

from support import HERE, FolderCase

import easyscale

ROOT = HERE.parents[1]


class Examples(unittest.TestCase):
    def left_out(self, module):
        """Only the part that reads ONNX files may lack what it needs."""
        self.assertEqual(module, "easyscale.onnx")
        print(f"skipped: the examples of {module}, because the package onnx is not installed")

    def test_the_examples_in_docstrings(self):
        tried = 0
        for module in pkgutil.walk_packages(easyscale.__path__, "easyscale.", onerror=self.left_out):
            if module.name.startswith("easyscale.onnx") and not find_spec("onnx"):
                continue
            result = doctest.testmod(import_module(module.name))
            self.assertEqual(result.failed, 0, module.name)
            tried += result.attempted
        self.assertGreater(tried, 2)


@unittest.skipUnless(find_spec("mypy"), "there is no mypy: scripts/setup_pytorch")
class Types(FolderCase):
    def test_mypy_finds_nothing(self):
        """What is checked, and how strictly, is in pyproject.toml."""
        words = [sys.executable, "-m", "mypy", "--cache-dir", str(self.folder)]
        found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)


if __name__ == "__main__":
    unittest.main()
