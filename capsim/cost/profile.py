"""Step cost from measured tables."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.catalog.model import Model
from capsim.cost.curve import Curve
from capsim.cost.memo import Memo
from capsim.cost.mixed_attention import MixedAttention
from capsim.cost.profile_tables import Profile, Skew
from capsim.cost.shape import BatchShape, Chunk
from capsim.cost.step import UNBOUNDED, Factor, Line, StepCost
from capsim.errors import BadInput

_THOUSANDTHS = 1000
"""Ratios of contexts are compared in whole thousandths, so that a line ends at the same step however it is reached."""
Alphas = tuple[tuple[int, ...], tuple[float, ...]]
"""Of so many decodes: edges of longest over mean context in thousandths, and alpha from each on."""


class ProfileCost(StepCost):
    """Step cost interpolated in a profile's tables.

    A step is the sum of its operators (by tokens, padded to the next captured graph size; and by sequences), its
    attention and the host. Between measured points everything is linear. For a fixed number of decodes their attention
    is piecewise linear in their total context, kept as one row a batch size, so that each line is exact.

    Attention of a step with chunks and decodes is the sum of its parts times how much longer they were measured to take
    together (`MixedAttention`; its chunks count as one of their mean past), or the plain sum where that was not
    measured. Unequal decode lengths cost `Skew` more where that was, by shares of their own beside a chunk.

    Args:
        profile: checked file.
        model: what the scenario asks for; so are the other four.
        weight_dtype: e.g. ``bfloat16``.
        kv_dtype: e.g. ``bfloat16``.
        tensor_parallel_size: ranks.
        expert_parallel: whole experts are dealt out to the ranks, instead of each being split over all.

    Raises:
        BadInput: a model with windowed layers; or the profile was measured for another model, dtype, number of ranks or
            split of the experts.
    """

    def __init__(
        self,
        profile: Profile,
        model: Model,
        weight_dtype: str,
        kv_dtype: str,
        tensor_parallel_size: int,
        *,
        expert_parallel: bool = False,
    ) -> None:
        if model.window is not None:
            what = f"model {model.name}: measured tables of layers with a window are not covered"
            raise BadInput(f"{what}, expected the roofline")
        profile.check(model, weight_dtype, kv_dtype, tensor_parallel_size, expert_parallel)
        self.profile = profile
        stated = profile.provenance
        self.source = "derived" if stated.derived_from else "measured"
        derived = f", derived from {stated.derived_from} kernels" if stated.derived_from else ""
        experts = ", expert-parallel" if stated.expert_parallel else ""
        experts += f", {stated.routing} routing" if stated.routing else ""
        self.description = (
            f"profile of {stated.model} ({stated.dtype} weights, {stated.kv_dtype} KV) on "
            f"{stated.tensor_parallel_size} x {stated.gpu}{experts}{derived}, {stated.engine} {stated.engine_version}, "
            f"{stated.date}, by {stated.measured_by}"
        )
        attention = profile.attention
        self._times = attention.times
        self._skew = attention.skew
        self._mixed_skew = attention.mixed_skew or attention.skew
        self.needs_spread = self._mixed_skew is not None
        self._mixed = MixedAttention(attention, attention.mixed) if attention.mixed else None
        self._token_part = Memo(self._token_seconds)
        self._sequence_part = Memo(self._sequence_seconds)
        self._decode_part = Memo(self._decode_seconds)
        self._chunk_row = Memo(self._chunk_curve)
        self._decode_row = Memo(self._decode_curve)
        self._alphas = Memo(self._alphas_of)
        self._mixed_alphas = Memo(self._mixed_alphas_of)

    def step(self, batch: BatchShape) -> float:
        """Seconds of one step with this batch."""
        chunks, decodes, context, query_tokens, _, _, largest, _ = batch
        rows = decodes * query_tokens
        if not chunks:
            return self._decode_part[rows] + self._decode_attention(decodes, context, largest, self._alphas)
        tokens, attention = rows, 0.0
        for new, past in chunks:
            tokens += new
            attention += self._chunk_row[new].at(past)
        if decodes:
            attention += self._decode_attention(decodes, context, largest, self._mixed_alphas)
            if self._mixed is not None:
                attention *= self._together(chunks, tokens - rows, decodes, context)
        return self._token_part[tokens] + self._sequence_part[rows + len(chunks)] + attention

    def line(self, batch: BatchShape) -> Line:
        """Times of the steps from this pure-decode batch on, up to the next measured context."""
        _, decodes, context, query_tokens, _, _, largest, _ = batch
        base = self._decode_part[decodes * query_tokens]
        row = self._decode_row[decodes]
        first, slope, steps = _ahead(row, context, decodes)
        if self._skew is not None and largest * decodes > context:
            alpha, until = _share(self._alphas[decodes], decodes, context, largest)
            first_longest, slope_longest, steps_longest = _ahead(row, largest * decodes, decodes)
            first += alpha * (first_longest - first)
            slope += alpha * (slope_longest - slope)
            steps = min(steps, steps_longest, until)
        return Line(base + first, slope, steps)

    def parts(self, batch: BatchShape) -> dict[str, float]:
        """Seconds of each operator, of attention and of the host in one step; they add up to `step`."""
        tokens = batch.decodes * batch.query_tokens + sum(chunk.new for chunk in batch.chunks)
        counts = {"tokens": self._padded(tokens), "sequences": batch.decodes + len(batch.chunks)}
        parts = {operator.name: operator.at(counts[operator.per]) for operator in self.profile.operators}
        parts["host"] = self.profile.host
        parts["attention"] = self.step(batch) - sum(parts.values())
        return parts

    def outside(
        self,
        prefill_tokens: NDArray[np.integer[Any]],
        chunks: NDArray[np.integer[Any]],
        chunk_past: NDArray[np.integer[Any]],
        decodes: NDArray[np.integer[Any]],
        context: NDArray[np.integer[Any]],
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
        """How each part is known, with its seconds in a step of one sequence at the shortest measured context."""
        profile, attribution = self.profile, self.profile.provenance.attribution
        figures = {
            operator.name: Factor(operator.at(1), operator.tag, attribution) for operator in profile.operators
        }
        for name, tag in profile.tags.items():
            seconds = {
                "prefill": self._times * profile.attention.prefill.values[0][0],
                "decode": self._times * profile.attention.decode.values[0][0],
                "host": profile.host,
            }.get(name)
            if seconds is not None:
                figures[name if name == "host" else f"{name}_attention"] = Factor(seconds, tag, attribution)
        return figures

    # Parts

    def _together(self, chunks: Sequence[Chunk], new: int, decodes: int, context: int) -> float:
        past = sum(each * before for each, before in chunks) / new
        return self._mixed.ratio(new, past, decodes, context / decodes) if self._mixed else 1.0

    def _decode_attention(self, decodes: int, context: int, largest: int, alphas: Memo[Alphas]) -> float:
        row = self._decode_row[decodes]
        seconds = row.at(context)
        if self.needs_spread and largest * decodes > context:
            alpha, _ = _share(alphas[decodes], decodes, context, largest)
            seconds += alpha * (row.at(largest * decodes) - seconds)
        return seconds

    def _padded(self, tokens: int) -> int:
        """Tokens of the captured graph that runs this batch; the batch's own beyond the largest."""
        sizes = self.profile.graph_sizes
        place = bisect_left(sizes, tokens)
        return sizes[place] if place < len(sizes) else tokens

    def _token_seconds(self, tokens: int) -> float:
        padded = self._padded(tokens)
        return sum(operator.at(padded) for operator in self.profile.operators if operator.per == "tokens")

    def _sequence_seconds(self, sequences: int) -> float:
        operators = self.profile.operators
        counted = sum(operator.at(sequences) for operator in operators if operator.per == "sequences")
        return counted + self.profile.host

    def _decode_seconds(self, rows: int) -> float:
        return self._token_part[rows] + self._sequence_part[rows]

    def _chunk_curve(self, new: int) -> Curve:
        """Attention of a chunk of so many tokens, over the tokens before it."""
        return self.profile.attention.prefill.row(new).times(self._times)

    def _decode_curve(self, decodes: int) -> Curve:
        """Attention of so many decodes, over the sum of their contexts."""
        return self.profile.attention.decode.row(decodes, scale=decodes).times(self._times)

    def _alphas_of(self, decodes: int) -> Alphas:
        """Shares of so many decodes alone."""
        return _alphas(self._skew, decodes)

    def _mixed_alphas_of(self, decodes: int) -> Alphas:
        """Shares of so many decodes beside a chunk."""
        return _alphas(self._mixed_skew, decodes)


def _ahead(row: Curve, context: int, decodes: int) -> tuple[float, float, int]:
    """First step, growth a step, and steps up to the next point of a row whose context grows by `decodes` a step."""
    points = row.points
    index = bisect_right(points, context) - 1
    if index < 0:
        return row.values[0], 0.0, (points[0] - context) // decodes + 1
    slope = row.slopes[index]
    first = row.values[index] + slope * (context - points[index])
    if index + 1 == len(points):
        return first, slope * decodes, UNBOUNDED
    return first, slope * decodes, (points[index + 1] - context) // decodes + 1


def _alphas(skew: Skew | None, decodes: int) -> Alphas:
    if skew is None:
        return (_THOUSANDTHS,), (0.0,)
    axis = skew.decodes
    below = max(0, min(bisect_right(axis, decodes) - 1, len(axis) - 2))
    share = min(1.0, max(0.0, (decodes - axis[below]) / (axis[below + 1] - axis[below])))
    pairs = zip(skew.alpha[below], skew.alpha[below + 1], strict=True)
    edges = tuple(round(_THOUSANDTHS * ratio) for ratio in skew.ratio)
    return edges, tuple(first + share * (second - first) for first, second in pairs)


def _share(alphas: Alphas, decodes: int, context: int, largest: int) -> tuple[float, int]:
    """Alpha of these contexts, and for how many steps it holds; longest over mean falls towards 1."""
    thousandths, shares = alphas
    excess = _THOUSANDTHS * decodes * largest
    index = bisect_right(thousandths, excess // context) - 1
    while excess < thousandths[index] * context:
        index -= 1
    edge = thousandths[index]
    if edge == _THOUSANDTHS:
        return shares[index], UNBOUNDED
    return shares[index], (excess - edge * context) // (decodes * (edge - _THOUSANDTHS)) + 1
