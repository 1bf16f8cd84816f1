"""Llama-3.1-70B FP8 on H200s under closed loops, simulated from a profile of kernels.

The source records neither the client's spread of lengths nor the engine's settings. Set beforehand: lengths
uniform in 0.8 to 1.0 of nominal, ten requests a client, all of them counted, no prefix caching, and vLLM's
defaults for its server on this GPU (8192 tokens and 1024 sequences a step, utilization 0.9). One setting is
inferred from the measurement: KV in fp8, because with bfloat16 the pool is short at 32 clients of the long
prompts on one GPU, and the measured run is not. Attention is priced in bfloat16 all the same, the one KV type
that the profiles hold.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np

from capsim.catalog import load_gpu, load_model
from capsim.catalog.data import data_path
from capsim.cost import ProfileCost, load_profile
from capsim.engine import EngineConfiguration
from capsim.fleet import FleetConfiguration
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.measure.latency import user_latencies
from capsim.memory.budget import fit_memory
from capsim.memory.question import MemoryQuestion
from capsim.workload.requests import Requests
from tests.truth.table import Table, Verdict, mean_size, percent

FILE = Path(__file__).parent / "h200" / "llama-3.1-70b-fp8.csv"
MODEL = "llama-3.1-70b"
LEAST = 0.8
"""Shortest length as a share of the nominal one."""
ROUNDS = 10
"""Requests a client."""
REPLICATIONS = 5
"""Draws of lengths that are averaged: ten requests of each of four clients are few."""
STEP_TOKENS, STEP_SEQUENCES = 8192, 1024
TTFT_TARGET, TPOT_TARGET, EXHAUSTED_TARGET = 0.15, 0.07, 0.20


@dataclass(frozen=True)
class Point:
    """One measurement: milliseconds of mean TTFT and mean time per output token."""

    prompt: int
    output: int
    gpus: int
    clients: int
    ttft: float
    tpot: float

    @property
    def service(self) -> tuple[int, int, int]:
        """All but the load."""
        return self.prompt, self.output, self.gpus

    @property
    def exhausted(self) -> bool:
        """Whether the KV pool is short: the one point whose TTFT was measured in tens of seconds."""
        return self.gpus == 1 and self.clients == 64


@dataclass(frozen=True)
class Error:
    """(simulated - measured) / measured."""

    ttft: float
    tpot: float


@cache
def points() -> tuple[Point, ...]:
    """All of the file."""
    with FILE.open() as file:
        return tuple(
            Point(
                prompt=int(row["isl"]),
                output=int(row["osl"]),
                gpus=int(row["tp_size"]),
                clients=int(row["concurrency"]),
                ttft=float(row["ttft_ms"]),
                tpot=float(row["tpot_ms"]),
            )
            for row in csv.DictReader(file)
        )


@cache
def kv_blocks(gpus: int, longest: int, kv_dtype: str) -> int:
    """Blocks of the KV pool by capsim's own memory table."""
    question = MemoryQuestion(
        load_model(MODEL),
        load_gpu("h200"),
        tensor_parallel_size=gpus,
        weight_dtype="fp8",
        kv_dtype=kv_dtype,
        block_size=16,
        gpu_memory_utilization=0.9,
        max_model_len=longest,
        max_num_seqs=STEP_SEQUENCES,
        max_num_batched_tokens=STEP_TOKENS,
        engine_version="0.11.0",  # the release of the month of the measurements
    )
    return fit_memory(question).num_gpu_blocks


@cache
def step_cost(gpus: int) -> ProfileCost:
    """Seconds of a step by the shipped profile."""
    profile = load_profile(data_path("profiles", f"h200-{MODEL}-fp8-tp{gpus}.json"))
    return ProfileCost(profile, load_model(MODEL), "fp8", "bfloat16", gpus)


@cache
def error(point: Point, least: float = LEAST, kv_dtype: str = "fp8") -> Error:
    """Of the mean over replications."""
    engine = EngineConfiguration(
        kv_blocks(point.gpus, point.prompt + point.output, kv_dtype),
        max_num_seqs=STEP_SEQUENCES,
        max_num_batched_tokens=STEP_TOKENS,
    )
    found = []
    for replication in range(1 if least == 1.0 else REPLICATIONS):
        draws, count = np.random.default_rng(replication), ROUNDS * point.clients
        prompt, output = (
            draws.integers(round(least * each), each + 1, count) for each in (point.prompt, point.output)
        )
        log = simulate(
            Requests(np.zeros(count), prompt, output),
            FleetConfiguration(1),
            engine,
            step_cost(point.gpus),
            concurrency=point.clients,
        )
        check_conservation(log)
        user = user_latencies(log)
        found.append((1e3 * user.ttft.mean(), 1e3 * user.tpot.mean()))
    ttft, tpot = np.mean(found, axis=0)
    return Error(float(ttft / point.ttft - 1), float(tpot / point.tpot - 1))


def ample() -> tuple[Point, ...]:
    """Points at which KV never is short."""
    return tuple(point for point in points() if not point.exhausted)


def exhausted() -> Point:
    """The point at which it is."""
    [point] = (point for point in points() if point.exhausted)
    return point


def slope() -> tuple[float, float]:
    """Change of the error of TTFT with each doubling of the clients, and its standard error."""
    from scipy.stats import linregress  # scipy is loaded only where something is fitted

    line = linregress([np.log2(point.clients) for point in ample()], [error(point).ttft for point in ample()])
    return float(line.slope), float(line.stderr)


def table() -> Table:
    """A row a service, a column a number of clients, TTFT and then time per output token."""
    clients = sorted({point.clients for point in points()})
    rows = [
        _row(_name(service), error, service, (TTFT_TARGET, TPOT_TARGET))
        for service in dict.fromkeys(point.service for point in points())
    ]
    sizes = [
        fmean(abs(getattr(error(point), metric)) for point in ample() if point.clients == count)
        for metric in ("ttft", "tpot")
        for count in clients
    ]
    rows.append(("mean size, KV ample", *(f"{100 * size:.1f}%" for size in sizes)))
    rows += [
        _row(f"sensitivity: fixed lengths, {_name(service)}", lambda point: error(point, 1.0), service)
        for service in ((1024, 1024, 4), (8192, 1024, 1))
    ]
    rows.append(_row("sensitivity: KV in bfloat16, 8192/1024 TP1",
                     lambda point: error(point, kv_dtype="bfloat16"), (8192, 1024, 1)))  # fmt: skip
    ttft, tpot = (mean_size([getattr(error(point), each) for point in ample()]) for each in ("ttft", "tpot"))
    change, doubt = slope()
    low = sum(error(point).ttft < 0 for point in points())
    fixed = mean_size([error(point, 1.0).ttft for point in ample()])
    return Table(
        "Llama-3.1-70B FP8 on 1 to 8 H200, vLLM, closed loops",
        (
            "Told: the profile of kernels, mean lengths and number of clients. Set beforehand: lengths "
            "uniform in 0.8 to 1.0 of nominal, ten requests a client, vLLM's defaults. Inferred from the "
            "measurement: KV in fp8. Nothing is fitted.",
            f"Targets: TTFT {TTFT_TARGET:.0%}, TPOT {TPOT_TARGET:.0%} in mean size; {EXHAUSTED_TARGET:.0%} "
            "where KV is exhausted (8192/1024 TP1, 64 clients). Marks: single points above "
            f"{TTFT_TARGET:.0%} and {TPOT_TARGET:.0%}.",
        ),
        ("prompt/output, GPUs", *(f"{metric} {count}" for metric in ("TTFT", "TPOT") for count in clients)),
        tuple(rows),
        causes=(
            f"Mean size over the {len(ample())} points with KV ample: TTFT {ttft:.1%}, TPOT {tpot:.1%}. "
            f"TTFT changes by {100 * change:+.1f} (standard error {100 * doubt:.1f}) points with each "
            "doubling of the clients.",
            f"Where KV is exhausted: TTFT {percent(error(exhausted()).ttft)}, TPOT "
            f"{percent(error(exhausted()).tpot)}.",
            f"With fixed lengths TTFT is off by {fixed:.0%} in mean size: clients of equal requests stay in "
            "step and queue behind one another. The spread of lengths decides TTFT more than any kernel, "
            "and was not recorded.",
            f"TTFT is too low at {low} of {len(points())} points, TPOT is not. Not told and each of that "
            "sign: the HTTP server and the tokenizer, and kernels of vLLM 0.24 against a server of October "
            "2025. Which it is, these means do not say.",
        ),
        verdicts=(
            Verdict("TTFT, mean size", f"{TTFT_TARGET:.0%}", f"{ttft:.1%}", ttft <= TTFT_TARGET),
            Verdict(
                "TTFT, change with each doubling of clients",
                "0 within two standard errors",
                f"{100 * change:+.1f} +- {100 * doubt:.1f} points",
                abs(change) <= 2 * doubt,
            ),
            Verdict("TPOT, mean size", f"{TPOT_TARGET:.0%}", f"{tpot:.1%}", tpot <= TPOT_TARGET),
            *(
                Verdict(
                    f"{metric.upper()} where KV is exhausted",
                    f"{EXHAUSTED_TARGET:.0%}",
                    percent(value),
                    abs(value) <= EXHAUSTED_TARGET,
                )
                for metric, value in vars(error(exhausted())).items()
            ),
        ),
    )


def _name(service: tuple[int, int, int]) -> str:
    prompt, output, gpus = service
    return f"{prompt}/{output} TP{gpus}"


def _row(
    label: str,
    judge: Callable[[Point], Error],
    service: tuple[int, int, int],
    targets: tuple[float | None, float | None] = (None, None),
) -> tuple[str, ...]:
    found = [
        judge(point)
        for point in sorted(points(), key=lambda point: point.clients)
        if point.service == service
    ]
    ttft, tpot = targets
    return (
        label,
        *(percent(each.ttft, ttft) for each in found),
        *(percent(each.tpot, tpot) for each in found),
    )
