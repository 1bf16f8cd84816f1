"""What is asked of the service: arrivals with prompt and output lengths, drawn at any rate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.errors import BadInput
from capsim.workload.arrivals import EnvelopeArrivals, RenewalProcess
from capsim.workload.burstiness import dispersion_of_counts, gap_cv
from capsim.workload.lengths import LengthDistribution
from capsim.workload.priorities import PriorityMix
from capsim.workload.requests import Requests
from capsim.workload.reuse import PromptBlocks
from capsim.workload.shared_prefixes import SharedPrefixes
from capsim.workload.streams import stream
from capsim.workload.trace import Trace

DISPERSION_WINDOWS = (1.0, 10.0, 60.0)
"""Seconds; short, middle and long against the life of a request."""


class Demand(ABC):
    """A source of requests at any mean rate.

    Draws with one seed at two rates are coupled: arrivals follow one random pattern in two tempos and the
    i-th request of both uses the same random numbers for its lengths, so that a difference between the runs
    comes from the rate and not from the draw. Arrivals and lengths have streams of their own: changing one
    leaves the other.
    """

    @abstractmethod
    def draw(self, rate: float, duration: float, seed: np.random.SeedSequence) -> Requests:
        """Draw requests that arrive in [0, duration) seconds, at a mean of `rate` per second over the duration.

        Raises:
            BadInput: `rate` or `duration` is not above 0.
        """

    @abstractmethod
    def saturating(self, n: int, seed: np.random.SeedSequence) -> Requests:
        """`n` requests with the demand's lengths, prompt and output jointly, that all arrive at time 0.

        A replica that serves them is never idle until the last ones: they measure its saturated rate.
        """

    @property
    @abstractmethod
    def mean_prompt(self) -> float:
        """Expected prompt length, tokens."""

    @property
    @abstractmethod
    def mean_output(self) -> float:
        """Expected output length, tokens."""

    @property
    def states_priorities(self) -> bool:
        """Whether requests have priorities."""
        return False

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Record the demand for JSON: kind, lengths, burstiness, prefix reuse, source.

        Lengths are tokens at mean, p50, p95 and p99; a figure that does not exist is None.
        """


@dataclass(frozen=True)
class SyntheticDemand(Demand):
    """Arrivals of a renewal process; prompt and output lengths independent of each other and of time.

    Attributes:
        arrivals: of the requests.
        prompt, output: lengths, tokens.
        prefix: prefixes that prompts begin with; None: no two prompts share anything.
        priorities: of the requests; None: all are alike.
    """

    arrivals: RenewalProcess
    prompt: LengthDistribution
    output: LengthDistribution
    prefix: SharedPrefixes | None = None
    priorities: PriorityMix | None = None

    def draw(self, rate: float, duration: float, seed: np.random.SeedSequence) -> Requests:
        """Draw requests in [0, duration) at `rate` per second; another rate plays the same pattern faster."""
        return self._with_lengths(self.arrivals.within(rate, duration, stream(seed, "arrivals")), seed)

    def saturating(self, n: int, seed: np.random.SeedSequence) -> Requests:
        """`n` requests that all arrive at time 0."""
        return self._with_lengths(np.zeros(n), seed)

    def _with_lengths(self, arrival: NDArray[np.float64], seed: np.random.SeedSequence) -> Requests:
        n = len(arrival)
        prompt = self.prompt.sample(n, stream(seed, "prompt lengths"))
        output = self.output.sample(n, stream(seed, "output lengths"))
        prefixes = priority = None
        if self.prefix is not None:
            prefixes = self.prefix.sample(prompt, stream(seed, "shared prefixes"))
        if self.priorities is not None:
            priority = self.priorities.sample(n, stream(seed, "priorities"))
        return Requests(arrival, prompt, output, prefixes, priority=priority)

    @property
    def states_priorities(self) -> bool:
        """Whether requests have priorities."""
        return self.priorities is not None

    @property
    def mean_prompt(self) -> float:
        """Expected prompt length, tokens."""
        return self.prompt.expected

    @property
    def mean_output(self) -> float:
        """Expected output length, tokens."""
        return self.output.expected

    def description(self) -> dict[str, Any]:
        """Figures of the distributions in closed form; the dispersion is that of long windows.

        The prefix reuse is the expected share of the prompt tokens that lie in a shared prefix.
        """
        prefix = self.prefix
        return {
            "kind": "synthetic",
            "prompt": _distribution_figures(self.prompt),
            "output": _distribution_figures(self.output),
            "arrivals": str(self.arrivals),
            "gap_cv": self.arrivals.cv,
            "dispersion_of_counts": {"limit": self.arrivals.cv**2},
            "prefix_reuse": prefix.expected_reuse(self.prompt) if prefix else 0.0,
            "source": f"{self.arrivals}, prompt {self.prompt}, output {self.output}"
            + (f", prefix {prefix}" if prefix else "")
            + (f", priorities {self.priorities}" if self.priorities else ""),
            "attribution": None,
        }


@dataclass(frozen=True)
class TraceDemand(Demand):
    """Requests after a recorded trace, resampled at any rate, or the trace itself.

    Three ways to another rate, and what each does to bursts:

    * `draw` keeps the trace's rate over time, bin by bin, as an envelope that is stretched or compressed onto
      the duration and scaled to the rate. Variation slower than a bin is kept in proportion; within a bin
      arrivals are Poisson, so bursts shorter than a bin are lost (their dispersion in the trace is in
      `description`).
    * `literal` compresses or stretches time. Every burst is kept and becomes as much faster as the mean: at a
      higher rate this overstates bursts, since more users do not act in step; at a lower rate it understates
      them.
    * Superposing shifted copies of the trace would smooth bursts, as the copies are independent; it is not
      offered.

    A trace with prefixes is resampled otherwise, since rows drawn by chance would come back in another order,
    and a row drawn twice would be found in a cache though nobody asked it twice: `draw` and `saturating` take
    its rows in their own order from a random one on, beginning again after the last. Each further pass
    through the trace is another copy of its prefixes, which shares nothing with the others.

    How many requests lie between two with the same prefix is kept, the seconds between them are not; nor is
    the tie of a row's lengths to the time of day. At a rate that is higher because there are more users, more
    requests would lie between: a small cache then finds too much.

    Attributes:
        trace: what was recorded.
        bin: seconds of one bin of the rate envelope; the trace's duration is divided into equal bins as near
            to this as possible, so that no last bin is left too short to tell a rate.
    """

    trace: Trace
    bin: float = 60.0
    envelope: EnvelopeArrivals = field(init=False, repr=False)
    _bin_starts: NDArray[np.int64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.bin < math.inf:
            raise BadInput(f"the bin of a trace's rate envelope must be above 0 s, found {self.bin:g} s")
        bins = max(1, round(self.trace.duration / self.bin))
        edges = np.linspace(0.0, self.trace.duration, bins + 1)
        starts = np.searchsorted(self.trace.arrival, edges)
        starts[-1] = len(self.trace)
        object.__setattr__(self, "envelope", EnvelopeArrivals(tuple(np.diff(starts).astype(float).tolist())))
        object.__setattr__(self, "_bin_starts", starts.astype(np.int64))

    def draw(self, rate: float, duration: float, seed: np.random.SeedSequence) -> Requests:
        """Resample: Poisson along the trace's rate envelope, lengths jointly from a row of the same bin.

        The i-th request takes the row at the same relative place of its bin at whatever rate, so draws at two
        rates are positively coupled in lengths as in arrivals. With prefixes it is the same row at any rate.
        """
        arrival, bins = self.envelope.within_bins(rate, duration, stream(seed, "arrivals"))
        if self.trace.prefixes is not None:
            return self._in_order(arrival, seed)
        starts = self._bin_starts
        places = stream(seed, "lengths").random(len(arrival))
        return self._of_rows(
            arrival, starts[bins] + (places * (starts[bins + 1] - starts[bins])).astype(np.int64)
        )

    def saturating(self, n: int, seed: np.random.SeedSequence) -> Requests:
        """`n` requests that all arrive at time 0, lengths jointly from any row; in order with prefixes."""
        if self.trace.prefixes is not None:
            return self._in_order(np.zeros(n), seed)
        rows = (stream(seed, "lengths").random(n) * len(self.trace)).astype(np.int64)
        return self._of_rows(np.zeros(n), rows)

    def recorded(self) -> Requests:
        """Replay the trace as it is."""
        return self._at(self.trace.arrival)

    def literal(self, rate: float) -> Requests:
        """Replay the trace in order, its time compressed or stretched to a mean of `rate` per second.

        Compressing time overstates bursts, stretching it understates them.

        Raises:
            BadInput: `rate` is not above 0, or all requests of the trace arrive at once.
        """
        if not 0 < rate < math.inf:
            raise BadInput(f"a rate must be above 0, found {rate:g}/s")
        if self.trace.duration == 0:
            raise BadInput(
                f"{self.trace.source}: all requests arrive at once, so the trace has no rate to scale"
            )
        return self._at(self.trace.arrival * (self.trace.rate / rate))

    def _at(self, arrival: NDArray[np.float64]) -> Requests:
        trace = self.trace
        return Requests(arrival, trace.prompt, trace.output, trace.prefixes, priority=trace.priority)

    def _of_rows(self, arrival: NDArray[np.float64], rows: NDArray[np.int64]) -> Requests:
        trace = self.trace
        priority = None if trace.priority is None else trace.priority[rows]
        return Requests(arrival, trace.prompt[rows], trace.output[rows], priority=priority)

    def _in_order(self, arrival: NDArray[np.float64], seed: np.random.SeedSequence) -> Requests:
        """Rows one after another from a random one on; pass k through the trace is copy k of its prefixes."""
        assert self.trace.prefixes is not None
        first = int(stream(seed, "lengths").random() * len(self.trace))
        place = np.arange(len(arrival))
        rows = (first + place) % len(self.trace)
        prefixes = self.trace.prefixes.take(rows, copies=place // len(self.trace))
        return replace(self._of_rows(arrival, rows), prefixes=prefixes)

    def _prefix_reuse(self) -> float | str:
        """Share of the prompt tokens that a cache of whole hash blocks finds if it forgets nothing."""
        trace = self.trace
        if trace.prefixes is None or trace.hash_block is None:
            return "not recorded"
        return PromptBlocks.cut(trace.prefixes, trace.prompt, trace.hash_block).found_ever().token_share

    @property
    def states_priorities(self) -> bool:
        """Whether the trace has a priority for each request."""
        return self.trace.priority is not None

    @property
    def mean_prompt(self) -> float:
        """Mean prompt length of the trace, which is also that of the resamples, tokens."""
        return float(self.trace.prompt.mean())

    @property
    def mean_output(self) -> float:
        """Mean output length of the trace, which is also that of the resamples, tokens."""
        return float(self.trace.output.mean())

    def description(self) -> dict[str, Any]:
        """Figures of the trace itself; percentiles of lengths interpolate linearly between rows."""
        trace = self.trace
        return {
            "kind": "trace",
            "name": trace.name,
            "requests": len(trace),
            "duration": trace.duration,
            "rate": _finite(trace.rate),
            "envelope_bin": trace.duration / len(self.envelope.weights),
            "prompt": _row_figures(trace.prompt),
            "output": _row_figures(trace.output),
            "gap_cv": _finite(gap_cv(trace.arrival)),
            "dispersion_of_counts": {
                f"{window:g}s": _finite(dispersion_of_counts(trace.arrival, window))
                for window in DISPERSION_WINDOWS
            },
            "prefix_reuse": self._prefix_reuse(),
            "source": Path(trace.source).name,
            "sha256": trace.sha256,
            "attribution": trace.attribution or None,
            "notes": list(trace.notes),
        }


def _distribution_figures(lengths: LengthDistribution) -> dict[str, float]:
    quantiles = {f"p{percent}": lengths.quantile(percent / 100) for percent in (50, 95, 99)}
    return {"mean": lengths.expected, **quantiles}


def _row_figures(lengths: NDArray[np.int64]) -> dict[str, float]:
    p50, p95, p99 = np.percentile(lengths, (50, 95, 99)).tolist()
    return {"mean": float(lengths.mean()), "p50": p50, "p95": p95, "p99": p99}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
