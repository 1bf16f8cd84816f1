"""A batch of which every sequence is known."""

from __future__ import annotations

from collections.abc import Sequence

from capsim.cost import BatchShape, Chunk


def mixed_batch(chunks: Sequence[Chunk], contexts: Sequence[int]) -> BatchShape:
    """Chunks, and decodes of these contexts."""
    return BatchShape(
        chunks=tuple(chunks),
        decodes=len(contexts),
        context=sum(contexts),
        squared_context=sum(context * context for context in contexts),
        largest_context=max(contexts, default=0),
    )
