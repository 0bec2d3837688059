#!/usr/bin/env python3
"""Runs SPIN on step.pml and shards.pml: with faults that the protocol must survive, and with bugs
that SPIN must find.

  check.py [--quick | --mutations] [--only NAME] [--keep DIR]

Prints one line for each configuration, then "N passed, N failed". Exits with 0 when all passed, 1
when one failed (it names the folder with the counter-example), 2 when spin or a C compiler is
missing."""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEP, SHARDS = (Path(__file__).with_name(name) for name in ("step.pml", "shards.pml"))
MEMORY_MIB = 7500
DEPTH = 300000

# Faults and changes that the protocol survives. Those of --quick are first.
QUICK = [
    "", "CRASH=1", "CRASH=2 STEPS=3", "LOST=1", "JOIN=1", "LEAVE=1", "RESTART=1", "FRESH=1",
    "FRESH=1 CRASH=1", "CRASH=1 ACK=1", "CHECKPOINT=1 CRASH=1", "SLOW=1",
]
LARGE = [
    "JOIN=1 CRASH=1", "JOIN=1 CRASH=2", "JOIN=1 LEAVE=1", "JOIN=1 CHECKPOINT=1 CRASH=2",
    "CRASH=1 LOST=1", "CRASH=1 RESTART=1", "LOST=1 RESTART=1", "CUT=1", "GAP=1",
    "JOIN=1 RESTART=1", "JOIN=1 LEAVE=1 CRASH=1", "JOIN=1 LEAVE=1 RESTART=1", "CRASH=1 CUT=1",
]
# There is no cycle in the state graph. Together with L1 this means that the job terminates.
ACYCLIC_QUICK = ["CRASH=1", "RESTART=1"]
ACYCLIC_LARGE = ["LOST=1", "JOIN=1"]
# Each bug, and the faults with which it becomes visible.
MUTATIONS = [
    ("EARLYCOUNT", "CRASH=1"), ("EARLYDISCARD", "CRASH=1"), ("NOSEAL", "CRASH=1"),
    ("NOSEAL", "LOST=1"), ("NOFENCE", "LOST=1"), ("NOJOURNAL", "RESTART=2"),
    ("INPLACE", "CRASH=1"), ("KEEPACC", "CRASH=1"), ("DROPFUTURE", ""),
    ("EARLYRELEASE", "JOIN=1 LEAVE=1 CRASH=1"), ("JOINERCOUNTS", "JOIN=1 CRASH=1"),
    ("NORESTARTROUND", "CRASH=2"), ("NOSUSPECT", "CUT=1"), ("LOSELINES", "JOIN=1 LEAVE=1"),
    ("LOSELINES", "JOIN=1 CRASH=2"), ("NORETELL", "CRASH=1"), ("FORGETTOLD", "CRASH=1"),
    ("TORNUPDATE", "CRASH=1"), ("VOLATILELEDGER", "ACK=1 RESTART=1"),
    ("EARLYCHECKPOINT", "CHECKPOINT=1 JOIN=1 CRASH=2"),
]
# The same of jobs with sharded state.
SHARDS_QUICK = ["", "CRASH=1", "LOST=1", "JOIN=1", "CRASH=2", "JOIN=1 CRASH=1"]
SHARDS_LARGE = ["CRASH=1 LOST=1", "JOIN=1 LOST=1", "JOIN=1 CRASH=2", "CRASH=2 STEPS=3"]
SHARDS_MUTATIONS = [
    ("EARLYCOMPLETE", "CRASH=1"), ("MISSEDCOMPLETE", "CRASH=1"), ("NOFENCE", "LOST=1"),
    ("TARGETBACK", "CRASH=1"), ("FORGETSUMS", "CRASH=1"),
]


def run(command, folder, log):
    with open(folder / log, "w", encoding="utf-8") as out:
        return subprocess.run(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT).returncode


def verify(folder, model, options, acyclic=False, fast_compile=False):
    """Returns (states, property that failed or "", complete, seconds)."""
    begin = time.monotonic()
    folder.mkdir(parents=True)
    shutil.copy(model, folder)
    # Hashes of states; where cycles are searched, whole compressed states.
    mode = ["-DNP", "-DCOLLAPSE"] if acyclic else ["-DSAFETY", "-DHC4"]
    steps = [
        ["spin", "-a", *options, model.name],
        ["gcc", "-O0" if fast_compile else "-O1", "-w", *mode, "-DVECTORSZ=2048",
         f"-DMEMLIM={MEMORY_MIB}", "-o", "pan", "pan.c"],
    ]
    for command in steps:
        if run(command, folder, f"{command[0]}.log") != 0:
            sys.exit(f"{' '.join(command)} failed, see {folder}/{command[0]}.log")
    run(["./pan", f"-m{DEPTH}", "-w24", *(["-l"] if acyclic else [])], folder, "pan.log")
    log = (folder / "pan.log").read_text(errors="replace")
    states = re.search(r"([0-9.e+]+) states, stored", log)
    complete = states is not None and not re.search(
        r"not completed|out of memory|max search depth", log)
    return (int(float(states[1])) if states else 0, failed_property(log), complete,
            time.monotonic() - begin)


def failed_property(log):
    """The name of the violated property (PROPERTY in the model), or another message of SPIN."""
    error = re.search(r"pan:\s*\d+:\s*(.*) \(at depth", log)
    if not error:
        return ""
    name = re.search(r"\|\|\(?([SFGLH]\d?)\)+$", error[1])
    return name[1] if name else error[1]


def options_of(text):
    return [f"-D{option}" for option in text.split()]


def work(arguments):
    """Returns (name, model, SPIN options, is a bug, looks for cycles), in order."""
    if arguments.mutations:
        for model, bugs in ((STEP, MUTATIONS), (SHARDS, SHARDS_MUTATIONS)):
            before = "shards: " if model == SHARDS else ""
            yield f"{before}the end is reached", model, ["-DREACH", "-DCRASH=1"], True, False
            for bug, faults in bugs:
                yield (f"{before}{bug} {faults}".strip(), model,
                       [f"-DM_{bug}", *options_of(faults)], True, False)
        return
    for faults in QUICK + ([] if arguments.quick else LARGE):
        yield faults or "no fault", STEP, options_of(faults), False, False
    for faults in SHARDS_QUICK + ([] if arguments.quick else SHARDS_LARGE):
        yield f"shards: {faults or 'no fault'}", SHARDS, options_of(faults), False, False
    for faults in ACYCLIC_QUICK + ([] if arguments.quick else ACYCLIC_LARGE):
        yield f"no cycle {faults}", STEP, options_of(faults), False, True


def main():
    parser = argparse.ArgumentParser(description="Checks the model of the protocol with SPIN.")
    parser.add_argument("--quick", action="store_true", help="only the small configurations")
    parser.add_argument("--mutations", action="store_true", help="each bug must be found")
    parser.add_argument("--only", metavar="NAME", help="only the configuration of this name")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="new folder for what SPIN writes")
    arguments = parser.parse_args()
    for tool, package in (("spin", "spin"), ("gcc", "gcc")):
        if shutil.which(tool) is None:
            print(f"{tool} is missing: install the Debian package {package}", file=sys.stderr)
            return 2
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="es_model_"))
    passed = failed = 0
    for name, model, options, is_bug, acyclic in work(arguments):
        if arguments.only not in (None, name):
            continue
        place = folder / re.sub(r"\W+", "_", name)
        states, error, complete, seconds = verify(place, model, options, acyclic,
                                                  fast_compile=is_bug)
        good = bool(error) if is_bug else complete and not error
        passed, failed = passed + good, failed + (not good)
        verdict = error or ("no error" if complete else "NOT COMPLETE")
        print(f"{'ok  ' if good else 'FAIL'} {name:<34} {states:>10,} states {seconds:6.1f} s  "
              f"{verdict}", flush=True)
        if good:
            shutil.rmtree(place)
        else:
            print(f"     cd {place}; spin -t -p -g {' '.join(options)} {model.name}")
    print(f"{passed} passed, {failed} failed")
    if passed + failed == 0:
        print(f"no configuration is named {arguments.only}", file=sys.stderr)
        return 2
    if failed == 0 and arguments.keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
