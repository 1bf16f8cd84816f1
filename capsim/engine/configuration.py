from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from capsim.engine.footprint import Footprint
from capsim.engine.offload import Tier
from capsim.errors import BadInput, Fault

Integers = NDArray[np.int64]

POLICIES = ("fcfs", "priority")


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
        enable_prefix_caching: freed blocks keep their content until they are taken, and sequences find it there.
        watermark: share of the pool that an admission must leave free, unless nothing runs (vLLM pull request 44594).
        async_scheduling: a step is planned while the one before runs: at the boundary at which that one begins, and so
            without the arrivals, ends and free blocks of the time since.
        tiers: where KV is offloaded to, the nearest first.
        long_prefill_token_threshold: most tokens of one prompt computed in one step; 0: no such limit.
        scheduling_policy: ``fcfs``, or ``priority``: sequences of the smallest priority first, in order of arrival.
        groups: KV blocks of a sequence where some layers have windows or states; None: of layers that are all alike.

    Raises:
        BadInput: a count that is too small.
    """

    num_gpu_blocks: int
    block_size: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int = 1 << 40
    reserve_full_prompt: bool = True
    enable_prefix_caching: bool = False
    watermark: float = 0.0
    async_scheduling: bool = False
    tiers: tuple[Tier, ...] = ()
    long_prefill_token_threshold: int = 0
    scheduling_policy: str = "fcfs"
    groups: Footprint | None = None

    def __post_init__(self) -> None:
        least = {
            "num_gpu_blocks": 1,
            "block_size": 1,
            "max_num_seqs": 1,
            "max_num_batched_tokens": self.max_num_seqs,  # each running sequence takes a token of it, as vLLM asks too
            "max_model_len": 1,
            "long_prefill_token_threshold": 0,
        }
        faults = [
            Fault("engine", f"{getattr(self, name)}", key=name, expected=f"at least {smallest}")
            for name, smallest in least.items()
            if getattr(self, name) < smallest
        ]
        if self.scheduling_policy not in POLICIES:
            what = f"{self.scheduling_policy!r} is no policy"
            faults.append(Fault("engine", what, key="scheduling_policy", expected=" or ".join(POLICIES)))
        if not 0 <= self.watermark < 1:
            faults.append(
                Fault("engine", f"{self.watermark}", key="watermark", expected="at least 0 and below 1")
            )
        if self.tiers and not self.enable_prefix_caching:
            what = "offloaded KV is found as a prefix is"
            faults.append(Fault("engine", what, key="tiers", expected="enable_prefix_caching"))
        for tier in self.tiers:
            if tier.blocks < 1 or tier.seconds_per_block <= 0:
                what = f"{tier.name} has {tier.blocks} blocks, read in {tier.seconds_per_block} s each"
                faults.append(Fault("engine", what, key="tiers", expected="at least 1, in more than 0 s"))
        if self.enable_prefix_caching and not self.footprint.plain:
            what = "prefixes of layers with windows or states are not modelled"
            faults.append(Fault("engine", what, key="enable_prefix_caching", expected="false"))
        if faults:
            raise BadInput(*faults)

    @property
    def footprint(self) -> Footprint:
        """KV blocks that one sequence holds."""
        return self.groups or Footprint(self.block_size)

    @property
    def longest_chunk(self) -> int:
        """Most tokens of one prompt computed in one step."""
        return self.long_prefill_token_threshold or self.max_num_batched_tokens

    @property
    def by_priority(self) -> bool:
        """Whether the queue is in order of priority."""
        return self.scheduling_policy == "priority"

    @property
    def usable_blocks(self) -> int:
        """Blocks that sequences can hold: the pool less its null block."""
        return self.num_gpu_blocks - 1

    @property
    def watermark_blocks(self) -> int:
        """Blocks that an admission leaves free, unless nothing runs."""
        return int(self.watermark * self.num_gpu_blocks)

    @overload
    def admits(self, prompt: int, output: int) -> bool: ...
    @overload
    def admits(self, prompt: Integers, output: Integers) -> NDArray[np.bool_]: ...
    def admits(self, prompt: Any, output: Any) -> Any:
        """Whether sequences can ever run to their end: inside `max_model_len` and inside the whole KV pool.

        The last generated token is never computed, so its KV takes no room.

        Args:
            prompt: tokens, of one sequence or a column of shape (n,).
            output: tokens, as `prompt`.
        """
        blocks = self.footprint.peak(prompt + output - 1, self.max_num_batched_tokens)
        return (prompt + output <= self.max_model_len) & (blocks <= self.usable_blocks)
