from __future__ import annotations

import math

import numpy as np
import pytest

from capsim.fleet.log import RunLog, TierTraffic
from capsim.measure.kv_cache import KvCache, Level
from capsim.measure.leaps import Occupancy, leaps_since
from tests.measure.run_logs import leap, request, run_log, served


def kv_cache(log: RunLog, cut: int = 0) -> KvCache:
    return KvCache.of(log, log.leaps, np.arange(len(log.requests.arrival)) >= cut)


def alone(*leaps: dict[str, float], **others: object) -> RunLog:
    return run_log([served(0.0, 1.0, 2.0, 9.0)], list(leaps), **others)


def test_occupancy_over_time() -> None:
    # 18 s at 4 blocks and 2 s at 10 blocks, of 16.
    cache = kv_cache(alone(leap(1.0, 9.0, steps=2, blocks=4), leap(19.0, 2.0, blocks=10), pool_blocks=16))
    assert cache.blocks == Level(mean=4.6, p95=10.0, max=10.0)
    assert cache.pool_share == Level(mean=0.2875, p95=0.625, max=0.625)
    assert cache.pool_blocks == 16


def test_p95_counts_time_and_not_leaps() -> None:
    # 19 short leaps at 10 blocks take 5 % of the time together.
    short = [leap(95.0 + i / 4, 0.25, blocks=10) for i in range(20)]
    assert kv_cache(alone(leap(0.0, 95.0, blocks=4), *short)).blocks.p95 == 4.0
    assert kv_cache(alone(leap(0.0, 90.0, blocks=4), *short)).blocks.p95 == 10.0


def test_blocks_that_decodes_take_along_a_leap_count() -> None:
    # From 10 to 17 blocks in 8 levels of an eighth of the time each.
    log = alone(leap(0.0, 1.0, steps=113, decodes=1, blocks=10, growth=7))
    cache = kv_cache(log)
    assert cache.blocks == Level(mean=13.5, p95=17.0, max=17.0)
    occupancy = Occupancy.of(log.leaps)
    assert (occupancy.blocks_mean, occupancy.blocks_max) == (13.5, 17)


@pytest.mark.parametrize("growth", [1, 5, 70, 1000])
def test_a_rise_is_within_its_bound(growth: int) -> None:
    """Against each step of a leap of one decode that takes one block in every step but the first."""
    held = 3 + np.arange(growth + 1)
    blocks = kv_cache(alone(leap(0.0, 1.0, steps=growth + 1, blocks=3, growth=growth))).blocks
    assert blocks.max == held[-1]
    assert abs(blocks.mean - held.mean()) <= growth / 2
    exact = float(np.quantile(held, 0.95, method="inverted_cdf"))
    assert abs(blocks.p95 - exact) <= 1 + growth / 7 / 2  # a block a decode, and half of one of 7 levels


def test_room_without_a_token() -> None:
    # Blocks of 16: 1 block with 5 free places after the first step, 2 with 5 - 9 + 16 = 12 after the tenth:
    # means of 8.5 in 24 places over 10 s. Then 2 of 32 for 30 s: 145 of 1,200 place-seconds.
    log = alone(
        leap(0.0, 1.0, steps=10, blocks=1, growth=1, unfilled=5), leap(10.0, 30.0, blocks=2, unfilled=2)
    )
    assert kv_cache(log).unfilled_share == pytest.approx(145 / 1200, rel=1e-12)  # rounding of two means


def test_room_that_the_log_does_not_tell_is_no_figure() -> None:
    assert math.isnan(kv_cache(alone(leap(0.0, 1.0, blocks=9, unfilled=0))).unfilled_share)
    assert kv_cache(alone(leap(0.0, 1.0, unfilled=0), block_size=1)).unfilled_share == 0.0


def reused() -> RunLog:
    """Three requests served, the first in the warm-up, and one rejected; two found a part of their prompt."""
    requests = [
        served(0.0, 1.0, 2.0, 9.0, prompt=100, cached=64, recomputed=50, found=32, preemptions=1),
        served(1.0, 2.0, 2.5, 9.0, prompt=100, cached=48, recomputed=10, found=16, preemptions=2),
        served(2.0, 3.0, 4.0, 9.0, prompt=50),
        request(3.0, prompt=900),
    ]
    tier = TierTraffic("CPU memory", hit_tokens=25, stored=7, loaded=2, evicted=1, loading_time=0.5)
    return run_log(requests, [], evictions=np.array([3, 4]), tiers=(tier,))


def test_hits_are_of_the_measured_requests() -> None:
    cache = kv_cache(reused(), cut=1)
    assert (cache.query_tokens, cache.hit_tokens, cache.hit_rate) == (150, 48, 0.32)
    assert (cache.recomputed_tokens, cache.found_tokens) == (10, 16)
    assert cache.recomputed_share == 10 / (52 + 50 + 10)
    assert kv_cache(reused()).hit_tokens == 112


def test_evictions_and_tiers_are_of_the_whole_run() -> None:
    cache = kv_cache(reused(), cut=1)
    assert cache.evictions == 7
    (tier,) = cache.tiers
    assert (tier.name, tier.hit_tokens, tier.hit_rate) == ("CPU memory", 25, 0.1)
    assert (tier.stored_blocks, tier.stored_tokens) == (7, 112)
    assert (tier.loaded_blocks, tier.loaded_tokens) == (2, 32)
    assert (tier.evicted_blocks, tier.loading_time) == (1, 0.5)


def test_warm_and_cold_requests_apart() -> None:
    # Users' TTFT is (first token - arrival) + 0.25 s.
    cache = kv_cache(reused())
    assert cache.warm_ttft is not None
    assert cache.cold_ttft is not None
    assert (cache.warm_ttft.count, cache.warm_ttft.mean, cache.warm_ttft.p99) == (2, 2.0, 2.25)
    assert (cache.cold_ttft.count, cache.cold_ttft.p50) == (1, 2.25)
    assert (cache.warm_prompt, cache.cold_prompt) == (100.0, 50.0)


def test_a_prompt_from_a_tier_is_warm() -> None:
    loaded = run_log([served(0.0, 1.0, 2.0, 9.0, prompt=40, loaded=32)], [])
    cache = kv_cache(loaded)
    assert cache.warm_ttft is not None
    assert cache.warm_ttft.count == 1
    assert cache.cold_ttft is not None
    assert (cache.cold_ttft.count, cache.hit_tokens) == (0, 0)


def test_nobody_warm_is_no_split() -> None:
    cache = kv_cache(alone(leap(0.0, 1.0)))
    assert (cache.warm_ttft, cache.cold_ttft) == (None, None)
    assert cache.hit_rate == 0.0


def test_a_run_without_completed_requests_has_no_shares() -> None:
    cache = kv_cache(run_log([request(0.0, prompt=30)], []))
    assert (cache.query_tokens, cache.recomputed_tokens, cache.blocks.max) == (0, 0, 0.0)
    figures = (
        cache.hit_rate,
        cache.recomputed_share,
        cache.blocks.mean,
        cache.blocks.p95,
        cache.unfilled_share,
    )
    assert all(math.isnan(figure) for figure in figures)


def test_occupancy_is_of_the_leaps_given() -> None:
    log = alone(leap(0.0, 1.0, blocks=9), leap(5.0, 1.0, blocks=2))
    late = KvCache.of(log, leaps_since(log.leaps, 5.0), np.array([True]))
    assert late.blocks == Level(2.0, 2.0, 2.0)
