"""Recurrent layers over packed sequences."""
import unittest

import capture_support as support
import easyscale as es
import numpy as np
import torch
from easyscale.tracing import capture, errors
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence
from torch_training import torch_losses

TIME, CLASSES = 6, 3


class Reader(nn.Module):
    """Reads padded sequences of three features; its outputs and last states decide the class."""

    def __init__(self, layer, first_state=False):
        super().__init__()
        self.layer, directions = layer, 1 + layer.bidirectional
        self.is_lstm, width = isinstance(layer, nn.LSTM), layer.proj_size or layer.hidden_size
        shape = (layer.num_layers * directions, 1, width)
        self.start = nn.Parameter(torch.randn(shape)) if first_state else None
        features = 3 * width + (layer.hidden_size if self.is_lstm else 0)
        self.head = nn.Linear(directions * features, CLASSES)

    def first_state(self, samples):
        if self.start is None:
            return None
        h = self.start.expand(-1, samples, -1).contiguous()
        return (h, h.sin()) if self.is_lstm else h

    def forward(self, x, lengths):
        batch_first = self.layer.batch_first
        packed = pack_padded_sequence(x if batch_first else x.transpose(0, 1), lengths.cpu(),
                                      batch_first=batch_first, enforce_sorted=False)
        out, last = self.layer(packed, self.first_state(len(x)))
        assert isinstance(out, PackedSequence)
        out, ends = pad_packed_sequence(out, batch_first=True, total_length=TIME,
                                        padding_value=-0.5)
        states = [h[-1 - self.layer.bidirectional:].transpose(0, 1).flatten(1)
                  for h in (last if self.is_lstm else [last])]
        mean = out.sum(1) / ends.to(x.device)[:, None]
        return self.head(torch.cat([out.amax(1), mean, *states], 1))


def samples(count, seed=5):
    """Sequences, of which no two halves have the same longest one, their lengths and classes."""
    torch.manual_seed(seed)
    lengths = torch.randint(1, TIME + 1, (count,))
    return torch.randn(count, TIME, 3), lengths, torch.randint(0, CLASSES, (count,))


class Packed(unittest.TestCase):
    # Every capture compares loss, outputs and gradients with those of the module.

    def test_all_layers_and_directions(self):
        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            for options in ({}, {"bidirectional": True}, {"num_layers": 2, "bias": False},
                            {"num_layers": 2, "bidirectional": True, "batch_first": True},
                            *([{"proj_size": 2, "bidirectional": True}] if kind is nn.LSTM else [])):
                with self.subTest(kind.__name__, **options):
                    torch.manual_seed(2)
                    x, lengths, labels = samples(8)
                    capture(Reader(kind(3, 4, **options)), nn.CrossEntropyLoss(), (x, lengths), labels)

    def test_first_states_of_the_model(self):
        for kind in (nn.LSTM, nn.GRU):
            with self.subTest(kind.__name__):
                torch.manual_seed(2)
                x, lengths, labels = samples(8)
                layer = kind(3, 4, 2, bidirectional=True, batch_first=True)
                capture(Reader(layer, first_state=True), nn.CrossEntropyLoss(), (x, lengths), labels)

    def test_dropout_between_layers(self):
        x, lengths, labels = samples(8)
        layer = nn.GRU(3, 4, 3, dropout=0.4, batch_first=True)
        captured = capture(Reader(layer), nn.CrossEntropyLoss(), (x, lengths), labels)
        self.assertEqual(support.kinds(captured).count("dropout"), 2)

    def test_it_trains_as_torch_and_padding_has_no_influence(self):
        x, lengths, labels = (s.numpy() for s in samples(24))
        other = np.where(np.arange(TIME)[None, :, None] < lengths[:, None, None], x, 99).astype("f4")
        runs = []
        for sequences in (x, other):
            torch.manual_seed(2)
            model = Reader(nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True))
            job = es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(sequences, lengths, labels),
                         batch_size=24, max_p=1, steps=4,
                         optimizer=torch.optim.Adam(model.parameters(), lr=0.01))
            runs.append(job.run(devices="cpu-scalar:1"))
        self.assertEqual(runs[0].state_digest, runs[1].state_digest)
        torch.manual_seed(2)
        model = Reader(nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True))
        losses = torch_losses(model, torch.optim.Adam(model.parameters(), lr=0.01),
                              nn.CrossEntropyLoss(), (x, lengths, labels), 4)
        np.testing.assert_allclose([step.loss for step in runs[0].history], losses, rtol=1e-5)

    def test_a_length_that_torch_refuses_is_refused(self):
        class Averaged(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.head = nn.GRU(3, 4, batch_first=True), nn.Linear(4, CLASSES)

            def forward(self, x, lengths):
                packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
                out, _ = pad_packed_sequence(self.layer(packed)[0], batch_first=True, total_length=TIME)
                return self.head(out.mean(1))
        x, lengths, labels = (s.numpy() for s in samples(16))
        for wrong in (None, 0, TIME + 1, -1):
            with self.subTest(length=wrong):
                model, given = Averaged(), lengths.copy()
                if wrong is not None:
                    given[11] = wrong
                job = es.Job(model, loss=nn.CrossEntropyLoss(), data=es.data.arrays(x, given, labels),
                             batch_size=4, max_p=1, steps=4, optimizer=es.Optimizer("sgd", 0.1))
                if wrong is None:
                    self.assertEqual(job.run(devices="cpu-scalar:1").steps, 4)
                else:
                    with self.assertRaisesRegex(
                            es.UsageError,
                            f"sample 11 has the value {wrong}: allowed is 1 to {TIME}"):
                        job.run(devices="cpu-scalar:1")

    def refused(self, message, forward):
        model = support.Model(forward)
        model.gru = nn.GRU(2, 8, batch_first=True)
        with self.assertRaisesRegex(errors.CaptureError, message):
            capture(model, nn.MSELoss(), torch.randn(4, 8), torch.randn(4, 8))

    def test_what_depends_on_the_number_of_elements_is_refused(self):
        def packed(m, x):
            return pack_padded_sequence(m.layer(x).view(-1, 4, 2), torch.full((len(x),), 3),
                                        batch_first=True)
        self.refused("elements of a packed sequence", lambda m, x: packed(m, x).data.sum())
        self.refused("elements of a packed sequence", lambda m, x: packed(m, x)[0].sum())
        self.refused("total_length=4, the length", lambda m, x: pad_packed_sequence(
            m.gru(packed(m, x))[0], batch_first=True)[0][:, 0])
        self.refused("total_length=4, .*instead of 5", lambda m, x: pad_packed_sequence(
            m.gru(packed(m, x))[0], batch_first=True, total_length=5)[0][:, 0])
        self.refused("list of sequences", lambda m, x: m.gru(pack_sequence([*m.layer(x)[:, None, :2]]))[1])

    def test_torch_has_its_functions_back(self):
        x, lengths, labels = samples(8)
        capture(Reader(nn.GRU(3, 4)), nn.CrossEntropyLoss(), (x, lengths), labels)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        self.assertEqual(len(packed.data), lengths.sum())
        self.assertEqual(nn.GRU(3, 4)(packed)[1].shape, (1, 8, 4))


if __name__ == "__main__":
    unittest.main()
