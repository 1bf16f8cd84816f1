"""The KV cache of one run: how full it was, what was found in it, and what was computed twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import LeapColumns, RunLog, TierTraffic
from capsim.measure.latency import failed, user_latencies
from capsim.measure.leaps import (
    leap_durations,
    leap_parts,
    mean_blocks,
    mean_over_time,
    mean_unfilled,
    most_blocks,
)
from capsim.measure.percentile import Distribution, Part, percentiles_in_parts

LEVELS = 8
"""Into so many levels, at most, a leap's rise is cut where percentiles over time are taken."""
NANOSECONDS = 1e9
"""In a second. Percentiles count whole ones: a step takes a million of them."""


@dataclass(frozen=True)
class Level:
    """How high something stood on a replica over the time in which it worked; NaN without steps.

    Attributes:
        mean: over time.
        p95: at most so high in 95 % of the time.
        max: ever.
    """

    mean: float
    p95: float
    max: float


@dataclass(frozen=True)
class TierUse:
    """What one tier of KV offload did in the whole run, warm-up included, summed over replicas.

    Attributes:
        name: of the tier.
        hit_tokens: found there and loaded.
        hit_rate: as a share of the prompt tokens of all completed requests; NaN without any.
        stored_blocks, stored_tokens: written to it.
        loaded_blocks, loaded_tokens: read from it.
        evicted_blocks: that left it for want of room.
        loading_time: seconds that sequences waited for their blocks, summed.
    """

    name: str
    hit_tokens: int
    hit_rate: float
    stored_blocks: int
    stored_tokens: int
    loaded_blocks: int
    loaded_tokens: int
    evicted_blocks: int
    loading_time: float

    @classmethod
    def of(cls, traffic: TierTraffic, block_size: int, queries: int) -> TierUse:
        """Count blocks as tokens too, and hits as a share of `queries` prompt tokens."""
        return cls(
            name=traffic.name,
            hit_tokens=traffic.hit_tokens,
            hit_rate=_ratio(traffic.hit_tokens, queries),
            stored_blocks=traffic.stored,
            stored_tokens=traffic.stored * block_size,
            loaded_blocks=traffic.loaded,
            loaded_tokens=traffic.loaded * block_size,
            evicted_blocks=traffic.evicted,
            loading_time=traffic.loading_time,
        )


@dataclass(frozen=True)
class KvCache:
    """The KV cache of one run.

    Blocks are those that running sequences hold; a block that several hold counts once, and a free one that
    still keeps its content counts nowhere. Tokens are of the measured requests that were completed, evictions
    and tiers of the whole run, warm-up included.

    Attributes:
        pool_blocks: blocks that a replica can hold.
        blocks: held by a replica. Along a leap they rise evenly here. So the mean is off by at most half of
            what decodes took along a leap, the p95 by at most one block a decode and half a level of the
            rise; the most is exact. All are too high where windows freed blocks inside leaps.
        pool_share: the same as a share of the pool.
        unfilled_share: of the room in the blocks held, what had no token yet, mean over time; NaN without
            steps, and where layers have windows or states, of which the log does not tell it.
        query_tokens: prompt tokens, all of which are looked for in the prefix cache.
        hit_tokens: of those, found there at the first admission.
        hit_rate: their share; NaN without a completed request.
        found_tokens: tokens found again, here or in tiers, at admissions after preemptions.
        recomputed_tokens: tokens computed again after preemptions: those lost less those found again.
        recomputed_share: their share of all tokens that prefill computed for these requests, but for the one
            new token that each resumption computes; NaN if there were none.
        evictions: blocks taken while somebody could still have asked for their content, over replicas.
        tiers: of KV offload, the nearest first.
        warm_ttft: users' TTFT of requests that found or loaded a part of their prompt, seconds; None if there
            was none.
        cold_ttft: of the other requests; None where none was warm, since it then is the TTFT of all.
        warm_prompt, cold_prompt: mean tokens of their prompts, which may explain more of the difference than
            the cache does; NaN without such requests.
    """

    pool_blocks: int
    blocks: Level
    pool_share: Level
    unfilled_share: float
    query_tokens: int
    hit_tokens: int
    hit_rate: float
    found_tokens: int
    recomputed_tokens: int
    recomputed_share: float
    evictions: int
    tiers: tuple[TierUse, ...]
    warm_ttft: Distribution | None
    cold_ttft: Distribution | None
    warm_prompt: float
    cold_prompt: float

    @classmethod
    def of(cls, log: RunLog, leaps: LeapColumns, measured: NDArray[np.bool_]) -> KvCache:
        """Summarize a run.

        Args:
            log: what the run recorded.
            leaps: those of its leaps over which occupancy is taken.
            measured: which requests count, shape (n,).
        """
        requests, completed, blocks = log.requests, ~failed(log), _blocks_held(leaps)
        rows = completed & measured
        queries, hits = log.samples * int(requests.prompt[rows].sum()), int(requests.cached[rows].sum())
        recomputed = int(requests.recomputed[rows].sum())
        computed = queries - hits - int(requests.loaded[rows].sum()) + recomputed
        found = requests.cached + requests.loaded > 0
        warm, cold = rows & found, rows & ~found
        split = bool(warm.any())
        all_queries = log.samples * int(requests.prompt[completed].sum())
        return cls(
            pool_blocks=log.pool_blocks,
            blocks=blocks,
            pool_share=Level(*(_ratio(height, log.pool_blocks) for height in astuple(blocks))),
            unfilled_share=_unfilled_share(leaps, log.block_size),
            query_tokens=queries,
            hit_tokens=hits,
            hit_rate=_ratio(hits, queries),
            found_tokens=int(requests.found[rows].sum()),
            recomputed_tokens=recomputed,
            recomputed_share=_ratio(recomputed, computed),
            evictions=int(log.evictions.sum()),
            tiers=tuple(TierUse.of(traffic, log.block_size, all_queries) for traffic in log.tiers),
            warm_ttft=Distribution.of(user_latencies(log).ttft[warm]) if split else None,
            cold_ttft=Distribution.of(user_latencies(log).ttft[cold]) if split else None,
            warm_prompt=_ratio(int(requests.prompt[warm].sum()), int(warm.sum())),
            cold_prompt=_ratio(int(requests.prompt[cold].sum()), int(cold.sum())),
        )


def _blocks_held(leaps: LeapColumns) -> Level:
    def parts() -> Iterator[Part]:
        return (_levels(part) for _, part in leap_parts(leaps))

    p95 = percentiles_in_parts(parts, [95])[0]
    return Level(mean_over_time(leaps, mean_blocks), p95, float(most_blocks(leaps).max(initial=0)))


def _levels(leaps: LeapColumns) -> Part:
    """Blocks held at each level of each leap, and for how many nanoseconds."""
    blocks, growth, durations = leaps.blocks, leaps.growth, leap_durations(leaps)
    levels = np.minimum(growth + 1, LEVELS)
    leap = np.repeat(np.arange(len(levels)), levels)
    place = np.arange(len(leap)) - np.repeat(np.cumsum(levels) - levels, levels)
    held = blocks[leap] + growth[leap] * place / np.maximum(1, levels[leap] - 1)
    return held, np.rint(durations[leap] / levels[leap] * NANOSECONDS).astype(np.int64)


def _unfilled_share(leaps: LeapColumns, block_size: int) -> float:
    """Room without a token over all room in the blocks held, both summed over time."""
    if block_size > 1 and not leaps.unfilled.any():
        return float("nan")
    room = block_size * mean_over_time(leaps, mean_blocks)
    return _ratio(mean_over_time(leaps, lambda part: mean_unfilled(part, block_size)), room)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
