#!/usr/bin/env python3
"""What a person does at a terminal: explain, doctor, top, ps --watch, completion in real shells, and
pages of the manual."""
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios

import harness
from harness import EXIT_FAILURE, EXIT_NOT_FOUND, EXIT_USAGE
from jobs import ANY_LENGTH, job_text

LONG = {"steps": 1_000_000, "max_p": 2, **ANY_LENGTH}


class Terminal:
    """A program of esctl on a pseudo-terminal of this size."""

    def __init__(self, test, words, rows=30, columns=100, environment=()):
        self.main, child = pty.openpty()
        self.resize(rows, columns)
        self.output = b""
        self.process = subprocess.Popen(
            [str(word) for word in words], stdin=child, stdout=child, stderr=child,
            env={**test.environment, "TERM": "xterm", **dict(environment)}, cwd=test.directory,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # its controlling terminal
        os.close(child)
        test.addCleanup(self.close)

    def resize(self, rows, columns):
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, keys):
        os.write(self.main, keys)

    def read(self):
        """Takes what is there now. Returns False at the end."""
        while select.select([self.main], [], [], 0)[0]:
            try:
                part = os.read(self.main, 65536)
            except OSError:
                return False
            if not part:
                return False
            self.output += part
        return True

    def wait_for(self, text, begin=0):
        def probe():
            self.read()
            return text in self.output[begin:]
        harness.wait_until(f"{text} on the terminal", probe, state=lambda: repr(self.output[-2000:]))

    def end(self):
        """The exit code of the program."""
        harness.wait_until("the end", lambda: not self.read() or self.process.poll() is not None)
        self.read()
        return self.process.wait(harness.DEADLINE_S)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.main)


class OneHead(harness.EndToEndTest):
    def head(self, *options, count=2):
        return self.start_daemon(devices=f"{self.fast_class()}:{count}", options=options)

    def submit(self, head, name="job.toml", **changes):
        return head.submit(self.write_job(job_text(self.word, changes={**LONG, **changes}), name))

    def training(self, head):
        """A job that keeps both devices, whatever their speeds are."""
        job = self.submit(head, **{"resources.min_devices": 2})
        head.wait_for(job, "speeds", lambda d: d["state"] == "running" and d["samples_per_s"] and all(
            worker["local_step_seconds"] for worker in d["workers"]))
        return job


class Explain(OneHead):
    def test_a_job_is_told_why_it_waits_and_why_it_is_slow(self):
        head = self.head("--policy", "fifo-gang")
        holder = self.training(head)
        self.assertIn(f"Job {holder} trains on {self.fast_class()}:2", head.esctl("explain", holder).out)
        kinds = [reason["kind"] for reason in head.json("explain", holder)["reasons"]]
        self.assertIn("threads", kinds)
        waiting = self.submit(head, "waits.toml")
        head.wait_for_state(waiting, "queued")
        text = head.esctl("explain", waiting).out
        self.assertRegex(text, rf"hold some of the 2 devices of type \S+: {holder} \(2\)")
        last = self.submit(head, "last.toml")
        head.wait_for_state(last, "queued")
        queue = [r for r in head.json("explain", last)["reasons"] if r["kind"] == "queue"]
        self.assertIn("1 other job waits too, 1 of them submitted earlier", queue[0]["text"])
        head.esctl("scale", last, f"{self.fast_class()}:9", code=harness.EXIT_REFUSED)
        head.esctl("pause", holder)
        paused = head.json("explain", holder)
        self.assertEqual([reason["kind"] for reason in paused["reasons"]], ["paused"])
        self.assertIn("esctl resume", paused["reasons"][0]["advice"])
        for job in (holder, waiting, last):
            head.esctl("cancel", job)
        self.assertIn("was cancelled", head.esctl("explain", holder).out)
        head.esctl("explain", "none-1", code=EXIT_NOT_FOUND)
        head.stop()

    def test_a_stage_and_a_demand_are_named(self):
        head = self.head()
        device = self.fast_class()
        job = head.submit(self.write_job(job_text(self.word, changes=LONG)), "--stages",
                          f"{device}:1@10,{device}:2@1000000")
        head.wait_for_step(job, 10)
        head.esctl("claim", "--type", device, "--count", "1", "--name", "web")
        staged = head.submit(self.write_job(job_text(self.word, changes=LONG), "second.toml"),
                             "--stages", f"{device}:2@1000000")
        head.wait_for(staged, "what it waits for", lambda d: d["waiting_for"])
        stage = [r for r in head.json("explain", staged)["reasons"] if r["kind"] == "stage"]
        self.assertEqual(stage[0]["text"], f"Stage 1 of 1 of its job file needs exactly {device}:2.")
        head.esctl("cancel", job)
        head.esctl("cancel", staged)
        pinned = self.submit(head, "third.toml")
        head.wait_for_state(pinned, "running")
        scaling = self.start_esctl("scale", pinned, f"{device}:2", "--head", head.endpoint)
        head.wait_for(pinned, "what it waits for", lambda d: d["waiting_for"])
        self.assertIn("A user has chosen its devices", head.esctl("explain", pinned).out)
        head.esctl("release", "web")
        self.assertEqual(scaling.wait().code, 0)
        head.esctl("cancel", pinned)
        head.stop()

    def test_claims_and_quotas_are_named(self):
        head = self.head("--quota", f"vision={self.fast_class()}:1")
        head.esctl("claim", "--type", self.fast_class(), "--count", "2", "--name", "web")
        job = self.submit(head, **{"resources.tenant": "vision"})
        text = head.esctl("explain", job).out
        self.assertIn("Claims hold some of the 2 devices", text)
        self.assertIn("web (2)", text)
        self.assertIn(f"tenant vision, which owns {self.fast_class()}:1.", text)
        head.esctl("cancel", job)
        head.stop()


class Doctor(OneHead):
    def test_a_good_machine_and_a_head(self):
        head = self.head()
        ended = head.esctl("doctor", "--state", self.directory / "head/state", "--json")
        self.assertEqual(ended.json["wrong"], 0)
        areas = {finding["area"] for finding in ended.json["findings"]}
        self.assertLessEqual({"cpu", "memory", "limits", "shared-memory", "gpu", "programs",
                              "directory", "head", "clock"}, areas)
        said = " ".join(finding["text"] for finding in ended.json["findings"])
        self.assertIn("The clock of the head agrees with that of this machine.", said)
        head.stop()

    def test_what_is_wrong_decides_the_exit_code(self):
        keys = self.directory / "keys"
        self.esctl("keygen", keys)
        good = self.esctl("doctor", "--keys", keys, "--listen", "tcp://127.0.0.1:*", "--directory",
                          self.directory)
        self.assertIn("0 wrong", good.out)
        (keys / "client.key").chmod(0o644)
        for words, mend in ((["--keys", keys], f"chmod go= {keys}/client.key"),
                            (["--directory", self.directory / "none"], "mkdir -p"),
                            (["--listen", "tcp://192.0.2.1:7070"], "ss -ltnp"),
                            (["--head", f"ipc://{self.directory}/none.sock"], "OPERATIONS")):
            with self.subTest(words=words):
                bad = self.esctl("doctor", *words, code=EXIT_FAILURE)
                self.assertIn(mend, bad.out)
                self.assertIn("1 wrong", bad.out)
        self.assertEqual(sorted(p.name for p in self.directory.iterdir()), ["keys", "tmp"])

    def test_a_port_in_use_and_few_files_are_found(self):
        import socket
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            bad = self.esctl("doctor", "--listen", f"tcp://127.0.0.1:{port}", code=EXIT_FAILURE)
        self.assertIn("Address already in use", bad.out)
        few = self.start("bash", "-c", f"ulimit -n 256; exec {harness.esctl_program} doctor").wait()
        self.assertEqual(few.code, EXIT_FAILURE)
        self.assertIn("A process may open 256 files.", few.out)
        self.assertIn("LimitNOFILE", few.out)


class Live(OneHead):
    def test_top_follows_a_job_a_resize_and_a_restart_of_the_head_and_q_ends_it(self):
        head = self.head()
        job = self.training(head)
        top = Terminal(self, [harness.esctl_program, "top", "--interval", "0.1", "--head", head.endpoint])
        top.wait_for(job.encode())
        self.assertIn(b"\x1b[?1049h", top.output)  # the alternate screen
        self.assertIn(b"\x1b[32mrunning\x1b[0m", top.output)
        begin = len(top.output)
        top.resize(10, 30)
        top.process.send_signal(signal.SIGWINCH)
        top.wait_for(b"\x1b[H", begin)
        drawn = re.split(rb"\x1b\[H", top.output)[-2]
        lines = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", drawn).split(b"\r\n")
        self.assertLessEqual(len(lines), 11)
        head.esctl("pause", job)
        top.resize(30, 100)
        top.wait_for(b"paused", begin)
        head.stop()
        top.wait_for(b"warning: ", begin)
        begin = len(top.output)
        again = harness.Daemon(self, self.start(*head.running.words))
        top.wait_for(b"alive", begin)
        top.send(b"q")
        self.assertEqual(top.end(), 0)
        self.assertTrue(top.output.rstrip().endswith(b"\x1b[?25h\x1b[?1049l"))
        again.esctl("cancel", job)
        again.stop()

    def test_signals_end_it_and_the_terminal_is_restored(self):
        head = self.head()
        for number in (signal.SIGINT, signal.SIGTERM):
            top = Terminal(self, [harness.esctl_program, "top", "--head", head.endpoint])
            top.wait_for(b"alive")
            top.process.send_signal(number)
            self.assertEqual(top.end(), 128 + number)
            self.assertTrue(top.output.rstrip().endswith(b"\x1b[?1049l"))
        head.stop()

    def test_without_a_terminal_it_is_one_snapshot(self):
        head = self.head()
        job = self.training(head)
        text = head.esctl("top").out
        self.assertNotIn("\x1b", text)
        self.assertIn("devices in use 2/2", text)
        self.assertIn(job, text)
        of_job = head.esctl("top", job).out
        self.assertRegex(of_job, r"progress +\[")
        self.assertIn("head/" + self.fast_class(), of_job)
        self.assertIn(job, head.esctl("ps", "--watch").out)
        head.esctl("ps", "--watch", "--json", code=EXIT_USAGE)
        head.esctl("cancel", job)
        head.stop()
        head.esctl("top", code=EXIT_NOT_FOUND)

    def test_ps_has_colours_on_a_terminal_unless_no_color_is_set(self):
        head = self.head()
        job = self.training(head)
        for environment, coloured in (((), True), ((("NO_COLOR", "1"),), False),
                                      ((("TERM", "dumb"),), False)):
            with self.subTest(environment=environment):
                ps = Terminal(self, [harness.esctl_program, "ps", "--head", head.endpoint],
                              environment=environment)
                self.assertEqual(ps.end(), 0)
                self.assertIn(job.encode(), ps.output)
                self.assertEqual(b"\x1b[32mrunning" in ps.output, coloured, ps.output)
        watch = Terminal(self, [harness.esctl_program, "ps", "--watch", "--head", head.endpoint])
        watch.wait_for(job.encode())
        head.esctl("pause", job)
        watch.wait_for(b"paused")
        watch.send(b"q")
        self.assertEqual(watch.end(), 0)
        head.esctl("cancel", job)
        head.stop()


    def test_no_line_is_longer_than_a_terminal_of_80_columns(self):
        """So the terminal breaks none, which it does inside of words."""
        head = self.head()
        job = self.training(head)
        for command in (["ps"], ["ps", "--wide"], ["describe", job], ["nodes"], ["plans", job],
                        ["profile", job, "--steps", "2"]):
            with self.subTest(command=command):
                shown = Terminal(self, [harness.esctl_program, *command, "--head", head.endpoint],
                                 columns=80, environment=(("NO_COLOR", "1"),))
                self.assertEqual(shown.end(), 0)
                lines = shown.output.decode().splitlines()
                self.assertGreater(len(lines), 1)
                self.assertEqual([line for line in lines if len(line) > 80], [])
        head.esctl("cancel", job)
        head.stop()


class Completion(OneHead):
    """The scripts in the real shells."""

    def script(self, shell):
        path = self.directory / f"esctl.{shell}"
        path.write_text(self.esctl("completion", shell).out)
        return path

    def shell(self, program, text):
        if shutil.which(program) is None:
            self.skipTest(f"{program} is not installed")
        environment = {**self.environment, "PATH": f"{harness.esctl_program.parent}:{os.environ['PATH']}"}
        ended = subprocess.run([program, "-c", text], env=environment, cwd=self.directory, text=True,
                               stdin=subprocess.DEVNULL, capture_output=True,
                               timeout=harness.DEADLINE_S)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout.split("\n")[:-1]

    def bash(self, *words):
        """What bash offers for the last word."""
        quoted = " ".join("'" + str(word) + "'" for word in ("esctl", *words))
        return self.shell("bash", f"source {self.script('bash')}; COMP_WORDS=({quoted}); "
                          f"COMP_CWORD={len(words)}; _esctl; printf '%s\\n' \"${{COMPREPLY[@]}}\"")

    def fish(self, *words):
        line = " ".join(("esctl", *(str(word) for word in words)))
        lines = self.shell("fish", f"source {self.script('fish')}; complete -C '{line}'")
        return [line.split("\t")[0] for line in lines]

    def test_bash(self):
        self.assertEqual(self.bash("desc"), ["describe"])
        self.assertIn("--wide", self.bash("ps", "--w"))
        self.assertEqual(self.bash("logs", "--level", "w"), ["warning"])
        self.assertEqual(self.bash("token", "r"), ["revoke"])
        (self.directory / "a job.toml").write_text("")
        self.assertEqual(self.bash("submit", "a"), ["a job.toml"])
        (self.directory / "keys").mkdir()
        self.assertEqual(self.bash("ps", "--keys", "ke"), ["keys"])

    def test_fish(self):
        self.assertEqual(self.fish("desc"), ["describe"])
        self.assertEqual(self.fish("logs", "--level", "w"), ["warning"])
        (self.directory / "job.toml").write_text("")
        self.assertIn("job.toml", self.fish("submit", "jo"))

    def test_zsh(self):
        # The functions that show candidates need a terminal, so they are replaced by ones that print.
        lines = self.shell("zsh", "_describe() { printf '%s\\n' \"${(@P)3}\" }; _files() { print files \"$@\" }; "
                           "compdef() { }; "
                           f"source {self.script('zsh')}; words=(esctl logs --level w); CURRENT=4; "
                           "_esctl; words=(esctl ps --keys ''); CURRENT=4; _esctl; "
                           "words=(esctl desc); CURRENT=2; _esctl")
        self.assertEqual(lines[0], "warning:")
        self.assertEqual(lines[1], "files -/")
        self.assertRegex(lines[2], r"^describe:Show a job")

    def test_the_tabulator_in_interactive_shells(self):
        starts = {"bash": ["bash", "--norc", "-i"], "zsh": ["zsh", "-f", "-i"],
                  "fish": ["fish", "--no-config", "-i"]}
        before = {"bash": "", "zsh": "autoload -U compinit; compinit -D -u; ", "fish": ""}
        own = self.directory / "shell"  # fish leaves a directory there
        own.mkdir()
        environment = {"PATH": f"{harness.esctl_program.parent}:{os.environ['PATH']}",
                       "TMPDIR": str(own)}.items()
        for shell, words in starts.items():
            with self.subTest(shell=shell):
                if shutil.which(shell) is None:
                    print(f"skipped: {shell} is not installed (scripts/setup_web)", flush=True)
                    continue
                terminal = Terminal(self, words, environment=environment)
                # The word that says that the shell is ready is not in what is typed.
                terminal.send(f"{before[shell]}source {self.script(shell)}; echo re\"\"ady\r".encode())
                terminal.wait_for(b"ready")
                terminal.send(b"esctl compl\tba\t\r")
                terminal.wait_for(b"# bash completion of esctl")
                terminal.send(b"exit\r")
                terminal.end()

    def test_names_come_from_the_head(self):
        head = self.head()
        job = self.submit(head)
        self.environment["ES_HEAD"] = head.endpoint
        self.assertEqual(self.bash("describe", job[:-3]), [job])
        del self.environment["ES_HEAD"]
        self.assertEqual(self.bash("describe", "--head", head.endpoint, ""), [job])
        self.assertEqual(self.fish("describe", "--head", head.endpoint, job[:3]), [job])
        head.esctl("cancel", job)
        head.stop()
        # Without a head there are no names, and no error is in the way.
        self.assertEqual(self.bash("describe", "--head", head.endpoint, job[:-3]), [""])

    def test_another_shell_is_refused(self):
        self.assertIn("bash, zsh and fish", self.esctl("completion", "tcsh", code=EXIT_USAGE).err)


class Manual(harness.EndToEndTest):
    def test_every_command_has_a_page_that_troff_takes(self):
        self.esctl("man", "--directory", self.directory / "man1")
        pages = {path.name for path in (self.directory / "man1").iterdir()}
        listed = re.findall(r"^  ([a-z][a-z-]*)  ", self.esctl("--help").out, re.MULTILINE)
        self.assertEqual(pages, {"esctl.1"} | {f"esctl-{name}.1" for name in listed})
        self.assertNotIn("esctl-complete.1", pages)
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        for page in sorted(pages):
            ended = subprocess.run(["groff", "-man", "-Tutf8", "-ww", self.directory / "man1" / page],
                                   capture_output=True, text=True, timeout=harness.DEADLINE_S)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""), page)
        text = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", self.directory / "man1/esctl-logs.1"],
                              capture_output=True, text=True, timeout=harness.DEADLINE_S).stdout
        self.assertIn("--since DURATION|TIME", text)
        self.assertIn("esctl logs -f resnet18-1", text)

    def test_a_page_is_printed_and_an_unknown_command_refused(self):
        title, section = self.esctl("man", "ps").out.splitlines()[:2]
        self.assertRegex(title, r'^\.TH ESCTL-PS 1 "" "esctl .*" "EasyScale"$')
        self.assertEqual(section, ".SH NAME")
        self.esctl("man", "nothing", code=EXIT_NOT_FOUND)
        self.esctl("man", "complete", code=EXIT_NOT_FOUND)


if __name__ == "__main__":
    harness.main()
