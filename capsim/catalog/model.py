from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from capsim.catalog.attention import (
    Attention,
    HeadAttention,
    LatentAttention,
    LayerGroup,
    LinearAttention,
)
from capsim.catalog.vision import Vision
from capsim.errors import BadInput

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "fp8": 1}
"""Bytes of one element by dtype: the precisions of the KV cache, and of weights that are computed as they are."""

WEIGHT_BYTES = {**DTYPE_BYTES, "int8": 1 + 2 / 128, "int4": 0.5 + 2.5 / 128}
"""Bytes of one element of a linear layer's weights by dtype.

``int8`` and ``int4`` are weight-only (w8a16, w4a16, as GPTQ and AWQ store them): the activations stay at 16 bits, and
each group of 128 weights has a 16-bit scale, with int4 also a 4-bit zero point. int8 weights *and* activations (w8a8)
are not modelled.
"""

WEIGHT_ONLY = ("int8", "int4")
"""Weight dtypes that no GPU computes in: weights are widened to 16 bits on the way to the arithmetic."""


@dataclass(frozen=True)
class Experts:
    """The experts of a mixture-of-experts model: in its expert layers they stand where a dense layer has its MLP.

    Attributes:
        count: experts that the router chooses from, in each expert layer.
        per_token: experts that a token goes through.
        intermediate_size: columns of one expert's MLP.
        shared: experts that every token goes through beside the chosen ones; a shared expert of another width counts
            as that many of this width.
        dense_layers: leading layers that have one MLP of the model's `intermediate_size` instead.
    """

    count: int
    per_token: int
    intermediate_size: int
    shared: int = 0
    dense_layers: int = 0


@dataclass(frozen=True)
class Model:
    """Architecture of a decoder-only transformer, dense or with experts, as its published config states it.

    All sizes are counts (layers, heads, tokens) or elements (hidden sizes); nothing here is per GPU.

    Attributes:
        name: catalog name, e.g. ``llama-3.1-8b``.
        attention: attention kind: ``gqa`` (which covers multi-head and multi-query), ``mla`` (`latent`),
            ``sliding-window`` (`window`) or ``linear`` (`linear`). Step costs are known of ``gqa`` only.
        head_dim: elements of one attention head.
        kv_heads: key-value heads of one layer; 1 with `latent`, which all heads share.
        qk_norm: queries and keys are normed per head (adds two ``head_dim`` vectors a layer).
        tied_embeddings: the output projection shares the embedding's weights.
        max_position_embeddings: longest sequence that the model was published for, tokens.
        source: where the figures come from.
        intermediate_size: columns of a dense layer's MLP; without meaning where every layer has experts.
        gated_mlp: an MLP has a gate beside its way up and its way down.
        experts: of a mixture-of-experts model; None: every layer is dense.
        latent: of multi-head latent attention, in place of keys and values by head.
        window: tokens that a layer with sliding-window attention sees.
        linear: of layers with linear attention.
        full_layers: with `window` or `linear`, indices of the layers whose attention sees everything.
        mlp_layers: indices of the layers that are an MLP alone; where there are some, no other layer has one, and each
            layer has one norm.
        kv_shared_layers: last layers that read an earlier layer's KV cache and have none of their own.
        output_gate: heads' outputs are gated by a projection of the queries' size.
        vision: encoder of images beside it, whose weights are not among `parameters`; None: it reads text only, or its
            encoder is not counted (`source` then says so).
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
    experts: Experts | None = None
    latent: LatentAttention | None = None
    window: int | None = None
    linear: LinearAttention | None = None
    full_layers: tuple[int, ...] = ()
    mlp_layers: tuple[int, ...] = ()
    gated_mlp: bool = True
    kv_shared_layers: int = 0
    output_gate: bool = False
    vision: Vision | None = None

    @property
    def full_attention(self) -> HeadAttention | LatentAttention:
        """Attention of the layers that see everything."""
        return self.latent or HeadAttention(self.attention_heads, self.kv_heads, self.head_dim)

    @property
    def other_attention(self) -> HeadAttention | LinearAttention | None:
        """Attention of the layers that do not see everything; None where there are none."""
        if self.window is not None:
            return HeadAttention(self.attention_heads, self.kv_heads, self.head_dim, self.window)
        return self.linear

    @property
    def layer_groups(self) -> tuple[LayerGroup, ...]:
        """Layers with a KV cache of their own, by attention kind: those that see everything first."""
        alone = set(self.mlp_layers)
        own = tuple(layer for layer in range(self.layers - self.kv_shared_layers) if layer not in alone)
        other = self.other_attention
        if other is None:
            return (LayerGroup(self.full_attention, own),)
        sees_all = set(self.full_layers)
        full = tuple(layer for layer in own if layer in sees_all)
        rest = tuple(layer for layer in own if layer not in sees_all)
        kinds: tuple[tuple[Attention, tuple[int, ...]], ...] = ((self.full_attention, full), (other, rest))
        return tuple(LayerGroup(attention, layers) for attention, layers in kinds if layers)

    @property
    def dense_layers(self) -> int:
        """Layers with one MLP."""
        if self.mlp_layers:
            return len(self.mlp_layers)
        return self.layers if self.experts is None else self.experts.dense_layers

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return 0 if self.experts is None else self.layers - self.dense_layers

    @property
    def mlp_columns(self) -> tuple[int, ...]:
        """Widths of the MLPs that tensor parallelism splits: of dense layers, and of experts."""
        dense = (self.intermediate_size,) if self.dense_layers else ()
        return dense if self.experts is None else (*dense, self.experts.intermediate_size)

    def splits_over(self, ranks: int) -> bool:
        """Whether tensor parallelism over `ranks` GPUs gives equal shares; KV heads may be copied instead."""
        if any(size % ranks for size in (self.attention_heads, *self.mlp_columns)):
            return False
        return all(group.attention.splits_over(ranks) for group in self.layer_groups)

    def kv_heads_of_rank(self, ranks: int) -> int:
        """Key-value heads on one of `ranks` GPUs: split, and replicated where there are more GPUs than heads.

        Raises:
            BadInput: an attention kind without KV heads, or a number of GPUs that cannot share the model.
        """
        if self.attention not in ("gqa", "sliding-window"):
            what = f"model {self.name}: attention {self.attention!r} is not covered"
            raise BadInput(f"{what}, expected 'gqa' or 'sliding-window'")
        self.check_splits_over(ranks)
        return max(1, self.kv_heads // ranks)

    def check_splits_over(self, ranks: int) -> None:
        """Refuse a degree of tensor parallelism that does not give equal shares.

        Raises:
            BadInput: with the sizes that would have to come out even.
        """
        if ranks < 1 or not self.splits_over(ranks):
            columns = " or ".join(str(size) for size in self.mlp_columns)
            raise BadInput(
                f"tensor_parallel_size {ranks} does not divide {self.name}'s {self.attention_heads} attention "
                f"heads, {self.kv_heads} key-value heads and {columns} MLP columns"
            )

    def experts_split_over(self, ranks: int) -> bool:
        """Whether `ranks` GPUs that share each expert have equal shares; True without experts."""
        return self.experts is None or self.experts.intermediate_size % ranks == 0

    @property
    def attention_parameters(self) -> int:
        """Weights of the attention (q, k, v, o) of one layer that sees everything, elements."""
        if self.latent is not None:
            return self.latent.parameters(self.hidden_size, self.attention_heads)
        query = self.attention_heads * self.head_dim
        key_value = self.kv_heads * self.head_dim
        bias = query + 2 * key_value if self.attention_bias else 0
        gate = self.hidden_size * query if self.output_gate else 0
        return self.hidden_size * (2 * query + 2 * key_value) + bias + gate

    @property
    def linear_layers(self) -> int:
        """Layers with linear attention."""
        return 0 if self.linear is None else self.layers - len(self.full_layers) - len(self.mlp_layers)

    @property
    def mlp_parameters(self) -> int:
        """Weights of one dense layer's MLP (gate where it has one, up, down), elements."""
        return (3 if self.gated_mlp else 2) * self.hidden_size * self.intermediate_size

    @property
    def expert_parameters(self) -> int:
        """Weights of one expert (gate, up, down), elements; 0 without experts."""
        return 0 if self.experts is None else 3 * self.hidden_size * self.experts.intermediate_size

    @property
    def router_parameters(self) -> int:
        """Weights of one expert layer's router, elements; 0 without experts."""
        return 0 if self.experts is None else self.hidden_size * self.experts.count

    @property
    def norm_parameters(self) -> int:
        """Weights of one layer's norms, elements."""
        norms = 1 if self.mlp_layers else 2
        return norms * self.hidden_size + (2 * self.head_dim if self.qk_norm else 0)

    @property
    def embedding_parameters(self) -> int:
        """Weights of the token embedding, elements."""
        return self.vocabulary_size * self.hidden_size

    @property
    def parameters(self) -> int:
        """All weights of the language model, elements."""
        return self._parameters(0 if self.experts is None else self.experts.count)

    @property
    def active_parameters(self) -> int:
        """Weights that one token goes through, elements: with its own experts only, and embeddings in full."""
        return self._parameters(0 if self.experts is None else self.experts.per_token)

    def _parameters(self, experts: int) -> int:
        """All weights with this many of the experts that are chosen from."""
        if self.experts is not None:
            experts += self.experts.shared
        seeing = self.layers - self.linear_layers - len(self.mlp_layers)
        layers = seeing * self.attention_parameters
        if self.linear is not None:
            layers += self.linear_layers * self.linear.parameters(self.hidden_size)
        layers += self.layers * self.norm_parameters
        layers += self.dense_layers * self.mlp_parameters
        layers += self.expert_layers * (experts * self.expert_parameters + self.router_parameters)
        heads = 1 if self.tied_embeddings else 2
        return layers + heads * self.embedding_parameters + self.hidden_size


def check_dtype(name: str, dtype: str, known: Mapping[str, float] = DTYPE_BYTES) -> None:
    """Refuse a dtype that is not modelled.

    Raises:
        BadInput: naming those that are.
    """
    if dtype not in known:
        raise BadInput(f"{name} {dtype!r} is not known, expected one of {', '.join(known)}")
