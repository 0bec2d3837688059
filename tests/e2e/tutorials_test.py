#!/usr/bin/env python3
"""A newcomer's first hours: the commands of docs/tutorials, as they stand, in the order of the
pages and in the one environment that setting_up.md makes.

A block of a page is a file, if the paragraph before it begins with the file's name in backquotes;
or commands, if all lines begin with a known program; or else the output of the command before it.
Digests of an output must be those that the command prints. A command whose output is an error must
fail, and all others must not. Daemons and what follows a log run until the end of the page."""
import os
import re
import shutil
import signal
from pathlib import Path

import harness
import pytorch_environment
from documented_test import Documented

pytorch_environment.enter()
try:
    import torch
except ImportError:
    torch = None

FOLDER = "docs/tutorials"
SETTING_UP = "setting_up"
# Pages that other tests run, and why this one cannot.
OTHER_TESTS = {
    "train_image_classifier": "a notebook: python_tutorials",
    "fine_tune_sentence_encoder": "a notebook: python_tutorials",
    "several_machines": "needs two machines: e2e_documented has a directory for each",
    "slurm": "needs Slurm: the suite slurm",
    "kubernetes": "needs Kubernetes: the suite kubernetes",
}
# Commands that are not run, and why.
SKIPPED = {
    "scripts/setup": "this clone is built",
    "scripts/setup_pytorch": "downloads 5 GB, or nothing",
    "meson configure build -Dgpu_archs=75,80,90,100,120": "would change the build under test",
    "ninja -C build": "this clone is built",
    "scripts/gpu_check run --json result.json": "needs a GPU",
}
PROGRAMS = ["esctl", "easyscaled", r"scripts/\w+", "meson", "ninja", "python3", "sed", "ls", "kill",
            "truncate", "chmod", "cp", "curl", "promtool", "prometheus", "until", "for", "mkdir",
            r"\."]
IS_COMMAND = re.compile(rf"({'|'.join(PROGRAMS)})( |$)|[a-z]+='")
OF_OUTPUTS = ["test"]  # first words of outputs that are also programs
STAYS = re.compile(r"^(easyscaled|prometheus) |--follow$")
IS_FILE = re.compile(r"^`([\w-]+\.\w+)`.*:$", re.DOTALL)
IS_ERROR = re.compile(r"^(esctl: |--devices: |easyscale\.\S+: )|^identical no$", re.MULTILINE)
# What an output has on every machine.
SURE = re.compile(r"\b[0-9a-f]{32}\b|\b\d+ rules found")
# The model file of a captured module names the version of torch.
OF_TORCH = re.compile(r"^digest  .*$", re.MULTILINE)


def pages():
    """The names of the pages in the order of the site."""
    return re.findall(r"tutorials/(\w+)\.md", (harness.source_root / "docs/mkdocs.yml").read_text())


def blocks(text):
    """(paragraph before, content) of each block of code. Indented blocks that only an empty line
    separates are one."""
    paragraph, block, fenced = "", [], False
    for line in [*text.splitlines(), "end"]:
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    ") or (block and not line):
            block.append(line if fenced else line[4:])
            continue
        if block:
            yield paragraph, "\n".join(block).rstrip() + "\n"
            block, paragraph = [], ""
        if not fenced and not line.startswith("```"):
            ended = paragraph and not line
            paragraph = paragraph + "\n" if ended else f"{paragraph}\n{line}".split("\n\n")[-1]


class Page:
    """The steps of a page: ("file", name, text) or ("run", line, its output on the page)."""

    def __init__(self, text):
        self.steps = []
        for before, content in blocks(text):
            name = IS_FILE.match(before.strip())
            if name and not are_commands(content):
                self.steps.append(("file", name.group(1), content))
            else:
                for chunk in content.split("\n\n"):
                    self.add(chunk)

    def add(self, chunk):
        if are_commands(chunk):
            self.steps += [("run", line, "") for line in chunk.splitlines()]
            return
        kind, line, output = self.steps[-1]
        assert kind == "run", f"an output without a command:\n{chunk}"
        # A command that is taken for an output would never run.
        first = chunk.split()[0]
        assert first in OF_OUTPUTS or not shutil.which(first), f"is missing in PROGRAMS: {first}"
        self.steps[-1] = (kind, line, f"{output}\n{chunk}")


def are_commands(text):
    return all(IS_COMMAND.match(line) for line in text.splitlines() if line)


class Tutorials(Documented):
    """Every line of a page has a shell of its own, which begins as setting_up.md says."""

    def setUp(self):
        super().setUp()
        self.prometheus_port = harness.free_port()
        # The build under test, and the environments of this user.
        self.environment["ES_BUILD"] = str(harness.esctl_program.parents[2])
        self.environment["XDG_CACHE_HOME"] = os.environ.get(
            "XDG_CACHE_HOME", str(Path.home() / ".cache"))
        self.environment["TORCHINDUCTOR_CACHE_DIR"] = str(self.directory / "inductor")
        self.begin = self.block(f"{FOLDER}/{SETTING_UP}.md", ". scripts/activate.sh")
        self.variables = []  # assignments of the page
        self.staying = []    # what runs until the end of the page

    def mapped(self, text):
        return super().mapped(text).replace(":9090", f":{self.prometheus_port}")

    def script(self, line):
        return "\n".join([f"cd {harness.source_root}", self.begin, *self.variables,
                          self.mapped(line)])

    def run_page(self, name):
        folder = self.directory / "tutorial"
        folder.mkdir(exist_ok=True)
        page = Page((harness.source_root / FOLDER / f"{name}.md").read_text())
        for kind, what, text in page.steps:
            if kind == "file":
                (folder / what).write_text(self.mapped(text))
            elif what in SKIPPED:
                print(f"skipped: {name}: {what}: {SKIPPED[what]}", flush=True)
            elif what in self.begin:
                pass  # Every other line of the page begins with it.
            elif re.match(r"[a-z]+='", what):
                self.variables.append(what)
            else:
                print(f"{name}: {what}", flush=True)
                self.run_command(what, text)
        self.end_page()

    def run_command(self, line, output):
        wanted = IS_ERROR.search(output) is not None
        if STAYS.search(line) and not wanted:
            return self.stay(line)
        ended = self.start("bash", "-c", self.script(line)).wait()
        self.assertEqual(ended.code != 0, wanted, f"{line}\n{ended}")
        for sure in SURE.findall(OF_TORCH.sub("", output)):
            self.assertIn(sure, ended.out + ended.err, line)

    def stay(self, line):
        if line.startswith("easyscaled "):
            self.end_page()
        running = self.start("bash", "-c", self.script(f"exec {line}"))
        if line.startswith("easyscaled "):
            running.wait_for_line("^ready ", stream="out")
        self.staying.append(running)

    def end_page(self):
        for running in reversed(self.staying):
            if running.process.poll() is None:
                running.stop(signal.SIGTERM)
        self.staying, self.variables = [], []

    def test_every_command_of_the_pages_in_their_order(self):
        for name in pages():
            with self.subTest(page=name):
                reason = self.reason_to_skip(name)
                if reason:
                    print(f"skipped: {name}: {reason}", flush=True)
                else:
                    self.run_page(name)

    def reason_to_skip(self, name):
        text = "".join(path.read_text() for path in
                       (harness.source_root / FOLDER).glob(f"{name}.md"))
        missing = {
            "cpu-avx512": "cpu-avx512" not in self.classes() and "this machine has no AVX-512",
            "python3 ": torch is None and pytorch_environment.MISSING,
            "promtool ": shutil.which("promtool") is None and "needs the Debian package prometheus"}
        return OTHER_TESTS.get(name) or next(
            (reason for word, reason in missing.items() if word in text and reason), None)

    def test_every_page_is_in_the_site(self):
        found = {path.stem for path in (harness.source_root / FOLDER).glob("*.*")
                 if path.suffix in (".md", ".ipynb")}
        self.assertEqual(found, set(pages()))
        self.assertEqual(pages()[0], SETTING_UP)


if __name__ == "__main__":
    harness.main()
