"""What a run leaves behind: columns, one row a request, a leap, a resumed gap, a change of a replica's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.engine.leap import LEAP_FIELDS, LeapRecord
from capsim.engine.offload import OffloadTier
from capsim.fleet.configuration import FlowControl, Latencies

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Counts = NDArray[np.int32]
Outcomes = NDArray[np.int8]


class Outcome(IntEnum):
    """How a request ended."""

    COMPLETED = 0
    REJECTED = 1
    """It can never run: longer than `max_model_len` or than the whole KV pool. Or the gateway's queue was full."""
    LOST = 2
    """Its replica died, and its retries were spent or no replica was left."""
    UNFINISHED = 3
    """The run was ended before the request was."""


class ReplicaState(IntEnum):
    """What a replica is doing."""

    UP = 0
    DOWN = 1
    LOADING = 2


@dataclass(frozen=True)
class RequestColumns:
    """One row a request, shape (n,); times are seconds, NaN where the event did not happen.

    A request that generates several sequences (``n``) begins with the first of them and ends with the last; counts are
    sums over them. Engine-internal times are taken at the engine; what the user observes adds the run's `Latencies`.
    Columns are there to be read: where all rows are alike, one value may stand for all.

    Attributes:
        arrival: submission by the client.
        held: seconds in the gateway's queue, over all attempts.
        submitted: handed to the engine that served it (the last attempt).
        scheduled: start of the step that first worked on it (the last attempt).
        first_token: end of the step that made its first token, at the engine.
        finish: end of the step that made its last token, at the engine.
        service: from `scheduled` to `finish`, summed over its sequences.
        prompt, output: tokens asked for.
        priority: smaller goes first where the engine heeds it; 0 where the demand states none.
        cached: tokens found in the prefix cache when it was first admitted (the last attempt).
        loaded: tokens found in tiers of KV offload then, and loaded.
        found: tokens found in either when it was admitted again after preemptions.
        recomputed: tokens computed again after preemptions: lost less found, and so below 0 where a prompt that was
            preempted half-way finds more of itself than it had.
        preemptions: how often its KV was taken away.
        attempts: how often it was handed to a replica.
        replica: index of the replica that served it last, -1 if none did.
        outcome: an `Outcome`.
    """

    arrival: Floats
    held: Floats
    submitted: Floats
    scheduled: Floats
    first_token: Floats
    finish: Floats
    service: Floats
    prompt: Integers
    output: Integers
    priority: Integers
    cached: Integers
    loaded: Integers
    found: Integers
    recomputed: Integers
    preemptions: Integers
    attempts: Counts
    replica: Counts
    outcome: Outcomes


@dataclass(frozen=True)
class LeapColumns:
    """One row a leap, shape (m,): `steps` consecutive steps of one batch, step i taking ``first + i * slope``.

    There are several leaps a request, so counts have 32 bits here: products and sums of them need 64.

    Attributes:
        replica: which replica.
        start: seconds.
        steps: how many.
        prefill_tokens, chunks, chunk_past: tokens computed by prefill chunks, number of chunks, tokens before them.
        decodes: sequences that made one token in every step.
        context: sum of the decodes' contexts in the first step, tokens.
        running: sequences in the batch.
        waiting: sequences in the queue when the leap ended; none left it before.
        blocks: KV blocks held in the first step.
        first, slope: seconds.
        growth: KV blocks that the steps after the first one took; what windows freed meanwhile is not deducted.
        unfilled: tokens that the blocks held had room for after the first step; 0 where layers have windows or states.
    """

    replica: Counts
    start: Floats
    steps: Counts
    prefill_tokens: Counts
    chunks: Counts
    chunk_past: Integers
    decodes: Counts
    context: Integers
    running: Counts
    waiting: Counts
    blocks: Counts
    first: Floats
    slope: Floats
    growth: Counts
    unfilled: Integers

    @classmethod
    def of(cls, replicas: Sequence[LeapRecord]) -> LeapColumns:
        """Columns from each replica's leaps, of which only these are kept, so that they are not there twice."""
        counts = [record.count for record in replicas]
        columns: dict[str, Any] = {}
        for name in LEAP_FIELDS:
            parts = [record.release(name) for record in replicas]
            columns[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        indices = np.arange(len(replicas), dtype=np.int32)
        replica = np.broadcast_to(indices, counts[0]) if len(replicas) == 1 else np.repeat(indices, counts)
        return cls(replica=replica, **columns)


@dataclass(frozen=True)
class StateChange:
    """A replica entered a state at `time` seconds."""

    time: float
    replica: int
    state: ReplicaState


@dataclass(frozen=True)
class TierTraffic:
    """What one tier of KV offload did, summed over replicas.

    Attributes:
        name: of the tier.
        hit_tokens: tokens found there and loaded.
        stored: blocks written to it.
        loaded: blocks read from it.
        evicted: blocks that left it for want of room.
        loading_time: seconds that sequences waited for their blocks, summed.
    """

    name: str
    hit_tokens: int
    stored: int
    loaded: int
    evicted: int
    loading_time: float

    @classmethod
    def of(cls, tiers: Sequence[OffloadTier]) -> TierTraffic:
        """Sum one tier over its replicas."""
        return cls(
            name=tiers[0].tier.name,
            hit_tokens=sum(tier.hit_tokens for tier in tiers),
            stored=sum(tier.stored for tier in tiers),
            loaded=sum(tier.loaded for tier in tiers),
            evicted=sum(tier.evicted for tier in tiers),
            loading_time=sum(tier.loading_time for tier in tiers),
        )


@dataclass(frozen=True)
class RunLog:
    """All that one simulated run recorded.

    Attributes:
        requests: one row a request, in order of arrival.
        leaps: one row a leap, by replica and start.
        resumed_gaps: seconds between the last token before a preemption and the next one, shape (g,).
        states: changes of the replicas' states.
        latencies: time outside the engine.
        gateway: flow control, None without.
        end: when the last event of the run happened, seconds.
        pool_blocks: KV blocks that each replica can hold.
        block_size: tokens in one.
        evictions: KV blocks taken while somebody could still have asked for their content, shape (replicas,).
        tiers: where KV was offloaded to, the nearest first; empty without offload.
        samples: sequences of each request.
        blocks_left: KV blocks still held when the run ended, summed over replicas (0 if all is well).
        lost_tokens: tokens generated for attempts that died with their replica or were aborted.
        lost_first_tokens: how many of them were first tokens.
        events: SimPy events processed.
    """

    requests: RequestColumns
    leaps: LeapColumns
    resumed_gaps: Floats
    states: tuple[StateChange, ...]
    latencies: Latencies
    gateway: FlowControl | None
    end: float
    pool_blocks: int
    block_size: int
    evictions: Integers
    tiers: tuple[TierTraffic, ...]
    samples: int
    blocks_left: int
    lost_tokens: int
    lost_first_tokens: int
    events: int
