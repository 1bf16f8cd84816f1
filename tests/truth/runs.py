"""Measured runs of a real engine, and the same requests simulated with a profile of the same GPU."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capsim.catalog import load_model
from capsim.catalog.data import data_path
from capsim.cost import ProfileCost, load_profile
from capsim.engine import EngineConfiguration
from capsim.fleet import FleetConfiguration
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.workload.prefixes import Prefixes
from capsim.workload.requests import Requests

FOLDER = Path(__file__).parent / "llmservingsim"
METRICS = ("TTFT", "TPOT", "E2E")
STATISTICS = ("mean", "p50", "p90", "p95", "p99")
Columns = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class MeasuredRun:
    """A run, and what the simulation is told of it: the profile, the requests, the engine's limits."""

    name: str
    file: str
    profile: str
    engine: EngineConfiguration


RUNS = (
    MeasuredRun(
        "RTX PRO 6000, KV never short",
        "rtxpro6000.csv",
        "rtxpro6000-llama-3.1-8b-bf16-tp1.json",
        EngineConfiguration(
            30_000, max_num_seqs=128, max_num_batched_tokens=2048, enable_prefix_caching=True
        ),
    ),
    MeasuredRun(
        "RTX 4090, KV short",
        "rtx4090.csv",
        "rtx4090-llama-3.1-8b-bf16-tp1.json",
        EngineConfiguration(2588, max_num_seqs=256, max_num_batched_tokens=2048, enable_prefix_caching=True),
    ),
)


def measured_columns(run: MeasuredRun) -> Columns:
    """The file's columns in the order in which the engine took the requests."""
    with (FOLDER / run.file).open() as file:
        rows = list(csv.DictReader(file))
    columns = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    order = np.argsort(columns["queued_s"], kind="stable")
    return {"row": order, **{name: column[order] for name, column in columns.items()}}


def prefixes(rows: NDArray[np.int64]) -> Prefixes:
    """Which beginnings the prompts of these rows of a file share."""
    paths: dict[int, list[tuple[int, int]]] = {row: [] for row in range(len(rows))}
    with (FOLDER / "prefixes.csv").open() as file:
        for entry in csv.DictReader(file):
            paths[int(entry["request"])].append((int(entry["node"]), int(entry["end"])))
    starts = np.cumsum([0, *(len(path) for path in paths.values())])
    nodes, ends = np.array([entry for path in paths.values() for entry in path], dtype=np.int64).T
    return Prefixes(starts, nodes, ends).take(rows)


def errors(run: MeasuredRun) -> dict[str, dict[str, float]]:
    """Signed relative errors, (simulated - measured) / measured, by metric and statistic."""
    real = measured_columns(run)
    requests = Requests(
        real["queued_s"],
        real["input_toks"].astype(np.int64),
        real["output_toks"].astype(np.int64),
        prefixes(real["row"].astype(np.int64)),
    )
    profile = load_profile(data_path("profiles", run.profile))
    cost = ProfileCost(profile, load_model("llama-3.1-8b"), "bfloat16", "bfloat16", 1)
    log = simulate(requests, FleetConfiguration(1), run.engine, cost)
    check_conservation(log)
    rows = log.requests
    simulated = {
        "TTFT": rows.first_token - rows.submitted,
        "TPOT": (rows.finish - rows.first_token) / (rows.output - 1),
        "E2E": rows.finish - rows.submitted,
    }
    columns = {"TTFT": "ttft_queued_ms", "TPOT": "tpot_ms", "E2E": "e2e_queued_ms"}
    return {
        metric: dict(
            zip(
                STATISTICS,
                _statistics(simulated[metric]) / _statistics(real[columns[metric]] / 1e3) - 1,
                strict=True,
            )
        )
        for metric in METRICS
    }


def _statistics(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([values.mean(), *np.percentile(values, (50, 90, 95, 99))])
