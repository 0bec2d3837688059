"""Length buckets: samples of several lengths, and images of several sizes."""
import itertools
import os
import sys
import unittest

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from bucket_datasets import CLASSES, LONGEST, WORDS, Images, Texts
from sample_order import BucketOrder
from support import ElasticCase, FolderCase, offered_types, programs_train_model_files

import easyscale as es
from easyscale.data import bucket_lengths

STEPS, BATCH, MAX_P = 50, 4, 2


class Reader(nn.Module):
    """Attention over the tokens of a text; what is padded has no influence."""

    def __init__(self, for_tokens=False):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 16), nn.Embedding(LONGEST, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, CLASSES)
        self.for_tokens = for_tokens

    def forward(self, input_ids, attention_mask):
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        x = self.layer(x, src_key_padding_mask=attention_mask == 0)
        if self.for_tokens:
            return self.head(x)
        mask = attention_mask[..., None].float()
        return self.head((x * mask).sum(1) / mask.sum(1))


class Seer(nn.Module):
    """Convolutions of images of any size, with running statistics."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def token_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def fewest(lengths, most):
    """The elements of the best buckets, by trying all of them."""
    candidates = sorted({min(-(-x // 8) * 8, max(lengths)) for x in lengths})
    chains = itertools.chain.from_iterable(
        itertools.combinations(candidates, count) for count in range(1, most + 1))
    return min(sum(min(end for end in chain if end >= x) for x in lengths)
               for chain in chains if chain[-1] == candidates[-1])


def padded_like_torch(dataset, samples, padding):
    """A mini-batch that a collate function pads to its longest sample."""
    rows = [dataset[i] for i in samples]
    found = {}
    for key, first in rows[0].items():
        arrays = [torch.as_tensor(np.asarray(row[key])) for row in rows]
        found[key] = torch.stack(arrays) if np.ndim(first) == 0 else nn.utils.rnn.pad_sequence(
            arrays, batch_first=True, padding_value=padding.get(key, 0))
    return found


class Lengths(unittest.TestCase):
    def test_the_chosen_buckets_pad_least(self):
        seed = int(os.environ.get("ES_SEED", 20260101))
        print(f"seed {seed}: replay with ES_SEED={seed}", file=sys.stderr)
        random = np.random.default_rng(seed)
        for _ in range(20):
            lengths, most = random.integers(1, 90, 30), int(random.integers(1, 5))
            found = bucket_lengths.chosen(lengths[:, np.newaxis], most)
            self.assertLessEqual(len(found), most)
            cost = sum(min(x for (x,) in found if x >= length) for length in lengths)
            self.assertEqual(cost, fewest(lengths.tolist(), most))

    def test_a_sample_belongs_to_the_smallest_bucket_that_holds_it(self):
        buckets = bucket_lengths.given([(4, 4), (4, 2), (2, 4), (2, 2)], 2)
        self.assertEqual(buckets, [(4, 4), (4, 2), (2, 2), (2, 4)])
        sizes = np.array([[1, 2], [2, 3], [3, 2], [3, 3]])
        self.assertEqual(bucket_lengths.numbers_of(sizes, buckets).tolist(), [2, 3, 1, 0])

    def test_a_corpus_computes_less_than_half_of_the_padded_tokens(self):
        dataset = Texts(2000)
        self.assertLess(dataset.lengths.mean(), LONGEST / 2.5)
        data = es.data.bucketed(es.data.dataset(dataset), dataset.lengths, buckets=8)
        order = BucketOrder(data.numbers, [0], MAX_P, BATCH, seed=1)
        lengths = [data.buckets[data.numbers[batch[rank * BATCH:][:BATCH]].min()][0]
                   for batch in order.epoch(0) for rank in range(MAX_P)]
        self.assertLess(np.mean(lengths) / LONGEST, 0.45)
        self.assertAlmostEqual(np.mean(lengths) / LONGEST, data.share, delta=0.01)


    def test_samples_of_several_lengths_are_checked(self):
        es.data.check(es.data.dataset(Texts(20)), samples=4)


class Refusals(FolderCase):
    def refuses(self, text, *args, **options):
        with self.assertRaisesRegex(es.UsageError, text):
            es.data.bucketed(*args, **options)

    def test_lengths_and_buckets(self):
        ids = np.zeros((6, 9), np.int64)
        data, lengths = es.data.arrays(ids, np.arange(6)), np.array([3, 9, 1, 2, 5, 4])
        self.refuses("lengths: allowed is the length of each sample", data)
        self.refuses("lengths has 5 elements: allowed are 6", data, lengths[:5])
        self.refuses("sample 2 has 0: allowed is at least 1", data, [1, 1, 0, 1, 1, 1])
        self.refuses("sample 3 has 10: allowed is at most 9", data, [1, 1, 1, 10, 1, 1])
        self.refuses("lengths has the shape", data, lengths.astype(float))
        self.refuses("sample 1 has 9: allowed is what a bucket holds, 8, 4", data, lengths,
                     buckets=[4, 8])
        self.refuses("no sample belongs to 8: allowed are", data, lengths, buckets=[9, 8, 5])
        self.refuses("buckets: 12 is longer than array 0: allowed is at most 9", data, lengths,
                     buckets=[12, 4])
        self.refuses("buckets = 17: allowed is 1 to 16", data, lengths, buckets=17)
        self.refuses("buckets has 17 entries: allowed are 1 to 16", data, lengths,
                     buckets=list(range(1, 18)))
        self.refuses("allowed is each size once", data, lengths, buckets=[9, 9])
        self.refuses("is no size", data, lengths, buckets=[(9, 1)])
        self.refuses("padding: allowed for a dataset", data, lengths, padding={0: 1})
        self.refuses("source is Bucketed", es.data.bucketed(data, lengths), lengths)

    def test_datasets(self):
        texts = es.data.dataset(Texts(20))
        self.refuses("padding: there is no label: allowed are input_ids", texts, padding={"label": -100})
        same = [(np.zeros(3), 1)] * 4
        self.refuses("all samples of the dataset have the same shapes", es.data.dataset(same))
        several = [(np.zeros((n + 1, 2, 3)), np.zeros((2 * n + 1, 5))) for n in range(4)]
        self.refuses("axis 0 of array 0 has several extents", es.data.dataset(several))
        self.refuses("the images have 3 sizes: allowed are at most 2", es.data.dataset(Images(12)),
                     buckets=2)

        class Endless(torch.utils.data.IterableDataset):
            def __len__(self):
                return 5

            def __iter__(self):
                return iter(range(5))
        with self.assertRaisesRegex(es.UsageError, r"itertools.islice\(source, COUNT\)"):
            es.data.dataset(Endless())

    def job(self, data, **options):
        model = Reader()
        return es.Job(model, loss=nn.CrossEntropyLoss(), data=data, batch_size=BATCH, max_p=MAX_P,
                      steps=2, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **options)

    def test_jobs(self):
        data = es.data.bucketed(es.data.dataset(Texts(20)), buckets=2)
        plain = es.data.dataset([Texts(20)[0]] * 4)
        for text, options in {
                "allowed is neither sample_weights nor": {"sample_weights": np.ones(20)},
                "nor sample_groups": {"sample_groups": np.arange(20)},
                "nor lora": {"lora": es.Lora(rank=2, targets=["head"])},
                "allowed is what easyscale.data.bucketed has returned": {"eval_data": plain},
                "allowed is bucketed without buckets": {"eval_data": data}}.items():
            with self.assertRaisesRegex(es.UsageError, text):
                self.job(data, **options)
        longer = es.data.bucketed(es.data.dataset([{
            "input_ids": np.ones(n, int), "attention_mask": np.ones(n, int), "labels": 0}
            for n in (5, LONGEST + 1)]))
        with self.assertRaisesRegex(es.UsageError, "lengths of eval_data: sample 1 has 65"):
            self.job(data, eval_data=longer)
        few = es.data.bucketed(es.data.dataset(Texts(7)))
        with self.assertRaisesRegex(es.UsageError, "data has 7 samples in the buckets"):
            self.job(few)


@unittest.skipUnless(programs_train_model_files(), "no programs that train model files")
class Training(ElasticCase):
    def job(self, dataset, name, for_tokens=False, buckets=4, **options):
        torch.manual_seed(3)
        model = Reader(for_tokens)
        options = {"steps": STEPS, "directory": self.folder / name} | options
        data = es.data.bucketed(es.data.dataset(dataset), buckets=buckets,
                                padding={"labels": -100} if for_tokens else None)
        job = es.Job(model, loss=token_loss if for_tokens else nn.CrossEntropyLoss(), data=data,
                     batch_size=BATCH, max_p=MAX_P,
                     optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), **options)
        return model, data, job

    def torch_losses(self, model, dataset, data, loss, padding):
        """Data-parallel training with dynamic padding."""
        order = BucketOrder(data.numbers, [0], MAX_P, BATCH, seed=1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        losses = []
        for step in range(STEPS):
            optimizer.zero_grad()
            parts = []
            for rank in range(MAX_P):
                batch = padded_like_torch(dataset, order.batch(step, rank)[0], padding)
                labels = batch.pop("labels")
                part = loss(model(**batch), labels)
                (part / MAX_P).backward()
                parts.append(part.item())
            optimizer.step()
            losses.append(np.mean(parts))
        return losses

    def test_training_is_that_of_pytorch_with_dynamic_padding(self):
        fast, other = offered_types()
        for for_tokens in (False, True):
            with self.subTest(for_tokens=for_tokens):
                dataset = Texts(120, for_tokens=for_tokens)
                model, data, job = self.job(dataset, f"job{for_tokens}", for_tokens)
                self.assertEqual(len(job.captured.program.programs), len(data.buckets) - 1)
                run = job.run(stages=f"{fast}:1", progress=False)
                mixed = job.run(stages=f"{fast}:2@20,{other}:1", progress=False)
                self.assertEqual((run.params_digest, run.state_digest),
                                 (mixed.params_digest, mixed.state_digest))
                losses = self.torch_losses(model, dataset, data,
                                           token_loss if for_tokens else nn.CrossEntropyLoss(),
                                           {"labels": -100})
                found = [line.loss for line in run.history]
                self.assertLess(np.abs(np.array(found) - losses).max(), 2e-4)
                for name, value in run.state_dict().items():
                    expected = model.state_dict()[name]
                    self.assertLess((torch.as_tensor(value) - expected).abs().max(), 2e-4, name)

    def test_padded_arrays_give_the_bits_of_a_dataset(self):
        dataset = Texts(60)
        whole = padded_like_torch(dataset, range(60), {})
        torch.manual_seed(3)
        model = Reader()
        data = es.data.bucketed(es.data.arrays(**{key: x.numpy() for key, x in whole.items()}),
                                dataset.lengths, buckets=4)
        job = es.Job(model, loss=nn.CrossEntropyLoss(), data=data, batch_size=BATCH, max_p=MAX_P,
                     optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), steps=20)
        fast, _ = offered_types()
        run = job.run(stages=f"{fast}:1", progress=False)
        other = self.job(dataset, "other", steps=20)[2].run(stages=f"{fast}:1", progress=False)
        self.assertEqual((run.params_digest, run.state_digest),
                         (other.params_digest, other.state_digest))

    def test_more_than_padding_behind_a_length_is_refused(self):
        ids = np.tile(np.arange(8), (10, 1))
        lengths = np.full(10, 8)
        lengths[4] = 3
        data = es.data.bucketed(es.data.arrays(input_ids=ids, attention_mask=np.ones_like(ids),
                                               labels=np.zeros(10, int)), lengths, buckets=[8, 3])
        model = Reader()
        job = es.Job(model, loss=nn.CrossEntropyLoss(), data=data, batch_size=2, max_p=1, steps=2,
                     optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        with self.assertRaisesRegex(es.UsageError, "input_ids: sample 4 has the length 3, and 4 at place "
                                                   "4: allowed is one value"):
            job.run(progress=False)

    def test_an_evaluation_computes_each_sample_in_its_bucket(self):
        fast, other = offered_types()
        dataset = Texts(60, for_tokens=True)
        held_out = Texts(23, seed=1, for_tokens=True)
        model, _, job = self.job(dataset, "job", True, steps=4, metrics=["accuracy"],
                                 eval_data=es.data.bucketed(es.data.dataset(held_out)))
        runs = [job.run(stages=stages, progress=False) for stages in (f"{fast}:1", f"{other}:2")]
        runs[0].load_into(model)
        model.eval()
        losses, right = [], []
        with torch.no_grad():
            for i in range(len(held_out)):
                batch = padded_like_torch(held_out, [i], {})
                labels = batch.pop("labels")[0]
                logits = model(**batch)[0]
                losses += F.cross_entropy(logits, labels, reduction="none").tolist()
                right += (logits.argmax(1) == labels).tolist()
        for run in runs:
            found = run.evaluations[-1]
            self.assertAlmostEqual(found["mean_loss"], np.mean(losses), places=4)
            self.assertAlmostEqual(found["accuracy"], np.mean(right), places=6)

    def test_images_of_several_sizes(self):
        fast, other = offered_types()
        images = Images(90)
        torch.manual_seed(3)
        model = Seer()
        data = es.data.bucketed(es.data.dataset(images), [images.size(i) for i in range(90)])
        self.assertEqual(data.buckets, ((12, 8), (8, 8), (8, 12)))
        job = es.Job(model, loss=nn.CrossEntropyLoss(), data=data,
                     eval_data=es.data.bucketed(es.data.dataset(Images(20, seed=2))),
                     batch_size=BATCH, max_p=MAX_P, steps=20, metrics=["accuracy"],
                     optimizer=torch.optim.SGD(model.parameters(), lr=0.05))
        run = job.run(stages=f"{fast}:1", progress=False)
        mixed = job.run(stages=f"{fast}:2@7,{other}:1", progress=False)
        self.assertEqual((run.params_digest, run.state_digest),
                         (mixed.params_digest, mixed.state_digest))
        self.assertEqual(run.evaluations, mixed.evaluations)

    def test_a_worker_that_is_killed_a_pause_and_other_devices_change_no_bit(self):
        fast, other = offered_types()
        _, _, job = self.job(Texts(120), "job", steps=1200, checkpoint_every=50)
        run = self.disturbed(job, f"{fast}:2@200,{other}:1+{fast}:1", pause_at=60)
        whole = job.run(stages=f"{fast}:1", progress=False)
        self.assertEqual((run.params_digest, run.state_digest),
                         (whole.params_digest, whole.state_digest))


if __name__ == "__main__":
    unittest.main()
