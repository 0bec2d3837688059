#!/usr/bin/env python3
"""Compiles one kernel source for GPUs and keeps what the assembler says about its kernels.

  compile.py REPORT COMMAND...

Runs COMMAND, whose output goes to REPORT; prints one line about it, or all of it when it fails.
"""
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
import resources  # noqa: E402


def main(report, *command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    Path(report).write_text(done.stdout)
    print(resources.summary(done.stdout) if done.returncode == 0 else done.stdout)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
