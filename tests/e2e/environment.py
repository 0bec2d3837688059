"""The virtual environments in which some tests run (scripts/setup_pytorch, scripts/setup_web)."""
import os
import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def enter(setup):
    """Starts this program again with the Python of the environment that the script `setup` makes, if
    that is another one. Without the environment it returns, and what needs it is skipped."""
    where = subprocess.run([SCRIPTS / setup, "--where"], capture_output=True, text=True, check=True)
    python = where.stdout.strip()
    # A virtual environment is known by its prefix: its python3 may be a link to this one.
    if Path(sys.prefix) != Path(python).parents[1] and os.access(python, os.X_OK):
        os.execv(python, [python, *sys.argv])


def program(name, environment):
    """The path of a program of another environment of the user's cache. None if it is not there."""
    where = subprocess.run([SCRIPTS / "setup_web", "--where"], capture_output=True, text=True,
                           check=True)
    path = Path(where.stdout.strip()).parents[2] / environment / "bin" / name
    return path if path.exists() else None
