"""Attention over pages in plain words, in place of torch's kernel for GPUs."""

from __future__ import annotations

import math
from typing import Any

import torch


def paged(
    queries: Any, keys: Any, values: Any, firsts: Any, *_: Any, seqused_k: Any, block_table: Any, **__: Any
) -> tuple[Any]:
    """Takes what `torch.ops.aten._flash_attention_forward` takes, and returns its first result alone."""
    found = []
    sharing = queries.shape[1] // keys.shape[2]
    for row, (start, end) in enumerate(zip(firsts[:-1].tolist(), firsts[1:].tolist(), strict=True)):
        length = int(seqused_k[row])
        own_keys, own_values = (
            pages[block_table[row].long()].flatten(0, 1)[:length].repeat_interleave(sharing, 1).float()
            for pages in (keys, values)
        )
        scores = torch.einsum("qhd,khd->hqk", queries[start:end].float(), own_keys) / math.sqrt(
            queries.shape[2]
        )
        seen = torch.ones(end - start, length, dtype=torch.bool).tril(length - (end - start))
        weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
        found.append(torch.einsum("hqk,khd->qhd", weights, own_values).to(queries.dtype))
    return (torch.cat(found),)
