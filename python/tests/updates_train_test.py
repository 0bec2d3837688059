#!/usr/bin/env python3
"""Trains with captured optimizers by the real programs, beside PyTorch, on changing devices.

All samples are one global batch, so their order in it does not matter.
"""
import copy
import os
import random
import unittest

import numpy as np
import torch
from support import ElasticCase, programs_train_model_files
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch_training import listed, torch_losses
from updates_support import Lion, orthogonal
from updates_test import Written

import easyscale as es

SAMPLES, STEPS, MAX_P = 32, 50, 4
MIX = "cpu-avx2:2@20,cpu-scalar:1@10,cpu-avx2:1+cpu-scalar:2"


class Net(nn.Module):
    """A convolution, a matrix and vectors: parameters that optimizers treat differently."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 6, 3), nn.GroupNorm(2, 6)
        self.hidden, self.last = nn.Linear(54, 16), nn.Linear(16, 3)

    def forward(self, x):
        x = torch.tanh(self.norm(self.conv(x))).flatten(1)
        return self.last(torch.tanh(self.hidden(x)))


class ScheduleFree(torch.optim.Optimizer):
    """The SGD of schedule-free learning (Defazio et al., 2024). The parameter is y in training, and x in
    evaluation."""

    def __init__(self, params, lr=0.1, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum, "steps": 0, "trains": True})

    @torch.no_grad()
    def _move(self, trains):
        for group in self.param_groups:
            weight = 1 - group["momentum"] if trains else 1 - 1 / group["momentum"]
            for p in group["params"] if group["trains"] != trains else []:
                if "z" in self.state[p]:
                    p.lerp_(self.state[p]["z"], weight)
            group["trains"] = trains

    def eval(self):
        self._move(False)

    def train(self):
        self._move(True)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            if not group["trains"]:
                raise RuntimeError("the optimizer is in evaluation")
            group["steps"] += 1
            share = 1 / group["steps"]
            for p in group["params"]:
                z = self.state[p].setdefault("z", p.clone())
                p.lerp_(z, share)
                p.add_(p.grad, alpha=group["lr"] * (group["momentum"] * (1 - share) - 1))
                z.sub_(p.grad, alpha=group["lr"])


class MuonOrAdamW(torch.optim.Optimizer):
    """Matrices by the orthogonalised momentum, the rest by AdamW, as in speed runs of GPT-2."""

    def __init__(self, params, lr=0.02, momentum=0.95):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if p.ndim >= 2:
                    buffer = state.setdefault("momentum", torch.zeros_like(p))
                    buffer.lerp_(p.grad, 1 - group["momentum"])
                    update = orthogonal(p.grad.lerp(buffer, group["momentum"]).flatten(1)).view_as(p)
                    scale = max(1, p.size(0) / p[0].numel()) ** 0.5
                    p.add_(update, alpha=-group["lr"] * scale)
                    continue
                if not state:
                    state.update(step=0, first=torch.zeros_like(p), second=torch.zeros_like(p))
                state["step"] += 1
                state["first"].mul_(0.9).add_(p.grad, alpha=0.1)
                state["second"].mul_(0.95).addcmul_(p.grad, p.grad, value=0.05)
                root = (state["second"] / (1 - 0.95 ** state["step"])).sqrt() + 1e-8
                p.addcdiv_(state["first"] / (1 - 0.9 ** state["step"]), root, value=-3e-3)


OPTIMIZERS = {
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.02, initial_accumulator_value=0.1),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.5),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1e-3),
    "nadam": lambda p: torch.optim.NAdam(p, lr=1e-3),
    "radam": lambda p: torch.optim.RAdam(p, lr=1e-2),
    "amsgrad": lambda p: torch.optim.AdamW(p, lr=1e-3, amsgrad=True),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.05),
    "dampened": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3),
    "lion": Lion,
    "muon": MuonOrAdamW,
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.02),
}


def arrays(seed=0):
    numbers = np.random.default_rng(seed)
    return (numbers.standard_normal((SAMPLES, 2, 5, 5)).astype(np.float32),
            numbers.integers(0, 3, SAMPLES).astype(np.int64))


@unittest.skipUnless(programs_train_model_files(), "no programs that train model files")
class CapturedOptimizers(ElasticCase):
    def model(self):
        torch.manual_seed(1)
        return Net()

    def job(self, make, steps=STEPS, schedule=None, **options):
        model = self.model()
        optimizer = make(model.parameters())
        return es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(*arrays()),
                      steps=steps, batch_size=SAMPLES // MAX_P, max_p=MAX_P, optimizer=optimizer,
                      schedule=schedule and schedule(optimizer), **options)

    def test_every_optimizer_trains_as_in_pytorch_and_with_one_digest(self):
        for name, make in OPTIMIZERS.items():
            with self.subTest(name):
                model, job = self.model(), self.job(make)
                wanted = torch_losses(model, make(model.parameters()), nn.CrossEntropyLoss(),
                                      arrays(), STEPS)
                run, mixed = job.run(stages="cpu-avx2:1"), job.run(stages=MIX)
                self.assertEqual((mixed.params_digest, mixed.state_digest),
                                 (run.params_digest, run.state_digest))
                losses = [entry.loss for entry in run.history]
                np.testing.assert_allclose(losses, wanted, rtol=2e-3, atol=2e-4)
                self.assertLess(losses[-1], losses[0])

    def test_optimizers_that_are_written_at_run_time(self):
        seed = int(os.environ.get("ES_SEED", random.randrange(10**6)))
        print(f"seed {seed}: ES_SEED={seed} python/tests/run updates_train_test.py")
        for number in range(4):
            text = Written(f"{seed} {number}").text()
            space = {"torch": torch}
            exec(text, space)
            with self.subTest(seed=seed, number=number):
                model, job = self.model(), self.job(space["Own"], steps=9)
                wanted = torch_losses(model, space["Own"](model.parameters()), nn.CrossEntropyLoss(),
                                      arrays(), 9)
                run, mixed = job.run(stages="cpu-avx2:1"), job.run(stages="cpu-avx2:2@4,cpu-scalar:1")
                self.assertEqual((mixed.params_digest, mixed.state_digest),
                                 (run.params_digest, run.state_digest))
                np.testing.assert_allclose([x.loss for x in run.history], wanted, rtol=1e-3, atol=1e-4)

    def test_several_optimizers_train_as_in_pytorch(self):
        def make(parameters):
            parameters = list(parameters)
            return [MuonOrAdamW([p for p in parameters if p.ndim > 1]),
                    torch.optim.AdamW([p for p in parameters if p.ndim < 2], lr=0.01)]

        def schedulers(pair):
            return [None, torch.optim.lr_scheduler.ExponentialLR(pair[1], 0.9)]
        model = self.model()
        pair = make(model.parameters())
        job = self.job(make, schedule=schedulers)
        wanted = torch_losses(model, pair, nn.CrossEntropyLoss(), arrays(), STEPS, schedulers(pair))
        run, mixed = job.run(stages="cpu-avx2:1"), job.run(stages=MIX)
        self.assertEqual((mixed.params_digest, mixed.state_digest), (run.params_digest, run.state_digest))
        np.testing.assert_allclose([x.loss for x in run.history], wanted, rtol=2e-3, atol=2e-4)

    def test_a_job_goes_on_from_the_state_of_torch(self):
        pair = OPTIMIZERS | {"momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
                             "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3)}
        for name in ("momentum", "adamw", "nadam", "adafactor"):
            with self.subTest(name):
                wanted = torch_losses(*self.trained(pair[name])[:2], nn.CrossEntropyLoss(), arrays(), 10)
                model, optimizer, schedule = self.trained(pair[name])
                job = es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(*arrays()), steps=10,
                             batch_size=SAMPLES // MAX_P, max_p=MAX_P, optimizer=optimizer)
                run = job.run(stages="cpu-avx2:1")
                mixed = job.run(stages="cpu-avx2:2@4,cpu-scalar:1")
                self.assertEqual((mixed.params_digest, mixed.state_digest),
                                 (run.params_digest, run.state_digest))
                np.testing.assert_allclose([x.loss for x in run.history], wanted, rtol=1e-3, atol=1e-4)

    def trained(self, make, steps=5, rate=None):
        """A model, its optimizer and its scheduler after steps of torch."""
        model = self.model()
        optimizer = make(model.parameters())
        schedule = rate and torch.optim.lr_scheduler.ExponentialLR(optimizer, rate)
        torch_losses(model, optimizer, nn.CrossEntropyLoss(), arrays(), steps, schedule)
        model.zero_grad()
        return model, optimizer, schedule

    def test_a_schedule_goes_on(self):
        model, optimizer, schedule = self.trained(OPTIMIZERS["rmsprop"], rate=0.8)
        job = es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(*arrays()), steps=10,
                     batch_size=SAMPLES // MAX_P, max_p=MAX_P, optimizer=optimizer, schedule=schedule)
        run = job.run(stages="cpu-avx2:1")
        wanted = torch_losses(model, optimizer, nn.CrossEntropyLoss(), arrays(), 10, schedule)
        np.testing.assert_allclose([x.loss for x in run.history], wanted, rtol=1e-3, atol=1e-4)

    def assert_same(self, found, wanted):
        """Compares state dicts, whose tensors may differ by rounding."""
        self.assertIs(type(found), type(wanted))
        if isinstance(wanted, dict):
            self.assertEqual(list(found), list(wanted))
            for key, value in wanted.items():
                self.assert_same(found[key], value)
        elif isinstance(wanted, list):
            self.assertEqual(len(found), len(wanted))
            for x, y in zip(found, wanted):
                self.assert_same(x, y)
        elif isinstance(wanted, torch.Tensor):
            self.assertEqual((found.shape, found.dtype), (wanted.shape, wanted.dtype))
            self.assertLess(float((found - wanted).norm()), 1e-2 * float(wanted.norm()) + 1e-6)
        else:
            self.assertEqual(found, wanted)

    def test_torch_goes_on_from_an_optimizer_without_states(self):
        run = self.job(lambda p: torch.optim.SGD(p, lr=0.05), steps=2).run(stages="cpu-avx2:1")
        model = self.model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        run.load_into(model, optimizer=optimizer)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.05)

    def test_torch_goes_on_from_the_state_of_a_job(self):
        def rate(optimizer):
            return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

        def halves(parameters):
            parameters = list(parameters)
            return [MuonOrAdamW(parameters[::2]), torch.optim.NAdam(parameters[1::2], lr=1e-3)]
        cases = {name: (OPTIMIZERS[name], rate) for name in ("rmsprop", "adafactor", "nadam")} | {
            "momentum": (lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), rate),
            "adamw": (lambda p: torch.optim.AdamW(p, lr=1e-3), None),
            "two": (halves, lambda pair: [rate(pair[1])])}
        for name, (make, schedule) in cases.items():
            with self.subTest(name):
                def trained(model, steps, optimizer, scheduler):
                    return torch_losses(model, optimizer, nn.CrossEntropyLoss(), arrays(), steps, scheduler)
                model = self.model()
                optimizer = make(model.parameters())
                scheduler = schedule and schedule(optimizer)
                trained(model, 10, optimizer, scheduler)
                states = copy.deepcopy([x.state_dict() for x in listed(optimizer)])
                wanted = trained(model, 5, optimizer, scheduler)
                run = self.job(make, steps=10, schedule=schedule).run(stages="cpu-avx2:1")
                model = self.model()
                optimizer = make(model.parameters())
                scheduler = schedule and schedule(optimizer)
                run.load_into(model, optimizer=optimizer, schedule=scheduler)
                for found, state in zip(listed(optimizer), states):
                    self.assert_same(found.state_dict(), state)
                np.testing.assert_allclose(trained(model, 5, optimizer, scheduler), wanted, rtol=1e-3,
                                           atol=1e-4)
                other = self.model()
                with self.assertRaisesRegex(es.UsageError, "has other groups of parameters"):
                    run.load_into(other, optimizer=optimizer)
        with self.assertRaisesRegex(es.UsageError, "optimizer is SGD: allowed is MuonOrAdamW and NAdam"):
            run.load_into(other, optimizer=torch.optim.SGD(other.parameters(), 0.1))

    def test_sharded_state_has_the_same_bits(self):
        for name in ("muon", "lion", "adafactor"):
            with self.subTest(name):
                whole = self.job(OPTIMIZERS[name], steps=8).run(stages="cpu-avx2:1", progress=False)
                divided = self.job(OPTIMIZERS[name], steps=8, shard_state="on").run(
                    stages="cpu-avx2:3@4,cpu-avx2:2+cpu-scalar:2", progress=False)
                self.assertEqual((divided.params_digest, divided.state_digest),
                                 (whole.params_digest, whole.state_digest))
        with self.assertRaisesRegex(es.UsageError, 'shard.state = "on": allowed is "auto" or "off" with an '
                                                   "optimizer whose evaluations use other weights"):
            self.job(ScheduleFree, steps=2, shard_state="on").run(stages="cpu-avx2:1", progress=False)

    def test_clipping_by_value_is_that_of_pytorch(self):
        def make(parameters):
            return torch.optim.SGD(parameters, lr=0.5, momentum=0.9)
        for options in ({"clip_value": 0.01}, {"clip_norm": 0.2, "clip_value": 0.02}):
            model = self.model()
            wanted = torch_losses(model, make(model.parameters()), nn.CrossEntropyLoss(), arrays(), 15,
                                  **options)
            run = self.job(make, steps=15, **options).run(stages="cpu-avx2:2@5,cpu-scalar:1")
            np.testing.assert_allclose([x.loss for x in run.history], wanted, rtol=1e-3, atol=1e-4)

    def test_evaluations_use_averages_and_the_weights_of_schedule_free_optimizers(self):
        def warm_up(average, parameter, steps):
            return torch.lerp(average, parameter, 1 - min(0.9, (1 + steps) / (3 + steps)))

        def momentum(parameters):
            return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
        samples = arrays()
        x, y = map(torch.from_numpy, samples)
        for name, make, average in (("warm-up", momentum, lambda m: AveragedModel(m, avg_fn=warm_up)),
                                    ("mean", OPTIMIZERS["adafactor"], AveragedModel),
                                    ("schedule-free", ScheduleFree, None)):
            with self.subTest(name):
                model = self.model()
                averaged = average and average(model)
                job = self.job(make, steps=9, eval_data=es.data.arrays(*samples), eval_every=3,
                               **({"ema": average(model)} if average else {}))
                run, mixed = job.run(stages="cpu-avx2:1"), job.run(stages="cpu-avx2:2@4,cpu-scalar:1")
                self.assertEqual((mixed.params_digest, mixed.state_digest),
                                 (run.params_digest, run.state_digest))
                optimizer, losses = make(model.parameters()), []
                for step in range(9):
                    torch_losses(model, optimizer, nn.CrossEntropyLoss(), samples, 1)
                    if average:
                        averaged.update_parameters(model)
                    else:
                        optimizer.eval()
                    with torch.no_grad():
                        losses.append(nn.functional.cross_entropy((averaged or model)(x), y).item())
                    weights = {key: tensor.clone() for key, tensor in model.state_dict().items()}
                    if not average:
                        optimizer.train()
                np.testing.assert_allclose([run.evaluations[i]["mean_loss"] for i in range(-3, 0)],
                                           losses[2::3], rtol=1e-4)
                wanted = averaged.module.state_dict() if average else weights
                for key, tensor in run.state_dict(ema=True).items():
                    np.testing.assert_allclose(tensor, wanted[key].numpy(), rtol=1e-3, atol=1e-5)
                    self.assertGreater(np.abs(tensor - run.state_dict()[key]).max(), 1e-5)

    def test_averages_that_a_job_cannot_have_are_refused(self):
        other, begun = AveragedModel(nn.Linear(2, 2)), AveragedModel(self.model())
        begun.update_parameters(self.model())
        for average, text in ((other, "other parameters"), (begun, "averages of 1 steps"),
                              (AveragedModel(self.model(), use_buffers=True), "use_buffers")):
            with self.assertRaisesRegex(es.UsageError, f"ema: the AveragedModel has {text}"):
                self.job(OPTIMIZERS["lion"], ema=average)
        with self.assertRaisesRegex(es.UsageError, "ema with an AveragedModel: allowed with"):
            self.job(lambda _: es.Optimizer("sgd"), ema=AveragedModel(self.model()))

    def test_devices_that_change_give_the_same_bits(self):
        job = self.job(OPTIMIZERS["muon"], steps=9)
        run, mixed = job.run(stages="cpu-avx2:1"), job.run(stages="cpu-avx2:2@4,cpu-scalar:1")
        self.assertEqual((mixed.params_digest, mixed.state_digest),
                         (run.params_digest, run.state_digest))

    def test_a_worker_that_is_killed_a_pause_and_other_devices_change_no_bit(self):
        for name in ("muon", "adafactor", "lion"):
            with self.subTest(name):
                job = self.job(OPTIMIZERS[name], steps=1500, checkpoint_every=50,
                               directory=self.folder / name)
                run = self.disturbed(job, "cpu-avx2:2@200,cpu-scalar:1+cpu-avx2:1", pause_at=60)
                whole = job.run(stages="cpu-avx2:1")
                self.assertEqual((run.params_digest, run.state_digest),
                                 (whole.params_digest, whole.state_digest))


if __name__ == "__main__":
    unittest.main()
