"""The environment with PyTorch in which some tests run (scripts/setup_pytorch)."""
import os
import subprocess
import sys
from pathlib import Path

SETUP = Path(__file__).resolve().parents[2] / "scripts/setup_pytorch"
MISSING = "PyTorch is not set up: scripts/setup_pytorch"


def enter():
    """Starts this program again with the environment's Python, if that is another one. Without the
    environment it returns, and what needs PyTorch is skipped with the text MISSING."""
    where = subprocess.run([SETUP, "--where"], capture_output=True, text=True, check=True)
    python = where.stdout.strip()
    # A virtual environment is known by its prefix: its python3 may be a link to this one.
    if Path(sys.prefix) != Path(python).parents[1] and os.access(python, os.X_OK):
        os.execv(python, [python, *sys.argv])
