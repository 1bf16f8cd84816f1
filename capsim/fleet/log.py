"""What a run leaves behind: columns, one row a request, a leap, a resumed gap, a change of a replica's state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.engine.leap import LEAP_FIELDS
from capsim.fleet.configuration import Latencies

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Outcome(IntEnum):
    """How a request ended."""

    COMPLETED = 0
    REJECTED = 1
    """It can never run: longer than `max_model_len` or than the whole KV pool."""
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

    Attributes:
        arrival: submission by the client.
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
    attempts: Integers
    replica: Integers
    outcome: Integers


@dataclass(frozen=True)
class LeapColumns:
    """One row a leap, shape (m,): `steps` consecutive steps of one batch, step i taking ``first + i * slope``.

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

    replica: Integers
    start: Floats
    steps: Integers
    prefill_tokens: Integers
    chunks: Integers
    chunk_past: Integers
    decodes: Integers
    context: Integers
    running: Integers
    waiting: Integers
    blocks: Integers
    first: Floats
    slope: Floats
    growth: Integers
    unfilled: Integers

    @classmethod
    def of(cls, leaps: Sequence[Floats]) -> LeapColumns:
        """Columns from each replica's leaps, every one of shape (m, 14) with columns as `LEAP_FIELDS`."""
        table = np.concatenate(leaps)
        exact = {"start", "first", "slope"}
        columns: dict[str, Any] = {
            name: np.ascontiguousarray(table[:, column], dtype=np.float64 if name in exact else np.int64)
            for column, name in enumerate(LEAP_FIELDS)
        }
        return cls(replica=np.repeat(np.arange(len(leaps)), [len(rows) for rows in leaps]), **columns)


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


@dataclass(frozen=True)
class RunLog:
    """All that one simulated run recorded.

    Attributes:
        requests: one row a request, in order of arrival.
        leaps: one row a leap, by replica and start.
        resumed_gaps: seconds between the last token before a preemption and the next one, shape (g,).
        states: changes of the replicas' states.
        latencies: time outside the engine.
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
