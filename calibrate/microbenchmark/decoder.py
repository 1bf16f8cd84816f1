"""A decoder with a model's true shapes and random weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from calibrate.microbenchmark.attention import KvCache, Placement
from calibrate.microbenchmark.case import Batch
from calibrate.microbenchmark.device import Device
from calibrate.microbenchmark.kernels import FP8, Kernels, sampled
from calibrate.microbenchmark.rank import Rank

_BASE = 10_000.0  # of the rotary embedding; its value has no part in the time
DTYPES = {"bfloat16": torch.bfloat16, "fp8": FP8}
"""Of the layers' weights; everything else is bfloat16."""


@dataclass
class Inputs:
    """What a step works on.

    Attributes:
        ids: tokens, padded, shape (padded,).
        positions: likewise.
        last: the rows whose logits are wanted, one a sequence.
        placement: where the sequences lie in each layer's part of the cache.
        parts: of the cache, one a layer.
        tokens: without the padding.
    """

    ids: Any
    positions: Any
    last: Any
    placement: Placement
    parts: Sequence[Any]
    tokens: int


class Decoder:
    """Weights of some layers, embedding and output projection, and a step through them.

    Args:
        rank: gives the shapes.
        layers: how many; the leading dense ones of a model with experts come first.
        device: where they are.
    """

    def __init__(self, rank: Rank, layers: int, device: Device) -> None:
        self.rank, self.place = rank, device.place
        self.kernels = Kernels(rank, device)
        model = rank.model
        self.layers = [self._layer(place) for place in range(layers)]
        self.embedding = self._random(model.vocabulary_size // rank.ranks, model.hidden_size)
        self.lm_head = (
            self.embedding
            if model.tied_embeddings
            else self._random(model.vocabulary_size // rank.ranks, model.hidden_size)
        )
        self.norm = self._ones(model.hidden_size)
        self._angles = self._rotations(model.max_position_embeddings, model.head_dim)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights."""
        found = {id(tensor): tensor for layer in self.layers for tensor in layer.values()}
        found |= {id(tensor): tensor for tensor in (self.embedding, self.lm_head, self.norm)}
        return sum(tensor.numel() * tensor.element_size() for tensor in found.values())

    def inputs(self, batch: Batch, cache: KvCache, padded: int = 0, room: int = 0) -> Inputs:
        """Random tokens of a batch.

        Args:
            batch: its shape.
            cache: where its sequences get a place.
            padded: tokens that the step computes at least.
            room: tokens by which each decode can still grow.
        """
        rows = max(batch.tokens, padded)
        vocabulary = len(self.embedding)
        positions = [place for new, length in batch.lengths for place in range(length - new, length)]
        positions += [0] * (rows - len(positions))
        ends = torch.tensor([new for new, _ in batch.lengths]).cumsum(0) - 1
        return Inputs(
            torch.randint(vocabulary, (rows,)).to(self.place),
            torch.tensor(positions).to(self.place),
            ends.to(self.place),
            cache.place(batch, len(self.layers), room=room),
            [cache.part(place, len(self.layers)) for place in range(len(self.layers))],
            batch.tokens,
        )

    def step(self, inputs: Inputs, cache: KvCache) -> Any:
        """One forward pass and sampling: a token a sequence."""
        return sampled(self.logits(inputs, cache))

    def logits(self, inputs: Inputs, cache: KvCache) -> Any:
        """One forward pass: logits of the last token of each sequence, shape (sequences, vocabulary of the rank)."""
        hidden = functional.embedding(inputs.ids, self.embedding)
        residual = torch.zeros_like(hidden)
        cosine, sine = self.rotations(inputs.positions)
        for part, layer in zip(inputs.parts, self.layers, strict=True):
            hidden, residual = self.kernels.add_norm(hidden, residual, layer["input_norm"])
            queries, keys, values = self.split(self.kernels.linear(hidden, layer["qkv_proj"]))
            if "query_norm" in layer:
                queries, keys = self.kernels.head_norm(queries, keys, layer["query_norm"], layer["key_norm"])
            queries, keys = self.kernels.rotary(queries, keys, cosine, sine)
            if inputs.tokens < len(hidden):  # the padding has no place in the cache
                queries, keys, values = (each[: inputs.tokens] for each in (queries, keys, values))
            cache.write(part, inputs.placement, keys, values)
            attended = self._padded(cache.attend(part, inputs.placement, queries), len(hidden))
            hidden = self.kernels.linear(attended, layer["o_proj"])
            hidden, residual = self.kernels.add_norm(hidden, residual, layer["post_norm"])
            hidden = self.mlp(hidden, layer)
        hidden, _ = self.kernels.add_norm(hidden, residual, self.norm)
        return functional.linear(hidden[inputs.last], self.lm_head)

    def mlp(self, hidden: Any, layer: dict[str, Any]) -> Any:
        """Of a dense layer, or the experts."""
        if "router" in layer:
            return self.kernels.experts(hidden, layer)
        inner = self.kernels.activation(self.kernels.linear(hidden, layer["gate_up_proj"]))
        return self.kernels.linear(inner, layer["down_proj"])

    def split(self, projected: Any) -> Any:
        """Queries, keys and values of shapes (tokens, heads, head size)."""
        sizes = (self.rank.query_size, self.rank.key_size, self.rank.key_size)
        parts = projected.split(sizes, dim=-1)
        return tuple(part.unflatten(-1, (-1, self.rank.model.head_dim)) for part in parts)

    def rotations(self, positions: Any) -> Any:
        """Cosine and sine of each token's angles, shape (tokens, 1, half a head)."""
        return tuple(table[positions][:, None] for table in self._angles)

    def random_weights(self, name: str) -> Any:
        """One more set of a product's weights."""
        n, k = self.rank.product(name)
        wide = name == "lm_head"
        return self._random(n, k) if wide else self._narrow(n, k)

    def random_tokens(self, tokens: int, size: int) -> Any:
        """Activations of shape (tokens, size)."""
        return torch.randn(tokens, size, device=self.place).to(torch.bfloat16)

    def random_experts(self) -> dict[str, Any]:
        """Weights of one layer's experts and its router."""
        model, ranks = self.rank.model, self.rank.ranks
        experts = model.experts
        if experts is None:
            raise TypeError(f"{model.name} has no experts")
        columns, hidden = experts.intermediate_size // ranks, model.hidden_size
        weights = {
            "router": self._random(experts.count, hidden),
            "gate_up": self._random(experts.count, 2 * columns, hidden),
            "down": self._random(experts.count, hidden, columns),
        }
        if experts.shared:
            weights["shared_gate_up"] = self._random(2 * experts.shared * columns, hidden)
            weights["shared_down"] = self._random(hidden, experts.shared * columns)
        return weights

    def _layer(self, place: int) -> dict[str, Any]:
        model = self.rank.model
        layer = {"input_norm": self._ones(model.hidden_size), "post_norm": self._ones(model.hidden_size)}
        layer |= {name: self._narrow(*self.rank.product(name)) for name in ("qkv_proj", "o_proj")}
        if model.qk_norm:
            layer |= {"query_norm": self._ones(model.head_dim), "key_norm": self._ones(model.head_dim)}
        if model.experts is not None and place >= model.experts.dense_layers:
            return layer | self.random_experts()
        return layer | {
            name: self._narrow(*self.rank.product(name)) for name in ("gate_up_proj", "down_proj")
        }

    def _narrow(self, n: int, k: int) -> Any:
        """In the dtype of the layers."""
        return self._random(n, k).to(DTYPES[self.rank.dtype])

    def _random(self, *shape: int) -> Any:
        """Weights that keep the size of what they multiply."""
        return (torch.randn(shape, device=self.place) / shape[-1] ** 0.5).to(torch.bfloat16)

    def _ones(self, size: int) -> Any:
        return torch.ones(size, dtype=torch.bfloat16, device=self.place)

    def _rotations(self, positions: int, head_dim: int) -> Any:
        frequencies = _BASE ** (-torch.arange(0, head_dim, 2) / head_dim)
        angles = torch.outer(torch.arange(positions), frequencies)
        return tuple(table.to(torch.bfloat16).to(self.place) for table in (angles.cos(), angles.sin()))

    @staticmethod
    def _padded(attended: Any, rows: int) -> Any:
        """Rows of the padding stay what they are."""
        flat = attended.flatten(1)
        if len(flat) == rows:
            return flat
        padded = flat.new_empty(rows, flat.shape[1])
        padded[: len(flat)].copy_(flat)
        return padded
