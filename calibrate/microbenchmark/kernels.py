"""The operators of a decoder layer beside attention, in torch's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from calibrate.microbenchmark.device import Device
from calibrate.microbenchmark.rank import Rank

EXPERT_WEIGHTS = ("router", "gate_up", "down", "shared_gate_up", "shared_down")
"""Of a layer with experts, by name."""
EPSILON = 1e-5
FP8 = torch.float8_e4m3fn
FP8_MOST = 448.0
"""Largest number of FP8 E4M3."""
FP8_CAPABILITY = (8, 9)
"""Compute capability from which a GPU multiplies FP8."""


class Kernels:
    """Operators for one device and one rank's shapes.

    Args:
        rank: gives the sizes and the dtype of the weights.
        device: fuses element-wise functions where it can.
    """

    def __init__(self, rank: Rank, device: Device) -> None:
        self._rank = rank
        self.add_norm: Callable[..., Any] = device.fused(add_norm)
        self.head_norm: Callable[..., Any] = device.fused(head_norm)
        self.rotary: Callable[..., Any] = device.fused(rotary)
        self.activation: Callable[..., Any] = device.fused(activation)
        self._quantized: Callable[..., Any] = device.fused(quantized)
        self._one = torch.ones((), dtype=torch.float32, device=device.place)

    def linear(self, tokens: Any, weights: Any) -> Any:
        """``tokens @ weights.T``; where the weights are FP8 the tokens are quantized first, as engines do it."""
        if weights.dtype != FP8:
            return functional.linear(tokens, weights)
        return torch._scaled_mm(
            self._quantized(tokens),
            weights.t(),
            scale_a=self._one,
            scale_b=self._one,
            out_dtype=tokens.dtype,
            use_fast_accum=True,
        )

    def experts(self, tokens: Any, weights: dict[str, Any]) -> Any:
        """Router, chosen experts and shared ones; tokens are sorted by expert for two grouped products."""
        experts = self._rank.model.experts
        if experts is None:
            raise TypeError(f"{self._rank.model.name} has no experts")
        chances = torch.softmax(functional.linear(tokens, weights["router"]).float(), dim=-1)
        share, chosen = torch.topk(chances, experts.per_token, dim=-1)
        order = torch.argsort(chosen.flatten())
        counts = (chosen.flatten()[:, None] == torch.arange(experts.count, device=tokens.device)).sum(0)
        ends = counts.cumsum(0).int()
        rows = tokens[order // experts.per_token]
        inner = self.activation(torch._grouped_mm(rows, weights["gate_up"].transpose(1, 2), offs=ends))
        found = torch._grouped_mm(inner, weights["down"].transpose(1, 2), offs=ends)
        found = found * share.flatten()[order, None].to(found.dtype)
        result = torch.zeros_like(tokens).index_add_(0, order // experts.per_token, found)
        if "shared_gate_up" in weights:
            gated = self.activation(functional.linear(tokens, weights["shared_gate_up"]))
            result = result + functional.linear(gated, weights["shared_down"])
        return result


def add_norm(hidden: Any, residual: Any, weight: Any) -> Any:
    """The residual stream with what a layer adds to it, and its root-mean-square norm."""
    residual = hidden + residual
    return functional.rms_norm(residual, weight.shape, weight, EPSILON), residual


def head_norm(queries: Any, keys: Any, query_weight: Any, key_weight: Any) -> Any:
    """The norm of each head of queries and of keys."""
    pairs = ((queries, query_weight), (keys, key_weight))
    return tuple(functional.rms_norm(heads, weight.shape, weight, EPSILON) for heads, weight in pairs)


def rotary(queries: Any, keys: Any, cosine: Any, sine: Any) -> Any:
    """Rotary embedding of queries and keys of shape (tokens, heads, size): half a head with the other half."""
    halves = (heads.chunk(2, dim=-1) for heads in (queries, keys))
    return tuple(
        torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
        for first, second in halves
    )


def activation(gate_up: Any) -> Any:
    """SiLU of the gate times the rest."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate) * up


def quantized(tokens: Any) -> Any:
    """As FP8, at a fixed scale of 1."""
    return tokens.clamp(-FP8_MOST, FP8_MOST).to(FP8)


def sampled(logits: Any) -> Any:
    """One token a row, drawn with its chance: the largest of the chances over exponential random numbers."""
    chances = torch.softmax(logits.float(), dim=-1)
    return chances.div_(torch.empty_like(chances).exponential_()).argmax(dim=-1)
