#!/usr/bin/env python3
"""A job trains a language model on token files: the same bits everywhere, and one clear error for
whatever is wrong."""
import array
import struct

import harness
from harness import EXIT_FAILURE, EXIT_USAGE, digests
from model_files import ENDLESS, ModelFileCase, tiny_decoder, write_npy, write_safetensors

VOCABULARY, LENGTH, STEPS = 24, 8, 20


def walk(random, tokens):
    """A text in which a token often tells the next one."""
    text = [0]
    while len(text) < tokens:
        text.append((text[-1] * 5 + 3 + (random.random() < 0.1)) % VOCABULARY)
    return text


def u2(tokens):
    return array.array("H", tokens).tobytes()


class TokenFilesTest(ModelFileCase):
    def setUp(self):
        super().setUp()
        random = harness.seeded_random("token files")
        net = tiny_decoder(random, VOCABULARY, LENGTH)
        self.pack(net.json, self.directory / "net.esmodel")
        write_safetensors(self.directory / "weights.safetensors", net.weights)
        self.text = walk(random, 3000)
        self.data = self.directory / "data"
        for half in ("train", "eval"):
            (self.data / half).mkdir(parents=True)
        header = struct.pack("<3i", 20240520, 1, 1003) + bytes(253 * 4)
        (self.data / "train/0.bin").write_bytes(u2(self.text[:1000]))
        (self.data / "train/1.bin").write_bytes(header + u2(self.text[1000:2003]))
        write_npy(self.data / "train/2.npy", "<i8", [500],
                  struct.pack("<500q", *self.text[2003:2503]))
        (self.data / "eval/0.bin").write_bytes(u2(self.text[2503:]))

    def job(self, data="", **changes):
        keys = {"name": f"words-{self.word}", "max_p": 4, "batch_size": 4, "steps": STEPS,
                "seed": 5, "level": "D2", **changes}
        return self.write_model_job(keys, f"""
[data]
kind = "tokens"
path = "data"
length = {LENGTH}
{data}
[optimizer]
kind = "adamw"
learning_rate = 0.02
""")


class Training(TokenFilesTest):
    def test_the_bits_do_not_depend_on_the_devices(self):
        fast, other = self.fast_class(), self.other_class()
        job = self.job()
        found = {}
        for stages in (f"{fast}:1@{STEPS}", f"{fast}:1+{other}:2@{STEPS}",
                       f"{fast}:3@5,{other}:1@6,{fast}:2+{other}:1@{STEPS - 11}"):
            summary = self.run_job(job, "--stages", stages)
            found[stages] = digests(summary)
            self.assertEqual(summary["eval"]["total"], (3000 - 2503 - 1) // LENGTH)
            self.assertLess(summary["loss_last"], summary["loss_first"] - 0.5)
        self.assertEqual(len(set(found.values())), 1, found)

    def test_a_checkpoint_continues_and_is_evaluated_to_the_same_numbers(self):
        fast, other = self.fast_class(), self.other_class()
        whole = self.run_job(self.job(), "--devices", f"{fast}:1")
        middle, end = self.directory / "middle", self.directory / "end"
        self.run_job(self.job(), "--steps", "9", "--checkpoint", middle, "--devices", f"{other}:2")
        continued = self.run_job(self.job(), "--from", middle, "--checkpoint", end, "--stages",
                                 f"{fast}:1@4,{other}:1+{fast}:1@{STEPS - 13}")
        self.assertEqual(digests(continued), digests(whole))
        evaluated = self.esctl("eval", end, "--device", other, "--json").json
        self.assertEqual(evaluated, whole["eval"])

    def test_the_form_of_the_files_changes_no_bit(self):
        device = ("--devices", self.fast_class() + ":1")
        summary = self.run_job(self.job(), *device)
        tokens = self.text[1000:2003]
        (self.data / "train/1.bin").write_bytes(struct.pack("<1003I", *tokens))
        for file, part in (("0.bin", self.text[:1000]), ("2.bin", self.text[2003:2503])):
            (self.data / "train" / file).write_bytes(struct.pack(f"<{len(part)}I", *part))
        (self.data / "train/2.npy").unlink()
        (self.data / "eval/0.bin").write_bytes(struct.pack("<497I", *self.text[2503:]))
        wide = self.run_job(self.job('token_type = "uint32"'), *device)
        self.assertEqual(wide["params_digest"], summary["params_digest"])
        self.assertEqual(wide["eval"], summary["eval"])

    def test_without_texts_for_an_evaluation_no_metric_is_shown(self):
        (self.data / "eval/0.bin").unlink()
        (self.data / "eval").rmdir()
        device = ("--devices", self.fast_class() + ":1")
        summary = self.run_job(self.job(), *device)
        self.assertIsNone(summary["eval"])
        self.assertEqual(summary["evaluations"], [])
        text = self.esctl("run", self.job(), *device).out
        self.assertIn("loss", text)
        self.assertNotIn("perplexity", text)

    def test_a_killed_worker_changes_no_bit(self):
        self.check_killed_worker(self.job(steps=ENDLESS))


class BadInput(TokenFilesTest):
    def test_files_that_do_not_fit_are_refused_at_the_admission(self):
        shard = self.data / "train/0.bin"
        whole = shard.read_bytes()
        shard.write_bytes(whole + b"x")
        self.assert_one_error(self.job(), EXIT_USAGE, shard, "size in bytes = 2001",
                              "a multiple of 2")
        shard.write_bytes(u2([VOCABULARY]) + whole)
        self.assert_one_error(self.job(), EXIT_USAGE, shard, "token 0", f"0 to {VOCABULARY - 1}")
        shard.write_bytes(whole)
        job = self.job()
        job.write_text(job.read_text().replace(f"length = {LENGTH}", "length = 64"))
        self.assert_one_error(job, EXIT_USAGE, "data.length = 64", f"allowed is {LENGTH}")

    def test_a_token_in_the_middle_of_a_file_ends_the_job_with_its_place(self):
        shard = self.data / "train/0.bin"
        text = self.text[:1000]
        text[500] = VOCABULARY
        shard.write_bytes(u2(text))
        self.assert_one_error(self.job(steps=40), EXIT_FAILURE, shard, "token 500",
                              f"0 to {VOCABULARY - 1}")


if __name__ == "__main__":
    harness.main()
