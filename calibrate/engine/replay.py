"""An open loop: requests are sent at their times, whatever has become of the others."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from calibrate.engine.batches import Driver
from calibrate.engine.engine import Answer, Engine
from calibrate.engine.trace import TraceRequest, prompts

_LEAD = 0.2
"""Seconds until the first request may be sent, so that nothing is late from the start."""


@dataclass(frozen=True)
class Replayed:
    """What became of a trace.

    Attributes:
        start: time of the clock at which the trace begins.
        requests: what was sent, in order of arrival.
        answers: of each.
    """

    start: float
    requests: tuple[TraceRequest, ...]
    answers: tuple[Answer, ...]

    @property
    def end(self) -> float:
        """Time of the clock at the last token."""
        return max(answer.tokens[-1] for answer in self.answers)

    @property
    def latest(self) -> float:
        """Seconds by which the client sent a request late, at most: above some milliseconds it was too busy."""
        due = (self.start + request.arrival for request in self.requests)
        return max(answer.sent - each for answer, each in zip(self.answers, due, strict=True))


async def replay_trace(
    engine: Engine, requests: Sequence[TraceRequest], seed: int, block: int, name: str = "replay"
) -> Replayed:
    """Warm an engine up and replay requests on it, with an empty prefix cache.

    Args:
        engine: a started one, idle.
        requests: in order of arrival.
        seed: of the tokens.
        block: tokens of one hash id.
        name: see `replay`.
    """
    await Driver(engine, random.Random(f"{seed} {name}")).warm_up()
    await engine.forget_prefixes()
    return await replay(engine, requests, prompts(requests, engine.vocabulary, seed, block), name)


async def replay(
    engine: Engine, requests: Sequence[TraceRequest], prompts: Sequence[Sequence[int]], name: str
) -> Replayed:
    """Send requests at their times and wait for the answers.

    Args:
        engine: a started one, idle.
        requests: in order of arrival.
        prompts: token ids of each.
        name: begins the name of each request; unlike that of another replay on the same engine.
    """
    start = time.monotonic() + _LEAD
    running: list[asyncio.Task[Answer]] = []
    for place, (request, prompt) in enumerate(zip(requests, prompts, strict=True)):
        await asyncio.sleep(max(0.0, start + request.arrival - time.monotonic()))
        running.append(asyncio.create_task(_answered(engine, f"{name}-{place}", prompt, request.output)))
    return Replayed(start, tuple(requests), tuple(await asyncio.gather(*running)))


async def _answered(engine: Engine, name: str, prompt: Sequence[int], output: int) -> Answer:
    return await engine.generate(name, prompt, output)
