"""What one forward pass works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Chunk(NamedTuple):
    """Part of a prompt computed in one step: `new` tokens after `past` tokens already in the KV cache."""

    new: int
    past: int


class BatchShape(NamedTuple):
    """The shape of one step's batch: all that any attention kind's cost depends on.

    A named tuple because one is made on every scheduling decision (a frozen dataclass costs four times as much).

    Attributes:
        chunks: prefill chunks in the batch.
        decodes: sequences that decode.
        context: tokens of KV read by the decodes' full attention, summed over them, the new token included.
        query_tokens: query tokens per decode; more than 1 when drafts are verified.
        windowed_context: the same sum for sliding-window layers (each sequence's context cut at the window).
        squared_context: sum of the squared contexts (unequal lengths cost more than equal ones).
        largest_context: the longest context among the decodes, tokens.
        filling: decodes whose context is still shorter than the window, and grows there too.
    """

    chunks: Sequence[Chunk]
    decodes: int
    context: int
    query_tokens: int = 1
    windowed_context: int = 0
    squared_context: int = 0
    largest_context: int = 0
    filling: int = 0
