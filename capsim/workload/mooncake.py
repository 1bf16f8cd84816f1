"""The reader of traces in the format of Mooncake: lengths, and a hash id for every block of a prompt."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capsim.documents.dropped_row import DroppedRow
from capsim.workload.prefixes import Prefixes
from capsim.workload.trace import Trace
from capsim.workload.trace_file import TraceFile

BLOCK_SIZE = 512
"""Tokens of one hash id in the traces that Mooncake published (Qin et al., FAST 2025)."""

PRIORITY_KEY = "priority"
"""The published traces have no such key: a whole number, the smaller first; 0 where a row has none."""

KEYS = ("timestamp", "input_length", "output_length", "hash_ids", PRIORITY_KEY)
SECONDS_KEY = "chat_id"
"""Rows of the Bailian traces have it; their timestamps are seconds."""

_MOST_TOKENS = 10**9
_NAMES_SHOWN = 8
_MILLISECOND, _SECOND = 1_000_000, 1_000_000_000


@dataclass(frozen=True)
class _Row:
    nanoseconds: int
    prompt: int
    output: int
    hashes: list[int]
    priority: int | None


def read_mooncake(path: str | Path, block_size: int = BLOCK_SIZE) -> Trace:
    """Read a trace of JSON Lines, gzipped or not, in the format of the Mooncake traces.

    Keys of a row: `timestamp`, a number of milliseconds (of seconds where rows have a `chat_id`, as those of
    the Bailian traces; digits in quotes are nanoseconds), `input_length` and `output_length` in tokens, and
    `hash_ids`, one whole number for every `block_size` tokens of the prompt, the last block perhaps partial.
    A whole number `priority` is read where there is one. Other keys are ignored.

    A row without ids shares nothing. A row with fewer ids than blocks shares no more than its ids say. Rows
    with more ids than blocks, no input or no output tokens, or anything that cannot be read are dropped and
    listed. The attribution is read from ``NAME.attribution.txt`` beside the file if that exists.

    Raises:
        BadInput: no such file, not such a format, or no usable row.
    """
    file = TraceFile.read(path, "a JSON Lines file")
    rows: list[_Row] = []
    dropped: list[DroppedRow] = []
    other_keys: dict[str, None] = {}
    for number, line in enumerate(file.lines, start=1):
        if not line or line.isspace():
            continue
        row = _row(line, block_size)
        if isinstance(row, str):
            dropped.append(DroppedRow(number, row))
            continue
        rows.append(row[0])
        other_keys |= dict.fromkeys(row[1])
    prompt = np.array([row.prompt for row in rows], dtype=np.int64)
    hashes = [row.hashes for row in rows]
    prefixes = Prefixes.of_hashes(hashes, prompt, block_size).compressed() if any(hashes) else None
    return file.trace(
        [(row.nanoseconds, row.prompt, row.output) for row in rows],
        dropped,
        tuple(name[:40] for name in other_keys)[:_NAMES_SHOWN],
        prefixes=prefixes,
        hash_block=block_size,
        remarks=_remarks(rows, block_size, in_seconds=SECONDS_KEY in other_keys),
        priority=_priorities(rows),
    )


def _priorities(rows: list[_Row]) -> list[int] | None:
    if all(row.priority is None for row in rows):
        return None
    return [row.priority or 0 for row in rows]


def _row(line: str, block_size: int) -> tuple[_Row, list[str]] | str:
    """One usable row and its other keys, or the reason why it is not usable."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return "not valid JSON"
    if not isinstance(fields, dict):
        return "not a JSON object"
    unusable = _unusable(fields, block_size)
    stamp = _nanoseconds(fields.get("timestamp"), _SECOND if SECONDS_KEY in fields else _MILLISECOND)
    if unusable or stamp is None:
        return unusable or "timestamp is not a time"
    lengths = fields["input_length"], fields["output_length"]
    row = _Row(stamp, *lengths, fields.get("hash_ids") or [], fields.get(PRIORITY_KEY))
    return row, [key for key in fields if key not in KEYS]


def _unusable(fields: dict[str, Any], block_size: int) -> str:
    """Why a row's lengths and ids cannot be used; empty if they can."""
    for key in ("input_length", "output_length"):
        tokens: Any = fields.get(key)
        if not _whole(tokens) or not 0 <= tokens < _MOST_TOKENS:
            return f"{key} is not a whole number of tokens"
        if tokens == 0:
            return f"{key} is 0"
    priority: Any = fields.get(PRIORITY_KEY)
    if priority is not None and not (_whole(priority) and abs(priority) < _MOST_TOKENS):
        return f"{PRIORITY_KEY} is not a whole number"
    hashes = fields.get("hash_ids")
    if hashes is None:
        return ""
    if not isinstance(hashes, list) or not all(_whole(each) for each in hashes):
        return "hash_ids is not a list of whole numbers"
    too_many = len(hashes) > _blocks(fields["input_length"], block_size)
    return f"input_length is too short for its hash_ids of {block_size} tokens each" if too_many else ""


def _blocks(tokens: int, block_size: int) -> int:
    return -(-tokens // block_size)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _nanoseconds(stamp: Any, unit: int) -> int | None:
    """Nanoseconds of a timestamp, exact where it is whole; None if it is none or beyond 64 bits."""
    if isinstance(stamp, str) and stamp.isascii() and stamp.isdigit() and len(stamp) <= 19:
        nanoseconds = int(stamp)
    elif _whole(stamp):
        nanoseconds = stamp * unit
    elif isinstance(stamp, float) and math.isfinite(stamp * unit):
        nanoseconds = round(stamp * unit)
    else:
        return None
    # Differences of two stamps must fit too.
    return nanoseconds if abs(nanoseconds) < 2**62 else None


def _remarks(rows: list[_Row], block_size: int, *, in_seconds: bool) -> tuple[str, ...]:
    without = sum(not row.hashes for row in rows)
    short = sum(0 < len(row.hashes) < _blocks(row.prompt, block_size) for row in rows)
    remarks = []
    if in_seconds:
        remarks.append(f"rows have a {SECONDS_KEY}: their timestamps are taken for seconds, not milliseconds")
    if without:
        remarks.append(f"{without} of {len(rows)} rows have no hash_ids; they share nothing")
    if short:
        blocks = f"blocks of {block_size} tokens"
        remarks.append(
            f"{short} of {len(rows)} rows have fewer hash_ids than {blocks}; the rest is not shared"
        )
    return tuple(remarks)
