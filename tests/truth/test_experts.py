"""The comparison of experts' kernels prints, whatever the tables hold."""

from __future__ import annotations

import numpy as np
import pytest

from calibrate.grouped import ExpertTimes
from capsim.catalog import load_gpu
from tests.truth.experts import ROUTING, USED, tables

TOKENS = np.array([1, 16, 256, 4096])


def part(gpu: str, engine: str, dtype: str, ranks: int, shape: tuple[int, ...]) -> ExpertTimes:
    """A table whose times are twice what the factors in use make of them."""
    values = (*shape, 1, ranks)
    columns = {
        **{name: np.full(4, value) for name, value in zip(NAMES, values, strict=True)},
        "tokens": TOKENS,
        "seconds": np.ones(4),
        "routing": np.full(4, ROUTING),
    }
    computed = ExpertTimes.of(columns, load_gpu(gpu), engine, dtype).errors(USED) + 1
    return ExpertTimes.of(columns | {"seconds": 2 * computed}, load_gpu(gpu), engine, dtype)


NAMES = ("hidden", "inter", "topk", "experts", "tp", "ep")


@pytest.fixture
def known() -> ExpertTimes:
    return ExpertTimes.joined(
        [
            part(gpu, engine, dtype, ranks, shape)
            for gpu, engine in (("h100-sxm", "vllm 1"), ("h200", "sglang 2"))
            for dtype in ("bfloat16", "fp8", "w4a16_mxfp4")
            for ranks in (1, 4)
            for shape in ((4096, 14336, 2, 8), (2048, 768, 8, 128))
        ]
    )


def test_what_takes_twice_as_long_is_shown_as_such(known: ExpertTimes) -> None:
    printed = {table.title: table for table in tables(known)}
    assert {row[2:5] for row in printed["Measured over computed"].rows} == {("2.00", "2.00", "2.00")}
    by_table = printed["By table"].rows
    assert len(by_table) == 6
    assert all(row[-1] == "-50% (-50 to -50)" for row in by_table)
    assert [row[0] for row in printed["Left out in turn"].rows] == ["GPU"] * 2 + ["engine"] * 2 + [
        "shape"
    ] * 2
    for table in printed.values():
        assert list(table.text())


def test_latencies_are_found_twice_as_long(known: ExpertTimes) -> None:
    factors = {row[0]: row[1] for row in next(tables(known)).rows}
    assert (factors["expert_latency"], factors["narrow_expert_latency"]) == ("70 us", "100 us")
