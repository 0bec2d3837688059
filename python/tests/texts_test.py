#!/usr/bin/env python3
"""Texts that become token files: what is encoded, what is used again, and what a job gets."""
import json
import sys
import tomllib
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from support import FakeProgramsCase, FolderCase, offered_types, programs_train_model_files
from torch import nn

import easyscale as es
from easyscale.data import text_samples
from easyscale.folders import TemporaryFolder

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tests/e2e"))
from tokenizer_files import byte_level_tokenizer

LENGTH, VOCABULARY = 8, 261
TEXT = "the cat sat on the mat.\n" * 40


class Words(nn.Module):
    """Predicts the next token from the last one."""

    def __init__(self):
        super().__init__()
        self.token, self.head = nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY)

    def forward(self, ids):
        return self.head(self.token(ids))


def loss_of(logits, labels):
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class TextsCase(FolderCase):
    """A text and a tokenizer; the test may replace the program with `encode`."""

    def setUp(self):
        super().setUp()
        self.text, self.tokenizer = self.folder / "book.txt", self.folder / "tokenizer.json"
        self.text.write_text(TEXT)
        self.tokenizer.write_text(json.dumps(byte_level_tokenizer()))
        self.encoded = []

    def encode(self, arguments):
        """Stands for `esctl data tokenize`: a token for every byte."""
        self.encoded.append(arguments)
        out = Path(arguments[arguments.index("--out") + 1])
        (out / "train").mkdir(parents=True)
        np.frombuffer(self.text.read_bytes(), np.uint8).astype("<u2").tofile(out / "train/0.bin")
        return {}

    def texts(self, **settings):
        with mock.patch.object(text_samples, "run_json", self.encode):
            return es.data.texts(self.text, self.tokenizer, LENGTH, **settings)


class Encode(TextsCase):
    def test_the_program_gets_the_settings(self):
        data = self.texts(eval_share=0.25, field="body", append_token="<|end|>")
        arguments, = self.encoded
        self.assertEqual(arguments[:3], ["data", "tokenize", str(self.text.resolve())])
        words = dict(zip(arguments[3::2], arguments[4::2]))
        words.pop("--out")
        self.assertEqual(words, {"--tokenizer": str(self.tokenizer.resolve()), "--eval-share": "0.25",
                                 "--field": "body", "--append-token": "<|end|>"})
        np.testing.assert_array_equal(data.head(1)[0][0], list(TEXT[:LENGTH].encode()))
        np.testing.assert_array_equal(data.head(1)[1][0], list(TEXT[1:LENGTH + 1].encode()))

    def test_a_folder_is_used_again_for_the_same_texts(self):
        place = self.folder / "tokens"
        self.texts(folder=place)
        moved = self.folder / "moved.txt"
        self.text.rename(moved)
        self.text = moved
        self.assertEqual(self.texts(folder=place).samples, (len(TEXT) - 1) // LENGTH)
        self.assertEqual(len(self.encoded), 1)

    def test_a_folder_of_other_texts_is_refused(self):
        place = self.folder / "tokens"
        self.texts(folder=place)

        def refused(text, **settings):
            with self.assertRaisesRegex(es.RefusedError, text):
                self.texts(folder=place, **settings)
        refused("its token files were made with other eval_share", eval_share=0.5)
        refused("other field, append_token", field="body", append_token="x")
        self.text.write_text(TEXT + "!")
        refused("other texts: allowed are the same")
        self.text.write_text(TEXT)
        self.tokenizer.write_text("{}")
        refused("other tokenizer")
        (place / "texts.json").unlink()
        refused("exists and has no texts.json: allowed is a new folder")

    def test_nothing_is_left_when_the_program_fails(self):
        self.tokenizer.write_text("{}")
        failing = mock.Mock(side_effect=es.UsageError("no tokenizer"))
        with mock.patch.object(text_samples, "run_json", failing):
            with self.assertRaisesRegex(es.UsageError, "no tokenizer"):
                es.data.texts(self.text, self.tokenizer, LENGTH, folder=self.folder / "tokens")
        self.assertEqual(sorted(x.name for x in self.folder.iterdir()), ["book.txt", "tokenizer.json"])

    def test_what_is_missing_is_named(self):
        with self.assertRaisesRegex(es.UsageError, "none.txt cannot be read: No such file"):
            es.data.texts(self.folder / "none.txt", self.tokenizer, LENGTH)
        with self.assertRaisesRegex(es.UsageError, "paths is empty: allowed is at least one file"):
            es.data.texts([], self.tokenizer, LENGTH)


class JobFiles(FakeProgramsCase, TextsCase):
    def job(self, data, name):
        return es.Job(Words(), loss=loss_of, data=data, batch_size=1, max_p=1, steps=1,
                      optimizer=es.Optimizer("sgd"), directory=self.folder / name)

    def test_the_job_gets_the_files_of_a_temporary_folder(self):
        data = self.texts()
        self.assertIsInstance(data.holder, TemporaryFolder)
        for name in ("one", "two"):  # the data serve several jobs
            table = tomllib.loads(self.job(data, name).write().read_text())["data"]
            self.assertEqual(table, {"kind": "tokens", "path": "data", "length": LENGTH,
                                     "token_type": "uint16", "shifted": True})
        data.holder.remove()
        self.assertEqual(np.fromfile(self.folder / "two/data/train/0.bin", "<u2").tolist(),
                         list(TEXT.encode()))

    def test_the_job_names_a_folder_that_stays(self):
        data = self.texts(folder=self.folder / "tokens")
        table = tomllib.loads(self.job(data, "job").write().read_text())["data"]
        self.assertEqual(table["path"], str((self.folder / "tokens").resolve()))
        self.assertFalse((self.folder / "job/data").exists())


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Train(TextsCase):
    def test_a_model_learns_a_text(self):
        fast, other = offered_types()
        data = es.data.texts([self.text, self.text], self.tokenizer, LENGTH, eval_share=0.2)
        digests = set()
        for stages in (f"{fast}:2@4,{other}:1", f"{other}:1"):
            torch.manual_seed(1)
            job = es.Job(Words(), loss=loss_of, data=data, batch_size=2, max_p=4, steps=20,
                         optimizer=es.Optimizer("adamw", learning_rate=0.05))
            run = job.run(stages=stages, progress=False)
            digests.add((run.params_digest, run.state_digest))
            self.assertLess(run.history[-1].loss, run.history[0].loss / 2)
            self.assertGreater(run.evaluations[-1]["total"], 0)
        self.assertEqual(len(digests), 1)


if __name__ == "__main__":
    unittest.main()
