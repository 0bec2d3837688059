#!/usr/bin/env python3
"""Output that cannot be written is an error, and a reader that closes its pipe is none. Directories
and files that the daemon creates are private."""
import os
import pty
import signal
import stat
import subprocess

import harness
from harness import EXIT_FAILURE
from jobs import job_text

GONE = 128 + signal.SIGPIPE


class Output(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.job = self.write_job(job_text(self.word, changes={"steps": 2, "eval_every": None}))

    def commands(self, daemon):
        """Commands with an answer, one for every way in which output is printed."""
        head = ["--head", daemon.endpoint]
        return [["--help"], ["--version"], ["run", "--help"], ["ps", *head],
                ["ps", "--json", *head], ["nodes", *head], ["nodes", "--json", *head],
                ["claims", *head], ["submit", self.job, *head], ["inspect", self.job],
                ["inspect", self.job, "--json"], ["ps", "--json", "--head", "ipc:///none"],
                ["run", self.job, "--quiet"], ["run", self.job, "--json", "--quiet"],
                ["keygen", self.directory / f"keys{self.count}"]]

    def run_with(self, words, **files):
        """The exit status and the text on standard error, if that is a pipe."""
        files = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **files}
        ended = subprocess.run([str(word) for word in words], env=self.environment,
                               cwd=self.directory, stdin=subprocess.DEVNULL,
                               timeout=harness.DEADLINE_S, **files)
        return ended.returncode, (ended.stderr or b"").decode()

    def test_a_full_disk_under_standard_output_is_an_error_of_every_command(self):
        daemon = self.start_daemon(devices=self.fast_class() + ":1")
        self.count = 1
        with open("/dev/full", "wb") as full:
            for command in self.commands(daemon):
                with self.subTest(command):
                    code, err = self.run_with([harness.esctl_program, *command], stdout=full)
                    self.assertEqual(code, EXIT_FAILURE, err)
                    self.assertEqual(err.count("No space left on device"), 1, err)
                    self.assertNotIn("terminate", err)
            for command in (["--help"], ["--version"], ["worker", "--help"]):
                code, err = self.run_with([harness.easyscaled_program, *command], stdout=full)
                self.assertEqual(code, EXIT_FAILURE, err)
                self.assertEqual(err.count("\n"), 1, err)
        self.assert_nothing_private_left()
        daemon.stop()

    def test_a_closed_standard_output_is_an_error_and_nothing_takes_its_place(self):
        daemon = self.start_daemon(devices=self.fast_class() + ":1")
        self.count = 2
        for command in self.commands(daemon):
            with self.subTest(command):
                words = ["sh", "-c", 'exec "$@" >&-', "sh", harness.esctl_program, *command]
                code, err = self.run_with(words)
                self.assertEqual(code, EXIT_FAILURE, err)
                self.assertEqual(err.count("Bad file descriptor"), 1, err)
        daemon.stop()

    def test_progress_that_cannot_be_written_is_an_error_and_loses_nothing(self):
        with open("/dev/full", "wb") as full:
            ended = subprocess.run([harness.esctl_program, "run", self.job, "--json"],
                                   env=self.environment, stdout=subprocess.PIPE, stderr=full,
                                   timeout=harness.DEADLINE_S)
        self.assertEqual(ended.returncode, EXIT_FAILURE)
        self.assertIn(b'"finished"', ended.stdout)

    def test_a_reader_that_goes_away_ends_the_command_quietly(self):
        daemon = self.start_daemon(devices=self.fast_class() + ":1")
        self.count = 3
        for command in self.commands(daemon):
            with self.subTest(command):
                read, write = os.pipe()
                os.close(read)
                code, err = self.run_with([harness.esctl_program, *command], stdout=write)
                os.close(write)
                self.assertIn(code, (GONE, -signal.SIGPIPE), err)
                if command[:2] != ["ps", "--json"] or daemon.endpoint in command:
                    self.assertEqual(err, "")
        self.assert_nothing_private_left()
        daemon.stop()

    def test_a_run_whose_progress_no_process_reads_ends_and_leaves_nothing(self):
        endless = self.write_job(job_text(self.word, changes={"steps": 1_000_000}), "endless.toml")
        read, write = os.pipe()
        os.close(read)
        code, _ = self.run_with([harness.esctl_program, "run", endless], stdout=write, stderr=write)
        os.close(write)
        self.assertEqual(code, GONE)
        self.assert_nothing_left()

    def assert_nothing_private_left(self):
        self.assertEqual(sorted(self.temporary.iterdir()), [])


class Terminal(harness.EndToEndTest):
    def test_nothing_that_came_from_elsewhere_reaches_a_terminal_as_a_command(self):
        path = self.directory / "a\x1b[2Jb\nesctl: all is well\x9b"
        path.mkdir()
        for command in (["run", path / "job.toml"], ["checkpoint", "ls", path],
                        ["run", self.write_job("steps = 1\nx = '\u202e'\n")],
                        ["ps", "--head", f"ipc://{path}/s"]):
            leader, follower = pty.openpty()
            subprocess.run([harness.esctl_program, *command], env=self.environment,
                           stdout=follower, stderr=follower, timeout=harness.DEADLINE_S)
            os.close(follower)
            shown = b""
            try:
                while piece := os.read(leader, 65536):
                    shown += piece
            except OSError:  # The other side is closed.
                pass
            os.close(leader)
            self.assertNotEqual(shown, b"")
            self.assertNotIn(b"\x1b", shown.replace(b"\x1b[K", b""))
            self.assertNotIn(b"\xc2\x9b", shown)
            self.assertNotIn("\u202e".encode(), shown)


class Directories(harness.EndToEndTest):
    def test_a_daemon_accepts_the_directories_that_it_makes(self):
        # As in the shipped configuration: the socket is in a directory above those of the workers.
        run = self.directory / "run/easyscale"
        run.parent.mkdir()
        config = self.directory / "easyscaled.toml"
        config.write_text(f'head = true\nlisten = "ipc://{run}/head.sock"\n'
                          f'state = "{self.directory}/lib/easyscale"\nrun-dir = "{run}/workers"\n'
                          f'devices = "{self.fast_class()}:1"\nnode = "n1"\n')
        before = os.umask(0o022)
        try:
            running = self.start(harness.easyscaled_program, "--config", config)
        finally:
            os.umask(before)
        daemon = harness.Daemon(self, running)
        for path in (run, run / "workers", self.directory / "lib/easyscale"):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o700, path)
        daemon.stop()


if __name__ == "__main__":
    harness.main()
