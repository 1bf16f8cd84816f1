"""Two measured runs of vLLM on GPUs whose kernels were measured too, and the same requests simulated.

The simulation is told arrivals, lengths, which prompts begin alike, the engine's limits and the GPU's profile; for one
row of the table a constant time in every step besides, fitted on the run's first requests.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.catalog import load_model
from capsim.catalog.data import data_path
from capsim.cost import ProfileCost, StepCost, load_profile
from capsim.cost.offset import OffsetCost
from capsim.cost.profile_tables import Profile, Skew
from capsim.engine import EngineConfiguration
from capsim.fleet import FleetConfiguration
from capsim.fleet.log import RunLog
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.workload.prefixes import Prefixes
from capsim.workload.requests import Requests

FOLDER = Path(__file__).parent / "llmservingsim"
COLUMNS = {"TTFT": "ttft_queued_ms", "TPOT": "tpot_ms", "E2E": "e2e_queued_ms"}
STATISTICS = ("mean", "p50", "p90", "p95", "p99")
FITTED = 60
"""Requests, the first to arrive, on which the time added to every step is fitted."""
UNQUEUED = 90
"""Requests, the first to arrive, of which none waited for another to end on the RTX PRO 6000."""
LONGEST_HOST = 3e-3
"""Of the times that are tried, seconds a step."""
Columns = dict[str, NDArray[np.float64]]
Errors = dict[str, dict[str, float]]


@dataclass(frozen=True)
class MeasuredRun:
    """A run, and what the simulation is told of it.

    Attributes:
        name: for the table.
        file: of its requests, without ``.csv``.
        profile: step costs of its GPU.
        engine: its limits. Both runs scheduled asynchronously: recorded on the RTX 4090, vLLM 0.19's default.
        graph_sizes: tokens that batches are padded to: vLLM's defaults, up to 512 or twice `max_num_seqs`.
        skew: file of what unequal decode lengths cost, in place of what the profile has.
    """

    name: str
    file: str
    profile: str
    engine: EngineConfiguration
    graph_sizes: tuple[int, ...]
    skew: str = ""


SMALL_GRAPHS = (1, 2, 4, *range(8, 256, 8))
ENGINE = EngineConfiguration(
    30_000,
    max_num_seqs=128,
    max_num_batched_tokens=2048,
    enable_prefix_caching=True,
    async_scheduling=True,
)
AMPLE = MeasuredRun(
    "RTX PRO 6000",
    "rtxpro6000",
    "rtxpro6000-llama-3.1-8b-bf16-tp1.json",
    ENGINE,
    (*SMALL_GRAPHS, 256),
)
STARVED = MeasuredRun(
    "RTX 4090",
    "rtx4090",
    "rtx4090-llama-3.1-8b-bf16-tp1.json",
    replace(ENGINE, num_gpu_blocks=2588, max_num_seqs=256, max_model_len=32_768),
    (*SMALL_GRAPHS, *range(256, 513, 16)),
)
SKEWED = replace(STARVED, name="RTX 4090, with its skew.csv", skew="rtx4090_skew.json")


def measured(run: MeasuredRun) -> Columns:
    """The file's columns in the order in which the engine took the requests."""
    with (FOLDER / f"{run.file}.csv").open() as file:
        rows = list(csv.DictReader(file))
    columns = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    order = np.argsort(columns["queued_s"], kind="stable")
    return {"row": order, **{name: column[order] for name, column in columns.items()}}


@cache
def step_cost(run: MeasuredRun, host: float = 0.0) -> StepCost:
    """Of the run's GPU and model, every step longer by `host` seconds."""
    profile = replace(load_profile(data_path("profiles", run.profile)), graph_sizes=run.graph_sizes)
    if run.skew:
        profile = _with_skew(profile, FOLDER / run.skew)
    cost = ProfileCost(profile, load_model("llama-3.1-8b"), "bfloat16", "bfloat16", 1)
    return OffsetCost(cost, host) if host else cost


@cache
def simulated(run: MeasuredRun, host: float = 0.0) -> RunLog:
    """The run's requests, simulated."""
    real = measured(run)
    requests = Requests(
        real["queued_s"],
        real["input_toks"].astype(np.int64),
        real["output_toks"].astype(np.int64),
        _prefixes(real["row"].astype(np.int64)),
    )
    log = simulate(requests, FleetConfiguration(1), run.engine, step_cost(run, host))
    check_conservation(log)
    return log


def errors(run: MeasuredRun, host: float = 0.0, first: int | None = None) -> Errors:
    """Signed relative errors, (simulated - measured) / measured, by metric and statistic; of the first requests."""
    real, latencies = measured(run), _latencies(simulated(run, host))
    return {
        metric: dict(
            zip(
                STATISTICS,
                _statistics(latencies[metric][:first]) / _statistics(real[column][:first] / 1e3) - 1,
                strict=True,
            )
        )
        for metric, column in COLUMNS.items()
    }


@cache
def fitted_host(run: MeasuredRun) -> float:
    """Seconds in every step that give the times per token of the first `FITTED` requests best, by least squares.

    TPOT alone is fitted: it grows smoothly with the time of a step, while TTFT of a request that does not wait jumps by
    a whole step with the instant at which it comes.
    """
    from scipy.optimize import minimize_scalar

    real = measured(run)["tpot_ms"][:FITTED] / 1e3

    def squares(host: float) -> float:
        found = _latencies(simulated(run, float(host)))["TPOT"][:FITTED]
        return float(((found / real - 1) ** 2).sum())

    best = minimize_scalar(squares, bounds=(0, LONGEST_HOST), method="bounded", options={"xatol": 1e-6})
    return float(best.x)


def _with_skew(profile: Profile, path: Path) -> Profile:
    tables = json.loads(path.read_text(encoding="utf-8"))
    alone, beside = (_skew(tables[name]) for name in ("skew", "mixed_skew"))
    return replace(profile, attention=replace(profile.attention, skew=alone, mixed_skew=beside))


def _skew(table: dict[str, Any]) -> Skew:
    return Skew(tuple(table["decodes"]), tuple(table["ratio"]), tuple(map(tuple, table["alpha"])))


def _prefixes(rows: NDArray[np.int64]) -> Prefixes:
    """Which beginnings the prompts of these rows of a file share."""
    paths: dict[int, list[tuple[int, int]]] = {row: [] for row in range(len(rows))}
    with (FOLDER / "prefixes.csv").open() as file:
        for entry in csv.DictReader(file):
            paths[int(entry["request"])].append((int(entry["node"]), int(entry["end"])))
    starts = np.cumsum([0, *(len(path) for path in paths.values())])
    nodes, ends = np.array([entry for path in paths.values() for entry in path], dtype=np.int64).T
    return Prefixes(starts, nodes, ends).take(rows)


def _latencies(log: RunLog) -> Columns:
    rows = log.requests
    return {
        "TTFT": rows.first_token - rows.submitted,
        "TPOT": (rows.finish - rows.first_token) / (rows.output - 1),
        "E2E": rows.finish - rows.submitted,
    }


def _statistics(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([values.mean(), *np.percentile(values, (50, 90, 95, 99))])
