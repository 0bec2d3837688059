#!/usr/bin/env python3
"""Optimizers that are captured as programs, beside torch."""
import importlib.util
import math
import os
import random
import re
import textwrap
import unittest
import warnings
from collections import deque

import numpy as np
import torch
from support import HERE, FakeProgramsCase
from torch import nn, optim
from torch.optim import lr_scheduler as lr
from torch_training import FallingDecay, listed
from updates_support import (ERROR, MATRICES, SHAPES, captured, largest_error, made_steps, orthogonal, states_of)

import easyscale as es
from easyscale.program import (FORMAT_WITH_REDUCTIONS, FORMAT_WITH_UPDATES, Node, Numbers, Output, Parameter, Phase,
                               Program, Update, Value)
from easyscale.tracing.updates import capture_updates
from easyscale.tracing.updates.check import InFp32, Trained
from easyscale.tracing.updates.errors import OptimizerRefused

torch.set_num_threads(1)
RANDOM = 200  # optimizers that are written at run time


class Files(unittest.TestCase):
    def test_updates_are_the_same_after_a_file(self):
        values = [Value("f32", []) for _ in range(4)]
        update = Program(values=values, parameters=[
            Parameter("parameter", 0, trainable=False), Parameter("gradient", 1, trainable=False),
            Parameter("number.0", 2, trainable=False)],
            nodes=[Node("mul", [1, 2], [3])], outputs=[Output("parameter", 3)])
        program = Program(format=FORMAT_WITH_REDUCTIONS, numbers=[
            Numbers("lr", np.array([0.5, 0.1], np.float32)),
            Numbers("lowered", np.array([0.5, 0.125, 0.25, 0.0625], np.float32), reductions=1)],
            updates=[Update(["bias"], [update], [Phase(0, 0)])])
        again = Program.from_json(program.to_json())
        self.assertEqual(again.updates, program.updates)
        self.assertEqual(again.numbers[0].values.tolist(), program.numbers[0].values.tolist())
        self.assertEqual([again.numbers[1].lowered(times).values.tolist() for times in range(3)],
                         [[0.5, 0.125], [0.25, 0.0625], [0.25, 0.0625]])
        self.assertNotIn("updates", Program().to_json())


class WithUpdates(unittest.TestCase):
    def equals(self, make, error=ERROR, **options):
        """Compares with torch over 50 steps, and returns what was captured."""
        worst, found = largest_error(make, **options)
        self.assertLess(worst, error)
        return found

    def refuses(self, text, make, **options):
        with self.assertRaisesRegex(OptimizerRefused, text):
            captured(make, **options)


def of(kind, **settings):
    return lambda parameters: kind(parameters, **settings)


# Every class of torch.optim, with the settings that it is tried with and how it is named in the docs.
EQUAL = {
    "ASGD": [{}, {"t0": 10, "lambd": 0.1, "maximize": True}],
    "Adadelta": [{}, {"weight_decay": 0.1, "lr": 0.5}],
    "Adafactor": [{}, {"weight_decay": 0.1, "lr": 0.1}],
    "Adagrad": [{}, {"lr_decay": 0.1, "initial_accumulator_value": 0.5}],
    "Adam": [{"amsgrad": True}, {"maximize": True, "weight_decay": 0.1},
             {"lr": torch.tensor(0.01)}],
    "AdamW": [{"amsgrad": True}, {"foreach": True}, {"fused": True}],
    "Adamax": [{}, {"weight_decay": 0.1}],
    "NAdam": [{}, {"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "RAdam": [{}, {"weight_decay": 0.1}],
    "RMSprop": [{}, {"centered": True, "momentum": 0.9, "weight_decay": 0.1}],
    "Rprop": [{}],
    "SGD": [{"momentum": 0.9, "dampening": 0.5}, {"maximize": True},
            {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "lr": torch.tensor(0.1)}]}
IN_FP32 = {"Muon": [{"lr": 0.02}, {"lr": 0.02, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}]}
REFUSED = {"LBFGS": "its step needs closure", "SparseAdam": "does not support dense gradients"}


class OfTorch(WithUpdates):
    def test_each_class_is_equal_or_refused(self):
        for name, settings in EQUAL.items():
            for options in settings:
                with self.subTest(name, **options):
                    self.equals(of(getattr(optim, name), **options))
        for name, settings in IN_FP32.items():
            for options in settings if hasattr(optim, name) else []:
                with self.subTest(name, **options):
                    self.equals(of(getattr(optim, name), **options), shapes=MATRICES,
                                mode=lambda: InFp32({}))
        for name, text in REFUSED.items():
            with self.subTest(name):
                self.refuses(text, of(getattr(optim, name)))

    def test_the_table_of_the_docs_has_each_class(self):
        classes = {name for name, kind in vars(optim).items() if isinstance(kind, type)
                   and issubclass(kind, optim.Optimizer) and kind is not optim.Optimizer}
        text = (HERE.parents[1] / "docs" / "python" / "optimizers.md").read_text()
        rows = dict(re.findall(r"^\| `(\w+)` \| (\w+)", text, re.MULTILINE))
        wanted = dict.fromkeys(EQUAL, "equal") | dict.fromkeys(IN_FP32, "equal") | dict.fromkeys(
            REFUSED, "refused")
        self.assertEqual(rows, wanted)
        self.assertEqual(classes - set(rows), set())

    def test_the_first_step_is_a_phase_of_its_own(self):
        found = self.equals(of(optim.SGD, lr=0.1, momentum=0.9, dampening=0.5))
        update = next(x for x in found.updates if "p0" in x.parameters)
        self.assertEqual(update.parameters, ["p0", "p2"])  # of one shape
        self.assertEqual(update.phases, [Phase(0, 0), Phase(1, 1)])
        self.assertEqual(states_of(update), ["momentum_buffer"])
        self.assertEqual(found.numbers, [])

    def test_a_branch_on_the_step_is_a_phase(self):
        found = self.equals(of(optim.RAdam))
        self.assertEqual(found.updates[0].phases, [Phase(0, 0), Phase(1, 1), Phase(5, 2)])

    def test_numbers_are_shared_over_shapes(self):
        found = self.equals(of(optim.NAdam))
        self.assertEqual((len(found.updates), len(found.numbers)), (3, 3))

    def test_the_form_of_a_program(self):
        found = captured(of(optim.Adamax), steps=4)
        for update in found.updates:
            for program in update.programs:
                names = [x.name for x in program.parameters]
                self.assertEqual(names[:4], ["parameter", "gradient", "state.exp_avg",
                                             "state.exp_inf"])
                self.assertTrue(all(re.fullmatch(r"number\.\d+", name) for name in names[4:]))
                self.assertEqual([x.name for x in program.outputs],
                                 ["parameter", "state.exp_avg", "state.exp_inf"])
                self.assertEqual((program.inputs, program.states, program.statistics,
                                  program.buffers, program.loss), ([], [], [], [], -1))
                self.assertFalse(any(x.trainable or x.aliases or x.init for x in program.parameters))

    def test_no_constant_has_the_size_of_a_parameter(self):
        for kind in (optim.Adagrad, optim.Rprop, optim.Adam, optim.Adadelta):
            found = captured(of(kind), steps=3, shapes=((64, 32),))
            for program in found.updates[0].programs:
                self.assertLessEqual(max([x.array.size for x in program.constants], default=0), 1)

    def test_the_optimizer_its_scheduler_and_parameters_stay_as_they_are(self):
        parameters = [nn.Parameter(torch.randn(3, 2))]
        content = parameters[0].detach().clone()
        optimizer = optim.Adagrad(parameters, 0.5)
        scheduler = lr.ExponentialLR(optimizer, 0.5)
        from easyscale.tracing.updates import capture_updates
        capture_updates(optimizer, [("w", parameters[0])], 9, scheduler)
        self.assertEqual((optimizer.param_groups[0]["lr"], scheduler.last_epoch), (0.5, 0))
        self.assertEqual(float(optimizer.state[parameters[0]]["step"]), 0)
        self.assertTrue(torch.equal(parameters[0], content))
        self.assertIsNone(parameters[0].grad)
        self.assertNotIn("data", vars(torch.Tensor))
        self.assertIs(max, __builtins__["max"] if isinstance(__builtins__, dict) else
                      __builtins__.max)


class Lion(optim.Optimizer):
    def __init__(self, parameters, lr=0.01, betas=(0.9, 0.99), weight_decay=0.1):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in filter(lambda p: p.grad is not None, group["params"]):
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p)
                first, second = group["betas"]
                p.data.mul_(1 - group["lr"] * group["weight_decay"])
                update = state["exp_avg"].clone().mul_(first).add(p.grad, alpha=1 - first).sign_()
                p.add_(update, alpha=-group["lr"])
                state["exp_avg"].mul_(second).add_(p.grad, alpha=1 - second)


class Muon(optim.Optimizer):
    """With momentum alone for what is no matrix."""

    def __init__(self, parameters, lr=0.02, momentum=0.95):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "buffer" not in state:
                    state["buffer"] = torch.zeros_like(p)
                state["buffer"].lerp_(p.grad, 1 - group["momentum"])
                update = p.grad.lerp_(state["buffer"], group["momentum"])
                if p.ndim > 1:
                    update = orthogonal(update.view(len(update), -1))
                    update *= max(1, update.size(-2) / update.size(-1)) ** 0.5
                p.add_(update.reshape(p.shape), alpha=-group["lr"])


class Lamb(optim.Optimizer):
    """As many write it: Python numbers as steps, states on no device, and p.data that is assigned."""

    def __init__(self, parameters, lr=0.01):
        super().__init__(parameters, {"lr": lr})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["step"], state["m"] = 0, torch.zeros(p.shape)
                    state["v"] = torch.zeros_like(p.data)
                state["step"] += 1
                state["m"] = state["m"] * 0.9 + p.grad.data * 0.1
                state["v"].mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                mean = state["m"] / (1 - 0.9 ** state["step"])
                update = mean / ((state["v"] / (1 - 0.999 ** state["step"])).sqrt() + 1e-6)
                size, change = p.data.norm(), update.norm()
                trust = torch.where(size > 0, torch.where(change > 0, size / change, 1.0), 1.0)
                p.data = p.data - group["lr"] * trust * update


class Lookahead(optim.Optimizer):
    """Calls another optimizer, and keeps a list with one tensor for each parameter."""

    def __init__(self, base, k=5, alpha=0.5):
        self.base, self.k, self.alpha, self.count = base, k, alpha, 0
        self.param_groups, self.defaults, self.state = base.param_groups, base.defaults, base.state
        self.slow = [[p.clone().detach() for p in g["params"]] for g in base.param_groups]
        self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = {}, {}

    def step(self):
        self.base.step()
        self.count += 1
        if self.count % self.k == 0:
            for group, slow in zip(self.param_groups, self.slow):
                for p, q in zip(group["params"], slow):
                    q.data.add_(p.data - q.data, alpha=self.alpha)
                    p.data.copy_(q.data)


class ScheduleFree(optim.Optimizer):
    """The SGD of schedule-free learning: p is y, the point of the gradients."""

    def __init__(self, parameters, lr=0.1, momentum=0.9, warmup=4):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "warmup": warmup, "k": 0,
                                      "weight_sum": 0.0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            rate = group["lr"] * min(1, (group["k"] + 1) / group["warmup"])
            group["weight_sum"] += rate ** 2
            share = rate ** 2 / group["weight_sum"]
            for p in group["params"]:
                if "z" not in self.state[p]:
                    self.state[p]["z"] = torch.clone(p)
                z = self.state[p]["z"]
                p.lerp_(end=z, weight=share)
                p.add_(p.grad, alpha=rate * (group["momentum"] * (1 - share) - 1))
                z.sub_(p.grad, alpha=rate)
            group["k"] += 1


class OfOthers(WithUpdates):
    def test_lion_and_lamb(self):
        self.equals(of(Lion))
        self.equals(of(Lamb))

    def test_muon(self):
        found = self.equals(of(Muon))
        matrices = next(x for x in found.updates if "p0" in x.parameters)
        self.assertIn("matmul", matrices.programs[-1].kinds())

    def test_an_optimizer_that_calls_another_one(self):
        found = self.equals(lambda parameters: Lookahead(optim.Adam(parameters)))
        self.assertEqual(len(found.updates[0].phases), 21)

    def test_schedule_free(self):
        self.equals(of(ScheduleFree))

    @unittest.skipUnless(importlib.util.find_spec("schedulefree"), "there is no schedulefree")
    def test_the_package_schedulefree(self):
        import schedulefree

        def training(kind, **settings):
            def make(parameters):
                optimizer = kind(parameters, **settings)
                optimizer.train()
                return optimizer
            return make
        self.equals(training(schedulefree.AdamWScheduleFree, warmup_steps=5))
        self.equals(training(schedulefree.SGDScheduleFree, lr=0.1))
        self.equals(training(schedulefree.RAdamScheduleFree))

    def test_hooks_on_steps_are_a_part_of_them(self):
        def make(parameters):
            optimizer = optim.SGD(parameters, 0.5)
            optimizer.register_step_post_hook(
                lambda *_: [p.data.clamp_(-1, 1) for p in parameters])
            return optimizer

        def hooked(parameters):
            optimizer = optim.SGD(parameters, 0.5)

            def pre(self, arguments, keywords):
                for p in self.param_groups[0]["params"]:
                    p.grad.clamp_(-0.5, 0.5)

            def post(self, arguments, keywords):
                for p in self.param_groups[0]["params"]:
                    p.data.clamp_(-1, 1)
            optimizer.register_step_pre_hook(pre)
            optimizer.register_step_post_hook(post)
            return optimizer
        def closed(parameters):
            optimizer = optim.RMSprop(parameters, 0.1)

            def halve():
                for p in parameters:
                    p.grad = p.grad / 2 if p.ndim > 1 else p.grad
            optimizer.register_step_pre_hook(lambda *_: nn.utils.clip_grad_value_(parameters, 0.5))
            optimizer.register_step_pre_hook(lambda *_: halve())
            return optimizer
        self.equals(closed)
        self.assertNotIn("grad", vars(torch.Tensor))
        self.equals(hooked)
        self.equals(make)  # whose hook knows the parameters, and not the optimizer


class Operators(WithUpdates):
    """What a step may be written with."""

    def stepping(self, step, **settings):
        class Own(optim.SGD):
            @torch.no_grad()
            def step(self):
                for group in self.param_groups:
                    step(self, group["params"])
        return of(Own, **({"lr": 0.1} | settings))

    def test_a_parameter_of_one_element_and_a_state_that_begins_with_zeros(self):
        def step(o, params):
            for p in params:
                s = o.state[p].setdefault("s", torch.zeros(p.shape))
                quotient = torch.addcdiv(s.mul(0.1), p.clamp(-0.1, 0.1), 1 + s.mul(0.1).abs(), value=0.4)
                s = o.state[p]["s"] = s * 0.1 + quotient * 0.9
                p.sub_(torch.where(s.abs() < 0.5, s, p), alpha=0.1)
        self.equals(self.stepping(step), shapes=((1,), (4, 3)))

    def test_operators_on_lists(self):
        def step(o, params):
            grads = [p.grad for p in params]
            if not o.state:
                for p in params:
                    o.state[p]["m"], o.state[p]["v"] = torch.zeros_like(p), torch.zeros_like(p)
            m, v = [[o.state[p][name] for p in params] for name in "mv"]
            torch._foreach_lerp_(m, grads, weight=0.1)
            torch._foreach_mul_(v, 0.9)
            torch._foreach_addcmul_(v, grads, grads, 0.1)
            roots = torch._foreach_sqrt(v)
            torch._foreach_add_(roots, 1e-3)
            torch._foreach_maximum_(roots, 0.1)
            torch._foreach_div_(m, [2.0] * len(m))
            torch._foreach_addcdiv_(params, m, roots, -0.1)
            norms = torch._foreach_norm(m)
            torch._foreach_sub_(params, torch._foreach_div(m, torch._foreach_add(norms, 1.0)))
        self.equals(self.stepping(step))

    def test_results_that_are_written_into_tensors(self):
        def step(o, params):
            for p in params:
                size = torch.abs(p.grad)
                torch.clamp(size, 0.1, 1.0, out=size)
                torch.div(p.grad, size, out=size)
                torch.add(p, size, alpha=-0.1, out=p)
        self.equals(self.stepping(step))

    def test_writes_to_parts(self):
        def step(o, params):
            for p in params:
                flat = p.grad.view(-1)
                flat[1:3] *= 0.5
                flat[::2].add_(0.1)
                p.grad.T.mul_(0.9) if p.dim() == 2 else None
                mask = p.grad.abs() > 0.5
                p.grad[mask] = 0.25
                p.data[0].sub_(0.01)
                p.data.reshape(-1)[-1] = 0.5
                p -= 0.1 * p.grad
        self.equals(self.stepping(step))

    def test_states_in_lists_queues_and_objects(self):
        class Box:
            pass

        def step(o, params):
            for p in params:
                state = o.state[p]
                if not state:
                    state["last"], state["box"] = deque(maxlen=3), Box()
                    state["box"].mean = torch.zeros_like(p)
                state["last"].append(p.grad.clone())
                state["box"].mean.lerp_(p.grad, 0.1)
                p.sub_(sum(state["last"]) / 10 + state["box"].mean / 5)
        found = self.equals(self.stepping(step))
        self.assertEqual(sorted(states_of(found.updates[0])),
                         ["box.mean", "last.0", "last.1", "last.2"])

    def test_numbers_in_the_places_of_tensors(self):
        def step(o, params):
            for p in params:
                state = o.state[p]
                if not state:
                    state["step"] = torch.zeros(1)
                    state["decay"] = torch.ones((), device=p.device)
                state["step"] += 1
                state["decay"] *= 0.9
                t = state["step"].item()
                p.mul_(1 - 0.01 * state["decay"]).clamp_(-5 - t, 5 + t)
                p.add_(torch.full_like(p, 0.01 / t)).sub_(p.grad.pow(1 + 1 / t).nan_to_num())
                p.sub_(p.grad / state["step"]).addcmul_(p.grad, p.grad, value=0.1 / t)
                p.sub_(torch.lerp(p.grad, p, 1 / t), alpha=0.1 / t)
                p.add_(torch.where(p.grad > 1 / t, p.grad, 0.1 / t), alpha=-0.1)
                p.sub_(torch.tensor(0.01 * t, device=p.device) * torch.ones(p.shape))
        self.equals(self.stepping(step), error=1e-3)

    def test_branches_on_contents(self):
        def clipped(o, params):
            for p in params:
                norm = p.grad.norm()
                if norm > 3:
                    p.grad.mul_(3 / norm)
                p.sub_(p.grad, alpha=0.1)

        def trusted(o, params):
            for p in params:
                state = o.state[p]
                if not state:
                    state["m"], state["t"] = torch.zeros_like(p), 0
                state["t"] += 1
                state["m"].lerp_(p.grad, 0.1)
                size, change = p.norm().item(), state["m"].norm().item()
                trust = 1.0 if size == 0 or change == 0 else size / change
                if trust < 10 and not state["m"].mean() > 0.02:
                    p.sub_(state["m"], alpha=0.01 * trust / state["t"])
                elif size > 3:
                    p.mul_(0.99)
                    state["m"].mul_(0.5)
        for step in (clipped, trusted):
            found = self.equals(self.stepping(step), schedule=lambda o: lr.ExponentialLR(o, 0.9))
            self.assertTrue(all("where" in x.programs[-1].kinds() for x in found.updates))

    def test_what_is_kept_on_one_path_only_is_not_kept(self):
        def step(o, params):
            for p in params:
                norm = p.grad.norm()
                o.state[p]["trust"] = 1.0 if norm == 0 else 1 / norm
                p.sub_(p.grad * o.state[p]["trust"])
        found = self.equals(self.stepping(step))
        self.assertEqual(states_of(found.updates[0]), [])

    def test_products_with_numbers(self):
        def step(o, params):
            o.count = getattr(o, "count", 0) + 1
            for p in params:
                square = torch.addmm(p @ p.T, p, p.grad.T, beta=0.1 / o.count, alpha=0.1)
                p.sub_(torch.addmm(p.grad, torch.tanh(square), p, alpha=0.01 / o.count), alpha=0.01)
        self.equals(self.stepping(step), shapes=MATRICES)


class Settings(WithUpdates):
    def groups(self, kind, **others):
        return lambda p: kind([{"params": p[:2]}, {"params": p[2:], **others}], lr=0.1)

    def test_groups_with_settings_of_their_own(self):
        found = self.equals(self.groups(optim.RMSprop, momentum=0.5, lr=0.01, weight_decay=0.1))
        self.assertEqual([x.parameters for x in found.updates], [["p0"], ["p1"], ["p2"], ["p3"]])
        self.equals(self.groups(optim.Adam, betas=(0.5, 0.9), amsgrad=True))

    def test_schedulers(self):
        for make, options in [
                (lambda o: lr.OneCycleLR(o, 0.1, total_steps=50), {}),
                (lambda o: lr.CosineAnnealingLR(o, 50), {}),
                (lambda o: lr.SequentialLR(o, [lr.LinearLR(o, 0.1, total_iters=5),
                                               lr.ExponentialLR(o, 0.9)], [5]), {}),
                (lambda o: lr.StepLR(o, 2, 0.5), {"every": 7})]:
            for kind in (optim.NAdam, optim.RMSprop):
                self.equals(of(kind, lr=0.1, **({"momentum": 0.9} if kind is optim.RMSprop else {})),
                            schedule=make, **options)

    def test_a_schedule_for_each_group(self):
        self.equals(self.groups(optim.Adam), schedule=lambda o: lr.LambdaLR(
            o, [lambda step: 0.9 ** step, lambda step: 1 / (1 + step)]))

    def test_a_schedule_of_the_weight_decay(self):
        found = self.equals(of(optim.AdamW, lr=0.1), schedule=FallingDecay)
        self.assertGreater(len(found.numbers), 2)

    def test_rates_that_are_tensors(self):
        self.equals(of(optim.Adam, lr=torch.tensor(0.1), amsgrad=True),
                    schedule=lambda o: lr.ExponentialLR(o, 0.9))

    def test_many_shapes_and_steps(self):
        """From the 64th step on, shapes with as many dims are not tried one by one."""
        class Late(optim.SGD):
            @torch.no_grad()
            def step(self):
                super().step()
                self.steps = getattr(self, "steps", 0) + 1
                if self.steps > 70:
                    for p in self.param_groups[0]["params"]:
                        p.mul_(0.99)
        shapes = ((4, 3), (5, 2), (5,), (6,), (2, 2))
        found = self.equals(of(Late, lr=0.1, momentum=0.5), steps=80, shapes=shapes)
        self.assertEqual(found.updates[1].phases, [Phase(0, 0), Phase(1, 1), Phase(70, 2)])
        self.equals(of(optim.NAdam), steps=80, shapes=shapes)


class Several(WithUpdates):
    """Optimizers that share the parameters of a model."""

    @staticmethod
    def pair(parameters):
        return [Muon([p for p in parameters if p.ndim > 1]),
                optim.AdamW([p for p in parameters if p.ndim < 2], 0.1)]

    def test_each_has_its_own_parameters(self):
        found = self.equals(self.pair)
        self.assertEqual({tuple(x.parameters): states_of(x) for x in found.updates},
                         {("p0", "p2"): ["buffer"], ("p1",): ["exp_avg", "exp_avg_sq"], ("p3",): ["buffer"]})

    def test_each_has_its_own_scheduler(self):
        def schedule(pair):
            return [lr.LambdaLR(pair[1], lambda step: 1 / (1 + step)), lr.ExponentialLR(pair[0], 0.9)]
        self.equals(self.pair, schedule=schedule)

    def test_branches_with_a_scheduler(self):
        class Clipped(optim.SGD):
            @torch.no_grad()
            def step(self):
                for p in self.param_groups[0]["params"]:
                    p.grad.mul_(0.5) if p.grad.norm() > 2 else None
                super().step()
        self.equals(lambda p: [Clipped(p[:2], 0.1, momentum=0.9), optim.NAdam(p[2:], 0.1)], steps=12,
                    schedule=lambda pair: [lr.ExponentialLR(x, 0.8) for x in pair])

    def test_the_one_that_cannot_be_captured_is_named(self):
        self.refuses("optimizer LBFGS cannot be captured: its step needs closure",
                     lambda p: [optim.SGD(p[:2], 0.1), optim.LBFGS(p[2:])])


class Histories(WithUpdates):
    """Optimizers that have made steps."""

    SHAPES = (*SHAPES, (1,), (1, 4))

    def test_each_goes_on_from_its_state(self):
        for kind, settings in [
                (optim.SGD, {"momentum": 0.9}), (optim.SGD, {}), (optim.Adam, {}), (optim.AdamW, {}),
                (optim.RMSprop, {"centered": True, "momentum": 0.5}), (optim.Adagrad, {"lr_decay": 0.1}),
                (optim.NAdam, {}), (optim.RAdam, {}), (optim.Adafactor, {}), (optim.Rprop, {}),
                (optim.ASGD, {"t0": 3}), (Lion, {}), (Lamb, {}), (ScheduleFree, {})]:
            with self.subTest(kind.__name__):
                self.equals(of(kind, **({"lr": 0.05} | settings)), before=5, steps=12, shapes=self.SHAPES)

    def test_phases_go_on(self):
        found = self.equals(of(optim.RAdam), before=3)
        self.assertEqual(found.updates[0].phases, [Phase(0, 0), Phase(2, 1)])
        alone = self.equals(of(optim.SGD, momentum=0.9, dampening=0.5), before=1)
        self.assertEqual(alone.updates[0].phases, [Phase(0, 0)])

    def test_several_with_schedulers(self):
        self.equals(Several.pair, before=7, steps=20, schedule=lambda pair: [
            lr.OneCycleLR(pair[1], 0.1, total_steps=27), lr.ExponentialLR(pair[0], 0.9)])

    def test_what_an_optimizer_keeps_elsewhere(self):
        def make(parameters):
            optimizer = Lookahead(optim.Adam(parameters))
            made_steps(optimizer, None, parameters, 7)
            return optimizer
        self.refuses("it keeps tensors elsewhere than in its state", make)

    def test_some_that_are_new(self):
        def make(parameters):
            pair = Several.pair(parameters)
            made_steps(pair[0], None, parameters, 3)
            return pair
        found = self.equals(make, steps=12)
        self.assertEqual(float(np.abs(found.states["exp_avg.p1"]).max()), 0)

    def changed(self, change):
        """RMSprop with a state that `change` has got with the parameters."""
        def make(parameters):
            optimizer = optim.RMSprop(parameters)
            made_steps(optimizer, None, parameters, 2)
            change(optimizer, parameters)
            return optimizer
        return make

    def test_states_that_are_not_those_of_the_parameters(self):
        def shape(o, p):
            o.state[p[1]]["square_avg"] = torch.rand(6)

        def kind(o, p):
            o.state[p[1]]["square_avg"] = torch.rand(5, dtype=torch.bfloat16)

        def missing(o, p):
            del o.state[p[1]]
        for text, change in [
                (r"its state square_avg of p1 has the shape \(6,\): allowed is \(5,\)", shape),
                ("its state square_avg of p1 has the type torch.bfloat16: allowed is float32", kind),
                ("it has states of some parameters of a group, and none of p1: allowed", missing)]:
            self.refuses(f"optimizer RMSprop cannot be captured: {text}", self.changed(change))


class Refused(WithUpdates):
    def stepping(self, step):
        """An optimizer with this step for each parameter."""
        class Own(optim.SGD):
            @torch.no_grad()
            def step(self):
                for p in self.param_groups[0]["params"]:
                    step(self, p)
        return of(Own, lr=0.1)

    def test_gradients_of_other_parameters(self):
        class Clipping(optim.SGD):
            def step(self):
                nn.utils.clip_grad_norm_(self.param_groups[0]["params"], 1.0)
                super().step()
        self.refuses(r"optimizer Clipping cannot be captured: the step at updates_test.py:\d+ computes "
                     "with the tensors of several parameters", of(Clipping, lr=0.1))

        class Shared(optim.SGD):
            @torch.no_grad()
            def step(self):
                for p in self.param_groups[0]["params"]:
                    self.total = getattr(self, "total", 0) + p.grad.norm()
                    p.sub_(p.grad / self.total)
        self.refuses("tensors of several parameters", of(Shared, lr=0.1))

    def test_numbers_of_contents(self):
        text = r"the step at updates_test.py:\d+ makes a Python number or a shape of the content"
        self.refuses(text, self.stepping(lambda o, p: p.sub_(float(p.grad.norm()))))
        self.refuses(text, self.stepping(lambda o, p: p.sub_(p[p.grad > 0].sum())))

        def loop(o, p):
            while p.grad.norm() > 1:
                p.grad.div_(2)
            p.sub_(p.grad)
        self.refuses("branches on the contents of tensors more than 16 times", self.stepping(loop))

    def test_numbers_of_tensors_that_decide_nothing_are_captured(self):
        self.equals(self.stepping(lambda o, p: p.sub_(
            p.grad, alpha=0.1 / max(1.0, p.grad.norm().item() / 2))))
        self.equals(self.stepping(lambda o, p: p.sub_(
            p.grad * min(0.1, 1 / (math.sqrt(p.norm().item()) + 1)) ** 0.5)))

    def test_random_numbers(self):
        self.refuses(r"at updates_test.py:\d+ draws random numbers",
                     self.stepping(lambda o, p: p.add_(torch.randn_like(p))))
        self.refuses("draws random numbers", self.stepping(lambda o, p: p.add_(torch.rand(1))))

    def test_types(self):
        def double(o, p):
            o.state[p].setdefault("total", torch.zeros_like(p, dtype=torch.float64)).add_(p.grad)
            p.sub_(o.state[p]["total"].float())
        self.refuses("float64", self.stepping(double))
        parameter = nn.Parameter(torch.randn(3, dtype=torch.float64))
        from easyscale.tracing.updates import capture_updates
        with self.assertRaisesRegex(OptimizerRefused, "w has the type torch.float64: allowed"):
            capture_updates(optim.RMSprop([parameter]), [("w", parameter)], 3)

    def test_an_operator_that_the_engine_has_not(self):
        self.refuses("linalg", self.stepping(lambda o, p: p.sub_(torch.linalg.svdvals(
            p.reshape(len(p), -1)).sum())))

    def test_a_step_that_fails(self):
        def fail(o, p):
            raise ValueError("no such thing")
        self.refuses(r"its step fails at updates_test.py:\d+.*ValueError: no such thing",
                     self.stepping(fail))

    def test_a_schedule_of_another_optimizer(self):
        other = optim.SGD([nn.Parameter(torch.zeros(2))], 0.1)
        self.refuses("a scheduler of another optimizer", of(optim.NAdam),
                     schedule=lambda o: lr.ExponentialLR(other, 0.9))

    def test_a_program_for_every_step(self):
        def roll(o, p):
            o.count = getattr(o, "count", 0) + 1
            p.sub_(p.grad.roll(o.count))
        self.refuses("in more than 32 ways", self.stepping(roll), shapes=((5,),), steps=200)

    def test_what_is_kept_where_no_capture_sees_it(self):
        kept = {}

        def hidden(o, p):
            kept[p.shape] = kept.get(p.shape, 0) + p.grad
            p.sub_(kept[p.shape])
        self.refuses("is kept in no place which a capture sees", self.stepping(hidden), shapes=((5,),))


class Written:
    """Writes optimizers: arithmetic of elements, reductions, one to three states, bias corrections, and
    sometimes a branch on a norm."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self):
        return round(self.random.uniform(0.05, 0.95), 3)

    def term(self, names, depth=0):
        """An expression of the size of the parameter, of moderate magnitude."""
        pick = self.random.choice
        if depth > 2 or self.random.random() < 0.25:
            return pick(names)
        x, y = self.term(names, depth + 1), self.term(names, depth + 1)
        form = pick(["({x} + {n} * {y})", "({x} - {y})", "({x} * torch.tanh({y}))",
                     "({x} / (({y}) ** 2 + {n}).sqrt())", "torch.sign({x})", "({x}).clamp(-{n}, {n})",
                     "({x}) / (({y}).norm() + {n})", "({x} - ({y}).mean())",
                     "({x}) / (({y}).abs().amax() + {n})", "torch.where({x} > {n}, {x}, {y})",
                     "torch.maximum({x}, {y})", "torch.lerp({x}, {y}, {n})",
                     "torch.addcmul({x}, torch.tanh({x}), {y}, value={n})",
                     "torch.addcdiv({x}, {y}, 1 + ({x}).abs(), value={n})",
                     "({x}) * correction", "({x}) / (1 - {n} ** t)", "({x}).mul(group['lr'])",
                     "({x}).add({y}, alpha={n} / t)", "({x}) / (1 + ({y}).square().sum(-1, keepdim=True))",
                     "({x}).pow(2) / (1 + ({x}).abs())", "torch.exp(-({x}).abs())", "-({x})"])
        return form.format(x=x, y=y, n=self.number())

    def text(self):
        """The text of a class."""
        count, pick = self.random.randint(1, 3), self.random.choice
        states = [f"s{i}" for i in range(count)]
        lines = []
        for name in states:
            first = pick(["torch.zeros_like(p)", "torch.zeros(p.shape)", "p.grad.clone()", "p.clone()",
                          f"torch.full_like(p, {self.number()})"])
            lines += [f"    if '{name}' not in state:", f"        state['{name}'] = {first}"]
        names = ["g", "p", *states]
        lines += [f"    {name} = state['{name}']" for name in states]
        if self.random.random() < 0.5:
            lines += [f"    g = g.add(p, alpha={self.number()})"]
        if self.random.random() < 0.15:
            lines += ["    if g.norm() > 3.0:", "        g = g * (3.0 / g.norm())"]
        for name in states:
            n, term = self.number(), self.term(names, 1)
            lines.append("    " + pick([
                f"{name}.mul_({n}).add_({term}, alpha={1 - n:.3f})", f"{name}.lerp_({term}, {n})",
                f"{name}.mul_({n}).addcmul_(g, torch.tanh({term}), value={self.number()})",
                f"{name} = state['{name}'] = {name} * {n} + {term} * {1 - n:.3f}",
                f"{name}.copy_(torch.maximum({name} * {n}, ({term}).abs()))"]))
        change = self.term(names)
        lines.append("    " + pick([f"p.sub_({change}, alpha=group['lr'])",
                                    f"p.add_(-group['lr'] * ({change}))",
                                    f"p.data = p.data - group['lr'] * ({change})",
                                    f"p.mul_(1 - group['lr'] * {self.number()}).add_({change}, "
                                    "alpha=-group['lr'] / t ** 0.5)"]))
        body = textwrap.indent("\n".join(lines), " " * 8)
        return f"""
class Own(torch.optim.Optimizer):
    def __init__(self, parameters, lr=0.01):
        super().__init__(parameters, {{"lr": lr}})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
          for p in group["params"]:
            state, g = self.state[p], p.grad
            t = state["t"] = state.get("t", 0) + 1
            correction = (1 - 0.9 ** t) / (1 - 0.99 ** t) ** 0.5
            if True:
{textwrap.indent(body, " " * 4)}
"""


class Random(WithUpdates):
    def test_optimizers_that_are_written_at_run_time(self):
        seed = int(os.environ.get("ES_SEED", random.randrange(10**6)))
        print(f"seed {seed}: ES_SEED={seed} python/tests/run updates_test.py Random")
        for number in range(RANDOM):
            text = Written(f"{seed} {number}").text()
            space = {"torch": torch}
            exec(text, space)
            with self.subTest(seed=seed, number=number), warnings.catch_warnings():
                worst, _ = largest_error(of(space["Own"]), steps=12, shapes=((4, 3), (5,)))
                self.assertLess(worst, 1e-3, text)


class Jobs(FakeProgramsCase):
    def job(self, kind, model=None, **options):
        model = model or nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
        settings = options.pop("settings", {})
        optimizer = kind(model.parameters(), **settings)
        schedule = options.pop("schedule", None)
        x, y = np.random.default_rng(1).normal(size=(16, 4)), np.arange(16) % 3
        return es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(x, y), batch_size=2, max_p=2,
                      optimizer=optimizer, schedule=schedule and schedule(optimizer),
                      **({"steps": 5} | options))

    def test_a_job_has_the_updates_in_its_model(self):
        job = self.job(optim.RMSprop, clip_norm=1.0, ema=0.5, settings={"lr": 0.25})
        program = Program.from_json(job.captured.program.to_json())
        self.assertEqual(program.format, FORMAT_WITH_UPDATES)
        self.assertEqual([x.parameters for x in program.updates],
                         [["0.weight"], ["0.bias"], ["2.weight"], ["2.bias"]])
        self.assertEqual([x.values.shape for x in program.numbers], [])
        table = job.toml().partition("[optimizer]\n")[2].partition("\n\n")[0]
        self.assertEqual(table, 'kind = "captured"\nlearning_rate = 0.25\nclip_norm = 1.0\nema = 0.5')
        self.assertIn('[schedule]\nkind = "constant"', job.toml())

    def test_a_schedule_by_epochs(self):
        job = self.job(optim.NAdam, steps=None, epochs=3, schedule_unit="epoch",
                       schedule=lambda o: lr.ExponentialLR(o, 0.5))
        self.assertEqual({len(x.values) for x in job.captured.program.numbers}, {12})

    def test_what_goes_on_with_the_engines_own_kinds(self):
        job = self.job(optim.AdamW)
        self.assertEqual((job.captured.program.updates, job.captured.program.format), ([], 1))

    def test_several_optimizers(self):
        def pair(parameters):
            weight, bias, *others = parameters
            return [optim.SGD([weight, bias], 0.1), optim.AdamW(others)]
        job = self.job(pair, schedule=lambda pair: [None, lr.ExponentialLR(pair[1], 0.5)])
        self.assertEqual([x.parameters for x in job.captured.program.updates],
                         [["0.weight"], ["0.bias"], ["2.weight"], ["2.bias"]])
        self.assertIn('kind = "captured"\nlearning_rate = 0.1\n', job.toml())
        alone = self.job(lambda p: [optim.AdamW(p)], schedule=lambda one: [lr.StepLR(one[0], 2)])
        self.assertIn('[schedule]\nkind = "step"\nstep_size = 2\n', alone.toml())

    def test_clipping_by_value(self):
        program = self.job(optim.SGD, clip_value=0.5, settings={"lr": 1.0}).captured.program
        gradient = torch.tensor([-2.0, 0.25, 2.0])
        bias = next(x for x in program.updates if x.parameters == ["2.bias"])
        moved = Trained(bias, program.numbers, torch.zeros(3)).step(0, gradient)
        self.assertEqual(moved.tolist(), [0.5, -0.25, -0.5])
        self.assertFalse(self.job(optim.AdamW, clip_value=0).captured.program.updates)
        model = nn.Linear(4, 3)
        for text, optimizer, value in [
                ("clip_value = -1: allowed is 0", optim.SGD(model.parameters()), -1),
                ("clip_value: allowed with an optimizer of torch", es.Optimizer(), 0.5)]:
            with self.assertRaisesRegex(es.UsageError, text):
                es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(
                    np.zeros((8, 4), np.float32), np.arange(8) % 3), steps=1, batch_size=2, max_p=2,
                    optimizer=optimizer, clip_value=value)

    def test_refusals_of_several_optimizers(self):
        for text, make in [
                ("optimizer SGD and AdamW: 1 parameters are in more than one of them \\(0.bias\\)",
                 lambda p: [optim.SGD(p[:2], 0.1), optim.AdamW(p[1:])]),
                ("optimizer SGD and AdamW has not all parameters.*1 are missing \\(2.bias\\)",
                 lambda p: [optim.SGD(p[:2], 0.1), optim.AdamW(p[2:3])]),
                ("optimizer SGD and Optimizer: allowed are optimizers of torch.optim",
                 lambda p: [optim.SGD(p, 0.1), es.Optimizer()]),
                (r"optimizer \[\]: allowed are", lambda p: [])]:
            with self.assertRaisesRegex(es.UsageError, text):
                self.job(lambda parameters, make=make: make(list(parameters)))
        with self.assertRaisesRegex(es.UsageError, "allowed is a torch scheduler with SGD and AdamW"):
            self.job(lambda p: [optim.SGD([next(p)], 0.1), optim.AdamW(p)],
                     schedule=lambda pair: [es.Schedule("cosine"), None])

    def test_a_state_of_a_parameter_that_is_not_trained(self):
        def make(parameters):
            parameters = list(parameters)
            optimizer = optim.AdamW(parameters)
            made_steps(optimizer, None, parameters, 1)
            parameters[1].requires_grad_(False)
            return optimizer
        with self.assertRaisesRegex(es.UsageError, "states of 1 parameters that are not trained .0.bias."):
            self.job(make)

    def test_refusals(self):
        for text, call in [
                ("T_max = 3, in a job of 5", lambda: self.job(
                    optim.RMSprop, schedule=lambda o: lr.CosineAnnealingLR(o, 3))),
                ("schedule: allowed is a torch scheduler with RMSprop", lambda: self.job(
                    optim.RMSprop, schedule=lambda o: es.Schedule("cosine"))),
                ("lora: allowed with sgd, adam and adamw; RMSprop", lambda: self.job(
                    optim.RMSprop, lora=es.Lora(["0"]))),
                ("optimizer LBFGS cannot be captured", lambda: self.job(optim.LBFGS))]:
            with self.assertRaisesRegex(es.EasyScaleError, text):
                call()



class Plateaus(unittest.TestCase):
    """Rates that fall when an evaluation decides it, which is not known at the capture."""

    METRICS = (1.0, 0.6, 0.8, 0.7, 0.5, 0.9, 0.9, 0.9)

    def compare(self, make, own=lambda optimizer: optimizer, others=lambda optimizer: [], **settings):
        torch.manual_seed(1)
        parameters = [(f"p{i}", nn.Parameter(torch.randn(shape))) for i, shape in enumerate(SHAPES)]
        optimizer = make([p for _, p in parameters])
        plateau = lr.ReduceLROnPlateau(own(optimizer), factor=0.5, patience=0, **settings)
        more = others(optimizer)
        found = capture_updates(optimizer, parameters, 50, [plateau, *more], lowered=5)
        programs = {name: update for update in found.updates for name in update.parameters}
        mine = {name: Trained(programs[name], found.numbers, p) for name, p in parameters}
        times, rates = 0, []
        for step in range(50):
            for name, p in parameters:
                p.grad = torch.randn(p.shape)
                mine[name].numbers = [x.lowered(times) for x in found.numbers]
                mine[name].step(step, p.grad.clone())
            for x in [*listed(optimizer), *more]:
                x.step()
            if step % 6 == 5:
                plateau.step(self.METRICS[step // 6])
                times += self.METRICS[step // 6] > min(self.METRICS[:step // 6], default=9)
            rates.append([group["lr"] for group in plateau.optimizer.param_groups])
            for name, p in parameters:
                error = float((mine[name].tensors["parameter"] - p.detach()).norm() / p.detach().norm())
                self.assertLess(error, ERROR, (step, name))
        self.assertEqual(times, 5)
        self.assertLess(rates[-1], rates[0])
        return found, rates

    def test_numbers_of_each_rate(self):
        found, _ = self.compare(Lion)
        self.assertEqual({x.reductions for x in found.numbers}, {5})
        found, _ = self.compare(lambda p: optim.NAdam(p, lr=0.01))
        self.assertEqual({x.reductions for x in found.numbers}, {0, 5})
        self.compare(Muon)

    def test_a_floor_for_each_group(self):
        _, rates = self.compare(lambda p: optim.RMSprop([{"params": p[:2]}, {"params": p[2:], "lr": 0.02}], lr=0.01),
                                min_lr=[0.002, 0.015])
        self.assertEqual(rates[-1], [0.002, 0.015])

    def test_one_of_several(self):
        self.compare(lambda p: [Lion(p[:2]), optim.AdamW(p[2:], lr=0.01)], own=lambda pair: pair[1],
                     others=lambda pair: [lr.ExponentialLR(pair[0], 0.9)])


if __name__ == "__main__":
    unittest.main()
