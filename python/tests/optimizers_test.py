#!/usr/bin/env python3
"""Torch optimizers and schedulers become tables, or are refused by their names."""
import math
import unittest
import warnings

import support  # noqa: F401  sets the path of the package
import torch
from torch.optim import SGD, Adam, AdamW, RMSprop
from torch.optim import lr_scheduler as lr
from torch_training import FallingDecay

import easyscale as es
from easyscale.optimizers import read_optimizer
from easyscale.schedules import read_rules, read_schedule


def value_at(points, step):
    """The formula of proto/base/schedule_points.h."""
    for (a, low), (b, high) in zip(points, points[1:]):
        if step < b:
            return low + (high - low) * ((step - a) / (b - a))
    return points[-1][1]


def rate(schedule, base, step, steps):
    """The formula of ScheduleSpec (proto/base/job_spec.h)."""
    factor = 1.0
    if schedule.kind == "step":
        factor = schedule.gamma ** (step // schedule.step_size)
    elif schedule.kind == "cosine":
        factor = (1 + math.cos(math.pi * step / steps)) / 2
    elif schedule.kind == "linear":
        warmup = schedule.warmup_steps
        factor = 1 - max(0, step - warmup) / (steps - warmup)
    elif schedule.kind == "points":
        factor = value_at(schedule.points, step)
    if schedule.kind in ("cosine", "linear"):
        factor = schedule.floor + (1 - schedule.floor) * factor
    if step < schedule.warmup_steps:
        factor *= (step + 1) / schedule.warmup_steps
    return base * factor


class WithModel(unittest.TestCase):
    def setUp(self):
        self.model = torch.nn.Linear(3, 2)

    def read(self, optimizer, **options):
        return read_optimizer(optimizer, self.model.named_parameters(), **options)


class Optimizers(WithModel):
    def refuses(self, text, optimizer):
        with self.assertRaisesRegex(es.UsageError, text):
            self.read(optimizer)

    def test_sgd(self):
        self.assertEqual(self.read(SGD(self.model.parameters(), 0.5, momentum=0.9, nesterov=True,
                                       weight_decay=0.01)),
                         es.Optimizer("sgd", 0.5, 0.9, True, weight_decay=0.01))

    def test_adam_and_adamw(self):
        self.assertEqual(self.read(Adam(self.model.parameters(), 0.1, betas=(0.8, 0.9), eps=1e-6)),
                         es.Optimizer("adam", 0.1, beta1=0.8, beta2=0.9, epsilon=1e-6))
        self.assertEqual(self.read(AdamW(self.model.parameters(), torch.tensor(0.5))),
                         es.Optimizer("adamw", 0.5, weight_decay=0.01))

    def test_others_are_captured(self):
        """What the engine has no kind for: python/tests/updates_test.py tests what they become."""
        parameters = list(self.model.parameters())
        named = type("AdamW", (AdamW,), {})
        others = [RMSprop(parameters, 0.5), Adam(parameters, 0.5, amsgrad=True),
                  SGD(parameters, 0.5, maximize=True), named(parameters, 0.5),
                  SGD(parameters, 0.5, momentum=0.9, dampening=0.5),
                  Adam(self.groups(betas=(0.8, 0.9)), 0.5), SGD(self.groups(momentum=0.5), 0.5)]
        for register in ("register_step_pre_hook", "register_step_post_hook"):
            others.append(SGD(parameters, 0.5))
            getattr(others[-1], register)(lambda *arguments: None)
        for other in others:
            self.assertEqual(self.read(other), es.Optimizer("captured", 0.5))

    def test_parameters_of_another_model_are_refused(self):
        other = torch.nn.Linear(2, 2)
        self.refuses("SGD has 2 parameters that are neither of the model nor of its loss",
                     SGD([*self.model.parameters(), *other.parameters()], 0.1))
        SGD([*self.model.parameters(), *other.requires_grad_(False).parameters()], 0.1)

    def test_groups_that_agree_are_one(self):
        groups = [{"params": [self.model.weight]}, {"params": [self.model.bias]}]
        self.assertEqual(self.read(SGD(groups, 0.5)).learning_rate, 0.5)
        self.assertEqual(self.read(SGD(groups, 0.5)).groups, ())

    def groups(self, **settings):
        return [{"params": [self.model.weight]}, {"params": [self.model.bias], **settings}]

    def test_groups_have_a_rate_and_a_weight_decay_of_their_own(self):
        read = self.read(AdamW(self.groups(lr=0.25, weight_decay=0.0), 0.5, weight_decay=0.1))
        self.assertEqual(read, es.Optimizer(
            "adamw", 0.5, weight_decay=0.1, groups=[es.ParameterGroup(["bias"], 0.5, 0.0)]))
        self.assertEqual(self.read(SGD(self.groups(lr=0.1), 0.5)).groups,
                         (es.ParameterGroup(["bias"], 0.1 / 0.5),))

    def test_factors_are_relative_to_the_first_rate_above_0(self):
        read = self.read(SGD(self.groups(lr=0.5), 0.0))
        self.assertEqual((read.learning_rate, read.groups),
                         (0.5, (es.ParameterGroup(["weight"], 0.0),)))

    def test_frozen_parameters_are_in_no_group(self):
        self.model.bias.requires_grad_(False)
        self.assertEqual(self.read(SGD(self.groups(lr=0.1), 0.5)).groups, ())

    def test_a_text_is_no_list_of_names(self):
        with self.assertRaisesRegex(es.UsageError, "'bias': allowed is a list of names"):
            es.ParameterGroup("bias")

    def test_what_is_no_optimizer_of_the_model_is_refused_by_name(self):
        self.refuses("not all parameters.*1 are missing", SGD([self.model.weight], 0.1))
        self.refuses("int: allowed", 3)
        with self.assertRaisesRegex(es.UsageError, "'lion': allowed"):
            es.Optimizer("lion")
        self.refuses("an optimizer of torch is captured if it is passed itself",
                     es.Optimizer("captured"))

    def test_an_optimizer_with_a_history_is_captured(self):
        optimizer = SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        self.assertEqual(self.read(optimizer).kind, "captured")

    def test_a_scheduler_that_is_not_passed_is_noticed(self):
        optimizer = SGD(self.model.parameters(), 1.0)
        lr.LinearLR(optimizer, start_factor=0.5)
        self.refuses("pass that scheduler as schedule=", optimizer)
        self.assertEqual(self.read(optimizer, scheduled=True).learning_rate, 1.0)


class Schedules(WithModel):
    STEPS = 12

    def assert_same_rates(self, make, steps=STEPS, places=12, kind=SGD, epoch_steps=None):
        """Compares with a scheduler that is called after every step, or at the end of an epoch.
        Returns the schedule."""
        groups = [{"params": [self.model.weight]}, {"params": [self.model.bias], "lr": 0.2}]
        optimizer = kind(groups, 0.7)
        scheduler = make(optimizer)
        schedule = read_schedule(scheduler, steps, epoch_steps)
        read = self.read(optimizer, scheduled=True)
        for step in range(steps):
            found = rate(schedule, read.learning_rate, step, steps)
            first, second = optimizer.param_groups
            self.assertAlmostEqual(first["lr"], found, places=places)
            self.assertAlmostEqual(second["lr"], found * (
                read.groups[0].learning_rate_factor if read.groups else 1), places=places)
            if schedule.momentum_points:
                momentum = first["betas"][0] if "betas" in first else first["momentum"]
                self.assertAlmostEqual(momentum, value_at(schedule.momentum_points, step),
                                       places=places)
            optimizer.step()
            if (step + 1) % (epoch_steps or 1) == 0 and step + 1 < steps:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of SequentialLR, about itself
                    scheduler.step()
        return schedule

    def test_closed_forms(self):
        self.assert_same_rates(lambda o: lr.StepLR(o, 5, 0.3))
        self.assert_same_rates(lambda o: lr.ExponentialLR(o, 0.9))
        self.assert_same_rates(lambda o: lr.CosineAnnealingLR(o, self.STEPS))
        self.assert_same_rates(lambda o: lr.LinearLR(o, 1, 0, self.STEPS))
        self.assert_same_rates(lambda o: lr.LinearLR(o, 1, 0.25, self.STEPS))

    def test_a_cosine_that_ends_above_0(self):
        optimizer = SGD(self.model.parameters(), 0.5)
        scheduler = lr.CosineAnnealingLR(optimizer, self.STEPS, eta_min=0.125)
        schedule = read_schedule(scheduler, self.STEPS)
        self.assertEqual(schedule.floor, 0.25)
        for step in range(self.STEPS):
            self.assertAlmostEqual(optimizer.param_groups[0]["lr"],
                                   rate(schedule, 0.5, step, self.STEPS), places=12)
            optimizer.step()
            scheduler.step()

    def warmup(self, optimizer, steps=4):
        return lr.LinearLR(optimizer, 1 / steps, total_iters=steps - 1)

    def test_warm_up(self):
        self.assert_same_rates(self.warmup)
        self.assert_same_rates(
            lambda o: lr.ChainedScheduler([self.warmup(o), lr.CosineAnnealingLR(o, self.STEPS)]))
        self.assert_same_rates(
            lambda o: lr.ChainedScheduler([lr.StepLR(o, 5, 0.3), self.warmup(o)]))
        self.assert_same_rates(lambda o: lr.SequentialLR(
            o, [self.warmup(o), lr.LinearLR(o, 1, 0, self.STEPS - 4)], [4]))

    OTHERS = {
        "multi step": lambda o: lr.MultiStepLR(o, [3, 7, 8], 0.1),
        "lambda": lambda o: lr.LambdaLR(o, lambda step: 1 / (1 + step) ** 0.5),
        "multiplicative": lambda o: lr.MultiplicativeLR(o, lambda step: 0.9 + 0.01 * step),
        "constant": lambda o: lr.ConstantLR(o, 0.3, total_iters=4),
        "linear": lambda o: lr.LinearLR(o, 0.1, total_iters=5),
        "short linear": lambda o: lr.LinearLR(o, 1, 0, 5),
        "polynomial": lambda o: lr.PolynomialLR(o, 9, 2.0),
        "restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 3, T_mult=2),
        "warm-up and cosine": lambda o: lr.ChainedScheduler([
            lr.LinearLR(o, 0.25, total_iters=3), lr.CosineAnnealingLR(o, 9)]),
        "chained": lambda o: lr.ChainedScheduler([lr.LinearLR(o, 0.25, total_iters=3)] * 2),
        "sequential": lambda o: lr.SequentialLR(o, [
            lr.ConstantLR(o, 0.1, total_iters=99), lr.ExponentialLR(o, 0.8),
            lr.CosineAnnealingLR(o, 4)], [2, 7])}

    def test_other_schedulers_become_points(self):
        for name, make in self.OTHERS.items():
            with self.subTest(name):
                self.assertEqual(self.assert_same_rates(make).kind, "points")

    def test_points_of_long_schedules_are_few_and_close(self):
        for make, points in [
                (lambda o: lr.MultiStepLR(o, [3000, 7000]), 6),
                (lambda o: lr.SequentialLR(o, [lr.LinearLR(o, 1e-3, total_iters=500),
                                               lr.CosineAnnealingLR(o, 9500)], [500]), 1000)]:
            schedule = self.assert_same_rates(make, steps=10000, places=5)
            self.assertLessEqual(len(schedule.points), points)

    def test_a_cycle_also_changes_the_momentum_or_beta1(self):
        def one_cycle(optimizer):
            return lr.OneCycleLR(optimizer, [0.5, 0.05], total_steps=self.STEPS)

        def triangles(optimizer):
            return lr.CyclicLR(optimizer, 0.1, 0.5, step_size_up=3, mode="triangular2")
        for make in (one_cycle, triangles):
            for kind in (lambda groups, rate: SGD(groups, rate, momentum=0.9), Adam, AdamW):
                self.assertTrue(self.assert_same_rates(make, kind=kind).momentum_points)

    def test_a_scheduler_by_epochs_changes_the_rate_at_their_ends(self):
        for make in (*self.OTHERS.values(), lambda o: lr.CosineAnnealingLR(o, 3),
                     lambda o: lr.StepLR(o, 2)):
            self.assert_same_rates(make, epoch_steps=4)
            self.assert_same_rates(make, epoch_steps=1)

    def test_the_scheduler_and_its_optimizer_stay_as_they_are(self):
        optimizer = SGD(self.model.parameters(), torch.tensor(0.7), momentum=0.5)
        scheduler = lr.OneCycleLR(optimizer, 1.0, total_steps=self.STEPS)
        before = (float(optimizer.param_groups[0]["lr"]), optimizer.param_groups[0]["momentum"],
                  scheduler.last_epoch)
        read_schedule(scheduler, self.STEPS)
        self.assertEqual(before, (float(optimizer.param_groups[0]["lr"]),
                                  optimizer.param_groups[0]["momentum"], scheduler.last_epoch))

    def test_a_class_of_the_users_own(self):
        class Noam(lr.LRScheduler):
            def get_lr(self):
                step = self.last_epoch + 1
                return [base * min(step ** -0.5, step * 4 ** -1.5) for base in self.base_lrs]
        self.assertEqual(self.assert_same_rates(Noam).kind, "points")

    def test_others_are_refused_by_name(self):
        groups = [{"params": [self.model.weight]}, {"params": [self.model.bias], "lr": 0.2}]
        optimizer = SGD(groups, 0.7)
        for text, scheduler in [
                ("ReduceLROnPlateau", lr.ReduceLROnPlateau(optimizer)),
                ("str: allowed", "cosine"),
                ('T_max = 5, in a job of 12.*"epoch"', lr.CosineAnnealingLR(optimizer, 5)),
                ("different ways .in the step 1 to", lr.LambdaLR(optimizer, [
                    lambda step: 1.0, lambda step: 0.5 ** step])),
                ("fails when it is called for the step 6, with ValueError", lr.OneCycleLR(
                    SGD(self.model.parameters(), 0.1), 1.0, total_steps=5)),
                ("has the learning rate -", lr.LambdaLR(optimizer, lambda step: 1 - step))]:
            with self.assertRaisesRegex(es.UsageError, text):
                read_schedule(scheduler, self.STEPS)
        with self.assertRaisesRegex(es.UsageError, "allowed is a torch scheduler with RMSprop"):
            read_rules(RMSprop(self.model.parameters()), es.Schedule("cosine"),
                       list(self.model.named_parameters()), 12, None)
        noise = lr.LambdaLR(optimizer, lambda step: 1 + math.sin(step * step))
        with self.assertRaisesRegex(es.UsageError, "needs [0-9]+ points"):
            read_schedule(noise, 9000)
        with self.assertRaisesRegex(es.UsageError, "schedule_unit = 'epoch': allowed is a torch"):
            read_schedule(es.Schedule("cosine"), 12, 4)

    def test_schedules_that_the_engine_has_not_are_captured_with_their_optimizer(self):
        def rules(make):
            optimizer = SGD([{"params": [self.model.weight]}, {"params": [self.model.bias]}], 0.5)
            return read_rules(optimizer, make(optimizer), list(self.model.named_parameters()), 9000,
                              None)

        for make in (lambda o: lr.LambdaLR(o, [lambda step: 1.0, lambda step: 0.5 ** step]),
                     FallingDecay, lambda o: lr.LambdaLR(o, lambda step: 1 + math.sin(step * step)),
                     lambda o: lr.LambdaLR(o, lambda step: 1 - step)):
            self.assertEqual(rules(make), (es.Optimizer("captured", 0.5), es.Schedule()))
        self.assertEqual(rules(lambda o: lr.StepLR(o, 5))[0].kind, "sgd")

    def test_plain_values(self):
        self.assertEqual(read_schedule(None, 5).kind, "constant")
        self.assertEqual(read_schedule(es.Schedule("cosine"), 5).kind, "cosine")
        points = es.Schedule("points", points=[(0, 1), (5, 0.25)], momentum_points=[(0, 0.5)])
        self.assertEqual(points.table(), {"kind": "points", "warmup_steps": 0,
                                          "points": "0:1.0,5:0.25", "momentum_points": "0:0.5"})
        for text, options in [("'square': allowed", {"kind": "square"}),
                              ("points = .*at least one point", {"kind": "points"}),
                              ("none with others", {"points": [(0, 1)]}),
                              ("rising steps from 0", {"kind": "points", "points": [(1, 1)]}),
                              ("list of .step, number", {"kind": "points", "points": [3]})]:
            with self.assertRaisesRegex(es.UsageError, text):
                es.Schedule(**options)


if __name__ == "__main__":
    unittest.main()
