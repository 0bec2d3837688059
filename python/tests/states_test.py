#!/usr/bin/env python3
"""Buffers that a forward pass in training writes: what is captured, what is refused, and training with the
real programs beside PyTorch.

The programs are found as by the package; without them, or if they have no model files, the tests that
train are skipped. All samples are one global batch.
"""
import copy
import unittest
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from sample_order import SHUFFLE, permuted, stream_key
from support import ElasticCase, programs_train_model_files
from torch import nn
from torch.utils.checkpoint import checkpoint

import easyscale as es
from easyscale.interpret import Context, interpret, next_states
from easyscale.tracing import capture, errors

SAMPLES, STEPS, MAX_P = 16, 9, 4
FIXED, MIX = "cpu-avx2:1", "cpu-avx2:2@4,cpu-scalar:1"


class Normed(nn.Module):
    """A discriminator with spectral norms; `norm` is one of the two of torch."""

    def __init__(self, norm=nn.utils.parametrizations.spectral_norm, iterations=1):
        super().__init__()
        self.first = norm(nn.Linear(6, 8), n_power_iterations=iterations)
        self.second, self.last = norm(nn.Linear(8, 8)), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(F.leaky_relu(self.second(F.leaky_relu(self.first(x), 0.2)), 0.2))


class Quantized(nn.Module):
    """An autoencoder with a code book of moving averages (VQ-VAE); returns (output, commitment)."""

    def __init__(self, codes=6, width=4, decay=0.8):
        super().__init__()
        self.encode, self.decode, self.decay = nn.Linear(6, width), nn.Linear(width, 6), decay
        self.register_buffer("codes", torch.randn(codes, width))
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", self.codes.clone())

    def forward(self, x):
        z = self.encode(x)
        distance = (z ** 2).sum(1, keepdim=True) - 2 * z @ self.codes.t() + (self.codes ** 2).sum(1)
        chosen = distance.argmin(1)
        one_hot = F.one_hot(chosen, len(self.codes)).type(z.dtype)
        code = F.embedding(chosen, self.codes)
        if self.training:
            self.counts.data.mul_(self.decay).add_(one_hot.sum(0), alpha=1 - self.decay)
            self.sums.data.mul_(self.decay).add_(one_hot.t() @ z.detach(), alpha=1 - self.decay)
            self.codes.data.copy_(self.sums / (self.counts + 1e-5).unsqueeze(1))
        return self.decode(z + (code - z).detach()), F.mse_loss(z, code.detach())


class Standardised(nn.Module):
    """Inputs without the mean and variance of all samples so far, which are counted."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(6, 3)
        self.register_buffer("running_mean", torch.zeros(6))
        self.register_buffer("running_var", torch.ones(6))
        self.register_buffer("count", torch.tensor(1e-4))

    @torch.no_grad()
    def update(self, x):
        mean, var, count = x.mean(0), x.var(0, unbiased=False), x.shape[0]
        total, delta = self.count + count, mean - self.running_mean
        self.running_mean.add_(delta * count / total)
        squares = self.running_var * self.count + var * count
        self.running_var.copy_((squares + delta ** 2 * self.count * count / total) / total)
        self.count.copy_(total)

    def forward(self, x):
        if self.training:
            self.update(x)
        return self.last((x - self.running_mean) / torch.sqrt(self.running_var + 1e-5))


class Annealed(nn.Module):
    """A second loss whose weight grows with the number of steps, and a flag that is set in the first."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(6, 3)
        self.register_buffer("step", torch.tensor(2))
        self.register_buffer("begun", torch.tensor(False))
        self.register_buffer("small", torch.tensor([250, 3], dtype=torch.uint8))

    def forward(self, x):
        y = self.last(x)
        if self.training:
            self.step += 1
            self.small = self.small + 3
            y = y + 0.1 * self.begun
            self.begun.fill_(True)
        return y, (y ** 2).mean() * torch.clamp(self.step / 8, max=1.0)


class Momentum(nn.Module):
    """A target network that follows the first one, as frozen parameters, and a queue of its results."""

    def __init__(self, places=32):
        super().__init__()
        self.online, self.target = nn.Linear(6, 4), nn.Linear(6, 4)
        self.target.load_state_dict(self.online.state_dict())
        self.target.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(places, 4), dim=1))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def follow(self):
        for mine, theirs in zip(self.target.parameters(), self.online.parameters()):
            mine.data = mine.data * 0.9 + theirs.data * 0.1

    def forward(self, x):
        query = F.normalize(self.online(x), dim=1)
        if self.training:
            self.follow()
        with torch.no_grad():
            key = F.normalize(self.target(x), dim=1)
        near = (query * key).sum(1, keepdim=True)
        far = torch.logsumexp(query @ self.queue.clone().detach().t() / 0.5, 1, keepdim=True)
        if self.training:
            with torch.no_grad():
                places = (self.place + torch.arange(len(key))) % len(self.queue)
                self.queue[places] = key
                self.place[0] = (self.place[0] + len(key)) % len(self.queue)
        return torch.cat([near / 0.5, far], 1)


class Carried(nn.Module):
    """What the sample at the same place of the last mini-batch has left, and how often a place was
    continued: every third sample begins anew."""

    def __init__(self, places=SAMPLES + 3):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)
        self.register_buffer("left", torch.randn(places, 6))
        self.register_buffer("times", torch.zeros(places, dtype=torch.long))

    def forward(self, x):
        rows = torch.arange(len(x))
        begins = self.times[rows] >= 2
        left = torch.where(begins[:, None], torch.zeros(6), self.left[rows])
        y = torch.tanh(self.first(x) + left)
        if self.training:
            self.left[rows] = y.detach()
            self.times[rows] = torch.where(begins, 0, self.times[rows] + 1)
        return self.last(y)


class Checkpointed(nn.Module):
    """A mean that is kept in a part of the model that torch computes again."""

    def __init__(self, checkpointed=True):
        super().__init__()
        self.first, self.last, self.checkpointed = nn.Linear(6, 6), nn.Linear(6, 3), checkpointed
        self.register_buffer("mean", torch.zeros(6))

    def part(self, x):
        y = torch.tanh(self.first(x))
        if not self.training:
            return torch.tanh(y - self.mean)
        self.mean = 0.5 * self.mean + 0.5 * y.detach().mean(0)
        return torch.tanh(y - y.mean(0))

    def forward(self, x):
        y = checkpoint(self.part, x, use_reentrant=False) if self.checkpointed else self.part(x)
        return self.last(y)


def quantized_loss(outputs, target):
    return F.mse_loss(outputs[0], target) + 0.25 * outputs[1]


def annealed_loss(outputs, label):
    return F.cross_entropy(outputs[0], label) + outputs[1]


def first_is_right(outputs, label):
    return F.cross_entropy(outputs, torch.zeros_like(label))


# Model, loss, whether the target is the input.
CASES = {"spectral norm": (Normed, F.cross_entropy, False),
         "two iterations": (partial(Normed, iterations=2), F.cross_entropy, False),
         "old spectral norm": (partial(Normed, nn.utils.spectral_norm), F.cross_entropy, False),
         "code book": (Quantized, quantized_loss, True),
         "standardised": (Standardised, F.cross_entropy, False),
         "annealed": (Annealed, annealed_loss, False),
         "momentum": (Momentum, first_is_right, False),
         "carried": (Carried, F.cross_entropy, False)}


def samples_of(case, count=SAMPLES):
    random = np.random.default_rng(3)
    x = random.standard_normal((count, 6), dtype=np.float32)
    return x, x if CASES[case][2] else random.integers(0, 3, count)


def orders(seed=1):
    """The order of the samples in each step, which is an epoch."""
    for step in range(STEPS):
        key = stream_key(seed, SHUFFLE, step)
        yield [permuted(SAMPLES, key, place) for place in range(SAMPLES)]


def captured(model, loss=F.cross_entropy, target=None):
    torch.manual_seed(1)
    x = torch.randn(8, 6)
    return capture(model, loss, x, torch.randint(0, 3, (8,)) if target is None else target)


class Plain(nn.Module):
    """A linear layer with a buffer [3], whose forward is `forward(self, x)`."""

    def __init__(self, forward, buffer=None):
        super().__init__()
        self.own, self.layer = forward, nn.Linear(6, 3)
        self.register_buffer("kept", torch.zeros(3) if buffer is None else buffer)

    def forward(self, x):
        return self.own(self, x)


class Captures(unittest.TestCase):
    """Without the programs: the captured program beside the module."""

    def test_many_steps_write_what_the_module_writes(self):
        for name, (make, loss, of_input) in CASES.items():
            torch.manual_seed(0)
            model = make()
            x, y = map(torch.from_numpy, samples_of(name, 8))
            before = copy.deepcopy(model.state_dict())
            program = capture(model, loss, x, y).program
            with self.subTest(name):
                self.assertTrue(program.states)
                # A counter of an integer type is computed with 64 bits.
                self.assertEqual(program.format, 3 if name in ("annealed", "momentum", "carried") else 2)
                for key, content in model.state_dict().items():
                    self.assertTrue(torch.equal(content, before[key]), key)
                kept = dict(before)
                for _ in range(4):
                    context = Context(training=True)
                    values = interpret(program, kept, dict(zip(
                        [field.name for field in program.inputs], (x, y))), context)
                    wanted = loss(model(x), y)
                    self.assertAlmostEqual(values[program.loss].item(), wanted.item(), 4)
                    kept |= next_states(program, values)
                for state in program.states:
                    found = kept[state.name].detach().double()
                    wanted = model.state_dict()[state.name].double()
                    self.assertLess((found - wanted).abs().max().item(), 1e-4, state.name)

    def test_types_and_names_are_those_of_the_state_dict(self):
        program = captured(Annealed(), annealed_loss).program
        self.assertEqual([(s.name, s.dtype) for s in program.states],
                         [("begun", "BOOL"), ("small", "U8"), ("step", "I64")])
        self.assertEqual(program.buffers, [])
        program = capture(Momentum(), first_is_right, torch.randn(8, 6),
                          torch.zeros(8, dtype=torch.long)).program
        self.assertEqual([s.name for s in program.states],
                         ["place", "queue", "target.bias", "target.weight"])
        self.assertEqual([p.name for p in program.parameters], ["online.weight", "online.bias"])

    def test_an_evaluation_has_the_nodes_of_training(self):
        kinds = [n.kind for n in captured(Normed()).program.nodes]
        self.assertEqual(kinds.count("linear"), 3)
        self.assertEqual(kinds.count("set_state"), 4)

    def test_ways_to_write_a_buffer(self):
        def in_place(m, mean):
            m.kept.mul_(0.9).add_(mean, alpha=0.1)

        def assigned(m, mean):
            m.kept = 0.9 * m.kept + 0.1 * mean

        def twice(m, mean):
            m.kept = 0.9 * m.kept
            m.kept = m.kept + 0.1 * mean

        def past_autograd(m, mean):
            m.kept.data = 0.9 * m.kept + 0.1 * mean

        def without_gradient(m, mean):
            with torch.no_grad():
                m.kept.lerp_(mean, 0.1)

        def elements(m, mean):
            m.kept[0] = 0.9 * m.kept[0] + 0.1 * mean[0]
            m.kept[1:].mul_(0.9).add_(0.1 * mean[1:])

        def a_copy_of_before(m, mean):
            before = m.kept
            m.kept = 0.9 * m.kept + 0.1 * mean
            m.kept = m.kept + 0 * before
        for write in (in_place, assigned, twice, past_autograd, without_gradient, elements,
                      a_copy_of_before):
            def forward(m, x, write=write):
                y = m.layer(x)
                if m.training:
                    write(m, y.detach().mean(0))
                return y - m.kept
            with self.subTest(write.__name__):
                program = captured(Plain(forward)).program
                self.assertEqual([s.name for s in program.states], ["kept"])

    def test_no_gradient_flows_through_what_is_written_without_one(self):
        def forward(m, x):
            y = m.layer(x)
            with torch.no_grad():
                m.kept.copy_(y.mean(0))  # not detached
            return y * m.kept if m.training else y
        captured(Plain(forward))

    def test_a_buffer_that_no_output_of_an_evaluation_needs_may_be_written_there_too(self):
        def forward(m, x):
            m.kept += 1
            return m.layer(x)
        self.assertEqual([s.name for s in captured(Plain(forward)).program.states], ["kept"])

    def refused(self, kind, text, forward, buffer=None, loss=F.cross_entropy):
        with self.assertRaisesRegex(kind, text):
            captured(Plain(forward, buffer), loss)

    def test_what_an_evaluation_writes_and_reads(self):
        def forward(m, x):
            m.kept += 1
            return m.layer(x) * m.kept
        self.refused(errors.StateChanged, "changes kept in evaluations too.*if self.training",
                     forward)

    def test_contents_that_decide_something(self):
        def place(m, x):
            m.kept[int(m.kept.sum()) % 3] += 1
            return m.layer(x)

        def branch(m, x):
            m.kept += 1
            return m.layer(x) if m.kept[0] < 100 else x[:, :3]
        for forward in (place, branch):
            self.refused(errors.DataDependent, "content of a tensor", forward)

    def test_types_that_the_engine_does_not_have(self):
        def forward(m, x):
            m.kept += 1
            return m.layer(x)
        self.refused(errors.UnsupportedType, "changes kept, which has the type torch.float64",
                     forward, torch.zeros(3, dtype=torch.float64))
        self.refused(errors.StateChanged, "kept, which has an element that is not finite", forward,
                     torch.full((3,), -torch.inf))

    def test_a_buffer_that_gets_another_type_or_shape(self):
        def typed(m, x):
            m.kept = m.kept + 0.5
            return m.layer(x)

        def shaped(m, x):
            m.kept = torch.cat([m.kept, x[:1, 0]])
            return m.layer(x)
        self.refused(errors.StateChanged, "changes kept.*keep their shape and type", typed,
                     torch.zeros(3, dtype=torch.long))
        self.refused(errors.StateChanged, r"changes kept \(states_test.py:\d+\) from the shape \[3\] "
                     r"to \[4\]; a buffer keeps its shape", shaped)

    def test_buffers_that_share_memory(self):
        def forward(m, x):
            m.kept += 1
            return m.layer(x)
        model = Plain(forward)
        model.register_buffer("part", model.kept[:2])
        with self.assertRaisesRegex(errors.StateChanged, "kept, whose memory part shares"):
            captured(model)

    def test_a_parameter_that_is_trained(self):
        def forward(m, x):
            m.layer.weight.data.mul_(0.99)
            return m.layer(x)
        self.refused(errors.StateChanged, "changes layer.weight .*parameters that are trained", forward)

    def test_a_batch_norm_whose_statistics_are_written_too(self):
        def forward(m, x):
            y = F.batch_norm(m.layer(x), m.kept, m.var, training=m.training)
            if m.training:
                m.kept.mul_(0.5)
            return y
        model = Plain(forward)
        model.register_buffer("var", torch.ones(3))
        with self.assertRaisesRegex(errors.UnsupportedOperators, "statistics the forward pass writes"):
            captured(model)

    def test_writes_with_and_without_gradients(self):
        def forward(m, x):
            m.kept.add_(m.layer(x).mean(0))
            with torch.no_grad():
                m.kept.mul_(0.5)
            return m.layer(x)
        self.refused(errors.StateChanged, "writes kept with gradients and then without", forward)

    def test_a_queue_that_is_a_part_of_itself_with_the_samples(self):
        def forward(m, x):
            if m.training:
                m.kept = torch.cat([x[:, 0].detach(), m.kept])[:3]
            return m.layer(x)
        self.refused(errors.BatchTraced, "multiples of the number of samples", forward)

    def test_a_buffer_with_fewer_rows_than_samples(self):
        def forward(m, x):
            rows = torch.arange(len(x))
            y = m.layer(x) + m.kept[rows]
            if m.training:
                m.kept[rows] = y.detach()
            return y
        self.refused(errors.UnsupportedOperators, "a buffer of 4 rows for 5 samples; give it more rows",
                     forward, torch.zeros(4, 3))


@unittest.skipUnless(programs_train_model_files(), "there is no esctl with model files")
class Training(ElasticCase):
    """With the programs: beside PyTorch, and on devices that change."""

    def job(self, case, model, max_p, count=SAMPLES, **settings):
        x, y = samples_of(case, count)
        return es.Job(model, loss=CASES[case][1], data=es.data.arrays(x, y),
                      batch_size=count // max_p, max_p=max_p, steps=settings.pop("steps", STEPS),
                      directory=self.folder / settings.pop("name", "job"),
                      optimizer=torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), **settings)

    def model(self, case):
        torch.manual_seed(0)
        return CASES[case][0]()

    def test_steps_and_buffers_agree_with_those_of_torch(self):
        for number, case in enumerate(CASES):
            model = self.model(case)
            run = self.job(case, model, 1, name=f"job{number}").run(stages=FIXED)
            torchs = copy.deepcopy(model)
            optimizer = torch.optim.SGD(torchs.parameters(), 0.1, momentum=0.9)
            x, y = map(torch.from_numpy, samples_of(case))
            with self.subTest(case):
                for step, order in zip(run.history, orders(), strict=True):
                    optimizer.zero_grad()
                    loss = CASES[case][1](torchs(x[order]), y[order])
                    loss.backward()
                    optimizer.step()
                    self.assertLess(abs(step.loss - loss.item()), 1e-4 * abs(loss.item()))
                run.load_into(model)
                for name, found in model.state_dict().items():
                    wanted = torchs.state_dict()[name]
                    self.assertEqual(found.dtype, wanted.dtype, name)
                    error = (found.double() - wanted.double()).abs().max()
                    self.assertLess(error, 1e-4 * max(1.0, wanted.double().abs().max()), name)

    def test_devices_that_change_give_the_same_bits(self):
        for number, case in enumerate(CASES):
            digests = set()
            for kind, stages in (("fixed", FIXED), ("mix", MIX), ("one each", "cpu-scalar:4")):
                job = self.job(case, self.model(case), MAX_P, name=f"{kind}{number}")
                run = job.run(stages=stages)
                digests.add((run.params_digest, run.state_digest))
            with self.subTest(case):
                self.assertEqual(len(digests), 1)

    def test_a_buffer_decides_the_digest_of_the_state_alone(self):
        digests = []
        for begin in (0, 5):
            model = self.model("annealed")
            model.small[1] = begin
            run = self.job("annealed", model, 2, name=f"job{begin}").run(stages=FIXED)
            digests.append((run.params_digest, run.state_digest))
        self.assertEqual(digests[0][0], digests[1][0])
        self.assertNotEqual(digests[0][1], digests[1][1])

    def test_levels_below_d2(self):
        for level in ("D0", "D1"):
            runs = [self.job("code book", self.model("code book"), MAX_P, level=level,
                             name=f"{level}{i}").run(stages=stages)
                    for i, stages in enumerate(("cpu-avx2:2", "cpu-avx2:2"))]
            self.assertEqual(runs[0].state_digest, runs[1].state_digest)

    def test_every_est_has_states_of_its_own_and_those_of_rank_0_are_loaded(self):
        model = self.model("standardised")
        x, y = samples_of("standardised")
        run = self.job("standardised", model, MAX_P).run(stages=MIX)
        run.load_into(model)
        # Rank 0 has seen one of four mini-batches in every step.
        self.assertAlmostEqual(model.count.item(), STEPS * SAMPLES / MAX_P, 2)
        self.assertFalse(np.allclose(model.running_mean.numpy(), x.mean(0), atol=1e-3))

    def test_computing_a_part_again_writes_once(self):
        digests = []
        for checkpointed in (True, False):
            torch.manual_seed(0)
            model = Checkpointed(checkpointed)
            run = self.job("standardised", model, MAX_P, name=f"job{checkpointed}").run(stages=MIX)
            digests.append((run.params_digest, run.state_digest))
        self.assertEqual(digests[0], digests[1])

    def test_a_worker_that_is_killed_a_pause_and_a_checkpoint_change_no_bit(self):
        steps = 3000
        whole = self.job("code book", self.model("code book"), MAX_P, steps=steps).run(stages=FIXED)
        job = self.job("code book", self.model("code book"), MAX_P, name="first", steps=steps,
                       checkpoint_every=50)
        run = self.disturbed(job, "cpu-avx2:2@200,cpu-scalar:1+cpu-avx2:1", pause_at=60)
        self.assertEqual((run.params_digest, run.state_digest),
                         (whole.params_digest, whole.state_digest))

    def test_evaluations_use_the_states_of_rank_0_and_change_none(self):
        x, y = samples_of("standardised", 40)
        digests = []
        for every in (0, 2):
            model = self.model("standardised")
            job = es.Job(model, loss=F.cross_entropy,
                         data=es.data.arrays(x[:SAMPLES], y[:SAMPLES]),
                         eval_data=es.data.arrays(x[SAMPLES:], y[SAMPLES:]) if every else None,
                         batch_size=SAMPLES // MAX_P, max_p=MAX_P, steps=STEPS,
                         directory=self.folder / f"every{every}",
                         optimizer=torch.optim.SGD(model.parameters(), 0.1),
                         **({"eval_every": every} if every else {}))
            run = job.run(stages=MIX)
            digests.append((run.params_digest, run.state_digest))
        self.assertEqual(digests[0], digests[1])
        run.load_into(model)
        model.eval()
        with torch.no_grad():
            outputs = model(torch.from_numpy(x[SAMPLES:]))
        wanted = F.cross_entropy(outputs, torch.from_numpy(y[SAMPLES:])).item()
        self.assertLess(abs(run.evaluations[-1]["mean_loss"] - wanted), 1e-4 * wanted)

    def test_states_that_are_too_large_for_a_message(self):
        def forward(m, x):
            m.kept = m.kept + 1
            return m.layer(x)
        model = Plain(forward, torch.zeros(2 ** 20))
        x, y = samples_of("annealed")
        with self.assertRaisesRegex(es.UsageError, "max_p = 16: allowed is at most 12, because the "
                                    "states of an EST have 4194304 bytes"):
            es.Job(model, loss=F.cross_entropy, data=es.data.arrays(x, y), batch_size=1, max_p=16,
                   steps=1, directory=self.folder / "job",
                   optimizer=torch.optim.SGD(model.parameters(), 0.1)).run(stages=FIXED)


if __name__ == "__main__":
    unittest.main()
