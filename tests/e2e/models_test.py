#!/usr/bin/env python3
"""Every model of configs/jobs/tiny_*.toml has the same bits on all devices, and learns, at fp32
and at bf16."""
import re

import harness
from harness import digests

MODELS = ["resnet18", "resnet50", "shufflenetv2", "vgg19", "swin_t", "yolov3", "neumf", "bert",
          "electra", "gpt2", "llama"]

# Relative to the loss of the first step. The model can learn the structure of the data within the
# steps of the file.
LOSS_LEFT_MAX = 0.75
FEW = 3  # steps

HEADLINES = {"yolov3": "map50", "neumf": "hit_rate@10", "bert": "exact_match",
             "electra": "exact_match", "gpt2": "perplexity", "llama": "perplexity"}


def key(text, name):
    return re.search(rf"^{name} = (\S+)", text, re.MULTILINE).group(1)


class Models(harness.EndToEndTest):
    def job_file(self, model, precision):
        """The shipped job under a name for this test, and its number of steps."""
        text = (harness.source_root / f"configs/jobs/tiny_{model}.toml").read_text()
        self.assertEqual((key(text, "level"), key(text, "max_p")), ('"D2"', "4"))
        name = f'name = "{model}-{self.word}"'
        text, found = re.subn(r'^name = "tiny_\S+"', name, text, count=1, flags=re.MULTILINE)
        self.assertEqual(found, 1)
        text = f'precision = "{precision}"\n' + text
        return self.write_job(text, f"{model}.toml"), int(key(text, "steps"))

    def placements(self, steps):
        a, b = self.fast_class(), self.other_class()
        mixed = "+".join(sorted([f"{a}:1", f"{b}:1"]))
        three = "+".join(sorted([f"{a}:2", f"{b}:1"]))
        # The other class may be many times slower, so it takes part in a few steps.
        changing = [f"{devices}@{FEW}" for devices in (f"{a}:4", f"{b}:1", mixed, three)]
        return [f"{a}:1@{steps}", ",".join([*changing, f"{a}:2@{steps - len(changing) * FEW}"])]

    def check(self, model, precision="fp32"):
        job, steps = self.job_file(model, precision)
        found = {}
        for stages in self.placements(steps):
            summary = self.run_job(job, "--stages", stages)
            self.assertEqual((summary["state"], summary["steps"]), ("finished", steps))
            found[stages] = digests(summary), summary["evaluations"]
        first = next(iter(found.values()))
        self.assertEqual({stages: first for stages in found}, found)
        print(model, precision, "loss", summary["loss_first"], "->", summary["loss_last"], summary["eval"],
              flush=True)
        self.assertLess(summary["loss_last"], LOSS_LEFT_MAX * summary["loss_first"])
        self.assertEqual(summary["eval"]["metric"], HEADLINES.get(model, "accuracy"))

    def test_the_list_is_complete(self):
        shipped = {path.stem.removeprefix("tiny_")
                   for path in (harness.source_root / "configs/jobs").glob("tiny_*.toml")}
        self.assertEqual(shipped, set(MODELS))


for _model in MODELS:
    setattr(Models, f"test_{_model}", lambda self, model=_model: self.check(model))
    setattr(Models, f"test_{_model}_at_bf16",
            lambda self, model=_model: self.check(model, "bf16"))


if __name__ == "__main__":
    harness.main()
