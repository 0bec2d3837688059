"""The disk for the checkpoints of the job. It is small, and a test can fill it."""
import errno
import shutil
import subprocess

SIZE = "size=64m"  # A few checkpoints of the default job.
PIECE = bytes(1 << 16)


class Disk:
    """Makes a small tmpfs at this path. If that needs privileges that the user lacks, makes a plain
    directory."""

    def __init__(self, path):
        self.path = path
        self._filler = path / "filler"
        path.mkdir()
        mounted = shutil.which("mount") and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", SIZE, "none", str(path)], capture_output=True)
        self.is_real = bool(mounted) and mounted.returncode == 0

    def fill(self):
        with self._filler.open("ab", buffering=0) as filler:
            try:
                while filler.write(PIECE):
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def make_room(self):
        self._filler.unlink(missing_ok=True)

    def clear(self):
        for entry in self.path.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()

    def close(self):
        if self.is_real:
            subprocess.run(["umount", "-l", str(self.path)], capture_output=True)
            self.is_real = False
