"""Attention of one layer from aiconfigurator's two tables: prompts without past, and decodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrate.draft import Attention, Grid
from calibrate.importers.aiconfigurator.ceilings import Ceilings, Journal
from calibrate.importers.aiconfigurator.source import Columns, Heads
from calibrate.table import hole_text, holes, pivot
from capsim.catalog.model import DTYPE_BYTES
from capsim.errors import BadInput

_PAST = (0, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
"""Columns of the prefill table. The rule is linear in past up to where reading the KV cache takes over."""


class AttentionTables:
    """The two tables of one kind of heads, with what was not measured filled by a stated rule.

    Args:
        prefill: ``new``, ``seconds``.
        decode: ``decodes``, ``context``, ``seconds``.
        heads: of one rank.
        ceilings: of the GPU.
        journal: what is done is written here.

    Raises:
        BadInput: a table has no rows for these heads, or times in another unit.
    """

    def __init__(
        self, prefill: Columns, decode: Columns, heads: Heads, ceilings: Ceilings, journal: Journal
    ) -> None:
        for name, columns in (("prefill", prefill), ("decode", decode)):
            if len(columns["seconds"]) < 2:
                raise BadInput(f"the table of {name} attention has no rows for {_named(heads)}")
        self._heads = heads
        self._ceilings = ceilings
        self._journal = journal
        self.axes, measured = pivot(
            {name: decode[name] for name in ("decodes", "context")}, decode["seconds"]
        )
        self.decode = self._decode(measured)
        news, seconds = pivot({"new": prefill["new"]}, prefill["seconds"])
        self.new = news["new"]
        self.prefill = self._prefill(seconds)

    def attention(self, layers: int) -> Attention:
        """Both tables; past above 0 is assumed, and lies outside the ranges."""
        prefill = Grid("measured", {"new": self.new, "past": _PAST}, self.prefill)
        return Attention(layers, prefill, Grid("measured", self.axes, self.decode))

    def _decode(self, measured: NDArray[np.float64]) -> NDArray[np.float64]:
        decodes, context = np.asarray(self.axes["decodes"]), np.asarray(self.axes["context"])
        tokens = decodes[:, None] * context
        least = tokens * self._kv_bytes() / self._ceilings.bandwidth
        token_seconds = self._token_seconds(measured, tokens)
        empty = holes(self.axes, measured)
        if empty:
            self._journal.sentences.append(
                f"decode attention: {len(empty)} of {measured.size} cells were not measured "
                f"({hole_text(empty)}): beyond a row's last cell each token of KV is assumed to take what one takes in "
                f"the cell with the most of them ({token_seconds * 1e12:.3g} ps)"
            )
        rows = zip(measured, tokens, strict=True)
        filled = np.asarray([_filled(row, counts, token_seconds) for row, counts in rows])
        return self._journal.settled("decode attention", filled, least)

    def _prefill(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Past KV by the rule: the arithmetic of the added pairs, and never less than reading the whole KV cache."""
        new, past = np.asarray(self.new, dtype=np.float64)[:, None], np.asarray(_PAST, dtype=np.float64)
        pairs = new * (new + 1) / 2
        flops = (
            4 * self._heads.query * self._heads.size
        )  # of a pair: two products, multiplication and addition
        self._ceilings.check_unit(
            "prefill attention",
            float((flops * pairs[:, 0] / seconds).max()),
            self._ceilings.gpu.dense_flops["bfloat16"],
        )
        pair_seconds = seconds[-1] / pairs[-1, 0]
        reading = np.interp(new + past, self.axes["context"], self.decode[0])
        reading = np.where(past > 0, reading, 0.0)
        values = np.maximum(seconds[:, None] + new * past * pair_seconds, reading)
        least = flops * (pairs + new * past) / self._ceilings.arithmetic("bfloat16")
        self._journal.sentences.append(
            "prefill attention was measured without past: each pair of new and past token is assumed to take what a "
            f"pair of the longest prompt takes ({pair_seconds * 1e12:.3g} ps), and a chunk no less than one decode "
            "that reads all its KV"
        )
        return self._journal.settled("prefill attention", values, least)

    def _token_seconds(self, measured: NDArray[np.float64], tokens: NDArray[np.int64]) -> float:
        """Seconds of one token of KV in the measured cell with the most of them."""
        known = np.where(np.isnan(measured), 0, tokens)
        largest = np.unravel_index(np.argmax(known), known.shape)
        seconds = float(measured[largest] / known[largest])
        limit = self._ceilings.gpu.memory_bandwidth
        self._ceilings.check_unit("decode attention", self._kv_bytes() / seconds, limit)
        return seconds

    def _kv_bytes(self) -> int:
        """Of one token in one layer."""
        return 2 * self._heads.key_value * self._heads.size * DTYPE_BYTES[self._heads.kv_dtype]


def _filled(row: NDArray[np.float64], tokens: NDArray[np.int64], token_seconds: float) -> NDArray[np.float64]:
    """A row without holes, over its KV tokens: linear between its cells, the first below, one rate above."""
    known = np.flatnonzero(~np.isnan(row))
    filled = np.interp(tokens, tokens[known], row[known])
    beyond = tokens > tokens[known[-1]]
    filled[beyond] = row[known[-1]] + token_seconds * (tokens[beyond] - tokens[known[-1]])
    return filled


def _named(heads: Heads) -> str:
    return f"{heads.query} query and {heads.key_value} KV heads of {heads.size} with {heads.kv_dtype} KV"
