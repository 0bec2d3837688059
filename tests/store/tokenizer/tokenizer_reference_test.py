#!/usr/bin/env python3
"""The ids and the decoded texts of the library "tokenizers" are the reference: tokenizers of every
kind are trained here, and all ids of mixed text must be equal.

    tokenizer_reference_test.py TOKENIZER_BENCH
ES_SEED sets the seed, and ES_TOKENIZER_MEGABYTES the amount of text."""
import array
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e"))
import pytorch_environment  # noqa: E402
from mixed_text import mixed_texts  # noqa: E402

try:
    import tokenizers
    from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                            pre_tokenizers, processors, trainers)
except ImportError:
    tokenizers = None

BENCH = None  # the program that encodes texts
SEED = int(os.environ.get("ES_SEED", "20261123"))
MEGABYTES = float(os.environ.get("ES_TOKENIZER_MEGABYTES", "2"))
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def with_parts(model, normalizer=None, pre=None, post=None, decoder=None):
    tokenizer = Tokenizer(model)
    for name, part in (("normalizer", normalizer), ("pre_tokenizer", pre),
                       ("post_processor", post), ("decoder", decoder)):
        if part is not None:
            setattr(tokenizer, name, part)
    return tokenizer


def byte_level(texts, pre, special="<|endoftext|>", **parts):
    tokenizer = with_parts(models.BPE(**parts), pre=pre, decoder=decoders.ByteLevel())
    trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=[special], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def gpt2(texts):
    return byte_level(texts, pre_tokenizers.ByteLevel(add_prefix_space=False))


def prefixed(texts):
    tokenizer = byte_level(texts, pre_tokenizers.ByteLevel(add_prefix_space=True))
    tokenizer.post_processor = processors.RobertaProcessing(("<|endoftext|>", 0), ("!", 1))
    return tokenizer


def llama3(texts):
    pre = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(GPT4), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = byte_level(texts, pre, "<|begin_of_text|>")
    tokenizer.post_processor = processors.TemplateProcessing(
        "<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])
    data = json.loads(tokenizer.to_str())
    data["model"]["ignore_merges"] = True
    return Tokenizer.from_str(json.dumps(data))


def llama2(texts):
    alphabet = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = with_parts(
        models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        decoder=decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                   decoders.Fuse(), decoders.Strip(" ", 1, 0)]))
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=["<unk>", "<s>", *alphabet],
                                  show_progress=False, limit_alphabet=300, max_token_length=12)
    tokenizer.train_from_iterator([part for text in texts for part in text.split("\n")], trainer)
    tokenizer.add_tokens([AddedToken("THEY'RE", single_word=True),
                          AddedToken("naïve", lstrip=True, normalized=False),
                          AddedToken("it's", rstrip=True)])
    return tokenizer


def bpe_words(texts):
    tokenizer = with_parts(
        models.BPE(unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>"),
        normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
        pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True)]))
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=["[UNK]"], show_progress=False,
                                  limit_alphabet=200, continuing_subword_prefix="##",
                                  end_of_word_suffix="</w>")
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def bert(texts, **options):
    tokenizer = with_parts(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100),
                           normalizers.BertNormalizer(**options),
                           pre_tokenizers.BertPreTokenizer(), decoder=decoders.WordPiece())
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=3000, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        show_progress=False, limit_alphabet=1000))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


def cased_bert(texts):
    return bert(texts, lowercase=False, strip_accents=None)


def stripped_words(texts):
    tokenizer = with_parts(
        models.WordPiece(unk_token="[UNK]"),
        normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(),
                              normalizers.Strip(), normalizers.Replace(Regex(r"\d+"), "0")]),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                 pre_tokenizers.Punctuation("merged_with_previous")]))
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=2000, special_tokens=["[UNK]"], show_progress=False, limit_alphabet=500))
    return tokenizer


def unigram(texts, normalizer=None, scheme="always", fallback=False):
    tokenizer = with_parts(models.Unigram(), normalizer,
                           pre_tokenizers.Metaspace(prepend_scheme=scheme),
                           decoder=decoders.Metaspace(prepend_scheme=scheme))
    special = ["<unk>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256) if fallback]
    # Its training is slow, and all characters must fit into the vocabulary.
    short = ["".join(c for c in text[:5000] if c < "\u0250") for text in texts]
    tokenizer.train_from_iterator(short, trainers.UnigramTrainer(
        vocab_size=2000, special_tokens=special, unk_token="<unk>", show_progress=False,
        max_piece_length=10))
    if not fallback:
        return tokenizer
    data = json.loads(tokenizer.to_str())
    data["model"]["byte_fallback"] = True
    data["added_tokens"] = data["added_tokens"][:2]
    return Tokenizer.from_str(json.dumps(data))


def unigram_nfkc(texts):
    return unigram(texts, normalizers.Sequence([normalizers.NFKC(),
                                                normalizers.Replace(Regex(" {2,}"), " ")]))


def unigram_bytes(texts):
    return unigram(texts, normalizers.NFC(), "first", True)


def character_map(changes):
    """The table of a normalizer Precompiled: every node of the trie has a block of 256 units."""
    nodes = [{}]
    values = {}
    texts = b""
    for key, text in changes.items():
        node = 0
        for byte in key.encode():
            if byte not in nodes[node]:
                nodes[node][byte] = len(nodes)
                nodes.append({})
            node = nodes[node][byte]
        values[node] = len(texts)
        texts += text.encode() + b"\0"
    units = [0] * (256 * (len(nodes) + 1))
    units[0] = 256 << 10
    for node, children in enumerate(nodes):
        base = 256 * (node + 1)
        for byte, child in children.items():
            offset = (base + byte) ^ (256 * (child + 1))
            units[base + byte] = offset << 10 | (child in values) << 8 | byte
        if node in values:
            units[base] = values[node] | 1 << 31
    array_bytes = b"".join(unit.to_bytes(4, "little") for unit in units)
    return len(array_bytes).to_bytes(4, "little") + array_bytes + texts


def unigram_precompiled(texts):
    changes = {"\t": " ", "\n": " ", "\u3000": " ", "\u200b": "", "ﬁ": "fi", "½": "1/2", "É": "é",
               "e\u0301": "é", "A": "a", "\u0301": "", "가": "ga", "\U0001d400": "A", "abc": "x"}
    return unigram(texts, normalizers.Precompiled(character_map(changes)))


KINDS = [gpt2, prefixed, llama3, llama2, bpe_words, bert, cased_bert, stripped_words, unigram,
         unigram_nfkc, unigram_bytes, unigram_precompiled]


def installed_files():
    """Files tokenizer.json inside of installed packages."""
    return sorted(Path(sys.prefix).glob("lib/python3*/site-packages/*/**/tokenizer.json"))


@unittest.skipIf(tokenizers is None, pytorch_environment.MISSING)
class SameIds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"seed: replay with ES_SEED={SEED}; tokenizers {tokenizers.__version__}")
        cls.texts = mixed_texts(SEED, MEGABYTES)
        cls.training = cls.texts[:60] + cls.texts[-60:]
        cls.place = tempfile.TemporaryDirectory()
        cls.directory = Path(cls.place.name)
        cls.file = cls.directory / "texts"
        cls.file.write_text("".join(json.dumps(text) + "\n" for text in cls.texts))

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def run_ours(self, file, *options):
        out = self.directory / "ids"
        done = subprocess.run([BENCH, file, self.file, out, *options], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return out.read_bytes()

    def ours(self, file, *options):
        numbers, at, ids = array.array("I", self.run_ours(file, *options)), 0, []
        for _ in self.texts:
            ids.append(numbers[at + 1:at + 1 + numbers[at]].tolist())
            at += 1 + numbers[at]
        return ids

    def check(self, tokenizer, name):
        tokenizer.no_truncation()
        tokenizer.no_padding()
        file = self.directory / "tokenizer.json"
        tokenizer.save(str(file))
        for options, special in (((), False), (("--surround",), True)):
            found = self.ours(file, *options)
            expected = tokenizer.encode_batch(self.texts, add_special_tokens=special)
            for text, mine, reference in zip(self.texts, found, expected):
                if mine != reference.ids:
                    self.report(tokenizer, name, text, mine, reference.ids)
            tokens = sum(map(len, found))
            if not special:
                self.check_decoding(tokenizer, name, found, self.run_ours(file, "--decode"))
        print(f"{name}: {tokens} ids of {len(self.texts)} texts are equal")

    def check_decoding(self, tokenizer, name, ids, lines):
        expected = tokenizer.decode_batch(ids, skip_special_tokens=False)
        for line, reference in zip(lines.decode().split("\n"), expected):
            if json.loads(line) != reference:
                self.fail(f"{name}: decoded {json.loads(line)[:80]!r}, reference "
                          f"{reference[:80]!r}")

    def report(self, tokenizer, name, text, mine, reference):
        at = next((i for i, pair in enumerate(zip(mine, reference)) if pair[0] != pair[1]),
                  min(len(mine), len(reference)))
        shown = [[tokenizer.id_to_token(i) for i in ids[max(at - 3, 0):at + 5]]
                 for ids in (mine, reference)]
        self.fail(f"{name}: id {at} of {len(reference)} ({len(mine)}): {shown[0]}, "
                  f"reference {shown[1]}; text {text[:60]!r}")

    def test_trained_tokenizers(self):
        for make in KINDS:
            with self.subTest(make.__name__):
                self.check(make(self.training), make.__name__)

    def test_tokenizers_of_installed_packages(self):
        files = installed_files()
        if not files:
            self.skipTest("no package has a tokenizer.json")
        for file in files:
            with self.subTest(str(file)):
                self.check(Tokenizer.from_file(str(file)), file.parts[-3])


if __name__ == "__main__":
    if tokenizers is None:
        pytorch_environment.enter()
    if tokenizers is None:
        print(pytorch_environment.MISSING)
        sys.exit(77)
    BENCH = sys.argv.pop(1)
    unittest.main()
