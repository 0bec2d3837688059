#!/usr/bin/env python3
"""Losses that take turns: what is captured of them, and what is refused."""
import unittest

import numpy as np
import torch
from support import programs_train_model_files
from torch import nn
from two_losses import Critic, Gan, hifi_d, hifi_g, samples, wgan

import easyscale as es
from easyscale.losses import turns_of
from easyscale.program import Program


def sgd(part, lr=0.1):
    return torch.optim.SGD(part.parameters(), lr=lr)


class Turns(unittest.TestCase):
    def test_the_turns_are_those_of_a_loop(self):
        model = Critic()
        self.assertEqual(turns_of(wgan(model), 6), [0, 1, 0, 0, 0, 0, 0, 1])


@unittest.skipUnless(programs_train_model_files(), "no programs that train model files")
class Losses(unittest.TestCase):
    def job(self, model, losses, **options):
        return es.Job(model, losses=losses, data=es.data.arrays(**samples(model)),
                      **({"steps": 5, "batch_size": 8, "max_p": 4} | options))

    def test_each_loss_is_a_program_that_trains_what_its_optimizer_has(self):
        model = Critic()
        program = self.job(model, wgan(model), steps=11).captured.program
        again = Program.from_json(program.to_json())
        self.assertEqual((program.every, len(program.programs)), ([1, 5], 1))
        self.assertEqual(again.to_json(), program.to_json())
        for own, part in zip((program, program.programs[0]), ("discriminator.", "generator.")):
            self.assertEqual({x.name for x in own.parameters if x.trainable},
                             {x.name for x in own.parameters if x.name.startswith(part)})
        first = {x.parameters[0]: x.phases[1].first_step for x in program.updates if len(x.phases) > 1}
        self.assertEqual((first["discriminator.0.weight"], first["generator.0.weight"]), (2, 7))

    def test_steps_are_iterations_and_epochs_passes_over_the_data(self):
        model = Critic()
        self.assertEqual(self.job(model, wgan(model), steps=11).steps, 11 + 3)
        self.assertEqual(self.job(model, wgan(model), steps=None, epochs=6).steps, 6 + 2)

    def refused(self, message, make, error=es.UsageError, **options):
        model = Gan()
        with self.assertRaisesRegex(error, message):
            losses = make(model)
            self.job(model, losses, **options)

    def test_losses_that_do_not_fit_are_refused(self):
        def both(model, **options):
            return [es.Loss(hifi_d, sgd(model.discriminator)), es.Loss(hifi_g, sgd(model.generator), **options)]
        self.refused("every = 0: allowed is a whole number from 1 on", lambda m: both(m, every=0))
        self.refused("allowed is a list of two or more easyscale.Loss", lambda m: both(m)[:1])
        self.refused("every is 2, 3: allowed is 1 for at least one", lambda m: [
            es.Loss(hifi_d, sgd(m.discriminator), every=2), es.Loss(hifi_g, sgd(m.generator), every=3)])
        self.refused(r"losses\[1\]: its optimizer has 5 parameters of another one", lambda m: [
            es.Loss(hifi_d, sgd(m.discriminator)), es.Loss(hifi_g, sgd(m))])
        self.refused("4 parameters of the model that need a gradient are in no optimizer", lambda m: [
            es.Loss(hifi_d, sgd(m.discriminator)),
            es.Loss(hifi_g, torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1))])
        self.refused(r"losses\[0\] depends on no parameter of its optimizer \(SGD\)", lambda m: [
            es.Loss(hifi_d, sgd(m.generator)), es.Loss(hifi_g, sgd(m.discriminator))])
        self.refused("optimizer is an easyscale.Optimizer", lambda m: [
            es.Loss(hifi_d, es.Optimizer("sgd"))] * 2)
        self.refused("losses and ema: allowed is one of them", both, ema=0.9)
        self.refused("losses and lora: allowed is one of them", both, lora=es.Lora(["*"], rank=2))
        self.refused("losses and optimizer: allowed is one of them", both, optimizer=es.Optimizer("sgd"))
        self.refused("allowed is an every that divides the 3 iterations of an epoch, not 2", lambda m: [
            es.Loss(hifi_d, sgd(m.discriminator)),
            es.Loss(hifi_g, opt := sgd(m.generator), torch.optim.lr_scheduler.ExponentialLR(opt, 0.9), 2)],
            schedule_unit="epoch", batch_size=10, max_p=1)

    def test_a_statistic_that_only_one_loss_updates_is_no_constant_of_another(self):
        def frozen(model, batch):
            model.discriminator[1].eval()
            try:
                return hifi_g(model, batch)
            finally:
                model.discriminator[1].train()
        self.refused(r"losses\[1\] reads discriminator.1.running_mean.*, which another loss changes", lambda m: [
            es.Loss(hifi_d, sgd(m.discriminator)), es.Loss(frozen, sgd(m.generator))],
            es.CaptureError)

    def test_a_job_needs_an_optimizer_or_losses(self):
        x = np.zeros((8, 2), np.float32)
        with self.assertRaisesRegex(es.UsageError, "optimizer: allowed is an optimizer of torch"):
            es.Job(nn.Linear(2, 1), loss=nn.MSELoss(), data=es.data.arrays(x, x[:, :1]), steps=1)


if __name__ == "__main__":
    unittest.main()
