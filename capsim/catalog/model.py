from __future__ import annotations

from dataclasses import dataclass

from capsim.errors import BadInput

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "fp8": 1}
"""Bytes of one element by dtype: the precisions that are modelled."""


@dataclass(frozen=True)
class Model:
    """Architecture of a decoder-only transformer, as its published config states it.

    All sizes are counts (layers, heads, tokens) or elements (hidden sizes); nothing here is per GPU.

    Attributes:
        name: catalog name, e.g. ``llama-3.1-8b``.
        attention: attention kind; this version counts ``gqa`` (which covers multi-head and multi-query).
        head_dim: elements of one attention head.
        kv_heads: key-value heads of one layer.
        qk_norm: queries and keys are normed per head (adds two ``head_dim`` vectors a layer).
        tied_embeddings: the output projection shares the embedding's weights.
        max_position_embeddings: longest sequence that the model was published for, tokens.
        source: where the figures come from.
    """

    name: str
    attention: str
    layers: int
    hidden_size: int
    intermediate_size: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    vocabulary_size: int
    tied_embeddings: bool
    max_position_embeddings: int
    source: str
    qk_norm: bool = False
    attention_bias: bool = False

    def splits_over(self, ranks: int) -> bool:
        """Whether tensor parallelism over `ranks` GPUs gives equal shares; KV heads may be copied instead."""
        even = self.attention_heads % ranks == 0 and self.intermediate_size % ranks == 0
        return even and (self.kv_heads % ranks == 0 or ranks % self.kv_heads == 0)

    def kv_heads_of_rank(self, ranks: int) -> int:
        """Key-value heads on one of `ranks` GPUs: split, and replicated where there are more GPUs than heads.

        Raises:
            BadInput: an attention kind that is not counted, or a number of GPUs that cannot share the model.
        """
        if self.attention != "gqa":
            raise BadInput(f"model {self.name}: attention {self.attention!r} is not covered, expected 'gqa'")
        if ranks < 1 or not self.splits_over(ranks):
            raise BadInput(
                f"tensor_parallel_size {ranks} does not divide {self.name}'s {self.attention_heads} attention "
                f"heads, {self.kv_heads} key-value heads and {self.intermediate_size} MLP columns"
            )
        return max(1, self.kv_heads // ranks)

    @property
    def attention_parameters(self) -> int:
        """Weights of one layer's attention projections (q, k, v, o), elements."""
        query = self.attention_heads * self.head_dim
        key_value = self.kv_heads * self.head_dim
        bias = query + 2 * key_value if self.attention_bias else 0
        return self.hidden_size * (2 * query + 2 * key_value) + bias

    @property
    def mlp_parameters(self) -> int:
        """Weights of one layer's gated MLP (gate, up, down), elements."""
        return 3 * self.hidden_size * self.intermediate_size

    @property
    def norm_parameters(self) -> int:
        """Weights of one layer's norms, elements."""
        return 2 * self.hidden_size + (2 * self.head_dim if self.qk_norm else 0)

    @property
    def layer_parameters(self) -> int:
        """Weights of one layer, elements."""
        return self.attention_parameters + self.mlp_parameters + self.norm_parameters

    @property
    def embedding_parameters(self) -> int:
        """Weights of the token embedding, elements."""
        return self.vocabulary_size * self.hidden_size

    @property
    def parameters(self) -> int:
        """All weights of the model, elements."""
        heads = 1 if self.tied_embeddings else 2
        return self.layers * self.layer_parameters + heads * self.embedding_parameters + self.hidden_size


def check_dtype(name: str, dtype: str) -> None:
    """Refuse a dtype that is not modelled.

    Raises:
        BadInput: naming those that are.
    """
    if dtype not in DTYPE_BYTES:
        raise BadInput(f"{name} {dtype!r} is not known, expected one of {', '.join(DTYPE_BYTES)}")
