#!/usr/bin/env python3
"""State directories, checkpoints and ledger files of earlier releases are read, and their jobs end
with the same bits. Files of a later release are refused with one error that names file and version.

make_fixture.py makes the files. They must be unpacked at one place, since the journal contains paths.
"""
import contextlib
import json
import re
import shutil
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import harness  # noqa: E402
from harness import EXIT_FAILURE, EXIT_USAGE, digests  # noqa: E402
from make_fixture import DEVICES, PLACE  # noqa: E402

RELEASES = sorted(path.name.removesuffix(".tar.xz") for path in HERE.glob("*.tar.xz"))
NEWER = 99


class Upgrade(harness.EndToEndTest):
    @contextlib.contextmanager
    def unpacked(self, release):
        """What is known about a release whose files are at PLACE meanwhile."""
        if PLACE.exists():
            self.skipTest(f"{PLACE} exists: another run of this test uses it, or has left it")
        PLACE.mkdir(mode=0o700)
        try:
            with tarfile.open(HERE / f"{release}.tar.xz") as archive:
                archive.extractall(PLACE)
            yield json.loads((HERE / f"{release}.json").read_text())
        finally:
            shutil.rmtree(PLACE)

    def start_head(self):
        endpoint = f"ipc://{PLACE}/head.sock"
        return harness.Daemon(self, self.start(
            harness.easyscaled_program, "--head", "--state", PLACE / "state", "--listen", endpoint,
            "--node", "one", "--devices", DEVICES, "--run-dir", self.directory / "run"))

    def assert_recorded_bits(self, summary, recorded):
        self.assertEqual(digests(summary), (recorded["params_digest"], recorded["state_digest"]))

    def test_a_head_continues_the_jobs_of_an_earlier_state_directory(self):
        for release in RELEASES:
            with self.subTest(release), self.unpacked(release) as recorded:
                self.continue_jobs(recorded)

    def continue_jobs(self, recorded):
        head = self.start_head()
        job = recorded["job"]
        paused = head.describe(job)
        self.assertEqual((paused["state"], paused["steps"]), ("paused", recorded["paused_at"]))
        head.esctl("resume", job)
        end = head.wait_for_state(job, "finished")
        self.assert_recorded_bits(end, recorded)
        # The ledger of the earlier release is the beginning of the one of this release.
        differences = head.esctl("diff", job, PLACE / "job.ledger", code=EXIT_FAILURE).out
        self.assertIn(f"{recorded['paused_at']} steps compared, no differences", differences)
        head.stop()

    def test_a_checkpoint_of_an_earlier_release_is_continued(self):
        for release in RELEASES:
            with self.subTest(release), self.unpacked(release) as recorded:
                end = self.run_job(PLACE / "job.toml", "--from", PLACE / "half", "--stages",
                                   f"{DEVICES}@{recorded['steps_after_checkpoint']}")
                self.assert_recorded_bits(end, recorded)

    def test_newer_checkpoints_and_ledger_files_are_refused(self):
        with self.unpacked(RELEASES[-1]):
            half, ledger = PLACE / "half", PLACE / "job.ledger"
            self.assert_refused(half / "manifest", "run", PLACE / "job.toml", "--from", half)
            self.assert_refused(ledger, "diff", ledger, ledger)

    def assert_refused(self, file, *command):
        """The command reads this file, whose first line gets the number of a later format."""
        text, changed = re.subn(rb"^(\S+ )\d+", rb"\g<1>%d" % NEWER, file.read_bytes(), count=1)
        self.assertEqual(changed, 1)
        file.write_bytes(text)
        (line,) = self.esctl(*command, code=EXIT_USAGE).err.splitlines()
        self.assertIn(str(file), line)
        self.assertRegex(line, rf'format version = "?{NEWER}"?: allowed is \d')


if __name__ == "__main__":
    harness.main()
