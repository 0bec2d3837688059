#!/usr/bin/env python3
"""`esctl generate` continues a text with a trained language model: every token follows from the
logits that `esctl predict` gives, on every device, and what is wrong is one clear error."""
import json
import re

import harness
from harness import EXIT_USAGE
from model_files import ModelFileCase, npy_bytes, tiny_decoder, write_safetensors
from predict_test import read_npz
from tokenizer_files import byte_level_tokenizer

CONTEXT, VOCABULARY, STEPS = 16, 261, 30
TEXT = "the cat and the other cat sat there.\nThe hat was on the mat — là.\n" * 60
JOB = """
name = "{model}-{word}"
max_p = 2
batch_size = 4
steps = {steps}
seed = 5
level = "D2"
[model]
name = "{model}"
size = "tiny"
[data]
kind = "tokens"
path = "data"
length = {context}
vocabulary = {rows}
[optimizer]
kind = "adamw"
learning_rate = 0.01
"""


class GenerateTest(ModelFileCase):
    def setUp(self):
        super().setUp()
        self.tokenizer = self.directory / "tokenizer.json"
        self.tokenizer.write_text(json.dumps(byte_level_tokenizer()))
        text = self.directory / "text.txt"
        text.write_text(TEXT)
        self.esctl("data", "tokenize", text, "--tokenizer", self.tokenizer, "--out",
                   self.directory / "data", "--eval-share", "0.1")

    def trained(self, model, rows=VOCABULARY, changes=""):
        """The checkpoint of a short training."""
        job = self.write_job(changes + JOB.format(model=model, word=self.word, steps=STEPS, rows=rows,
                                                  context=CONTEXT), f"{model}.toml")
        kept = self.directory / f"{model}-{rows}"
        summary = self.run_job(job, "--devices", self.fast_class() + ":1", "--checkpoint", kept)
        self.assertEqual(summary["eval"]["metric"], "perplexity")
        return kept

    def generate(self, checkpoint, prompt, *options, code=0):
        return self.esctl("generate", checkpoint, "--prompt", prompt, "--tokenizer",
                          self.tokenizer, *options, code=code)

    def tokens(self, checkpoint, prompt, *options):
        return self.generate(checkpoint, prompt, "--json", *options).json

    def predicted(self, checkpoint, rows):
        """The most probable token behind each of these sequences, by `esctl predict`."""
        samples = self.directory / "samples"
        samples.mkdir(exist_ok=True)
        padded = b"".join(token.to_bytes(4, "little") for row in rows
                          for token in [*row, *[7] * (CONTEXT - len(row))])
        (samples / "ids.npy").write_bytes(npy_bytes("<i4", [len(rows), CONTEXT], padded))
        out = self.directory / "logits.npz"
        out.unlink(missing_ok=True)
        self.esctl("predict", checkpoint, samples, "--out", out)
        (shape, values), = read_npz(out).values()
        self.assertEqual(shape, [len(rows), CONTEXT, VOCABULARY])
        chosen = []
        for i, row in enumerate(rows):
            begin = (i * CONTEXT + len(row) - 1) * VOCABULARY
            logits = values[begin:begin + VOCABULARY]
            chosen.append(max(range(VOCABULARY), key=lambda t: (logits[t], -t)))
        return chosen

    def check_text(self, checkpoint):
        """The tokens are those of the whole model, also behind the end of its context."""
        prompt, count = "the cat", 20
        made = self.tokens(checkpoint, prompt, "--tokens", count)
        self.assertEqual((made["context"], len(made["tokens"])), (CONTEXT, count))
        self.assertTrue(made["keeps_keys"])
        ids = made["prompt_tokens"]
        self.assertLess(ids, CONTEXT)
        text = self.generate(checkpoint, prompt, "--tokens", count)
        self.assertEqual(text.out, made["text"] + "\n")
        start = self.prompt_ids(prompt)
        self.assertEqual(len(start), ids)
        whole = [*start, *made["tokens"]]
        rows = [whole[max(0, end - CONTEXT):end] for end in range(ids, ids + count)]
        self.assertEqual(made["tokens"], self.predicted(checkpoint, rows))
        slow = self.tokens(checkpoint, prompt, "--tokens", count, "--device", self.other_class(),
                           "--threads", 2)
        self.assertEqual(slow, made)

    def prompt_ids(self, prompt):
        text, out = self.directory / "prompt.txt", self.directory / f"prompt-{len(prompt)}"
        text.write_text(prompt)
        if not out.exists():
            self.esctl("data", "tokenize", text, "--tokenizer", self.tokenizer, "--out", out)
        return self.esctl("data", "inspect", out, "--json").json["train"]["first_ids"]


class BuiltIn(GenerateTest):
    def test_gpt2(self):
        self.check_text(self.trained("gpt2"))

    def test_llama(self):
        self.check_text(self.trained("llama"))

    def test_texts_that_are_continued_together_get_what_each_gets_alone(self):
        checkpoint = self.trained("llama")
        # One of them grows beyond the context, so its keys and values are of no use then.
        prompts, options = ("the cat and the other", "a", "the hat"), ("--tokens", 9, "--top-k", 5)
        together = self.tokens(checkpoint, prompts[0], *options, "--prompt", prompts[1], "--prompt",
                               prompts[2])
        self.assertGreater(together["texts"][0]["prompt_tokens"] + 9, CONTEXT)
        for prompt, text in zip(prompts, together["texts"], strict=True):
            alone = self.tokens(checkpoint, prompt, *options)
            self.assertEqual({key: alone[key] for key in text}, text)
        shown = self.generate(checkpoint, prompts[0], *options, "--prompt", prompts[1])
        self.assertEqual(shown.out, "\n".join(prompts[i] + together["texts"][i]["text"] + "\n"
                                              for i in range(2)))

    def test_a_model_whose_keys_are_not_kept_says_so(self):
        checkpoint = self.trained("gpt2", changes='precision = "bf16"')
        made = self.generate(checkpoint, "the", "--json")
        self.assertFalse(made.json["keeps_keys"])
        self.assertIn('the whole model is computed for every token: precision = "bf16"', made.err)
        self.assertEqual(made.json["tokens"], self.tokens(checkpoint, "the", "--device",
                                                          self.other_class())["tokens"])

    def test_tokens_are_drawn_by_a_seed(self):
        checkpoint = self.trained("gpt2")
        greedy = self.tokens(checkpoint, "the")["tokens"]
        self.assertEqual(self.tokens(checkpoint, "the", "--top-k", 1)["tokens"], greedy)
        drawn = [self.tokens(checkpoint, "the", "--temperature", 2, "--seed", seed)["tokens"]
                 for seed in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        self.assertNotEqual(drawn[0], greedy)
        # Bytes that are no characters, and what a terminal would execute, are replaced.
        options = ("--temperature", 1000, "--tokens", 200)
        text = self.tokens(checkpoint, "the", *options)["text"]
        self.assertIn("\ufffd", text)
        self.assertTrue(any(c < " " and c not in "\n\t" for c in text))
        shown = "".join(c if c in "\n\t\ufffd" or c.isprintable() else
                        "".join(f"\\x{byte:02x}" for byte in c.encode()) for c in text)
        self.assertEqual(self.generate(checkpoint, "the", *options).out, shown + "\n")

    def test_rows_without_a_token_are_never_chosen(self):
        checkpoint = self.trained("gpt2", rows=384)
        drawn = self.tokens(checkpoint, "the", "--temperature", 100, "--tokens", 60)["tokens"]
        self.assertLess(max(drawn), VOCABULARY)

    def test_what_does_not_fit_is_one_error(self):
        checkpoint = self.trained("gpt2")

        def refused(prompt, *fragments, source=checkpoint):
            ended = self.generate(source, prompt, code=EXIT_USAGE)
            self.assertEqual((len(ended.err.splitlines()), ended.out), (1, ""), str(ended))
            for fragment in fragments:
                self.assertIn(str(fragment), ended.err)

        refused("ab\udcffc", "--prompt: byte 2 is not UTF-8")
        refused("", '--prompt = ""', "at least one token")
        refused("the " * 40, "--prompt has", f"allowed are at most {CONTEXT}")
        other = byte_level_tokenizer()
        other["added_tokens"][0]["id"] = 900
        self.tokenizer.write_text(json.dumps(other))
        refused("the", self.tokenizer, "number of tokens = 901",
                f"the vocabulary of the model, {VOCABULARY}")
        job = re.sub(r'^name = "tiny_\S+"', f'name = "neumf-{self.word}"',
                     (harness.source_root / "configs/jobs/tiny_neumf.toml").read_text(), count=1,
                     flags=re.MULTILINE)
        kept = self.directory / "neumf"
        self.run_job(self.write_job(job, "neumf.toml"), "--steps", 2, "--devices",
                     self.fast_class() + ":1", "--checkpoint", kept)
        refused("the", kept, 'the model "neumf" has other inputs', source=kept)


class Captured(GenerateTest):
    def trained_file(self, causal):
        net = tiny_decoder(harness.seeded_random("generate"), VOCABULARY, CONTEXT)
        for node in net.json["nodes"]:
            for attribute in node["attributes"]:
                if attribute["name"] == "causal":
                    attribute["flag"] = causal
        self.pack(net.json, self.directory / "net.esmodel")
        write_safetensors(self.directory / "weights.safetensors", net.weights)
        job = self.write_model_job(
            {"name": f"words-{self.word}", "max_p": 2, "batch_size": 4, "steps": STEPS, "seed": 5,
             "level": "D2"},
            '[data]\nkind = "tokens"\npath = "data"\n[optimizer]\nkind = "adamw"\n'
            "learning_rate = 0.02\n")
        kept = self.directory / "kept"
        summary = self.run_job(job, "--devices", self.fast_class() + ":1", "--checkpoint", kept)
        self.assertEqual(summary["eval"]["metric"], "perplexity")
        return kept

    def test_a_model_file_that_reads_tokens(self):
        self.check_text(self.trained_file(True))

    def test_a_model_that_sees_later_tokens_is_refused(self):
        ended = self.generate(self.trained_file(False), "the", code=EXIT_USAGE)
        self.assertIn("depend on tokens behind the text: allowed is a causal model", ended.err)
        self.assertEqual(ended.out, "")


if __name__ == "__main__":
    harness.main()
