"""The arrays of requests that vLLM and SGLang write: an item per request in each, and no mask of success."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.benchmark.fields import Fields
from capsim.benchmark.record import ERROR, OK, UNKNOWN
from capsim.errors import BadInput

KEYS = (
    "input_lens",
    "output_lens",
    "ttfts",
    "itls",
    "latencies",
    "start_times",
    "cached_tokens",
    "errors",
)


@dataclass(frozen=True)
class RequestArrays:
    """The arrays of one run, aligned by index; a column that the file lacks is all NaN, -1 or empty.

    Attributes:
        present: keys of the arrays that the file has.
        ttft, latency, start: seconds, shape (n,), as written.
        prompt, output, cached: tokens, shape (n,).
        errors: n texts, empty where nothing failed.
        gaps, gap_starts: seconds as in BenchmarkRun, or None.
    """

    present: frozenset[str]
    ttft: NDArray[np.float64]
    latency: NDArray[np.float64]
    start: NDArray[np.float64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    cached: NDArray[np.int64]
    errors: tuple[str, ...]
    gaps: NDArray[np.float64] | None
    gap_starts: NDArray[np.int64] | None

    @classmethod
    def read(cls, fields: Fields) -> RequestArrays:
        """Read the arrays that are there. Text under one of their keys is a user's metadata and no array.

        Raises:
            BadInput: something in them is not what it must be, or they differ in length.
        """
        present = [key for key in KEYS if fields.has(key) and not isinstance(fields.data[key], str)]
        requests = _length(fields, present)

        def seconds(key: str) -> NDArray[np.float64]:
            times = fields.seconds(key) if key in present else None
            return np.full(requests, np.nan) if times is None else times

        def tokens(key: str) -> NDArray[np.int64]:
            counts = fields.tokens(key) if key in present else None
            return np.full(requests, UNKNOWN, dtype=np.int64) if counts is None else counts

        gaps = fields.lists_of_seconds("itls") if "itls" in present else None
        errors = fields.texts("errors") if "errors" in present else None
        return cls(
            present=frozenset(present),
            ttft=seconds("ttfts"),
            latency=seconds("latencies"),
            start=seconds("start_times"),
            prompt=tokens("input_lens"),
            output=tokens("output_lens"),
            cached=tokens("cached_tokens"),
            errors=("",) * requests if errors is None else errors,
            gaps=None if gaps is None else gaps[0],
            gap_starts=None if gaps is None else gaps[1],
        )

    def __len__(self) -> int:
        return len(self.errors)

    @property
    def tells_failures(self) -> bool:
        """Something in the arrays differs between a failed request and another."""
        return not self.present.isdisjoint({"errors", "output_lens", "ttfts", "latencies"})

    @property
    def status(self) -> NDArray[np.int64]:
        """Ok or error, shape (n,): a failed request has a text or no output.

        A file with neither texts nor outputs shows it by times of 0.
        """
        ok = np.array([not error for error in self.errors], dtype=bool)
        if "output_lens" in self.present:
            ok &= self.output != 0
        elif "errors" not in self.present:
            ok &= (self.ttft != 0) & (self.latency != 0)
        return np.where(ok, OK, ERROR).astype(np.int64)

    @property
    def end_to_end(self) -> NDArray[np.float64]:
        """Seconds, shape (n,): the latency, or where there is none the first token's time and all gaps."""
        if "latencies" in self.present or self.gaps is None or self.gap_starts is None:
            return self.latency
        pooled = np.concatenate(([0.0], np.cumsum(self.gaps)))
        return self.ttft + np.diff(pooled[self.gap_starts])

    def columns(self, status: NDArray[np.int64]) -> dict[str, Any]:
        """The columns of a `BenchmarkRun` that both tools write alike; times that never happened are NaN."""
        ok = status == OK
        return {
            "ttft": np.where(ok | (self.ttft > 0), self.ttft, np.nan),
            "e2e": np.where(ok, self.end_to_end, np.nan),
            "prompt": self.prompt,
            "output": self.output,
            "cached": self.cached,
            "status": status,
            "errors": self.errors,
            "gaps": self.gaps,
            "gap_starts": self.gap_starts,
        }

    def remarks(self, status: NDArray[np.int64], completed: int) -> list[str]:
        """What a reader of these requests should know, one sentence each; `completed`: as the file counts them."""
        ok = status == OK
        remarks = []
        if "latencies" not in self.present and self.gaps is not None:
            remarks.append("it has no latencies; end to end is the time to first token and all gaps after it")
        if self.gap_starts is not None and "output_lens" in self.present:
            coarse = int(np.count_nonzero(ok & (np.diff(self.gap_starts) != self.output - 1)))
            if coarse:
                what = "the gaps are not one less than the tokens: chunks are not single tokens"
                remarks.append(f"in {coarse} of {np.count_nonzero(ok)} answered requests {what}")
        early = int(np.count_nonzero(ok & (self.end_to_end < self.ttft)))
        if early:
            remarks.append(f"requests that end before their first token: {early}")
        answered = int(np.count_nonzero(ok))
        if len(ok) and answered != completed:
            remarks.append(
                f"its arrays show {answered} answered requests, its count of completed is {completed}"
            )
        return remarks


def required_counts(fields: Fields, tool: str) -> tuple[float, int]:
    """Seconds and completed requests of a run, without which it is none.

    Raises:
        BadInput: one of them is missing.
    """
    duration, completed = fields.number("duration"), fields.whole("completed")
    if duration is None or completed is None:
        key = "duration" if duration is None else "completed"
        fields.refuse(key, "is missing", f"a run of {tool}")
    return duration, completed


def _length(fields: Fields, present: list[str]) -> int:
    """Requests of the run.

    Raises:
        BadInput: arrays that differ in length from the first.
    """
    lengths = {key: len(fields.items(key) or []) for key in present}
    if not lengths:
        return 0
    first = present[0]
    wrong = [
        fields.fault(key, f"has {length} items", f"{lengths[first]} as in {first}")
        for key, length in lengths.items()
        if length != lengths[first]
    ]
    if wrong:
        raise BadInput(*wrong)
    return lengths[first]
