"""Attention kinds by layer: what each adds to the KV cache for a token or a sequence, and how many weights it has.

Sizes are elements; how many bytes an element takes, and in which blocks an engine allocates them, is the memory
model's business. Sources: transformers' modeling files of the model types named at each class, and the specs that vLLM
derives from them (vllm/v1/kv_cache_interface.py).
"""

from __future__ import annotations

from dataclasses import dataclass

LINEAR_RULES = ("gated-delta", "kimi-delta", "mamba2")
"""Rules by which a linear layer updates its state: they have the same state and different weights."""

STATE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Bytes of an element of a linear layer's state by dtype."""


@dataclass(frozen=True)
class HeadAttention:
    """Keys and values by head: multi-head, grouped-query or multi-query attention, over everything or in a window.

    Attributes:
        heads: query heads.
        kv_heads: key-value heads.
        head_dim: elements of one head.
        window: tokens that a query sees, itself included; None: all before it.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None

    @property
    def kind(self) -> str:
        """``full`` or ``window``."""
        return "full" if self.window is None else "window"

    def splits_over(self, ranks: int) -> bool:
        """Whether the heads come out even; KV heads may be copied instead."""
        return self.heads % ranks == 0 and (self.kv_heads % ranks == 0 or ranks % self.kv_heads == 0)

    def token_elements(self, ranks: int) -> int:
        """Elements that one layer of one rank keeps for a token: keys and values of its heads, at least one head."""
        return 2 * max(1, self.kv_heads // ranks) * self.head_dim

    def copies(self, ranks: int) -> int:
        """How many of the ranks hold the same keys and values."""
        return max(1, ranks // self.kv_heads)


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (MLA): one compressed vector for all heads, and one rotated key beside it.

    The latent is needed by every head, so each rank of a tensor-parallel group holds it in full. Model types
    ``deepseek_v2``, ``deepseek_v3`` and ``kimi_k2``; DeepSeek-V2, arXiv 2405.04434, section 2.1.

    Attributes:
        kv_rank: elements of the latent (``kv_lora_rank``).
        rope_head_dim: elements of the rotated key that all heads share (``qk_rope_head_dim``).
        nope_head_dim: elements of a head's key that are made from the latent (``qk_nope_head_dim``).
        value_head_dim: elements of a head's value (``v_head_dim``).
        query_rank: elements of the queries' latent (``q_lora_rank``); 0: queries are projected in one step.
        index_head_dim: elements of the key that a sparse-attention indexer keeps beside it, one byte each and a
            4-byte scale for each 128 (DeepSeek-V3.2); 0: no indexer.
    """

    kv_rank: int
    rope_head_dim: int
    nope_head_dim: int
    value_head_dim: int
    query_rank: int = 0
    index_head_dim: int = 0

    @property
    def kind(self) -> str:
        """``latent``."""
        return "latent"

    def splits_over(self, ranks: int) -> bool:
        """Whether the cache can be held by this many ranks: always, in full."""
        return ranks >= 1

    @property
    def latent_elements(self) -> int:
        """Elements that one layer of any rank keeps for a token."""
        return self.kv_rank + self.rope_head_dim

    def copies(self, ranks: int) -> int:
        """How many of the ranks hold the same latent: all."""
        return ranks

    def parameters(self, hidden_size: int, heads: int) -> int:
        """Weights of one layer's projections and of the norms inside them, elements; an indexer's are not counted."""
        return self.replicated_parameters(hidden_size) + self.split_parameters(hidden_size, heads)

    def replicated_parameters(self, hidden_size: int) -> int:
        """Those that every rank holds: the projections down to the latents, and the latents' norms."""
        down = hidden_size * (self.kv_rank + self.rope_head_dim + self.query_rank)
        return down + self.kv_rank + self.query_rank

    def split_parameters(self, hidden_size: int, heads: int) -> int:
        """Those that belong to heads, which the ranks share out: the projections up to the heads, and the output's."""
        queries = (self.query_rank or hidden_size) * heads * (self.nope_head_dim + self.rope_head_dim)
        return (
            queries
            + heads * (self.kv_rank * (self.nope_head_dim + self.value_head_dim))
            + (heads * self.value_head_dim * hidden_size)
        )


@dataclass(frozen=True)
class LinearAttention:
    """Linear attention or a state-space layer: a state of constant size for a sequence, however long it is.

    A sequence has a short convolution's last inputs and one matrix a head. The same arithmetic covers Gated DeltaNet
    (``qwen3_next``), Kimi Delta Attention (``kimi_linear``: as many key heads as value heads) and Mamba-2
    (``nemotron_h``: key heads are its groups, a key's elements its state size, value heads its heads). Source:
    vllm/model_executor/layers/mamba/mamba_utils.py, the state shapes of those layers.

    Attributes:
        key_heads: heads of queries and keys.
        value_heads: heads of values, each with a matrix.
        key_head_dim: elements of a key.
        value_head_dim: elements of a value.
        kernel: taps of the convolution; the state keeps one input fewer.
        state_bytes: bytes of an element of the matrices; the convolution's inputs take 2.
        rule: one of `LINEAR_RULES`: ``gated-delta`` (Gated DeltaNet), ``kimi-delta`` (Kimi Delta Attention) or
            ``mamba2``. Decides the weights.
    """

    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    kernel: int
    state_bytes: int = 2
    rule: str = "gated-delta"

    @property
    def kind(self) -> str:
        """``state``."""
        return "state"

    @property
    def channels(self) -> int:
        """Width of the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_head_dim + self.value_heads * self.value_head_dim

    def splits_over(self, ranks: int) -> bool:
        """Whether the heads come out even."""
        return self.key_heads % ranks == 0 and self.value_heads % ranks == 0

    def sequence_bytes(self, ranks: int) -> int:
        """Bytes that one layer of one rank keeps for a sequence."""
        convolution = (self.kernel - 1) * self.channels * 2
        matrices = self.value_heads * self.value_head_dim * self.key_head_dim * self.state_bytes
        return (convolution + matrices) // ranks

    def parameters(self, hidden_size: int) -> int:
        """Weights of one layer, elements: what enters and leaves, the convolution, gates and a norm.

        Sources: Qwen3NextGatedDeltaNet of transformers, KimiDeltaAttention of vllm/model_executor/layers/kda.py, and
        MambaMixer2 of vllm/model_executor/layers/mamba/mamba_mixer2.py.
        """
        return self.replicated_parameters(hidden_size) + self.split_parameters(hidden_size)

    def replicated_parameters(self, hidden_size: int) -> int:
        """Those that every rank holds: of Kimi Delta Attention the ways down to its two gates, and the norm."""
        if self.rule != "kimi-delta":
            return 0
        return 2 * hidden_size * self.key_head_dim + self.value_head_dim

    def split_parameters(self, hidden_size: int) -> int:
        """Those that belong to heads, which the ranks share out."""
        values, heads = self.value_heads * self.value_head_dim, self.value_heads
        if self.rule == "kimi-delta":
            # Keys and values have the same size. The gates' ways up, a step size and a decay by head, and its bias.
            entering = hidden_size * (self.channels + heads) + 2 * self.key_head_dim * values
            small = self.channels * self.kernel + heads + values
        elif self.rule == "mamba2":
            # The convolution has a bias; decay, skip and step by head; a norm of all values.
            entering = hidden_size * (self.channels + values + heads)
            small = self.channels * (self.kernel + 1) + 3 * heads + values
        else:
            entering = hidden_size * (self.channels + values + 2 * heads)
            small = self.channels * self.kernel + 2 * heads + self.value_head_dim
        return entering + small + values * hidden_size


Attention = HeadAttention | LatentAttention | LinearAttention


@dataclass(frozen=True)
class LayerGroup:
    """The layers of one attention kind that hold a KV cache of their own.

    Attributes:
        attention: their kind and shape.
        layers: their indices, ascending.
    """

    attention: Attention
    layers: tuple[int, ...]
