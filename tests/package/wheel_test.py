#!/usr/bin/env python3
"""The portable wheel is small, and it is installed and used in bare systems: the release that runs
this test and the newer one.

    wheel_test.py ESCTL SOURCE_ROOT
"""
import os
import subprocess
import sys

from package_case import PackageCase, main

PROGRAMS = ["mmdebstrap"]
MEGABYTES_MAX = 40
# Each release, and the version of its Python.
RELEASES = {"bookworm": "3.11", "trixie": "3.13"}
# Runs outside of the new system, whose directory is $1. There pip reaches no index.
IN_THE_SYSTEM = r"""#!/bin/sh
set -eu
cp -r "$WHEELS" "$1/wheels"
cp "$JOB" "$1/job.toml"
cat >"$1/try" <<'TRY'
set -eu
cd /
python3 -m venv /environment
/environment/bin/pip install --quiet --no-index --find-links /wheels easyscale
echo "step: installed"
/environment/bin/easyscaled --version
/environment/bin/esctl run /job.toml --steps 20 --quiet
/environment/bin/python -c 'import easyscale; print("step:", easyscale.Job.__name__)'
TRY
chroot "$1" env HOME=/tmp sh /try
"""


class Wheel(PackageCase):
    programs = PROGRAMS

    def done(self, *words, **environment):
        ended = subprocess.run([str(word) for word in words], text=True, capture_output=True,
                               env={**os.environ, **environment})
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout

    def test_it_is_small_and_works_in_bare_systems(self):
        wheels = self.directory / "wheels"
        wheels.mkdir()
        self.done(self.source / "scripts/wheel", ES_BUILD=str(self.esctl.parents[2]),
                  ES_DIST=str(wheels))
        (wheel,) = wheels.glob("easyscale-*.whl")
        self.assertLess(wheel.stat().st_size, MEGABYTES_MAX * 1_000_000)
        tools = self.directory / "tools"  # Debian's Python has no pip of its own.
        self.done(sys.executable, "-m", "venv", tools)
        for version in RELEASES.values():
            self.done(tools / "bin/pip", "download", "--quiet", "--dest", wheels,
                      "--only-binary=:all:", "--python-version", version, "numpy", "safetensors")
        hook = self.directory / "hook"
        hook.write_text(IN_THE_SYSTEM)
        hook.chmod(0o755)
        for release in RELEASES:
            with self.subTest(release):
                self.use_in(release, hook, wheels)

    def use_in(self, release, hook, wheels):
        job = self.source / "configs/jobs/tiny_neumf.toml"
        tried = subprocess.run(
            ["mmdebstrap", "--variant=apt", "--include=python3-venv", "--format=null",
             f"--customize-hook={hook}", release, "/dev/null"], text=True, capture_output=True,
            env={**os.environ, "WHEELS": str(wheels), "JOB": str(job)})
        shown = tried.stdout + tried.stderr
        if "step: installed" not in shown and ("Failed to fetch" in shown
                                               or "Temporary failure" in shown):
            self.skipTest("no mirror of Debian can be reached")
        self.assertEqual(tried.returncode, 0, shown)
        self.assertIn("20/20", shown)
        self.assertIn("step: Job", shown)


if __name__ == "__main__":
    main()
