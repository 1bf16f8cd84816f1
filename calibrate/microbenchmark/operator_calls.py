"""Calls of one operator on inputs of their own, for a device to time in turn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from calibrate.microbenchmark.attention import KvCache
from calibrate.microbenchmark.case import Batch
from calibrate.microbenchmark.decoder import Decoder
from calibrate.microbenchmark.device import Call
from calibrate.microbenchmark.kernels import EXPERT_WEIGHTS, sampled
from calibrate.microbenchmark.rank import PRODUCTS, Rank

MOST_TURNS = 256
"""Sets of inputs that are held at once."""
FEW_TURNS = 4
"""Of inputs that a step finds in the cache as well."""


class OperatorCalls:
    """Operators and attention of a decoder's layers.

    Weights and KV are rotated past the last-level cache: between two uses of one, at least twice its size of others is
    read. Activations are as a step leaves them to the next kernel: in the cache where it holds them.

    Args:
        rank: gives the shapes.
        decoder: gives the operators.
        cache: of keys and values.
        cache_bytes: of the device's last-level cache.
    """

    def __init__(self, rank: Rank, decoder: Decoder, cache: KvCache, cache_bytes: int) -> None:
        self._rank, self._decoder, self._cache, self._cache_bytes = rank, decoder, cache, cache_bytes
        self._weights: dict[str, list[Any]] = {}

    def operator(self, name: str, count: int) -> list[Call]:
        """An operator for so many tokens or sequences."""
        if name in (*PRODUCTS, "lm_head"):
            return self._products(name, count)
        if name == "moe":
            return self._experts(count)
        if name == "kv_cache_write":
            return self._writes(count)
        return [self._elementwise(name, count) for _ in range(FEW_TURNS)]

    def attention(self, batch: Batch) -> list[Call]:
        """One layer's attention of a batch."""
        rank, cache = self._rank, self._cache
        turns = min(MOST_TURNS, 1 + math.ceil(2 * self._cache_bytes / (batch.kv_tokens * rank.kv_bytes)))
        flat = self._decoder.random_tokens(batch.tokens, rank.query_size)
        queries, part = flat.unflatten(-1, (-1, rank.model.head_dim)), cache.part(0, 1)

        def call(turn: int) -> Call:
            placement = cache.place(batch, 1, turn)
            return lambda: cache.attend(part, placement, queries)

        return [call(turn) for turn in range(turns)]

    def _products(self, name: str, count: int) -> list[Call]:
        decoder = self._decoder
        product = functional.linear if name == "lm_head" else decoder.kernels.linear
        inputs = [decoder.random_tokens(count, self._rank.product(name)[1]) for _ in range(2)]

        def call(place: int, weights: Any) -> Call:
            tokens = inputs[place % 2]
            return lambda: product(tokens, weights)

        sets = self._rotated(name, lambda: decoder.random_weights(name))
        return [call(place, weights) for place, weights in enumerate(sets)]

    def _experts(self, count: int) -> list[Call]:
        decoder = self._decoder
        tokens = decoder.random_tokens(count, self._rank.model.hidden_size)

        def call(weights: Any) -> Call:
            return lambda: decoder.kernels.experts(tokens, weights)

        return [call(weights) for weights in self._rotated("moe", decoder.random_experts)]

    def _writes(self, count: int) -> list[Call]:
        rank, cache, layers = self._rank, self._cache, len(self._decoder.layers)
        projected = self._decoder.random_tokens(count, rank.query_size + 2 * rank.key_size)
        _, keys, values = self._decoder.split(projected)
        placement = cache.place(Batch.equal(count, 0, 0, 0), layers)

        def call(place: int) -> Call:
            part = cache.part(place, layers)
            return lambda: cache.write(part, placement, keys, values)

        return [call(place) for place in range(layers)]

    def _elementwise(self, name: str, count: int) -> Call:
        """An operator that has hardly any weights, on inputs of its own."""
        decoder, rank = self._decoder, self._rank
        kernels, model = decoder.kernels, rank.model
        if name == "embedding":
            ids = torch.randint(len(decoder.embedding), (count,)).to(decoder.place)
            return lambda: functional.embedding(ids, decoder.embedding)
        if name == "norm":
            hidden, residual = (decoder.random_tokens(count, model.hidden_size) for _ in range(2))
            return lambda: kernels.add_norm(hidden, residual, decoder.norm)
        if name == "activation":
            gate_up = decoder.random_tokens(count, 2 * rank.columns)
            return lambda: kernels.activation(gate_up)
        if name == "sampler":
            logits = decoder.random_tokens(count, model.vocabulary_size)
            return lambda: sampled(logits)
        projected = decoder.random_tokens(count, rank.query_size + 2 * rank.key_size)
        queries, keys, _ = decoder.split(projected)
        if name == "rotary":
            positions = torch.arange(count, device=decoder.place) % model.max_position_embeddings
            cosine, sine = decoder.rotations(positions)
            return lambda: kernels.rotary(queries, keys, cosine, sine)
        if name != "qk_norm":
            raise KeyError(name)
        weight = decoder.norm[: model.head_dim]
        return lambda: kernels.head_norm(queries, keys, weight, weight)

    def _rotated(self, name: str, another: Callable[[], Any]) -> list[Any]:
        """Sets of weights that together are twice the cache or more; they stay for the next count."""
        if name not in self._weights:
            sets = self._present(name) or [another()]
            wanted = max(2, min(MOST_TURNS, 1 + math.ceil(2 * self._cache_bytes / _bytes(sets[0]))))
            self._weights[name] = [*sets[:wanted], *(another() for _ in range(wanted - len(sets)))]
        return self._weights[name]

    def _present(self, name: str) -> list[Any]:
        """Sets that the decoder has anyway."""
        decoder = self._decoder
        if name == "lm_head":
            return [decoder.lm_head, *([] if decoder.lm_head is decoder.embedding else [decoder.embedding])]
        if name == "moe":
            layers = [layer for layer in decoder.layers if "router" in layer]
            return [{each: layer[each] for each in EXPERT_WEIGHTS if each in layer} for layer in layers]
        return [layer[name] for layer in decoder.layers if name in layer]


def _bytes(weights: Any) -> int:
    tensors = weights.values() if isinstance(weights, dict) else [weights]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
