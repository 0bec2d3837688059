"""Finds and runs the programs `esctl` and `easyscaled`.

A program is looked for where the environment variable EASYSCALE_ESCTL or EASYSCALED says, then in
the folder into which this package was installed with its programs, and then on PATH. The daemon is
also looked for beside `esctl` and at its place in a build tree.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .errors import EasyScaleError, FailedError, NotFoundError, error_of

ESCTL_VARIABLE = "EASYSCALE_ESCTL"
EASYSCALED_VARIABLE = "EASYSCALED"
WATCH_SECONDS = 0.2


def find_esctl() -> Path:
    """The path of `esctl`. Raises NotFoundError, which lists where it was looked for."""
    return _find("esctl", ESCTL_VARIABLE, [])


def find_easyscaled() -> Path:
    """The path of `easyscaled`. Raises NotFoundError, which lists where it was looked for."""
    beside = find_esctl().resolve().parent
    return _find("easyscaled", EASYSCALED_VARIABLE,
                 [beside / "easyscaled", beside.parent / "easyscaled" / "easyscaled"])


def run_json(arguments: list[str], watch: Callable[[], None] | None = None) -> Any:
    """Runs `esctl ARGUMENTS --json` and returns the object that it prints.

    `watch` is called several times a second meanwhile; an error that it raises ends the program.
    A comparison that finds a difference ends with code 1 and is returned like any other answer.
    Raises the error that belongs to the exit code, with the text of `esctl`.
    """
    with subprocess.Popen([find_esctl(), *arguments, "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        try:
            printed, errors = _communicate(process, watch)
        except BaseException:
            process.kill()
            raise
    answer = _parse(printed)
    if isinstance(answer, dict) and (process.returncode == 0 or "identical" in answer):
        return answer
    if process.returncode == 0:
        raise FailedError(f"esctl {arguments[0]} has printed no JSON object: {printed[:200]!r}")
    raise _error(process.returncode, answer, errors)


def _communicate(process: subprocess.Popen[str],
                 watch: Callable[[], None] | None) -> tuple[str, str]:
    while True:
        try:
            return process.communicate(timeout=WATCH_SECONDS if watch else None)
        except subprocess.TimeoutExpired:
            pass
        if watch:
            watch()


def run_lines(arguments: list[str]) -> Iterator[Any]:
    """Runs `esctl ARGUMENTS --json`, which prints one object a line, and yields the objects.

    The program is ended when the iterator is closed. Raises as `run_json` does.
    """
    with subprocess.Popen([find_esctl(), *arguments, "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None  # they are pipes
        unread = ""
        try:
            for line in process.stdout:
                unread += line
                entry = _parse(unread)
                if entry is not None and "error" not in entry:
                    unread = ""
                    yield entry
            errors = process.stderr.read()
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        raise _error(process.returncode, _parse(unread), errors)


def _find(name: str, variable: str, others: list[Path]) -> Path:
    named = os.environ.get(variable)
    if named:
        if _is_program(Path(named)):
            return Path(named)
        raise NotFoundError(f"{variable} = {named!r}: there is no such program")
    searched = [*others, *(folder / name for folder in _script_folders())]
    for path in searched:
        if _is_program(path):
            return path
    on_path = shutil.which(name)
    if on_path:
        return Path(on_path)
    raise NotFoundError(f"the program {name} was found neither on PATH nor as "
                        f"{', '.join(str(path) for path in searched)}; name it in the environment "
                        f"variable {variable}")


def _script_folders() -> list[Path]:
    """Where an installer puts programs: of the interpreter, of the user, or for `pip --target`."""
    of_user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    return [Path(sysconfig.get_path("scripts")), Path(of_user),
            Path(__file__).resolve().parents[1] / "bin"]


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _error(code: int, answer: Any, errors: str) -> EasyScaleError:
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        return error_of(code, answer["error"])
    if code < 0:
        return FailedError(f"esctl was ended by signal {-code}")
    return error_of(code, errors.strip().removeprefix("esctl: ") or f"esctl ended with code {code}")
