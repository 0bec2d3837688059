#!/usr/bin/env python3
"""The parts of scripts/zoo that need no PyTorch: the samples of a rank, and the stored results."""
import tempfile
import unittest

import zoo_order
import zoo_store


class Order(unittest.TestCase):
    def test_the_order_is_that_of_the_engine(self):
        """The same numbers are in tests/store/dataset/epoch_sampler_test.cc."""
        self.assertEqual(zoo_order.batch(60000, 1, 4, 6, 0, 0),
                         [12832, 41647, 24984, 23911, 21975, 3952])

    def test_the_ranks_share_all_samples_of_an_epoch(self):
        for epoch in range(2):
            batches = [zoo_order.batch(24, 7, 2, 4, 3 * epoch + step, rank)
                       for step in range(3) for rank in range(2)]
            self.assertEqual(sorted(sum(batches, [])), list(range(24)))
        self.assertNotEqual(*(zoo_order.permuted(range(24), 24, 7, epoch) for epoch in range(2)))


class Store(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.store = zoo_store.Store(holder.name)
        self.store.write({"family": "timm", "model": "a", "status": "same"})

    def test_a_model_with_a_result_is_not_run_again(self):
        self.assertFalse(self.store.is_wanted("timm", "a", []))
        self.assertFalse(self.store.is_wanted("timm", "a", ["failed"]))
        self.assertTrue(self.store.is_wanted("timm", "b", []))

    def test_a_result_that_is_named_is_wanted_again(self):
        for again in ("same", "all"):
            self.assertTrue(self.store.is_wanted("timm", "a", ["failed", again]))

    def test_a_removed_result_is_gone(self):
        self.store.remove("timm", "a")
        self.store.remove("timm", "b")
        self.assertEqual(self.store.rows(), [])

    def test_results_of_earlier_runs_stay(self):
        kept = self.store.folder / "kept.jsonl"
        self.store.write({"family": "timm", "model": "b", "status": "failed"})
        self.store.write_rows(kept)
        with tempfile.TemporaryDirectory() as folder:
            later = zoo_store.Store(folder, kept)
            self.assertFalse(later.is_wanted("timm", "a", ["failed"]))
            self.assertTrue(later.is_wanted("timm", "b", ["failed"]))
            later.write({"family": "timm", "model": "b", "status": "same"})
            later.write({"family": "users", "model": "c", "status": "same"})
            found = [(row["model"], row["status"]) for row in later.rows()]
            self.assertEqual(found, [("a", "same"), ("b", "same"), ("c", "same")])


if __name__ == "__main__":
    unittest.main()
