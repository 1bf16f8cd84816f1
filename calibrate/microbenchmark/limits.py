from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from calibrate.microbenchmark.axes import graph_sizes
from calibrate.microbenchmark.case import Batch
from calibrate.microbenchmark.rank import Rank
from capsim.errors import Infeasible
from capsim.memory import weight_bytes
from capsim.units import format_size

USABLE = 0.9
"""Share of the memory that engines take."""
WORKSPACE = 2 << 30
"""Bytes of a GPU for activations, graphs and what lies outside PyTorch; on a CPU a twentieth of the memory, if less."""
FEWEST_LAYERS = 1


@dataclass(frozen=True)
class Limits:
    """How far the tables reach; by the engines' own names.

    Attributes:
        max_num_batched_tokens: tokens of the largest step.
        max_num_seqs: sequences of the largest batch.
        max_model_len: longest sequence, tokens.
        kv_tokens: tokens whose keys and values fit beside the weights, all layers together; no batch has more.
        layers: of the decoder that is measured as a whole: the model's, or as many as fit.
        graphs: batches are padded to captured sizes.
    """

    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    kv_tokens: int
    layers: int
    graphs: bool

    @property
    def graph_sizes(self) -> tuple[int, ...]:
        """Captured batch sizes; none without graphs."""
        return graph_sizes(min(2 * self.max_num_seqs, self.max_num_batched_tokens)) if self.graphs else ()

    def fits(self, batch: Batch) -> bool:
        """Whether an engine could ever have this batch."""
        return batch.kv_tokens <= self.kv_tokens

    def members(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Limits:
        """From the members.

        Raises:
            KeyError: one is missing.
        """
        return cls(**{each.name: members[each.name] for each in fields(cls)})


def limits_of(
    rank: Rank,
    memory: int,
    *,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    max_model_len: int,
    graphs: bool,
) -> Limits:
    """Limits of a model on a machine.

    A model whose weights leave no room for one sequence of `max_model_len` is cut short: fewer layers are measured as
    a whole, and scaled. Its KV tokens are then what the same share of the memory holds with the layers that fit.

    Args:
        rank: model, ranks and dtype.
        memory: bytes of the GPU as its driver reports them.
        max_num_batched_tokens: tokens of the largest step.
        max_num_seqs: sequences of the largest batch.
        max_model_len: longest sequence; cut at the model's own.
        graphs: batches run as CUDA graphs.

    Raises:
        Infeasible: not even one layer fits.
    """
    longest = min(max_model_len, rank.model.max_position_embeddings)
    weights = weight_bytes(rank.model, rank.ranks, rank.dtype)
    ends = 2 * rank.model.embedding_parameters * 2 // rank.ranks
    layer = max(1, (weights - ends) // rank.model.layers)
    room = int(USABLE * memory) - min(WORKSPACE, memory // 20) - ends
    most = max(max_num_batched_tokens, longest)
    layers = min(rank.model.layers, room // (layer + most * rank.kv_bytes))
    if layers < FEWEST_LAYERS:
        raise Infeasible(
            f"{rank.model.name} in {rank.dtype} on a machine of {format_size(memory)}: not one layer of "
            f"{format_size(layer)} fits beside the embeddings ({format_size(ends)}) and {most} tokens of KV",
            ("more ranks (--tp)", "a smaller --max-model-len or --max-num-batched-tokens"),
        )
    kv_tokens = (room - layers * layer) // (layers * rank.kv_bytes)
    return Limits(max_num_batched_tokens, max_num_seqs, longest, kv_tokens, layers, graphs)
