from __future__ import annotations

from typing import NamedTuple


class Factor(NamedTuple):
    """Something that multiplies or reduces what the KV cache of a scenario must hold.

    Attributes:
        name: what it is here.
        note: against what.
        tokens_ratio: tokens that the same bytes hold, here to without it; of what the model makes of them, in sequences
            of `max_model_len`.
        concurrency_ratio: requests that the same bytes hold at once, here to without it.
    """

    name: str
    note: str
    tokens_ratio: float
    concurrency_ratio: float
