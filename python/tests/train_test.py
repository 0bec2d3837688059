#!/usr/bin/env python3
"""Trains torch models with the real programs, and compares the steps with those of PyTorch.

The programs are found as by the package; without them, or if they have no model files, the tests
are skipped. All samples are one global batch, so their order in it does not matter.
"""
import unittest

import numpy as np
import torch
from support import FolderCase, offered_types, programs_train_model_files
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_training import torch_losses

import easyscale as es

SAMPLES, STEPS, MAX_P = 32, 9, 4
MIX = "cpu-avx2:2@4,cpu-scalar:1"


class Net(nn.Module):
    """A perceptron; `tied`: its first two layers share their weight."""

    def __init__(self, tied=False):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        if tied:
            self.second.weight = self.first.weight

    def forward(self, x):
        return self.last(self.second(self.first(x).relu()).relu())


class Blocks(nn.Module):
    """Residual blocks with dropout and batch norm; `checkpointed`: torch computes them again."""

    def __init__(self, checkpointed):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(
            nn.Linear(6, 24), nn.BatchNorm1d(24), nn.GELU(), nn.Dropout(0.2), nn.Linear(24, 6))
            for _ in range(4))
        self.last, self.checkpointed = nn.Linear(6, 3), checkpointed

    def forward(self, x):
        for block in self.blocks:
            x = x + (checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x))
        return self.last(x)


class Selections(nn.Module):
    """Volumes, resizes, and rows and elements that computed integers select."""

    def __init__(self):
        super().__init__()
        self.wide, self.last = nn.Linear(6, 2 * 3 * 4 * 5), nn.Linear(14, 3)
        self.volume = nn.Conv3d(2, 4, (2, 3, 3), padding=(0, 1, 1), bias=False)
        self.places = nn.Embedding(8, 5)

    def forward(self, x):
        y = self.volume(self.wide(x).view(-1, 2, 3, 4, 5)).amax(2).tanh()
        up = nn.functional.interpolate(y, (7, 9), mode="bicubic")
        down = nn.functional.interpolate(up, (3, 4), mode="bilinear", align_corners=True)
        pooled = nn.functional.adaptive_max_pool2d(down, (2, 3)).flatten(1)
        best, _ = pooled.view(-1, 4, 6).max(2)
        mask = (x > 0).long()
        place = (mask.cumsum(1) - 1).masked_fill(mask == 0, 7)
        zeros = torch.zeros_like(x[:, :5])
        counted = zeros.scatter_add(1, mask[:, :5] * 2 + 1, x[:, 1:])
        return self.last(torch.cat([best, self.places(place).sum(1), counted], 1))


class Relative(nn.Module):
    """Attention over the six inputs, whose mask is a table that is trained, seen causally."""

    def __init__(self):
        super().__init__()
        self.qkv, self.last = nn.Linear(1, 24), nn.Linear(8, 3)
        self.table = nn.Parameter(torch.randn(6, 6))

    def forward(self, x):
        q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2)
                   for part in self.qkv(x[..., None]).chunk(3, 2))
        later = torch.ones(6, 6, dtype=torch.bool).triu(1)
        y = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=self.table.masked_fill(later, -30.0))
        return self.last(y.transpose(1, 2).flatten(2).mean(1))


class Windows(nn.Module):
    """Attention of two windows of three inputs that is written out: with a table that is trained,
    and a mask of the second window."""

    def __init__(self):
        super().__init__()
        self.qkv, self.last = nn.Linear(1, 24), nn.Linear(8, 3)
        self.table = nn.Parameter(torch.randn(2, 3, 3))

    def forward(self, x):
        parts = self.qkv(x.view(-1, 3, 1)).reshape(-1, 3, 3, 2, 4)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = (q * 0.5) @ k.transpose(-1, -2) + self.table[None]
        mask = torch.tensor([[[0.0] * 3] * 3, [[0, 0, -100], [0, 0, -100], [-100, -100, 0]]])
        scores = scores.view(-1, 2, 2, 3, 3) + mask[:, None][None]
        y = scores.view(-1, 2, 3, 3).softmax(-1) @ v
        return self.last(y.transpose(1, 2).reshape(-1, 6, 8).mean(1))


def masked_loss(smoothing):
    """A loss with class weights, in which a class that is not the label has the logit -inf."""
    def loss(outputs, labels):
        never = nn.functional.one_hot(torch.where(labels > 1, 0, labels + 1), 3) == 1
        logits = outputs.masked_fill(never, -torch.inf)
        return nn.functional.cross_entropy(logits, labels, label_smoothing=smoothing,
                                           weight=torch.tensor([1.0, 2.0, 0.5]))
    return loss


def samples(seed):
    """Points [SAMPLES, 6] and classes [SAMPLES] that depend on them."""
    x = np.random.default_rng(seed).normal(size=(SAMPLES, 6)).astype(np.float32)
    return x, x[:, :3].argmax(axis=1)


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Train(FolderCase):
    def job(self, model, optimizer, **options):
        x, y = samples(1)
        return es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(x, y),
                      eval_data=es.data.arrays(*samples(2)), batch_size=SAMPLES // MAX_P,
                      max_p=MAX_P, steps=STEPS, optimizer=optimizer, metrics=["accuracy"],
                      eval_every=5, **options)

    def assert_trains_as_torch(self, job, model, optimizer, atol, **options):
        """Equal bits on one device and on changing ones, and losses and weights near torch's."""
        mixed, fixed = job.run(stages=MIX), job.run(devices="cpu-avx2:1")
        self.assertEqual(mixed.params_digest, fixed.params_digest)
        self.assertEqual(mixed.state_digest, fixed.state_digest)
        losses = torch_losses(model, optimizer, nn.functional.cross_entropy, samples(1), STEPS, **options)
        np.testing.assert_allclose([r.loss for r in mixed.history], losses, rtol=1e-5)
        for name, tensor in model.state_dict().items():
            np.testing.assert_allclose(mixed.state_dict()[name], tensor.numpy(), rtol=1e-3, atol=atol,
                                       err_msg=name)

    def test_steps_are_those_of_pytorch_and_the_bits_do_not_depend_on_devices(self):
        rules = [lambda p: torch.optim.AdamW(p, lr=0.01),
                 lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)]
        for rule in rules:
            torch.manual_seed(3)
            model = Net()
            optimizer = rule(model.parameters())
            job = self.job(model, optimizer)
            self.assert_trains_as_torch(job, model, optimizer, atol=1e-6)

    def test_groups_of_parameters_train_as_in_pytorch_and_to_the_same_bits_on_all_devices(self):
        rules = [lambda g: torch.optim.AdamW(g, lr=0.01), lambda g: torch.optim.Adam(g, lr=0.01),
                 lambda g: torch.optim.SGD(g, lr=0.1, momentum=0.9)]
        for rule in rules:
            torch.manual_seed(3)
            model = Net(tied=True)
            biases = [p for p in model.parameters() if p.ndim == 1]
            optimizer = rule([{"params": [model.last.weight], "weight_decay": 0.2},
                              {"params": biases, "weight_decay": 0.0},
                              {"params": [model.second.weight], "lr": 0.002, "weight_decay": 0.1}])
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
            job = self.job(model, optimizer, schedule=schedule, clip_norm=0.5)
            self.assert_trains_as_torch(job, model, optimizer, atol=1e-5, schedule=schedule, clip_norm=0.5)

    def test_a_cycle_of_rates_and_momenta_trains_as_in_pytorch(self):
        rules = [lambda p: torch.optim.AdamW(p, lr=0.01),
                 lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)]
        for rule in rules:
            torch.manual_seed(3)
            model = Net()
            optimizer = rule(model.parameters())
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=STEPS + 1)
            job = self.job(model, optimizer, schedule=schedule)
            self.assert_trains_as_torch(job, model, optimizer, atol=1e-5, schedule=schedule)

    def test_bf16_has_the_same_bits_on_all_devices_and_losses_near_those_of_fp32(self):
        for make in (Net, Selections, Relative, lambda: Blocks(False), lambda: Blocks(True)):
            torch.manual_seed(3)
            model = make()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            jobs = {p: self.job(model, optimizer, precision=p) for p in ("fp32", "bf16")}
            mixed, fixed = jobs["bf16"].run(stages=MIX), jobs["bf16"].run(devices="cpu-avx2:1")
            fp32 = jobs["fp32"].run(devices="cpu-avx2:1")
            self.assertEqual(mixed.params_digest, fixed.params_digest)
            self.assertEqual(mixed.state_digest, fixed.state_digest)
            self.assertNotEqual(fp32.params_digest, fixed.params_digest)
            np.testing.assert_allclose([r.loss for r in mixed.history],
                                       [r.loss for r in fp32.history], rtol=0.02)

    def test_exact_products_have_the_same_bits_on_all_devices_and_losses_near_those_of_fp32(self):
        for make in (Net, Selections, Relative):
            torch.manual_seed(3)
            model = make()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            fp32 = self.job(model, optimizer).run(devices="cpu-avx2:1")
            for arithmetic in ("x15", "x22"):
                job = self.job(model, optimizer, arithmetic=arithmetic)
                mixed, fixed = job.run(stages=MIX), job.run(devices="cpu-avx2:1")
                self.assertEqual(mixed.params_digest, fixed.params_digest)
                self.assertEqual(mixed.state_digest, fixed.state_digest)
                self.assertNotEqual(fp32.params_digest, fixed.params_digest)
                np.testing.assert_allclose([r.loss for r in mixed.history],
                                           [r.loss for r in fp32.history], rtol=0.002)

    def test_a_name_in_a_group_that_no_parameter_has_is_refused(self):
        rule = es.Optimizer(groups=[es.ParameterGroup(["*.bais"], weight_decay=0.0)])
        with self.assertRaisesRegex(es.UsageError, r"optimizer.groups\[0\].parameters = "
                                    r"\[\"\*.bais\"\]: allowed is .* similar name is \".*bias\""):
            self.job(Net(), rule).run(devices="cpu-avx2:1")

    def test_computed_integers_select_and_volumes_are_convolved_as_in_pytorch(self):
        torch.manual_seed(5)
        model = Selections()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        job = self.job(model, optimizer)
        mixed, fixed = job.run(stages=MIX), job.run(devices="cpu-avx2:1")
        self.assertEqual(mixed.params_digest, fixed.params_digest)
        losses = torch_losses(model, optimizer, nn.functional.cross_entropy, samples(1), STEPS)
        np.testing.assert_allclose([r.loss for r in mixed.history], losses, rtol=1e-4)

    def check_beside_torch(self, model, loss):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = samples(1)
        job = es.Job(model, loss=loss, data=es.data.arrays(x, y), batch_size=SAMPLES, max_p=1,
                     steps=STEPS, optimizer=optimizer)
        run = job.run(devices="cpu-avx2:1", progress=False)
        losses = torch_losses(model, optimizer, loss, samples(1), STEPS)
        np.testing.assert_allclose([r.loss for r in run.history], losses, rtol=1e-5)
        for name, tensor in model.state_dict().items():
            np.testing.assert_allclose(run.state_dict()[name], tensor.numpy(), rtol=1e-3,
                                       atol=1e-5, err_msg=name)

    def test_a_logit_of_minus_infinity_beside_class_weights_trains_as_in_pytorch(self):
        torch.manual_seed(4)
        self.check_beside_torch(Net(), masked_loss(0.0))

    def test_a_smoothed_loss_of_such_a_logit_is_infinite_as_in_pytorch(self):
        torch.manual_seed(4)
        loss, model = masked_loss(0.1), Net()
        x, y = (torch.from_numpy(part) for part in samples(1))
        self.assertEqual(loss(model(x), y).item(), torch.inf)
        job = es.Job(model, loss=loss, data=es.data.arrays(*samples(1)), batch_size=8, max_p=4,
                     steps=1, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        with self.assertRaisesRegex(es.EasyScaleError, "not finite"):
            job.run(devices="cpu-avx2:1", progress=False)

    def test_a_mask_of_attention_that_is_trained_trains_as_in_pytorch(self):
        torch.manual_seed(5)
        model = Relative()
        before = model.table.detach().clone()
        self.check_beside_torch(model, nn.functional.cross_entropy)
        self.assertGreater(float((model.table.detach() - before).abs().max()), 1e-4)

    def test_attention_that_is_written_out_trains_as_in_pytorch(self):
        torch.manual_seed(7)
        model = Windows()
        before = model.table.detach().clone()
        self.check_beside_torch(model, nn.functional.cross_entropy)
        self.assertGreater(float((model.table.detach() - before).abs().max()), 1e-4)

    def test_paddings_of_integers_and_truth_values_are_those_of_pytorch(self):
        class Padded(nn.Module):
            def __init__(self):
                super().__init__()
                self.last = nn.Linear(6 + 8 + 8, 3)

            def forward(self, x):
                pad = nn.functional.pad
                truth = pad(x > 0, (1, 1), value=3.0).float()
                whole = pad((4 * x).long(), (1, 1), value=2.5).float()
                return self.last(torch.cat([x, truth, whole], 1))

        torch.manual_seed(6)
        self.check_beside_torch(Padded(), nn.functional.cross_entropy)

    def test_a_computed_label_that_is_no_class_ends_the_step_as_pytorch_does(self):
        def counted(outputs, labels):
            ones = nn.functional.one_hot(labels + (outputs[:, 0] > -1e9).long(), 3)
            return (outputs * ones).mean()

        def weighted(outputs, labels):
            return nn.functional.cross_entropy(outputs, labels + (outputs[:, 0] > -1e9).long(),
                                               weight=torch.ones(3))

        model, (x, y) = Net(), samples(1)
        for loss in (counted, weighted):
            with self.subTest(loss.__name__):
                with self.assertRaises((RuntimeError, IndexError)):
                    loss(model(torch.from_numpy(x)), torch.from_numpy(y))
                # PyTorch must be able to compute the samples with which the loss is captured.
                order = np.argsort(y, kind="stable")
                job = es.Job(model, loss=loss, data=es.data.arrays(x[order], y[order]),
                             batch_size=8, max_p=4, steps=1,
                             optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
                with self.assertRaisesRegex(es.EasyScaleError, "not finite"):
                    job.run(devices="cpu-avx2:1", progress=False)

    def test_a_contrastive_loss_trains_the_same_as_a_function_and_in_the_model(self):
        """Its labels are the numbers of the samples."""
        class Pairs(nn.Module):
            def __init__(self, with_loss):
                super().__init__()
                self.layer, self.with_loss = nn.Linear(6, 4), with_loss

            def forward(self, x):
                both = self.layer(x), self.layer(x.flip(1))
                return contrastive(both) if self.with_loss else both

        def contrastive(outputs, targets=None):
            first, second = (nn.functional.normalize(z, dim=1) for z in outputs)
            labels = torch.arange(len(first))
            return nn.functional.cross_entropy(first @ second.T / 0.1, labels)
        runs = []
        for with_loss in (True, False):
            torch.manual_seed(3)
            model = Pairs(with_loss)
            x, y = samples(1)
            data = es.data.arrays(x) if with_loss else es.data.arrays(x, y)
            job = es.Job(model, loss=None if with_loss else contrastive, data=data, batch_size=8,
                         max_p=4, steps=4, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
            runs.append(job.run(stages="{}:1@2,{}:2".format(*offered_types())))
        self.assertEqual(runs[0].params_digest, runs[1].params_digest)
        self.assertLess(runs[1].history[-1].loss, runs[1].history[0].loss)

    def test_checkpoints_do_not_change_a_bit(self):
        runs, programs = [], []
        for checkpointed in (False, True):
            torch.manual_seed(7)
            model = Blocks(checkpointed)
            job = self.job(model, torch.optim.AdamW(model.parameters(), lr=0.01))
            programs.append(job.captured.program)
            runs.append(job.run(stages=MIX if checkpointed else "cpu-avx2:1"))
        regions = [{node.region for node in program.nodes} for program in programs]
        self.assertEqual(regions, [{0}, {0, 1, 2, 3, 4}])
        self.assertEqual(runs[0].params_digest, runs[1].params_digest)
        self.assertEqual(runs[0].state_digest, runs[1].state_digest)

    def test_a_batch_norm_comes_back_with_its_statistics_and_its_count(self):
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        model[1].num_batches_tracked.fill_(100)  # of another training, which does not count
        run = self.job(model, torch.optim.SGD(model.parameters(), lr=0.1)).run(devices="cpu-avx2:1")
        run.load_into(model)
        weights = run.state_dict()
        self.assertEqual(weights.keys(), model.state_dict().keys())
        for count in (weights["1.num_batches_tracked"], model[1].num_batches_tracked):
            self.assertEqual(int(count), STEPS)  # not STEPS times the 4 ESTs
        self.assertEqual(model[1].running_var.numpy().tobytes(), weights["1.running_var"].tobytes())

    def test_a_loss_of_the_whole_batch_is_evaluated_on_whole_batches_only(self):
        def loss(outputs, labels):  # one number that no mean over samples gives
            return nn.functional.cross_entropy(outputs, labels).square()

        model = Net()
        job = es.Job(model, loss=loss, data=es.data.arrays(*samples(1)), batch_size=8, max_p=4,
                     eval_data=es.data.arrays(*(part[:12] for part in samples(2))), steps=1,
                     optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        with self.assertRaisesRegex(es.UsageError, "12 evaluation samples: allowed is a multiple"):
            job.run(devices="cpu-avx2:1")

    def test_what_depends_on_a_whole_mini_batch_is_computed_of_whole_ones_only(self):
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, track_running_stats=False),
                              nn.Linear(8, 3))
        job = es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(*samples(1)), batch_size=8,
                     max_p=4, eval_data=es.data.arrays(*(part[:12] for part in samples(2))), steps=1,
                     optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        with self.assertRaisesRegex(es.UsageError, "12 evaluation samples: allowed is a multiple"):
            job.run(devices="cpu-avx2:1")

    def test_the_weights_come_back_bit_for_bit(self):
        model = Net()
        job = self.job(model, torch.optim.SGD(model.parameters(), 0.1))
        run = job.run(stages=MIX)
        run.load_into(model)
        for name, tensor in model.state_dict().items():
            self.assertEqual(tensor.numpy().tobytes(), run.state_dict()[name].tobytes(), name)
        self.assertEqual([e["version"] for e in run.evaluations], [5, STEPS])
        self.assertGreater(run.evaluations[-1]["mean_loss"], 0)

    def test_tied_weights_stay_tied(self):
        model = Net(tied=True)
        run = self.job(model, torch.optim.SGD(model.parameters(), 0.1)).run(stages=MIX)
        run.load_into(model)
        self.assertIs(model.first.weight, model.second.weight)
        self.assertEqual(model.second.weight.detach().numpy().tobytes(),
                         run.state_dict()["second.weight"].tobytes())

    def test_a_run_continues_from_loaded_weights(self):
        """Without momentum, two runs of the same model are one longer run."""
        model = Net()
        first = self.job(model, torch.optim.SGD(model.parameters(), 0.1)).run(devices="cpu-avx2:1")
        first.load_into(model)
        x, y = samples(1)
        expected = nn.functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y))
        second = self.job(model, torch.optim.SGD(model.parameters(), 0.1)).run(
            devices="cpu-avx2:1")
        self.assertAlmostEqual(second.history[0].loss, expected.item(), places=5)

    def test_a_head_trains_a_submitted_job(self):
        from easyscale.private_head import PrivateHead
        model = Net()
        job = self.job(model, torch.optim.SGD(model.parameters(), 0.1),
                       directory=self.folder / "job")
        with PrivateHead() as head:
            remote = job.submit(head.endpoint, stages=MIX)
            run = remote.wait(progress=False)
            client = es.Client(head.endpoint)
            self.assertEqual([view["job"] for view in client.jobs()], [remote.id])
            self.assertTrue(client.diff(remote.id, remote.id)["identical"])
        run.load_into(model)
        self.assertTrue(run.checkpoint.is_relative_to(self.folder / "job"))


if __name__ == "__main__":
    unittest.main()
