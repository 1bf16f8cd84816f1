"""How a published run was loaded, and the requests that simulate it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np

from capsim.workload.prefixes import Prefixes
from capsim.workload.requests import Requests
from tests.truth.blis_stages import GROUPS, PROMPTS
from tests.truth.public.lengths import Integers, Lengths, lengths_of
from tests.truth.public.rows import TRACES, Row, trace_path

AT_ONCE, CLOSED, CONSTANT, POISSON, TRACE = (
    "all at once",
    "closed loop",
    "constant rate",
    "Poisson",
    "recorded arrivals",
)
ROUNDS = 10
"""Requests a client where their number is not told: the recipe of most such rows."""
LOADGEN_SECONDS = 600.0
"""Least duration of a server run of MLPerf; it also has each sample of its set once at least."""
SEED = 0


@dataclass(frozen=True)
class Load:
    """How requests come.

    Attributes:
        kind: one of the words above.
        count: requests.
        rate: requests/s of an open loop; None: another kind.
        clients: of a closed loop; None: another kind.
    """

    kind: str
    count: int
    rate: float | None = None
    clients: int | None = None

    @property
    def words(self) -> str:
        """For a table."""
        if self.clients is not None:
            return f"{self.clients} client{'s' if self.clients > 1 else ''}"
        if self.rate is not None:
            return f"{'Poisson ' if self.kind == POISSON else ''}{self.rate:.4g}/s"
        return f"{self.count} at once" if self.kind == AT_ONCE else self.kind

    @property
    def alone(self) -> bool:
        """Whether one request is served at a time: what is called throughput is then latency."""
        return self.clients == 1 or (self.kind == AT_ONCE and self.count == 1)

    @property
    def stated_rate(self) -> bool:
        """Whether the throughput of an engine that keeps up is what was offered."""
        return self.kind in {CONSTANT, POISSON, TRACE}


def load_of(row: Row) -> Load:
    """The load of a row."""
    text, arrival = row["rate_or_concurrency"], row["arrival"]
    told = re.match(r"\d+", row["num_prompts"])
    count = int(told[0]) if told else None
    number = re.search(r"[\d.]+", text)
    if arrival == "all at once":
        return Load(AT_ONCE, count or round(row.noted("samples_per_query") or 1000))
    if number is None:
        raise ValueError(f"{row.name}: {text!r} is no load")
    value = float(number[0])
    if arrival == "fixed batch":
        return Load(AT_ONCE, int(value))
    if arrival == "closed loop":
        return Load(CLOSED, count or ROUNDS * int(value), clients=int(value))
    if arrival == "constant rate":
        seconds = re.search(r"for (\d+) s", text)
        rate = row.noted("achieved send rate") or value
        return Load(CONSTANT, round(value * int(seconds[1])) if seconds else count or ROUNDS, rate)
    if arrival.startswith("poisson"):
        samples = round(row.noted("performance_sample_count") or 0)
        return Load(POISSON, count or max(samples, round(value * LOADGEN_SECONDS)), value)
    if arrival.startswith("trace replay"):
        return Load(TRACE, count or 0)
    raise ValueError(f"{row.name}: {arrival!r} is no load")


def requests_of(row: Row, load: Load, lengths: Lengths | None) -> Requests:
    """Requests of one simulation.

    Args:
        row: its notes say which prompts begin alike.
        load: how they come.
        lengths: None: recorded ones.
    """
    if lengths is None:
        return _recorded(row)
    draws = np.random.default_rng(SEED)
    prompt, output = (each.draw(load.count, draws) for each in (lengths.prompt, lengths.output))
    arrival = np.zeros(load.count)
    if load.rate is not None:
        gaps = draws.exponential(size=load.count)
        # inference-perf draws exponential gaps for its constant rate too, and stretches them to the stage.
        arrival = np.cumsum(gaps) / (gaps.mean() if load.kind == CONSTANT else 1.0) / load.rate
    return Requests(arrival, prompt, output, _recurring(row, prompt, draws))


def told_lengths(row: Row) -> Lengths | None:
    """Lengths as the source tells them; None: each is recorded.

    Raises:
        Refused: neither.
    """
    return None if row["arrival"].startswith("trace replay") else lengths_of(row)


def _recurring(row: Row, prompt: Integers, draws: np.random.Generator) -> Prefixes | None:
    """The hundred prompts of inference-perf's generator in turn, ten with each system prompt; None: all are new.

    Args:
        row: its notes tell the generator, and either its notes or its lengths the system prompt's tokens.
        prompt: tokens, shape (n,), all alike.
        draws: of the order.
    """
    tokens = re.search(r"system (\d+)\)", row["input_len"])
    system = int(tokens[1]) if tokens else round(row.noted("system_prompt_len") or 0)
    if not system:
        return None
    turns = np.arange(len(prompt)) % (GROUPS * PROMPTS)
    order = draws.permutation(GROUPS * PROMPTS)[turns]
    nodes = np.stack([order // PROMPTS, GROUPS + order], axis=1).ravel()
    ends = np.stack([np.full(len(prompt), system), prompt], axis=1).ravel()
    return Prefixes(2 * np.arange(len(prompt) + 1), nodes, ends)


def _recorded(row: Row) -> Requests:
    """Arrivals and lengths of every request, beside the file."""
    name = TRACES[1] if "Qwen3" in row["model"] else TRACES[0]
    with trace_path(name).open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    columns = {key: np.array([line[key] for line in lines]) for key in lines[0]}
    arrival = columns["arrival_time_ns"] / 1e9
    order = np.argsort(arrival, kind="stable")
    return Requests(
        arrival[order],
        columns["input_toks"][order].astype(np.int64),
        columns["output_toks"][order].astype(np.int64),
    )
