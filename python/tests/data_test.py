#!/usr/bin/env python3
"""Samples from arrays: types, ranges, pieces and errors."""
import unittest
from unittest import mock

import numpy as np
from support import FolderCase

import easyscale as es
from easyscale.allowed import Allowed
from easyscale.data import array_samples


class Write(FolderCase):
    def written(self, array, allowed=None):
        array_samples.write_array(self.folder / "x.npy", array, "x", allowed)
        return np.load(self.folder / "x.npy")

    def test_numbers_become_fp32_and_integers_have_32_bits(self):
        self.assertEqual(self.written(np.array([0.1])).dtype, np.float32)
        self.assertEqual(self.written(np.array([0.1], ">f8")).dtype.str, "<f4")
        self.assertEqual(self.written(np.array([1], np.float16)).dtype, np.float32)
        self.assertEqual(self.written(np.array([5])).dtype, np.int32)
        self.assertEqual(self.written(np.array([5], np.uint64)).dtype, np.int32)
        self.assertEqual(self.written(np.array([5], np.uint8)).dtype, np.uint8)
        self.assertEqual(self.written(np.array([True])).dtype, np.bool_)

    def test_many_pieces_are_the_whole(self):
        array = np.arange(35, dtype=np.float32).reshape(7, 5)
        with mock.patch.object(array_samples, "CHUNK_BYTES", 80):
            np.testing.assert_array_equal(self.written(array), array)

    def test_a_memory_mapped_file_is_read_in_pieces(self):
        np.save(self.folder / "big.npy", np.arange(12.0).reshape(4, 3))
        mapped = np.load(self.folder / "big.npy", mmap_mode="r")
        np.testing.assert_array_equal(self.written(mapped), np.arange(12.0).reshape(4, 3))

    def test_an_integer_out_of_range_is_named_with_its_sample(self):
        with mock.patch.object(array_samples, "CHUNK_BYTES", 8):
            with self.assertRaisesRegex(es.UsageError, "x: sample 2 has the value 10: allowed is "
                                                       "0 to 9"):
                self.written(np.array([1, 9, 10]), Allowed.between(0, 9))
        with self.assertRaisesRegex(es.UsageError, "sample 1 has the value 2147483648"):
            self.written(np.array([0, 2**31]))

    def test_a_number_that_fp32_has_not_is_refused(self):
        with self.assertRaisesRegex(es.UsageError, "sample 0 has the value 1e\\+300"):
            self.written(np.array([1e300]))
        for number in (np.inf, np.nan):
            with self.assertRaisesRegex(es.UsageError, "sample 1 .*: allowed is a finite number"):
                self.written(np.array([0.5, number]))


class Check(unittest.TestCase):
    def refuses(self, text, *arrays, **named):
        with self.assertRaisesRegex(es.UsageError, text):
            es.data.arrays(*arrays, **named)

    def test_what_is_no_array_is_refused(self):
        self.refuses("array 0 is list", [1, 2])
        self.refuses("y has elements of the type complex128", y=np.zeros(3, complex))
        self.refuses("type <U1", np.array(["a"]))
        self.refuses(r"shape \(\): allowed", np.array(1.0))
        self.refuses("at least one sample", np.zeros((0, 3)))
        self.refuses("there is no array")
        self.refuses("3 in array 0, 4 in array 1", np.zeros(3), np.zeros(4))
        self.refuses("either all arrays with names", np.zeros(3), y=np.zeros(3))

    def test_names_and_counts(self):
        self.assertEqual(es.data.arrays(np.zeros((5, 2)), np.zeros(5)).samples, 5)
        self.assertTrue(es.data.arrays(x=np.zeros(2)).is_named)


if __name__ == "__main__":
    unittest.main()
