#!/usr/bin/env python3
"""Samples from token files: their windows, the job, and training beside PyTorch."""
import importlib.util
import struct
import tomllib
import unittest
from pathlib import Path

import numpy as np
import torch
from support import FolderCase, offered_types, programs_train_model_files
from torch import nn

import easyscale as es

ROOT = Path(__file__).resolve().parent.parent.parent
SHAKESPEARE = ROOT.parent / "shared/data/tinyshakespeare/input.txt"
LENGTH, WINDOWS, STEPS, MAX_P = 16, 16, 6, 4


class Decoder(nn.Module):
    """A language model of one block."""

    def __init__(self, vocabulary, width=32, heads=4):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(LENGTH, width)
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.head, self.heads = nn.Linear(width, vocabulary), heads

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(LENGTH))
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.norm(x)).chunk(3, 2))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(self.last(x + self.out(seen.transpose(1, 2).flatten(2))))


class Documents(Decoder):
    """The same within documents."""

    def forward(self, input_ids, position_ids, segment_ids):
        x = self.token(input_ids) + self.place(position_ids)
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.norm(x)).chunk(3, 2))
        causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        same = segment_ids[:, None, :, None] == segment_ids[:, None, None, :]
        seen = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=same & causal)
        return self.head(self.last(x + self.out(seen.transpose(1, 2).flatten(2))))


def loss_of(logits, labels):
    """The mean over all tokens."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def write(file, tokens, descr="<u2"):
    file.parent.mkdir(parents=True, exist_ok=True)
    np.asarray(tokens, descr).tofile(file)


class Windows(FolderCase):
    def test_windows_of_raw_files_and_their_labels(self):
        write(self.folder / "train.bin", range(21))
        data = es.data.tokens(self.folder, length=4)
        self.assertEqual(data.samples, 5)
        head = data.head(2)
        np.testing.assert_array_equal(head[0], [[0, 1, 2, 3], [4, 5, 6, 7]])
        np.testing.assert_array_equal(head[1], [[1, 2, 3, 4], [5, 6, 7, 8]])
        write(self.folder / "train.bin", range(20))
        self.assertEqual(es.data.tokens(self.folder, length=4).samples, 4)
        same = es.data.tokens(self.folder, length=4, shifted=False)
        self.assertEqual(same.samples, 5)
        np.testing.assert_array_equal(same.head(1)["labels"], same.head(1)["input_ids"])

    def test_shards_of_every_form_in_the_order_of_their_names(self):
        train = self.folder / "train"
        write(train / "0.bin", [7] * 9)
        for name, mark, version, descr in (("1.bin", 20240520, 1, "<u2"),
                                           ("2.bin", 20240801, 7, "<u4")):
            header = struct.pack("<3i", mark, version, 5) + bytes(253 * 4)
            (train / name).write_bytes(header + np.arange(5, dtype=descr).tobytes())
        np.save(train / "3.npy", np.arange(30, 35))
        write(train / "4.bin", [])
        (train / "notes.txt").write_text("no tokens")
        data = es.data.tokens(self.folder, length=4)
        np.testing.assert_array_equal(data.head(9)[1], [[7] * 4, [7] * 4, [1, 2, 3, 4],
                                                        [1, 2, 3, 4], [31, 32, 33, 34]])

    def test_documents_have_positions_and_segments_of_their_own(self):
        write(self.folder / "train.bin", [5, 9, 6, 7, 9, 9, 8, 4, 3])
        head = es.data.tokens(self.folder, length=8, document_end=9).head(1)
        expected = {"input_ids": [5, 9, 6, 7, 9, 9, 8, 4],
                    "labels": [9, -100, 7, 9, -100, -100, 4, 3],
                    "position_ids": [0, 1, 0, 1, 2, 0, 0, 1],
                    "segment_ids": [0, 0, 1, 1, 1, 2, 3, 3]}
        self.assertEqual(list(head), list(expected))
        for name, row in expected.items():
            np.testing.assert_array_equal(head[name], [row], err_msg=name)
        same = es.data.tokens(self.folder, length=8, document_end=9, shifted=False,
                              names=("x", "y")).head(1)
        np.testing.assert_array_equal(same["y"], [[5, 9, -100, 7, 9, -100, -100, 4]])

    def test_what_is_wrong_is_named(self):
        def refuses(text, **changes):
            with self.assertRaisesRegex(es.UsageError, text):
                es.data.tokens(self.folder, **{"length": 4, **changes})
        refuses("has no tokens: allowed is a folder with train")
        write(self.folder / "train.bin", range(4))
        refuses("no file for the training has 5 tokens")
        (self.folder / "train").mkdir()
        file = self.folder / "train/0.npy"
        file.write_bytes(b"no array")
        refuses(f"{file} is no NumPy array")
        np.save(file, np.zeros((3, 3)))
        refuses("has the shape \\(3, 3\\) and elements of the type float64")
        refuses("token_type = 'int8': allowed is 'uint16' or 'uint32'", token_type="int8")
        refuses("length = 0: allowed is at least 1", length=0)


class JobFile(FolderCase):
    def setUp(self):
        super().setUp()
        write(self.folder / "train.bin", np.arange(LENGTH * WINDOWS + 1) % 50)

    def job(self, **changes):
        settings = {"loss": loss_of, "data": es.data.tokens(self.folder, LENGTH), "batch_size": 4,
                    "max_p": MAX_P, "steps": 1, "optimizer": es.Optimizer("sgd"), **changes}
        return es.Job(Decoder(50), **settings)

    def test_the_job_names_the_files(self):
        table = tomllib.loads(self.job().toml())["data"]
        self.assertEqual(table, {"kind": "tokens", "path": str(self.folder.resolve()),
                                 "length": LENGTH, "token_type": "uint16", "shifted": True})

    def test_labels_that_the_engine_would_take_for_tokens_are_refused(self):
        data = es.data.tokens(self.folder, LENGTH, names=("x", "y"))
        data.check_inputs(["x", "y"], {"x": "x", "y": "y"})
        data.check_inputs(["labels", "x"], {"x": "x", "labels": "y"})
        for inputs in (["y", "x"], ["x"], ["x", "y", "z"]):
            with self.assertRaisesRegex(es.UsageError, "the model has the inputs " + inputs[0]):
                data.check_inputs(inputs, {name: name for name in inputs})

    def test_other_evaluation_data_are_refused(self):
        with self.assertRaisesRegex(es.UsageError, "eval_data: allowed is none with token files"):
            self.job(eval_data=es.data.tokens(self.folder, LENGTH))


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Train(FolderCase):
    """The training windows are one global batch, so their order does not matter."""

    def check_losses(self, model, loss, data, example_loss, stages=None):
        """Compares the losses with those of PyTorch, whose loss is example_loss(model)."""
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        job = es.Job(model, loss=loss, data=data, batch_size=WINDOWS // MAX_P, max_p=MAX_P,
                     steps=STEPS, optimizer=optimizer)
        run = job.run(stages=stages, devices=None if stages else offered_types()[0] + ":1")
        expected = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            value = example_loss(model)
            value.backward()
            optimizer.step()
            expected.append(value.item())
        np.testing.assert_allclose([line.loss for line in run.history], expected, rtol=1e-4)
        return run

    @unittest.skipUnless(SHAKESPEARE.is_file(), f"there is no {SHAKESPEARE}")
    def test_characters_of_shakespeare(self):
        text = SHAKESPEARE.read_text()
        characters = sorted(set(text))
        ids = np.array([characters.index(c) for c in text[:3000]])
        write(self.folder / "train.bin", ids[:LENGTH * WINDOWS + 1])
        write(self.folder / "val.bin", ids[1000:])
        x = torch.from_numpy(ids[:LENGTH * WINDOWS]).view(WINDOWS, LENGTH)
        y = torch.from_numpy(ids[1:LENGTH * WINDOWS + 1]).view(WINDOWS, LENGTH)
        fast, other = offered_types()
        torch.manual_seed(3)
        model = Decoder(len(characters))
        run = self.check_losses(model, loss_of,
                                es.data.tokens(self.folder, length=LENGTH),
                                lambda model: loss_of(model(x), y), f"{fast}:2@3,{other}:1")
        self.assertLess(run.history[-1].loss, run.history[0].loss)
        windows = (2000 - 1) // LENGTH
        x, y = (torch.from_numpy(ids[begin:begin + windows * LENGTH]).view(windows, LENGTH)
                for begin in (1000, 1001))
        self.assertEqual(run.evaluations[-1]["total"], windows)
        np.testing.assert_allclose(run.evaluations[-1]["mean_loss"], loss_of(model(x), y).item(),
                                   rtol=1e-4)

    def test_documents_that_do_not_attend_to_each_other(self):
        ids = np.random.default_rng(6).integers(0, 40, LENGTH * WINDOWS + 1)
        ids[::5] = 7
        for part in ("train", "val"):
            write(self.folder / f"{part}.bin", ids)
        data = es.data.tokens(self.folder, LENGTH, document_end=7)
        torch.manual_seed(4)
        model = Documents(40)
        batch = {name: torch.from_numpy(array.astype(np.int64))
                 for name, array in data.head(WINDOWS).items()}
        labels = batch.pop("labels")
        self.assertTrue((labels == -100).any())
        # The losses of one EST are the means over its own labels.
        fast, other = offered_types()
        job = es.Job(model, loss=loss_of, data=data, batch_size=WINDOWS, max_p=1, steps=STEPS,
                     optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2))
        run = job.run(stages=f"{fast}:1@3,{other}:1", progress=False)
        self.assertEqual(run.params_digest, job.run(f"{other}:1", progress=False).params_digest)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        expected = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            value = loss_of(model(**batch), labels)
            value.backward()
            optimizer.step()
            expected.append(value.item())
        np.testing.assert_allclose([line.loss for line in run.history], expected, rtol=1e-4)
        np.testing.assert_allclose(run.evaluations[-1]["mean_loss"],
                                   loss_of(model(**batch), labels).item(), rtol=1e-4)
        with self.assertRaisesRegex(es.UsageError, 'without the input "segment_ids"'):
            refused = self.folder / "refused"
            plain = es.Job(Decoder(40), loss=loss_of, data=es.data.tokens(self.folder, LENGTH),
                           batch_size=4, max_p=1, steps=1, optimizer=es.Optimizer("sgd"),
                           directory=refused)
            file = plain.write()
            file.write_text(file.read_text().replace("[data]", "[data]\ndocument_end = 7"))
            es.programs.run_json(["run", str(file), "--quiet"])

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "there is no transformers")
    def test_a_causal_model_of_transformers_shifts_the_labels_itself(self):
        from transformers import GPT2Config, GPT2LMHeadModel
        ids = np.random.default_rng(4).integers(0, 40, LENGTH * WINDOWS)
        write(self.folder / "train.bin", ids)
        x = torch.from_numpy(ids).view(WINDOWS, LENGTH)
        torch.manual_seed(5)
        model = GPT2LMHeadModel(GPT2Config(
            vocab_size=40, n_positions=LENGTH, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False))
        self.check_losses(model, None, es.data.tokens(self.folder, LENGTH, shifted=False),
                          lambda model: model(input_ids=x, labels=x).loss)

    def test_a_token_that_the_model_does_not_have_is_refused(self):
        def job():
            return es.Job(Decoder(50), loss=loss_of, data=es.data.tokens(self.folder, LENGTH),
                          batch_size=4, max_p=MAX_P, steps=1, optimizer=es.Optimizer("sgd"))
        tokens = np.arange(LENGTH * WINDOWS + 1)
        write(self.folder / "train.bin", tokens)
        with self.assertRaisesRegex(es.UsageError, "index out of range"):
            job()
        # A token that the capture has not seen is found when the job is submitted.
        write(self.folder / "train.bin", tokens % 50)
        captured = job()
        write(self.folder / "train.bin", tokens)
        with self.assertRaisesRegex(es.UsageError, "train.bin: token [0-9]+ is not as it must be: "
                                                   "allowed is 0 to 49"):
            captured.run(devices=offered_types()[0] + ":1", progress=False)


if __name__ == "__main__":
    unittest.main()
