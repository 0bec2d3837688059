#!/usr/bin/env python3
"""`esctl data` makes token files of texts, and a job trains on them."""
import gzip
import json
import signal

import harness
from harness import EXIT_REFUSED, EXIT_USAGE
from model_files import ModelFileCase, tiny_decoder, write_safetensors
from tokenizer_files import byte_level_tokenizer

LENGTH, STEPS = 8, 20
TEXT = "the cat and the other cat sat there.\nThe hat was on the mat.\n" * 60


class TokenizeTest(ModelFileCase):
    def setUp(self):
        super().setUp()
        self.tokenizer = self.directory / "tokenizer.json"
        self.tokenizer.write_text(json.dumps(byte_level_tokenizer()))
        self.text = self.directory / "text.txt"
        self.text.write_text(TEXT)
        self.data = self.directory / "data"

    def tokenize(self, *words, code=0):
        return self.esctl("data", "tokenize", *words, "--tokenizer", self.tokenizer, "--out",
                          self.data, code=code)

    def refused(self, code, *fragments, texts=None):
        ended = self.tokenize(*(texts or [self.text]), "--json", code=code)
        for fragment in fragments:
            self.assertIn(str(fragment), ended.json["error"])
        self.assertEqual(list(self.directory.glob("data*unfinished*")), [])


class Training(TokenizeTest):
    def test_a_job_trains_on_the_tokens_of_a_text(self):
        written = self.tokenize(self.text, "--eval-share", "0.1", "--append-token", "<|end|>",
                                "--json").json
        self.assertEqual(written["token_type"], "uint16")
        vocabulary = written["vocabulary"]
        self.assertEqual(vocabulary, 261)
        seen = self.esctl("data", "inspect", self.data, "--tokenizer", self.tokenizer,
                          "--json").json
        self.assertEqual(seen["tokenizer_digest"], written["tokenizer_digest"])
        self.assertEqual(seen["train"]["tokens"], written["train"]["tokens"])
        self.assertEqual(seen["train"]["largest_id"], 260)
        self.assertTrue(TEXT.startswith(seen["train"]["first_text"]))
        net = tiny_decoder(harness.seeded_random("tokenize"), vocabulary, LENGTH)
        self.pack(net.json, self.directory / "net.esmodel")
        write_safetensors(self.directory / "weights.safetensors", net.weights)
        job = self.write_model_job(
            {"name": f"words-{self.word}", "max_p": 2, "batch_size": 4, "steps": STEPS, "seed": 5,
             "level": "D2"}, """
[data]
kind = "tokens"
path = "data"
[optimizer]
kind = "adamw"
learning_rate = 0.02
""")
        summary = self.run_job(job, "--devices", self.fast_class() + ":1")
        self.assertEqual(summary["eval"]["total"], (written["eval"]["tokens"] - 1) // LENGTH)
        self.assertLess(summary["loss_last"], summary["loss_first"] - 0.5)

    def test_lines_of_json_and_compressed_texts_are_documents(self):
        lines = self.directory / "lines.jsonl.gz"
        lines.write_bytes(gzip.compress(b'{"body": "the"}\n{"body": "at"}\n'))
        packed = self.directory / "text.gz"
        packed.write_bytes(gzip.compress(b"the"))
        written = self.tokenize(lines, packed, "--field", "body", "--json").json
        self.assertEqual(written["train"], {"documents": 3, "tokens": 3, "shards": 1})
        seen = self.esctl("data", "inspect", self.data, "--json").json
        self.assertEqual(seen["train"]["first_ids"], [257, 259, 257])


class BadInput(TokenizeTest):
    def test_a_bad_text_leaves_nothing_and_is_named(self):
        bad = self.directory / "bad.txt"
        bad.write_bytes(b"ab\xffc")
        self.refused(EXIT_USAGE, bad, "byte 2 is not UTF-8", texts=[self.text, bad])
        self.assertFalse(self.data.exists())

    def test_an_unknown_part_is_refused(self):
        whole = byte_level_tokenizer()
        whole["normalizer"] = {"type": "Nmt"}
        self.tokenizer.write_text(json.dumps(whole))
        self.refused(EXIT_USAGE, self.tokenizer, 'normalizer.type = "Nmt"', "allowed is")

    def test_a_directory_that_exists_is_not_changed(self):
        self.data.mkdir()
        self.refused(EXIT_REFUSED, self.data, "exists already")
        self.assertEqual(list(self.data.iterdir()), [])

    def test_an_id_beyond_the_vocabulary_is_found(self):
        self.tokenize(self.text)
        shard = self.data / "train/000000.bin"
        content = bytearray(shard.read_bytes())
        content[1024 + 2 * 7:1024 + 2 * 8] = (261).to_bytes(2, "little")
        shard.write_bytes(content)
        ended = self.esctl("data", "inspect", self.data, code=EXIT_USAGE)
        self.assertIn(f"{shard}: token 7 = 261: allowed is 0 to 260", ended.err)

    def test_a_stopped_run_leaves_nothing(self):
        with self.text.open("w") as text:
            for _ in range(12000):
                text.write(TEXT)
        running = self.start_esctl("data", "tokenize", self.text, "--tokenizer", self.tokenizer,
                                   "--out", self.data)
        running.wait_for_line("MB")
        self.assertEqual(running.stop(signal.SIGINT).code, 130)
        self.assertFalse(self.data.exists())
        self.assertEqual(list(self.directory.glob("data*")), [])


if __name__ == "__main__":
    harness.main()
