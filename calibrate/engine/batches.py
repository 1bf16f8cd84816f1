"""Controlled batches: which requests make an engine run the steps that a profile needs.

No two prompts are alike or, on purpose, equally long: a live engine hardly ever sees the same number of tokens twice
in steps with prompts, and the first step of a shape takes longer than its repetition (kernels keep what they prepared
for a shape).
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from calibrate.engine.engine import Engine, Progress

KINDS = ("decode", "prefill", "admit")
SHORTEST = 16
"""Tokens of the shortest prompt."""
STAGE = 10
"""Decode steps in each stage of a ladder, and steps between two admissions."""
ADMISSIONS = 4
"""Of one case."""
SPREAD = 0.15
"""Lengths of one case differ by up to this share of it, either way."""
SETTLED = 0.02
"""Seconds after the last answer in which an engine finishes its books."""


@dataclass(frozen=True)
class Case:
    """One controlled batch.

    - ``decode``: a ladder of `sequences` prompts of about `context` tokens, of which ever fewer go on decoding. Its
      beginning also has steps of several chunks, and of chunks after a past where the prompts exceed a step;
    - ``prefill``: one prompt of about `prompt` tokens alone;
    - ``admit``: `sequences` decode at a context of about `context`, and again and again `admitted` new prompts of
      about `prompt` tokens come at once.
    """

    kind: str
    sequences: int = 0
    context: int = 0
    prompt: int = 0
    admitted: int = 0

    @property
    def name(self) -> str:
        """What was asked for, for the column ``case``."""
        parts = {"n": self.sequences, "context": self.context, "prompt": self.prompt, "new": self.admitted}
        return " ".join([self.kind, *(f"{name}={count}" for name, count in parts.items() if count)])


@dataclass(frozen=True)
class Limits:
    """What an engine can hold.

    Attributes:
        sequences, step_tokens: at most in a step.
        length: tokens of a sequence.
        kv_tokens: of all sequences.
    """

    sequences: int
    step_tokens: int
    length: int
    kv_tokens: int

    @classmethod
    def of(cls, engine: Engine) -> Limits:
        """Those of a started engine."""
        settings = engine.settings
        return cls(
            settings.max_num_seqs,
            settings.max_num_batched_tokens,
            settings.max_model_len,
            engine.kv_tokens,
        )


def cases(limits: Limits, draw: random.Random) -> list[Case]:
    """One round of cases, in random order: the speed of a machine drifts.

    Args:
        limits: of the engine.
        draw: the order, and the prompts that are admitted together.
    """
    found = [*_ladders(limits), *_prompts(limits), *_admissions(limits, draw)]
    draw.shuffle(found)
    return found


def counts(most: int) -> list[int]:
    """1, 2, 4, ... and the most."""
    return sorted({*(2**power for power in range(int(math.log2(most)) + 1)), most})


def _ladders(limits: Limits) -> Iterator[Case]:
    """All sequences at contexts up to where they no longer fit, and a quarter of them at the longest."""
    steps = STAGE * len(counts(limits.sequences))
    room = int((limits.length - steps) / (1 + SPREAD))
    fits = int((0.9 * limits.kv_tokens / limits.sequences - steps) / (1 + SPREAD))
    context = 2 * SHORTEST
    while context <= min(room, fits, limits.length // 3):
        yield Case("decode", limits.sequences, context)
        context *= 4
    few = max(1, limits.sequences // 4)
    longest = min(room, int((0.9 * limits.kv_tokens / few - steps) / (1 + SPREAD)))
    if longest >= SHORTEST:
        yield Case("decode", few, longest)


def _prompts(limits: Limits) -> Iterator[Case]:
    """Alone, from the shortest to beyond what a step can take, so that chunks after a past come too."""
    longest = min(4 * limits.step_tokens, int(limits.length / (1 + SPREAD)) - 1)
    prompt = SHORTEST
    while prompt < longest:
        yield Case("prefill", prompt=prompt)
        prompt = math.ceil(prompt * math.sqrt(2))


def _admissions(limits: Limits, draw: random.Random) -> Iterator[Case]:
    """Few to many decodes, and prompts of all lengths that a step can take."""
    for decodes in counts(limits.sequences - 1) if limits.sequences > 1 else []:
        for _ in range(2):
            admitted = min(draw.choice((1, 1, 2, 3)), limits.sequences - decodes)
            longest = min(limits.step_tokens, limits.length // 2)
            prompt = round(math.exp(draw.uniform(math.log(SHORTEST), math.log(longest))))
            yield Case(
                "admit", decodes, context=min(200, limits.length // 8), prompt=prompt, admitted=admitted
            )


class Driver:
    """Makes an engine run cases.

    Args:
        engine: a started one.
        draw: lengths and tokens.
    """

    def __init__(self, engine: Engine, draw: random.Random) -> None:
        self._engine = engine
        self._draw = draw
        self._sent = 0

    async def run(self, case: Case) -> None:
        """Run one case to its end."""
        if case.kind == "decode":
            await self._ladder(case)
        elif case.kind == "prefill":
            await self._send(self._length(case.prompt), 1)
        else:
            await self._admit(case)
        await asyncio.sleep(SETTLED)

    async def warm_up(self) -> None:
        """Touch all code once."""
        few = min(4, self._engine.settings.max_num_seqs)
        await asyncio.gather(*(self._send(40 + 60 * place, 8) for place in range(few)))

    async def _ladder(self, case: Case) -> None:
        """Of 32 sequences 16 end after the first stage, 8 after the second, and so on."""
        stages = counts(case.sequences)
        ends: list[int] = []
        for stage, going_on in enumerate(reversed([0, *stages[:-1]]), start=1):
            ends += [stage * STAGE] * (case.sequences - going_on - len(ends))
        await asyncio.gather(*(self._send(self._length(case.context), end) for end in ends))

    async def _admit(self, case: Case) -> None:
        """New prompts come at once while the others decode, each time one of these has had some more tokens."""
        arrivals: list[asyncio.Task[None]] = []

        def admit(tokens: int) -> None:
            if len(arrivals) < case.admitted * min(ADMISSIONS, tokens // STAGE):
                arrivals.extend(
                    asyncio.create_task(self._send(self._length(case.prompt), 1))
                    for _ in range(case.admitted)
                )

        output = (ADMISSIONS + 1) * STAGE
        others = (self._send(self._length(case.context), output) for _ in range(case.sequences - 1))
        await asyncio.gather(self._send(self._length(case.context), output, admit), *others)
        await asyncio.gather(*arrivals)

    async def _send(self, prompt: int, output: int, progress: Progress | None = None) -> None:
        self._sent += 1
        tokens = self._draw.choices(range(3, self._engine.vocabulary), k=prompt)
        await self._engine.generate(f"case-{self._sent}", tokens, output, progress)

    def _length(self, about: int) -> int:
        """Tokens, drawn around what is asked for."""
        return max(1, round(about * self._draw.uniform(1 - SPREAD, 1 + SPREAD)))
