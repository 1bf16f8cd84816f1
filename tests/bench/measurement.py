from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from capsim.engine import Replica, Sequence
from capsim.engine.leap import LEAP_FIELDS
from tests.bench.load import Load
from tests.engine.replicas import leap_table
from tests.reference import ReferenceReplica, ReferenceSequence


@dataclass(frozen=True)
class Measurement:
    """What it took to serve some requests.

    Attributes:
        requests: how many.
        seconds: CPU time of this process.
        plans: batches chosen.
        steps: forward passes simulated.
        touched: sequences handled one by one.
        preemptions: KV taken away.
        cached: share of the prompt tokens found in the prefix cache.
    """

    requests: int
    seconds: float
    plans: int
    steps: int
    touched: int
    preemptions: int
    cached: float = 0.0

    @property
    def speed(self) -> float:
        """Requests per CPU second."""
        return self.requests / self.seconds

    @property
    def plans_per_request(self) -> float:
        return self.plans / self.requests

    @property
    def steps_per_request(self) -> float:
        return self.steps / self.requests

    @property
    def touched_per_plan(self) -> float:
        return self.touched / self.plans


def leaping(load: Load, count: int) -> Measurement:
    """Serve `count` requests with the product's engine."""
    rows, paths = list(load.rows(count)), load.paths(count)
    start = time.process_time()
    replica = Replica(load.engine, load.cost)
    sequences = [
        Sequence(i, prompt, output, arrival, path)
        for i, ((arrival, prompt, output), path) in enumerate(zip(rows, paths, strict=True))
    ]
    for sequence in sequences:
        replica.submit(sequence, sequence.submitted)
    replica.advance(math.inf)
    seconds = time.process_time() - start
    steps = int(leap_table(replica)[:, LEAP_FIELDS.index("steps")].sum())
    preemptions = sum(sequence.preemptions for sequence in sequences)
    cached = sum(sequence.cached for sequence in sequences) / sum(sequence.prompt for sequence in sequences)
    return Measurement(count, seconds, replica.plans, steps, replica.touched, preemptions, cached)


def plain(load: Load, count: int) -> Measurement:
    """Serve `count` requests with the reference, one step and one sequence at a time."""
    rows = list(load.rows(count))
    engine = load.engine
    start = time.process_time()
    replica = ReferenceReplica(
        load.cost,
        usable_blocks=engine.usable_blocks,
        block_size=engine.block_size,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        reserve_full_prompt=engine.reserve_full_prompt,
    )
    sequences = [ReferenceSequence(i, *row) for i, row in enumerate(rows)]
    replica.run(sequences)
    seconds = time.process_time() - start
    steps = len(replica.steps)
    preemptions = sum(sequence.preemptions for sequence in sequences)
    return Measurement(count, seconds, steps, steps, replica.handled, preemptions)


def best(run: Callable[[Load, int], Measurement], load: Load, count: int, tries: int = 3) -> Measurement:
    """The fastest of some equal runs: others on the machine only ever slow one down."""
    return min((run(load, count) for _ in range(tries)), key=lambda measurement: measurement.seconds)
