"""Stands for `esctl` in tests: answers from the files in the folder FAKE_ESCTL.

The answer to a command is COMMAND.json, an object with `code`, `out` and `err`. Without that file a
finished job is described. Every call is added to the file `calls`, one JSON list a line.
"""
import json
import os
import shutil
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ["FAKE_ESCTL"])
DIGEST = "0123456789abcdef" * 2
EVALUATION = {"version": 2, "total": 8, "metric": "accuracy", "accuracy": 0.5, "mean_loss": 0.75}
VIEW = {"job": "net-1", "name": "net", "state": "finished", "steps": 2, "steps_total": 2,
        "placement": None, "loss_first": 2.0, "loss_last": 1.0, "samples_per_s": None,
        "params_digest": DIGEST, "state_digest": DIGEST, "evaluations": [EVALUATION],
        "checkpoint": str(FOLDER / "checkpoint"), "error": None}
LINES = [{"step": step, "params_digest": DIGEST, "losses": [loss, loss + 1.0]}
         for step, loss in ((1, 1.5), (2, 0.5))]


def answer(command: str, words: list[str]) -> dict:
    """What `esctl` prints, after it has written the files that the command writes."""
    if command == "models":
        shutil.copyfile(words[1], words[words.index("-o") + 1])
        return {"file": words[-1]}
    if command == "submit":
        folder = Path(words[0]).parent
        shutil.copytree(folder, FOLDER / "submitted", dirs_exist_ok=True)
        return {"job": "net-1"}
    if command == "export":
        shutil.copyfile(FOLDER / "submitted" / "weights.safetensors", words[1])
        return {"file": words[1]}
    return {"describe": VIEW, "ledger": {"job": "net-1", "lines": LINES}, "ps": {"jobs": [VIEW]},
            "nodes": {"nodes": []}}.get(command, {"job": "net-1"})


def main() -> int:
    """Runs one command."""
    command, *words = sys.argv[1:]
    with open(FOLDER / "calls", "a") as calls:
        calls.write(json.dumps([command, *words]) + "\n")
    if command == "submit" and "FAKE_EASYSCALED_DIES" in os.environ:
        time.sleep(60)  # esctl tries again until a head answers
    prepared = FOLDER / f"{command}.json"
    if not prepared.exists():
        print(json.dumps(answer(command, words)))
        return 0
    reply = json.loads(prepared.read_text())
    sys.stdout.write(reply["out"])
    sys.stderr.write(reply.get("err", ""))
    return reply["code"]


if __name__ == "__main__":
    sys.exit(main())
