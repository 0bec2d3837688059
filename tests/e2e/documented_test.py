#!/usr/bin/env python3
"""The daemons of the documentation start as the pages show, and do what the pages promise.

The examples are read from the pages and run as they stand. What belongs to a machine is mapped: the
absolute directories lie below a directory of the test, every host is the loopback address with a
port of its own, and a kernel class that this machine lacks is another one."""
import re
import shlex
import signal

import harness
from harness import digests, wait_until
from jobs import ANY_LENGTH, job_text

PAGES = ["README.md", "configs/README.md", "docs/**/*.md"]
# Blocks with a daemon's configuration, by their page and first line, and the test below that runs
# them. A new one has to be added here and to a test.
CONFIGURATIONS = {
    ("docs/OPERATIONS.md", 'join = "tcp://10.0.0.1:7070"'),                        # Operations
    ("docs/OPERATIONS.md", 'listen = "tcp://10.0.0.1:7070"'),                      # Operations
    ("docs/tutorials/several_machines.md", 'head = true join = "tcp://10.9.0.1:7070"'),  # Tutorial
}
IS_CONFIGURATION = re.compile(r"^(join = |head = true|listen = )", re.MULTILINE)
IS_DAEMON = re.compile(r"^(?:\w+=\S+ )*easyscaled ")
# Lines of such blocks that prepare the start of a daemon.
PREPARES = re.compile(r"^(esctl (keygen|token)|mkdir|chmod|echo|printf|cp) ")
DIRECTORIES = re.compile(r"(?<![\w/.$])/(?=(?:srv|run|etc|var|usr/local/etc)/)")
HOST = re.compile(r"\b10\.\d+\.\d+\.\d+\b")


def blocks_of(text):
    """The indented blocks of code of a page, as texts without the indentation."""
    blocks, lines = [], []
    for line in [*text.splitlines(), "end"]:
        if line.startswith("    ") or (lines and not line.strip()):
            lines.append(line[4:])
        elif lines:
            blocks.append("\n".join(lines).rstrip())
            lines = []
    return blocks


def pages():
    for pattern in PAGES:
        for path in sorted(harness.source_root.glob(pattern)):
            yield str(path.relative_to(harness.source_root)), path.read_text()


def commands_of(block):
    """The lines of a block with commands, without comments and with continued lines joined."""
    lines = [re.sub(r"\s+# .*$", "", line)
             for line in re.sub(r" \\\n\s*", " ", block).splitlines()]
    return [line.strip() for line in lines if line.strip()]


class Documented(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.head_port, self.http_port = harness.free_port(), harness.free_port()
        self.environment["PATH"] = ":".join(
            [str(harness.esctl_program.parent), str(harness.easyscaled_program.parent),
             self.environment["PATH"]])

    def mapped(self, text):
        """An example with the directories, endpoints and devices of this test."""
        text = text.replace("ipc:///", f"ipc://{self.directory}/")
        text = DIRECTORIES.sub(f"{self.directory}/", HOST.sub("127.0.0.1", text))
        text = text.replace(":7070", f":{self.head_port}").replace(":8080", f":{self.http_port}")
        return text if "cpu-avx512" in self.classes() else text.replace("cpu-avx512", "cpu-avx2")

    def block(self, page, begin):
        """The block of a page that begins with this text."""
        found = [b for b in blocks_of((harness.source_root / page).read_text())
                 if b.startswith(begin)]
        self.assertEqual(len(found), 1, f"{page}: blocks that begin with {begin!r}")
        return found[0]

    def run_line(self, line, where):
        ended = self.start("sh", "-c", f"umask 077 && cd {shlex.quote(str(where))} && {line}").wait()
        self.assertEqual(ended.code, 0, f"{line}\n{ended}")
        return ended.out

    def make(self, *names):
        for name in names:
            (self.directory / name).mkdir(parents=True, mode=0o700, exist_ok=True)

    def write_config(self, name, text):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.mapped(text))
        return path

    def start_ready(self, *words):
        running = self.start(*words)
        running.wait_for_line("^ready ", stream="out")
        return running


class Commands(Documented):
    def start_line(self, line, where):
        """Starts the daemon of a line. Three dots stand for what every daemon needs."""
        line = self.mapped(re.sub(r"\s*&$", "", line))
        if line.endswith("..."):
            line = line[:-3]
            if "--join" in line:
                line += f"--keys {self.directory}/machine --node other --run-dir run"
        if "--config FILE" in line:  # of a head that has run before
            config = self.shipped_config()
            self.start_ready(harness.easyscaled_program, "--config", config).stop(signal.SIGTERM)
            line = line.replace("--config FILE", f"--config {config}")
        for place in re.findall(r"ipc://\$PWD/(\S+)/", line):
            (where / place).mkdir(parents=True, mode=0o700)
        return self.start("sh", "-c", f"umask 077 && cd {shlex.quote(str(where))} && exec env {line}")

    def shipped_config(self):
        self.make("run/easyscale", "var/lib/easyscale")
        return self.write_config("easyscaled.toml",
                                 (harness.source_root / "configs/easyscaled.toml").read_text())

    def head_for_nodes(self):
        """A head at the endpoint of the examples, for a command line of a node."""
        keys = self.directory / "machine"
        if not keys.exists():
            self.esctl("keygen", keys)
        return self.start_ready(harness.easyscaled_program, "--head", "--listen",
                                f"tcp://127.0.0.1:{self.head_port}", "--keys", keys, "--state",
                                self.directory / "head-for-nodes", "--node", "head", "--devices",
                                "none")

    def test_every_command_line_of_a_daemon_starts_one(self):
        started = 0
        for page, text in pages():
            for number, block in enumerate(blocks_of(text)):
                lines = commands_of(block)
                if not any(IS_DAEMON.match(line) and "--config " not in line.replace(
                        "--config FILE", "") for line in lines):
                    continue
                where = self.directory / f"{page}-{number}".replace("/", "-")
                where.mkdir(mode=0o700)
                self.environment["HOME"] = str(where)
                with self.subTest(page=page, block=block):
                    started += self.run_block(lines, where)
        self.assertGreater(started, 8)

    def run_block(self, lines, where):
        started = 0
        for line in lines:
            if PREPARES.match(line):
                self.run_line(self.mapped(line), where)
            elif IS_DAEMON.match(line):
                head = self.head_for_nodes() if "--join" in line else None
                started += self.starts(self.start_line(line, where), "cuda" in line)
                if head:
                    head.stop(signal.SIGTERM)
        return started

    def starts(self, running, may_lack_gpu):
        """Whether the daemon has become ready. It is stopped."""
        try:
            running.wait_for_line("^ready ", stream="out")
        except AssertionError:
            if not may_lack_gpu:
                raise
            self.assertIn("--devices: ", running.err)
            return False
        self.assertEqual(running.stop(signal.SIGTERM).code, 0)
        return True

    def test_every_configuration_of_a_daemon_is_run_by_a_test(self):
        found = {(page, " ".join(block.splitlines()[0].split()))
                 for page, text in pages() for block in blocks_of(text)
                 if IS_CONFIGURATION.search(block)}
        self.assertEqual(found, CONFIGURATIONS)

    def test_the_unit_of_systemd_starts_a_daemon(self):
        unit = (harness.source_root / "configs/easyscaled.service.in").read_text()
        line = re.search("^ExecStart=@bindir@/(.*)$", unit, re.MULTILINE).group(1)
        config = self.shipped_config()
        (config.parent / "easyscale").mkdir()
        config.rename(config.parent / "easyscale/easyscaled.toml")
        line = line.replace("@sysconfdir@", str(self.directory))
        self.assertEqual(self.start_ready("sh", "-c", f"exec {line}").stop(signal.SIGTERM).code, 0)


class Operations(Documented):
    """The cluster of OPERATIONS.md: the head of the shipped configuration with the changes of the
    page, and node n2. `systemctl` of the page stops and starts the daemon of n2."""

    def setUp(self):
        super().setUp()
        self.fast, self.other = self.fast_class(), self.other_class()
        if self.fast == self.other:
            self.skipTest("two kernel classes are needed")
        self.make("run/easyscale", "srv/data", "srv/checkpoints", "usr/local/etc/easyscale")
        self.etc = self.directory / "usr/local/etc/easyscale"
        self.page("esctl keygen /usr/local/etc/easyscale/keys")
        self.page("esctl keygen DIR --client alice", DIR=self.etc / "keys")
        self.head = self.start_head()
        self.keys_of_n2 = self.etc / "keys/nodes/n2"
        self.node = self.start_node()

    def page(self, begin, **names):
        """Runs the commands of a block of the page. Returns its output."""
        out = ""
        for line in commands_of(self.block("docs/OPERATIONS.md", begin)):
            for name, value in names.items():
                line = re.sub(rf"\b{name}\b", str(value), line)
            if line.startswith("systemctl "):
                self.systemctl(line.split()[1])
            else:
                out += self.run_line(self.mapped(line), self.directory)
        return out

    def systemctl(self, what):
        if what == "stop":
            ended = self.node.stop(signal.SIGTERM)
            self.assertEqual(ended.code, 0, str(ended))
        else:
            self.node = self.start_node()

    def start_head(self):
        """The shipped file with the lines of the page, which begin a line or a comment in it."""
        text = (harness.source_root / "configs/easyscaled.toml").read_text()
        for line in self.block("docs/OPERATIONS.md", "listen = ").splitlines():
            key = line.split(" = ")[0]
            text, changed = re.subn(rf"^(# )?{key} = .*$", line, text, flags=re.MULTILINE)
            if not changed:
                text += line + "\n"
        text = re.sub(r'^devices = "[^"]*"', f'devices = "{self.fast}:1"', text,
                      flags=re.MULTILINE)
        running = self.start(harness.easyscaled_program, "--config",
                             self.write_config("head.toml", text))
        return harness.Daemon(self, running, ["--keys", self.etc / "keys"])

    def start_node(self):
        text = self.block("docs/OPERATIONS.md", "join = ")
        text = text.replace('"cpu-avx512:2"', f'"{self.other}:1"')
        # A machine of its own has its own directories for keys and sockets.
        text = text.replace('"/usr/local/etc/easyscale/keys"', f'"{self.keys_of_n2}"')
        text = text.replace("/run/easyscale/workers", "/run/easyscale/workers-of-n2")
        return self.start_ready(harness.easyscaled_program, "--config",
                                self.write_config("n2.toml", text))

    def submit(self, steps=1_000_000):
        self.job_file = self.write_job(job_text(self.word, changes={"steps": steps, **ANY_LENGTH}))
        return self.head.submit(self.job_file)

    def on(self, job, device):
        return self.head.wait_for(job, f"trains on {device}",
                                  lambda d: d["placement"] == f"{device}:1" and d["steps"] > 0)

    def assert_bits(self, job):
        taken = self.head.json("checkpoint", job)
        self.assertNotIn("continues from version", self.head.esctl("logs", job).out)
        self.head.esctl("cancel", job)
        self.head.stop()
        self.assert_bits_of_fixed_run(self.job_file, taken, self.fast)

    def test_a_job_that_was_paused_on_the_node_continues_on_the_head_and_back(self):
        job = self.submit()
        for device, next_one in ((self.other, self.fast), (self.fast, self.other)):
            self.head.esctl("scale", job, f"{device}:1")
            self.on(job, device)
            self.head.esctl("pause", job)
            self.head.esctl("claim", "--name", "serving", "--type", device, "--count", 1)
            self.head.esctl("scale", job, "auto")
            self.head.esctl("resume", job)
            self.on(job, next_one)
            self.head.esctl("release", "serving")
        self.assert_bits(job)

    def test_a_node_that_is_stopped_hands_its_job_over(self):
        job = self.submit()
        self.head.esctl("scale", job, f"{self.other}:1")
        self.on(job, self.other)
        self.head.esctl("scale", job, "auto")
        self.systemctl("stop")
        self.on(job, self.fast)
        self.assert_bits(job)

    def test_the_key_of_a_node_is_renewed_and_its_job_continues(self):
        job = self.submit()
        self.head.esctl("scale", job, f"{self.other}:1")
        before = self.on(job, self.other)
        self.keys_of_n2 = self.etc / "keys/nodes/n2-b"  # the line `keys` of its configuration
        self.page("esctl keygen DIR --node n2-b", DIR=self.etc / "keys")
        self.head.wait_for(job, "trains on n2 again", lambda d: d["steps"] > before["steps"]
                           and [w["node"] for w in d["workers"]] == ["n2"])
        listed = self.esctl("keys", "ls", "--keys", self.etc / "keys").out
        self.assertRegex(listed, r"(?m)^n2-b ")
        self.assertNotRegex(listed, r"(?m)^n2 ")
        self.assert_bits(job)

    def test_a_node_that_was_drained_twice_comes_back(self):
        self.head.esctl("drain", "n2")
        self.head.esctl("drain", "n2")
        self.head.esctl("drain", "n2", "--in", 120)
        self.head.esctl("drain", "n2", "--cancel")
        node = {n["name"]: n for n in self.head.json("nodes")["nodes"]}["n2"]
        self.assertEqual((node["alive"], node["draining"]), (True, False))
        job = self.submit()
        self.head.esctl("scale", job, f"{self.other}:1")
        self.on(job, self.other)
        self.head.esctl("cancel", job)
        self.head.stop()


class Tutorial(Documented):
    """docs/tutorials/several_machines.md; each of its machines is a directory."""
    PAGE = "docs/tutorials/several_machines.md"
    SCP = "scp() { cp $(echo $* | sed 's,\\bb:,../b/,g'); }; "

    def columns(self):
        """The two files of the block, which are side by side."""
        left, right = [], []
        for line in self.block(self.PAGE, "head = true").splitlines():
            first, _, second = re.sub(r"\s{2,}", "\n", line.strip()).partition("\n")
            (left if not line.startswith(" ") else right).append(first)
            if second:
                right.append(second)
        return "\n".join(left) + "\n", "\n".join(right) + "\n"

    def test_two_machines_train_a_job_with_the_digest_of_the_page(self):
        self.make("a", "b", "srv/checkpoints")
        a, b = self.directory / "a", self.directory / "b"
        for where in (a, b):
            for line in commands_of(self.block(self.PAGE, "esctl keygen keys")):
                self.run_line(line, where)
        for line in commands_of(self.block(self.PAGE, "scp keys/server.key")):
            self.run_line(self.SCP + line, a)
        for machine, text in zip((a, b), self.columns()):
            self.write_config(f"{machine.name}/{'head' if machine == a else 'node'}.toml", text)
        daemons = []
        for machine, line in zip((a, b), commands_of(self.block(self.PAGE,
                                                                "easyscaled --config head.toml"))):
            daemons.append(self.start_ready("sh", "-c",
                                            f"cd {machine} && umask 077 && exec {line}"))
        head = harness.Daemon(self, daemons[0], ["--keys", a / "keys"])
        job_file = self.write_job(self.mapped(self.block(self.PAGE, 'name = "two"')))
        end = head.wait_for_state(head.submit(job_file), "finished")
        page = self.block(self.PAGE, "esctl run job.toml")
        self.assertEqual([end["params_digest"], end["state_digest"]],
                         re.findall("digest +([0-9a-f]{32})", page))
        for daemon in reversed(daemons):
            self.assertEqual(daemon.stop(signal.SIGTERM).code, 0)


if __name__ == "__main__":
    harness.main()
