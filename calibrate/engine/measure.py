"""Rounds of controlled batches on a started engine, as long as there is time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from calibrate.engine.batches import Case, Driver, Limits, cases
from calibrate.engine.engine import Engine
from calibrate.engine.step_log import Span


@dataclass
class Measurement:
    """What was measured so far; whole after every case, so that an interruption loses one.

    Attributes:
        spans: of the cases, in order.
        rounds: that were finished.
    """

    spans: list[Span] = field(default_factory=list)
    rounds: int = 0


async def measure(
    engine: Engine,
    seconds: float,
    seed: int,
    into: Measurement,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Run rounds of cases until the time is over, the first one to its end.

    Args:
        engine: a started one.
        seconds: of measuring.
        seed: of the cases' order, lengths and tokens.
        into: is told each case.
        say: is told each round.
    """
    draw = random.Random(seed)
    driver, limits = Driver(engine, draw), Limits.of(engine)
    await driver.warm_up()
    end = time.monotonic() + seconds
    while not into.rounds or time.monotonic() < end:
        for case in cases(limits, draw):
            into.spans += await spans_of(driver, [case])
            if into.rounds and time.monotonic() >= end:
                return
        into.rounds += 1
        say(f"round {into.rounds}: {len(into.spans)} cases")


async def spans_of(driver: Driver, wanted: Sequence[Case]) -> list[Span]:
    """Run these cases, and when each of them ran."""
    spans = []
    for case in wanted:
        start = time.monotonic()
        await driver.run(case)
        spans.append(Span(start, time.monotonic(), case.name, case.kind))
    return spans
