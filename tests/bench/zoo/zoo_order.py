"""Which samples a rank of a job gets in a global step, for a peer that trains on the same ones.

The definition is store/dataset/epoch_sampler.h: an epoch is a permutation by a Feistel network with
rounds of Philox4x32-10, cut into the mini-batches of the ranks.
"""
WORD = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
SHUFFLE, DATA_PATH = 1, 0x64617461  # store/dataset/stream_key.h
FEISTEL_ROUNDS, HALF_BITS_MIN = 8, 4


def philox(counter, key):
    """Four random words of 32 bits."""
    for _ in range(10):
        products = MULTIPLIERS[0] * counter[0], MULTIPLIERS[1] * counter[2]
        counter = (products[1] >> 32 ^ counter[1] ^ key[0], products[1] & WORD,
                   products[0] >> 32 ^ counter[3] ^ key[1], products[0] & WORD)
        key = tuple((k + step) & WORD for k, step in zip(key, KEY_STEPS))
    return counter


def permuted(positions, samples, seed, epoch):
    """The samples at some positions of an epoch."""
    key = philox((SHUFFLE, epoch & WORD, epoch >> 32, DATA_PATH), (seed & WORD, seed >> 32))[:2]
    half = HALF_BITS_MIN
    while 1 << 2 * half < samples:
        half += 1
    return [_permuted(position, samples, half, key) for position in positions]


def _permuted(value, samples, half, key):
    mask = (1 << half) - 1
    while True:
        for feistel_round in range(FEISTEL_ROUNDS):
            left, right = value >> half, value & mask
            word = philox((right & WORD, right >> 32, feistel_round, 0), key)[0]
            value = right << half | left ^ word & mask
        if value < samples:
            return value


def batch(samples, seed, max_p, batch_size, step, rank):
    """The samples of a rank in global step `step` (from 0)."""
    epoch, within = divmod(step, samples // (max_p * batch_size))
    begin = (within * max_p + rank) * batch_size
    return permuted(range(begin, begin + batch_size), samples, seed, epoch)
