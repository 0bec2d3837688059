#!/usr/bin/env python3
"""Every model and its PyTorch twin load each other's whole state dict, strictly, and compute the
same results from it.

The twins are models of torchvision and transformers if these have the model, at the published size
or with arguments that make it small. The others are those of tests/gpu/models/make_reference.py.
`scripts/setup_pytorch` makes the environment, and without it the test is skipped."""
import sys
from pathlib import Path

import harness
import pytorch_environment

ROOT = Path(__file__).resolve().parents[2]
pytorch_environment.enter()
try:
    import numpy
    import torch
    import torchvision
    import transformers
    from safetensors.torch import load_file, save_file
    sys.path.insert(0, str(ROOT / "tests/gpu/models"))
    import make_reference as reference
except ImportError:
    torch = None

SIDE, CHANNELS, CLASSES = 32, 3, 10
TRAIN, EVAL = 8, 12  # Records of each training file, and of the evaluation file.
USERS, ITEMS, TOKENS, VOCABULARY = 40, 150, 32, 200
TOLERANCE = 2e-4  # Difference of a mean loss, fp32 compared with fp32.


def resnet18():
    from torchvision.models.resnet import BasicBlock
    return reference.ResNet(BasicBlock, 8, [1, 2, 1, 1], CLASSES, True)


def question_answering(kind, **sizes):
    config = getattr(transformers, kind + "Config")(
        vocab_size=VOCABULARY, num_hidden_layers=2, max_position_embeddings=64, **sizes)
    return getattr(transformers, kind + "ForQuestionAnswering")(config)


def bert():
    return question_answering("Bert", hidden_size=128, num_attention_heads=4, intermediate_size=512)


def electra():
    return question_answering("Electra", hidden_size=64, num_attention_heads=2,
                              intermediate_size=128, embedding_size=32)


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=128, n_embd=64, n_layer=2, n_head=4))


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=176, rms_norm_eps=1e-5))


# Model: (size, its twin).
CLASSIFIERS = {
    "mlp": ("tiny", lambda: reference.Mlp(CHANNELS * SIDE * SIDE, 16, CLASSES)),
    "small_cnn": ("tiny", lambda: reference.SmallCnn(SIDE, 4, CLASSES)),
    "resnet18": ("tiny", resnet18),
    "resnet50": ("published", lambda: torchvision.models.resnet50(num_classes=CLASSES)),
    "shufflenetv2": ("published",
                     lambda: torchvision.models.shufflenet_v2_x1_0(num_classes=CLASSES)),
    "vgg19": ("tiny", lambda: reference.vgg(reference.VGG_TINY, 32, CLASSES)),
    "swin_t": ("published", lambda: torchvision.models.swin_t(num_classes=CLASSES)),
}
OTHERS = {
    "yolov3": ("tiny", lambda: reference.YoloV3(4, [1, 1, 2, 1, 1], CLASSES)),
    "neumf": ("tiny", lambda: reference.NeuMF(4, [16, 8, 4], USERS, ITEMS)),
    "bert": ("tiny", bert),
    "electra": ("tiny", electra),
    "gpt2": ("tiny", gpt2),
    "llama": ("tiny", llama),
}
TWINS = {**CLASSIFIERS, **OTHERS}
# Entries that state dicts of transformers had until 4.31 besides those of today.
OLD_BUFFERS = {"bert": "bert.embeddings.position_ids", "electra": "electra.embeddings.position_ids"}

JOB = """
name = "{name}"
max_p = 1
batch_size = 4
steps = 1
seed = 3
level = "D2"

[model]
name = "{model}"
size = "{size}"
classes = {classes}
dropout = {dropout}
{weights}
[data]
{data}

[optimizer]
kind = "sgd"
learning_rate = {rate}

[checkpoint]
directory = "{series}"
every_steps = 1
"""
CIFAR = 'kind = "cifar10"\npath = "{path}"\n'
SYNTHETIC = f"""kind = "synthetic"
height = 64
width = 64
channels = 3
users = {USERS}
items = {ITEMS}
tokens = {TOKENS}
length = {TOKENS}
vocabulary = {VOCABULARY}
samples = 64
eval_samples = 100
"""


class PytorchModels(harness.EndToEndTest):
    def setUp(self):
        if torch is None:
            self.skipTest(pytorch_environment.MISSING)
        super().setUp()
        torch.manual_seed(5)

    def images(self):
        """Random pixels and labels in CIFAR-10 files. Returns those of the evaluation, normalised,
        for PyTorch."""
        path = self.directory / "cifar"
        path.mkdir(exist_ok=True)
        random = harness.seeded_random("images")
        size = SIDE * SIDE * CHANNELS
        for name, count in [*((f"data_batch_{i}.bin", TRAIN) for i in range(1, 6)),
                            ("test_batch.bin", EVAL)]:
            (path / name).write_bytes(b"".join(bytes([i % CLASSES]) + random.randbytes(size)
                                               for i in range(count)))
        records = numpy.frombuffer((path / "test_batch.bin").read_bytes(), "u1")
        records = records.reshape(EVAL, 1 + size)
        images = records[:, 1:].astype("f4").reshape(EVAL, CHANNELS, SIDE, SIDE) / 255
        return path, torch.from_numpy((images - 0.5) / 0.5), torch.from_numpy(
            records[:, 0].astype("i8"))

    def exported(self, model, data, rate, weights=None):
        """Runs one step from weights in a file or from the seed. Returns the summary and the
        exported file."""
        tag = "first" if weights is None else "again"
        job = self.write_job(JOB.format(
            name=f"{model}-{tag}-{self.word}", model=model, size=TWINS[model][0], classes=CLASSES,
            dropout=0.0 if model in ("vgg19", "swin_t", "bert", "electra") else -1.0, data=data,
            rate=rate, series=self.directory / tag,
            weights="" if weights is None else f'weights = "{weights}"'), f"{tag}.toml")
        summary = self.run_job(job, "--devices", self.fast_class() + ":1")
        file = self.directory / f"{tag}.safetensors"
        self.esctl("export", self.directory / tag / summary["job"] / "step-1", file)
        return summary, file

    def check_both_directions(self, model, data):
        """Returns the summary of a job, and its twin with the weights that the job exported."""
        twin = TWINS[model][1]()
        own = {name: t.clone().contiguous() for name, t in twin.state_dict().items()}
        if model in OLD_BUFFERS:
            own[OLD_BUFFERS[model]] = torch.arange(64)[None]
        theirs = self.directory / "theirs.safetensors"
        save_file(own, theirs)
        _, again = self.exported(model, data, 0.0, theirs)
        back = load_file(again)
        for name, p in twin.named_parameters():
            self.assertTrue(torch.equal(back[name], p.detach()), name)
        twin.load_state_dict(back, strict=True)
        summary, ours = self.exported(model, data, 0.01)
        twin.load_state_dict(load_file(ours), strict=True)
        twin.eval()
        return summary, twin

    def check_classifier(self, model):
        path, images, labels = self.images()
        summary, twin = self.check_both_directions(model, CIFAR.format(path=path))
        with torch.no_grad():
            logits = twin(images)
        loss = torch.nn.functional.cross_entropy(logits, labels).item()
        self.assertLess(abs(loss - summary["eval"]["mean_loss"]), TOLERANCE * max(1, loss))
        self.assertEqual(summary["eval"]["total"], EVAL)

    def check_other(self, model):
        summary, twin = self.check_both_directions(model, SYNTHETIC)
        if model == "yolov3":
            self.check_heads(summary, twin)
        if model not in OLD_BUFFERS:
            return
        # The model with which the unit tests compare our outputs is the one of transformers.
        reference.VOCABULARY = VOCABULARY
        written_here = reference.MODELS[model][1]()
        written_here.load_state_dict(twin.state_dict(), strict=True)
        written_here.eval()
        ids = torch.randint(0, VOCABULARY, (3, TOKENS))
        types = torch.randint(0, 2, (3, TOKENS))
        length = torch.tensor([TOKENS, 7, 20])
        mask = (torch.arange(TOKENS)[None] < length[:, None]).long()
        with torch.no_grad():
            real = twin(input_ids=ids, token_type_ids=types, attention_mask=mask)
            ours = written_here(ids, types, length)
        for row, logits in enumerate((real.start_logits, real.end_logits)):
            self.assertLess((ours[:, row] - logits).abs()[mask.bool()].max().item(), 1e-4)

    def check_heads(self, summary, twin):
        """Predictions have the shape and the numbers of the twin's convolutions, whose results it
        gives with the channels last."""
        images, out = self.directory / "images.npz", self.directory / "heads.npz"
        pixels = torch.rand(3, CHANNELS, 64, 64)
        numpy.savez(images, image=pixels.numpy())
        checkpoint = self.directory / "first" / summary["job"] / "step-1"
        self.esctl("predict", checkpoint, images, "--out", out)
        with torch.no_grad():
            heads = [head.permute(0, 3, 1, 2) for head in twin(pixels)]
        found = numpy.load(out)
        for i, head in enumerate(heads):
            ours = torch.from_numpy(found[f"output{i}"])
            self.assertEqual(ours.shape, head.shape)
            self.assertLess((ours - head).abs().max().item(), 1e-4 * head.abs().max().item())

    def test_the_list_is_complete(self):
        shipped = {path.stem.removeprefix("tiny_")
                   for path in (harness.source_root / "configs/jobs").glob("tiny_*.toml")}
        self.assertEqual(shipped | {"mlp", "small_cnn"}, set(TWINS))


for _model in CLASSIFIERS:
    setattr(PytorchModels, f"test_{_model}", lambda self, m=_model: self.check_classifier(m))
for _model in OTHERS:
    setattr(PytorchModels, f"test_{_model}", lambda self, m=_model: self.check_other(m))


if __name__ == "__main__":
    harness.main()
