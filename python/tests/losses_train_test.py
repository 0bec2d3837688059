#!/usr/bin/env python3
"""Trains small GANs by the real programs, beside PyTorch, on changing devices.

All samples are one mini-batch where PyTorch trains too, so their order does not matter.
"""
import copy
import unittest

import numpy as np
import torch
from support import ElasticCase, programs_train_model_files
from torch import nn
from two_losses import SAMPLES, Critic, Gan, hifi, samples, torch_loop, wgan

import easyscale as es

ITERATIONS, MAX_P = 50, 4
# The model, its losses, and the global steps of the iterations.
CASES = {"hifi": (Gan, hifi, 100), "wgan": (Critic, wgan, 60)}


@unittest.skipUnless(programs_train_model_files(), "no programs that train model files")
class Gans(ElasticCase):
    def model(self, case):
        torch.manual_seed(3)
        return CASES[case][0]()

    def job(self, case, steps=ITERATIONS, max_p=MAX_P, **options):
        model = self.model(case)
        return es.Job(model, losses=CASES[case][1](model), data=es.data.arrays(**samples(model)), steps=steps,
                      batch_size=SAMPLES // max_p, max_p=max_p, **options)

    def assert_same_bits(self, run, other):
        self.assertEqual((run.params_digest, run.state_digest), (other.params_digest, other.state_digest))

    def test_gans_train_as_in_pytorch(self):
        for case, (_, losses, steps) in CASES.items():
            with self.subTest(case):
                model, job = self.model(case), self.job(case, max_p=1)
                wanted = torch_loop(model, losses(model), samples(model), ITERATIONS)
                run = job.run(stages="cpu-avx2:1@33,cpu-scalar:1")
                self.assertEqual((run.steps, len(wanted)), (steps, steps))
                np.testing.assert_allclose([entry.loss for entry in run.history], wanted, rtol=4e-3,
                                           atol=4e-4)
                trained = self.model(case)
                run.load_into(trained)
                for name, tensor in trained.state_dict().items():
                    if not name.endswith("num_batches_tracked"):
                        np.testing.assert_allclose(tensor, model.state_dict()[name], rtol=0.02, atol=2e-3,
                                                   err_msg=name)

    def test_devices_that_change_give_the_same_bits(self):
        for case in CASES:
            with self.subTest(case):
                job = self.job(case, steps=10)
                run = job.run(stages="cpu-avx2:1")
                mixed = job.run(stages="cpu-avx2:2@5,cpu-scalar:1@3,cpu-avx2:1+cpu-scalar:2")
                self.assert_same_bits(mixed, run)
                self.assertEqual([x.loss for x in mixed.history], [x.loss for x in run.history])

    def test_a_worker_that_is_killed_a_pause_and_other_devices_change_no_bit(self):
        job = self.job("hifi", steps=750, checkpoint_every=50, directory=self.folder / "hifi")
        run = self.disturbed(job, "cpu-avx2:2@201,cpu-scalar:1+cpu-avx2:1", pause_at=61)
        self.assert_same_bits(job.run(stages="cpu-avx2:1"), run)

    def test_a_job_continues_between_two_losses_of_an_iteration(self):
        job = self.job("hifi", steps=10, checkpoint_every=7, directory=self.folder / "job")
        whole = job.run(stages="cpu-avx2:1")
        saved = sorted((self.folder / "job" / "checkpoints").rglob("*7"))
        self.assertTrue(saved)
        self.assert_same_bits(job.run(stages="cpu-scalar:1", from_checkpoint=saved[0]), whole)

    def test_torch_goes_on_from_a_job(self):
        for case, (_, losses, _) in CASES.items():
            with self.subTest(case):
                model = self.model(case)
                mine = losses(model)
                torch_loop(model, mine, samples(model), 10)
                wanted = torch_loop(model, mine, samples(model), 5)
                run = self.job(case, steps=10, max_p=1).run(stages="cpu-avx2:1")
                model = self.model(case)
                mine = losses(model)
                run.load_into(model, optimizer=[x.optimizer for x in mine],
                              schedule=[x.schedule for x in mine])
                np.testing.assert_allclose(torch_loop(model, mine, samples(model), 5), wanted, rtol=4e-3,
                                           atol=4e-4)
                with self.assertRaisesRegex(es.UsageError, "optimizer has 1 items: allowed is one for each"):
                    run.load_into(model, optimizer=mine[0].optimizer)

    def test_nothing_is_loaded_if_the_optimizer_of_one_loss_does_not_fit(self):
        run = self.job("wgan", steps=3, max_p=1).run(stages="cpu-avx2:1")
        self.assertEqual([x.loss_name for x in run.history], ["wgan_d", "wgan_g", "wgan_d", "wgan_d"])
        model = self.model("wgan")
        start = copy.deepcopy(model.state_dict())
        first = wgan(model)[0].optimizer
        other = torch.optim.SGD(model.generator.parameters(), lr=0.1)
        with self.assertRaisesRegex(es.UsageError, r"losses\[1\]: .*optimizer is SGD: allowed is RMSprop"):
            run.load_into(model, optimizer=[first, other])
        self.assertEqual(first.state_dict()["state"], {})
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(tensor, start[name]), name)

    def test_the_losses_of_an_iteration_have_the_same_samples(self):
        model = nn.ModuleDict({"a": nn.Linear(1, 1, bias=False), "b": nn.Linear(1, 1, bias=False)})
        start = copy.deepcopy(model.state_dict())
        model["b"].load_state_dict(model["a"].state_dict())

        def loss(part):
            return lambda model, batch: model[part](batch).square().mean()
        x = np.random.default_rng(1).standard_normal((24, 1)).astype(np.float32)
        losses = [es.Loss(loss(part), torch.optim.SGD(model[part].parameters(), lr=0.0), every=every)
                  for part, every in (("a", 1), ("b", 2))]
        run = es.Job(model, losses=losses, data=es.data.arrays(x), epochs=2, batch_size=2,
                     max_p=2).run(stages="cpu-avx2:1@7,cpu-scalar:2")
        self.assertEqual(run.steps, 18)  # 12 iterations
        values = [entry.loss for entry in run.history]
        of_iterations = [values[3 * i:3 * i + 3] for i in range(6)]
        for first, second, third in of_iterations:
            self.assertEqual(first, second)
            self.assertNotEqual(first, third)
        self.assertEqual(len({round(v, 6) for x in of_iterations for v in x}), 12)
        self.assertNotEqual(start["b.weight"], model["b"].weight)


if __name__ == "__main__":
    unittest.main()
