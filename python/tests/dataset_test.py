#!/usr/bin/env python3
"""Datasets that compute their samples in loader processes: samples, errors, and training."""
import contextlib
import importlib.util
import os
import pickle
import random
import select
import socket
import struct
import subprocess
import sys
import tomllib
import unittest
from unittest import mock

import numpy as np
import torch
from loader_datasets import (CLASSES, Broken, Counting, Differing, Exiting, Growing, Hanging,
                             Images, Killing, LateTorch, Points, Raising, Recording, Wrapped)
from support import FolderCase, offered_types, programs_train_model_files
from torch import nn

import easyscale as es
from easyscale.data import dataset_file
from easyscale.data.dataset_samples import EVAL, TRAIN, sample_of
from easyscale.programs import run_json

MAX_P, STEPS = 4, 12
DEADLINE_S = 120


def net(inputs=6):
    torch.manual_seed(2)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, CLASSES))


class Samples(unittest.TestCase):
    def test_a_sample_is_a_function_of_seed_half_epoch_and_index(self):
        data = Points()
        x, y = sample_of(data, TRAIN, 1, 0, 3).values()
        sample_of(data, TRAIN, 1, 0, 4)
        again = sample_of(data, TRAIN, 1, 0, 3)
        self.assertEqual((x.tobytes(), y.tobytes()), (again[0].tobytes(), again[1].tobytes()))
        others = [sample_of(data, *where)[0].tobytes() for where in (
            (TRAIN, 1, 0, 3), (EVAL, 1, 0, 3), (TRAIN, 2, 0, 3), (TRAIN, 1, 1, 3))]
        self.assertEqual(len(set(others)), 4)

    def test_torch_is_seeded_too(self):
        first, second = (sample_of(Images(), TRAIN, 5, 0, 9)["input"].tobytes() for _ in range(2))
        self.assertEqual(first, second)

    def test_the_random_numbers_of_this_process_go_on(self):
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        expected = random.random(), np.random.rand(), torch.rand(()).item()
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        es.data.dataset(Images()).head(4)
        self.assertEqual((random.random(), np.random.rand(), torch.rand(()).item()), expected)

    def test_the_forms_of_a_sample(self):
        one = np.ones(2, np.float32)
        for sample, keys in (((one, 1), [0, 1]), ([one, 1], [0, 1]), (one, [0]),
                             ({"a": one, "b": True}, ["a", "b"]),
                             ((torch.ones(2), torch.tensor(3)), [0, 1])):
            data = es.data.dataset([sample])
            self.assertEqual(list(data.arrays), keys)
            self.assertEqual(data.head(1)[keys[0]].tobytes(), one.tobytes())
        columns = es.data.dataset([(1.5, 2, True, np.uint8(3))]).arrays
        self.assertEqual([str(x) for x in columns.values()],
                         ["float64 []", "int64 []", "bool []", "uint8 []"])

    def test_what_is_no_dataset_is_refused(self):
        def refuses(text, source, **options):
            with self.assertRaisesRegex(es.UsageError, text):
                es.data.dataset(source, **options)
        refuses("int has no __len__: allowed is a map-style dataset", 3)
        refuses("the dataset has no samples", [])
        refuses("array 1 is str with elements of the type <U4", [(1, "text")])
        refuses("array 0 is object", [object()])
        refuses("sample 0 of the dataset has the keys \\[3\\]", [{3: 1.0}])
        refuses("timeout_s = 0", Points(), timeout_s=0)

    def test_a_dataset_that_cannot_be_pickled_is_refused(self):
        class Local(Points):
            pass
        with self.subTest(), mock.patch.dict(sys.modules, {"cloudpickle": None}):
            with self.assertRaisesRegex(es.UsageError, "Local cannot be pickled .* Put it into a "
                                                       "module, or install cloudpickle"):
                dataset_file.pickled(Local())

    @unittest.skipUnless(importlib.util.find_spec("cloudpickle"), "there is no cloudpickle")
    def test_a_class_of_a_script_is_pickled_with_its_code(self):
        program = ("import pickle, sys\nfrom easyscale.data import dataset_file\n"
                   "class Own:\n    def __len__(self): return 3\n"
                   "    def __getitem__(self, index): return 2.0 * index\n"
                   "sys.stdout.buffer.write(dataset_file.pickled(Own()))")
        written = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True,
                                 env=os.environ | {"PYTHONPATH": dataset_file.module_path()})
        self.assertEqual(pickle.loads(written.stdout)[2], 4.0)

    def test_the_check_names_the_first_difference(self):
        es.data.check(es.data.dataset(Points()), samples=4)
        with self.assertRaisesRegex(es.UsageError,
                                    "epoch 0, sample 0, array 0: element \\[2\\] is "):
            es.data.check(es.data.dataset(Counting(Points())), samples=4)
        with self.assertRaisesRegex(es.FailedError, "no such picture"):
            es.data.check(es.data.dataset(Raising(Points(16))), samples=16)


class Child:
    """A loader process, with this test in place of a worker."""

    INPUTS = (("x", (6,)), ("label", ()))
    SAMPLE_BYTES = 28

    def __init__(self, file, version=2, inputs=INPUTS):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket = ours
        self.memory = os.memfd_create("samples")
        os.truncate(self.memory, 4 * (8 + self.SAMPLE_BYTES))
        numbers = [theirs.fileno(), self.memory, os.open(file, os.O_RDONLY)]
        environment = os.environ | {"PYTHONPATH": dataset_file.module_path(), "PYTHONHASHSEED": "0"}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "easyscale.data.dataset_loader", *map(str, numbers), str(file)],
            pass_fds=numbers, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        theirs.close()
        os.close(numbers[2])
        message = struct.pack("<IIQQII", version, 4, 1, self.SAMPLE_BYTES, 1, len(inputs))
        begin = 0
        for name, shape in inputs:
            message += struct.pack("<QII", begin, len(shape), len(name))
            message += struct.pack(f"<{len(shape)}Q", *shape) + name.encode()
            begin += 4 * int(np.prod(shape))
        ours.send(message)
        self.answer = ours.recv(1 << 16)

    def fill(self, *indices, half=TRAIN, epoch=0):
        """The kinds of all answers, and the text of the last one."""
        os.pwrite(self.memory, struct.pack(f"<{len(indices)}Q", *indices), 0)
        self.socket.send(struct.pack("<IIIQ", half, 0, len(indices), epoch))
        kinds = []
        for _ in indices:
            answer = self.socket.recv(1 << 16)
            kinds.append(struct.unpack_from("<II", answer))
            if kinds[-1][0] != 2:
                return kinds, answer[8:].decode()
        return kinds, ""

    def sample(self, position):
        data = os.pread(self.memory, self.SAMPLE_BYTES, 4 * 8 + position * self.SAMPLE_BYTES)
        return data[:24], struct.unpack("<i", data[24:])[0]

    def end(self):
        self.socket.close()
        os.close(self.memory)
        return self.process.wait()


class LoaderProcess(FolderCase):
    def start(self, dataset, evaluated=None, **options):
        data = es.data.dataset(Points())
        file = self.folder / "dataset.pickle"
        dataset_file.write(file, data.arrays, {"x": 0, "label": 1}, [dataset, evaluated], {})
        child = Child(file, **options)
        self.addCleanup(child.end)
        return child

    def test_it_writes_the_samples_that_it_is_asked_for(self):
        data = Points()
        child = self.start(data, Points(5))
        self.assertEqual(child.answer, struct.pack("<IIQQ", 1, 0, 64, 5) + bytes([0, 1]))
        self.assertEqual(child.fill(9, 3, 60, epoch=2), ([(2, 0), (2, 1), (2, 2)], ""))
        for position, index in enumerate((9, 3, 60)):
            x, y = sample_of(data, TRAIN, 1, 2, index).values()
            self.assertEqual(child.sample(position), (x.tobytes(), int(y)))
        child.fill(4, half=EVAL)
        x, y = sample_of(Points(5), EVAL, 1, 0, 4).values()
        self.assertEqual(child.sample(0), (x.tobytes(), int(y)))
        child.socket.shutdown(socket.SHUT_RDWR)
        self.assertEqual(child.process.wait(), 0)

    def test_torch_that_is_imported_by_a_sample_is_seeded_for_that_sample(self):
        child = self.start(LateTorch(Points()))
        child.fill(5, 6, 5)
        self.assertEqual(child.sample(0), child.sample(2))
        self.assertNotEqual(child.sample(0), child.sample(1))

    def test_an_error_of_the_dataset_has_its_place(self):
        kinds, text = self.start(Raising(Points())).fill(3, 11)
        self.assertEqual(kinds, [(2, 0), (3, 1)])
        self.assertRegex(text, "^the dataset raises ValueError: no such picture .*at all "
                               "\\(/.*loader_datasets.py:[0-9]+ in __getitem__\\)$")

    def test_a_sample_unlike_the_first_one_is_an_error(self):
        for how, expected in (
                ("shape", "its array 0 is float32 [3]: allowed is float32 [6], as in sample 0"),
                ("type", "its array 0 is float64 [6]: allowed is float32 [6], as in sample 0"),
                ("count", "its arrays are array 0, array 1, array 2: allowed are array 0, array 1, "
                          "as in sample 0"),
                ("overflow", "array 1: sample 14 has the value 1099511627776: allowed is "
                             "-2147483648 to 2147483647"),
                ("text", "its array 1 is str with elements of the type <U4")):
            with self.subTest(how):
                kinds, text = self.start(Differing(Points(), how)).fill(14)
                self.assertEqual(kinds, [(3, 0)])
                self.assertIn(expected, text)

    def test_what_does_not_fit_the_model_is_said_before_the_first_sample(self):
        for options, expected in (
                ({"inputs": (("x", (7,)), ("label", ()))}, "the shape [6]: allowed is [7]"),
                ({"inputs": (("image", (6,)),)}, "no array for the input 'image' of the model"),
                ({"version": 9}, "version 2 of the protocol of loader processes: allowed is 9")):
            with self.subTest(expected):
                child = self.start(Points(), **options)
                self.assertEqual(struct.unpack_from("<II", child.answer), (3, 0))
                self.assertIn(expected, child.answer[8:].decode())


class JobFile(FolderCase):
    def job(self, data, **changes):
        return es.Job(net(), loss=nn.CrossEntropyLoss(), data=data, batch_size=4, max_p=MAX_P,
                      steps=STEPS, optimizer=es.Optimizer("sgd"), **changes)

    def test_the_job_names_the_dataset_and_its_interpreter(self):
        job = self.job(es.data.dataset(Points(), timeout_s=9), eval_data=es.data.dataset(Points(7)))
        table = tomllib.loads(job.toml())["data"]
        self.assertIn(str(self.folder_of_tests()), table.pop("python_path").split(":"))
        self.assertEqual(table, {"kind": "python", "path": "data/dataset.pickle", "samples": 64,
                                 "eval_samples": 7, "python": sys.executable, "timeout_s": 9})

    @staticmethod
    def folder_of_tests():
        return os.path.dirname(os.path.realpath(__file__))

    def test_evaluation_data_must_be_alike(self):
        data = es.data.dataset(Points())
        with self.assertRaisesRegex(es.UsageError,
                                    "eval_data is Arrays: allowed is Dataset, as data"):
            self.job(data, eval_data=es.data.arrays(np.ones((4, 6)), np.ones(4, int)))
        with self.assertRaisesRegex(es.UsageError, "eval_data has the arrays"):
            self.job(data, eval_data=es.data.dataset(Points(4, (3,))))
        other = [(np.ones(6), 1)]
        with self.assertRaisesRegex(es.UsageError, "eval_data: its array 0 is float64"):
            self.job(data, eval_data=es.data.dataset(other))


@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class Train(FolderCase):
    def job(self, dataset, evaluated=None, inputs=6, **changes):
        settings = {"batch_size": 4, "max_p": MAX_P, "steps": STEPS, "metrics": ["accuracy"],
                    "optimizer": es.Optimizer("sgd", learning_rate=0.1), **changes}
        timeout_s = settings.pop("timeout_s", 300)
        eval_data = None if evaluated is None else es.data.dataset(evaluated)
        return es.Job(net(inputs), loss=nn.CrossEntropyLoss(), eval_data=eval_data,
                      data=es.data.dataset(dataset, timeout_s=timeout_s), **settings)

    def digests(self, job, **options):
        run = job.run(progress=False, **options)
        return run.params_digest, run.state_digest, run.evaluations

    def assert_ends(self, process):
        try:
            descriptor = os.pidfd_open(process)
        except ProcessLookupError:
            return
        self.addCleanup(os.close, descriptor)
        self.assertTrue(select.select([descriptor], [], [], DEADLINE_S)[0], "a loader process runs")

    def test_no_bit_depends_on_placements_loaders_and_killed_processes(self):
        fast, other = offered_types()
        names = [str(self.folder / name) for name in "abc"]
        # Every sample is used in each of the three epochs.
        deaths = [(20, "loader", names[0]), (21, "worker", names[1]), (40, "loader", names[2])]
        images = Images()
        run = self.job(images, Images(10), inputs=192).run(devices=f"{fast}:1", progress=False)
        expected = run.params_digest, run.state_digest, run.evaluations
        self.assertEqual(expected[2][-1]["total"], 10)
        self.assertEqual(expected[2][-1]["metric"], "accuracy")
        self.assertEqual(run_json(["eval", str(run.checkpoint), "--device", fast]), expected[2][-1])
        for dataset, options in (
                (images, {"stages": f"{fast}:3@5,{fast}:1+{other}:1", "loaders": 2}),
                (Killing(images, deaths), {"devices": f"{fast}:2", "loaders": 2})):
            found = self.digests(self.job(dataset, Images(10), inputs=192), **options)
            self.assertEqual(found, expected, options)
        self.assertTrue(all(os.path.exists(name) for name in names))

    def test_the_samples_are_those_that_python_computes(self):
        """One global batch has every sample, so its loss does not depend on their order."""
        data = Points(32)
        run = self.job(data, batch_size=8, steps=2).run(progress=False, loaders=2)
        model = net()
        x, y = zip(*(sample_of(data, TRAIN, 1, 0, i).values() for i in range(32)))
        loss = nn.functional.cross_entropy(model(torch.from_numpy(np.stack(x))),
                                           torch.from_numpy(np.stack(y)))
        np.testing.assert_allclose(run.history[0].loss, loss.item(), rtol=1e-5)

    def test_each_loader_is_a_process(self):
        seen = self.folder / "seen"
        seen.mkdir()
        data = Recording(Points(), seen)
        job = self.job(data)
        (seen / str(os.getpid())).unlink()  # the example for the capture
        job.run(devices=f"{offered_types()[0]}:1", loaders=3, progress=False)
        self.assertGreaterEqual(len(list(seen.iterdir())), 2)
        for process in seen.iterdir():
            self.assert_ends(int(process.name))

    def test_what_goes_wrong_names_the_sample(self):
        device = f"{offered_types()[0]}:1"
        points = Points(16)  # one global batch
        for dataset, timeout_s, text in (
                (Raising(points), 60, "training sample 11 of .*dataset.pickle: the dataset raises "
                                      "ValueError: no such picture"),
                # Long enough for the samples before it, also on a busy machine.
                (Hanging(points), 10, "training sample 12 of .* not answered within 10 s"),
                (Exiting(points), 60, "training sample 13 of .* has ended with exit code 3, as 3 "
                                      "before it"),
                (Differing(points, "shape"), 60, "training sample 14 of .*: its array 0 is float32 "
                                                 "\\[3\\]: allowed is float32 \\[6\\]"),
                (Differing(points, "class"), 60, "training sample 14 of .*: array 1: sample 14 has "
                                                 "the value 5: allowed is 0 to 4, and -100"),
                (Growing(points), 60, "data.samples = 16: allowed is 17, the length of the "
                                      "dataset")):
            with self.subTest(text), self.assertRaisesRegex(es.EasyScaleError, text):
                self.job(dataset, timeout_s=timeout_s).run(devices=device, progress=False)
        with self.assertRaisesRegex(es.EasyScaleError, "evaluation sample 11 of .*no such picture"):
            self.job(points, Raising(points)).run(devices=device, progress=False)

    def test_a_failed_job_continues_from_its_checkpoint(self):
        self.enterContext(contextlib.chdir(self.folder))
        device = f"{offered_types()[0]}:1"
        expected = self.digests(self.job(Wrapped(Points())), devices=device)
        repaired, checkpoint = self.folder / "repaired", self.folder / "checkpoint"
        file = self.job(Broken(Points(), self.folder), directory=self.folder / "job").write()

        def run(*options):
            return run_json(["run", str(file), "--devices", device, "--quiet", *options])
        repaired.touch()
        run("--steps", "6", "--checkpoint", str(checkpoint))
        repaired.unlink()
        with self.assertRaisesRegex(es.FailedError, "training sample [0-9]+ of .*: the dataset "
                                                    "raises OSError: the disk is away"):
            run("--from", str(checkpoint))
        repaired.touch()
        kept, = self.folder.glob("*-step-*")  # the state of the failed run, in the working directory
        for state in (checkpoint, kept):
            continued = run("--from", str(state))
            self.assertEqual((continued["params_digest"], continued["state_digest"]), expected[:2])
        dataset = self.folder / "job/data/dataset.pickle"
        dataset.write_bytes(dataset.read_bytes() + b"x")
        with self.assertRaisesRegex(es.UsageError, "another data.path_digest"):
            run("--from", str(checkpoint))


if __name__ == "__main__":
    unittest.main()
