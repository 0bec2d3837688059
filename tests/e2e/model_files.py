"""A small model file with its weights and its data, written with nothing but Python."""
import array
import json
import os
import signal
import struct

import harness

SIDE, CLASSES, FILTERS = 8, 4, 6
TRAIN, EVAL = 160, 40
ENDLESS = 1_000_000


class Program:
    """The JSON form of a model, value by value."""

    def __init__(self, name):
        self.json = {"format": 1, "producer": "a test", "name": name, "values": [], "inputs": [],
                     "parameters": [], "statistics": [], "constants": [], "nodes": [],
                     "outputs": []}
        self.weights = {}  # Name -> (shape, values) of the state dict.

    def value(self, shape, kind="f32"):
        """`shape`: extents; "B" is the mini-batch."""
        dims = [{"size": 1, "perBatch": True} if extent == "B" else
                {"size": extent, "perBatch": False} for extent in shape]
        self.json["values"].append({"type": kind, "dims": dims})
        return len(self.json["values"]) - 1

    def input(self, name, shape, kind="f32", high=0):
        value = self.value(["B", *shape], kind)
        self.json["inputs"].append({"name": name, "value": value, "low": 0, "high": high})
        return value

    def parameter(self, name, shape, values, aliases=()):
        value = self.value(shape)
        self.json["parameters"].append({"name": name, "value": value, "aliases": list(aliases)})
        for each in (name, *aliases):
            self.weights[each] = (shape, values)
        return value

    def statistic(self, name, size, variance):
        self.json["statistics"].append({"name": name, "size": size, "isVariance": variance})
        self.weights[name] = ([size], [float(variance)] * size)
        return len(self.json["statistics"]) - 1

    def node(self, kind, inputs, shape, **attributes):
        output = self.value(shape)
        self.json["nodes"].append({
            "kind": kind, "name": attributes.pop("name", ""), "source": "net.py:1",
            "inputs": list(inputs), "outputs": [output],
            "attributes": [{"name": name, **_attribute(value)}
                           for name, value in attributes.items()]})
        return output


def _attribute(value):
    if isinstance(value, bool):
        return {"flag": value}
    if isinstance(value, int):
        return {"integer": value}
    if isinstance(value, float):
        return {"number": value}
    if isinstance(value, str):
        return {"text": value}
    return {"integers": value}


def small_net(random, noise=False):
    """A convolution with batch norm, dropout and a classifier, which has every kind of state.

    `noise`: normal numbers are added to the features, also in evaluation.
    """
    net = Program("small_net")

    def uniform(count, bound):
        return [random.uniform(-bound, bound) for _ in range(count)]

    image = net.input("image", [1, SIDE, SIDE])
    label = net.input("label", [], "i32", CLASSES - 1)
    weight = net.parameter("conv.weight", [FILTERS, 1, 3, 3], uniform(FILTERS * 9, 0.3))
    gamma = net.parameter("bn.weight", [FILTERS], [1.0] * FILTERS)
    beta = net.parameter("bn.bias", [FILTERS], [0.0] * FILTERS)
    features = FILTERS * SIDE * SIDE // 4
    fc_weight = net.parameter("fc.weight", [CLASSES, features], uniform(CLASSES * features, 0.1),
                              aliases=["head.weight"])
    fc_bias = net.parameter("fc.bias", [CLASSES], [0.0] * CLASSES)
    mean = net.statistic("bn.running_mean", FILTERS, False)
    variance = net.statistic("bn.running_var", FILTERS, True)
    planes = ["B", FILTERS, SIDE, SIDE]
    half = ["B", FILTERS, SIDE // 2, SIDE // 2]
    x = net.node("conv", [image, weight], planes, name="conv", stride=[1, 1], padding=[1, 1],
                 dilation=[1, 1], groups=1)
    x = net.node("batch_norm", [x, gamma, beta], planes, name="bn", eps=1e-5, momentum=0.1,
                 mean=mean, variance=variance)
    x = net.node("relu", [x], planes)
    x = net.node("max_pool", [x], half, kernel=[2, 2], stride=[2, 2], padding=[0, 0],
                 dilation=[1, 1], ceil=False)
    x = net.node("reshape", [x], ["B", features])
    x = net.node("dropout", [x], ["B", features], p=0.1, site=0)
    if noise:
        normal = net.node("normal", [], ["B", features], site=1)
        normal = net.node("mul_scalar", [normal], ["B", features], value=0.25)
        x = net.node("add", [x, normal], ["B", features])
    logits = net.node("linear", [x, fc_weight, fc_bias], ["B", CLASSES], name="fc")
    loss = net.node("cross_entropy", [logits, label], [], ignore_index=-100,
                    label_smoothing=0.0, reduction="mean")
    net.json["loss"] = loss
    net.json["outputs"].append({"name": "logits", "value": logits})
    return net


def tiny_decoder(random, vocabulary, length, width=16, heads=2):
    """A language model of one block, with the inputs ids and labels."""
    net = Program("tiny_decoder")
    row, head = ["B", length, width], width // heads

    def weights(name, shape, bound=0.25):
        count = shape[0] * shape[1]
        return net.parameter(name, shape, [random.uniform(-bound, bound) for _ in range(count)])

    def split(x, name):
        x = net.node("linear", [x, weights(f"{name}.weight", [width, width]), -1], row, name=name)
        x = net.node("reshape", [x], ["B", length, heads, head])
        return net.node("permute", [x], ["B", heads, length, head], order=[0, 2, 1, 3])

    ids = net.input("ids", [length], "i32", vocabulary - 1)
    labels = net.input("labels", [length], "i32", vocabulary - 1)
    embedded = net.node("embedding", [weights("wte.weight", [vocabulary, width]), ids], row)
    x = net.node("add", [embedded, weights("wpe.weight", [length, width])], row)
    normed = net.node("layer_norm", [x, -1, -1], row, axes=1, eps=1e-5)
    seen = net.node("attention", [*(split(normed, name) for name in "qkv"), -1, -1, -1],
                    ["B", heads, length, head], causal=True, scale=head**-0.5, dropout=0.0, site=0)
    seen = net.node("permute", [seen], ["B", length, heads, head], order=[0, 2, 1, 3])
    seen = net.node("reshape", [seen], row)
    x = net.node("add", [x, net.node("linear", [seen, weights("o.weight", [width, width]), -1],
                                     row)], row)
    logits = net.node("linear", [x, weights("head.weight", [vocabulary, width]), -1],
                      ["B", length, vocabulary], name="head")
    classes = net.node("permute", [logits], ["B", vocabulary, length], order=[0, 2, 1])
    net.json["loss"] = net.node("cross_entropy", [classes, labels], [], ignore_index=-100,
                                label_smoothing=0.0, reduction="mean")
    net.json["outputs"].append({"name": "logits", "value": logits})
    return net


def npy_bytes(descr, shape, data):
    axes = "".join(f"{extent}, " for extent in shape)
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def write_npy(path, descr, shape, data):
    path.write_bytes(npy_bytes(descr, shape, data))


def write_safetensors(path, weights):
    header, data = {}, b""
    for name, (shape, values) in weights.items():
        content = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_images(directory, random):
    """Images of each class around a pattern of its own, as arrays."""
    patterns = [[random.uniform(-1, 1) for _ in range(SIDE * SIDE)] for _ in range(CLASSES)]
    for half, count in (("train", TRAIN), ("eval", EVAL)):
        (directory / half).mkdir(parents=True)
        labels = [random.randrange(CLASSES) for _ in range(count)]
        pixels = array.array("f", (p + random.gauss(0, 0.5) for label in labels
                                   for p in patterns[label]))
        write_npy(directory / half / "image.npy", "<f4", [count, 1, SIDE, SIDE], pixels.tobytes())
        write_npy(directory / half / "label.npy", "<i8", [count],
                  struct.pack(f"<{count}q", *labels))


def read_safetensors(path):
    """Reads metadata and name -> array. This does not need the package safetensors."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    data = content[8 + size:]
    types = {"F32": "<f4", "I64": "<i8"}
    metadata = header.pop("__metadata__")
    return metadata, {
        name: (tensor["dtype"], tensor["shape"], types[tensor["dtype"]],
               data[slice(*tensor["data_offsets"])])
        for name, tensor in header.items()}


class ModelFileCase(harness.EndToEndTest):
    """What tests of jobs with a model file share."""

    def pack(self, model, file):
        """Writes the model file of a JSON form, and returns its digest."""
        path = self.directory / "model.json"
        path.write_text(json.dumps(model))
        return self.esctl("models", "pack", path, "-o", file, "--json").json["digest"]

    def write_model_job(self, keys, tables, name="job.toml"):
        """Writes a job file; `tables` begins with what else is in [model]."""
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        model = '[model]\nfile = "net.esmodel"\nweights = "weights.safetensors"\n'
        return self.write_job(text + model + tables, name)

    def check_killed_worker(self, job):
        """One of two workers of a job of ENDLESS steps is killed; the bits are those of one
        device."""
        fast = self.fast_class()
        daemon = self.start_daemon(devices=f"{fast}:2")
        name = daemon.submit(job, "--stages", f"{fast}:2@{ENDLESS}")
        before = daemon.wait_for(name, "two workers", lambda d: d["steps"] >= 20 and len(
            d["workers"]) == 2 and all(w["pid"] for w in d["workers"]))
        victim = before["workers"][0]["pid"]
        os.kill(victim, signal.SIGKILL)
        daemon.wait_for(name, "another worker", lambda d: d["state"] == "running"
                        and d["steps"] > before["steps"] + 20 and len(d["workers"]) == 2
                        and victim not in [w["pid"] for w in d["workers"]])
        taken = daemon.json("checkpoint", name)
        daemon.esctl("cancel", name)
        daemon.stop()
        self.assert_bits_of_fixed_run(job, taken, fast)

    def assert_one_error(self, job, code, *fragments):
        ended = self.esctl("run", job, "--quiet", code=code)
        self.assertEqual(len(ended.err.splitlines()), 1, str(ended))
        for fragment in fragments:
            self.assertIn(str(fragment), ended.err)
        self.assert_nothing_left()
