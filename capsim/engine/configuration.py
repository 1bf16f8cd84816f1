from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineConfiguration:
    """What the scheduler and the KV cache of one replica obey; names are vLLM's.

    Attributes:
        num_gpu_blocks: KV blocks of the pool as the engine prints them; one of them is the null block.
        block_size: tokens in one block.
        max_num_seqs: most sequences running at once.
        max_num_batched_tokens: most tokens computed in one step.
        max_model_len: longest sequence, prompt and output together, tokens.
        reserve_full_prompt: admit a sequence only when blocks for its whole prompt are free (vLLM's
            ``scheduler_reserve_full_isl``); off: when its first chunk fits.

    """

    num_gpu_blocks: int
    block_size: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int = 1 << 40
    reserve_full_prompt: bool = True

    @property
    def usable_blocks(self) -> int:
        """Blocks that sequences can hold: the pool less its null block."""
        return self.num_gpu_blocks - 1

    def admits(self, prompt: int, output: int) -> bool:
        """Whether a sequence can ever run to its end: inside `max_model_len` and inside the whole KV pool.

        The last generated token is never computed, so its KV takes no room.
        """
        return (
            prompt + output <= self.max_model_len
            and -(-(prompt + output - 1) // self.block_size) <= self.usable_blocks
        )
