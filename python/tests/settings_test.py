#!/usr/bin/env python3
"""Settings that a job file would refuse are refused when they are given, by their names."""
import re
import unittest

import numpy as np
import torch
from support import programs_train_model_files
from torch import nn

import easyscale as es
from easyscale.programs import run_json
from easyscale.settings import RULES, Choice, Flag, checked


def make_job(model=None, **changes):
    options = {"loss": nn.CrossEntropyLoss(), "batch_size": 2, "max_p": 2, "steps": 2,
               "data": es.data.arrays(np.zeros((16, 4)), np.arange(16) % 3),
               "optimizer": es.Optimizer(learning_rate=0.1)}
    return es.Job(model or nn.Linear(4, 3), **(options | changes))


class Refused(unittest.TestCase):
    def refuses(self, text, call):
        with self.assertRaisesRegex(es.UsageError, text):
            call()

    def test_numbers_and_choices_of_a_job(self):
        for name, wrong in {
                "level": ["D7", 2], "precision": ["fp64"],
                "arithmetic": ["x16", 15], "recompute": [True], "shard_state": ["yes", True],
                "seed": [-1, 1.5, 2**63, True], "max_p": [0, 1025, 2.0, "2"],
                "batch_size": [0, -1, "8", 65537], "eval_every": [-1, 1.5],
                "checkpoint_every": [-1, 0.5], "threads": [0, 257, "1"],
                "clip_norm": [-1, float("nan"), "1", float("inf")], "ema": [1.0, -0.1],
                "steps": [2.5, -1, "2", 0]}.items():
            for value in wrong:
                self.refuses(f"^{name} = .*: allowed is ", lambda: make_job(**{name: value}))
        self.refuses("^epochs = 0.5: allowed is a whole number",
                     lambda: make_job(steps=None, epochs=0.5))
        self.refuses("^epochs = 0: allowed is at least 1", lambda: make_job(steps=None, epochs=0))

    def test_arguments_of_another_kind(self):
        for name, wrong in {
                "model": ["resnet18", nn.Linear], "loss": ["mse", 5, nn.CrossEntropyLoss],
                "data": [None, np.zeros((16, 4))], "name": [5], "metrics": ["accuracy", None],
                "metric": ["accuracy"], "lora": [4], "directory": [5],
                "allow_functions": ["all", (3,)]}.items():
            for value in wrong:
                self.refuses(f"^{name} is .*: allowed is ", lambda: make_job(**{name: value}))

    def test_tables_of_a_job_file(self):
        for kind, wrong in {
                es.Optimizer: [("kind", "lion"), ("learning_rate", -1), ("learning_rate", "1"),
                               ("momentum", 2), ("beta1", 1.0), ("epsilon", 0), ("nesterov", 1),
                               ("weight_decay", -1), ("nesterov", True)],
                es.Schedule: [("kind", "poly"), ("gamma", 7), ("floor", -1), ("warmup_steps", 1.5)]
                }.items():
            for name, value in wrong:
                self.refuses(f"^{name} = .*: allowed ", lambda: kind(**{name: value}))
        self.refuses("^step_size = 0", lambda: es.Schedule("step"))
        for name, value in (("rank", 0), ("rank", 1.5), ("alpha", 0), ("dropout", 1.0)):
            self.refuses(f"^{name} = ", lambda: es.Lora(["fc"], **{name: value}))
        for name, value in (("learning_rate_factor", -1), ("weight_decay", "0")):
            self.refuses(f"^{name} = ", lambda: es.ParameterGroup(["fc"], **{name: value}))

    def test_torch_options_have_the_same_ranges(self):
        model = nn.Linear(4, 3)
        self.refuses("^epsilon = 0.0: allowed is above 0", lambda: make_job(
            model, optimizer=torch.optim.Adam(model.parameters(), eps=0)))


class Accepted(unittest.TestCase):
    def test_numbers_of_numpy_and_torch_become_plain_ones(self):
        job = make_job(batch_size=np.int64(4), seed=np.uint8(3), clip_norm=np.float32(0.5),
                       optimizer=es.Optimizer(learning_rate=torch.tensor(0.25)))
        text = job.toml()
        for line in ("batch_size = 4", "seed = 3", "clip_norm = 0.5", "learning_rate = 0.25"):
            self.assertIn(f"{line}\n", text)

    @unittest.skipUnless(programs_train_model_files(), "there is no esctl")
    def test_the_ranges_are_those_of_job_files(self):
        fields = {field["key"]: field for field in run_json(["fields"])["fields"]}
        for key, rule in RULES.items():
            if key.startswith(("optimizer.groups.", "optimizer.clip_groups.")):
                continue  # esctl names these fields without their ranges
            if isinstance(rule, Flag):
                self.assertEqual(fields[key]["type"], "true or false", key)
                continue
            allowed = re.sub(r" \(.*?\)", "", fields[key]["allowed"])
            self.assertEqual(rule.allowed(), allowed, key)
            if not isinstance(rule, Choice):
                self.assertEqual(fields[key]["type"],
                                 "whole number" if rule.whole else "number", key)
                self.assertEqual(checked(key, rule.high - rule.below), rule.high - rule.below)


if __name__ == "__main__":
    unittest.main()
