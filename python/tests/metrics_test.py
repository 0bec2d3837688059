#!/usr/bin/env python3
"""Metrics that a job names, beside their definitions in NumPy, and weighted samples."""
import tomllib
import unittest

import numpy as np
import torch
import torch.nn.functional as F
from support import FolderCase, offered_types, programs_train_model_files
from torch import nn

import easyscale as es

BATCH, MAX_P, EVALUATED, WIDTH = 4, 2, 61, 6


def roc_area(scores, positive):
    """The share of the pairs with the higher score at the positive row; equal scores count half."""
    pairs = scores[positive][:, None] - scores[~positive][None, :]
    return (np.count_nonzero(pairs > 0) + np.count_nonzero(pairs == 0) / 2) / pairs.size


def precision_area(scores, positive):
    """The sum over thresholds of the growth of the recall times the precision."""
    area, recall = 0.0, 0.0
    for threshold in np.unique(scores)[::-1]:
        chosen = scores >= threshold
        hits = np.count_nonzero(chosen & positive)
        area += (hits / positive.sum() - recall) * hits / chosen.sum()
        recall = hits / positive.sum()
    return area


def f1_of(predicted, true):
    both = np.count_nonzero(predicted) + np.count_nonzero(true)
    return 2 * np.count_nonzero(predicted & true) / both if both else 0.0


def class_metrics(logits, labels):
    """logits [rows, classes], labels [rows]."""
    classes = logits.shape[1]
    order = np.argsort(-logits, axis=1, kind="stable")
    ranks = (order == labels[:, None]).argmax(1)
    predicted = order[:, 0]
    wide = logits.astype(np.float64)
    shares = np.exp(wide - wide.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    columns = [1] if classes == 2 else range(classes)
    occurring = [c for c in range(classes) if (labels == c).any() or (predicted == c).any()]
    found = {"accuracy": np.mean(ranks < 1), "top2": np.mean(ranks < 2),
             "f1": np.mean([f1_of(predicted == c, labels == c) for c in occurring]),
             "auc": np.mean([roc_area(shares[:, c], labels == c) for c in columns]),
             "map": np.mean([precision_area(shares[:, c], labels == c) for c in columns])}
    if classes == 2:
        found["f1_binary"] = f1_of(predicted == 1, labels == 1)
    return found


def decision_metrics(scores, targets, threshold=0.0):
    """scores and targets [samples, columns]."""
    chosen, true = scores > threshold, targets > 0.5
    columns = range(scores.shape[1])
    return {"accuracy": np.mean(chosen == true),
            "f1": np.mean([f1_of(chosen[:, c], true[:, c]) for c in columns]),
            "auc": np.mean([roc_area(scores[:, c], true[:, c]) for c in columns]),
            "map": np.mean([precision_area(scores[:, c], true[:, c]) for c in columns])}


class Net(nn.Module):
    def __init__(self, outputs, last=None):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, outputs),
                                    *([last] if last else []))

    def forward(self, x):
        return self.layers(x)


def inputs(seed, count, *shape):
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, *shape, WIDTH)).astype(np.float32)
    return random, x


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Metrics(FolderCase):
    def run_job(self, model, loss, data, evaluated, metrics, **settings):
        """The runs on two placements; every number of their evaluations is the same."""
        fast, other = offered_types()
        settings = {"batch_size": BATCH, "max_p": MAX_P, "steps": 4, "eval_every": 2} | settings
        job = es.Job(model, loss=loss, data=data, eval_data=evaluated, metrics=metrics,
                     optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **settings)
        runs = [job.run(stages=stages, progress=False)
                for stages in (f"{fast}:2@1,{other}:1", f"{other}:1@3,{fast}:1")]
        self.assertEqual(runs[0].evaluations, runs[1].evaluations)
        self.assertEqual([entry["version"] for entry in runs[0].evaluations], [2, 4])
        self.assertEqual(runs[0].history[1].evaluation, runs[0].evaluations[0])
        runs[0].load_into(model)
        return runs[0].evaluations[-1]

    def check(self, entry, expected):
        for name, value in expected.items():
            # The outputs of the engine and of PyTorch differ in their last bits.
            np.testing.assert_allclose(entry[name], value, rtol=1e-4, atol=1e-7, err_msg=name)
        self.assertEqual(entry["metric"], next(iter(expected)))

    def test_classes(self):
        for classes in (2, 5):
            with self.subTest(classes=classes):
                torch.manual_seed(classes)
                model = Net(classes)
                random, x = inputs(1, EVALUATED)
                y = random.integers(0, classes, EVALUATED)
                names = ["accuracy", "top2", "f1", "auc", "map"]
                names += ["f1_binary"] if classes == 2 else []
                entry = self.run_job(model, nn.CrossEntropyLoss(), es.data.arrays(x, y),
                                     es.data.arrays(x, y), names)
                self.check(entry, class_metrics(model(torch.from_numpy(x)).detach().numpy(), y))

    def test_labels_of_tokens_of_which_some_are_ignored(self):
        torch.manual_seed(4)
        model = Net(5)
        random, x = inputs(2, EVALUATED, 3)
        y = random.integers(0, 5, (EVALUATED, 3))
        y[random.random(y.shape) < 0.3] = -100
        loss = lambda logits, labels: F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        entry = self.run_job(model, loss, es.data.arrays(x, y), es.data.arrays(x, y),
                             ["f1", "accuracy"])
        logits = model(torch.from_numpy(x)).detach().numpy()
        expected = class_metrics(logits[y >= 0], y[y >= 0])
        self.check(entry, {name: expected[name] for name in ("f1", "accuracy")})

    def test_decisions(self):
        for columns, last, loss, threshold in ((1, None, nn.BCEWithLogitsLoss(), 0.0),
                                               (3, nn.Sigmoid(), nn.BCELoss(), 0.5)):
            with self.subTest(columns=columns):
                torch.manual_seed(columns)
                model = Net(columns, last)
                random, x = inputs(3, EVALUATED)
                y = (random.random((EVALUATED, columns)) < 0.4).astype(np.float32)
                entry = self.run_job(model, loss, es.data.arrays(x, y), es.data.arrays(x, y),
                                     ["auc", "map", "f1", "accuracy"])
                scores = model(torch.from_numpy(x)).detach().numpy()
                expected = decision_metrics(scores, y, threshold)
                self.check(entry, {name: expected[name] for name in ("auc", "map", "f1", "accuracy")})

    def test_numbers(self):
        torch.manual_seed(3)
        model = Net(2)
        random, x = inputs(4, EVALUATED)
        y = random.normal(size=(EVALUATED, 2)).astype(np.float32)
        entry = self.run_job(model, nn.MSELoss(), es.data.arrays(x, y), es.data.arrays(x, y),
                             ["mae", "mse"])
        away = model(torch.from_numpy(x)).detach().numpy().astype(np.float64) - y
        self.check(entry, {"mae": np.abs(away).mean(), "mse": (away ** 2).mean()})
        np.testing.assert_allclose(entry["mse"], entry["mean_loss"], rtol=1e-5)

    def test_a_metric_that_does_not_fit_is_refused(self):
        _, x = inputs(5, 8)
        job = es.Job(Net(2), loss=nn.MSELoss(), data=es.data.arrays(x, np.zeros((8, 2))),
                     metrics=["accuracy"], batch_size=BATCH, max_p=MAX_P, steps=1,
                     optimizer=es.Optimizer("sgd"))
        with self.assertRaisesRegex(es.UsageError, 'metrics = "accuracy": allowed is a metric of '
                                                   "this model; this one is for a model that"):
            job.run(progress=False)

    def test_a_function_of_outputs_and_labels(self):
        seen = []

        def spread(outputs, labels):
            seen.append((outputs, np.array(labels)))
            return {"spread": outputs.max() - outputs.min(), "rows": len(labels)}

        torch.manual_seed(8)
        model = Net(3)
        random, x = inputs(6, EVALUATED)
        y = random.integers(0, 3, EVALUATED)
        entry = self.run_job(model, nn.CrossEntropyLoss(), es.data.arrays(x, y),
                             es.data.arrays(x, y), ["accuracy"], metric=spread)
        outputs, labels = seen[-1]
        np.testing.assert_array_equal(labels, y)
        expected = model(torch.from_numpy(x)).detach().numpy()
        np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-6)
        self.assertEqual(entry["rows"], EVALUATED)
        self.assertEqual(entry["spread"], float(outputs.max() - outputs.min()))
        self.assertEqual(entry["accuracy"], np.mean(outputs.argmax(1) == y))

    def test_a_function_that_returns_no_number_is_refused(self):
        _, x = inputs(7, 8)
        y = np.zeros(8, int)
        model = Net(3)
        job = es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(x, y),
                     eval_data=es.data.arrays(x, y), metric=lambda outputs, labels: "good",
                     batch_size=BATCH, max_p=MAX_P, steps=1, optimizer=es.Optimizer("sgd"))
        with self.assertRaisesRegex(es.UsageError, "allowed is a number"):
            job.run(progress=False)


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Weights(FolderCase):
    def job(self, weights, **settings):
        random, x = inputs(9, 40)
        x[:20] = x[:1]  # the samples with a weight are all one sample
        y = np.r_[np.zeros(20, int), np.ones(20, int)]
        torch.manual_seed(5)
        model = Net(2)
        return es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(x, y),
                      batch_size=BATCH, max_p=MAX_P, steps=8, sample_weights=weights,
                      optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                      directory=self.folder / "job", **settings)

    def test_samples_without_a_weight_are_never_drawn(self):
        fast, other = offered_types()
        job = self.job(np.r_[np.full(20, 0.5), np.zeros(20)])
        runs = [job.run(stages=stages, progress=False)
                for stages in (f"{fast}:2@3,{other}:1", f"{other}:1")]
        self.assertEqual(runs[0].params_digest, runs[1].params_digest)
        # Every EST sees one sample again and again, so their losses are equal.
        for line in runs[0].history:
            self.assertEqual(line.est_losses[0], line.est_losses[1])
        table = tomllib.loads((self.folder / "job/job.toml").read_text())
        self.assertEqual(table["data"]["weights"], "sample_weights.npy")

    def test_an_epoch_has_one_sample_of_each_group(self):
        fast, other = offered_types()
        # 8 groups of 5 equal samples, so a step of 8 samples has the same ones in every epoch.
        random, x = inputs(9, 40)
        keys = np.repeat(np.arange(8), 5) * 3 - 7
        x = x[np.repeat(np.arange(8), 5)]
        y = np.repeat(np.arange(8) % 2, 5)
        torch.manual_seed(5)
        model = Net(2)
        job = es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(x, y), batch_size=4,
                     max_p=2, epochs=3, sample_groups=keys,
                     optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
                     directory=self.folder / "groups")
        self.assertEqual(job.steps, 3)
        runs = [job.run(stages=stages, progress=False)
                for stages in (f"{fast}:2@1,{other}:1", f"{other}:1")]
        self.assertEqual(runs[0].params_digest, runs[1].params_digest)
        with torch.no_grad():
            expected = nn.functional.cross_entropy(model(torch.from_numpy(x[::5])),
                                                   torch.from_numpy(y[::5])).item()
        for line in runs[0].history:
            self.assertAlmostEqual(line.loss, expected, places=5)

    def test_weights_for_other_samples_are_refused(self):
        job = self.job(np.ones(40, int))
        file = job.write().parent / "sample_weights.npy"
        np.save(file, np.ones(39))
        with self.assertRaisesRegex(es.UsageError, "number of weights = 39: allowed is 40"):
            job.run(progress=False)


if __name__ == "__main__":
    unittest.main()
