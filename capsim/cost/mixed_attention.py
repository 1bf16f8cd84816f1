from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.cost.profile_tables import Attention, Mixed


class MixedAttention:
    """How much longer one chunk and equal decodes take together than apart.

    Kept as the ratio of the measured mixed time to the sum of its parts: it varies far less over the grid than the
    time itself, so that interpolation errs less, and it leaves the parts exact where a batch has several chunks. Linear
    between measured counts, and outside them the nearest one's: a ratio is no quantity to extrapolate.

    The ratio of all chunks and contexts for one number of decodes is computed once and kept; after that a look-up
    takes three bisections and a weighted sum of eight values.
    """

    def __init__(self, attention: Attention, mixed: Mixed) -> None:
        self._axes = (mixed.new, mixed.past, mixed.context)
        self._decodes = np.asarray(mixed.decodes, dtype=np.float64)
        self._ratios = _ratios(attention, mixed)
        self._slabs: dict[int, Any] = {}

    def ratio(self, new: float, past: float, decodes: int, context: float) -> float:
        """Mixed time over the sum of the parts.

        Args:
            new: tokens of the chunk.
            past: tokens before them.
            decodes: sequences that decode beside it.
            context: tokens of each.
        """
        slab = self._slabs.get(decodes)
        if slab is None:
            slab = self._slabs[decodes] = self._slab(decodes)
        i, u = _locate(self._axes[0], new)
        j, v = _locate(self._axes[1], past)
        k, w = _locate(self._axes[2], context)
        low, high = slab[i], slab[i + 1]
        a, b, c, d = low[j], low[j + 1], high[j], high[j + 1]
        x, y = 1.0 - w, 1.0 - v
        first = y * (x * a[k] + w * a[k + 1]) + v * (x * b[k] + w * b[k + 1])
        second = y * (x * c[k] + w * c[k + 1]) + v * (x * d[k] + w * d[k + 1])
        value: float = first + u * (second - first)
        return value

    def _slab(self, decodes: int) -> Any:
        """Ratios by new, past and context for this number of decodes, as lists: they index faster than arrays."""
        axis = self._decodes
        index = int(np.clip(np.searchsorted(axis, decodes, "right") - 1, 0, len(axis) - 2))
        share = float(np.clip((decodes - axis[index]) / (axis[index + 1] - axis[index]), 0.0, 1.0))
        ratios = self._ratios
        slab: NDArray[np.float64] = ratios[:, :, index] * (1 - share) + ratios[:, :, index + 1] * share
        return slab.tolist()


def _locate(axis: tuple[int, ...], value: float) -> tuple[int, float]:
    """The interval of the axis that a value lies in, and its share of the way through it, cut to [0, 1]."""
    index = bisect_right(axis, value) - 1
    if index < 0:
        return 0, 0.0
    if index >= len(axis) - 1:
        return len(axis) - 2, 1.0
    return index, (value - axis[index]) / (axis[index + 1] - axis[index])


def _ratios(attention: Attention, mixed: Mixed) -> NDArray[np.float64]:
    """``ratio[new][past][decodes][context]`` from the measured seconds."""
    prefill = np.array([[attention.prefill.row(new).at(past) for past in mixed.past] for new in mixed.new])
    decode = np.array(
        [[attention.decode.row(count).at(context) for context in mixed.context] for count in mixed.decodes]
    )
    apart = prefill[:, :, None, None] + decode[None, None, :, :]
    together = np.asarray(mixed.seconds, dtype=np.float64)
    ratios: NDArray[np.float64] = np.divide(together, apart, out=np.ones_like(together), where=apart > 0)
    return ratios
