#!/usr/bin/env python3
"""A job trains a model file on arrays: the same bits everywhere, and one clear error for whatever
is wrong."""
import json
import shutil
import struct

import harness
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE, digests
from model_files import (ENDLESS, EVAL, ModelFileCase, small_net, write_images, write_npy,
                         write_safetensors)

STEPS = 24


class ModelFileTest(ModelFileCase):
    NOISE = False  # whether the model draws normal numbers

    def setUp(self):
        super().setUp()
        random = harness.seeded_random("model file")
        self.net = small_net(random, self.NOISE)
        self.file = self.directory / "net.esmodel"
        self.data = self.directory / "data"
        write_images(self.data, random)
        write_safetensors(self.directory / "weights.safetensors", self.net.weights)
        self.digest = self.pack(self.net.json, self.file)

    def job(self, name="job.toml", model="", **changes):
        keys = {"name": f"net-{self.word}", "max_p": 4, "batch_size": 4, "steps": STEPS, "seed": 5,
                "level": "D2", **changes}
        return self.write_model_job(keys, f"""{model}
[data]
kind = "arrays"
path = "data"
[optimizer]
learning_rate = 0.1
momentum = 0.9
""", name)


class Training(ModelFileTest):
    def test_the_bits_do_not_depend_on_the_devices(self):
        fast, other = self.fast_class(), self.other_class()
        job = self.job()
        found = {}
        for stages in (f"{fast}:1@{STEPS}", f"{other}:2@{STEPS}", f"{fast}:1+{other}:1@{STEPS}",
                       f"{fast}:3@5,{other}:1@7,{fast}:2+{other}:1@{STEPS - 12}"):
            summary = self.run_job(job, "--stages", stages)
            found[stages] = digests(summary)
            self.assertEqual(summary["eval"]["total"], EVAL)
            self.assertGreater(summary["eval"]["accuracy"], 0.8)
            self.assertLess(summary["loss_last"], summary["loss_first"])
        self.assertEqual(len(set(found.values())), 1, found)
        seed = self.run_job(self.job(seed=6), "--devices", f"{fast}:1")
        self.assertNotIn(digests(seed), found.values())

    def test_a_killed_worker_changes_no_bit(self):
        self.check_killed_worker(self.job(steps=ENDLESS))

    def test_exported_weights_have_the_names_of_the_state_dict(self):
        series = self.directory / "series"
        job = self.job()
        job.write_text(job.read_text() + f'[checkpoint]\nevery_steps = 12\ndirectory = "{series}"\n')
        summary = self.run_job(job, "--devices", self.fast_class() + ":1")
        checkpoint = series / summary["job"] / f"step-{STEPS}"
        exported = self.directory / "exported.safetensors"
        self.esctl("export", checkpoint, exported)
        content = exported.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + size])
        header.pop("__metadata__")
        self.assertEqual(set(header), {*self.net.weights, "bn.num_batches_tracked"})
        self.assertEqual(header["conv.weight"]["shape"], [6, 1, 3, 3])
        tied = [content[8 + size:][slice(*header[name]["data_offsets"])]
                for name in ("fc.weight", "head.weight")]
        self.assertEqual(tied[0], tied[1])
        # What was exported is where another job begins.
        shutil.copy(exported, self.directory / "weights.safetensors")
        still = self.job("still.toml", steps=1)
        still.write_text(still.read_text().replace("learning_rate = 0.1", "learning_rate = 0.0"))
        again = self.run_job(still, "--devices", self.fast_class() + ":1")
        self.assertEqual(again["params_digest"], summary["params_digest"])


class Noise(ModelFileTest):
    NOISE = True

    def test_random_numbers_depend_neither_on_the_devices_nor_on_a_checkpoint(self):
        fast, other = self.fast_class(), self.other_class()
        whole = self.run_job(self.job(), "--devices", f"{fast}:1")
        middle = self.directory / "middle"
        self.run_job(self.job(), "--steps", "10", "--checkpoint", middle, "--stages",
                     f"{other}:2@4,{fast}:3@6")
        end = self.directory / "end"
        continued = self.run_job(self.job(), "--from", middle, "--checkpoint", end, "--stages",
                                 f"{fast}:1+{other}:1@6,{other}:1@8")
        self.assertEqual(digests(continued), digests(whole))
        self.assertEqual(continued["eval"], whole["eval"])
        for devices in (fast, other):
            evaluated = self.esctl("eval", end, "--device", devices, "--json").json
            self.assertEqual(evaluated, whole["eval"])


class Showing(ModelFileTest):
    def test_a_model_file_is_shown_and_inspected(self):
        shown = self.esctl("models", "show", self.file).out
        for words in (self.digest, "f32 [B,1,8,8]", "0 to 3", "logits", "batch_norm", "454 in"):
            self.assertIn(words, shown)
        self.assertEqual(json.loads(self.esctl("models", "show", self.file, "--json").out)["name"],
                         "small_net")
        inspected = self.esctl("inspect", self.file, "--json", "--batch-size", "8").json
        self.assertEqual(inspected["classes"][0]["parameters"], 454)
        self.assertEqual(inspected["batch_size"], 8)
        self.assertIn("conv", self.esctl("inspect", self.file).out)
        job = self.esctl("inspect", self.job(), "--json").json
        self.assertEqual(job["classes"][0]["parameters"], 454)
        self.assertIn("d2", job)

    def test_the_json_form_packs_to_the_same_file(self):
        again = self.directory / "again.esmodel"
        model = json.loads(self.esctl("models", "show", self.file, "--json").out)
        self.assertEqual(self.pack(model, again), self.digest)
        self.assertEqual(again.read_bytes(), self.file.read_bytes())
        self.esctl("models", "pack", self.directory / "model.json", "-o", again, code=EXIT_REFUSED)

    def test_a_file_is_packed_for_a_batch_size_that_the_engine_executes(self):
        model = self.directory / "model.json"
        self.esctl("models", "pack", model, "-o", self.directory / "4.esmodel", "--batch-size", "4")
        self.esctl("models", "pack", model, "-o", self.directory / "0.esmodel", "--batch-size", "0",
                   code=EXIT_USAGE)
        tree = json.loads(model.read_text())
        image = tree["values"][tree["inputs"][0]["value"]]
        tree["values"].append({"type": "f32", "dims": [dim for dim in image["dims"][1:]]})
        tree["nodes"].append({"kind": "var", "inputs": [tree["inputs"][0]["value"]],
                              "outputs": [len(tree["values"]) - 1], "attributes": [
                                  {"name": "axes", "integers": [0]},
                                  {"name": "correction", "integer": 1},
                                  {"name": "keepdim", "flag": False}]})
        model.write_text(json.dumps(tree))
        self.esctl("models", "pack", model, "-o", self.directory / "2.esmodel", "--batch-size", "2")
        place = self.directory / "1.esmodel"
        self.esctl("models", "pack", model, "-o", place, "--batch-size", "1", code=EXIT_USAGE)
        self.assertFalse(place.exists())


class BadInput(ModelFileTest):
    def test_a_job_file_that_names_two_models(self):
        self.assert_one_error(self.job(model='name = "mlp"'), EXIT_USAGE, 'model.name = ', "mlp",
                              "no such key beside model.file")
        job = self.job()
        job.write_text(job.read_text().replace('weights = "weights.safetensors"\n', ""))
        self.assert_one_error(job, EXIT_USAGE, 'model.weights = ""', "model.file")

    def test_arrays_that_do_not_fit_the_model(self):
        image = self.data / "train/image.npy"
        whole = image.read_bytes()
        write_npy(image, "<f4", [2, 8, 8], bytes(512))
        self.assert_one_error(self.job(), EXIT_USAGE, image, "(samples, 8, 8)",
                              "(samples, 1, 8, 8)")
        image.unlink()
        self.assert_one_error(self.job(), EXIT_NOT_FOUND, image, 'input "image"')
        image.write_bytes(whole)
        label = self.data / "eval/label.npy"
        write_npy(label, "<i8", [EVAL], struct.pack("<q", 4) * EVAL)
        self.assert_one_error(self.job(), EXIT_USAGE, label, "sample 0", "0 to 3")

    def test_a_model_file_that_is_not_the_one_of_the_job(self):
        job = self.job(model=f'file_digest = "{self.digest}"')
        self.run_job(job, "--steps", "1", "--devices", self.fast_class() + ":1")
        self.net.json["nodes"][1]["attributes"][0]["number"] = 1e-4  # eps of the batch norm
        self.file.unlink()
        other = self.pack(self.net.json, self.file)
        self.assert_one_error(job, EXIT_USAGE, self.file, other, f"allowed is {self.digest}")

    def test_a_model_file_that_cannot_be_used(self):
        job = self.job()
        bytes_of = self.file.read_bytes()
        self.file.write_bytes(bytes_of[:-8])
        self.assert_one_error(job, EXIT_USAGE, self.file, "esctl models pack")
        self.file.write_bytes(b"PK" + bytes_of[2:])
        self.assert_one_error(job, EXIT_USAGE, self.file, "ESMODEL1")
        self.file.unlink()
        self.assert_one_error(job, EXIT_NOT_FOUND, self.file)

    def test_a_newer_format_is_refused_with_what_to_do(self):
        model = json.loads((self.directory / "model.json").read_text())
        model["format"] = 7
        path = self.directory / "newer.json"
        path.write_text(json.dumps(model))
        ended = self.esctl("models", "pack", path, "-o", self.directory / "n.esmodel",
                           code=EXIT_USAGE)
        self.assertIn("format is 7: allowed is at most 6", ended.err)
        self.assertIn("install that version", ended.err)


if __name__ == "__main__":
    harness.main()
