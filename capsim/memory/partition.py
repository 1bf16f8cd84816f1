"""The KV cache of a whole replica: its ranks, stages and pools."""

from __future__ import annotations

from dataclasses import dataclass

from capsim.catalog.model import Model
from capsim.catalog.stage import pipeline_stages
from capsim.errors import BadInput
from capsim.memory.kv import KvLayout


@dataclass(frozen=True)
class KvPartition:
    """How a replica's KV cache lies on its ranks.

    Attributes:
        stages: layout of one rank of each pipeline stage.
        tensor_parallel_size: ranks that share the heads of a sequence, in each stage.
        data_parallel_size: attention that is run for so many sets of sequences, each on ranks of its own and with a
            pool of its own (data-parallel attention), where the experts may be shared by all.
    """

    stages: tuple[KvLayout, ...]
    tensor_parallel_size: int
    data_parallel_size: int = 1

    @classmethod
    def of(
        cls,
        model: Model,
        kv_dtype: str,
        block_size: int,
        *,
        tensor_parallel_size: int = 1,
        pipeline_parallel_size: int = 1,
        data_parallel_size: int = 1,
        decode_context_parallel_size: int = 1,
    ) -> KvPartition:
        """Layout of every stage; see `KvLayout.of`.

        Raises:
            BadInput: as `KvLayout.of` and `pipeline_stages`, and fewer than one pool.
        """
        if data_parallel_size < 1:
            raise BadInput(f"data_parallel_size {data_parallel_size}, expected at least 1")
        layouts = tuple(
            KvLayout.of(
                model,
                tensor_parallel_size,
                kv_dtype,
                block_size,
                stage=stage,
                decode_context_parallel_size=decode_context_parallel_size,
            )
            for stage in pipeline_stages(model, pipeline_parallel_size)
        )
        return cls(layouts, tensor_parallel_size, data_parallel_size)

    @property
    def ranks(self) -> int:
        """GPUs of the replica."""
        return len(self.stages) * self.tensor_parallel_size * self.data_parallel_size

    @property
    def largest(self) -> KvLayout:
        """Layout of the stage whose blocks are largest: with equal room on every rank, it decides."""
        return max(self.stages, key=lambda layout: layout.bytes_per_block)

    def blocks(self, rank_bytes: int) -> int:
        """Blocks of one pool where each rank has this many bytes for them: as many as the largest stage holds."""
        return rank_bytes // self.largest.bytes_per_block

    def sequence_bytes(self, prompt: int, output: int) -> int:
        """Bytes that a request holds at its end, over all the ranks that hold a part or a copy of it."""
        return self.tensor_parallel_size * sum(
            layout.sequence_bytes(prompt, output) for layout in self.stages
        )

    def concurrency(self, rank_bytes: int, tokens: int, max_num_batched_tokens: int) -> float:
        """Sequences of `tokens` tokens that all pools together hold where each rank has this many bytes."""
        one = self.largest.concurrency(self.blocks(rank_bytes), tokens, max_num_batched_tokens)
        return one * self.data_parallel_size
