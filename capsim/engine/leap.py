"""Leaps as a replica records them: packed numbers while it runs, columns when they are asked for."""

from __future__ import annotations

from struct import Struct

import numpy as np
from numpy.typing import NDArray

from capsim.engine.footprint import Footprint

Column = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.int32]

_CODES = {
    "start": "d",
    "steps": "i",
    "prefill_tokens": "i",
    "chunks": "i",
    "chunk_past": "q",
    "decodes": "i",
    "context": "q",
    "running": "i",
    "waiting": "i",
    "blocks": "i",
    "first": "d",
    "slope": "d",
    "growth": "i",
    "unfilled": "q",
}
"""How a field is packed (`struct`): counts in 32 bits, sums over sequences in 64; what is larger is refused."""

LEAP_FIELDS = tuple(_CODES)
"""See `capsim.fleet.log.LeapColumns`."""
COLUMN_TYPES = {name: {"d": np.float64, "i": np.int32, "q": np.int64}[code] for name, code in _CODES.items()}

pack_leap = Struct("=" + "".join(_CODES.values())).pack
"""Bytes of one leap; in place of `unfilled` stands by how many tokens its room differs from that of the blocks held."""

_PACKED = np.dtype([(name, f"={code}") for name, code in _CODES.items()])
BUFFER = 8192 * _PACKED.itemsize
"""Bytes that are packed before they become columns: no more is ever there twice."""


class LeapRecord:
    """The leaps of one replica, in the order in which it took them.

    Columns grow in place by an eighth at a time.

    Attributes:
        count: how many.

    Args:
        footprint: of its sequences.
    """

    def __init__(self, footprint: Footprint) -> None:
        self._footprint = footprint
        self._columns: dict[str, Column] = {name: np.zeros(0, kind) for name, kind in COLUMN_TYPES.items()}
        self.count = 0

    def keep(self, packed: bytearray) -> None:
        """Turn packed leaps into rows and empty them.

        What blocks have room for is known where a block is full or the last of its sequence: not behind windows.
        """
        leaps = np.frombuffer(bytes(packed), dtype=_PACKED)
        rows = slice(self.count, self.count + len(leaps))
        for name, column in self._columns.items():
            if rows.stop > len(column):
                column.resize(max(rows.stop, len(column) * 9 // 8), refcheck=False)
            column[rows] = leaps[name]
        tokens = leaps["context"] + leaps["chunk_past"] + leaps["prefill_tokens"]
        room = leaps["blocks"].astype(np.int64) * self._footprint.block_size + leaps["unfilled"] - tokens
        self._columns["unfilled"][rows] = room if self._footprint.plain else 0
        self.count = rows.stop
        packed.clear()

    def column(self, name: str) -> Column:
        """One of `LEAP_FIELDS`, shape (m,)."""
        found: Column = self._columns[name][: self.count].copy()
        return found

    def release(self, name: str) -> Column:
        """Give a column away, shape (m,), and forget it."""
        column = self._columns.pop(name)
        column.resize(self.count, refcheck=False)
        return column
