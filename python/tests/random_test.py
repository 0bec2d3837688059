#!/usr/bin/env python3
"""Models that draw random numbers: what torch's calls become, and how such a model trains.

The self-check of the capture gives the module and the program the same uniform numbers. The tests
of training give PyTorch the numbers of the engine.
"""
import subprocess
import unittest

import capture_support
import numpy as np
import torch
import torch.nn.functional as F
from support import FolderCase, offered_types, programs_train_model_files
from torch import nn

import easyscale as es
from easyscale import draws
from easyscale.programs import find_esctl
from easyscale.tracing import capture, errors
from easyscale.tracing.same_draws import SameDraws

SAMPLES, STEPS, MAX_P, SEED = 32, 9, 4, 5


class Sampler(nn.Module):
    """Samples from a distribution with a computed mean and spread, also in evaluation."""

    def __init__(self, sample):
        super().__init__()
        self.encode, self.sample = nn.Linear(6, 8), sample

    def forward(self, x):
        mean, spread = self.encode(x).chunk(2, 1)
        return self.sample(mean, spread.exp())


CALLS = {
    "rand": lambda m, s: m + s * torch.rand(len(m), 4),
    "rand_like": lambda m, s: m + s * torch.rand_like(m),
    "randn": lambda m, s: m + s * torch.randn(m.shape),
    "randn_like": lambda m, s: m + s * torch.randn_like(s) + torch.randn_like(m).abs(),
    "one number": lambda m, s: m + s * torch.randn(()) + torch.empty(()).uniform_(),
    "one row": lambda m, s: m + s * torch.randn(4),
    "normal_": lambda m, s: m + s * torch.empty_like(m).normal_(0.5, 2.0),
    "normal of numbers": lambda m, s: m * torch.normal(1.0, 0.5, m.shape) + s,
    "normal of tensors": lambda m, s: torch.normal(m, s) * m + torch.normal(m, 0.5) * s,
    "normal of a deviation": lambda m, s: torch.normal(0.5, s) * m,
    "uniform_": lambda m, s: m + s * torch.empty_like(m).uniform_(-1.0, 2.0),
    "exponential_": lambda m, s: m + s * torch.empty_like(m).exponential_(2.0),
    "bernoulli": lambda m, s: torch.bernoulli(m.sigmoid()) * s + m,
    "bernoulli of a number": lambda m, s: torch.bernoulli(torch.ones_like(m), 0.3) * s + m,
    "bernoulli_": lambda m, s: torch.zeros_like(m).bernoulli_(m.sigmoid()) * s + m,
    "randint": lambda m, s: m[torch.randint(0, 3, (len(m),)) * 0] + torch.randint(7, (4,)) * s,
    "randperm": lambda m, s: m[torch.randperm(len(m))] * s + m[:, torch.randperm(4)],
    "rsample": lambda m, s: torch.distributions.Normal(m, s).rsample(),
    "sample": lambda m, s: torch.distributions.Normal(m, s).sample() * m + s,
    "uniform sample": lambda m, s: torch.distributions.Uniform(m, m + s).rsample(),
    "bernoulli sample": lambda m, s: torch.distributions.Bernoulli(m.sigmoid()).sample() * s + m,
    "dropout in evaluation": lambda m, s: F.dropout(m, 0.3) + F.dropout(s, 0.4),
    "rrelu": lambda m, s: F.rrelu(m, 0.1, 0.6, training=True) + nn.RReLU(inplace=True)(m * s),
    "gumbel_softmax": lambda m, s: F.gumbel_softmax(m, tau=0.5) * s,
}


def floored(x, keep):
    """Stochastic depth as transformers writes it."""
    return x / keep * (keep + torch.rand(len(x), 1)).floor()


def divided(x, keep):
    """Stochastic depth as torchvision writes it."""
    return x * torch.empty(len(x), 1).bernoulli_(keep).div_(keep)


def mean_of_squares(outputs, targets):
    return (outputs.square() + outputs.sin()).mean()


def captured_sampler(sample):
    torch.manual_seed(1)
    return capture(Sampler(sample), mean_of_squares, torch.randn(4, 6), torch.zeros(4))


class Vae(nn.Module):
    """A variational autoencoder with dropout, so that evaluation has other draws."""

    def __init__(self):
        super().__init__()
        self.encode, self.mean, self.spread = nn.Linear(12, 8), nn.Linear(8, 3), nn.Linear(8, 3)
        self.drop, self.decode = nn.Dropout(0.25), nn.Linear(3, 12)

    def forward(self, x):
        hidden = self.drop(self.encode(x).relu())
        mean, spread = self.mean(hidden), self.spread(hidden)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * spread)
        return self.decode(code), mean, spread


class Mixed(nn.Module):
    """Draws from most of the distributions; its outputs are those of the autoencoder."""

    def __init__(self):
        super().__init__()
        self.encode, self.codes = nn.Linear(12, 8), nn.Embedding(5, 4)
        self.decode = nn.Linear(12, 12)

    def forward(self, x):
        mean, spread = self.encode(x).chunk(2, 1)
        chosen = F.gumbel_softmax(mean, tau=0.7) * torch.bernoulli(spread.sigmoid())
        code = self.codes(torch.randint(1, 5, (len(x),)))
        noise = spread * torch.empty_like(spread).uniform_(-1.0, 1.0) + torch.randn(())
        return self.decode(torch.cat([chosen, code, noise], 1)), mean, spread


def vae_loss(outputs, target):
    decoded, mean, spread = outputs
    divergence = -0.5 * torch.mean(1 + spread - mean.square() - spread.exp())
    return F.mse_loss(decoded, target) + 0.1 * divergence


def sites(captured):
    """The kind and the site of every random node."""
    return [(node.kind, node.attributes["site"]) for node in captured.program.nodes
            if "site" in node.attributes]


class Capture(unittest.TestCase):
    def test_every_call_has_the_loss_gradients_and_outputs_of_the_module(self):
        for name, sample in CALLS.items():
            with self.subTest(name):
                found = captured_sampler(sample)
                self.assertTrue(found.program.kinds() & {"uniform", "normal"})

    def test_a_dropout_of_channels_may_be_active_in_evaluation(self):
        capture_support.capture_function(
            lambda m, x: F.dropout2d(m.layer(x).view(-1, 2, 2, 2), 0.4))

    def test_evaluation_uses_the_numbers_of_training_where_it_draws_as_many(self):
        torch.manual_seed(1)
        captured = capture(Vae(), vae_loss, torch.randn(4, 12), torch.randn(4, 12))
        self.assertEqual(sites(captured), [("dropout", 0), ("normal", 1)])

    def test_two_draws_of_one_shape_stay_two_in_evaluation(self):
        captured = captured_sampler(lambda m, s: m + torch.randn_like(m) * torch.randn_like(m))
        self.assertEqual(sites(captured), [("normal", 0), ("normal", 1)])

    def test_a_draw_of_evaluation_only_has_a_site_of_its_own(self):
        module = capture_support.Model(
            lambda m, x: m.layer(x) if m.training else m.layer(x) + torch.rand_like(x))
        captured = capture(module, mean_of_squares, torch.randn(4, 8), torch.zeros(4))
        self.assertEqual(sites(captured), [("uniform", 0)])

    def test_stochastic_depth_is_a_dropout_of_samples_however_it_is_written(self):
        for function in (floored, divided):
            captured = capture_support.capture_function(
                lambda m, x, f=function: x + (f(m.layer(x), 0.4) if m.training else m.layer(x)))
            self.assertEqual(sites(captured), [("sample_dropout", 0)])

    def test_a_generator_of_the_user_and_doubles_are_refused(self):
        generator = torch.Generator()
        for sample in (lambda m, s: torch.normal(m, s, generator=generator) * m,
                       lambda m, s: torch.bernoulli(m.sigmoid(), generator=generator) * m,
                       lambda m, s: torch.randn(4, generator=generator) * m,
                       lambda m, s: (torch.rand(4, dtype=torch.float64) * m).float()):
            with self.assertRaises(errors.CaptureError):
                captured_sampler(sample)


class Numbers(unittest.TestCase):
    def test_the_words_are_those_of_random123(self):
        """The known answer of Philox4x32-10 for counter and key 0: 6627e8d5 e169c58d bc57ac4c."""
        numbers = draws.Key(0, 0, 0).uniform(0, (65,))
        for element, word in ((0, 0x6627e8d5), (32, 0xe169c58d), (64, 0xbc57ac4c)):
            self.assertEqual(numbers[element], (word >> 8) * 2.0 ** -24)

    def test_normal_numbers_have_the_moments_of_their_distribution(self):
        from easyscale.interpret import normal_numbers
        key = draws.Key(1, 2, 3)
        x = normal_numbers(lambda site, shape: torch.from_numpy(key.uniform(site, shape)), 4,
                           (400, 500)).double()
        count = x.numel()
        for moment, (mean, variance) in enumerate([(0, 1), (1, 2), (0, 15), (3, 96)], 1):
            distance = float((x ** moment).mean() - mean) / (variance / count) ** 0.5
            self.assertLess(abs(distance), 5, moment)


def vae_samples(seed):
    x = np.random.default_rng(seed).normal(size=(SAMPLES, 12)).astype(np.float32)
    return x, x


def equal_samples():
    """Samples of which every mini-batch has the same, so that their order does not matter."""
    row = np.random.default_rng(3).normal(size=(1, 12)).astype(np.float32)
    x = np.repeat(row, SAMPLES, axis=0)
    return x, x


def engine_draws(step, rank, site_of=int):
    """Makes a module draw the numbers of the engine."""
    key = draws.Key(SEED, step, rank)
    return SameDraws(lambda site, shape: torch.from_numpy(key.uniform(site, shape)), site_of)


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Train(FolderCase):
    def job(self, data, make=Vae, **options):
        torch.manual_seed(2)
        self.model = make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        return es.Job(self.model, loss=vae_loss, data=es.data.arrays(*data),
                      eval_data=es.data.arrays(*vae_samples(8)), batch_size=SAMPLES // MAX_P,
                      max_p=MAX_P, optimizer=self.optimizer, seed=SEED, level="D2",
                      **{"steps": STEPS, "eval_every": 4} | options)

    def test_the_bits_depend_on_no_placement_and_evaluations_can_be_repeated(self):
        fast, slow = offered_types()
        job = self.job(vae_samples(7))
        runs = [job.run(stages=stages) for stages in
                (f"{fast}:1", f"{slow}:2@3,{fast}:4@3,cpu-scalar:1", f"cpu-scalar:3@5,{fast}:2")]
        first = runs[0]
        for run in runs[1:]:
            self.assertEqual(run.params_digest, first.params_digest)
            self.assertEqual(run.state_digest, first.state_digest)
            self.assertEqual([r.loss for r in run.history], [r.loss for r in first.history])
            self.assertEqual([e["mean_loss"] for e in run.evaluations],
                             [e["mean_loss"] for e in first.evaluations])
        again = job.run(stages=f"{fast}:1")
        self.assertEqual(again.evaluations, first.evaluations)

    def test_an_evaluation_is_that_of_pytorch_with_the_numbers_of_its_mini_batches(self):
        run = self.job(vae_samples(7)).run(devices=f"{offered_types()[0]}:1")
        run.load_into(self.model)
        self.model.eval()
        losses = []
        for number, x in enumerate(torch.from_numpy(vae_samples(8)[0]).split(SAMPLES // MAX_P)):
            with torch.no_grad(), engine_draws(number, draws.EVALUATION_RANK, lambda draw: 1):
                losses.append(vae_loss(self.model(x), x).item())
        self.assertAlmostEqual(run.evaluations[-1]["mean_loss"], np.mean(losses), delta=1e-5)

    def test_steps_are_those_of_pytorch_with_the_numbers_of_the_engine(self):
        for make in (Vae, Mixed):
            with self.subTest(make.__name__):
                self.check_steps(make)

    def check_steps(self, make):
        data = equal_samples()
        run = self.job(data, make).run(devices=f"{offered_types()[0]}:2")
        x = torch.from_numpy(data[0][:SAMPLES // MAX_P])
        for step, record in enumerate(run.history):
            self.optimizer.zero_grad()
            total = 0.0
            for rank in range(MAX_P):
                with engine_draws(step, rank):
                    loss = vae_loss(self.model(x), x) / MAX_P
                loss.backward()
                total += loss.item()
            self.assertAlmostEqual(record.loss, total, delta=1e-5 * abs(total))
            self.optimizer.step()
        for name, tensor in self.model.state_dict().items():
            np.testing.assert_allclose(run.state_dict()[name], tensor.numpy(), rtol=1e-3,
                                       atol=1e-6, err_msg=name)


if __name__ == "__main__":
    unittest.main()
