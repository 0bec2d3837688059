#!/usr/bin/env python3
"""Adapters beside those of peft: a job with `lora` on a captured and on a built-in model, and a
module that peft has wrapped. All samples are one global batch."""
import importlib.util
import json
import subprocess
import unittest

import numpy as np
import torch
from language_support import (LENGTH, VOCABULARY, WINDOWS, TokenCase, loss_of, state_of, train,
                              twin)
from support import FolderCase, offered_types, programs_train_model_files
from torch import nn
from torch_training import torch_losses

import easyscale as es
from easyscale.programs import find_esctl

RANK, ALPHA, STEPS, RATE = 4, 8.0, 3, 0.05
TARGETS = {"llama": ["*q_proj", "*v_proj"], "gpt2": ["*.c_attn", "*.mlp.c_proj"]}
LORA = """
[lora]
rank = {rank}
alpha = {alpha}
targets = {targets}
"""
JOB = """
name = "{family}"
max_p = 2
batch_size = {batch}
steps = {steps}
level = "D2"
[model]
name = "{family}"
size = "tiny"
dropout = 0.0
weights = "weights.safetensors"
{more}
[data]
kind = "tokens"
path = "."
length = {length}
vocabulary = {vocabulary}
[optimizer]
kind = "adamw"
learning_rate = {rate}
[checkpoint]
directory = "kept"
every_steps = {steps}
"""


def adapter_tensors(model):
    """The tensors of the adapters by the names that the package gives them."""
    return {name.removeprefix("base_model.model.").replace(".default", ""): tensor
            for name, tensor in model.state_dict().items() if "lora_" in name}


def wrapped(model, targets, dropout=0.0):
    """The model with adapters of peft, whose modules are `targets`."""
    import peft
    return peft.get_peft_model(model, peft.LoraConfig(
        r=RANK, lora_alpha=ALPHA, lora_dropout=dropout, target_modules=targets))


def modules_of(weights):
    """The modules whose adapters are in these tensors."""
    return [name.removesuffix(".lora_A.weight") for name in weights if ".lora_A." in name]


@unittest.skipUnless(importlib.util.find_spec("peft"), "there is no peft")
@unittest.skipUnless(importlib.util.find_spec("transformers"), "there is no transformers")
@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Adapters(TokenCase):
    def job(self, model, steps=STEPS, **options):
        options = {"lora": es.Lora(["*q_proj", "*v_proj"], rank=RANK, alpha=ALPHA),
                   "optimizer": es.Optimizer("adamw", learning_rate=RATE)} | options
        return es.Job(model, loss=loss_of, data=es.data.tokens(self.folder, length=LENGTH),
                      batch_size=WINDOWS // 2, max_p=2, steps=steps, **options)

    def first_adapters(self, model):
        """The adapters of version 0, which follow from the seed: a job whose rate is 0 keeps them."""
        job = self.job(model, steps=1, optimizer=es.Optimizer("adamw", learning_rate=0.0))
        return job.run(devices=offered_types()[0] + ":1", progress=False).state_dict()

    def in_peft(self, model, targets, first):
        """The losses of peft's training from these adapters, and the wrapped model after it."""
        model = wrapped(model, targets)
        own = model.state_dict()
        for name, array in first.items():
            inner = name.replace(".weight", ".default.weight")
            own[f"base_model.model.{inner}"].copy_(torch.from_numpy(array))
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE,
                                      weight_decay=0.0)
        return train(model, optimizer, self.x, self.y, STEPS), model

    def check_beside_peft(self, model, theirs, trained, folder):
        """`theirs`: the model that peft has trained; `trained`: our adapters after the training,
        which are in the folder, too, and are added to `model`."""
        import peft
        for name, tensor in adapter_tensors(theirs).items():
            np.testing.assert_allclose(trained[name], tensor.detach().numpy(), atol=2e-3,
                                       err_msg=name)
        # What was exported loads in peft, under every name and with all bits.
        loaded = peft.PeftModel.from_pretrained(model, folder).eval()
        found = adapter_tensors(loaded)
        self.assertEqual(set(found), set(trained))
        for name, tensor in found.items():
            self.assertEqual(tensor.numpy().tobytes(), trained[name].tobytes(), name)
        return loaded

    def test_a_captured_model(self):
        model = twin("llama")
        weights = state_of(model)
        first = self.first_adapters(model)
        self.assertEqual(len(modules_of(first)), 4)
        for name, array in first.items():
            bound = 64 ** -0.5 if ".lora_A." in name else 0.0
            self.assertLessEqual(np.abs(array).max(), bound, name)
            self.assertGreaterEqual(np.abs(array).max(), 0.9 * bound, name)
        job = self.job(model)
        run = job.run(stages=f"{offered_types()[0]}:2@1,cpu-scalar:1@1,{offered_types()[1]}:2",
                      progress=False)
        run.save_adapter(self.folder / "adapter")
        expected, theirs = self.in_peft(twin("llama"), ["q_proj", "v_proj"], first)
        losses = [line.loss for line in run.history]
        np.testing.assert_allclose(losses, expected, atol=1e-4)
        self.assertNotAlmostEqual(losses[0], losses[-1], 3)
        loaded = self.check_beside_peft(twin("llama"), theirs, run.state_dict(),
                                        self.folder / "adapter")
        # The engine's own outputs are those of peft with the same adapters: their evaluation.
        with torch.no_grad():
            loss = loss_of(loaded(input_ids=self.x), self.y).item()
        self.assertAlmostEqual(run.evaluations[-1]["mean_loss"], loss, 5)
        for name, array in state_of(model).items():
            self.assertEqual(array.tobytes(), weights[name].tobytes(), name)
        with self.assertRaisesRegex(es.UsageError, "save_adapter"):
            run.load_into(model)
        one = self.job(model).run(devices="cpu-scalar:1", progress=False)
        self.assertEqual(one.params_digest, run.params_digest)
        self.assertEqual(one.state_digest, run.state_digest)

    def test_outputs_are_those_of_peft_with_the_same_adapters(self):
        from safetensors.numpy import save_file
        for family in TARGETS:
            with self.subTest(family=family):
                self.check_outputs(family, save_file)

    def check_outputs(self, family, save_file):
        import peft
        model = twin(family)
        save_file(state_of(model), self.folder / "weights.safetensors")
        summary, folder = self.built_in(family, RATE)
        np.savez(self.folder / "x.npz", ids=self.x.numpy().astype(np.int32))
        loaded = peft.PeftModel.from_pretrained(model, folder).eval()
        with torch.no_grad():
            expected = loaded(input_ids=self.x).logits.numpy()
        kept = self.folder / "kept" / summary["job"] / f"step-{STEPS}"
        self.esctl("predict", kept, "x.npz", "--out", f"{family}.npz")
        found = np.load(self.folder / f"{family}.npz")["output"].reshape(expected.shape)
        np.testing.assert_allclose(found, expected, atol=1e-5)

    def esctl(self, *words, code=0):
        done = subprocess.run([find_esctl(), *map(str, words)], capture_output=True, text=True,
                              cwd=self.folder, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def run_built_in(self, family, rate, more):
        """The summary of a job; `more`: lines behind [model]."""
        (self.folder / "job.toml").write_text(JOB.format(
            family=family, batch=WINDOWS // 2, steps=STEPS, length=LENGTH, vocabulary=VOCABULARY,
            rate=rate, more=more))
        return json.loads(self.esctl("run", "job.toml", "--devices", offered_types()[0] + ":2",
                                     "--quiet", "--json"))

    def built_in(self, family, rate):
        """The summary of a job with adapters, and the folder with these."""
        summary = self.run_built_in(family, rate, LORA.format(
            rank=RANK, alpha=ALPHA, targets=json.dumps(TARGETS[family])))
        folder = self.folder / f"{family}-{rate}"
        self.esctl("export", self.folder / "kept" / summary["job"] / f"step-{STEPS}", folder)
        return summary, folder

    def test_a_built_in_model_with_weights_in_columns(self):
        from safetensors.numpy import load_file, save_file
        model = twin("gpt2")
        save_file(state_of(model), self.folder / "weights.safetensors")
        summaries, tensors = [], []
        for rate in (0.0, RATE):
            summary, folder = self.built_in("gpt2", rate)
            found = load_file(folder / "adapter_model.safetensors")
            tensors.append({name.removeprefix("base_model.model."): array
                            for name, array in found.items()})
            summaries.append(summary)
        self.assertEqual(len(modules_of(tensors[0])), 4)
        expected, theirs = self.in_peft(twin("gpt2"), ["c_attn", "mlp.c_proj"], tensors[0])
        losses = [summaries[1][key] for key in ("loss_first", "loss_last")]
        np.testing.assert_allclose(losses, [expected[0], expected[-1]], atol=1e-4)
        self.check_beside_peft(twin("gpt2"), theirs, tensors[1], folder)

    def test_another_base_is_refused_by_its_name(self):
        from safetensors.numpy import save_file
        weights = state_of(twin("llama"))
        save_file(weights, self.folder / "weights.safetensors")
        summary, _ = self.built_in("llama", RATE)
        weights["model.norm.weight"] = weights["model.norm.weight"] * 2
        save_file(weights, self.folder / "weights.safetensors")
        error = self.esctl("eval", self.folder / "kept" / summary["job"] / f"step-{STEPS}", code=4)
        self.assertIn("weights.safetensors: digest = ", error)
        self.assertIn("which it had when the job was admitted", error)

    def test_label_smoothing_and_z_loss_of_a_built_in_model(self):
        from safetensors.numpy import save_file

        def loss_with(logits):
            lse = torch.logsumexp(logits, -1)
            return nn.functional.cross_entropy(logits.flatten(0, 1), self.y.flatten(),
                                               label_smoothing=0.1) + 0.01 * (lse ** 2).mean()

        model = twin("gpt2")
        save_file(state_of(model), self.folder / "weights.safetensors")
        summary = self.run_built_in("gpt2", 0.01, "label_smoothing = 0.1\nz_loss = 0.01")
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = loss_with(model(input_ids=self.x).logits)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        np.testing.assert_allclose([summary["loss_first"], summary["loss_last"]],
                                   [losses[0], losses[-1]], atol=1e-4)
        with torch.no_grad():
            losses.append(loss_with(model(input_ids=self.x).logits).item())
        self.assertAlmostEqual(summary["eval"]["mean_loss"], losses[-1], 4)

    def test_a_module_that_peft_has_wrapped_trains_as_it_is(self):
        torch.manual_seed(8)
        model = wrapped(twin("llama"), ["q_proj", "v_proj"])
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE)
        job = es.Job(model, loss=loss_of, data=es.data.tokens(self.folder, length=LENGTH),
                     batch_size=WINDOWS // 2, max_p=2, steps=STEPS, optimizer=optimizer)
        run = job.run(devices=offered_types()[0] + ":2", progress=False)
        before = {name: array.copy() for name, array in state_of(model).items()}
        losses = train(model, optimizer, self.x, self.y, STEPS)
        np.testing.assert_allclose([line.loss for line in run.history], losses, atol=1e-4)
        run.load_into(model)
        for name, array in state_of(model).items():
            if "lora_" not in name:
                self.assertEqual(array.tobytes(), before[name].tobytes(), name)


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Average(FolderCase):
    def test_the_average_is_that_of_torch(self):
        from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
        rng = np.random.default_rng(2)
        x = rng.normal(size=(16, 6)).astype(np.float32)
        y = x[:, :3].argmax(axis=1)
        for decay, rule in ((0.9, lambda p: torch.optim.AdamW(p, lr=0.01)),
                            (0.4, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))):
            torch.manual_seed(5)
            model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
            job = es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(x, y),
                         eval_data=es.data.arrays(x, y), batch_size=4, max_p=4, steps=7,
                         optimizer=rule(model.parameters()), ema=decay)
            runs = [job.run(stages=stages, progress=False)
                    for stages in ("cpu-scalar:1", f"{offered_types()[0]}:2@3,cpu-scalar:1")]
            self.assertEqual(runs[0].state_digest, runs[1].state_digest)
            averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
            optimizer = rule(model.parameters())
            for _ in range(7):
                torch_losses(model, optimizer, nn.CrossEntropyLoss(), (x, y), 1)
                averaged.update_parameters(model)
            plain, average = runs[0].state_dict(), runs[0].state_dict(ema=True)
            for name, tensor in averaged.module.state_dict().items():
                np.testing.assert_allclose(average[name], tensor.numpy(), atol=1e-6, err_msg=name)
                np.testing.assert_allclose(plain[name], model.state_dict()[name].numpy(), atol=1e-5)
                self.assertGreater(np.abs(average[name] - plain[name]).max(), 1e-4)
            # The evaluation is that of the average.
            with torch.no_grad():
                loss = nn.functional.cross_entropy(averaged(torch.from_numpy(x)),
                                                   torch.from_numpy(y)).item()
                other = nn.functional.cross_entropy(model(torch.from_numpy(x)),
                                                    torch.from_numpy(y)).item()
            self.assertAlmostEqual(runs[1].evaluations[-1]["mean_loss"], loss, 5)
            self.assertGreater(abs(loss - other), 1e-4)
            runs[0].load_into(model, ema=True)
            for name, tensor in model.state_dict().items():
                self.assertEqual(tensor.numpy().tobytes(), average[name].tobytes())

    def test_a_run_without_an_average_has_none(self):
        model = nn.Linear(6, 3)
        job = es.Job(model, loss=nn.CrossEntropyLoss(),
                     data=es.data.arrays(np.zeros((4, 6), np.float32), np.zeros(4, np.int64)),
                     batch_size=2, max_p=2, steps=1, optimizer=es.Optimizer())
        run = job.run(devices="cpu-scalar:1", progress=False)
        with self.assertRaisesRegex(es.UsageError, "optimizer.ema above 0"):
            run.load_into(model, ema=True)


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class ZLoss(FolderCase):
    def test_a_captured_loss_with_logsumexp(self):
        def loss(logits, labels):
            lse = torch.logsumexp(logits, dim=-1)
            return nn.functional.cross_entropy(logits, labels) + 1e-2 * (lse ** 2).mean()

        rng = np.random.default_rng(2)
        x = rng.normal(size=(16, 6)).astype(np.float32)
        y = x[:, :3].argmax(axis=1)
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        job = es.Job(model, loss=loss, data=es.data.arrays(x, y), batch_size=4, max_p=4, steps=6,
                     optimizer=optimizer)
        runs = [job.run(stages=stages, progress=False)
                for stages in ("cpu-scalar:1", f"{offered_types()[0]}:2@3,cpu-scalar:1")]
        self.assertEqual(runs[0].params_digest, runs[1].params_digest)
        losses = torch_losses(model, optimizer, loss, (x, y), 6)
        np.testing.assert_allclose([line.loss for line in runs[0].history], losses, rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
