"""Temporary folders that do not stay behind, however their process ends."""
from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from types import TracebackType

PREFIX = "easyscale-"
LOCK = "owner.lock"


class TemporaryFolder:
    """A new folder that only our user may enter; `remove()` removes it, or the end of this object.

    A process that is killed removes nothing, so the next TemporaryFolder of the same user removes
    what such processes have left. The system unlocks the lock file in a folder with the end of its
    process; a folder whose file is locked, or that has none, stays.
    """

    def __init__(self, kind: str = "", base: str | None = None):
        base = base or tempfile.gettempdir()
        _remove_abandoned(Path(base))
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX + kind, dir=base))
        self.remove = weakref.finalize(self, _remove, self.path, _new_lock(self.path))

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.remove()


def _new_lock(folder: Path) -> int:
    """Makes a locked file, which gets its name last, so that no process finds it unlocked."""
    file = folder / (LOCK + ".new")
    lock = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    file.rename(folder / LOCK)
    return lock


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _remove_abandoned(base: Path) -> None:
    for folder in base.glob(PREFIX + "*"):
        with contextlib.suppress(OSError):  # another process may remove it too, or hold its lock
            if folder.lstat().st_uid != os.getuid():
                continue
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
            else:
                _remove(folder, lock)
