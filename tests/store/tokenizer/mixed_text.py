"""Texts for comparisons of tokenizers: prose, source files and generated text in many scripts."""
import random
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SHAKESPEARE = ROOT.parent / "shared" / "data" / "tinyshakespeare"
# Characters that Unicode has had for long, because the tables of the two sides differ in new ones.
SCRIPTS = [(0x20, 0x7e), (0xa1, 0x24f), (0x370, 0x377), (0x391, 0x3ff), (0x400, 0x52f),
           (0x5d0, 0x5ea), (0x621, 0x64a), (0x905, 0x939), (0xe01, 0xe3a), (0x1100, 0x1159),
           (0x10d0, 0x10f6), (0x3041, 0x3096), (0x30a1, 0x30fa), (0x4e00, 0x9fa5),
           (0xac00, 0xd7a3), (0x1e00, 0x1ef9), (0x2200, 0x22ff), (0xff01, 0xff5e),
           (0xfb00, 0xfb06), (0x2460, 0x24ea), (0x20000, 0x2a6d6), (0x1d400, 0x1d454)]
MARKS = [*range(0x300, 0x340), *range(0x591, 0x5a2), *range(0x64b, 0x656), 0x93c, 0x94d, 0x3099]
EMOJI = ["\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1eb\U0001f1f7",
         "\u2764\ufe0f", "\U0001f44d\U0001f3fd", "1\ufe0f\u20e3"]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\n\n", " \n ", "\u00a0", "\u2003", "\u3000", "\u2028",
          "\u0085", "\x0b", "\x0c", "\u200b", "\u180e", "\ufeff"]
CONTROLS = ["\x00", "\x01", "\x1b", "\x7f", "\x9f", "\u200d", "\u200e", "\ufffd", "\ue000"]
WORDS = ["don't", "I'll", "we've", "THEY'RE", "it's", "x86-64", "3.14159", "1,000,000", "a_b",
         "__init__", "C++", "<s>", "[MASK]", "e.g.", "naïve", "İstanbul", "straße", "ﬁne", "½"]


def drawn(source):
    """One odd item of text."""
    kind = source.random()
    if kind < 0.35:
        low, high = source.choice(SCRIPTS)
        return "".join(chr(source.randint(low, high)) for _ in range(source.randint(1, 12)))
    if kind < 0.5:
        return source.choice(SPACES) * source.choice([1, 1, 2, 7])
    if kind < 0.6:
        return source.choice(EMOJI)
    if kind < 0.7:
        return chr(source.randint(0x61, 0x7a)) + "".join(
            chr(source.choice(MARKS)) for _ in range(source.randint(1, 5)))
    if kind < 0.75:
        return source.choice(CONTROLS)
    if kind < 0.76:
        return source.choice("abAB9_é漢") * source.randint(90, 400)
    if kind < 0.85:
        return str(source.randint(0, 10 ** source.randint(1, 12)))
    return source.choice(WORDS)


def generated(source, characters):
    parts, length = [], 0
    while length < characters:
        parts.append(drawn(source) + (" " if source.random() < 0.6 else ""))
        length += len(parts[-1])
    return "".join(parts)


def whole_texts():
    files = sorted(SHAKESPEARE.glob("*.txt")) if SHAKESPEARE.is_dir() else []
    for folder in ("store", "gpu", "actors", "scheduler", "docs", "proto"):
        files += sorted(f for f in (ROOT / folder).rglob("*") if f.suffix in (".h", ".cc", ".md"))
    return [file.read_text(encoding="utf-8", errors="replace") for file in files]


def mixed_texts(seed, megabytes):
    """About this much text: half of it files of the tree, half generated, of 1 to 20,000 characters."""
    source = random.Random(seed)
    texts = ["", " ", "\n", "a", "\u0301", " a", "a ", "\ufeffa"]
    files = whole_texts()
    source.shuffle(files)
    size = 0
    while size < megabytes * 1e6:
        texts.append(files.pop() if files and size < megabytes * 5e5 else
                     generated(source, source.choice([1, 3, 30, 300, 3000, 20000])))
        size += len(texts[-1].encode())
    return texts
