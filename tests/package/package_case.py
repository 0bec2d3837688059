"""What both tests of packages share: their arguments, the tools that they need, and a directory."""
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

SKIPPED = 77  # The exit status that Meson takes for "skipped".


class PackageCase(unittest.TestCase):
    """`programs` are the tools without which the tests of a class are skipped."""

    programs: list[str] = []
    esctl: Path
    source: Path

    def setUp(self):
        missing = [name for name in self.programs if shutil.which(name) is None]
        if missing:
            self.skipTest(f"{', '.join(missing)}: not here; scripts/setup_packages installs them")
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)


def main():
    """Runs the tests of the calling program, whose arguments are ESCTL and SOURCE_ROOT."""
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} ESCTL SOURCE_ROOT")
    PackageCase.esctl, PackageCase.source = (Path(sys.argv.pop(1)).resolve() for _ in range(2))
    ended = unittest.main(verbosity=2, exit=False).result
    if not ended.wasSuccessful():
        sys.exit(1)
    if ended.testsRun == len(ended.skipped):
        sys.exit(SKIPPED)
