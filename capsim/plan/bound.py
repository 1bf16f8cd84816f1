from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.catalog import Gpu, Model
from capsim.catalog.model import WEIGHT_ONLY
from capsim.workload.requests import Requests


@dataclass(frozen=True)
class Bound:
    """Rates that no scheduler can exceed, by hand: data sheet figures, perfect efficiency, perfect batching.

    Attributes:
        compute: requests/s if every FLOP of the data sheet were used: ``FLOP/s / (2 * weights * tokens + attention)``.
        memory: requests/s if every byte per second were: ``bytes/s / (KV read + weights read / largest batch)``.
    """

    compute: float
    memory: float

    @property
    def rate(self) -> float:
        """The lower of the two: a step lasts at least as long as either part."""
        return min(self.compute, self.memory)

    @property
    def limit(self) -> str:
        """Which of the two it is."""
        return "compute" if self.compute <= self.memory else "memory bandwidth"


def bound(
    model: Model,
    gpu: Gpu,
    requests: Requests,
    *,
    found: NDArray[np.int64],
    tensor_parallel_size: int,
    weight_bytes: int,
    kv_bytes_per_token: float,
    dtype: str,
    max_num_seqs: int,
) -> Bound:
    """Bound of one replica for requests of these lengths.

    Args:
        model: its linear layers cost 2 FLOPs a weight and token (of experts only those that a token goes through);
            causal attention 4 a query-key pair and element. Of layers with windows or states, which see less, only the
            linear part is counted.
        gpu: one of the replica's GPUs.
        requests: a sample of the demand; only lengths and the number of sequences of each request matter.
        found: prompt tokens, at most, that need not be computed since they may be found in a cache, shape (n,); nor
            need they be read once for each sequence.
        tensor_parallel_size: GPUs of the replica.
        weight_bytes: resident weights of one GPU.
        kv_bytes_per_token: KV of one token on one GPU in the layers that see everything.
        dtype: of the weights; weight-only precisions compute at the 16-bit rate.
        max_num_seqs: most sequences that can share one reading of the weights.
    """
    samples = requests.samples
    prompt = requests.prompt.astype(np.float64)
    output = requests.output.astype(np.float64)
    known = found.astype(np.float64)
    tokens = prompt - known + samples * (output - 1)
    head = 2 * model.embedding_parameters
    embeddings = (1 if model.tied_embeddings else 2) * model.embedding_parameters
    norms = model.layers * model.norm_parameters + model.hidden_size
    linear = 2 * (model.active_parameters - embeddings - norms)
    pairs = (prompt * (prompt + 1) - known * (known + 1)) / 2
    pairs += samples * (output - 1) * (prompt + output / 2)
    see_all = model.layers if model.other_attention is None else len(model.full_layers)
    attention = 4 * see_all * model.attention_heads * model.head_dim * pairs
    flops = tokens * linear + samples * output * head + attention
    read = samples * (output - 1) * (prompt - known + output / 2)
    # The embedding table is read by the row, and of the experts no fewer than one token's: the rest is read in full.
    untied = 0 if model.tied_embeddings else model.embedding_parameters
    weights = weight_bytes * (model.active_parameters - untied) / model.parameters
    moved = read * kv_bytes_per_token + samples * output * weights / max_num_seqs
    computed = "bfloat16" if dtype in WEIGHT_ONLY or dtype not in gpu.dense_flops else dtype
    rate = gpu.dense_flops[computed]
    return Bound(
        compute=float(tensor_parallel_size * rate / flops.mean()),
        memory=float(gpu.memory_bandwidth / moved.mean()),
    )
