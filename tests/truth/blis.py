"""Stages of vLLM on H100 published with inference-sim, simulated from data sheets alone.

Facts of github.com/inference-sim, whose repositories carry no licence file: the figures are read where
somebody has them and are not shipped. `CAPSIM_TRUTH` names the folder that holds ``blis.csv``; without it,
``shared/truth`` beside the repository. Used are the stages whose offered rate and lengths are recorded.

Set beforehand: capsim's roofline with its own defaults; every prompt as long as their mean, of which the
system prompt is common to all; outputs of the nominal length; gaps exponential and stretched to the stage's
length, as the load generator makes them; and what the file does not tell as vLLM 0.15 has it by default, the
version of the engine's other runs there. Whether questions were repeated, and so found in the prefix cache
whole, it does not tell either: a sensitivity.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median

import numpy as np

from capsim.catalog import load_gpu, load_model
from capsim.cost import Efficiency, RooflineCost
from capsim.engine import EngineConfiguration
from capsim.fleet import FleetConfiguration, RunLog
from capsim.fleet.simulation import simulate
from capsim.measure.conservation import check_conservation
from capsim.measure.latency import user_latencies
from capsim.measure.steady import backlog_drift
from capsim.memory.budget import fit_memory
from capsim.memory.question import MemoryQuestion
from capsim.workload.prefixes import Prefixes
from capsim.workload.requests import Requests
from tests.truth.table import Table, Verdict, percent

VARIABLE = "CAPSIM_TRUTH"
METRICS = ("E2E", "TPOT", "TTFT")
BLOCK = 16
DTYPE = "bfloat16"
Row = dict[str, str]


def folder() -> Path:
    """Where measurements lie that are not shipped."""
    return Path(os.environ.get(VARIABLE, Path(__file__).resolve().parents[3] / "shared" / "truth"))


def missing() -> str:
    """What lacks, empty if nothing does."""
    file = folder() / "blis.csv"
    if file.exists():
        return ""
    return (
        f"skipped: {file} is not there; it may not be shipped, and {VARIABLE} can name a folder that has it"
    )


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage.

    Attributes:
        row: of the file.
        prompt: mean tokens; where the row has none, the mean of other rows with the same questions.
    """

    row: Row
    prompt: int

    @property
    def name(self) -> str:
        """Model, GPUs and workload."""
        model = self.row["model"].split("/")[1].removesuffix("-hf").lower().removesuffix("-instruct-2407")
        workload = "".join(f" {part}" for part in self.row["workload"].split("-") if part.isalpha())
        return f"{model.removesuffix('-instruct')} TP{self.row['tp']}{workload}"

    @property
    def model(self) -> str:
        """Name in the catalog."""
        return self.row["model"]

    @property
    def gpus(self) -> int:
        """Of the replica."""
        return int(self.row["tp"])

    @property
    def rate(self) -> float:
        """Requests/s offered."""
        return float(self.row["offered_rate_rps"])

    @property
    def output(self) -> int:
        """Tokens of every answer."""
        return int(self.row["out_tokens_nominal"])

    @property
    def overloaded(self) -> bool:
        """Whether the file says so of the server."""
        return "overloaded" in self.row["note"]

    @property
    def experiment(self) -> tuple[str, str]:
        """Stages of one experiment differ in their rate."""
        return self.row["source_repo"], self.row["experiment"]

    def measured(self) -> dict[str, float]:
        """Milliseconds, means; TPOT by the number of tokens that were generated."""
        columns = {"E2E": "e2e_mean_ms", "TPOT": "tpot_from_nominal_ms", "TTFT": "ttft_mean_ms"}
        return {metric: float(self.row[column]) for metric, column in columns.items()}


@cache
def stages() -> tuple[Stage, ...]:
    """The stages whose rate and lengths are known."""
    with (folder() / "blis.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["offered_rate_rps"] and row["out_tokens_nominal"]]
    known: dict[str, list[float]] = {}
    for row in rows:
        if row["in_tokens_mean"]:
            known.setdefault(row["question_tokens"], []).append(float(row["in_tokens_mean"]))
    return tuple(
        Stage(row, round(float(row["in_tokens_mean"] or fmean(known[row["question_tokens"]]))))
        for row in rows
    )


def engine(stage: Stage) -> EngineConfiguration:
    """The engine's limits; the KV pool is the one it printed, or else capsim's own count."""
    row = stage.row
    printed = row["gpu_kv_blocks16_from_vllm_log"]
    question = MemoryQuestion(
        load_model(stage.model),
        load_gpu("h100-sxm"),
        tensor_parallel_size=stage.gpus,
        weight_dtype=DTYPE,
        kv_dtype=DTYPE,
        block_size=BLOCK,
        gpu_memory_utilization=0.9,
        max_model_len=4096,
        max_num_seqs=int(row["max_num_seqs"]),
        max_num_batched_tokens=int(row["max_num_batched_tokens"]),
        engine_version="0.15.1",
        num_gpu_blocks=int(printed) if printed else None,
    )
    return EngineConfiguration(
        fit_memory(question).num_gpu_blocks,
        block_size=BLOCK,
        max_num_seqs=int(row["max_num_seqs"]),
        max_num_batched_tokens=int(row["max_num_batched_tokens"]),
        enable_prefix_caching=True,
        async_scheduling=True,
    )


@cache
def log(stage: Stage, repeated: bool = False) -> RunLog:
    """One simulation of the stage; `repeated`: all prompts are one, not only their system prompt."""
    count = int(stage.row["n_requests"]) + int(stage.row["n_failed"] or 0)
    gaps = np.random.default_rng(0).exponential(size=count)
    arrival = np.cumsum(gaps) * (count / stage.rate / gaps.sum())
    shared = stage.prompt if repeated else int(stage.row["shared_system_prompt_tokens"])
    common = Prefixes(np.arange(count + 1), np.zeros(count, np.int64), np.full(count, shared))
    requests = Requests(arrival, np.full(count, stage.prompt), np.full(count, stage.output), common)
    cost = RooflineCost(load_model(stage.model), load_gpu("h100-sxm"), stage.gpus, DTYPE, DTYPE, Efficiency())
    found = simulate(requests, FleetConfiguration(1), engine(stage), cost)
    check_conservation(found)
    return found


def called_overloaded(stage: Stage, repeated: bool = False) -> bool:
    """Whether the simulation says so: requests in the system grow through the second half of the arrivals."""
    return backlog_drift(log(stage, repeated)).grows


@cache
def errors(stage: Stage, repeated: bool = False) -> dict[str, float]:
    """(simulated - measured) / measured, of means; of a stage that is not overloaded."""
    user = user_latencies(log(stage, repeated))
    found = {"E2E": user.e2e.mean(), "TPOT": user.tpot.mean(), "TTFT": user.ttft.mean()}
    return {metric: float(1e3 * found[metric] / real - 1) for metric, real in stage.measured().items()}


def judged() -> tuple[Stage, ...]:
    """Stages with a steady state."""
    return tuple(stage for stage in stages() if not stage.overloaded)


def highest() -> tuple[Stage, ...]:
    """Of each experiment with several rates, the stage at the highest."""
    groups: dict[tuple[str, str], list[Stage]] = {}
    for stage in judged():
        groups.setdefault(stage.experiment, []).append(stage)
    return tuple(max(group, key=lambda stage: stage.rate) for group in groups.values() if len(group) > 1)


def table() -> Table:
    """A row a stage, then medians."""
    rows = []
    for stage in stages():
        verdict = "overloaded" if called_overloaded(stage) else "steady"
        found = () if stage.overloaded else tuple(percent(errors(stage)[metric]) for metric in METRICS)
        rows.append(
            (
                f"{stage.name}, {stage.rate:g}/s",
                "overloaded" if stage.overloaded else "steady",
                verdict,
                *(found or ("",) * len(METRICS)),
            )
        )
    for repeated, words in ((False, ""), (True, "sensitivity, prompts repeated: ")):
        wrong = sum(called_overloaded(stage, repeated) for stage in judged())
        rows.append(
            (
                f"{words}median size, {len(judged())} steady stages",
                "",
                f"{wrong} overloaded",
                *(f"{100 * size:.1f}%" for size in medians(repeated).values()),
            )
        )
        rows.append(
            (
                f"{words}median at the highest load, {len(highest())} experiments",
                "",
                "",
                *(percent(value) for value in bias(repeated).values()),
            )
        )
    slow = sum(errors(stage)["E2E"] > 0 for stage in judged())
    right = sum(called_overloaded(stage) for stage in stages() if stage.overloaded)
    overloaded = sum(stage.overloaded for stage in stages())
    steady = sum(not called_overloaded(stage) for stage in judged())
    return Table(
        "vLLM on H100, from data sheets alone",
        (
            "Measured by the authors of inference-sim (github.com/inference-sim); their file is not shipped.",
            "Told: the GPU's and the model's figures, the engine's limits, offered rate and mean lengths. "
            "Nothing is fitted, and no size of error was set as a target.",
        ),
        ("stage", "measured", "simulated", *METRICS),
        tuple(rows),
        causes=(
            f"The roofline is too slow in {slow} of {len(judged())} steady stages, and in {_steeper()} of "
            f"{len(highest())} experiments more so at the higher rate. {len(judged()) - steady} stages, "
            "both at 20/s, are called overloaded for it, and their errors are those of a queue that grows.",
            "The file does not tell whether questions were repeated. Had all been found in the prefix "
            "cache, E2E and TPOT would be as close as the last rows show, no steady stage would be called "
            "overloaded, and TTFT would be too low, as it should be without HTTP server and tokenizer. A "
            "cause that fits is not one that is shown.",
            "The share of the step cost and that of the engine cannot be told apart here: there is no step "
            "log.",
        ),
        verdicts=(
            Verdict("overloaded stages called so", "all", f"{right} of {overloaded}", right == overloaded),
            Verdict(
                "steady stages called so", "all", f"{steady} of {len(judged())}", steady == len(judged())
            ),
        ),
    )


def medians(repeated: bool = False) -> dict[str, float]:
    """Median size of the error over the steady stages."""
    return {metric: median(abs(errors(stage, repeated)[metric]) for stage in judged()) for metric in METRICS}


def bias(repeated: bool = False) -> dict[str, float]:
    """Median signed error at the highest load of each experiment."""
    return {metric: median(errors(stage, repeated)[metric] for stage in highest()) for metric in METRICS}


def _steeper() -> int:
    """Experiments in which E2E is further off at the highest rate than at every other."""
    others = {
        top: [each for each in judged() if each.experiment == top.experiment and each is not top]
        for top in highest()
    }
    return sum(all(errors(top)["E2E"] > errors(each)["E2E"] for each in rest) for top, rest in others.items())
