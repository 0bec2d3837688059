#!/usr/bin/env python3
"""Every command with every kind of wrong path: one clear error, the right exit status, and no
partial result."""
import json
import os
import re
import shutil
import subprocess

import harness
from jobs import job_text
from tokenizer_files import byte_level_tokenizer

NOBODY = 65534
# The arguments of a command. None stands for the path. `made`: a missing path is created. Commands
# that use a head get a head that does not exist, because they check the path before they connect.
READS = {
    "run": [["run", None], ["run", "JOB", "--from", None]],
    "submit": [["submit", None, "HEAD"], ["submit", "JOB", "--from", None, "HEAD"]],
    "inspect": [["inspect", None, "HEAD"]],
    "models": [["models", "show", None], ["models", "pack", None, "-o", "new.esmodel"],
               ["models", "write", None, "-o", "new.esmodel"]],
    "verify": [["verify", None]],
    "trace-step": [["trace-step", None, "--step", "1", "--device", "cpu-scalar"],
                   ["trace-step", "JOB", "--step", "2", "--device", "cpu-scalar", "--from", None]],
    "export": [["export", None, "new.safetensors"]],
    "eval": [["eval", None]],
    "predict": [["predict", None, "in.npz", "--out", "new.npz"]],
    "generate": [["generate", None, "--prompt", "a", "--tokenizer", "TOKENIZER"],
                 ["generate", "kept", "--prompt", "a", "--tokenizer", None]],
    "checkpoint": [["checkpoint", "ls", None], ["checkpoint", "verify", None],
                   ["checkpoint", "prune", None, "--keep", "1"]],
    "diff": [["diff", None, "LEDGER", "HEAD"], ["diff", "LEDGER", None, "HEAD"]],
    "ledger": [["ledger", None, "HEAD"]],
    "curve": [["curve", None, "HEAD"]],
    "data": [["data", "tokenize", None, "--tokenizer", "TOKENIZER", "--out", "new"],
             ["data", "tokenize", "TEXT", "--tokenizer", None, "--out", "new"],
             ["data", "inspect", None], ["data", "inspect", "TOKENS", "--tokenizer", None],
             ["data", "remove", None]],
    "keys": [["keys", "ls", "--keys", None], ["keys", "revoke", "n", "--keys", None]],
    "token": [["token", "ls", "--file", None], ["token", "revoke", "n", "--file", None],
              ["token", "ls", "--state", None]],
    "slurm": [["slurm", "down", "--dir", None]],
    "sim": [["sim", "--trace", None, "--cluster", "v100=1"],
            ["sim", "--trace", "TRACE", "--cluster", "v100=1", "--claims", None],
            ["sim", "--trace", "TRACE", "--cluster", "v100=1", "--steptimes", None],
            ["sim", "--trace", "TRACE", "--cluster", "v100=1", "--queues", None],
            ["sim", "compare", "--trace", None, "--cluster", "v100=1"]],
}
MAKES = {
    "run": [["run", "JOB", "--keep", None, "--quiet"]],
    "ledger": [["ledger", "LEDGER", "--out", None]],
    "curve": [["curve", "LEDGER", "--csv", None], ["curve", "LEDGER", "--svg", None]],
    "keygen": [["keygen", None]],
    "token": [["token", "add", "n", "--role", "view", "--file", None]],
    "data": [["data", "tokenize", "TEXT", "--tokenizer", "TOKENIZER", "--out", None]],
    "sim": [["sim", "--trace", "TRACE", "--cluster", "v100=1", "--out", None]],
    "man": [["man", "--directory", None]],
}
# Paths that are no error there: they are created, or the command says that there is none.
MADE = {"run": ["missing", "a folder", "no path"], "sim": ["missing", "a folder", "no path"],
        "ledger": ["no path"], "curve": ["no path"], "keygen": ["a folder"], "data": [],
        "token": ["empty"], "man": ["missing", "a folder", "no path"]}
# Every command accepts a path for the head and one for keys.
ASKS = {
    "ps": ["ps"], "describe": ["describe", "j"], "plans": ["plans", "j"],
    "scale": ["scale", "j", "auto"], "budget": ["budget", "j", "1"],
    "pause": ["pause", "j"], "resume": ["resume", "j"],
    "checkpoint": ["checkpoint", "j"], "cancel": ["cancel", "j"], "rm": ["rm", "j"],
    "logs": ["logs", "j"],
    "nodes": ["nodes"], "claim": ["claim", "--type", "cpu-avx2", "--count", "1", "--name", "c"],
    "claims": ["claims"], "queues": ["queues"], "release": ["release", "c"],
    "reserve": ["reserve", "--name", "c", "--type", "t", "--count", "1", "--for", "1h"],
    "drain": ["drain", "n"], "submit": ["submit", "JOB"],
    "inspect": ["inspect", "j"], "ledger": ["ledger", "j"], "curve": ["curve", "j"],
    "explain": ["explain", "j"], "top": ["top"], "profile": ["profile", "j"],
    "trace": ["trace", "j", "--steps", "1"],
    "diff": ["diff", "j", "j"],
}
TAKES_NO_PATH = {"fields", "formats", "completion", "kubernetes"}
# It finds what is wrong with a path, and says so in its result.
EXAMINES = {"doctor": [["doctor", "--directory", None], ["doctor", "--state", None],
                       ["doctor", "--keys", None], ["doctor", "--listen", None]]}
PATHLIKE_VARIABLES = ["HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "TMPDIR", "ES_KEYS", "ES_HEAD",
                      "EASYSCALED"]


def exists(path):
    try:
        return path.exists()
    except OSError:  # The path is too long, or a loop of links.
        return False


class BadPaths(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        here = self.directory / "here"
        here.mkdir()
        (here / "file").write_text("no such thing\n")
        (here / "folder").mkdir()
        (here / "loop").symlink_to(here / "loop")
        (here / "empty").write_text("")
        (here / "binary").write_bytes(bytes(range(256)))
        self.here = here
        self.bad = {"missing": here / "none" / "there", "below a file": here / "file" / "x",
                    "a file": here / "file", "a folder": here / "folder", "a loop": here / "loop",
                    "below a loop": here / "loop" / "x", "a name too long": here / ("n" * 300),
                    "a path too long": here / "/".join(["d" * 200] * 25), "empty": here / "empty",
                    "binary": here / "binary", "no path": ""}
        self.job = self.write_job(job_text(self.word, changes={"steps": 1, "eval_every": None}))
        trace = self.directory / "trace.csv"
        trace.write_text("job_id,submit_s,model,max_p,batch_size,samples_total,d2,gpu_type\n"
                         "a,0,m,1,1,10,0,v100\n")
        self.words = {"JOB": self.job, "TRACE": trace, "LEDGER": self.directory / "ledger",
                      "TEXT": self.directory / "text", "TOKENS": self.directory / "tokens.bin",
                      "TOKENIZER": self.directory / "tokenizer.json"}
        self.words["TEXT"].write_text("a text\n")
        self.words["TOKENS"].write_bytes(bytes(range(64)))
        self.words["TOKENIZER"].write_text(json.dumps(byte_level_tokenizer()))
        self.words["LEDGER"].write_text("no ledger\n")

    def state(self):
        """All entries in the directory of this test."""
        return sorted((str(p), p.lstat().st_mode, p.lstat().st_size)
                      for p in self.directory.rglob("*"))

    def command(self, template, path=None):
        words = []
        for word in template:
            if word == "HEAD":
                words += ["--head", f"ipc://{self.directory}/s"]
            else:
                words.append(path if word is None else self.words.get(word, word))
        return words

    def assert_one_error(self, words, environment=None, program=None, prefix=(), may_succeed=False):
        before = self.state()
        ended = subprocess.run([str(w) for w in [*prefix, program or harness.esctl_program, *words]],
                               env=environment or self.environment, cwd=self.directory, text=True,
                               stdin=subprocess.DEVNULL, capture_output=True,
                               timeout=harness.DEADLINE_S)
        shown = f"{words}\nexit status {ended.returncode}\n{ended.stdout}{ended.stderr}"
        self.assertNotIn("terminate called", ended.stderr, shown)
        self.assertNotIn("check failed", ended.stderr, shown)
        if may_succeed and ended.returncode == 0:
            return ended
        self.assertIn(ended.returncode, (1, 2, 3, 4), shown)
        lines = [line for line in ended.stderr.splitlines()
                 if line and "--help for more information" not in line]
        self.assertEqual(len(lines), 1, shown)
        self.assertNotIn("filesystem error", ended.stderr, shown)
        self.assertEqual(self.state(), before, shown)
        return ended

    def test_every_command_is_tried(self):
        listed = re.findall(r"^  ([a-z][a-z-]*)  ", self.esctl("--help").out, re.MULTILINE)
        self.assertGreater(len(listed), 20)
        self.assertEqual(sorted({*READS, *MAKES, *ASKS, *TAKES_NO_PATH, *EXAMINES}), sorted(set(listed)))

    def test_paths_to_read(self):
        for templates in READS.values():
            for template in templates:
                for what, path in self.bad.items():
                    if what == "no path" and template[-2:-1] == ["--from"]:
                        continue  # It says that there is none.
                    if what == "a file" and template[1:3] == ["tokenize", None]:
                        continue  # It is a text.
                    with self.subTest(command=template, path=what):
                        # A list of checkpoints, or a directory without any, is no error.
                        lists = template[0] == "checkpoint" and what == "a folder"
                        optional = what == "no path" and template[0] == "sim"
                        no_tokens = what == "empty" and template[:2] == ["token", "ls"]
                        self.assert_one_error(self.command(template, path),
                                              may_succeed=lists or optional or no_tokens)

    def test_paths_to_make(self):
        self.words["LEDGER"].unlink()
        self.make_ledgers({self.job: self.words["LEDGER"]})  # A good path in place of the wrong one.
        for command, templates in MAKES.items():
            for template in templates:
                for what, path in self.bad.items():
                    if what in MADE[command]:
                        continue
                    with self.subTest(command=template, path=what):
                        self.assert_one_error(self.command(template, path))

    def test_paths_to_examine(self):
        for template in EXAMINES["doctor"]:
            for what, path in self.bad.items():
                with self.subTest(command=template, path=what):
                    before = self.state()
                    ended = self.start_esctl(*self.command(template, path)).wait()
                    self.assertIn(ended.code, (0, 1), str(ended))
                    self.assertEqual(ended.err, "")
                    self.assertRegex(ended.out, r"findings: \d+ wrong")
                    self.assertEqual(self.state(), before)

    def make_ledgers(self, files):
        """`files`: job file -> the new file for its ledger."""
        daemon = self.start_daemon(devices=self.fast_class() + ":1")
        for file, ledger in files.items():
            job = daemon.submit(file)
            daemon.wait_for_state(job, "finished")
            daemon.esctl("ledger", job, "--out", ledger)
        daemon.stop()

    def test_heads_and_keys(self):
        for template in ASKS.values():
            for what, path in self.bad.items():
                words = self.command(template)
                with self.subTest(command=template, path=what):
                    # It takes a while to find that no head answers.
                    if template == ["ps"] or not path or not exists(path):
                        self.assert_one_error([*words, "--head", f"ipc://{path}"])
                    if what == "no path":
                        continue
                    keys = ["--head", "tcp://127.0.0.1:1", "--keys", path]
                    self.assert_one_error([*words, *keys])
                    self.assert_one_error([*words, "--head", "tcp://127.0.0.1:1"],
                                          {**self.environment, "ES_KEYS": str(path)})

    def test_the_environment(self):
        for variable in PATHLIKE_VARIABLES:
            for what, path in self.bad.items():
                environment = {**self.environment, variable: str(path)}
                with self.subTest(variable=variable, path=what):
                    self.assert_one_error(["ps"], environment)
                    if variable in ("HOME", "TMPDIR", "EASYSCALED"):
                        run = ["run", self.job, "--quiet", "--json"]
                        self.assert_one_error(run, environment, may_succeed=True)

    def test_a_comparison_without_a_temporary_directory(self):
        """It writes nothing elsewhere, for example into the working directory."""
        other = self.write_job(job_text(self.word, changes={"steps": 1, "seed": 77}), "other.toml")
        ledgers = [self.directory / "a.ledger", self.directory / "b.ledger"]
        self.make_ledgers(dict(zip((self.job, other), ledgers)))
        words = ["diff", *ledgers, "--deep"]
        for path in (self.here / "none", self.here / "file", "/proc"):
            with self.subTest(path=path):
                ended = self.assert_one_error(words, {**self.environment, "TMPDIR": str(path)})
                self.assertIn(f"esctl: temporary directory {path}/", ended.stderr)

    def test_paths_of_a_daemon(self):
        good = ["--head", "--listen", f"ipc://{self.directory}/d/s", "--state",
                self.directory / "d/state"]
        for what, path in self.bad.items():
            options = [["--config", path], ["--keys", path, *good[:1], "--listen",
                                            "tcp://127.0.0.1:*", *good[3:]]]
            if what not in ("missing", "a folder", "no path"):
                options += [["--head", "--state", path, *good[1:3]],
                            [*good, "--run-dir", path],
                            ["--head", "--listen", f"ipc://{path}/s", *good[3:]]]
            for words in options:
                if what == "no path" and words[0] == "--keys":
                    continue
                with self.subTest(options=words, path=what):
                    shutil.rmtree(self.directory / "d", ignore_errors=True)
                    self.assert_one_daemon_error(words)

    def assert_one_daemon_error(self, words):
        """A daemon may have created its state directory before it finds the error."""
        ended = subprocess.run([str(w) for w in [harness.easyscaled_program, *words]],
                               env=self.environment, cwd=self.directory, text=True,
                               stdin=subprocess.DEVNULL, capture_output=True,
                               timeout=harness.DEADLINE_S)
        shown = f"exit status {ended.returncode}\n{ended.stdout}{ended.stderr}"
        self.assertIn(ended.returncode, (1, 2, 3, 4), shown)
        lines = [line for line in ended.stderr.splitlines()
                 if line and "--help for more information" not in line]
        self.assertEqual(len(lines), 1, shown)
        self.assertNotIn("filesystem error", ended.stderr, shown)

    def test_a_directory_that_is_gone(self):
        gone = self.directory / "gone"
        for words in (["run", "job.toml"], ["run", self.job], ["checkpoint", "ls", "."],
                      ["keygen", "keys"], ["ps"]):
            script = 'mkdir "$1" && cd "$1" && rmdir "$1" && shift && exec "$@"'
            ended = subprocess.run(["sh", "-c", script, "sh", gone, harness.esctl_program, *words],
                                   env=self.environment, text=True, capture_output=True,
                                   timeout=harness.DEADLINE_S)
            self.assertIn(ended.returncode, (0, 1, 2, 3, 4), f"{words}: {ended.stderr}")
            self.assertNotIn("terminate called", ended.stderr)

    def test_what_this_user_may_not_enter(self):
        closed = self.directory / "closed"
        (closed / "inner").mkdir(parents=True)
        prefix = []
        if os.geteuid() == 0:
            prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            for directory in (self.directory, self.here):
                directory.chmod(0o755)
            tried = shutil.which("setpriv") and subprocess.run(
                [*prefix, harness.esctl_program, "--version"], capture_output=True)
            if not tried or tried.returncode != 0:
                self.skipTest("no other user may run the programs here")
        closed.chmod(0)
        self.addCleanup(closed.chmod, 0o700)
        inner = closed / "inner"
        for templates in [*READS.values(), *MAKES.values()]:
            for template in templates:
                for path in (closed, inner):
                    with self.subTest(command=template, path=path.name):
                        if template[0] == "keygen" and path == closed:
                            continue  # The directory exists, and its files cannot be created.
                        self.assert_one_error(self.command(template, path), prefix=prefix)
        for variable in PATHLIKE_VARIABLES:
            environment = {**self.environment, variable: str(inner)}
            with self.subTest(variable=variable):
                self.assert_one_error(["ps", "--insecure-loopback"], environment, prefix=prefix)
        self.assert_one_error(["ps", "--head", "tcp://127.0.0.1:1"],
                              {**self.environment, "ES_KEYS": str(inner)}, prefix=prefix)


if __name__ == "__main__":
    harness.main()
