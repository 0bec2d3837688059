#!/usr/bin/env python3
"""A job file names texts and a tokenizer; esctl encodes them once, and the job trains on tokens."""
import json

import harness
from harness import EXIT_NOT_FOUND, EXIT_USAGE, digests
from tokenizer_files import byte_level_tokenizer

LENGTH, STEPS = 16, 12
TEXT = "the cat and the other cat sat there.\nThe hat was on the mat.\n" * 30


class Texts(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.texts = self.directory / "texts"
        self.texts.mkdir()
        lines = [{"body": TEXT[i:i + 90]} for i in range(0, 1500, 90)]
        (self.texts / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (self.texts / "b.txt").write_text(TEXT)
        (self.texts / "notes.md").write_text("not a text of the job")
        (self.directory / "tokenizer.json").write_text(json.dumps(byte_level_tokenizer()))

    def job(self, data="", path="texts", name="job.toml"):
        return self.write_job(f"""
name = "texts-{self.word}"
max_p = 2
batch_size = 4
steps = {STEPS}
level = "D2"
[model]
name = "llama"
size = "tiny"
[data]
kind = "texts"
path = "{path}"
tokenizer = "tokenizer.json"
text_field = "body"
append_token = "<|end|>"
eval_share = 0.1
length = {LENGTH}
vocabulary = 261
{data}
[optimizer]
kind = "adamw"
learning_rate = 0.01
""", name)

    def caches(self):
        return sorted((self.directory / "job.tokens").iterdir())

    def test_texts_are_encoded_once_and_the_job_is_one_on_tokens(self):
        fast, other = self.fast_class(), self.other_class()
        first = self.run_job(self.job(), "--devices", f"{fast}:1", "--checkpoint",
                             self.directory / "kept")
        (cache,) = self.caches()
        written = (cache / "train/000000.bin").stat()
        second = self.run_job(self.job(), "--stages", f"{other}:1@5,{fast}:2@{STEPS - 5}")
        self.assertEqual(digests(first), digests(second))
        self.assertEqual(self.caches(), [cache])
        self.assertEqual((cache / "train/000000.bin").stat().st_mtime_ns, written.st_mtime_ns)
        self.assertLess(first["loss_last"], first["loss_first"] - 0.5)
        description = json.loads((cache / "tokens.json").read_text())
        self.assertGreater(description["eval"]["tokens"], LENGTH)
        # The same tokens by the command.
        self.esctl("data", "tokenize", self.texts / "a.jsonl", self.texts / "b.txt", "--tokenizer",
                   self.directory / "tokenizer.json", "--out", self.directory / "by-hand",
                   "--field", "body", "--append-token", "<|end|>", "--eval-share", "0.1")
        for half in ("train", "eval"):
            self.assertEqual((cache / half / "000000.bin").read_bytes(),
                             (self.directory / "by-hand" / half / "000000.bin").read_bytes())
        kept = (self.directory / "kept/job.toml").read_text()
        self.assertIn('kind = "tokens"', kept)
        self.assertIn(str(cache), kept)
        self.assertNotIn("tokenizer", kept)

    def test_other_texts_are_encoded_anew(self):
        device = ("--devices", self.fast_class() + ":1")
        first = self.run_job(self.job(), *device)
        (self.texts / "b.txt").write_text(TEXT.replace("hat", "bat"))
        second = self.run_job(self.job(), *device)
        self.assertEqual(len(self.caches()), 2)
        self.assertNotEqual(first["params_digest"], second["params_digest"])
        self.run_job(self.job("document_end = 260"), *device)
        self.assertEqual(len(self.caches()), 2)

    def test_encoding_shows_progress_and_what_is_not_needed_can_be_removed(self):
        device = ("--devices", self.fast_class() + ":1")
        job = self.job()
        shown = self.esctl("run", job, "--json", *device)
        self.assertIn("encoding the texts of the job", shown.err)
        again = self.esctl("run", job, "--json", *device)
        self.assertNotIn("encoding", again.err)
        (first,) = self.caches()
        self.assertEqual(self.esctl("data", "remove", job, "--json").json["removed"], [])
        (self.texts / "b.txt").write_text(TEXT.replace("hat", "bat"))
        self.run_job(job, *device)
        (self.directory / "job.tokens/notes").mkdir()
        done = self.esctl("data", "remove", job, "--json").json
        self.assertEqual([each["directory"] for each in done["removed"]], [str(first)])
        self.assertEqual(len(done["kept"]), 1)
        self.assertGreater(done["removed"][0]["bytes"], 1000)
        self.assertFalse(first.exists())
        self.assertIn("removed", self.esctl("data", "remove", job, "--all").out)
        self.assertEqual([place.name for place in self.caches()], ["notes"])
        other = self.directory / "other.toml"
        other.write_text(job.read_text().replace('kind = "texts"', 'kind = "synthetic"'))
        self.assertIn('data.kind = "synthetic"',
                      self.esctl("data", "remove", other, code=EXIT_USAGE).err)

    def test_documents_of_texts_do_not_attend_to_each_other(self):
        device = ("--devices", self.fast_class() + ":1")
        whole = self.run_job(self.job(), *device)
        divided = self.run_job(self.job("document_end = 260"), *device, "--checkpoint",
                               self.directory / "divided")
        self.assertNotEqual(whole["params_digest"], divided["params_digest"])
        again = self.run_job(self.job("document_end = 260"), "--stages",
                             f"{self.other_class()}:2@3,{self.fast_class()}:1@{STEPS - 3}")
        self.assertEqual(digests(divided), digests(again))
        self.esctl("generate", self.directory / "divided", "--prompt", "the", "--tokenizer",
                   self.directory / "tokenizer.json", "--tokens", "4")

    def refused(self, job, code, *fragments):
        ended = self.esctl("run", job, "--json", "--quiet", code=code)
        for fragment in fragments:
            self.assertIn(str(fragment), ended.json["error"])
        self.assertFalse((self.directory / "job.tokens").exists() and self.caches())

    def test_what_is_wrong_is_named(self):
        self.refused(self.job(path="nothing"), EXIT_NOT_FOUND, self.directory / "nothing")
        (self.directory / "empty").mkdir()
        self.refused(self.job(path="empty"), EXIT_USAGE, "data.path", "a directory with files *.txt")
        job = self.job()
        text = job.read_text()
        job.write_text(text.replace("<|end|>", "<end>"))
        self.refused(job, EXIT_USAGE, 'data.append_token = "<end>"', "allowed is a token of")
        job.write_text(text.replace('tokenizer = "tokenizer.json"', ""))
        self.refused(job, EXIT_USAGE, 'data.tokenizer = ""', "allowed is the tokenizer.json")
        job.write_text(text.replace('kind = "texts"', 'kind = "tokens"'))
        self.refused(job, EXIT_USAGE, "data.tokenizer", 'for data.kind = "tokens"')


if __name__ == "__main__":
    harness.main()
