#!/usr/bin/env python3
"""`meson install` gives a complete system: programs that find each other, examples, a unit for
systemd."""
import re
import shutil
import signal

import harness
from harness import digests
from jobs import job_text, shipped_job


class Installed(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        build = harness.esctl_program.parents[2]
        if shutil.which("meson") is None or not (build / "meson-private").is_dir():
            self.skipTest(f"{build} is not a build of Meson, or meson is not here")
        root = self.directory / "dest"
        ended = self.start("meson", "install", "-C", build, "--no-rebuild", "--destdir",
                           root).wait()
        self.assertEqual(ended.code, 0, str(ended))
        self.root, self.prefix = root, next(root.rglob("bin/esctl")).parents[1]
        self.share = self.prefix / "share/easyscale"
        del self.environment["EASYSCALED"]  # esctl has to find the installed daemon.

    def installed(self, program, *words):
        return self.start(self.prefix / "bin" / program, *words)

    def start_esctl(self, *words):
        return self.installed("esctl", *words)

    def from_the_build(self, job, *options):
        ended = self.start(harness.esctl_program, "run", job, "--json", "--quiet", *options).wait()
        self.assertEqual(ended.code, 0, str(ended))
        return digests(ended.json)

    def start_with_shipped_config(self):
        """A head from the example file, with the directories of this test and a device of this
        machine."""
        text = (self.share / "easyscaled.toml").read_text()
        for place in ("/run/easyscale", "/var/lib/easyscale"):
            text = text.replace(place, str(self.directory / place.split("/")[1]))
        text, changed = re.subn(r'^devices = "[^"]*"', f'devices = "{self.fast_class()}:2"', text,
                                flags=re.MULTILINE)
        self.assertEqual(changed, 1)
        (self.directory / "run").mkdir(mode=0o700)
        config = self.directory / "easyscaled.toml"
        config.write_text(text)
        return harness.Daemon(self, self.installed("easyscaled", "--config", config))

    def test_the_programs_say_which_version_they_are(self):
        for program in ("esctl", "easyscaled"):
            ended = self.installed(program, "--version").wait()
            self.assertEqual(ended.code, 0, str(ended))
            self.assertRegex(ended.out, rf"^{program} \d+\.\d+\.\d+ "
                                        r"\(protocol \d+, checkpoint format \d+\)\n"
                                        r"built from (unknown|[0-9a-f]{12}) by gcc [\d.]+: \w+, "
                                        r"(no cuda|cuda [\w ]+), (no )?onednn")

    def test_the_manual_and_the_completion_are_there(self):
        share = self.prefix / "share"
        listed = re.findall(r"^  ([a-z][a-z-]*)  ", self.esctl("--help").out, re.MULTILINE)
        self.assertEqual({path.name for path in (share / "man/man1").iterdir()},
                         {"esctl.1"} | {f"esctl-{name}.1" for name in listed})
        for shell, place in (("bash", "bash-completion/completions/esctl"),
                             ("zsh", "zsh/site-functions/_esctl"),
                             ("fish", "fish/vendor_completions.d/esctl.fish")):
            self.assertEqual((share / place).read_text(), self.esctl("completion", shell).out)
        for path in (share / "man/man1").iterdir():  # no path of the machine that built it
            self.assertNotIn(str(self.directory), path.read_text())
            self.assertNotIn("ipc:///root", path.read_text())

    def test_a_shipped_job_runs_from_there(self):
        _, _ = shipped_job(harness.source_root)  # It skips the test if its data are missing.
        options = ["--steps", "5", "--devices", f"{self.fast_class()}:2"]
        summary = self.run_job(self.share / "jobs/small_cnn.toml", *options)
        self.assertEqual(
            digests(summary),
            self.from_the_build(harness.source_root / "configs/jobs/small_cnn.toml", *options))

    def test_the_daemon_serves_with_the_shipped_config(self):
        head = self.start_with_shipped_config()
        job_file = self.write_job(job_text(self.word, changes={"steps": 400}))
        job = head.submit(job_file)
        working = head.wait_for(job, "works", lambda d: any(w["pid"] for w in d["workers"])
                                or d["state"] == "finished")
        for worker in working["workers"]:
            command = harness.command_lines().get(worker["pid"], "")
            if command:  # It may have finished.
                self.assertTrue(command.startswith(f"{self.prefix}/bin/easyscaled "), command)
        end = head.wait_for_state(job, "finished")
        head.stop()
        self.assertEqual(digests(end), self.from_the_build(job_file))

    def test_the_unit_starts_the_installed_program_and_waits_for_the_grace(self):
        unit = (self.prefix / "lib/systemd/system/easyscaled.service").read_text()
        keys = dict(re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE))
        program, option, config = keys["ExecStart"].split()
        self.assertTrue((self.root / program.lstrip("/")).is_file(), program)
        self.assertEqual(option, "--config")
        self.assertTrue(config.endswith("/easyscale/easyscaled.toml"), config)
        self.assertEqual(keys["KillSignal"], signal.SIGTERM.name)
        grace = float(re.search(r"^grace = (\d+)", (self.share / "easyscaled.toml").read_text(),
                                re.MULTILINE).group(1))
        self.assertGreater(float(keys["TimeoutStopSec"]), grace)
        # The directories that systemd creates are those in the config file.
        for place in ("/run/", "/var/lib/"):
            self.assertIn(f'"{place}{keys["StateDirectory"]}',
                          (self.share / "easyscaled.toml").read_text())


if __name__ == "__main__":
    harness.main()
