"""Small replicas whose steps take a second, for the tests of the engine."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from capsim.cost.constant import ConstantCost
from capsim.engine import EngineConfiguration, Replica, Sequence
from capsim.engine.leap import LEAP_FIELDS

SECOND = ConstantCost(1.0)
STEPS, DECODES, BLOCKS = (LEAP_FIELDS.index(name) for name in ("steps", "decodes", "blocks"))


def replica_of(
    blocks: int = 1000, block_size: int = 4, max_num_seqs: int = 8, max_num_batched_tokens: int = 64
) -> Replica:
    return Replica(EngineConfiguration(blocks + 1, block_size, max_num_seqs, max_num_batched_tokens), SECOND)


def leap_table(replica: Replica) -> NDArray[np.float64]:
    """The leaps taken so far, shape (m, 14), columns as `LEAP_FIELDS`."""
    record = replica.leaps()
    return np.column_stack([record.column(name).astype(np.float64) for name in LEAP_FIELDS])


def submit(replica: Replica, time: float, prompt: int, output: int, request: int = 0) -> Sequence:
    sequence = Sequence(request, prompt, output, time)
    replica.submit(sequence, time)
    return sequence


def moments(units: int = 3000, unit: float = 1 / 1009) -> st.SearchStrategy[float]:
    """Times that fall on no step boundary: boundaries are dyadic fractions, these are not."""
    return st.integers(0, units).map(lambda count: (count + 0.37) * unit)
