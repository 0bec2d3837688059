#!/usr/bin/env python3
"""Jobs from torch models, with programs that answer from files."""
import contextlib
import io
import os
import subprocess
import sys
import tomllib
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from support import HERE, FakeProgramsCase, FolderCase
from torch import nn

import easyscale as es
from easyscale.run import RemoteJob

X = np.random.default_rng(1).normal(size=(16, 4))
Y = np.arange(16) % 3


class Tied(nn.Module):
    """Two layers that share their weights, with a batch norm and a layer that is frozen."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.norm, self.last = nn.BatchNorm1d(4), nn.Linear(4, 3)
        self.last.bias.requires_grad_(False)

    def forward(self, x):
        return self.last(self.norm(self.second(self.first(x).relu())))


class Scaled(nn.Module):
    """A cross entropy with a temperature that is trained."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, outputs, labels):
        return nn.functional.cross_entropy(outputs * self.scale, labels)


def make_job(model=None, **changes):
    model = model or Tied()
    trained = [p for p in model.parameters() if p.requires_grad]
    options = {"loss": nn.CrossEntropyLoss(), "data": es.data.arrays(X, Y), "batch_size": 2,
               "max_p": 2, "steps": 2, "optimizer": torch.optim.SGD(trained, 0.1)}
    return es.Job(model, **(options | changes))


class Write(FakeProgramsCase):
    def toml(self, **changes):
        return tomllib.loads(make_job(**changes).toml("cpu-avx2:1@2"))

    def test_the_job_file(self):
        job = self.toml(name="my net", eval_every=5, clip_norm=1.0, seed=7, level="D1", threads=2)
        self.assertEqual(job["name"], "my-net")
        self.assertEqual((job["steps"], job["seed"], job["level"], job["eval_every"],
                          job["stages"]), (2, 7, "D1", 5, "cpu-avx2:1@2"))
        self.assertEqual(job["model"], {"file": "model.esmodel", "weights": "weights.safetensors"})
        self.assertEqual(job["data"], {"kind": "arrays", "path": "data"})
        self.assertEqual(job["optimizer"]["clip_norm"], 1.0)
        self.assertEqual(job["schedule"], {"kind": "constant", "warmup_steps": 0})
        self.assertEqual(job["resources"], {"threads": 2})
        self.assertEqual(job["checkpoint"]["every_steps"], 10**12)

    def test_groups_of_parameters(self):
        model = Tied()
        biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
        weights = [p for name, p in model.named_parameters() if not name.endswith("bias")]
        rule = torch.optim.SGD([{"params": weights, "weight_decay": 0.5}, {"params": biases}], 0.1)
        names = [name for name, p in model.named_parameters()
                 if name.endswith("bias") and p.requires_grad]  # a frozen one has no settings
        self.assertEqual(self.toml(model=model, optimizer=rule)["optimizer"]["groups"],
                         [{"parameters": names, "learning_rate_factor": 1.0, "weight_decay": 0.0}])
        plain = es.Optimizer(groups=[es.ParameterGroup(["*"], learning_rate_factor=2.0)])
        self.assertEqual(self.toml(optimizer=plain)["optimizer"]["groups"],
                         [{"parameters": ["*"], "learning_rate_factor": 2.0}])
        self.assertNotIn("groups", self.toml()["optimizer"])

    def test_epochs_are_steps_without_the_incomplete_last_one(self):
        data = es.data.arrays(X[:15], Y[:15])
        self.assertEqual(self.toml(steps=None, epochs=3, data=data)["steps"], 9)

    def test_the_folder_has_model_weights_and_samples(self):
        job = make_job(directory=self.folder / "job", eval_data=es.data.arrays(X[:4], Y[:4]))
        job.submit("ipc:///socket")
        files = {path.relative_to(self.folder / "job").as_posix()
                 for path in (self.folder / "job").rglob("*") if path.is_file()}
        self.assertEqual(files, {"job.toml", "model.esmodel", "weights.safetensors",
                                 "data/train/input.npy", "data/train/label.npy",
                                 "data/eval/input.npy", "data/eval/label.npy"})
        labels = np.load(self.folder / "job" / "data" / "train" / "label.npy")
        np.testing.assert_array_equal(labels, Y.astype(np.int32))

    def test_a_job_is_written_for_the_command_line(self):
        file = make_job(directory=self.folder / "job").write("cpu-avx2:1@1,cpu-avx2:2")
        self.assertEqual(file, self.folder / "job" / "job.toml")
        self.assertEqual(tomllib.loads(file.read_text())["stages"], "cpu-avx2:1@1,cpu-avx2:2@1")
        self.assertTrue((self.folder / "job" / "model.esmodel").exists())

    def test_named_arrays_go_to_the_arguments_with_their_names(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 3)

            def forward(self, left, right):
                return self.layer(left + right)

        job = make_job(Two(), data=es.data.arrays(right=X, left=X, classes=Y),
                       directory=self.folder / "job")
        job.submit()
        names = {path.stem for path in (self.folder / "job" / "data" / "train").iterdir()}
        self.assertEqual(names, {"left", "right", "label"})


    def inputs(self, model, **options):
        return {x.name for x in make_job(model, **options).captured.program.inputs}

    def test_a_model_that_returns_its_loss_gets_all_arrays(self):
        class WithLoss(nn.Linear):
            def forward(self, features, labels):
                logits = super().forward(features)
                return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

        self.assertEqual(self.inputs(WithLoss(4, 3), loss=None,
                                     data=es.data.arrays(labels=Y, features=X)),
                         {"features", "labels"})
        with self.assertRaisesRegex(es.UsageError, "no argument 'classes'"):
            make_job(WithLoss(4, 3), loss=None, data=es.data.arrays(features=X, classes=Y))

    def test_several_targets_are_a_dict(self):
        def loss(outputs, targets):
            error = (outputs[:, 0] - targets["size"]).abs().mean()
            return error + nn.functional.cross_entropy(outputs, targets["kind"])

        self.assertEqual(self.inputs(nn.Linear(4, 3), loss=loss,
                                     data=es.data.arrays(input=X, kind=Y, size=X[:, 0])),
                         {"input", "kind", "size"})

    def test_bytes_stay_bytes(self):
        class Pixels(nn.Linear):
            def forward(self, x):
                return super().forward(x.float() / 255)

        job = make_job(Pixels(4, 3), data=es.data.arrays(np.full((16, 4), 9, np.uint8), Y),
                       directory=self.folder / "job")
        job.submit()
        stored = np.load(self.folder / "job" / "data" / "train" / "input.npy")
        self.assertEqual(stored.dtype, np.uint8)


class Refused(FakeProgramsCase):
    def refuses(self, text, kind=es.UsageError, **changes):
        with self.assertRaisesRegex(kind, text):
            make_job(**changes)
        self.assertEqual(self.calls(), [])

    def test_settings(self):
        self.refuses("exactly one", steps=None)
        self.refuses("exactly one", epochs=1)
        self.refuses("at least 1", steps=0)
        self.refuses("max_p \\* batch_size = 20", batch_size=10)
        self.refuses("metric 'precision': allowed are loss, accuracy", metrics=["precision"])
        self.refuses("metric 'top0'", metrics=["top0"])
        self.refuses("metric: allowed for eval_data", metric=lambda outputs, labels: 1)
        for weights in (np.ones(15), np.ones((16, 1)), np.full(16, True)):
            self.refuses("sample_weights has the shape .* allowed are 16 numbers",
                         sample_weights=weights)
        for wrong in (-1.0, np.inf, np.nan):
            self.refuses("sample_weights: allowed are finite numbers",
                         sample_weights=np.r_[np.ones(15), wrong])
        self.refuses("not all 0", sample_weights=np.zeros(16))

    def test_groups_that_are_no_integers_are_refused(self):
        for groups in (np.zeros(15, int), np.zeros((16, 1), int), np.zeros(16)):
            self.refuses("sample_groups has the shape .* allowed are 16 integers",
                         sample_groups=groups)
        self.refuses("allowed is one of them", sample_groups=np.arange(16),
                     sample_weights=np.ones(16))
        self.refuses("groups of samples: allowed is at least", sample_groups=np.zeros(16, int))

    def test_data(self):
        self.refuses("there is one array", data=es.data.arrays(X))
        self.refuses("no array has the name", data=es.data.arrays(a=X, b=Y))
        self.refuses("eval_data has the arrays", eval_data=es.data.arrays(X[:, :2], Y))

    def test_a_model_that_cannot_be_captured(self):
        class Branches(nn.Linear):
            def forward(self, x):
                return super().forward(x) if x.sum() > 0 else x

        self.refuses(".", es.CaptureError, model=Branches(4, 3))

    def test_a_label_that_the_model_has_not_submits_nothing(self):
        self.refuses("fail on the first samples.*out of bounds", data=es.data.arrays(X, Y + 1))
        labels = Y.copy()
        labels[12] = 3
        job = make_job(data=es.data.arrays(X, labels), directory=self.folder / "job")
        with self.assertRaisesRegex(es.UsageError, "array 1: sample 12 has the value 3: allowed "):
            job.submit()
        self.assertNotIn("submit", [call[0] for call in self.calls()])
        self.assertFalse((self.folder / "job").exists())

    def test_an_optimizer_without_the_parameters_of_the_loss(self):
        self.refuses("not all parameters of the model and its loss.*1 are missing", loss=Scaled())

    def test_a_folder_that_is_not_empty(self):
        job = make_job(directory=self.folder)
        with self.assertRaisesRegex(es.RefusedError, "allowed is a new folder"):
            job.submit()

    def test_a_job_that_the_head_refuses_leaves_no_files(self):
        job = make_job(directory=self.folder / "job")
        self.refuse("submit", 4, "needs the role submit")
        with self.assertRaisesRegex(es.RefusedError, "needs the role"):
            job.submit()
        self.assertFalse((self.folder / "job").exists())
        self.refuse("submit", 1, "the answer was lost")
        with self.assertRaises(es.FailedError):
            job.submit()
        self.assertTrue((self.folder / "job").exists())  # the head may have the job

    def test_submit_needs_a_folder_and_a_head(self):
        with self.assertRaisesRegex(es.UsageError, "submit needs Job"):
            make_job().submit()
        self.refuse("nodes", 3, "no head")
        with self.assertRaisesRegex(es.NotFoundError, "no head"):
            make_job(directory=self.folder / "job").submit()
        self.assertFalse((self.folder / "job").exists())


class Samples(FakeProgramsCase):
    """Samples that PyTorch refuses in the middle of a training are refused before it."""

    def refuses(self, text, x=None, y=None, **options):
        model = nn.Linear(4, 3)
        x = torch.randn(64, 4) if x is None else x
        y = torch.arange(64) % 3 if y is None else y
        with self.assertRaisesRegex(es.UsageError, text):
            es.Job(model, loss=options.pop("loss", nn.CrossEntropyLoss()), data=es.data.arrays(x, y),
                   steps=1, batch_size=4, max_p=2, optimizer=es.Optimizer("sgd"), **options).run()

    def changed(self, tensor, value):
        tensor[20] = value
        return tensor

    def test_labels(self):
        y = torch.arange(64) % 3
        for label in (3, -1, -99):
            self.refuses(f"array 1: sample 20 has the value {label}: allowed is 0 to 2, and -100",
                         y=self.changed(y.clone(), label))
        self.refuses("sample 20 has the value 3: allowed is 0 to 2, and -100",
                     y=self.changed(y.clone(), 3),
                     loss=lambda outputs, labels: nn.functional.cross_entropy(
                         outputs, labels, reduction="none").mean())
        es.Job(nn.Linear(4, 3), loss=nn.CrossEntropyLoss(), steps=1, batch_size=4, max_p=2,
               data=es.data.arrays(torch.randn(64, 4), self.changed(y.clone(), -100)),
               optimizer=es.Optimizer("sgd")).write()

    def test_numbers_that_are_not_finite(self):
        self.refuses("array 0: sample 20 has the value nan: allowed is a finite number",
                     self.changed(torch.randn(64, 4), torch.nan))
        self.refuses("array 0: sample 0 has the value inf", torch.full((64, 4), torch.inf))

    def test_evaluation_samples_of_another_type(self):
        self.refuses("eval_data: array 1 has elements of the type float32: allowed is int64",
                     eval_data=es.data.arrays(torch.randn(8, 4), torch.zeros(8)))

    def test_stages(self):
        model = nn.Linear(4, 3)
        job = es.Job(model, loss=nn.CrossEntropyLoss(), batch_size=4, max_p=2, steps=5,
                     data=es.data.arrays(torch.randn(64, 4), torch.arange(64) % 3),
                     optimizer=es.Optimizer("sgd"))
        for options, text in (({"stages": "cpu-avx2:2@20,cpu-avx2:1"}, "has 20 steps before its last"),
                              ({"stages": 3}, "stages = 3: allowed is a text"),
                              ({"devices": ["cpu-avx2:1"]}, "devices = .*allowed is a text")):
            with self.assertRaisesRegex(es.UsageError, text):
                job.run(**options)


class Finished(FakeProgramsCase):
    def test_a_run_has_history_digests_and_weights(self):
        model = Tied()
        expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        run = make_job(model).run(stages="cpu-avx2:1")
        self.assertEqual([record.loss for record in run.history], [2.0, 1.0])
        self.assertEqual(run.history[1].evaluation["accuracy"], 0.5)
        self.assertEqual(run.params_digest, "0123456789abcdef" * 2)
        self.assertIn("finished", repr(run))
        self.assertTrue(run._repr_svg_().startswith("<svg"))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        run.load_into(model)
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(tensor, expected[name]), name)
        self.assertIs(model.first.weight, model.second.weight)
        np.testing.assert_array_equal(run.state_dict()["second.weight"],
                                      run.state_dict()["first.weight"])

    def test_weights_that_do_not_fit_change_nothing(self):
        run = make_job().run()
        for other, text in ((nn.Linear(4, 3), "no parameter 'weight'"), (Tied().double(), "type")):
            before = [p.clone() for p in other.parameters()]
            with self.assertRaisesRegex(es.UsageError, text):
                run.load_into(other)
            for parameter, was in zip(other.parameters(), before):
                self.assertTrue(torch.equal(parameter, was))

    def test_the_weights_go_into_the_tensors_themselves(self):
        class Compact(Tied):
            def state_dict(self, *arguments, **options):  # a copy, as to store it smaller
                return {name: tensor.clone() for name, tensor in
                        super().state_dict(*arguments, **options).items()}
        model = Compact()
        expected = model.first.weight.detach().clone()
        run = make_job(model).run()
        nn.init.zeros_(model.first.weight)
        run.load_into(model)
        self.assertTrue(torch.equal(model.first.weight, expected))

    def test_weights_go_into_modules_only(self):
        run = make_job().run()
        for arguments, text in (((None,), "module is None"), ((Tied,), "module is <class"),
                                ((Tied(), "mse"), "loss is 'mse'")):
            with self.assertRaisesRegex(es.UsageError, text):
                run.load_into(*arguments)

    def test_the_weights_of_a_loss_go_into_the_loss(self):
        model, loss, other = nn.Linear(4, 3), Scaled(), Scaled()
        with torch.no_grad():
            loss.scale.fill_(2.5)
        run = make_job(model, loss=loss,
                       optimizer=torch.optim.SGD([*model.parameters(), loss.scale], 0.1)).run()
        run.load_into(model)
        run.load_into(model, other)
        self.assertEqual(other.scale.item(), 2.5)
        with self.assertRaisesRegex(es.UsageError, "no tensor 'loss.scale'"):
            run.load_into(model, nn.CrossEntropyLoss())

    def test_a_job_runs_twice(self):
        job = make_job()
        job.run(stages="cpu-avx2:1")
        job.run(stages="cpu-avx2:2")
        submitted = [call for call in self.calls() if call[0] == "submit"]
        self.assertEqual(len(submitted), 2)
        # The engine checks the model once, and its file is written once.
        self.assertEqual(len([call for call in self.calls() if call[0] == "models"]), 2)

    def test_a_failed_job_raises_its_error(self):
        self.prepare("describe", '{"state": "failed", "error": "nan", "samples_per_s": null}')
        with self.assertRaisesRegex(es.FailedError, "job net-1: nan"):
            make_job().run()

    def test_ctrl_c_keeps_the_weights(self):
        written = {"path": "/ck", "version": 1, "params_digest": "aa", "state_digest": "bb"}
        with (mock.patch.object(RemoteJob, "wait", side_effect=KeyboardInterrupt),
              mock.patch.object(es.Client, "checkpoint", return_value=written)):
            job = make_job()
            with self.assertRaises(KeyboardInterrupt):
                job.run()
        self.assertEqual((job.interrupted.steps, len(job.interrupted.history)), (1, 1))
        self.assertEqual(job.interrupted.checkpoint, Path("/ck"))
        self.assertIn(["cancel", "net-1"], [call[:2] for call in self.calls()])

    def test_a_daemon_that_does_not_start(self):
        with mock.patch.dict(os.environ, {"FAKE_EASYSCALED_ERROR": "no devices"}):
            with self.assertRaisesRegex(es.FailedError, "before it was ready.*\n.*no devices"):
                make_job().run()

    def test_a_daemon_that_dies_is_noticed_at_once(self):
        with mock.patch.dict(os.environ, {"FAKE_EASYSCALED_DIES": "1"}):
            with self.assertRaisesRegex(es.FailedError, "easyscaled has ended: .*check failed"):
                make_job().run()

    def test_progress_is_shown_on_a_terminal_only(self):
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            make_job().run()
        self.assertEqual(out.getvalue(), "")
        out.isatty = lambda: True
        with contextlib.redirect_stderr(out):
            make_job().run()
        self.assertIn("step 2/2 [####################] loss 1.0000", out.getvalue())


class Import(FolderCase):
    def test_torch_is_not_imported_with_the_package(self):
        code = "import easyscale, sys; easyscale.Client(); sys.exit('torch' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True, cwd=HERE.parent)

    def test_capture_is_the_function_and_another_name_is_an_error(self):
        from easyscale.tracing import capture
        self.assertIs(es.capture, capture)
        with self.assertRaisesRegex(AttributeError, "captures"):
            es.captures


if __name__ == "__main__":
    unittest.main()
