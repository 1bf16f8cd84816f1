"""The work of the engine by counts, which are the same on every machine: never by seconds."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from capsim.cost.constant import ConstantCost
from capsim.cost.linear import LinearCost
from capsim.engine import EngineConfiguration
from tests.bench.load import Load
from tests.bench.measurement import Measurement, leaping, plain

COST = LinearCost(base=5.5e-3, per_prefill_token=3.2e-5, per_context_token=3.5e-8)
STEP = ConstantCost(5e-3)
AMPLE = EngineConfiguration(1 << 30, max_num_seqs=1024)


@pytest.mark.parametrize("rate", [1, 4, 10, 20, 28, 33, 100])
@pytest.mark.parametrize(
    ("blocks", "ragged"), [(30_000, False), (30_000, True), (6_000, True), (2_000, True)]
)
def test_at_most_three_plans_a_request(rate: float, blocks: int, ragged: bool) -> None:
    """One for its prompt, one from there to the next event, one from its end on: whatever the load.

    Preemption adds plans of its own, one for the step that takes KV away and one for the prompt computed again, but
    only at loads where many requests share their plans.
    """
    measured = leaping(Load(rate, EngineConfiguration(blocks), COST, ragged=ragged), 1500)
    assert measured.plans_per_request <= 3
    assert measured.preemptions == 0 or rate >= 10


def at_equal_load(output: int) -> Measurement:
    """About 3 requests at a time: 2.5 a second of 256 tokens, or as many tokens in longer outputs."""
    return leaping(Load(2.5 * 256 / output, AMPLE, STEP, output=output), 2000)


def at_equal_rate(output: int) -> Measurement:
    """A request a second: a batch of 5 for each 1,000 tokens of output."""
    return leaping(Load(1.0, AMPLE, STEP, output=output), 2000)


def test_work_does_not_depend_on_output_length() -> None:
    """8 times longer outputs at equal load: as many plans, each touching as many sequences.

    Not to the last digit: at 2.5 arrivals a second every 80th step sees one, and events that fall into one step share
    a plan. Hence 5 %.
    """
    short, long = at_equal_load(256), at_equal_load(2048)
    assert long.steps > 7 * short.steps
    assert long.plans_per_request == pytest.approx(short.plans_per_request, rel=0.05)
    assert long.touched_per_plan == pytest.approx(short.touched_per_plan, rel=0.05)


def test_work_does_not_depend_on_batch_size() -> None:
    """Batches of 5, 40 and 320: three plans a request, and it is touched twice, as a prompt and at its end.

    2.9 and not 3, because one event in 100 falls into the step of another and shares its plan, and because a request
    that finds the engine idle cuts no plan: one in 150 at the smallest batch.
    """
    for output in (1_000, 8_000, 64_000):
        measured = at_equal_rate(output)
        assert 2.9 < measured.plans_per_request <= 3
        assert measured.touched == 2 * measured.requests


def test_the_plain_replica_touches_every_token() -> None:
    """What the counts would be without leaps and sums: each request once a step, so once a token."""
    load = Load(10.0, EngineConfiguration(30_000), COST)
    measured = plain(load, 200)
    assert measured.touched == 200 * 256
    assert leaping(load, 200).touched == 2 * 200


def calls(load: Load, count: int) -> int:
    """Function calls, Python's and C's, that serving `count` requests takes: nothing is left out of this count."""
    total = 0

    def count_call(frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG001
        nonlocal total
        total += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        leaping(load, count)
    finally:
        sys.setprofile(before)
    return total


def test_function_calls_depend_neither_on_output_length_nor_on_batch_size() -> None:
    """The count that trusts no counter of the engine's own.

    8 times longer outputs at equal load to 5 %, as above. For batches of 5, 40 and 320 to 10 %: a request that finds
    the engine idle saves a plan, and one in 150 does so in the smallest batch.
    """
    short, long = (
        calls(Load(2.5 * 256 / output, AMPLE, STEP, output=output), 1000) for output in (256, 2048)
    )
    assert long == pytest.approx(short, rel=0.05)
    batches = [calls(Load(1.0, AMPLE, STEP, output=output), 1000) for output in (1_000, 8_000, 64_000)]
    assert max(batches) < 1.1 * min(batches)


@pytest.mark.parametrize("turns", [1, 20])
def test_a_shared_prompt_costs_by_its_parts_and_not_by_its_blocks(turns: int) -> None:
    """8,192 tokens in 512 blocks or in 64: as many function calls, to the 5 % by which the plans differ."""
    small, large = (
        calls(
            Load(
                3.0,
                EngineConfiguration(480_000 // block, block, enable_prefix_caching=True),
                COST,
                8192,
                128,
                prefixes=16,
                turns=turns,
            ),
            500,
        )
        for block in (16, 128)
    )
    assert small == pytest.approx(large, rel=0.05)


def test_the_cache_costs_few_calls_where_nothing_is_shared() -> None:
    """Each piece of work on the pool is one more call when its order is kept: 10 % of all calls, no more than 15."""
    off, on = (
        calls(Load(20.0, EngineConfiguration(30_000, enable_prefix_caching=on), COST), 1000)
        for on in (False, True)
    )
    assert off < on < 1.15 * off
