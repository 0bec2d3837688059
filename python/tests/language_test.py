#!/usr/bin/env python3
"""The built-in language models beside those of transformers, and beside the same models captured:
two steps from the same weights have the same losses, gradients and evaluation."""
import importlib.util
import json
import math
import subprocess
import unittest

import numpy as np
import torch
from language_support import LENGTH, VOCABULARY, WINDOWS, TokenCase, loss_of, state_of, twin
from support import offered_types, programs_train_model_files

import easyscale as es
from easyscale.programs import find_esctl

STEPS, RATE = 2, 0.5
TOLERANCE = 1e-4
JOB = """
name = "{family}"
max_p = 2
batch_size = {batch}
steps = {steps}
level = "D2"
{recompute}
[model]
name = "{family}"
size = "tiny"
dropout = 0.0
weights = "weights.safetensors"
[data]
kind = "tokens"
path = "."
length = {length}
vocabulary = {vocabulary}
[optimizer]
kind = "sgd"
learning_rate = {rate}
momentum = 0.0
[checkpoint]
directory = "kept"
every_steps = 1
"""


@unittest.skipUnless(importlib.util.find_spec("transformers"), "there is no transformers")
@unittest.skipUnless(programs_train_model_files(), "there is no esctl")
class Language(TokenCase):
    def esctl(self, *words):
        done = subprocess.run([find_esctl(), *map(str, words)], capture_output=True, text=True,
                              cwd=self.folder, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def in_torch(self, model):
        """The states after each step, and the losses before each step and after the last one."""
        states, losses = [state_of(model)], []
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = loss_of(model(input_ids=self.x), self.y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            states.append(state_of(model))
        with torch.no_grad():
            losses.append(loss_of(model(input_ids=self.x), self.y).item())
        return states, losses

    def built_in(self, family, recompute=""):
        """The same of the built-in model, from the file of weights, and the summary."""
        from safetensors.numpy import load_file
        (self.folder / "job.toml").write_text(JOB.format(
            family=family, batch=WINDOWS // 2, steps=STEPS, length=LENGTH, vocabulary=VOCABULARY,
            rate=RATE, recompute=recompute))
        states = [load_file(self.folder / "weights.safetensors")]
        for step in range(1, STEPS + 1):
            summary = json.loads(self.esctl("run", "job.toml", "--steps", step, "--devices",
                                            offered_types()[0] + ":2", "--quiet", "--json"))
            file = self.folder / f"{family}-{step}-{len(recompute)}.safetensors"
            self.esctl("export", self.folder / "kept" / summary["job"] / f"step-{step}", file)
            states.append(load_file(file))
        losses = [summary["loss_first"], summary["loss_last"], summary["eval"]["mean_loss"]]
        return states, losses, summary

    def check_gradients(self, ours, expected):
        """A step of gradient descent subtracts RATE times the gradient."""
        self.assertEqual(len(ours), STEPS + 1)
        for step in range(STEPS):
            for name in expected[0]:
                found, true = ((states[step][name] - states[step + 1][name]) / RATE
                               for states in (ours, expected))
                # A difference of parameters has the rounding of the parameters.
                rounding = 2 * np.spacing(np.abs(ours[step][name]).max()) / RATE
                allowed = TOLERANCE * np.abs(true).max() + rounding
                self.assertLess(np.abs(found - true).max(), allowed, (step, name))

    def check(self, family):
        from safetensors.numpy import save_file
        model = twin(family)
        save_file(state_of(model), self.folder / "weights.safetensors")
        states, losses, summary = self.built_in(family)
        # What is computed again in the backward pass has the same bits.
        again = self.built_in(family, 'recompute = "blocks"')[2]
        self.assertEqual(again["params_digest"], summary["params_digest"])
        captured = es.Job(model, loss=loss_of, data=es.data.tokens(self.folder, length=LENGTH),
                          batch_size=WINDOWS // 2, max_p=2, steps=STEPS,
                          optimizer=torch.optim.SGD(model.parameters(), lr=RATE))
        run = captured.run(devices=offered_types()[0] + ":1", progress=False)
        expected_states, expected_losses = self.in_torch(model)
        np.testing.assert_allclose(losses, expected_losses, rtol=TOLERANCE)
        self.check_gradients(states, expected_states)
        self.assertEqual(set(states[-1]), set(expected_states[-1]))
        np.testing.assert_allclose([line.loss for line in run.history], losses[:STEPS],
                                   rtol=TOLERANCE)
        for name, value in run.state_dict().items():
            np.testing.assert_allclose(value, states[-1][name], atol=1e-6, err_msg=name)
        # What was exported loads in transformers, with every name.
        other = twin(family)
        other.load_state_dict({name: torch.from_numpy(value)
                               for name, value in states[-1].items()}, strict=True)
        with torch.no_grad():
            np.testing.assert_allclose(loss_of(other(input_ids=self.x), self.y).item(), losses[-1],
                                       rtol=TOLERANCE)
        for evaluation in (summary["eval"], run.evaluations[-1]):
            self.assertEqual(evaluation["metric"], "perplexity")
            self.assertAlmostEqual(math.log(evaluation["perplexity"]), evaluation["mean_loss"], 9)

    def test_generation_keeps_the_keys_and_values_of_captured_models(self):
        characters = [chr(code) for code in range(0x41, 0x41 + VOCABULARY)]
        tokenizer = {"version": "1.0", "added_tokens": [], "normalizer": None,
                     "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                     "post_processor": None, "decoder": {"type": "ByteLevel"},
                     "model": {"type": "BPE", "merges": [],
                               "vocab": {c: i for i, c in enumerate(characters)}}}
        (self.folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        for family in ("gpt2", "llama"):
            model = twin(family)
            job = es.Job(model, loss=loss_of, data=es.data.tokens(self.folder, length=LENGTH),
                         batch_size=WINDOWS // 2, max_p=2, steps=STEPS,
                         optimizer=torch.optim.SGD(model.parameters(), lr=RATE))
            run = job.run(devices=offered_types()[0] + ":1", progress=False)
            made = json.loads(self.esctl("generate", run.checkpoint, "--prompt", "BAD",
                                         "--tokenizer", "tokenizer.json", "--tokens", 12,
                                         "--json"))
            self.assertTrue(made["keeps_keys"], family)
            # The most probable tokens by PyTorch, with the trained weights.
            run.load_into(model)
            ids = [1, 0, 3]
            with torch.no_grad():
                for _ in range(12):
                    logits = model.eval()(input_ids=torch.tensor([ids])).logits[0, -1]
                    ids.append(int(logits.argmax()))
            self.assertEqual(made["tokens"], ids[3:], family)

    def test_gpt2(self):
        self.check("gpt2")

    def test_llama(self):
        self.check("llama")


if __name__ == "__main__":
    unittest.main()
