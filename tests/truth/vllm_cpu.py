"""Logged runs of vLLM on a CPU, replayed step by step: the scheduler and the KV pool alone, without any step cost.

The clock counts steps. A request joins the queue before the first logged step that starts at or after the time at
which the engine took it (vLLM takes requests between steps only), and every simulated step is one tick long; so the
simulated step at k is the one that the log has in row k, idle times fall away, and no rounding of times decides
anything. What is compared is what the scheduler chose: each step's batch, queues and free blocks, and each request's
cached tokens, preemptions, first step, and the steps that make its first and its last token. When these end, the log
says: so the steps' own times decide when a request has its tokens, and nothing that was simulated.

Four runs are shipped. `elsewhere` finds the others where somebody has them.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capsim.cost.constant import ConstantCost
from capsim.engine import EngineConfiguration, Replica, Sequence
from capsim.engine.leap import LEAP_FIELDS
from tests.engine.replicas import leap_table
from tests.plain import plain_limits
from tests.reference import ReferenceReplica, ReferenceSequence
from tests.truth.blis_stages import folder

FOLDER = Path(__file__).parent / "vllm_cpu"
TICK = ConstantCost(1.0)
STEP_COLUMNS = ("prefill_tokens", "n_decode", "decode_ctx", "n_running", "n_waiting", "free_blocks")
DELIVERY = 1.5e-3
"""Seconds from the end of a step until the client has its tokens: 1 to 2 ms by the runs' description; not fitted."""
Integers = NDArray[np.int64]
Columns = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class LoggedRun:
    """A run: the files that its log is in and the limits of its engine.

    Attributes:
        name: for tables.
        file: of its log: name without the ending, of what is shipped; else the path without the ending.
        engine: its limits.
        trace: of a run that is not shipped, the file that says which prompts begin alike.
    """

    name: str
    file: str
    engine: EngineConfiguration
    trace: Path | None = None


AMPLE = EngineConfiguration(2048, block_size=32, max_num_seqs=32, max_num_batched_tokens=512)
CACHING = replace(AMPLE, enable_prefix_caching=True)
RUNS = (
    LoggedRun("prefixes shared, first run", "prefix.r1", CACHING),
    LoggedRun("prefixes shared, second run", "prefix.r2", CACHING),
    LoggedRun("prefixes shared, no caching", "prefix_off.r1", AMPLE),
    LoggedRun("72 blocks, no caching", "preempt.r1", replace(AMPLE, num_gpu_blocks=72)),
)


@dataclass(frozen=True)
class Course:
    """What happened in a run, by whichever engine.

    Attributes:
        cached: prompt tokens found in the cache at first scheduling, by request, shape (n,).
        preemptions: by request, shape (n,).
        scheduled: the step that first ran it, by request, shape (n,).
        first_token, finish: the steps that made its first and its last token, by request, shape (n,).
        steps: one row a step, shape (m, 7): when, in ticks, then `STEP_COLUMNS`; queues and free blocks as they are
            once the step is planned.
    """

    cached: Integers
    preemptions: Integers
    scheduled: Integers
    first_token: Integers
    finish: Integers
    steps: Integers


@dataclass(frozen=True)
class Agreement:
    """Shares of the requests and of the steps for which a replay gives exactly what the log has."""

    cached: float
    preemptions: float
    scheduled: float
    first_token: float
    finish: float
    steps: float


@dataclass(frozen=True)
class Times:
    """How far the times at which a replay's tokens come are from those at which the client had them.

    Attributes:
        first_token, finish: largest error of any request, relative to the time since the run began.
        latest: largest error of both, seconds.
    """

    first_token: float
    finish: float
    latest: float


@dataclass(frozen=True)
class _Request:
    prompt: int
    output: int
    joins: int
    path: tuple[tuple[int, int], ...]


def logged(run: LoggedRun) -> Course:
    """What the log says."""
    requests, steps = _table(run, "requests"), _table(run, "steps")
    ticks = np.arange(len(steps["t_start"]))
    return Course(
        requests["cached_tokens"].astype(np.int64),
        requests["n_preempt"].astype(np.int64),
        np.searchsorted(steps["t_start"], requests["first_sched_s"]).astype(np.int64),
        np.searchsorted(steps["t_end"], requests["first_token_s"]).astype(np.int64) - 1,
        np.searchsorted(steps["t_end"], requests["finish_s"]).astype(np.int64) - 1,
        np.column_stack([ticks, *(steps[name] for name in STEP_COLUMNS)]).astype(np.int64),
    )


def by_reference(run: LoggedRun) -> Course:
    """The plain replica, its state checked at every step."""
    engine = run.engine
    replica = ReferenceReplica(
        TICK,
        **plain_limits(engine),
        checked=True,
    )
    sequences = [
        ReferenceSequence(i, request.joins, request.prompt, request.output, path=request.path)
        for i, request in enumerate(_requests(run))
    ]
    replica.run(sorted(sequences, key=lambda sequence: sequence.arrival))
    steps = [
        (step.start, step.prefill_tokens, step.decodes, step.context, step.running, step.waiting, step.free)
        for step in replica.steps
    ]
    return _course(sequences, np.array(steps))


def by_engine(run: LoggedRun) -> Course:
    """The engine that simulations run on, held to plans of one step so that it records each of them."""
    replica = Replica(run.engine, TICK, longest_plan=1)
    sequences = [
        Sequence(i, request.prompt, request.output, float(request.joins), path=request.path)
        for i, request in enumerate(_requests(run))
    ]
    for sequence in sorted(sequences, key=lambda sequence: sequence.submitted):
        replica.submit(sequence, sequence.submitted)
    replica.advance(math.inf)
    leaps = dict(zip(LEAP_FIELDS, leap_table(replica).T, strict=True))
    columns = [
        leaps[name] for name in ("start", "prefill_tokens", "decodes", "context", "running", "waiting")
    ]
    return _course(sequences, np.column_stack([*columns, run.engine.usable_blocks - leaps["blocks"]]))


REPLAYS: dict[str, Callable[[LoggedRun], Course]] = {"reference": by_reference, "engine": by_engine}


def agreement(real: Course, simulated: Course) -> Agreement:
    """How much of a logged run a replay gives again; a step counts if all its columns are equal."""
    mine, theirs = (set(map(tuple, course.steps.tolist())) for course in (simulated, real))
    shares = {
        name: float(np.mean(getattr(simulated, name) == getattr(real, name)))
        for name in ("cached", "preemptions", "scheduled", "first_token", "finish")
    }
    return Agreement(**shares, steps=len(mine & theirs) / max(len(mine), len(theirs)))


def times(run: LoggedRun, simulated: Course) -> Times:
    """When the client would have the tokens of a replay, each step ending as the log has it, and when it had them."""
    requests, ends = _table(run, "requests"), _table(run, "steps")["t_end"]
    off = {
        name: ends[getattr(simulated, name)] + DELIVERY - requests[f"{column}_s"]
        for name, column in (("first_token", "first_token"), ("finish", "finish"))
    }
    largest = {name: float(np.max(np.abs(late) / requests[f"{name}_s"])) for name, late in off.items()}
    return Times(**largest, latest=max(float(np.max(np.abs(late))) for late in off.values()))


def elsewhere() -> tuple[LoggedRun, ...]:
    """Every logged run that somebody has beside the shipped ones, in order."""
    place = folder() / "vllm-cpu"
    return tuple(
        _raw(steps.with_name(steps.name.removesuffix(".steps.csv")), place / "traces")
        for steps in sorted((place / "runs").glob("*/*.steps.csv"))
    )


def _raw(path: Path, traces: Path) -> LoggedRun:
    arguments = json.loads(path.with_name(f"{path.name}.summary.json").read_text())["engine_args"]
    engine = replace(
        AMPLE,
        num_gpu_blocks=arguments.get("num_gpu_blocks_override", AMPLE.num_gpu_blocks),
        max_num_seqs=arguments["max_num_seqs"],
        max_num_batched_tokens=arguments["max_num_batched_tokens"],
        enable_prefix_caching=arguments["enable_prefix_caching"],
    )
    return LoggedRun(f"{path.parent.name} {path.name}", str(path), engine, traces / f"{path.name[:-3]}.json")


def _course(sequences: list[ReferenceSequence] | list[Sequence], steps: NDArray[np.float64]) -> Course:
    columns = [(s.cached, s.preemptions, s.scheduled, s.first_token - 1, s.finish - 1) for s in sequences]
    cached, preemptions, scheduled, first_token, finish = np.array(columns).T.astype(np.int64)
    return Course(cached, preemptions, scheduled, first_token, finish, steps.astype(np.int64))


def _requests(run: LoggedRun) -> list[_Request]:
    """The run's requests in the order of the file, with the step before which each one joins the queue."""
    columns = _table(run, "requests")
    joins = np.searchsorted(_table(run, "steps")["t_start"], columns["engine_add_s"])
    names = ("prompt_tokens", "output_tokens", "prefix_id", "prefix_tokens")
    rows = zip(*(columns[name].astype(np.int64).tolist() for name in names), joins.tolist(), strict=True)
    return [
        _Request(prompt, output, join, ((prefix, shared),) if shared else ())
        for prompt, output, prefix, shared, join in rows
    ]


def _table(run: LoggedRun, kind: str) -> Columns:
    if run.trace is None:
        with gzip.open(FOLDER / f"{run.file}.{kind}.csv.gz", "rt", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    else:
        with Path(f"{run.file}.{kind}.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        if kind == "requests":
            sent = json.loads(run.trace.read_text(encoding="utf-8"))["requests"]
            rows = [{**row, **_shared(request)} for row, request in zip(rows, sent, strict=True)]
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def _shared(request: dict[str, int]) -> dict[str, int]:
    return {name: request.get(name) or 0 for name in ("prefix_id", "prefix_tokens")}
