"""A leap as a replica records it: packed numbers while it runs, a table when it is asked for."""

from __future__ import annotations

from struct import Struct

import numpy as np
from numpy.typing import NDArray

from capsim.engine.footprint import Footprint

Leaps = NDArray[np.float64]

LEAP_FIELDS = (
    "start",
    "steps",
    "prefill_tokens",
    "chunks",
    "chunk_past",
    "decodes",
    "context",
    "running",
    "waiting",
    "blocks",
    "first",
    "slope",
    "growth",
    "unfilled",
)
"""See `capsim.fleet.log.LeapColumns`."""

pack_leap = Struct(f"{len(LEAP_FIELDS)}d").pack
"""Bytes of one leap; in place of `unfilled` stands by how many tokens its room differs from that of the blocks held."""


def leap_table(packed: bytes | bytearray, footprint: Footprint) -> Leaps:
    """Packed leaps as a table of shape (m, 14), columns as `LEAP_FIELDS`.

    What blocks have room for is known where a block is full or the last of its sequence: not behind windows.
    """
    leaps: Leaps = np.frombuffer(packed, dtype=np.float64).reshape(-1, len(LEAP_FIELDS)).copy()
    column = dict(zip(LEAP_FIELDS, leaps.T, strict=True))
    tokens = column["context"] + column["chunk_past"] + column["prefill_tokens"]
    room = column["blocks"] * footprint.block_size + column["unfilled"] - tokens
    column["unfilled"][:] = room if footprint.plain else 0
    return leaps
