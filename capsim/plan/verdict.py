"""Three-way verdicts on a gate from independent replications."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, stdev

CONFIDENCE = 0.95
"""Of a verdict, over all looks together."""


class Verdict(Enum):
    """Does the gate hold?"""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "undecided"


def looks(budget: int) -> tuple[int, ...]:
    """Numbers of replications after which a verdict is tried, at most `budget`; the least is 4, or the budget."""
    return tuple(sorted({min(look, budget) for look in (4, 6, budget)}))


@dataclass(frozen=True)
class Interval:
    """Mean of a share over replications, with its two-sided confidence interval cut to [0, 1].

    Attributes:
        mean, low, high: shares.
        replications: how many.
        confidence: of this look. The error of 5 % is divided evenly between the looks (Bonferroni), because a verdict
            is taken at the first look that allows it.
    """

    mean: float
    low: float
    high: float
    replications: int
    confidence: float


def interval(shares: Sequence[float], looks_planned: int) -> Interval:
    """Student's t interval of the mean of independent replications.

    Args:
        shares: one figure a replication, each in [0, 1].
        looks_planned: between how many looks the error is divided.
    """
    from scipy.special import stdtrit  # not needed to check or run a scenario

    count = len(shares)
    mean = fmean(shares)
    confidence = 1 - (1 - CONFIDENCE) / looks_planned
    if count < 2:
        return Interval(mean, 0.0, 1.0, count, confidence)
    quantile = float(stdtrit(count - 1, (1 + confidence) / 2))
    half = quantile * stdev(shares) / math.sqrt(count)
    return Interval(mean, max(0.0, mean - half), min(1.0, mean + half), count, confidence)


def judge(measured: Interval, required: float) -> Verdict:
    """Pass if the whole interval reaches the required share, fail if none of it does, else undecided."""
    if measured.low >= required:
        return Verdict.PASS
    if measured.high < required:
        return Verdict.FAIL
    return Verdict.UNDECIDED


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """All gates together: one failure fails, all must pass to pass.

    A conjunction needs no further correction: it passes wrongly only if some gate passes wrongly.
    """
    if Verdict.FAIL in verdicts:
        return Verdict.FAIL
    return Verdict.UNDECIDED if Verdict.UNDECIDED in verdicts else Verdict.PASS


def rule_of_three(replications: int) -> float:
    """Upper 95 % bound of the share of runs that would fail when none of `replications` independent ones did.

    Exact form ``1 - 0.05 ** (1 / n)`` of the rule 3 / n (Hanley and Lippman-Hand, JAMA 1983).
    """
    return float(1.0 - (1 - CONFIDENCE) ** (1 / replications))
