"""Attention of a ragged batch over a KV cache, and the cache: paged on a GPU, in one piece a sequence on a CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention

from calibrate.microbenchmark.case import Batch
from calibrate.microbenchmark.rank import Rank

PAGE = 256
"""Tokens of a page; torch's flash attention takes multiples of 256."""


@dataclass
class Placement:
    """Where the sequences of a batch lie in a part of the cache.

    Attributes:
        batch: what is placed.
        slots: where each new token's keys and values go, shape (tokens,).
        tables: what the kernel of the device wants beside that, by its own names.
    """

    batch: Batch
    slots: Any
    tables: dict[str, Any] = field(default_factory=dict)


class KvCache(Protocol):
    """Keys and values of all layers, one buffer."""

    def part(self, place: int, parts: int) -> Any:
        """One of so many equal parts, as a layer has it."""

    def place(self, batch: Batch, parts: int, turn: int = 0, room: int = 0) -> Placement:
        """A place for a batch in such a part.

        Args:
            batch: what is placed.
            parts: that the cache is cut into.
            turn: another turn takes another place, as far as there is room.
            room: tokens by which each decode can still grow.
        """

    def write(self, part: Any, placement: Placement, keys: Any, values: Any) -> None:
        """Put the new tokens' keys and values where they belong, shapes (tokens, KV heads, head size)."""

    def attend(self, part: Any, placement: Placement, queries: Any) -> Any:
        """Causal attention of queries of shape (tokens, heads, head size)."""

    def advance(self, placement: Placement) -> None:
        """Every decode is one token longer."""


class PagedCache:
    """Pages that lie anywhere, read by one kernel for the whole batch, as engines do it.

    torch's flash attention takes a table of pages, splits long contexts over the multiprocessors, and treats the
    queries that share a KV head as one block where every sequence has one query: chunks, decodes and both together
    are one launch.

    Args:
        rank: gives heads and sizes.
        tokens: of one layer that the buffer holds at least.
        place: torch's device.
    """

    def __init__(self, rank: Rank, tokens: int, place: str) -> None:
        self._place = place
        self._orders: dict[int, Any] = {}
        pages = math.ceil(tokens / PAGE) + 1
        shape = (pages, PAGE, rank.kv_heads, rank.model.head_dim)
        self._keys = torch.randn(shape, dtype=torch.bfloat16, device=place)
        self._values = torch.randn(shape, dtype=torch.bfloat16, device=place)

    def part(self, place: int, parts: int) -> Any:
        """See `KvCache`."""
        pages = len(self._keys) // parts
        here = slice(place * pages, (place + 1) * pages)
        return self._keys[here], self._values[here]

    def place(self, batch: Batch, parts: int, turn: int = 0, room: int = 0) -> Placement:
        """See `KvCache`; the pages of a sequence lie in random order."""
        pages = len(self._keys) // parts
        lengths = [length for _, length in batch.lengths]
        needs = [math.ceil((length + room) / PAGE) for length in lengths]
        if sum(needs) > pages:
            raise MemoryError(f"{sum(needs)} pages of KV, and {pages} are there: out of memory")
        order = self._order(pages, sum(needs), turn)
        table = torch.zeros(len(lengths), max(needs), dtype=torch.int64)
        start = 0
        for row, need in enumerate(needs):
            table[row, :need] = order[start : start + need]
            start += need
        news = torch.tensor([new for new, _ in batch.lengths])
        ends = torch.tensor(lengths)
        sequence = torch.repeat_interleave(torch.arange(len(lengths)), news)
        within = torch.arange(int(news.sum())) - (news.cumsum(0) - news)[sequence]
        position = (ends - news)[sequence] + within
        slots = table[sequence, position // PAGE] * PAGE + position % PAGE
        tables = {
            "block_table": table.int(),
            "seqused_k": ends.int(),
            "cum_seq_q": torch.cat([torch.zeros(1), news.cumsum(0)]).int(),
            "cum_seq_k": torch.cat([torch.zeros(1), ends.cumsum(0)]).int(),
        }
        found = {name: value.to(self._place) for name, value in tables.items()}
        found |= {"max_q": int(news.max()), "max_k": max(lengths) + room, "rows": table.to(self._place)}
        return Placement(batch, slots.to(self._place), found)

    def _order(self, pages: int, needed: int, turn: int) -> Any:
        """Pages in random order, as many as needed; other ones in another turn."""
        if pages not in self._orders:
            self._orders[pages] = torch.randperm(pages, generator=torch.Generator().manual_seed(pages))
        return self._orders[pages][(turn * needed + torch.arange(needed)) % pages]

    def write(self, part: Any, placement: Placement, keys: Any, values: Any) -> None:
        """See `KvCache`."""
        for buffer, new in zip(part, (keys, values), strict=True):
            buffer.view(-1, *buffer.shape[2:]).index_copy_(0, placement.slots, new)

    def attend(self, part: Any, placement: Placement, queries: Any) -> Any:
        """See `KvCache`."""
        tables = placement.tables
        # One query a sequence sees all keys; said so, its kernel takes the queries of a KV head together.
        causal = tables["max_q"] > 1
        found = torch.ops.aten._flash_attention_forward(
            queries,
            *part,
            tables["cum_seq_q"],
            tables["cum_seq_k"],
            tables["max_q"],
            tables["max_k"],
            0.0,
            causal,
            False,
            window_size_left=-1,
            window_size_right=0 if causal else -1,
            seqused_k=tables["seqused_k"],
            block_table=tables["block_table"],
        )
        return found[0]

    def advance(self, placement: Placement) -> None:
        """See `KvCache`; in place, so that a captured graph sees it."""
        tables = placement.tables
        lengths = tables["seqused_k"]
        page = torch.gather(tables["rows"], 1, (lengths // PAGE).long()[:, None])[:, 0]
        placement.slots.copy_(page * PAGE + lengths % PAGE)
        lengths.add_(1)
        tables["cum_seq_k"][1:].copy_(lengths.cumsum(0))


class WholeCache:
    """Each sequence in one piece, and one kernel a sequence; for a CPU, where launching costs little.

    Args:
        rank: gives heads and sizes.
        tokens: of one layer that the buffer holds at least.
    """

    def __init__(self, rank: Rank, tokens: int) -> None:
        self._rank = rank
        shape = (rank.kv_heads, tokens + PAGE, rank.model.head_dim)
        self._keys = torch.randn(shape).to(torch.bfloat16)
        self._values = torch.randn(shape).to(torch.bfloat16)
        self._masks: dict[tuple[int, int], Any] = {}

    def part(self, place: int, parts: int) -> Any:
        """See `KvCache`."""
        tokens = self._keys.shape[1] // parts
        here = slice(place * tokens, (place + 1) * tokens)
        return self._keys[:, here], self._values[:, here]

    def place(self, batch: Batch, parts: int, turn: int = 0, room: int = 0) -> Placement:
        """See `KvCache`."""
        tokens = self._keys.shape[1] // parts
        needs = [length + room for _, length in batch.lengths]
        if sum(needs) > tokens:
            raise MemoryError(f"{sum(needs)} tokens of KV, and {tokens} are there: out of memory")
        start = turn * sum(needs) % max(1, tokens - sum(needs) + 1)
        starts: list[int] = []
        slots: list[int] = []
        for need, (new, length) in zip(needs, batch.lengths, strict=True):
            starts.append(start)
            slots += range(start + length - new, start + length)
            start += need
        masks = {(new, length): self._mask(new, length) for new, length in batch.lengths if 1 < new < length}
        return Placement(batch, torch.tensor(slots), {"starts": starts, "grown": 0, "masks": masks})

    def write(self, part: Any, placement: Placement, keys: Any, values: Any) -> None:
        """See `KvCache`."""
        for buffer, new in zip(part, (keys, values), strict=True):
            buffer.index_copy_(1, placement.slots, new.transpose(0, 1))

    def attend(self, part: Any, placement: Placement, queries: Any) -> Any:
        """See `KvCache`."""
        keys, values = part
        # The queries that share a KV head stand side by side.
        shared = queries.view(len(queries), self._rank.kv_heads, -1, queries.shape[2])
        found, first, grown = [], 0, placement.tables["grown"]
        for start, (new, length) in zip(placement.tables["starts"], placement.batch.lengths, strict=True):
            mine = shared[first : first + new]
            here = slice(start, start + length + grown)
            found.append(
                _one(mine, keys[:, here], values[:, here], placement.tables["masks"].get((new, length)))
            )
            first += new
        return torch.cat(found).reshape(first, *queries.shape[1:])

    def advance(self, placement: Placement) -> None:
        """See `KvCache`."""
        placement.tables["grown"] += 1
        placement.slots.add_(1)

    def _mask(self, new: int, length: int) -> Any:
        """What each of the last `new` tokens must not see, added to its weights."""
        seen = torch.ones(new, length, dtype=torch.bool).tril(length - new)
        return torch.zeros(new, length, dtype=torch.bfloat16).masked_fill(~seen, -math.inf)


def _one(queries: Any, keys: Any, values: Any, mask: Any) -> Any:
    """Attention of one sequence.

    Args:
        queries: shape (new, KV heads, queries that share one, head size).
        keys: shape (KV heads, length, head size).
        values: likewise.
        mask: of a chunk that has a past, shape (new, length).
    """
    if len(queries) == 1:
        return scaled_dot_product_attention(queries, keys[None], values[None])
    groups: Sequence[Any] = [
        scaled_dot_product_attention(
            queries[:, :, place].transpose(0, 1)[None],
            keys[None],
            values[None],
            attn_mask=mask,
            is_causal=mask is None,
        )[0].transpose(0, 1)
        for place in range(queries.shape[2])
    ]
    return torch.stack(groups, dim=2)
