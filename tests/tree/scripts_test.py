#!/usr/bin/env python3
"""Every script prints its usage on request and then does nothing else. It refuses unknown
arguments."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(sys.argv.pop(1))
# A stand-in for the programs that a script would run. It only writes a line.
TOOLS = ["apt-get", "cmake", "dpkg-query", "g++", "ninja", "python", "sudo"]
RECORDER = '#!/bin/sh\necho "$0 $@" >>"{log}"\nexit 9\n'
# These calls only ask for the options, so they are allowed.
MESON = '#!/bin/sh\n[ "$*" = "test --help" ] && exec "{meson}" "$@"\necho "$0 $@" >>"{log}"\nexit 9\n'


def which(program):
    return subprocess.run(["sh", "-c", f"command -v {program}"], capture_output=True,
                          text=True).stdout.strip()


def scripts():
    return sorted(path for path in SCRIPTS.iterdir()
                  if path.is_file() and os.access(path, os.X_OK))


class Scripts(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tools = Path(directory.name) / "tools"
        self.tools.mkdir()
        self.log = Path(directory.name) / "log"
        for name in TOOLS:
            self.write_tool(name, RECORDER.format(log=self.log))
        self.write_tool("meson", MESON.format(log=self.log, meson=which("meson")))

    def write_tool(self, name, text):
        (self.tools / name).write_text(text)
        (self.tools / name).chmod(0o755)

    def run_script(self, script, *words):
        path = f"{self.tools}:{os.environ['PATH']}"
        ran = subprocess.run([script, *words], capture_output=True, text=True, timeout=60,
                             env={**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"})
        done = self.log.read_text() if self.log.exists() else ""
        self.assertEqual(done, "", f"{script.name} {words} did something")
        return ran

    def test_help_prints_the_usage_and_does_nothing(self):
        for script in scripts():
            for word in ("--help", "-h"):
                with self.subTest(script=script.name, word=word):
                    ran = self.run_script(script, word)
                    self.assertEqual(ran.returncode, 0, ran.stderr)
                    self.assertIn(script.name, ran.stdout)
                    self.assertEqual(ran.stderr, "")

    def test_an_unknown_option_is_refused_before_anything_is_done(self):
        for script in scripts():
            with self.subTest(script=script.name):
                ran = self.run_script(script, "--frobnicate")
                self.assertEqual(ran.returncode, 2, ran.stdout + ran.stderr)
                self.assertNotEqual(ran.stderr, "")

    def test_a_script_without_arguments_takes_none(self):
        self.assertEqual(self.run_script(SCRIPTS / "demo", "now").returncode, 2)
        self.assertEqual(self.run_script(SCRIPTS / "setup", "--no-install", "x").returncode, 2)


if __name__ == "__main__":
    unittest.main()
