"""A small `tokenizer.json`, as the tokenizers of Hugging Face are written."""


def byte_characters():
    """The characters that stand for the bytes 0 to 255."""
    whole = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    rest = iter(range(0x100, 0x200))
    return [chr(byte if byte in whole else next(rest)) for byte in range(256)]


def byte_level_tokenizer():
    vocabulary = {character: i for i, character in enumerate(byte_characters())}
    merges = [["t", "h"], ["th", "e"], ["Ġ", "the"], ["a", "t"]]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    end = {"id": len(vocabulary), "content": "<|end|>", "single_word": False, "lstrip": False,
           "rstrip": False, "normalized": False, "special": True}
    return {"version": "1.0", "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": merges}}
