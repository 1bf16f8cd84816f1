"""Step cost from measurements."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from capsim.catalog.model import Model
from capsim.cost.curve import Curve
from capsim.cost.memo import Memo
from capsim.cost.profile_file import Profile
from capsim.cost.shape import BatchShape
from capsim.cost.step import UNBOUNDED, Factor, Line, StepCost


class ProfileCost(StepCost):
    """Step cost interpolated in a profile's tables.

    A step is the sum of its token part, sequence part, the attention of each chunk and of the decodes, and the host.
    Between measured points everything is linear. For a fixed number of decodes their attention is a piecewise linear
    function of their total context, kept as one row a batch size, so that each line is exact.

    Args:
        profile: checked file.
        model: what the scenario asks for; so are the other three.
        weight_dtype: e.g. ``bfloat16``.
        kv_dtype: e.g. ``bfloat16``.
        tensor_parallel_size: ranks.

    Raises:
        BadInput: the profile was measured for another model, dtype or number of ranks.
    """

    source = "measured"

    def __init__(
        self, profile: Profile, model: Model, weight_dtype: str, kv_dtype: str, tensor_parallel_size: int
    ) -> None:
        profile.check(model, weight_dtype, kv_dtype, tensor_parallel_size)
        self.profile = profile
        stated = profile.provenance
        self.description = (
            f"profile of {stated.model} ({stated.dtype} weights, {stated.kv_dtype} KV) on "
            f"{stated.tensor_parallel_size} x {stated.gpu}, {stated.engine} {stated.engine_version}, "
            f"{stated.date}, by {stated.measured_by}"
        )
        self._token_part = Memo(profile.tokens.at)
        self._sequence_part = Memo(self._sequence_seconds)
        self._decode_part = Memo(self._decode_seconds)
        self._chunk_row = Memo(self._chunk_curve)
        self._decode_row = Memo(self._decode_curve)

    def step(self, batch: BatchShape) -> float:
        """Seconds of one step with this batch."""
        chunks, decodes, context, query_tokens, _, _, _ = batch
        rows = decodes * query_tokens
        if not chunks:
            return self._decode_part[rows] + self._decode_row[decodes].at(context)
        tokens, attention = rows, 0.0
        for new, past in chunks:
            tokens += new
            attention += self._chunk_row[new].at(past)
        if decodes:
            attention += self._decode_row[decodes].at(context)
        return self._token_part[tokens] + self._sequence_part[rows + len(chunks)] + attention

    def line(self, batch: BatchShape) -> Line:
        """Times of the steps from this pure-decode batch on, up to the next measured context."""
        _, decodes, context, query_tokens, _, _, _ = batch
        base = self._decode_part[decodes * query_tokens]
        row = self._decode_row[decodes]
        points = row.points
        index = bisect_right(points, context) - 1
        if index < 0:
            return Line(base + row.values[0], 0.0, (points[0] - context) // decodes + 1)
        slope = row.slopes[index]
        first = base + (row.values[index] + slope * (context - points[index]))
        if index + 1 == len(points):
            return Line(first, slope * decodes, UNBOUNDED)
        return Line(first, slope * decodes, (points[index + 1] - context) // decodes + 1)

    def outside(
        self,
        prefill_tokens: NDArray[np.int64],
        chunks: NDArray[np.int64],
        chunk_past: NDArray[np.int64],
        decodes: NDArray[np.int64],
        context: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Which steps lie outside what was measured, shape (n,); chunks and contexts by their mean in the step."""
        ranges = self.profile.ranges
        per_chunk, per_decode = np.maximum(chunks, 1), np.maximum(decodes, 1)
        columns = (
            ("tokens", prefill_tokens + decodes, True),
            ("sequences", chunks + decodes, True),
            ("new", prefill_tokens / per_chunk, chunks > 0),
            ("past", chunk_past / per_chunk, chunks > 0),
            ("decodes", decodes, decodes > 0),
            ("context", context / per_decode, decodes > 0),
        )
        outside = np.zeros(len(prefill_tokens), dtype=np.bool_)
        for name, column, present in columns:
            low, high = ranges[name]
            outside |= present & ((column < low) | (column > high))
        return outside

    def describe(self) -> Mapping[str, Factor]:
        """How each part is known, with a figure of it: one token, one sequence, the smallest attention, the host."""
        profile, attribution = self.profile, self.profile.provenance.attribution
        figures = {
            "tokens": profile.tokens.values[0],
            "sequences": profile.sequences.values[0],
            "prefill_attention": profile.prefill_attention.values[0][0],
            "decode_attention": profile.decode_attention.values[0][0],
            "host": profile.host,
        }
        return {name: Factor(value, profile.tags[name], attribution) for name, value in figures.items()}

    def _sequence_seconds(self, sequences: int) -> float:
        return self.profile.sequences.at(sequences) + self.profile.host

    def _decode_seconds(self, rows: int) -> float:
        return self._token_part[rows] + self._sequence_part[rows]

    def _chunk_curve(self, new: int) -> Curve:
        """Attention of a chunk of so many tokens, over the tokens before it."""
        return self.profile.prefill_attention.row(new)

    def _decode_curve(self, decodes: int) -> Curve:
        """Attention of so many decodes, over the sum of their contexts."""
        return self.profile.decode_attention.row(decodes, scale=decodes)
