from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from calibrate.microbenchmark.machine import Condition, Machine
from calibrate.microbenchmark.sample import Sample, Timing

Call = Callable[[], object]


class Device(Protocol):
    """A torch device that times calls, in its own way.

    Attributes:
        place: what torch calls it, e.g. ``cuda:0``.
        machine: what it is.
        timing: how it times.
        graphs: it has CUDA graphs.
    """

    place: str
    machine: Machine
    timing: Timing
    graphs: bool

    def condition(self) -> Condition:
        """How it feels now."""

    def time(self, calls: Sequence[Call], *, graph: bool = True, timing: Timing | None = None) -> Sample:
        """Seconds of one call, over calls that do the same on inputs of their own.

        Args:
            calls: made in turn.
            graph: as a CUDA graph where the device has them, so that no launch is waited for.
            timing: other than the device's.
        """

    def now(self) -> float:
        """Seconds of the clock that latencies are read from."""

    def capture(self, call: Call) -> Call:
        """The call as a CUDA graph that is replayed; the call itself where the device has none."""

    def finish(self) -> None:
        """Wait until everything that was launched has run."""

    def fused(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """An element-wise function as one kernel, where the device can compile it."""

    def peak(self, call: Call) -> int | None:
        """Bytes that a call takes at most beside what is in memory; None where they are not known."""

    def memory(self) -> dict[str, int]:
        """Bytes by name: ``total``, and where they are known ``outside`` torch and ``reserved`` by it."""

    def release(self) -> None:
        """Give what is cached back to the driver."""

    def out_of_memory(self, error: Exception) -> bool:
        """Whether this is what the device says when its memory does not suffice."""
