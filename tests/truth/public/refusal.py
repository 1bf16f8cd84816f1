"""Why a published run is not simulated."""

from __future__ import annotations

DISAGGREGATED = "prefill and decode on different replicas"
SPECULATIVE = "speculative decoding"
PIPELINE = "a pipeline of several stages"
DATA_PARALLEL = "attention of data-parallel ranks, which step together"
FOUR_BIT = "arithmetic of 4 bits"
TIMED_OUT = "requests that the client gave up: its time-outs are not known"
SWEEP = "a line through many runs, not one of them"
PARALLELISM = "how the GPUs share the model is not recorded"
LENGTHS = "lengths are not recorded"
GPU = "the GPU is not in the catalog"
MODEL = "the model is not in the catalog"
ATTENTION = "no step cost of latent attention"
MEMORY = "does not fit by capsim's count of the memory"
KINDS = (
    DISAGGREGATED,
    SPECULATIVE,
    PIPELINE,
    DATA_PARALLEL,
    FOUR_BIT,
    TIMED_OUT,
    SWEEP,
    PARALLELISM,
    LENGTHS,
    GPU,
    MODEL,
    ATTENTION,
    MEMORY,
)
"""In the order in which a row is asked for them: the first that holds is its reason."""


class Refused(Exception):
    """A run is not simulated.

    Attributes:
        reason: one of `KINDS`.
        detail: what of the row it is.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
