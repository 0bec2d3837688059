#!/usr/bin/env python3
"""What evaluations decide, beside loops of PyTorch.

All training samples are one global batch, so their order in it does not matter.
"""
import copy
import unittest

import numpy as np
import torch
from support import FolderCase, offered_types, programs_train_model_files
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR
from torch_training import listed
from updates_support import Lion

import easyscale as es

SAMPLES, EVALUATED, STEPS, EVERY, MAX_P = 32, 20, 50, 2, 4
CLASSES = 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last = nn.Linear(6, 16), nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def labelled(seed, count):
    """Labels that follow from the inputs, but for some noise, so that a net overfits."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, 6)).astype(np.float32)
    noise = random.normal(size=(count, CLASSES))
    return x, (x[:, :CLASSES] + noise).argmax(1)


TRAINED, TESTED = labelled(1, SAMPLES), labelled(2, EVALUATED)


def torch_run(model, optimizer, scheduler=None, patience=None, by_accuracy=False):
    """The losses before each step, the learning rates of each step, and the evaluations, of a loop that
    evaluates after every EVERY steps. `patience`: it ends after this number of evaluations without a
    better loss. `optimizer` may be a list; the rates are those of the first one."""
    optimizer, *others = listed(optimizer)
    x, y = map(torch.from_numpy, TRAINED)
    losses, rates, tested = [], [], {}
    least, bad = float("inf"), 0
    for step in range(1, STEPS + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        for each in (optimizer, *others):
            each.step()
        losses.append(loss.item())
        if step % EVERY:
            continue
        with torch.no_grad():
            outputs = model(torch.from_numpy(TESTED[0]))
            target = torch.from_numpy(TESTED[1])
            value = nn.functional.cross_entropy(outputs.double(), target).item()
            accuracy = (outputs.argmax(1) == target).double().mean().item()
        tested[step] = (value, accuracy)
        if scheduler is not None:
            scheduler.step(accuracy if by_accuracy else value)
        bad = 0 if value < least else bad + 1
        least = min(least, value)
        if patience is not None and bad >= patience:
            break
    return losses, [*rates, optimizer.param_groups[0]["lr"]], tested


def job(model, optimizer, **settings):
    return es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(*TRAINED),
                  eval_data=es.data.arrays(*TESTED), batch_size=SAMPLES // MAX_P, max_p=MAX_P,
                  steps=STEPS, eval_every=EVERY, optimizer=optimizer, **settings)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=1.5, momentum=0.5)


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Beside(FolderCase):
    """The same losses and learning rates as in torch, on two placements with equal bits."""

    def runs(self, made):
        fast, other = offered_types()
        first, second = (made.run(stages=stages, progress=False)
                         for stages in (f"{fast}:2@7,{fast}:1+{other}:1", f"{other}:1"))
        self.assertEqual(first.params_digest, second.params_digest)
        self.assertEqual(first.view["decisions"], {**second.view["decisions"], "best":
                                                   first.view["decisions"]["best"]})
        return first

    def compare(self, make, settings, by_accuracy=False, **metrics):
        model = Net()
        optimizer = make(model)
        made = job(model, optimizer, schedule=ReduceLROnPlateau(listed(optimizer)[0], **settings), **metrics)
        twin = copy.deepcopy(model)
        own = make(twin)
        losses, rates, tested = torch_run(twin, own, ReduceLROnPlateau(listed(own)[0], **settings),
                                          by_accuracy=by_accuracy)
        run = self.runs(made)
        np.testing.assert_allclose([r.loss for r in run.history], losses, rtol=2e-4, atol=1e-5)
        decided = run.view["decisions"]
        falls = [step for step in range(1, STEPS + 1) if rates[step] < rates[step - 1]]
        self.assertGreaterEqual(len(falls), 2)
        if rates[-1] > max(1e-7, np.max(settings.get("min_lr", 0.0))):
            self.assertEqual(decided["reductions"], len(falls))
            self.assertEqual(decided["reduced_at"], falls[-1])
        else:  # Evaluations go on to ask for lower rates when there is none.
            self.assertGreaterEqual(decided["reductions"], len(falls))

    def test_the_rate_falls_as_in_torch(self):
        self.compare(sgd, {"factor": 0.3, "patience": 1, "threshold": 0.01})

    def test_with_adamw_groups_cooldown_and_a_floor(self):
        def adamw(model):
            groups = [{"params": model.first.parameters(), "lr": 0.1}, {"params": model.last.parameters()}]
            return torch.optim.AdamW(groups, lr=0.05)
        self.compare(adamw, {"factor": 0.5, "patience": 0, "threshold": 0.002,
                             "threshold_mode": "abs", "cooldown": 2, "min_lr": 1e-4})

    def test_captured_optimizers(self):
        def pair(model):
            return [Lion([p for p in model.parameters() if p.ndim > 1], lr=0.03),
                    torch.optim.NAdam([p for p in model.parameters() if p.ndim < 2], lr=0.01)]

        def groups(kind, rate):
            return lambda model: kind([{"params": model.first.parameters()},
                                       {"params": model.last.parameters(), "lr": 2 * rate}], lr=rate)
        for name, make, settings in (
                ("lion", lambda model: Lion(model.parameters(), lr=0.03), {"patience": 0, "threshold": 0.02}),
                ("adagrad", groups(torch.optim.Adagrad, 0.3), {"patience": 1, "cooldown": 1}),
                ("a floor for each group", groups(torch.optim.AdamW, 0.1), {"patience": 0, "min_lr": [0.01, 0.1]}),
                ("two", pair, {"patience": 1, "threshold": 0.02})):
            with self.subTest(name):
                self.compare(make, {"factor": 0.5, **settings})

    def test_by_the_accuracy(self):
        self.compare(sgd, {"factor": 0.4, "patience": 2, "mode": "max"}, by_accuracy=True,
                     metrics=["accuracy"])

    def test_a_job_stops_and_keeps_its_best_step(self):
        model = Net()
        made = job(model, sgd(model), stop=es.EarlyStopping(patience=3), keep_best="loss")
        twin = copy.deepcopy(model)
        losses, _, tested = torch_run(twin, sgd(twin), patience=3)
        run = self.runs(made)
        self.assertLess(run.steps, STEPS)
        self.assertEqual(run.steps, len(losses))
        self.assertEqual(run.view["decisions"]["stopped_at"], run.steps)
        best = min(tested, key=lambda step: tested[step][0])
        self.assertEqual(run.best["version"], best)
        self.assertAlmostEqual(run.best["value"], tested[best][0], places=4)
        again = job(model, sgd(model)).run(progress=False, from_checkpoint=run.best["checkpoint"])
        self.assertEqual(again.steps, STEPS)


class Refusals(unittest.TestCase):
    def refused(self, text, optimizer=None, **settings):
        model = Net()
        given = (optimizer or sgd)(model)
        schedule = settings.pop("schedule", None)
        with self.assertRaises((es.UsageError, es.CaptureError)) as caught:
            job(model, given, schedule=schedule(given) if schedule else None, **settings)
        self.assertIn(text, str(caught.exception))

    def test_what_decides_needs_evaluations_and_a_metric_of_them(self):
        model = Net()
        for settings in ({"stop": es.EarlyStopping()}, {"keep_best": "loss"},
                         {"schedule": es.Schedule("plateau")}):
            with self.assertRaisesRegex(es.UsageError, "eval_every = 0: allowed is at least 1"):
                es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(*TRAINED), steps=4,
                       batch_size=8, optimizer=sgd(model), **settings)
            with self.assertRaisesRegex(es.UsageError, "eval_data is None"):
                es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(*TRAINED), steps=4,
                       batch_size=8, eval_every=2, optimizer=sgd(model), **settings)
        self.refused("keep_best: the metric is 'f1': allowed are loss, accuracy", keep_best="f1")
        self.refused("stop: the metric is 'auc'", stop=es.EarlyStopping("auc"), metrics=["f1"])
        self.refused("stop = 3: allowed is easyscale.EarlyStopping", stop=3)
        with self.assertRaisesRegex(es.UsageError, "patience = 0: allowed is a whole number, 1 to"):
            es.EarlyStopping(patience=0)

    def test_a_function_of_this_process_cannot_decide(self):
        def own(outputs, labels):
            return 0.0
        self.refused("the function own is called in this process", keep_best="own", metric=own)

    def test_schedulers_that_cannot_be_read(self):
        self.refused("has made steps", schedule=self.used)
        self.refused("allowed is 'step'", schedule=ReduceLROnPlateau, schedule_unit="epoch")
        self.refused("ReduceLROnPlateau and StepLR: allowed is one ReduceLROnPlateau, and for other",
                     schedule=lambda o: [ReduceLROnPlateau(o), StepLR(o, 5)])
        for floor in (1.5, 2.0):
            self.refused(f"with min_lr = [{floor}] and eps = 1e-08 lowers none of the rates [1.5]",
                         schedule=lambda o, floor=floor: ReduceLROnPlateau(o, min_lr=floor), clip_value=1.0)

    def test_optimizers_that_remember_earlier_rates(self):
        def refused(make, text):
            with self.assertRaisesRegex(es.CaptureError, text):
                given = make(model := Net())
                job(model, given, schedule=ReduceLROnPlateau(given))

        class Warm(Lion):
            def step(self, closure=None):
                for group in self.param_groups:
                    group["sum"] = group.get("sum", 0.0) + group["lr"]
                    group["betas"] = 0.9, 1 - group["lr"] / group["sum"] / 10
                super().step()

        class Another(Lion):
            def step(self, closure=None):
                if self.param_groups[0]["lr"] > 2e-3:
                    super().step()
                super().step()
        refused(lambda model: torch.optim.ASGD(model.parameters()), "depend on the rates of earlier steps")
        refused(lambda model: Warm(model.parameters()), "depend on the rates of earlier steps")
        refused(lambda model: Another(model.parameters(), lr=3e-3), "do something else when ReduceLROnPlateau")

    @staticmethod
    def used(optimizer):
        scheduler = ReduceLROnPlateau(optimizer)
        scheduler.step(1.0)
        return scheduler

    def test_other_schedulers_go_on_to_be_read(self):
        model = Net()
        given = sgd(model)
        text = job(model, given, schedule=StepLR(given, 5)).toml()
        self.assertIn('kind = "step"', text)

    def test_the_job_file_has_what_was_given(self):
        model = Net()
        given = sgd(model)
        text = job(model, given, schedule=ReduceLROnPlateau(given, factor=0.2, patience=4, eps=1e-6),
                   stop=es.EarlyStopping("accuracy", 7, 0.01), keep_best="accuracy").toml()
        for line in ('kind = "plateau"', "gamma = 0.2", 'metric = "loss"', "patience = 4",
                     "epsilon = 1e-06", "[stop]", "patience = 7", "min_delta = 0.01",
                     'keep_best = "accuracy"'):
            self.assertIn(line, text)


if __name__ == "__main__":
    unittest.main()
