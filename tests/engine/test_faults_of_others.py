"""Faults that simulators of serving engines have shipped, each as a case that this one must get right."""

from __future__ import annotations

import math
from collections.abc import Sequence as Many

import numpy as np

from capsim.engine import EngineConfiguration, Replica, Sequence
from capsim.engine.leap import LEAP_FIELDS
from capsim.engine.sequence import Path
from capsim.fleet import FleetConfiguration, Outcome
from capsim.fleet.simulation import simulate
from tests.engine.replicas import SECOND, leap_table
from tests.fleet.workload import requests_of

PREFIX: Path = ((1, 40),)
"""Ten blocks of 4 tokens, five times the budget of a step below."""


def engine(
    blocks: int = 100,
    max_num_batched_tokens: int = 8,
    *,
    caching: bool = True,
    reserve_full_prompt: bool = True,
) -> EngineConfiguration:
    return EngineConfiguration(
        blocks + 1,
        4,
        8,
        max_num_batched_tokens,
        reserve_full_prompt=reserve_full_prompt,
        enable_prefix_caching=caching,
    )


def served(
    configuration: EngineConfiguration, requests: Many[tuple[float, int, int, Path]]
) -> tuple[Replica, list[Sequence]]:
    replica = Replica(configuration, SECOND)
    sequences = [
        Sequence(number, prompt, output, time, path)
        for number, (time, prompt, output, path) in enumerate(requests)
    ]
    for sequence in sequences:
        replica.submit(sequence, sequence.submitted)
    replica.advance(math.inf)
    assert all(sequence.generated == sequence.output for sequence in sequences)
    return replica, sequences


def computed(replica: Replica) -> int:
    """Tokens computed in all steps."""
    leaps = dict(zip(LEAP_FIELDS, leap_table(replica).T, strict=True))
    return int((leaps["steps"] * (leaps["prefill_tokens"] + leaps["decodes"])).sum())


def test_a_prompt_computed_in_chunks_is_found_whole() -> None:
    """Contents hashed from the beginning of each chunk would be found up to the first chunk's end only."""
    _, (first, second) = served(engine(), [(0.0, 41, 1, PREFIX), (20.0, 41, 1, PREFIX)])
    assert (first.first_token, second.cached, second.first_token) == (6.0, 40, 21.0)


def test_the_cache_is_consulted_for_more_than_the_first_chunk() -> None:
    """50 tokens behind a shared prefix of 40 and a budget of 8: the prefix costs no budget, the rest takes 2 steps."""
    _, (_, second) = served(engine(), [(0.0, 41, 1, PREFIX), (20.0, 50, 1, PREFIX)])
    assert (second.cached, second.scheduled, second.first_token) == (40, 20.0, 22.0)


def test_a_starved_pool_serves_no_more_than_an_ample_one() -> None:
    """Twelve sequences of 8 blocks at once: blocks that stayed known after they were taken would make them free."""
    requests = [(0.0, 16, 17, ()) for _ in range(12)]
    owed = sum(prompt + output - 1 for _, prompt, output, _ in requests)
    (starved, kept), (ample, others) = (served(engine(blocks, 64), requests) for blocks in (16, 400))
    assert sum(sequence.preemptions for sequence in kept) > 0
    assert sum(sequence.preemptions for sequence in others) == 0
    assert computed(ample) == owed
    found = sum(sequence.found for sequence in kept)
    recomputed = sum(sequence.recomputed for sequence in kept)
    assert found > 0
    assert computed(starved) == owed + recomputed
    assert max(sequence.finish for sequence in kept) > max(sequence.finish for sequence in others)


def test_a_prompt_longer_than_the_pool_is_refused_and_the_run_ends() -> None:
    """Waiting for blocks that can never come, it would hold up those behind it for ever."""
    rows = [(0.0, 10, 5), (1.0, 401, 5), (2.0, 10, 5)]
    log = simulate(requests_of(rows), FleetConfiguration(1), engine(caching=False), SECOND)
    assert log.requests.outcome.tolist() == [Outcome.COMPLETED, Outcome.REJECTED, Outcome.COMPLETED]
    assert not np.isnan(log.requests.finish[[0, 2]]).any()
    assert log.blocks_left == 0


def test_admission_by_first_chunk_preempts_more_and_computes_more_again() -> None:
    """Prompts of 10 blocks that start with 2 of a pool of 24 get in each other's way; asking for all does not."""
    requests = [(0.0, 40, 30, ()) for _ in range(6)]
    totals = []
    for reserve in (True, False):
        configuration = engine(24, caching=False, reserve_full_prompt=reserve)
        _, sequences = served(configuration, requests)
        totals.append(
            (
                sum(sequence.preemptions for sequence in sequences),
                sum(sequence.recomputed for sequence in sequences),
            )
        )
    (preemptions, recomputed), (more_preemptions, more_recomputed) = totals
    assert preemptions < more_preemptions
    assert recomputed < more_recomputed
