"""Latency of each request, as the user observes it and as the engine sees it, and the parts of TTFT."""

from __future__ import annotations

from dataclasses import dataclass, fields

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


@dataclass(frozen=True)
class TtftParts:
    """What a user's TTFT consists of, seconds, shape (n,), NaN for failed requests; `total` is their sum.

    Attributes:
        network_and_gateway: from the client through the gateway, with what it waited there by flow control.
        tokenization: text to tokens.
        cold_state: lost before the last submission to an engine: dead replicas, retries, loading.
        queue: in the engine's queue until the first step that worked on the request.
        prefill: from there to the end of the step that made the first token.
        stream_out: detokenization, flush and network of the first token.
    """

    network_and_gateway: Floats
    tokenization: Floats
    cold_state: Floats
    queue: Floats
    prefill: Floats
    stream_out: Floats

    @property
    def total(self) -> Floats:
        """The user's TTFT, seconds, shape (n,)."""
        parts: list[Floats] = [getattr(self, field.name) for field in fields(self)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


def failed(log: RunLog) -> NDArray[np.bool_]:
    """Tell which requests were not completed, shape (n,)."""
    return np.not_equal(log.requests.outcome, Outcome.COMPLETED)


def ttft_parts(log: RunLog) -> TtftParts:
    """Split the TTFT of every completed request."""
    requests, outside = log.requests, log.latencies
    late = requests.submitted - requests.arrival - outside.inbound - requests.held
    nothing = np.where(failed(log), np.nan, 0.0)
    return TtftParts(
        network_and_gateway=nothing + (outside.network + outside.gateway + requests.held),
        tokenization=nothing + outside.tokenization,
        # Without a retry only the rounding of two sums is left over, which is no cold state.
        cold_state=nothing + np.where(np.abs(late) < _INSTANT, 0.0, late),
        queue=nothing + (requests.scheduled - requests.submitted),
        prefill=nothing + (requests.first_token - requests.scheduled),
        stream_out=nothing + outside.outbound,
    )


def user_latencies(log: RunLog) -> RequestLatencies:
    """Latencies from the client's submission to tokens at the client; TTFT is the sum of its parts."""
    return _latencies(log, ttft_parts(log).total)


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
