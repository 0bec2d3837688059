#!/usr/bin/env python3
"""The speed of the tokenizer beside the library "tokenizers", each on one thread, in turns.

    tokenizer_speed.py TOKENIZER_BENCH [ROUNDS]
It takes tokenizers of three kinds that the reference trains on the text, and prints a line for each."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "store/tokenizer")]
os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import pytorch_environment  # noqa: E402


def main():
    try:
        import tokenizers
    except ImportError:
        pytorch_environment.enter()
        sys.exit(pytorch_environment.MISSING)
    import tokenizer_reference_test as kinds
    from mixed_text import whole_texts
    bench, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    texts = [text for text in whole_texts() if text]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    print(f"tokenizers {tokenizers.__version__}, {megabytes:.1f} MB, median of {rounds} rounds")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "texts").write_text("".join(json.dumps(text) + "\n" for text in texts))
        for make in (kinds.gpt2, kinds.llama3, kinds.llama2, kinds.bert, kinds.unigram):
            tokenizer = make(texts[:60])
            tokenizer.save(str(place / "tokenizer.json"))
            ours, theirs = [], []
            for _ in range(rounds):
                done = subprocess.run([bench, place / "tokenizer.json", place / "texts",
                                       place / "ids"], capture_output=True, text=True, check=True)
                ours.append(megabytes / float(done.stdout))
                begin = time.perf_counter()
                for text in texts:
                    tokenizer.encode(text, add_special_tokens=False)
                theirs.append(megabytes / (time.perf_counter() - begin))
            print(f"{make.__name__:8} {statistics.median(ours):6.1f} MB/s, "
                  f"tokenizers {statistics.median(theirs):6.1f} MB/s")


if __name__ == "__main__":
    main()
