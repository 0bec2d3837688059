#!/usr/bin/env python3
"""Torch optimizers and schedulers become tables, or are refused by their names."""
import math
import unittest

import support  # noqa: F401  sets the path of the package
import torch
from torch.optim import SGD, Adam, AdamW, RMSprop
from torch.optim import lr_scheduler as lr

import easyscale as es
from easyscale.optimizers import read_optimizer, read_schedule


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

    def test_a_class_of_that_name_that_is_not_of_torch_is_refused(self):
        named = type("AdamW", (AdamW,), {})
        self.refuses(f"AdamW of {__name__}: allowed are torch.optim.SGD", named(
            self.model.parameters()))

    def test_a_hook_on_steps_is_refused(self):
        for register in ("register_step_pre_hook", "register_step_post_hook"):
            optimizer = SGD(self.model.parameters(), 0.1)
            getattr(optimizer, register)(lambda *arguments: None)
            self.refuses("SGD has a hook on its steps", optimizer)

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

    def test_groups_that_differ_in_other_settings_are_refused(self):
        self.refuses(r"groups of parameters 0 and 1 differ in betas \(\(0.9, 0.999\) and "
                     r"\(0.8, 0.9\)\), eps \(1e-08 and 1e-06\): allowed is another lr or",
                     Adam(self.groups(betas=(0.8, 0.9), eps=1e-6, lr=0.2), 0.1))
        self.refuses("differ in momentum", SGD(self.groups(momentum=0.5), 0.1))

    def test_frozen_parameters_are_in_no_group(self):
        self.model.bias.requires_grad_(False)
        self.assertEqual(self.read(SGD(self.groups(lr=0.1), 0.5)).groups, ())

    def test_a_text_is_no_list_of_names(self):
        with self.assertRaisesRegex(es.UsageError, "'bias': allowed is a list of names"):
            es.ParameterGroup("bias")

    def test_what_the_engine_has_not_is_refused_by_name(self):
        parameters = list(self.model.parameters())
        self.refuses("RMSprop: allowed are torch.optim.SGD", RMSprop(parameters))
        self.refuses("Adam: amsgrad", Adam(parameters, amsgrad=True))
        self.refuses("SGD: maximize", SGD(parameters, 0.1, maximize=True))
        self.refuses("dampening = 0.5", SGD(parameters, 0.1, momentum=0.9, dampening=0.5))
        self.refuses("not all parameters.*1 are missing", SGD([self.model.weight], 0.1))
        self.refuses("int: allowed", 3)
        with self.assertRaisesRegex(es.UsageError, "'lion': allowed"):
            es.Optimizer("lion")

    def test_an_optimizer_with_a_history_is_refused(self):
        optimizer = SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        self.refuses("state of steps", optimizer)

    def test_a_scheduler_that_is_not_passed_is_noticed(self):
        optimizer = SGD(self.model.parameters(), 1.0)
        lr.LinearLR(optimizer, start_factor=0.5)
        self.refuses("pass that scheduler as schedule=", optimizer)
        self.assertEqual(self.read(optimizer, scheduled=True).learning_rate, 1.0)


class Schedules(WithModel):
    STEPS = 12

    def assert_same_rates(self, make):
        groups = [{"params": [self.model.weight]}, {"params": [self.model.bias], "lr": 0.2}]
        optimizer = SGD(groups, 0.7)
        scheduler = make(optimizer)
        schedule = read_schedule(scheduler, self.STEPS)
        read = self.read(optimizer, scheduled=True)
        for step in range(self.STEPS):
            found = rate(schedule, read.learning_rate, step, self.STEPS)
            first, second = optimizer.param_groups
            self.assertAlmostEqual(first["lr"], found, places=12)
            self.assertAlmostEqual(second["lr"], found * read.groups[0].learning_rate_factor,
                                   places=12)
            optimizer.step()
            scheduler.step()

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

    def test_others_are_refused_by_name(self):
        optimizer = SGD(self.model.parameters(), 0.7)
        for text, scheduler in [
                ("LambdaLR", lr.LambdaLR(optimizer, lambda step: 1.0)),
                ("T_max = 5", lr.CosineAnnealingLR(optimizer, 5)),
                ("total_iters = 5", lr.LinearLR(optimizer, 1, 0, 5)),
                ("start_factor = 0.1", lr.LinearLR(optimizer, 0.1, total_iters=5)),
                ("LinearLR, LinearLR", lr.ChainedScheduler([self.warmup(optimizer)] * 2)),
                ("StepLR, StepLR", lr.SequentialLR(
                    optimizer, [lr.StepLR(optimizer, 2), lr.StepLR(optimizer, 2)], [4]))]:
            with self.assertRaisesRegex(es.UsageError, text):
                read_schedule(scheduler, self.STEPS)

    def test_plain_values(self):
        self.assertEqual(read_schedule(None, 5).kind, "constant")
        self.assertEqual(read_schedule(es.Schedule("cosine"), 5).kind, "cosine")
        with self.assertRaisesRegex(es.UsageError, "'square': allowed"):
            es.Schedule("square")


if __name__ == "__main__":
    unittest.main()
