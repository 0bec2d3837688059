"""A daemon that belongs to one run: head and node in one process, behind a Unix socket."""
from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from .errors import FailedError, error_of
from .folders import TemporaryFolder
from .programs import find_easyscaled

READY_SECONDS = 60.0
END_SECONDS = 15.0
LOG_LINES = 5
SOCKET_FOLDER_BYTES = 80  # the system allows 107 bytes for the whole path of a socket


Process = subprocess.Popen[bytes]


class PrivateHead:
    """Starts the daemon on entry, and ends it and removes its files on exit.

    The daemon watches this process and ends with it, however this process ends. It has a process
    group of its own, so that Ctrl-C reaches only Python.
    """

    def __init__(self, loaders: int = 1) -> None:
        self._loaders = loaders
        self.endpoint = ""  # ipc:///PATH, for `esctl --head`
        self._files: TemporaryFolder | None = None
        self._process: Process | None = None

    def __enter__(self) -> PrivateHead:
        program = find_easyscaled()
        self._files = _private_folder()
        self.endpoint = f"ipc://{self._folder / 'head.sock'}"
        try:
            self._process = self._started(program)
            _wait_until_ready(self._process, self._folder / "log")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def check(self) -> None:
        """Raises FailedError with the last lines of its log if the daemon has ended."""
        if self._process is not None and self._process.poll() is not None:
            lines = (self._folder / "log").read_text(errors="replace").splitlines()
            raise FailedError("easyscaled has ended: " + "\n".join(lines[-LOG_LINES:]))

    @property
    def _folder(self) -> Path:
        assert self._files is not None  # between entry and exit
        return self._files.path

    def _started(self, program: Path) -> Process:
        state, run = self._folder / "state", self._folder / "run"
        run.mkdir(mode=0o700)
        with open(self._folder / "log", "wb") as log:
            return subprocess.Popen(
                [program, "--head", "--listen", self.endpoint, "--state", state, "--node", "local",
                 "--run-dir", run, "--no-rescue", "--parent-pid", str(os.getpid()),
                 "--loaders", str(self._loaders)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                start_new_session=True)

    def _end(self) -> None:
        if self._process is not None:
            _stop(self._process)
            self._process = None
        if self._files is not None:
            self._files.remove()


def _wait_until_ready(process: Process, log: Path) -> None:
    output = process.stdout
    assert output is not None  # it is a pipe
    deadline = time.monotonic() + READY_SECONDS
    text = b""
    while b"ready " not in text or b"\n" not in text:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([output], [], [], left)[0]:
            raise FailedError(f"easyscaled was not ready within {READY_SECONDS:g} s")
        part = os.read(output.fileno(), 4096)
        if not part:
            raise error_of(process.wait(), "easyscaled ended before it was ready:\n"
                           + log.read_text(errors="replace").strip())
        text += part


def _stop(process: Process) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _private_folder() -> TemporaryFolder:
    """A folder with a path that is short enough for sockets."""
    base = tempfile.gettempdir()
    return TemporaryFolder(base=base if len(base) < SOCKET_FOLDER_BYTES else "/tmp")
