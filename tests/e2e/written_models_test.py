#!/usr/bin/env python3
"""Built-in models that are written as model files train to the same bits, and what is wrong with
`esctl models write` is one clear error."""
import array
import json
import re

import harness
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE, digests
from model_files import read_safetensors
from predict_test import read_npz, write_npz

STEPS = 6
# One of each task, and what is special: padding and dropout, several scales, embeddings.
MODELS = ["resnet18", "vgg19", "swin_t", "shufflenetv2", "yolov3", "neumf", "bert", "gpt2"]


class WrittenModels(harness.EndToEndTest):
    def job_text(self, model):
        """The shipped job with fewer steps."""
        text = (harness.source_root / f"configs/jobs/tiny_{model}.toml").read_text()
        text = re.sub(r"^steps = \d+", f"steps = {STEPS}", text, flags=re.MULTILINE)
        return re.sub(r'^name = "tiny_\S+"', f'name = "{model}-{self.word}"', text, count=1,
                      flags=re.MULTILINE)

    def trained(self, job):
        """The summary of a run on one device, and the exported state dict."""
        kept, weights = self.directory / job.stem, self.directory / f"{job.stem}.safetensors"
        summary = self.run_job(job, "--devices", f"{self.fast_class()}:1", "--checkpoint", kept)
        self.esctl("export", kept, weights)
        return summary, read_safetensors(weights)[1]

    def check(self, model):
        text = self.job_text(model)
        job = self.write_job(text, f"{model}.toml")
        file = self.directory / f"{model}.esmodel"
        digest = self.esctl("models", "write", job, "-o", file, "--json").json["digest"]
        self.assertIn(digest, self.esctl("models", "show", file).out)
        self.assertIn("parameters", self.esctl("inspect", file).out)
        section = f'[model]\nfile = "{file.name}"\n\n'
        from_file = re.sub(r"^\[model\]\n.*?^(?=\[)", section, text, flags=re.MULTILINE | re.DOTALL)
        built_in, state = self.trained(job)
        captured, state_from_file = self.trained(self.write_job(from_file, f"{model}_file.toml"))
        for key in ("loss_first", "loss_last", "steps"):
            self.assertEqual(captured[key], built_in[key], (model, key))
        self.assertEqual(digests(captured), digests(built_in))
        self.assertEqual(captured["eval"]["mean_loss"], built_in["eval"]["mean_loss"])
        self.assertEqual(state_from_file, state)
        self.assertGreater(len(state), 3)

    def test_the_heads_of_a_detector_have_the_shape_of_its_model_file(self):
        """Which is that of PyTorch, [samples, channels, height, width]."""
        self.check("yolov3")
        samples, side, channels = 3, 64, 3
        shape = [samples, channels, side, side]
        random = harness.seeded_random("images")
        pixels = array.array("f", (random.random() for _ in range(samples * channels * side**2)))
        images = write_npz(self.directory / "images.npz",
                           {"image": ("<f4", shape, pixels.tobytes())})
        found = []
        for checkpoint in ("yolov3", "yolov3_file"):
            out = self.directory / f"{checkpoint}.npz"
            self.esctl("predict", self.directory / checkpoint, images, "--out", out)
            found.append(list(read_npz(out).values()))
        self.assertEqual([shape for shape, _ in found[0]],
                         [[samples, 45, side // stride, side // stride] for stride in (32, 16, 8)])
        self.assertEqual(found[0], found[1])

    def test_a_wrong_request_writes_nothing(self):
        job = self.write_job(self.job_text("resnet18"))
        file = self.directory / "net.esmodel"

        def refused(code, *fragments, words=("models", "write", job, "-o", file)):
            ended = self.esctl(*words, code=code)
            self.assertEqual(len(ended.err.splitlines()), 1, str(ended))
            for fragment in fragments:
                self.assertIn(fragment, ended.err)

        file.write_text("mine")
        refused(EXIT_REFUSED, str(file))
        self.assertEqual(file.read_text(), "mine")
        file.unlink()
        refused(EXIT_NOT_FOUND, "none.toml",
                words=("models", "write", self.directory / "none.toml", "-o", file))
        self.write_job(self.job_text("resnet18").replace('"resnet18"', '"resnet19"'))
        refused(EXIT_USAGE, 'model.name = "resnet19"', "allowed is")
        self.write_job(self.job_text("yolov3").replace("height = 64", "height = 65"))
        refused(EXIT_USAGE, "65 x 64 pixels")
        self.assertFalse(file.exists())
        self.write_job(self.job_text("resnet18"))
        self.esctl("models", "write", job, "-o", file)
        self.write_job('steps = 1\n[model]\nfile = "net.esmodel"\n')
        again = self.directory / "again.esmodel"
        refused(EXIT_USAGE, "model.file = ", "allowed is a job with a built-in model",
                words=("models", "write", job, "-o", again))
        self.assertFalse(again.exists())
        self.assertTrue(json.loads(self.esctl("models", "show", file, "--json").out)["producer"]
                        .startswith("easyscale "))


for _model in set(MODELS) - {"yolov3"}:
    setattr(WrittenModels, f"test_{_model}", lambda self, model=_model: self.check(model))


if __name__ == "__main__":
    harness.main()
