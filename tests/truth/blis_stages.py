"""Stages of vLLM on H100 published with inference-sim: what was measured, and what is known of how.

Facts of github.com/inference-sim, whose repositories carry no licence file: the figures are read where
somebody has them and are not shipped. `CAPSIM_TRUTH` names the folder that holds ``blis.csv``; without it,
``shared/truth`` beside the repository. Used are the stages whose offered rate and lengths are recorded.

What the file leaves open, its authors' other repositories tell. ``inference-sim/training`` keeps the settings
that the load generator, inference-perf, had resolved in each of its experiments
(``default_args/*/results/config.yaml``): 10 groups of 10 prompts, although the profile beside it asked for
other numbers and for several turns, which that version did not know. Its shared-prefix generator makes these
100 prompts once, shuffles them, and sends them in turn for as long as the experiment lasts, so that all but
the first hundred were seen before. The file shows the same: the mean prompt of an experiment's stages is equal
to the last digit. ``inference-sim/tektonc-data-collection`` (``values-observability.yaml``) has the server:
vLLM's defaults but for the limits in the file, with 8 GiB of host memory for KV, journey and step tracing and
KV events. The experiments of ``sim-to-real-accuracy-validation`` publish no resolved settings; their profiles
and their host memory are the same, and so is taken to be the generator.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np

from capsim.catalog import load_model
from capsim.workload.prefixes import Prefixes
from capsim.workload.requests import Requests

VARIABLE = "CAPSIM_TRUTH"
GROUPS, PROMPTS = 10, 10
"""Groups with a system prompt of their own, and prompts of each, as inference-perf had resolved them."""
PAUSE = 60.0
"""Seconds between two stages of an experiment, longer than any of its requests takes: each stage begins idle."""
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
    def profile(self) -> str:
        """Name of the profile, of the shipped one as of the one that is judged."""
        return f"h100-{load_model(self.model).name}-bf16-tp{self.gpus}.json"

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
    def count(self) -> int:
        """Requests sent."""
        return int(self.row["n_requests"]) + int(self.row["n_failed"] or 0)

    @property
    def system_prompt(self) -> int:
        """Tokens that the prompts of a group have in common."""
        return int(self.row["shared_system_prompt_tokens"])

    @property
    def output(self) -> int:
        """Tokens of every answer."""
        return int(self.row["out_tokens_nominal"])

    @property
    def overloaded(self) -> bool:
        """Whether the file says so of the server."""
        return "overloaded" in self.row["note"]

    @property
    def settings_published(self) -> bool:
        """Whether what the load generator had resolved can be read."""
        return self.row["source_repo"] == "inference-sim/training"

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


@cache
def series(experiment: tuple[str, str]) -> tuple[Stage, ...]:
    """Stages of an experiment as they ran, one after the other on the same server."""
    found = [stage for stage in stages() if stage.experiment == experiment]
    return tuple(sorted(found, key=lambda stage: int(stage.row["stage"])))


def requests(found: tuple[Stage, ...], *, repeated: bool = True) -> Requests:
    """What the load generator sent: gaps exponential and stretched to the stage's length, prompts in turn.

    Args:
        found: stages of one experiment, in order.
        repeated: the hundred prompts come again and again; else each question is new.
    """
    draws, begin, arrivals = np.random.default_rng(0), 0.0, []
    for stage in found:
        gaps = draws.exponential(size=stage.count)
        arrivals.append(begin + np.cumsum(gaps) * (stage.count / stage.rate / gaps.sum()))
        begin += stage.count / stage.rate + PAUSE
    first, count = found[0], sum(stage.count for stage in found)
    prompts = draws.permutation(GROUPS * PROMPTS)[np.arange(count) % (GROUPS * PROMPTS)]
    questions = prompts if repeated else np.arange(count)
    nodes = np.stack([prompts // PROMPTS, GROUPS + questions], axis=1).ravel()
    ends = np.tile([first.system_prompt, first.prompt], count)
    prefixes = Prefixes(2 * np.arange(count + 1), nodes, ends)
    return Requests(
        np.concatenate(arrivals), np.full(count, first.prompt), np.full(count, first.output), prefixes
    )
