#!/usr/bin/env python3
"""Temporary folders: they are removed, also after the process that made them was killed."""
import os
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from support import HERE, FolderCase

from easyscale.folders import LOCK, TemporaryFolder

MAKES_A_FOLDER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from easyscale.folders import TemporaryFolder
folder = TemporaryFolder("job-", sys.argv[2])
(folder.path / "samples").write_text("many")
print(folder.path, flush=True)
time.sleep(600)
"""


class Folders(FolderCase):
    def other_process(self):
        """A process that has made a folder: (process, folder)."""
        process = subprocess.Popen(
            [sys.executable, "-c", MAKES_A_FOLDER, str(HERE.parent), str(self.folder)],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        return process, Path(process.stdout.readline().strip())

    def make(self):
        return TemporaryFolder(base=str(self.folder))

    def test_a_folder_is_removed_with_its_object(self):
        folder = self.make()
        path = folder.path
        self.assertEqual(path.stat().st_mode & 0o777, 0o700)
        del folder
        self.assertFalse(path.exists())
        with self.make() as path:
            (path / "file").touch()
        self.assertFalse(path.exists())

    def test_the_folder_of_a_killed_process_is_removed_by_the_next_one(self):
        process, path = self.other_process()
        process.kill()
        process.wait()
        self.assertTrue((path / "samples").exists())
        with self.make() as own:
            self.assertFalse(path.exists())
            self.assertTrue(own.exists())

    def test_folders_that_are_in_use_stay(self):
        _, path = self.other_process()
        with self.make() as own, self.make():
            self.assertTrue((path / "samples").exists())
            self.assertTrue((own / LOCK).exists())

    def test_what_is_no_such_folder_stays(self):
        kept = self.folder / "kept"
        kept.mkdir()
        (kept / LOCK).touch()
        plain = self.folder / "easyscale-plain"
        plain.mkdir()
        (self.folder / "easyscale-file").touch()
        linked = self.folder / "easyscale-linked"
        linked.mkdir()
        (linked / LOCK).symlink_to(kept / LOCK)
        (self.folder / "easyscale-link").symlink_to(kept)
        with self.make():
            self.assertTrue((kept / LOCK).exists())
            self.assertTrue(plain.exists() and linked.exists())
            self.assertTrue((self.folder / "easyscale-file").exists())

    def test_folders_of_other_users_stay(self):
        path = self.folder / "easyscale-other"
        path.mkdir()
        (path / LOCK).touch()
        with mock.patch.object(os, "getuid", return_value=os.getuid() + 1), self.make():
            self.assertTrue(path.exists())
        with self.make():
            self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
