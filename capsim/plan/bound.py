from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capsim.catalog import Model
from capsim.catalog.model import WEIGHT_ONLY
from capsim.memory.weights import weight_bytes
from capsim.plan.deployment import Deployment
from capsim.workload.requests import Requests

Floats = NDArray[np.float64]


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


def bound(deployment: Deployment) -> Bound:
    """Bound of one replica for a sample of the demand, of which lengths and numbers of sequences matter.

    Prompt tokens that may be found in a cache are neither computed nor read once for each sequence.
    """
    scenario = deployment.scenario
    engine, gpu = scenario.engine, scenario.gpu
    requests = replace(deployment.sample(), samples=scenario.demand.samples)
    found = _found(deployment, requests).astype(np.float64)
    flops = _flops(scenario.model, requests, found)
    moved = _moved(deployment, requests, found)
    computed = (
        "bfloat16" if engine.dtype in WEIGHT_ONLY or engine.dtype not in gpu.dense_flops else engine.dtype
    )
    return Bound(
        compute=float(engine.tensor_parallel_size * gpu.dense_flops[computed] / flops.mean()),
        memory=float(gpu.memory_bandwidth / moved.mean()),
    )


def _found(deployment: Deployment, requests: Requests) -> NDArray[np.int64]:
    """Prompt tokens of each request, at most, that may be found in a cache."""
    if deployment.engine.enable_prefix_caching and requests.prefixes is not None:
        return np.minimum(requests.prefixes.shared_tokens(), requests.prompt - 1)
    return np.zeros(len(requests), dtype=np.int64)


def _flops(model: Model, requests: Requests, found: Floats) -> Floats:
    """FLOPs of each request, all GPUs together.

    Linear layers cost 2 a weight and token (of experts only those that a token goes through); causal attention 4 a
    query-key pair and element. Of layers with windows or states, which see less, only the linear part is counted.
    """
    samples, prompt, output = requests.samples, requests.prompt.astype(float), requests.output.astype(float)
    tokens = prompt - found + samples * (output - 1)
    head = 2 * model.embedding_parameters
    embeddings = (1 if model.tied_embeddings else 2) * model.embedding_parameters
    norms = model.layers * model.norm_parameters + model.hidden_size
    linear = 2 * (model.active_parameters - embeddings - norms)
    pairs = (prompt * (prompt + 1) - found * (found + 1)) / 2
    pairs += samples * (output - 1) * (prompt + output / 2)
    see_all = model.layers if model.other_attention is None else len(model.full_layers)
    attention = 4 * see_all * model.attention_heads * model.head_dim * pairs
    flops: Floats = tokens * linear + samples * output * head + attention
    return flops


def _moved(deployment: Deployment, requests: Requests, found: Floats) -> Floats:
    """Bytes that each request has one GPU read: the KV of the layers that see everything, and its share of weights."""
    model, engine = deployment.scenario.model, deployment.scenario.engine
    samples, prompt, output = requests.samples, requests.prompt.astype(float), requests.output.astype(float)
    see_all = (group for group in deployment.memory.layout.groups if group.kind in ("full", "latent"))
    kv_bytes_per_token = sum(group.layers * group.token_bytes / group.shared for group in see_all)
    read = samples * (output - 1) * (prompt - found + output / 2)
    # The embedding table is read by the row, and of the experts no fewer than one token's: the rest is read in full.
    untied = 0 if model.tied_embeddings else model.embedding_parameters
    resident = weight_bytes(model, engine.tensor_parallel_size, engine.dtype)
    weights = resident * (model.active_parameters - untied) / model.parameters
    moved: Floats = read * kv_bytes_per_token + samples * output * weights / engine.max_num_seqs
    return moved
