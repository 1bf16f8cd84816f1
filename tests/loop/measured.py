"""What was measured: one file for each run, so that simulating needs no engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrate.engine.trace import TraceRequest

Floats = NDArray[np.float64]
STEPS = "controlled.csv"
"""Steps of the controlled batches, in the folder of a measurement."""


@dataclass(frozen=True)
class Run:
    """One replay of a load.

    Attributes:
        load: its name.
        repeat: from 1.
        kv_tokens: that the engine's KV cache held.
        rate: requests a second.
        requests: what was sent.
        sent: seconds from the trace's start at which each was sent.
        tokens: seconds at which each token of each arrived.
        cached: tokens of each prompt that were found in the cache.
        latest: seconds by which the client was late at most.
    """

    load: str
    repeat: int
    kv_tokens: int
    rate: float
    requests: tuple[TraceRequest, ...]
    sent: tuple[float, ...]
    tokens: tuple[tuple[float, ...], ...]
    cached: tuple[int, ...]
    latest: float

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.load.replace(' ', '-')}.{self.repeat}"

    def steps(self, folder: Path) -> Path:
        """The steps that the engine logged meanwhile."""
        return folder / f"{self.name}.steps.csv"

    def probes(self, folder: Path) -> Path:
        """The steps of the speed probes just before and just after it."""
        return folder / f"{self.name}.probes.csv"

    def write(self, folder: Path) -> None:
        """Write its file."""
        (folder / f"{self.name}.run.json").write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")


def read_runs(folder: Path) -> list[Run]:
    """The runs of a measurement, by load and repeat."""
    runs = [_run(path) for path in folder.glob("*.run.json")]
    return sorted(runs, key=lambda run: (run.load, run.repeat))


def _run(path: Path) -> Run:
    members = json.loads(path.read_text(encoding="utf-8"))
    requests = (TraceRequest(**{**each, "hashes": tuple(each["hashes"])}) for each in members.pop("requests"))
    columns = {name: tuple(members.pop(name)) for name in ("sent", "cached")}
    tokens = tuple(tuple(times) for times in members.pop("tokens"))
    return Run(requests=tuple(requests), tokens=tokens, **columns, **members)


def figures(sent: Floats, tokens: Sequence[Floats]) -> dict[str, float]:
    """The figures that are compared, milliseconds, and tokens/s up to the last token.

    Args:
        sent: seconds, shape (n,).
        tokens: seconds of each request's tokens.
    """
    first, last = (np.array([each[place] for each in tokens]) for place in (0, -1))
    many = np.array([len(each) for each in tokens])
    tpot = ((last - first) / np.maximum(many - 1, 1))[many > 1]
    gaps = np.concatenate([np.diff(each) for each in tokens])
    found = {
        f"{metric} p{place}": 1e3 * float(np.percentile(seconds, place))
        for metric, seconds in (("TTFT", first - sent), ("TPOT", tpot), ("ITL", gaps))
        for place in (50, 95)
    }
    return {**found, "tokens/s": float(many.sum() / last.max())}
