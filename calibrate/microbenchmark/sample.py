from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Sample:
    """Seconds of one call.

    Attributes:
        seconds: median of the repeats.
        spread: half the distance between the tenth and the ninetieth percentile, over the median.
        repeats: how often it was timed.
        best: the fastest repeat.
    """

    seconds: float
    spread: float
    repeats: int
    best: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Sample:
        """From the repeats."""
        low, middle, high = np.quantile(seconds, (0.1, 0.5, 0.9))
        return cls(float(middle), float((high - low) / 2 / middle), len(seconds), float(min(seconds)))


@dataclass(frozen=True)
class Timing:
    """How a device times.

    Attributes:
        least: seconds of one repeat at least, so that the clock's own error is below a per mille.
        repeats: of a short call.
        slow: seconds of a repeat from which 5 repeats must do.
        setup: seconds that a case takes beside its repeats: inputs, warm-up, capture of a graph.
        launch: seconds of a kernel at least.
        most_calls: in one repeat.
        start: seconds until the first case: torch, compilation of element-wise kernels, random weights.
        capture: seconds to capture a decode step as a CUDA graph.
    """

    least: float
    repeats: int
    slow: float
    setup: float
    launch: float
    most_calls: int
    start: float
    capture: float = 0.0

    def calls(self, seconds: float) -> int:
        """Calls of one repeat, where one takes so long."""
        return max(1, min(self.most_calls, math.ceil(self.least / max(seconds, self.launch))))

    def repeats_of(self, seconds: float) -> int:
        """Repeats, where one takes so long."""
        return self.repeats if seconds < self.slow else min(5, self.repeats)

    def duration(self, seconds: float) -> float:
        """Seconds that measuring takes, where one call takes so long."""
        one = self.calls(seconds) * max(seconds, self.launch)
        return self.setup + (2 + self.repeats_of(one)) * one

    def at_best(self) -> Timing:
        """For a ceiling: more and shorter repeats, so that one of them at least is left alone."""
        return replace(self, least=min(self.least, 1e-3), repeats=4 * self.repeats)

    def sample(self, once: Callable[[int], float]) -> Sample:
        """The repeats of a call.

        Args:
            once: makes so many calls and returns the seconds of all of them.
        """
        first = once(1)
        calls = self.calls(first)
        one = once(calls)
        # The first call pays for what only it pays; the second look decides.
        calls = self.calls(one / calls)
        repeats = self.repeats_of(calls * one)
        return Sample.of([once(calls) / calls for _ in range(repeats)])


CUDA = Timing(least=1e-3, repeats=9, slow=0.1, setup=0.1, launch=4e-6, most_calls=512, start=60, capture=0.3)
CPU = Timing(least=3e-3, repeats=7, slow=0.2, setup=0.005, launch=10e-6, most_calls=256, start=5)
