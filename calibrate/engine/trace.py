"""Requests to replay, from a trace in the format of Mooncake: JSON Lines with lengths and hash ids of blocks.

Keys of a row: ``timestamp`` in milliseconds, ``input_length``, ``output_length``, and perhaps ``hash_ids``, one for
every so many tokens of the prompt. Prompts get tokens of their own making: equal ids give equal tokens, so that an
engine's prefix cache finds what the trace says. What capsim plans for is read from the same file.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from calibrate.importers.record import Record, read_records, refuse

BLOCK_SIZE = 512
"""Tokens of one hash id in the traces that Mooncake published (Qin et al., FAST 2025)."""


@dataclass(frozen=True)
class TraceRequest:
    """One request.

    Attributes:
        arrival: seconds from the first.
        prompt, output: tokens.
        hashes: ids of the prompt's blocks; what lies beyond them is like no other prompt.
    """

    arrival: float
    prompt: int
    output: int
    hashes: tuple[int, ...] = ()


def read_trace(path: Path) -> list[TraceRequest]:
    """The requests of a file in order of arrival, from 0 on.

    Raises:
        BadInput: the file is damaged, or not such a trace.
    """
    records = read_records(path)
    requests = [_request(record) for record in records]
    refuse(records[0].faults)
    first = min(request.arrival for request in requests)
    shifted = (replace(request, arrival=request.arrival - first) for request in requests)
    return sorted(shifted, key=lambda request: request.arrival)


def at_rate(requests: Sequence[TraceRequest], rate: float | None) -> list[TraceRequest]:
    """The same with time stretched to a mean rate of so many a second; None: as they are."""
    last = requests[-1].arrival
    if rate is None or last == 0:
        return list(requests)
    stretch = len(requests) / rate / last
    return [replace(request, arrival=stretch * request.arrival) for request in requests]


def prompts(requests: Sequence[TraceRequest], vocabulary: int, seed: int, block: int) -> list[list[int]]:
    """Token ids of each prompt.

    Args:
        requests: what they are of.
        vocabulary: token ids lie below it.
        seed: of all tokens.
        block: tokens of one hash id.
    """
    tokens = range(3, vocabulary)
    found = []
    for place, request in enumerate(requests):
        prompt: list[int] = []
        for each in request.hashes:
            prompt += random.Random(f"{seed} block {each}").choices(tokens, k=block)
        own = random.Random(f"{seed} request {place}")
        prompt += own.choices(tokens, k=max(0, request.prompt - len(prompt)))
        found.append(prompt[: request.prompt])
    return found


def _request(record: Record) -> TraceRequest:
    hashes = record.members.get("hash_ids") or []
    if not (isinstance(hashes, list) and all(isinstance(each, int) for each in hashes)):
        record.fault("hash_ids", f"{hashes!r:.40}", "a list of whole numbers")
        hashes = []
    if "timestamp" not in record:
        record.fault("timestamp", "is missing", "milliseconds")
    return TraceRequest(
        record.number("timestamp", 0.0) / 1e3,
        record.count("input_length", least=1),
        record.count("output_length", least=1),
        tuple(hashes),
    )
