"""What is replayed: traces, by the limits of the engine that serves them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrate.engine.trace import TraceRequest
from capsim.engine import EngineConfiguration
from capsim.workload.prefixes import Prefixes
from capsim.workload.requests import Requests

BLOCK = 32
"""Tokens of a KV block, and of a hash id of the traces."""
LIMITS = {"max_num_seqs": 16, "max_num_batched_tokens": 256, "max_model_len": 1024}
METRICS = ("TTFT", "TPOT", "ITL", "tokens/s")
PREFIX_BLOCKS, PREFIXES = 5, 3
"""Blocks of a common beginning, and how many of them there are."""


@dataclass(frozen=True)
class Service:
    """An engine's settings that a run differs in.

    Attributes:
        name: of the settings.
        caching: prefixes are shared.
        blocks: of the KV cache; None: what the engine takes.
    """

    name: str
    caching: bool = False
    blocks: int | None = None

    def arguments(self) -> dict[str, object]:
        """Of the engine, beside `LIMITS`."""
        more: dict[str, object] = {"block_size": BLOCK}
        return more if self.blocks is None else {**more, "num_gpu_blocks_override": self.blocks}

    def configuration(self, kv_tokens: int) -> EngineConfiguration:
        """The same for a simulation, of an engine whose KV cache holds so many tokens."""
        return EngineConfiguration(
            kv_tokens // BLOCK, block_size=BLOCK, enable_prefix_caching=self.caching, **LIMITS
        )


@dataclass(frozen=True)
class Load:
    """Requests of one kind at a share of what the engine can serve of them.

    Attributes:
        name: of the load.
        service: whose engine it goes to.
        share: of the capacity, by requests.
        prompt, output: fewest and most tokens, uniform between.
        shared: prompts begin with one of `PREFIXES` common beginnings.
        judged: metrics whose errors are held against the target; not where requests queue for long, since waiting
            then multiplies any error of the steps.
    """

    name: str
    service: Service
    share: float
    prompt: tuple[int, int] = (40, 220)
    output: tuple[int, int] = (10, 50)
    shared: bool = False
    judged: tuple[str, ...] = METRICS

    def requests(self, rate: float, seconds: float) -> list[TraceRequest]:
        """Poisson arrivals at a rate for some seconds, the same for the same load."""
        draw = random.Random(f"{self.name}")
        time, found = 0.0, []
        while True:
            time += draw.expovariate(rate)
            if time > seconds:
                return found
            prompt, output = draw.randint(*self.prompt), draw.randint(*self.output)
            hashes: tuple[int, ...] = ()
            if self.shared:
                group = draw.randrange(PREFIXES)
                hashes = tuple(group * PREFIX_BLOCKS + place for place in range(PREFIX_BLOCKS))
                prompt += PREFIX_BLOCKS * BLOCK
            found.append(TraceRequest(time, prompt, output, hashes))


PLAIN = Service("plain")
CACHING = Service("prefix caching", caching=True)
STARVED = Service("starved KV", blocks=34)
LOADS = (
    Load("light", PLAIN, 0.3),
    Load("medium", PLAIN, 0.6),
    Load("heavy", PLAIN, 0.85, judged=()),
    Load("shared prefixes", CACHING, 0.6, prompt=(20, 100), shared=True),
    Load("long outputs", STARVED, 0.7, prompt=(40, 100), output=(80, 240), judged=METRICS[1:]),
)


def simulated_requests(requests: Sequence[TraceRequest]) -> Requests:
    """What a simulation is told of a trace."""
    prompt = np.array([request.prompt for request in requests], dtype=np.int64)
    return Requests(
        np.array([request.arrival for request in requests]),
        prompt,
        np.array([request.output for request in requests], dtype=np.int64),
        Prefixes.of_hashes([request.hashes for request in requests], prompt, BLOCK),
    )
