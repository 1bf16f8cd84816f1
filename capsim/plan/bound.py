from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capsim.catalog import Gpu, Model
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
    tensor_parallel_size: int,
    weight_bytes: int,
    kv_bytes_per_token: int,
    dtype: str,
    max_num_seqs: int,
) -> Bound:
    """Bound of one replica for requests of these lengths.

    Args:
        model: its linear layers cost 2 FLOPs a weight and token; causal attention 4 a query-key pair and element.
        gpu: one of the replica's GPUs.
        requests: a sample of the demand; only lengths matter.
        tensor_parallel_size: GPUs of the replica.
        weight_bytes: resident weights of one GPU.
        kv_bytes_per_token: KV of one token on one GPU.
        dtype: compute dtype of the linear layers.
        max_num_seqs: most sequences that can share one reading of the weights.
    """
    prompt = requests.prompt.astype(np.float64)
    output = requests.output.astype(np.float64)
    total = prompt + output - 1
    linear = 2 * model.layers * (model.attention_parameters + model.mlp_parameters)
    head = 2 * model.embedding_parameters
    pairs = total * (total + 1) / 2
    flops = total * linear + output * head + 4 * model.layers * model.attention_heads * model.head_dim * pairs
    read = (output - 1) * (prompt + output / 2)
    # The embedding table is read by the row: only the other weights are read in full.
    weights = weight_bytes * (1 - model.embedding_parameters * (not model.tied_embeddings) / model.parameters)
    moved = read * kv_bytes_per_token + output * weights / max_num_seqs
    rate = gpu.dense_flops[dtype if dtype in gpu.dense_flops else "bfloat16"]
    return Bound(
        compute=float(tensor_parallel_size * rate / flops.mean()),
        memory=float(gpu.memory_bandwidth / moved.mean()),
    )
