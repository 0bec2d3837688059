"""What a model would compute with the other ranks of DistributedDataParallel is refused by name."""
import sys
import unittest

import capture_support as support
import torch
import torch.distributed as dist
import torch.distributed.nn
from easyscale.tracing import capture, errors
from torch import nn
from torch.distributed import get_rank, get_world_size, is_initialized

import easyscale as es


def gathered(z):
    """As contrastive losses gather the samples of all ranks."""
    if not is_initialized() or get_world_size() < 2:
        return z
    others = [torch.zeros_like(z) for _ in range(get_world_size())]
    dist.all_gather(others, z)
    return torch.cat(others)


def logging(m, x):
    """Asks about its rank, and computes the same whatever it is."""
    if not is_initialized() or get_rank() == 0:
        m.asked = True
    return m.layer(x)


COLLECTIVES = {
    "all_reduce": lambda x: dist.all_reduce(x.detach()), "barrier": lambda x: dist.barrier(),
    "broadcast": lambda x: dist.broadcast(x.detach(), 0),
    "all_gather_object": lambda x: dist.all_gather_object([None, None], 1),
    "all_gather_into_tensor": lambda x: dist.all_gather_into_tensor(torch.ones(16, 8), x.detach()),
    "nn.all_gather": lambda x: torch.distributed.nn.functional.all_gather(x),
    "nn.all_reduce": lambda x: torch.distributed.nn.functional.all_reduce(x),
}
DEPENDENT = {
    "world": lambda x: x / (get_world_size() if is_initialized() else 1),
    "rank": lambda x: x * (2.0 if is_initialized() and get_rank() else 1.0),
    "initialized": lambda x: x * 2 if is_initialized() else x,
}


def convolutions():
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.Sequential(nn.BatchNorm2d(3)), nn.Flatten())


class Ranks(unittest.TestCase):
    def capture_images(self, model):
        return capture(model, nn.MSELoss(), torch.randn(4, 1, 5, 5), torch.randn(4, 27))

    def test_a_synchronised_batch_norm_is_refused_with_its_place_and_the_remedy(self):
        model = nn.SyncBatchNorm.convert_sync_batchnorm(convolutions())
        with self.assertRaisesRegex(errors.CaptureError, r"module 1\.0 is a SyncBatchNorm.*BatchNorm, "
                                    "which normalises the mini-batch of each EST.*GroupNorm"):
            self.capture_images(model)
        with self.assertRaisesRegex(es.EasyScaleError, "SyncBatchNorm"):
            es.Job(model, loss=nn.MSELoss(), data=es.data.arrays(
                torch.randn(8, 1, 5, 5), torch.randn(8, 27)), batch_size=4, max_p=2, steps=1,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        self.capture_images(convolutions())

    def test_a_synchronised_batch_norm_in_evaluation_is_local(self):
        model = nn.SyncBatchNorm.convert_sync_batchnorm(convolutions())
        model.train()
        model[1].eval()
        self.assertEqual(self.capture_images(model).program.statistics, [])

    def test_collectives_are_refused_at_their_lines(self):
        for name, collective in COLLECTIVES.items():
            def forward(m, x, collective=collective):
                y = m.layer(x)
                collective(y)
                return y
            with self.subTest(name), self.assertRaisesRegex(
                    errors.CaptureError, r"torch\.distributed at ranks_test\.py:\d+.*batch_size"):
                support.capture_function(forward)

    def test_a_guarded_gather_of_a_loss_is_refused(self):
        def loss(outputs, targets):
            z = gathered(outputs)
            return (z @ z.T).logsumexp(1).mean()
        with self.assertRaisesRegex(errors.CaptureError, "the collective allgather"):
            support.capture_function(lambda m, x: m.layer(x), loss=loss)

    def test_what_depends_on_the_rank_or_the_number_of_ranks_is_refused(self):
        for name, change in DEPENDENT.items():
            with self.subTest(name), self.assertRaisesRegex(
                    errors.CaptureError, "another loss as rank 1 of 2.*ask nothing"):
                support.capture_function(lambda m, x, change=change: change(m.layer(x)))

    def test_questions_without_an_influence_are_no_matter(self):
        self.assertEqual(support.kinds(support.capture_function(logging))[0], "linear")

    def test_what_fails_with_two_ranks_only_is_refused(self):
        def forward(m, x):
            if is_initialized():
                raise ValueError("two ranks")
            return m.layer(x)
        with self.assertRaisesRegex(errors.CaptureError, "fails with two of them .*two ranks"):
            support.capture_function(forward)

    def test_the_process_is_in_no_group_afterwards(self):
        hook = sys.excepthook
        support.capture_function(logging)
        self.assertFalse(is_initialized())
        self.assertIs(sys.excepthook, hook)

    def test_a_process_of_a_group_cannot_capture(self):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            with self.assertRaisesRegex(errors.CaptureError, "belongs to a process group"):
                support.capture_function(logging)
        finally:
            dist.destroy_process_group()


if __name__ == "__main__":
    unittest.main()
