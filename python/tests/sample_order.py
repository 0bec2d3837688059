"""The order of the samples of a job in length buckets, as docs/ARITHMETIC.md defines it."""
import numpy as np

MASK = 0xFFFFFFFF
SHUFFLE, BUCKET_SHUFFLE, BUCKET_CUT = 1, 16, 17  # store/dataset/stream_key.h


def philox(counter, key):
    """Philox4x32-10."""
    x, (k0, k1) = list(counter), key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(p1 >> 32) ^ x[1] ^ k0, p1 & MASK, (p0 >> 32) ^ x[3] ^ k1, p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return x


def stream_key(seed, stream, index):
    return philox((stream, index & MASK, index >> 32, 0x64617461), (seed & MASK, seed >> 32))[:2]


def permuted(n, key, position):
    """Element `position` of the keyed permutation of [0, n)."""
    half = 4
    while 1 << 2 * half < n:
        half += 1
    value = position
    while True:
        for turn in range(8):
            left, right = value >> half, value & ((1 << half) - 1)
            word = philox((right & MASK, right >> 32, turn, 0), key)[0]
            value = right << half | (left ^ (word & ((1 << half) - 1)))
        if value < n:
            return value


class BucketOrder:
    """The samples of every step and rank; `numbers` has the bucket of each sample, and `ladders` the
    first bucket of each ladder."""

    def __init__(self, numbers, ladders, max_p, batch_size, seed):
        self.numbers, self.batch_size, self.seed = np.asarray(numbers), batch_size, seed
        self.ladders, self.global_batch = ladders, max_p * batch_size
        self.steps = len(self.epoch(0))

    def epoch(self, epoch):
        """The global batches of an epoch."""
        batches, buckets = [], self.numbers.max() + 1
        for index, (first, end) in enumerate(zip(self.ladders, [*self.ladders[1:], buckets])):
            row = []
            for bucket in range(first, end):
                members = np.flatnonzero(self.numbers == bucket)
                key = stream_key(self.seed, BUCKET_SHUFFLE, 16 * epoch + bucket)
                row += [int(members[permuted(len(members), key, i)]) for i in range(len(members))]
            low, high = philox((index, 0, 0, 0), stream_key(self.seed, BUCKET_CUT, epoch))[:2]
            cut, left_out = (high << 32 | low) * len(row) >> 64, len(row) % self.global_batch
            gone = {(cut + i) % len(row) for i in range(left_out)}
            row = [sample for place, sample in enumerate(row) if place not in gone]
            batches += [row[i:i + self.global_batch] for i in range(0, len(row), self.global_batch)]
        key = stream_key(self.seed, SHUFFLE, epoch)
        return [batches[permuted(len(batches), key, k)] for k in range(len(batches))]

    def batch(self, step, rank):
        """The samples of a mini-batch, and its bucket."""
        whole = self.epoch(step // self.steps)[step % self.steps]
        samples = whole[rank * self.batch_size:(rank + 1) * self.batch_size]
        return samples, int(self.numbers[samples].min())
