"""Latency of each request, as the user observes it and as the engine sees it, and the parts of TTFT."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import Outcome, RunLog

Floats = NDArray[np.float64]

_INSTANT = 1e-9
"""Seconds; events nearer than this happen at the same time (the engine's rule for ties)."""


@dataclass(frozen=True)
class RequestLatencies:
    """One value a request, seconds, shape (n,).

    A failed request (rejected, lost or unfinished) is infinite in all three. A completed request with one
    output token has no TPOT: NaN, not 0.

    Attributes:
        ttft: from submission to the first token.
        tpot: (last token - first token) / (output - 1).
        e2e: from submission to the last token, ``ttft + (output - 1) * tpot``.
    """

    ttft: Floats
    tpot: Floats
    e2e: Floats

    def of(self, metric: str) -> Floats:
        """Return the values of ``ttft``, ``tpot`` or ``e2e``."""
        values: Floats = getattr(self, metric)
        return values

    def only(self, rows: NDArray[np.bool_] | slice) -> RequestLatencies:
        """Keep the requests where `rows`, shape (n,), is true, or those of a slice."""
        return RequestLatencies(self.ttft[rows], self.tpot[rows], self.e2e[rows])


TTFT_PARTS = ("network_and_gateway", "tokenization", "cold_state", "queue", "prefill", "stream_out")
"""See `TtftParts`."""


@dataclass(frozen=True)
class TtftParts:
    """What a user's TTFT consists of, seconds, shape (n,), NaN for failed requests; `total` is their sum.

    Each part is made when it is asked for: all of them together are as large as what the run recorded.
    """

    log: RunLog

    @property
    def network_and_gateway(self) -> Floats:
        """From the client through the gateway, with what it waited there by flow control."""
        outside = self.log.latencies
        return self._completed(outside.network + outside.gateway + self.log.requests.held)

    @property
    def tokenization(self) -> Floats:
        """Text to tokens."""
        return self._completed(self.log.latencies.tokenization)

    @property
    def cold_state(self) -> Floats:
        """Lost before the last submission to an engine: dead replicas, retries, loading."""
        requests = self.log.requests
        late = requests.submitted - requests.arrival - self.log.latencies.inbound - requests.held
        # Without a retry only the rounding of two sums is left over, which is no cold state.
        return self._completed(np.where(np.abs(late) < _INSTANT, 0.0, late))

    @property
    def queue(self) -> Floats:
        """In the engine's queue until the first step that worked on the request."""
        return self._completed(self.log.requests.scheduled - self.log.requests.submitted)

    @property
    def prefill(self) -> Floats:
        """From there to the end of the step that made the first token."""
        return self._completed(self.log.requests.first_token - self.log.requests.scheduled)

    @property
    def stream_out(self) -> Floats:
        """Detokenization, flush and network of the first token."""
        return self._completed(self.log.latencies.outbound)

    @property
    def total(self) -> Floats:
        """The user's TTFT."""
        total = self.of(TTFT_PARTS[0])
        for name in TTFT_PARTS[1:]:
            total += self.of(name)
        return total

    def of(self, name: str) -> Floats:
        """One of `TTFT_PARTS`."""
        part: Floats = getattr(self, name)
        return part

    def _completed(self, seconds: Floats | float) -> Floats:
        return np.where(failed(self.log), np.nan, seconds)


def failed(log: RunLog) -> NDArray[np.bool_]:
    """Tell which requests were not completed, shape (n,)."""
    return np.not_equal(log.requests.outcome, Outcome.COMPLETED)


def user_latencies(log: RunLog) -> RequestLatencies:
    """Latencies from the client's submission to tokens at the client; TTFT is the sum of its parts."""
    return _latencies(log, TtftParts(log).total)


def engine_latencies(log: RunLog) -> RequestLatencies:
    """Latencies from the engine's queue to the ends of its steps, of the attempt that was completed."""
    return _latencies(log, log.requests.first_token - log.requests.submitted)


def _latencies(log: RunLog, ttft: Floats) -> RequestLatencies:
    requests = log.requests
    decoding = requests.finish - requests.first_token
    gaps = np.where(requests.output > 1, requests.output - 1, np.nan)
    lost = failed(log)
    return RequestLatencies(
        ttft=np.where(lost, np.inf, ttft),
        tpot=np.where(lost, np.inf, decoding / gaps),
        e2e=np.where(lost, np.inf, ttft + decoding),
    )
