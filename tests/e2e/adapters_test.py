#!/usr/bin/env python3
"""Jobs with adapters (LoRA) and an average of the parameters: the same bits on all placements, also
after changes and a killed worker, and checkpoints that have only the adapters."""
import json
import os
import signal
from pathlib import Path

import harness
from harness import EXIT_USAGE, digests

ENDLESS = 1_000_000
JOB = """
name = "adapters-{word}"
max_p = 4
batch_size = 2
steps = {steps}
seed = {seed}
level = "D2"
[model]
name = "gpt2"
size = "tiny"
label_smoothing = 0.1
z_loss = 1e-3
{lora}
[data]
kind = "synthetic"
length = 16
vocabulary = 40
samples = 400
eval_samples = 20
[optimizer]
kind = "adamw"
learning_rate = 0.01
weight_decay = 0.1
ema = 0.9
"""
LORA = """
[lora]
rank = 4
alpha = 16
dropout = 0.1
targets = ["*.c_attn", "*.mlp.c_fc.weight"]
"""


class Adapters(harness.EndToEndTest):
    def adapted_job(self, steps, seed=7, lora=LORA, name="job.toml"):
        return self.write_job(JOB.format(word=self.word, steps=steps, seed=seed, lora=lora), name)

    def test_the_bits_do_not_depend_on_the_placement(self):
        fast, other = self.fast_class(), self.other_class()
        job = self.adapted_job(30)
        fixed = self.run_job(job, "--devices", f"{other}:1")
        self.assertLess(fixed["loss_last"], fixed["loss_first"])
        changing = self.run_job(job, "--stages", f"{fast}:4@10,cpu-scalar:1@5,{fast}:2@15")
        self.assertEqual(digests(changing), digests(fixed))
        self.assertEqual(changing["eval"], fixed["eval"])
        daemon = self.start_daemon(devices=f"cuda-host:1+{fast}:1")
        mixed = daemon.submit(job, "--stages", f"cuda-host:1@10,cuda-host:1+{fast}:1@20")
        end = daemon.wait_for_state(mixed, "finished")
        self.assertEqual(digests(end), digests(fixed))
        self.assertEqual(end["evaluations"][-1]["mean_loss"], fixed["eval"]["mean_loss"])

    @staticmethod
    def bases(details):
        """The shared memory of every worker: the inodes of its bases."""
        found = []
        for worker in details["workers"]:
            lines = Path(f"/proc/{worker['pid']}/maps").read_text().splitlines()
            found.append({line.split()[4] for line in lines if "/memfd:base." in line})
        return found

    def test_the_workers_of_a_node_share_the_base(self):
        fast = self.fast_class()
        daemon = self.start_daemon(devices=f"{fast}:3")
        # The parameters of a tiny model fill no page with a usual vocabulary.
        text = self.adapted_job(ENDLESS).read_text().replace("vocabulary = 40", "vocabulary = 9000")
        job = daemon.submit(self.write_job(text, "large.toml"), "--stages", f"{fast}:2@{ENDLESS}")

        def two_workers(details):
            return len(details["workers"]) == 2 and all(w["pid"] > 0 for w in details["workers"])

        details = daemon.wait_for(job, "two workers", lambda d: d["steps"] > 2 and two_workers(d))
        shared = self.bases(details)
        self.assertEqual(len(shared[0]), 1, shared)
        self.assertEqual(shared[0], shared[1])
        # The memory outlives the process that has made it.
        for victim in [worker["pid"] for worker in details["workers"]]:
            os.kill(victim, signal.SIGKILL)
            details = daemon.wait_for(
                job, "another worker", lambda d: d["steps"] > details["steps"] + 5
                and two_workers(d) and victim not in [w["pid"] for w in d["workers"]])
            self.assertEqual(self.bases(details), shared)
        daemon.esctl("cancel", job)

    def test_a_live_change_and_a_killed_worker_keep_the_bits(self):
        fast, other = self.fast_class(), self.other_class()
        daemon = self.start_daemon(devices="+".join(sorted([f"{fast}:3", f"{other}:1"])))
        job = daemon.submit(self.adapted_job(ENDLESS))
        for placement in (f"{fast}:2", "+".join(sorted([f"{fast}:1", f"{other}:1"]))):
            daemon.json("scale", job, placement)
            step = daemon.describe(job)["steps"]
            details = daemon.wait_for(job, placement, lambda d: d["placement"] == placement
                                      and d["steps"] > step + 5
                                      and all(w["pid"] > 0 for w in d["workers"]))
        victim = details["workers"][0]["pid"]
        os.kill(victim, signal.SIGKILL)
        daemon.wait_for(job, "another worker", lambda d: d["steps"] > details["steps"] + 10
                        and len(d["workers"]) == 2
                        and victim not in [w["pid"] for w in d["workers"]])
        taken = daemon.json("checkpoint", job)
        daemon.esctl("cancel", job)
        whole = self.run_job(self.adapted_job(taken["version"]), "--devices", f"{fast}:1")
        self.assertEqual((taken["params_digest"], taken["state_digest"]), digests(whole))

    def test_a_checkpoint_has_only_the_adapters_and_continues(self):
        devices = self.fast_class() + ":2"
        half, checkpoint = self.adapted_job(10), self.directory / "checkpoint"
        self.run_job(half, "--devices", devices, "--checkpoint", checkpoint)
        plain = self.directory / "plain"
        self.run_job(self.adapted_job(1, lora="", name="plain.toml"), "--devices", devices,
                     "--checkpoint", plain)
        size, of_whole = ((place / "data").stat().st_size for place in (checkpoint, plain))
        # m, v, the average and the adapters themselves, each 4 * (64 + 192 + 64 + 256) floats.
        self.assertLess(size, 4 * 4 * 2 * 4 * 640 + 20_000)
        self.assertGreater(of_whole, 10 * size)
        whole = self.adapted_job(20, name="whole.toml")
        resumed = self.run_job(whole, "--from", checkpoint, "--devices", devices)
        self.assertEqual(digests(resumed), digests(self.run_job(whole, "--devices", devices)))
        refused = self.esctl("run", self.adapted_job(20, lora=LORA.replace("= 16", "= 8")),
                             "--from", checkpoint, "--devices", devices, code=EXIT_USAGE)
        self.assertIn("belongs to a job with another lora.alpha", refused.err)
        # The evaluation of the checkpoint and its export need nothing but the job.
        self.esctl("eval", checkpoint)
        for options in ([], ["--ema"]):
            target = self.directory / f"adapter{len(options)}"
            self.esctl("export", checkpoint, target, *options)
            config = json.loads((target / "adapter_config.json").read_text())
            self.assertEqual((config["r"], config["lora_alpha"]), (4, 16.0))
            self.assertEqual(len(config["target_modules"]), 4)
        self.assertNotEqual(*[(self.directory / f"adapter{i}/adapter_model.safetensors").read_bytes()
                              for i in range(2)])

    def test_frozen_parameters_have_neither_gradients_nor_moments(self):
        memory = {}
        for name, lora in (("with", LORA), ("without", "")):
            job = self.adapted_job(10, lora=lora, name=f"{name}.toml")
            shown = self.esctl("inspect", job, "--no-d2", "--json").json
            memory[name] = shown["classes"][0]["memory"]
        for key in ("moments_bytes", "gradient_slot_bytes"):
            self.assertLess(20 * memory["with"][key], memory["without"][key], memory)
        self.assertGreater(memory["with"]["params_bytes"], memory["without"]["params_bytes"])

    def test_a_target_that_names_no_layer_is_refused(self):
        job = self.adapted_job(10, lora=LORA.replace("c_attn", "q_proj"))
        refused = self.esctl("run", job, "--devices", self.fast_class() + ":1", code=EXIT_USAGE)
        self.assertIn('lora.targets[0] = "*.q_proj": allowed is the name of a linear layer',
                      refused.err)
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
