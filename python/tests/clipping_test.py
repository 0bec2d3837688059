#!/usr/bin/env python3
"""Clipping of the norm of groups of parameters, beside PyTorch.

All samples are one global batch, so their order in it does not matter.
"""
import unittest

import numpy as np
import torch
from support import ElasticCase, programs_train_model_files
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch_training import listed
from two_losses import SAMPLES, Critic, samples, wgan
from updates_support import Lion

import easyscale as es
from easyscale.clipping import patterns

STEPS, MAX_P, COUNT = 50, 4, 32
MIX = "cpu-avx2:2@20,cpu-scalar:1@10,cpu-avx2:1+cpu-scalar:2"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.LayerNorm(16))
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def net():
    torch.manual_seed(3)
    return Net()


def labelled():
    random = np.random.default_rng(1)
    return random.normal(size=(COUNT, 6)).astype(np.float32), random.integers(0, 3, COUNT)


def two_groups(model):
    return torch.optim.SGD([{"params": model.body.parameters()}, {"params": model.head.parameters(), "lr": 0.2}],
                           lr=0.4, momentum=0.9)


def pair(model):
    return [Lion([p for p in model.parameters() if p.ndim > 1], lr=0.01),
            torch.optim.AdamW([p for p in model.parameters() if p.ndim < 2], lr=0.05, eps=0.1)]


def parts(model):
    return [list(model.body.parameters()), list(model.head.parameters())]


# The optimizers of a model, what is clipped together, the limits, and the argument of the job.
CASES = {
    "groups": (two_groups, parts, (0.1, 0.03), [0.1, 0.03]),
    "names": (lambda model: torch.optim.AdamW(model.parameters(), lr=0.05, eps=0.1), parts, (0.02, 0.01),
              {"head.*": 0.01, "*": 0.02}),
    "one of them": (two_groups, parts, (0.1, 1e9), {"body.*": 0.1}),
    "optimizers": (pair, lambda model: [[p for p in model.parameters() if (p.ndim > 1) == matrix]
                                        for matrix in (True, False)], (0.1, 0.02), [0.1, 0.02]),
}


def torch_run(model, optimizers, groups, limits):
    """The losses of a loop that clips each of the groups, and how often a norm was above its limit."""
    x, y = map(torch.from_numpy, labelled())
    losses, above = [], np.zeros(len(groups), int)
    for _ in range(STEPS):
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        above += [float(clip_grad_norm_(own, limit)) > limit for own, limit in zip(groups, limits)]
        for optimizer in listed(optimizers):
            optimizer.step()
        losses.append(loss.item())
    return losses, above


@unittest.skipUnless(programs_train_model_files(), "no programs that train model files")
class Training(ElasticCase):
    def assert_same_bits(self, run, other):
        self.assertEqual((run.params_digest, run.state_digest), (other.params_digest, other.state_digest))

    def job(self, model, optimizer, **options):
        return es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(*labelled()), steps=STEPS,
                      batch_size=COUNT // MAX_P, max_p=MAX_P, optimizer=optimizer, **options)

    def test_groups_are_clipped_as_in_pytorch(self):
        for case, (make, groups, limits, given) in CASES.items():
            with self.subTest(case):
                model = net()
                job = self.job(model, make(model), clip_norm=given)
                run, mixed = job.run(stages="cpu-avx2:1"), job.run(stages=MIX)
                self.assert_same_bits(mixed, run)
                wanted, above = torch_run(model, make(model), groups(model), limits)
                self.assertGreater(above[0], 5)
                np.testing.assert_allclose([x.loss for x in run.history], wanted, rtol=2e-3, atol=2e-4)
                found = net()
                run.load_into(found)
                for name, tensor in found.state_dict().items():
                    np.testing.assert_allclose(tensor, model.state_dict()[name], rtol=5e-3, atol=5e-4,
                                               err_msg=name)

    def test_with_bf16_and_an_average_on_changing_devices(self):
        def run(limit, stages):
            model = net()
            return self.job(model, pair(model), clip_norm=[0.1, limit], ema=0.9, precision="bf16").run(stages=stages)
        whole = run(0.02, "cpu-avx2:1")
        self.assert_same_bits(run(0.02, MIX), whole)
        self.assertNotEqual(run(0.022, "cpu-avx2:1").params_digest, whole.params_digest)

    def test_each_loss_has_a_limit_of_its_own(self):
        def losses(model):
            critic, generator = wgan(model)
            return [es.Loss(critic.function, critic.optimizer, clip_norm=0.3),
                    es.Loss(generator.function, generator.optimizer, every=5)]
        torch.manual_seed(3)
        model = Critic()
        job = es.Job(model, losses=losses(model), data=es.data.arrays(**samples(model)), steps=STEPS,
                     batch_size=SAMPLES, max_p=1, clip_norm=0.05)
        run, mixed = job.run(stages="cpu-avx2:1"), job.run(stages="cpu-scalar:1@13,cpu-avx2:1")
        self.assert_same_bits(mixed, run)
        batch = {name: torch.from_numpy(array) for name, array in samples(model).items()}
        wanted, above, made = [], [0, 0], losses(model)
        for i in range(STEPS):
            for place, (loss, limit) in enumerate(zip(made, (0.3, 0.05))):
                if i % loss.every:
                    continue
                loss.optimizer.zero_grad()
                value = loss.function(model, batch)
                value.backward()
                above[place] += float(clip_grad_norm_(loss.parameters(), limit)) > limit
                loss.optimizer.step()
                wanted.append(value.item())
        self.assertTrue(all(above), above)
        np.testing.assert_allclose([x.loss for x in run.history], wanted, rtol=4e-3, atol=4e-4)


class Given(unittest.TestCase):
    def test_patterns_name_whole_modules_and_no_other_parameter(self):
        model = net()
        model.tied = model.body[0]
        names = list(model.named_parameters(remove_duplicate=False))

        def of(*given):
            return patterns({id(p) for p in given}, names)
        self.assertEqual(of(*model.parameters()), ["*"])
        self.assertEqual(of(*model.head.parameters()), ["head.*"])
        # The weight and the bias of tied are those of body.0.
        self.assertEqual(of(*model.body[0].parameters()), ["body.0.*", "tied.*"])
        self.assertEqual(of(model.head.bias, model.body[2].weight), ["body.2.weight", "head.bias"])
        self.assertEqual(of(), [])

    def refused(self, text, optimizer=None, **options):
        model = net()
        with self.assertRaisesRegex(es.UsageError, text):
            es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(*labelled()), steps=1, batch_size=8,
                   optimizer=(optimizer or two_groups)(model), **options)

    def test_wrong_limits(self):
        self.refused("clip_norm = -1: allowed is 0 to", clip_norm=-1)
        self.refused("clip_norm = -1: allowed is 0 to", clip_norm={"*": -1})
        self.refused("clip_norm = 'x': allowed is 0 to", clip_norm=["x", 1])
        self.refused("clip_norm: the name 3 is no text", clip_norm={3: 1.0})
        self.refused("has 1 limits: allowed is one for each of the 2 groups of SGD", clip_norm=[1.0])
        self.refused("one for each of the 2 optimizers of Lion and AdamW", pair, clip_norm=[1, 2, 3])
        self.refused("allowed is a number, or a dict of patterns", lambda model: es.Optimizer(), clip_norm=[1.0])
        self.refused("allowed is a number, or a dict of patterns", clip_norm=[1.0, 1.0],
                     lora=es.Lora(["head"], rank=1))
        with self.assertRaisesRegex(es.UsageError, "parameters = .*: allowed is a list of names"):
            es.ClipGroup("head.*", 1.0)

    @unittest.skipUnless(programs_train_model_files(), "no programs that train model files")
    def test_a_name_that_no_parameter_has(self):
        model = net()
        job = es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(*labelled()), steps=1, batch_size=8,
                     optimizer=two_groups(model), clip_norm={"haed.*": 1.0})
        with self.assertRaisesRegex(es.UsageError, r"optimizer.clip_groups\[0\].parameters = \[\"haed.\*\"\]: "
                                                   "allowed is the name of a parameter"):
            job.run(progress=False)


if __name__ == "__main__":
    unittest.main()
