"""The roofline of models whose layers see a window: by hand, as a line, and in the limit of long windows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.catalog import load_gpu, load_model
from capsim.catalog.gpu import Gpu
from capsim.catalog.model import Model
from capsim.cost import BatchShape, Chunk, Efficiency, RooflineCost
from capsim.cost.step import grown
from tests.cost.test_roofline import IDEAL

TINY = Model(
    "tiny", "sliding-window", 3, 8, 16, 4, 2, 4, 32, False, 128, "by hand", window=6, full_layers=(2,)
)
"""Two layers that see 6 tokens and one that sees all; queries are 16 wide, keys and values 8."""

SLOW = Gpu("slow", 1 << 30, 1000.0, {"bfloat16": 10_000.0}, 100.0, {})
KV_BYTES = 2 * 8 * 2
"""Of one token in one layer: keys and values, 2 bytes an element."""

MODELS = [load_model(name) for name in ("gemma-3-27b", "gpt-oss-20b")]
SHIPPED = [RooflineCost(model, load_gpu("h200")) for model in MODELS]


def decodes(contexts: list[int], window: int) -> BatchShape:
    return BatchShape(
        (),
        len(contexts),
        sum(contexts),
        windowed_context=sum(min(context, window) for context in contexts),
        filling=sum(context < window for context in contexts),
    )


def window_of(cost: RooflineCost) -> int:
    assert cost.operators.windowed_attention is not None
    return cost.operators.windowed_attention.window


def rest(cost: RooflineCost, tokens: int, rows: int) -> float:
    """All of a step beside attention."""
    return cost.operators.token_seconds(tokens) + cost.operators.sequence_seconds(rows)


def test_decodes_by_hand() -> None:
    """Contexts of 4 and 10: the layer that sees all reads 14 tokens, the two others 4 + 6 each."""
    cost = RooflineCost(TINY, SLOW, efficiency=IDEAL)
    reading = (14 + 2 * 10) * KV_BYTES / 1000
    assert cost.step(decodes([4, 10], 6)) == pytest.approx(rest(cost, 2, 2) + reading, rel=1e-12)  # rounding


def test_a_chunk_by_hand() -> None:
    """5 tokens after 4. One layer: 5 + .. + 9 = 35 pairs, 9 tokens read. Two: 5 + 4 * 6 = 29 pairs, and 9 tokens read.

    A pair is 4 * 16 FLOPs, far more than its bytes here.
    """
    cost = RooflineCost(TINY, SLOW, efficiency=IDEAL)
    arithmetic = (35 + 2 * 29) * 4 * 16 / 10_000
    reading = 3 * 9 * KV_BYTES / 1000
    assert reading > arithmetic  # so bytes decide on this GPU; on one of slower arithmetic, the pairs
    chunk = BatchShape((Chunk(5, 4),), 0, 0)
    assert cost.step(chunk) == pytest.approx(rest(cost, 5, 1) + reading, rel=1e-12)
    slower = RooflineCost(TINY, replace(SLOW, dense_flops={"bfloat16": 100.0}), efficiency=IDEAL)
    pairs = (35 + 2 * 29) * 4 * 16 / 100
    assert slower.step(chunk) == pytest.approx(rest(slower, 5, 1) + pairs, rel=1e-12)


def test_kernels_of_both_kinds_of_layers_have_their_own_latency() -> None:
    cost = RooflineCost(TINY, SLOW, efficiency=replace(IDEAL, attention_latency=0.5))
    assert cost.step(decodes([1], 6)) == pytest.approx(rest(cost, 1, 1) + 3 * 0.5, rel=1e-12)


@given(st.sampled_from(SHIPPED), st.lists(st.integers(1, 20_000), min_size=1, max_size=40), st.data())
def test_the_line_is_the_step_of_the_grown_batch(
    cost: RooflineCost, contexts: list[int], data: st.DataObject
) -> None:
    """As long as no decode fills the window: up to the step in which the first one does."""
    window = window_of(cost)
    batch = decodes(contexts, window)
    line = cost.line(batch)
    assert line.first == cost.step(batch)
    to_full = min((window - context for context in contexts if context < window), default=1 << 20)
    steps = data.draw(st.integers(0, min(line.steps - 1, to_full)))
    seconds = line.first + steps * line.slope
    assert seconds == pytest.approx(cost.step(grown(batch, steps)), rel=1e-12)  # rounding
    assert seconds == pytest.approx(cost.step(decodes([c + steps for c in contexts], window)), rel=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
@given(
    contexts=st.lists(st.integers(1, 5000), min_size=1, max_size=40),
    chunks=st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 2000)), max_size=3),
)
def test_a_window_longer_than_all_contexts_changes_nothing(
    model: Model, contexts: list[int], chunks: list[tuple[int, int]]
) -> None:
    """Kernels have no latency here, which windowed layers pay on their own account."""
    long, none = (
        RooflineCost(each, load_gpu("h200"), efficiency=Efficiency(attention_latency=0.0))
        for each in (
            replace(model, window=5000),
            replace(model, attention="gqa", window=None, full_layers=()),
        )
    )
    batch = decodes(contexts, 5000)._replace(chunks=[Chunk(*chunk) for chunk in chunks])
    assert long.step(batch) == pytest.approx(none.step(batch), rel=1e-12)  # rounding


@pytest.mark.parametrize("cost", SHIPPED, ids=[model.name for model in MODELS])
def test_a_decode_past_the_window_adds_to_the_full_layers_alone(cost: RooflineCost) -> None:
    window = window_of(cost)
    short, long = (cost.step(decodes([context] * 64, window)) for context in (20_000, 40_000))
    added = 64 * 20_000 * cost.operators.attention.per_context
    assert long - short == pytest.approx(added, rel=1e-9)  # a difference of two step times
