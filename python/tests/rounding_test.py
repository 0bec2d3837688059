"""Float64 samples that fp32 cannot hold are refused, and ordinary ones are not."""
import unittest

import numpy as np
import support
from easyscale import UsageError, data
from easyscale.data.array_samples import write_array
from easyscale.data.rounding import Rounding

SECONDS = 1.7e9  # since 1970: fp32 has them in steps of 128


def lost(*pieces):
    """The error about an array in pieces; None if it is taken."""
    rounding = Rounding("array 't'")
    for piece in pieces:
        rounding.add(np.asarray(piece))
    try:
        rounding.check()
    except UsageError as error:
        return str(error)
    return None


class RoundingTest(support.FolderCase):
    def test_times_that_become_equal_are_refused_with_the_remedy(self):
        random = np.random.default_rng(1)
        for times in (SECONDS + random.random(64) * 100,
                      SECONDS + np.arange(1000) * 10.0,
                      random.random((64, 1)) * 1e9 + SECONDS + random.random((64, 2)) * 100):
            error = lost(times)
            for part in ("array 't'", "in fp32", "subtract an offset", "float32"):
                self.assertIn(part, error or "")

    def test_only_the_column_that_loses_is_named_and_pieces_are_one_array(self):
        times = SECONDS + np.arange(64) * 10.0
        rows = np.stack([np.linspace(0, 1, 64), times], 1)
        self.assertIn("1700000000.0 and 1700000010.0", lost(rows))
        self.assertIn("of 63 such neighbours", lost(*np.split(times, 4)))

    def test_ordinary_numbers_are_taken(self):
        random = np.random.default_rng(2)
        for numbers in (random.random(100_000), random.normal(size=(100, 7)), np.full(9, 0.1),
                        1 + 1e-15 * random.random(100), np.arange(1e6), 300 + random.random(999),
                        np.sort(random.random(100_000)), SECONDS + random.random(999) * 1e8,
                        np.array([1e30, -1e12, 0.1]), SECONDS + np.arange(99.0) * 128,
                        (SECONDS + random.random(64) * 100).astype(np.float32),
                        np.zeros((0, 3)), np.arange(64) + 2 ** 30):
            self.assertIsNone(lost(numbers), numbers[:3])

    def test_the_writer_of_samples_and_the_reader_of_tables_use_the_rule(self):
        times = SECONDS + np.arange(40) * 3.0
        with self.assertRaisesRegex(UsageError, "array 't'.*subtract an offset"):
            write_array(self.folder / "t.npy", times, "array 't'", None)
        (self.folder / "log.csv").write_text(
            "t,x,y\n" + "".join(f"{t},{i / 10},{i % 2}\n" for i, t in enumerate(times)))
        with self.assertRaisesRegex(UsageError, r"log.csv: column 't': .*subtract an offset"):
            data.table(self.folder / "log.csv", target="y")
        data.table(self.folder / "log.csv", target="y", columns=["x"])
        with self.assertRaisesRegex(UsageError, "array 0.*subtract an offset"):
            data.arrays(times).check_numbers()

    def test_integers_beyond_32_bits_are_refused_with_the_remedy(self):
        with self.assertRaisesRegex(UsageError, "5000000000: allowed is .*subtract an offset"):
            write_array(self.folder / "i.npy", np.array([1, 5_000_000_000]), "array 0", None)


if __name__ == "__main__":
    unittest.main()
