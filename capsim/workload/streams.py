from __future__ import annotations

import zlib

import numpy as np


def stream(seed: np.random.SeedSequence, name: str) -> np.random.Generator:
    """Open the random stream `name` of a seed; the same seed and name always give the same numbers.

    Unlike `SeedSequence.spawn` it leaves the seed as it is, so that it does not matter who asks first or how
    often. The key is a checksum of the name, far above the small counters that `spawn` hands out.
    """
    key = (*seed.spawn_key, zlib.crc32(name.encode()))
    return np.random.default_rng(
        np.random.SeedSequence(seed.entropy, spawn_key=key, pool_size=seed.pool_size)
    )
