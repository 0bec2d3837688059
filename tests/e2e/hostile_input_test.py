#!/usr/bin/env python3
"""A hostile client: texts that esctl never sends, and files that do not belong to the client."""
import io
import json
import os
import struct
import tarfile

import harness
from harness import EXIT_NOT_FOUND, EXIT_USAGE
from jobs import job_text

RAW_TEXT_CLIENT = os.environ.get("ES_RAW_TEXT_CLIENT", "")
LEVELS = 50_000


class RawClient(harness.EndToEndTest):
    def raw(self, daemon, what, text, *words, code=EXIT_USAGE, keys="-"):
        """Sends the bytes. The answer must have this exit status."""
        path = self.directory / "raw"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        ended = self.start(RAW_TEXT_CLIENT, daemon.endpoint, keys, what, path, *words).wait()
        self.assertEqual(ended.code, code, str(ended)[:2000])
        return ended

    def assert_serves(self, daemon):
        """The head lives, and a valid job trains to its end."""
        self.assertIsNone(daemon.running.process.poll())
        good = job_text(self.word, changes={"steps": 2, "eval_every": None})
        job = self.raw(daemon, "submit", good, code=0).out.strip()
        daemon.wait_for_state(job, "finished")


class Texts(RawClient):
    def setUp(self):
        super().setUp()
        self.daemon = self.start_daemon(devices=self.fast_class() + ":1")

    def test_a_head_outlives_job_texts_of_any_depth(self):
        start = "steps = 1\n"
        for text in [start + "a." * LEVELS + "a = 1\n", start + "[" + "a." * LEVELS + "a]\n",
                     start + "[[" + "a." * LEVELS + "a]]\n", start + "x = " + "[" * LEVELS,
                     start + "x = " + "{a=" * LEVELS, start + "x = " + "[1," * LEVELS,
                     start + "'a'." * LEVELS + "a=1",
                     "".join(f"[{'a.' * i}a]\n" for i in range(400))]:
            ended = self.raw(self.daemon, "submit", text)
            self.assertIn("more than 16 open brackets, or names in a dotted key", ended.err)
            self.assertLess(len(ended.err), 500)
        ended = self.raw(self.daemon, "submit", start + "x = '" + "a" * (40 << 20) + "'")
        self.assertIn("more than 262144 bytes", ended.err)
        self.assert_serves(self.daemon)
        self.daemon.stop()

    def test_esctl_outlives_them_too(self):
        job = self.write_job("steps = 1\n" + "a." * LEVELS + "a = 1\n")
        for command in (["run", job], ["inspect", job], ["submit", job],
                        ["verify", job, "--stages", "cpu-scalar:1@1", "--stages",
                         "cpu-scalar:2@1"],
                        ["trace-step", job, "--step", "1", "--device", "cpu-scalar"]):
            ended = self.start_esctl(*command).wait()
            self.assertEqual(ended.code, EXIT_USAGE, str(ended)[:2000])
            self.assertIn("job.toml: line 2: more than 16", ended.err)
        self.daemon.stop()

    def test_what_stands_behind_a_zero_byte_is_not_ignored(self):
        good = job_text(self.word, changes={"steps": 2})
        for text in (good.encode() + b"\0hidden = 1\n", good.encode() + b"# \xff\n",
                     good.encode() + b"# \x1b[2J\n"):
            self.assertNotIn("\x1b", self.raw(self.daemon, "submit", text).err)
        self.assertEqual(self.daemon.json("ps")["jobs"], [])
        self.assert_serves(self.daemon)
        self.daemon.stop()

    def test_names_with_control_characters_are_refused(self):
        job = self.daemon.submit(self.write_job(job_text(self.word, changes={"steps": 100_000})))
        for name in (b"a\x1b[2Jb", b"a\nb", b"a\0b", b"a\xff", b"\xc2\x9b31m", b"\xe2\x80\xaeb"):
            ended = self.raw(self.daemon, "claim", name, self.fast_class())
            self.assertIn("name: allowed is UTF-8 text without control characters", ended.err)
            path = str(self.directory).encode() + b"/" + name
            ended = self.raw(self.daemon, "checkpoint", path, job)
            self.assertIn("directory: allowed is UTF-8 text without control", ended.err)
            for key in ("tenant = \"", "device_types = [\""):
                quoted = "".join(f"\\u{ord(c):04x}" for c in name.decode("latin-1"))
                text = job_text(self.word, changes={"steps": 2}) + f"\n[resources]\n{key}{quoted}\"" + (
                    "]\n" if "[" in key else "\n")
                if b"\xff" not in name and b"\xe2" not in name:
                    self.raw(self.daemon, "submit", text)
        self.assertEqual(self.daemon.json("claims")["claims"], [])
        self.daemon.esctl("cancel", job)
        self.daemon.stop()


WORD, NUMBER = "hunter2secret", "918273645"


def tar_file(members):
    """A tar file; it maps names to texts."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return file.getvalue()


def secret_files():
    """Contents that a reader of some kind reads in part before it finds the error."""
    line = f"{WORD} {NUMBER}\n"
    number = int(NUMBER)
    json_text = json.dumps({WORD: NUMBER, "data": [{"paragraphs": [
        {"context": WORD, "qas": [{"id": WORD, "question": WORD,
                                   "answers": [{"text": WORD, "answer_start": number}]}]}]}]})
    header = json.dumps({WORD: {"dtype": WORD, "shape": [number], "data_offsets": [0, number]}})
    bad_header = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                             WORD: {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}})
    return {
        "lines": (line * 3).encode(),
        "name": f"{WORD}\n".encode(),
        "tabs": f"1\t2\t3\t4\n{WORD}\t{NUMBER}\tx\ty\n".encode(),
        "commas": f"1,2,3,4\n1,2,{WORD},{NUMBER}x\n".encode(),
        "json": json_text.encode(),
        "broken json": f'{{"data": [{WORD}'.encode(),
        "xml": (f"<annotation><size><width>{WORD}</width><height>{NUMBER}00</height></size>"
                f"<object><name>{WORD}</name></object></annotation>").encode(),
        "box": (f"<annotation><size><width>9</width><height>9</height></size>"
                f"<object><name>{WORD}</name></object></annotation>").encode(),
        "safetensors": struct.pack("<Q", len(header)) + header.encode(),
        "tensors": struct.pack("<Q", len(bad_header)) + bad_header.encode() + bytes(12),
        "jpeg": b"\xff\xd8" + line.encode() * 9,
        "png": b"\x89PNG\r\n\x1a\n" + line.encode() * 9,
        "idx": struct.pack(">II", 0x803, number) + line.encode(),
        "magic": struct.pack(">I", number) + line.encode(),
        "gzip": b"\x1f\x8b" + line.encode() * 9,
        "manifest": f"easyscale-checkpoint {WORD}\n{line}".encode(),
        "records": (WORD.encode() * 4000)[:2 * 3073],
        "tar": tar_file({f"{WORD}.jpg": line, f"{WORD}.cls": NUMBER}),
        "half a sample": tar_file({f"{WORD}.jpg": line}),
    }


# A reader of the kind looks for its files under each of these names.
PLACES = {
    "idx": ["train-labels-idx1-ubyte", "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte"],
    "cifar10": [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"],
    "image_folder": ["train/a/1.jpg", "train/b/2.png", "val/a/1.jpg", "val/b/2.png"],
    "ratings": ["ratings.csv", "u.data"],
    "squad": ["train-v1.1.json", "dev-v1.1.json", "vocabulary.txt"],
    "voc": ["ImageSets/Main/train.txt", "ImageSets/Main/val.txt", "classes.txt",
            f"Annotations/{WORD}.xml", f"JPEGImages/{WORD}.jpg"],
    "webdataset": ["train/a.tar", "eval/a.tar"],
}
MODELS = {"ratings": "neumf", "squad": "bert", "voc": "yolov3"}


class Secrets(RawClient):
    """Secret files that the head and its workers may read, and a client may not."""

    def setUp(self):
        super().setUp()
        keys = self.directory / "keys"
        self.esctl("keygen", keys)
        self.daemon = self.start_daemon(devices=self.fast_class() + ":1",
                                        options=["--keys", keys, "--listen", "tcp://127.0.0.1:*"],
                                        esctl_options=["--keys", str(keys)])
        self.keys = keys
        self.tried = 0

    def start_daemon(self, name="head", devices="", options=(), esctl_options=()):
        directory = self.directory / name
        directory.mkdir(mode=0o700, exist_ok=True)
        listen = [] if "--listen" in options else ["--listen", f"ipc://{directory}/head.sock"]
        running = self.start(harness.easyscaled_program, "--head", "--state", directory / "state",
                             "--node", name, "--devices", devices, *listen, *options)
        return harness.Daemon(self, running, esctl_options)

    def assert_silent(self, where, *texts):
        number = int(NUMBER)
        forms = [WORD, WORD[:4], NUMBER, f"{number:x}",
                 str(struct.unpack("<Q", WORD[:8].encode())[0]),
                 str(struct.unpack(">I", WORD[:4].encode())[0]), WORD[:4].encode().hex(),
                 str(number.from_bytes(struct.pack("<I", number), "big"))]
        for text in texts:
            for form in forms:
                self.assertNotIn(form, text.lower(), where)

    def write_set(self, kind, content):
        directory = self.directory / "data"
        for name in PLACES[kind]:
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return directory

    def submit(self, where, kind, changes):
        """Submits a job with such a file. Returns its error, and all that a client can ask about
        it."""
        classes = {"cifar10": 10, "voc": 2, "image_folder": 2}.get(kind, 3)
        text = job_text(self.word, changes={
            "steps": 2, "max_p": 1, "batch_size": 1, "model.name": MODELS.get(kind, "small_cnn"),
            "model.size": "tiny", "model.width": None, "model.classes": classes,
            "data.crop_padding": None, "data.flip": None, "data.samples": None,
            "data.eval_samples": None, "data.kind": kind, **changes})
        path = self.directory / "raw"
        path.write_text(text)
        ended = self.start(RAW_TEXT_CLIENT, self.daemon.endpoint, self.keys, "submit", path).wait()
        self.assertIn(ended.code, (0, 1, EXIT_USAGE, EXIT_NOT_FOUND, 4), str(ended))
        self.tried += 1
        self.assert_silent(where, ended.out, ended.err)
        if ended.code != 0:
            self.assertEqual(ended.err.count("\n"), 1, where)
            return
        job = ended.out.strip()
        def ended_now():
            details = self.daemon.describe(job)
            return details if details["state"] in ("failed", "finished") else None
        details = harness.wait_until(f"{where}: the end", ended_now)
        answers = [json.dumps(details), self.daemon.esctl("describe", job).out,
                   self.daemon.esctl("logs", job).out, self.daemon.esctl("ps").out]
        self.assert_silent(where, *answers)

    def test_no_answer_holds_what_a_file_of_secrets_holds(self):
        for kind in PLACES:
            for name, content in secret_files().items():
                directory = self.write_set(kind, content)
                changes = {"data.path": str(directory)}
                if kind == "squad":
                    changes["data.vocabulary_file"] = str(directory / "vocabulary.txt")
                if kind == "voc":
                    changes["data.channels"] = 3
                self.submit(f"{kind}: {name}", kind, changes)
        # One file that is named itself, and one among good files.
        secret = self.directory / "secret"
        for name, content in secret_files().items():
            secret.write_bytes(content)
            for kind in PLACES:
                self.submit(f"{kind} by path: {name}", kind,
                            {"data.path": str(secret), "data.vocabulary_file": str(secret)})
            self.submit(f"weights: {name}", "synthetic", {"model.weights": str(secret)})
            self.submit(f"model file: {name}", "synthetic", {
                "model.file": str(secret), "model.weights": str(secret), "model.name": None,
                "model.size": None, "model.classes": None})
            checkpoint = self.directory / "checkpoint"
            checkpoint.mkdir(exist_ok=True)
            for part in ("manifest", "job.toml", "data"):
                (checkpoint / part).write_bytes(content)
        vocabulary = self.directory / "good.txt"
        vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n")
        for name, content in secret_files().items():
            directory = self.write_set("squad", content)
            self.submit(f"squad with a vocabulary: {name}", "squad",
                        {"data.path": str(directory), "data.vocabulary_file": str(vocabulary)})
            self.write_set("voc", content)
            (directory / "classes.txt").write_text("cat\ndog\n")
            for half in ("train", "val"):
                (directory / f"ImageSets/Main/{half}.txt").write_text(WORD + "\n")
            self.submit(f"voc with lists: {name}", "voc",
                        {"data.path": str(directory), "data.channels": 3})
            (self.directory / "list").mkdir(exist_ok=True)
            (self.directory / "list/train.txt").write_bytes(content)
            self.submit(f"a list of tar files: {name}", "webdataset",
                        {"data.path": str(self.directory / "list")})
        self.assertGreater(self.tried, 200)
        self.daemon.stop()


if __name__ == "__main__":
    harness.main()
