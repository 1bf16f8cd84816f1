"""Layers whose KV cache is allocated together: what a sequence of n tokens holds in them."""

from __future__ import annotations

from dataclasses import dataclass

from capsim.catalog.attention import Attention, HeadAttention, LatentAttention, LinearAttention
from capsim.catalog.model import DTYPE_BYTES, check_dtype
from capsim.errors import BadInput

KV_BYTES = {**DTYPE_BYTES, "float32": 4}
"""Bytes of one element of the KV cache by dtype."""

SCALED_LATENT = "fp8_ds_mla"
"""DeepSeek's 8-bit layout of a latent: a 4-byte scale for each 128 elements, and the rotated key at 16 bits."""


@dataclass(frozen=True)
class KvGroup:
    """Layers of one attention kind on one rank that share their block table.

    Attributes:
        kind: ``full``, ``latent``, ``window`` or ``state``.
        layers: layers that the group really has; it may be allocated for more (see `KvLayout.layers`).
        block_size: tokens that a block stands for; without meaning for ``state``.
        token_bytes: bytes of one layer for a token; 0 for ``state``.
        state_bytes: bytes of one layer for a sequence; 0 but for ``state``.
        window: tokens that a query sees; None: all.
        state_blocks: blocks that a sequence's state takes.
        shared: ranks that share a sequence's tokens.
    """

    kind: str
    layers: int
    block_size: int
    token_bytes: int
    state_bytes: int = 0
    window: int | None = None
    state_blocks: int = 1
    shared: int = 1

    def blocks(self, tokens: int) -> int:
        """Blocks that a sequence holds once `tokens` tokens are computed.

        In a window, blocks are freed once the next query sees none of their tokens: all before
        token ``tokens - window + 1``.
        """
        if self.kind == "state":
            return self.state_blocks
        freed = 0 if self.window is None else max(0, tokens - self.window + 1) // self.block_size
        return -(-tokens // self.block_size) - freed

    def peak_blocks(self, tokens: int, max_num_batched_tokens: int) -> int:
        """Blocks that an engine sets aside for a sequence of at most `tokens` tokens.

        In a window, those of a whole step's tokens on top of the window that they see, and one more since a window
        begins anywhere in a block (``SlidingWindowSpec.max_memory_usage_bytes`` of vLLM).
        """
        if self.window is None:
            return self.blocks(tokens)
        return -(-min(self.window - 1 + max_num_batched_tokens, tokens) // self.block_size) + 1

    def used_bytes(self, tokens: int) -> int:
        """Bytes that a sequence's tokens need, without the rounding to blocks."""
        seen = tokens if self.window is None else min(tokens, self.window)
        return self.layers * (-(-seen // self.shared) * self.token_bytes + self.state_bytes)

    def grows(self, tokens: int) -> bool:
        """Whether one more token after `tokens` makes the group larger."""
        return self.kind != "state" and (self.window is None or tokens < self.window)


def token_bytes(attention: Attention, ranks: int, kv_dtype: str) -> int:
    """Bytes that one layer keeps for a token on one of `ranks` ranks; 0 for a state.

    Raises:
        BadInput: a dtype that the attention kind is not kept in.
    """
    if isinstance(attention, LinearAttention):
        return 0
    if isinstance(attention, LatentAttention):
        # An indexer keeps its own 8-bit keys and scales, whatever the cache's dtype.
        index = attention.index_head_dim + 4 * -(-attention.index_head_dim // 128)
        if kv_dtype == SCALED_LATENT:
            scales = 4 * -(-attention.kv_rank // 128)
            return attention.kv_rank + scales + 2 * attention.rope_head_dim + index
        return attention.latent_elements * KV_BYTES[kv_dtype] + index
    return attention.token_elements(ranks) * KV_BYTES[kv_dtype]


def check_kv_dtype(kv_dtype: str, latent: bool) -> None:
    """Refuse a dtype that a model's KV cache is not kept in.

    Raises:
        BadInput: naming those that it is.
    """
    if kv_dtype == SCALED_LATENT and latent:
        return
    if kv_dtype == SCALED_LATENT:
        raise BadInput(f"KV dtype {kv_dtype!r} is of latent attention, expected one of {', '.join(KV_BYTES)}")
    check_dtype("KV dtype", kv_dtype, KV_BYTES)


def window_of(attention: Attention) -> int | None:
    """Tokens that a query sees; None: all, or a state of them."""
    return attention.window if isinstance(attention, HeadAttention) else None
