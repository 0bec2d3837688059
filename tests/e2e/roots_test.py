#!/usr/bin/env python3
"""Which paths a client may name that reaches the head by TCP: files in the roots, and no others in
any spelling. A client of the local socket acts as the user of the head."""
import ctypes
import json
import os
import shutil
import signal
import sys
import unittest

import harness
from harness import EXIT_NOT_FOUND, EXIT_REFUSED, EXIT_USAGE
from jobs import job_text, shipped_job
from model_files import small_net, write_safetensors

LISTEN = "tcp://127.0.0.1:*"
ENDLESS = 1_000_000
SECRET = "wqxj-secret-wqxj"
NO_SIZES = {f"data.{key}": None
            for key in ("height", "width", "channels", "samples", "eval_samples")}


class Roots(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.raw_client = harness.esctl_program.parents[2] / "tests/e2e/raw_client"
        self.keys = self.directory / "keys"
        self.esctl("keygen", self.keys)
        self.fast = self.fast_class()
        self.data = self.make("data")
        self.kept = self.make("kept")
        # Beside the roots: a name that begins like a root, and a file whose existence no client may
        # learn.
        for name in ("data2", "kept2", "outside"):
            self.make(name)
            for inside in ("file", "train.csv", "vocabulary.txt"):
                (self.directory / name / inside).write_text(f"{SECRET}\n")
        (self.data / "link").symlink_to(self.directory / "outside")
        (self.data / "nowhere").symlink_to(self.directory / "outside/absent")
        (self.kept / "link").symlink_to(self.directory / "outside")

    def make(self, name):
        path = self.directory / name
        path.mkdir()
        return path

    def start_head(self, *options, listen=LISTEN, name="head"):
        place = self.directory / name
        place.mkdir(mode=0o700)
        wire = [] if listen.startswith("ipc") else ["--keys", self.keys]
        running = self.start(harness.easyscaled_program, "--head", "--state", place / "state",
                             "--listen", listen, "--node", "first", "--devices", f"{self.fast}:1",
                             *wire, *options)
        return harness.Daemon(self, running, wire)

    def start_confined(self, name="head"):
        return self.start_head("--data-root", self.data, "--checkpoint-root", self.kept, name=name)

    def ask(self, head, *words, code=0):
        keys = self.keys if head.wire else "-"
        ended = self.start(self.raw_client, head.endpoint, keys, *words).wait()
        self.assertEqual(ended.code, code, str(ended))
        return ended

    def job(self, **changes):
        """The TOML of a job with these fields that trains for a long time."""
        return job_text(self.word, changes={"steps": ENDLESS, **changes})

    def tricks(self, root, name, escape=True):
        """Paths that lead out of a root, or try to."""
        nul = "\\u0000" if escape else "%00"
        return [f"/etc/{name}", str(self.directory / "outside" / name), f"{root}2/{name}",
                f"{root}/../outside/{name}", f"{root}/link/{name}", f"{root}/link/absent",
                f"outside/{name}", f"./{name}", f"{root}/x{nul}/../../etc/{name}", f"{root}{nul}",
                "/proc/self/environ", "/"]

    def assert_refused(self, ended, field, option):
        """One line that names the field and the option, and tells nothing about the path."""
        self.assertEqual(len(ended.err.splitlines()), 1, str(ended))
        self.assertIn(field, ended.err)
        self.assertIn(option, ended.err)
        for telling in (SECRET, "no such", "exist", "cannot be", "permission", "directory \""):
            self.assertNotIn(telling, ended.err.lower().replace(str(self.directory).lower(), ""))

    def refused_jobs(self, head, field, changes, root, option, name):
        for path in self.tricks(root, name):
            with self.subTest(field=field, path=path):
                file = self.write_job(self.job(**{**changes, field: path}), "trick.toml")
                if "u0000" in path:  # No text of a job may contain one, or otherwise no path.
                    ended = self.start(self.raw_client, head.endpoint, self.keys, "submit",
                                       file).wait()
                    self.assertIn(ended.code, (EXIT_USAGE, EXIT_REFUSED), str(ended))
                    continue
                ended = self.ask(head, "submit", file, code=EXIT_REFUSED)
                self.assert_refused(ended, field, option)

    def test_no_field_of_a_job_leads_out(self):
        head = self.start_confined()
        squad = {"data.kind": "squad", **NO_SIZES, "data.crop_padding": None, "data.flip": None,
                 "model.name": "bert", "model.classes": None, "data.path": str(self.data / "squad")}
        fields = {
            "data.path": ({"data.kind": "idx", **NO_SIZES}, self.data, "--data-root"),
            "data.weights": ({"data.kind": "idx", **NO_SIZES, "data.path": str(self.data)},
                             self.data, "--data-root"),
            "data.groups": ({"data.kind": "idx", **NO_SIZES, "data.path": str(self.data)},
                            self.data, "--data-root"),
            "data.length_buckets": ({"data.kind": "arrays", **NO_SIZES, "data.path": str(self.data),
                                     "data.crop_padding": None, "data.flip": None,
                                     "model.name": None, "model.classes": None,
                                     "model.file": str(self.data / "model.esmodel")},
                                    self.data, "--data-root"),
            "data.vocabulary_file": (squad, self.data, "--data-root"),
            "model.weights": ({}, self.data, "--data-root"),
            "model.file": ({"model.name": None, "model.classes": None,
                            "model.weights": str(self.data / "weights")},
                           self.data, "--data-root"),
            "checkpoint.directory": ({"checkpoint.every_steps": 5}, self.kept,
                                     "--checkpoint-root"),
            "log.tensorboard": ({}, self.kept, "--checkpoint-root")}
        for field, (changes, root, option) in fields.items():
            self.refused_jobs(head, field, changes, root, option, "file")
        self.assertEqual(head.json("ps")["jobs"], [])
        head.stop()

    def assert_leads_nowhere(self, head, words, path, option, field):
        """A NUL is refused in every text. The roots refuse all other values."""
        if "%00" in path:
            ended = self.ask(head, *words, code=EXIT_USAGE)
            self.assert_refused(ended, field + ": ", "allowed is UTF-8 text without control")
        else:
            ended = self.ask(head, *words, code=EXIT_REFUSED)
            self.assert_refused(ended, option, "--checkpoint-root")

    def test_no_checkpoint_leads_out(self):
        head = self.start_confined()
        plain = self.write_job(self.job())
        for path in self.tricks(self.kept, "file", escape=False):
            with self.subTest(start=path):
                self.assert_leads_nowhere(head, ["submit", plain, path], path, "--from",
                                          "from_checkpoint")
        job = head.submit(plain)
        head.wait_for_step(job, 1)
        before = sorted(os.walk(self.directory / "outside"))
        for path in self.tricks(self.kept, "new", escape=False):
            with self.subTest(to=path):
                self.assert_leads_nowhere(head, ["checkpoint", job, path], path, "--to",
                                          "directory")
        self.assertEqual(sorted(os.walk(self.directory / "outside")), before)
        self.assertEqual([p.name for p in self.kept.iterdir()], ["link"])
        inside = head.json("checkpoint", job, "--to", self.kept / "mine")
        own = head.json("checkpoint", job)  # The directory that the head chooses is always allowed.
        head.esctl("cancel", job)
        for taken in (inside, own):
            head.esctl("cancel", head.submit(plain, "--from", taken["path"]))
        head.stop()

    def exchange(self, one, other):
        """Exchanges two names in one step, so that no worker makes the directory anew between."""
        at_cwd, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        libc = ctypes.CDLL(None, use_errno=True)
        code = libc.renameat2(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), both)
        self.assertEqual(code, 0, os.strerror(ctypes.get_errno()))

    def test_a_link_that_is_made_later(self):
        head = self.start_confined()
        series = self.kept / "series"
        series.mkdir()
        job = head.submit(self.write_job(self.job(**{"checkpoint.every_steps": 200,
                                                     "checkpoint.directory": str(series)})))
        head.wait_for(job, "a first checkpoint", lambda d: list(series.glob("*/step-*")))
        link = self.kept / "new"
        link.symlink_to(self.directory / "outside")
        self.exchange(series, link)
        head.wait_for(job, "a warning", lambda d: "--checkpoint-root" in (d["warning"] or ""))
        self.assertEqual(sorted(p.name for p in (self.directory / "outside").iterdir()),
                         ["file", "train.csv", "vocabulary.txt"])
        head.esctl("cancel", job)
        head.stop()

    def test_data_that_leads_out_file_by_file(self):
        text, dataset = shipped_job(harness.source_root)
        inside = self.data / "fashion"
        shutil.copytree(dataset, inside)
        head = self.start_confined()
        changed = text.replace(str(dataset), str(inside))
        head.esctl("cancel", head.submit(self.write_job(changed)))
        for file in inside.iterdir():
            file.rename(self.directory / "outside" / file.name)
            file.symlink_to(self.directory / "outside" / file.name)
        ended = self.ask(head, "submit", self.write_job(changed), code=EXIT_REFUSED)
        self.assertIn("leads out of the directories of easyscaled --data-root", ended.err)
        head.stop()

    def test_without_roots_nothing_but_the_own_checkpoints(self):
        head = self.start_head()
        file = self.write_job(self.job(**{"data.kind": "idx", **NO_SIZES,
                                          "data.path": str(self.data)}))
        self.assert_refused(self.ask(head, "submit", file, code=EXIT_REFUSED), "data.path",
                            "--data-root")
        job = head.submit(self.write_job(self.job()))  # Synthetic data name no path.
        head.wait_for_step(job, 1)
        self.assertTrue(head.json("checkpoint", job)["path"])
        self.ask(head, "checkpoint", job, self.kept / "x", code=EXIT_REFUSED)
        head.esctl("cancel", job)
        head.stop()

    def test_programs_of_clients_over_the_network_need_an_option(self):
        no_images = {**NO_SIZES, "data.crop_padding": None, "data.flip": None}
        job = self.write_job(self.job(**{
            **no_images, "model.name": None, "model.classes": None, "data.samples": 400,
            "model.file": str(self.data / "absent"), "model.weights": str(self.data / "absent"),
            "data.kind": "python", "data.path": str(self.data / "absent"),
            "data.python": "/usr/bin/python3"}))
        place = self.make("socket")
        os.chmod(place, 0o700)
        refusing = self.start_confined()
        self.assert_refused(self.ask(refusing, "submit", job, code=EXIT_REFUSED), "data.python",
                            "--python-data")
        refusing.stop()
        # What is refused next is the model, which is not there.
        roots = ("--data-root", self.data, "--checkpoint-root", self.kept)
        for head in (self.start_head("--python-data", *roots, name="allowing"),
                     self.start_head(*roots, listen=f"ipc://{place}/head.sock", name="local")):
            ended = self.ask(head, "submit", job, code=EXIT_NOT_FOUND)
            self.assertIn(str(self.data / "absent"), ended.err)
            head.stop()

    def test_the_local_socket_is_as_free_as_its_user(self):
        place = self.make("socket")
        os.chmod(place, 0o700)
        head = self.start_head(listen=f"ipc://{place}/head.sock")
        job = head.submit(self.write_job(self.job()))
        head.wait_for_step(job, 1)
        taken = head.json("checkpoint", job, "--to", self.directory / "outside/taken")
        head.esctl("cancel", job)
        missing = self.write_job(self.job(**{"data.kind": "idx", **NO_SIZES,
                                             "data.path": str(self.directory / "absent")}))
        self.ask(head, "submit", missing, code=EXIT_NOT_FOUND)
        self.assertTrue(taken["path"])
        self.ask(head, "shutdown")
        self.assertEqual(head.running.wait().code, 0)

    def test_a_node_checks_by_its_own_roots(self):
        head = self.start_head("--data-root", self.directory, "--checkpoint-root", self.directory)
        node = self.start(harness.easyscaled_program, "--join", head.endpoint, "--node", "second",
                          "--devices", f"{self.other_class()}:1", "--run-dir",
                          self.directory / "n2", "--checkpoint-root", self.kept, "--keys",
                          self.keys)
        node.wait_for_line("^ready ", stream="out")
        job = head.submit(self.write_job(self.job()), "--stages",
                          f"{self.other_class()}:1@{ENDLESS}")
        head.wait_for_step(job, 1)
        ended = self.start_esctl("checkpoint", job, "--to", self.directory / "outside/x", "--head",
                                 head.endpoint, *head.wire).wait()
        self.assertNotEqual(ended.code, 0, str(ended))
        self.assertIn("--checkpoint-root", ended.err)
        self.assertFalse((self.directory / "outside/x").exists())
        self.assertTrue(head.json("checkpoint", job, "--to", self.kept / "x")["path"])
        head.esctl("cancel", job)
        self.assertEqual(node.stop(signal.SIGTERM).code, 0)
        head.stop()

    def python_job(self):
        """A job of a model file whose samples a program on every node computes."""
        net = small_net(harness.seeded_random("roots"))
        described = self.directory / "net.json"
        described.write_text(json.dumps(net.json))
        self.esctl("models", "pack", described, "-o", self.data / "net.esmodel")
        write_safetensors(self.data / "weights.safetensors", net.weights)
        (self.data / "dataset.pickle").write_bytes(b"not opened before the refusal")
        changes = {"model.name": None, "model.classes": None, "data.crop_padding": None,
                   "data.flip": None, "data.samples": 64, "data.eval_samples": None,
                   "data.height": None, "data.width": None, "data.channels": None,
                   "model.file": str(self.data / "net.esmodel"),
                   "model.weights": str(self.data / "weights.safetensors"),
                   "data.kind": "python", "data.path": str(self.data / "dataset.pickle"),
                   "data.python": sys.executable}
        return self.write_job(self.job(**changes), "python.toml")

    def test_a_node_without_python_data_refuses_the_programs_that_its_head_accepts(self):
        head = self.start_head("--python-data", "--data-root", self.data)
        node = self.start(harness.easyscaled_program, "--join", head.endpoint, "--node", "second",
                          "--devices", f"{self.other_class()}:1", "--run-dir",
                          self.directory / "n2", "--data-root", self.data, "--keys", self.keys)
        node.wait_for_line("^ready ", stream="out")
        job = head.submit(self.python_job(), "--stages", f"{self.other_class()}:1@{ENDLESS}")
        ended = head.wait_for_state(job, "failed")
        for part in ('data.python = "', "--python-data", "second"):
            self.assertIn(part, ended["error"])
        self.assertEqual(node.stop(signal.SIGTERM).code, 0)
        head.stop()

    def test_a_root_that_is_not_there(self):
        ended = self.start(harness.easyscaled_program, "--head", "--state",
                           self.directory / "state", "--data-root", self.directory / "none").wait()
        self.assertEqual(ended.code, EXIT_USAGE, str(ended))
        self.assertIn("--data-root", ended.err)


if __name__ == "__main__":
    harness.main()
