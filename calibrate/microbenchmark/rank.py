"""One rank's part of a model: the operators of its step, and what each has to move and to compute."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from calibrate.microbenchmark.case import ATTENTION, OPERATOR, REQUEST, STEP, Batch, Case
from capsim.catalog import Model
from capsim.catalog.model import DTYPE_BYTES
from capsim.errors import BadInput, Fault

WIDE = "bfloat16"
"""Of attention, norms and output projection where the weights of the layers are narrower."""
PRODUCTS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
ELEMENT = 2  # bytes of an activation
SAMPLED = 10
"""Bytes an element of the logits: read at 16 bits, written as 32 and read once more."""


@dataclass(frozen=True)
class OperatorKind:
    """An operator of a step.

    Attributes:
        name: e.g. ``qkv_proj``.
        per: ``tokens`` or ``sequences``.
        times: calls in one step.
    """

    name: str
    per: str
    times: int


@dataclass(frozen=True)
class Work:
    """What a kernel has to do.

    Attributes:
        flops: additions and multiplications.
        cold: bytes that it finds in memory and in no cache: weights and KV.
        warm: bytes of activations, which the kernel before it may have left in the cache.
        dtype: of the arithmetic.
    """

    flops: float = 0.0
    cold: float = 0.0
    warm: float = 0.0
    dtype: str = WIDE


@dataclass(frozen=True)
class Ceilings:
    """The best that the machine does.

    Attributes:
        bandwidth: bytes a second of a copy, reading and writing counted.
        flops: operations a second of a large matrix product, by dtype.
        cache: bytes of its last-level cache.
    """

    bandwidth: float
    flops: Mapping[str, float]
    cache: int = 0

    def least_seconds(self, work: Work) -> float:
        """Seconds below which no kernel can do this: its arithmetic, or what it moves that no cache can hold."""
        moved = work.cold + max(0.0, work.warm - 2 * self.cache)
        return max(work.flops / self.flops.get(work.dtype, math.inf), moved / self.bandwidth)


@dataclass(frozen=True)
class Rank:
    """A model's shapes on one of several ranks.

    Attributes:
        model: with grouped-query attention, dense or with experts.
        ranks: of tensor parallelism.
        dtype: of the layers' weights.

    Raises:
        BadInput: another attention kind, or ranks that cannot share the model.
    """

    model: Model
    ranks: int
    dtype: str

    def __post_init__(self) -> None:
        if self.model.attention != "gqa" or not self.model.gated_mlp or self.model.mlp_layers:
            what = f"{self.model.name}: layers other than attention over everything with a gated MLP are not covered"
            raise BadInput(Fault("--model", what, "", "a model with attention: gqa"))
        self.model.check_splits_over(self.ranks)

    @property
    def query_heads(self) -> int:
        """Of one layer."""
        return self.model.attention_heads // self.ranks

    @property
    def kv_heads(self) -> int:
        """Of one layer; copied where there are more ranks than heads."""
        return self.model.kv_heads_of_rank(self.ranks)

    @property
    def query_size(self) -> int:
        """Elements of a token's queries."""
        return self.query_heads * self.model.head_dim

    @property
    def key_size(self) -> int:
        """Elements of a token's keys."""
        return self.kv_heads * self.model.head_dim

    @property
    def columns(self) -> int:
        """Of a dense layer's MLP."""
        return self.model.intermediate_size // self.ranks

    @property
    def kv_bytes(self) -> int:
        """Of one token in one layer."""
        return 2 * self.key_size * ELEMENT

    def product(self, name: str) -> tuple[int, int]:
        """Outputs n and inputs k of a matrix product."""
        hidden = self.model.hidden_size
        return {
            "qkv_proj": (self.query_size + 2 * self.key_size, hidden),
            "o_proj": (hidden, self.query_size),
            "gate_up_proj": (2 * self.columns, hidden),
            "down_proj": (hidden, self.columns),
            "lm_head": (self.model.vocabulary_size // self.ranks, hidden),
        }[name]

    def operators(self, layers: int | None = None) -> tuple[OperatorKind, ...]:
        """All of a step but attention and communication, in the order of execution.

        Args:
            layers: of a decoder that is cut short; the model's where not given.
        """
        model, layers = self.model, self.model.layers if layers is None else layers
        dense = layers if model.experts is None else min(layers, model.experts.dense_layers)
        kinds = [
            OperatorKind("embedding", "tokens", 1),
            OperatorKind("norm", "tokens", 2 * layers + 1),
            OperatorKind("qkv_proj", "tokens", layers),
            OperatorKind("qk_norm", "tokens", layers if model.qk_norm else 0),
            OperatorKind("rotary", "tokens", layers),
            OperatorKind("kv_cache_write", "tokens", layers),
            OperatorKind("o_proj", "tokens", layers),
            OperatorKind("gate_up_proj", "tokens", dense),
            OperatorKind("activation", "tokens", dense),
            OperatorKind("down_proj", "tokens", dense),
            OperatorKind("moe", "tokens", layers - dense),
            OperatorKind("lm_head", "sequences", 1),
            OperatorKind("sampler", "sequences", 1),
        ]
        return tuple(kind for kind in kinds if kind.times)

    def work(self, case: Case, layers: int) -> Work:
        """What a case has to do once; nothing where it is no kernel.

        Args:
            case: of any kind.
            layers: of the decoder that a step runs through.
        """
        if case.kind == OPERATOR:
            return self.operator_work(case.name, case.count)
        if case.kind == ATTENTION:
            return self.attention_work(case.shape)
        if case.kind in (STEP, REQUEST):
            return self.step_work(case.shape, layers)
        return Work()

    def operator_work(self, name: str, count: int) -> Work:
        """One call for so many tokens or sequences."""
        hidden = self.model.hidden_size
        if name == "moe":
            return self._expert_work(count)
        if name in (*PRODUCTS, "lm_head"):
            n, k = self.product(name)
            dtype = WIDE if name == "lm_head" else self.dtype
            weights = n * k * DTYPE_BYTES[dtype]
            return Work(2.0 * count * n * k, weights, count * (n + k) * ELEMENT, dtype)
        elements = {
            "embedding": 2 * hidden,
            "norm": 4 * hidden,
            "qk_norm": 2 * (self.query_size + self.key_size),
            "rotary": 2 * (self.query_size + self.key_size),
            "kv_cache_write": 4 * self.key_size,
            "activation": 3 * self.columns,
            "sampler": SAMPLED * self.model.vocabulary_size / ELEMENT,
        }[name]
        return Work(warm=count * elements * ELEMENT)

    def attention_work(self, batch: Batch) -> Work:
        """One layer."""
        flops = 4.0 * self.query_size * batch.pairs
        return Work(flops, batch.kv_tokens * self.kv_bytes, 2 * batch.tokens * self.query_size * ELEMENT)

    def step_work(self, batch: Batch, layers: int) -> Work:
        """A whole step, as if all of it were one kernel."""
        parts = [
            (kind.times, self.operator_work(kind.name, self._count(kind, batch)))
            for kind in self.operators(layers)
        ]
        parts.append((layers, self.attention_work(batch)))
        return Work(
            sum(times * work.flops for times, work in parts),
            sum(times * work.cold for times, work in parts),
            0.0,
            self.dtype,
        )

    @staticmethod
    def _count(kind: OperatorKind, batch: Batch) -> int:
        return batch.tokens if kind.per == "tokens" else batch.sequences

    def _expert_work(self, tokens: int) -> Work:
        experts = self.model.experts
        if experts is None:
            raise TypeError(f"{self.model.name} has no experts")
        one = 3 * self.model.hidden_size * experts.intermediate_size // self.ranks
        touched = experts.count * (1 - (1 - experts.per_token / experts.count) ** tokens) + experts.shared
        rows = tokens * (experts.per_token + experts.shared)
        moved = rows * (2 * self.model.hidden_size + 3 * experts.intermediate_size // self.ranks) * ELEMENT
        return Work(2.0 * rows * one, touched * one * DTYPE_BYTES[WIDE], moved, WIDE)
