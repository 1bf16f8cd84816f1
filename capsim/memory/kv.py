"""How many bytes and blocks the KV cache takes."""

from __future__ import annotations

from dataclasses import dataclass

from capsim.catalog.model import DTYPE_BYTES, Model, check_dtype
from capsim.errors import BadInput


@dataclass(frozen=True)
class KvLayout:
    """The KV cache of one rank: how large a token is, and in which blocks tokens are allocated.

    Attributes:
        bytes_per_token: keys and values of all layers on one rank, bytes.
        block_size: tokens in one block.
    """

    bytes_per_token: int
    block_size: int

    @classmethod
    def of(
        cls,
        model: Model,
        tensor_parallel_size: int,
        kv_dtype: str,
        block_size: int,
        layers: int | None = None,
    ) -> KvLayout:
        """Layout of a model's cache: ``2 * layers * KV heads of a rank * head_dim * bytes``.

        KV heads are split over the ranks and replicated where there are more ranks than heads. `layers` are those of
        a pipeline's stage; None: all of the model's.

        Raises:
            BadInput: an attention kind other than ``gqa``, an unknown dtype, a block size below 1, or a degree of
                parallelism that does not divide the heads.
        """
        heads = model.kv_heads_of_rank(tensor_parallel_size)
        check_dtype("KV dtype", kv_dtype)
        if block_size < 1:
            raise BadInput(f"block_size {block_size}, expected at least 1 token")
        held = model.layers if layers is None else layers
        return cls(2 * held * heads * model.head_dim * DTYPE_BYTES[kv_dtype], block_size)

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block on one rank."""
        return self.bytes_per_token * self.block_size

    def blocks(self, tokens: int) -> int:
        """Blocks that hold a sequence of `tokens` tokens."""
        return -(-tokens // self.block_size)

    def sequence_bytes(self, prompt: int, output: int) -> int:
        """Bytes of the blocks that a request holds at its end.

        The last output token is never fed back, so its keys and values are never written.
        """
        return self.blocks(prompt + output - 1) * self.bytes_per_block
