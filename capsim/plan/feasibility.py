"""How many sequences the KV cache holds at the demand's lengths, why not more, and what would change it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.memory.budget import pool_tokens
from capsim.memory.changes import Change, changes
from capsim.memory.kv import KvLayout
from capsim.memory.question import MemoryQuestion
from capsim.plan.deployment import Fitted
from capsim.plan.factors import factors
from capsim.plan.replica_memory import memory_question
from capsim.plan.sequences import Sequences, mean_blocks

Json = dict[str, Any]


@dataclass(frozen=True)
class Feasibility:
    """A replica's KV pool beside the sequences that a demand puts into it."""

    deployment: Fitted

    @cached_property
    def question(self) -> MemoryQuestion:
        """What decides the pool; a stated number of blocks is taken as a correction of the arithmetic."""
        return replace(memory_question(self.deployment.scenario), num_gpu_blocks=None)

    @cached_property
    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Prompts and outputs of requests that are not rejected, tokens."""
        drawn = self.deployment.sample()
        served = self.deployment.engine.admits(drawn.prompt, drawn.output)
        return drawn.prompt[served].astype(np.int64), drawn.output[served].astype(np.int64)

    @cached_property
    def final(self) -> NDArray[np.int64]:
        """Final length of each sequence, tokens: see `Sequences`."""
        prompt, output = self.lengths
        final: NDArray[np.int64] = prompt + output - 1
        return final

    @cached_property
    def sequences(self) -> Sequences:
        """What the demand puts into the pool."""
        prompt, output = self.lengths
        scenario = self.deployment.scenario
        reuse = self.deployment.demand.description()["prefix_reuse"]
        return Sequences(
            prompt,
            output,
            self.running[0],
            scenario.demand.sampling,
            reuse if isinstance(reuse, float) else 0.0,
            scenario.engine.enable_prefix_caching,
        )

    @property
    def live_tokens(self) -> float:
        """Tokens that a running sequence holds on average: see `Sequences.live_tokens`."""
        return self.sequences.live_tokens

    @property
    def running(self) -> tuple[int, str]:
        """How many sequences of mean final length run at once, and what keeps it there."""
        fit, most = int(self.fit_at_once(self.deployment.memory.layout)), self.deployment.engine.max_num_seqs
        return (fit, "KV cache") if fit < most else (most, "max_num_seqs")

    def capacity(self) -> Json:
        """Live tokens beside the pool, and where preemption starts."""
        memory, (running, limit) = self.deployment.memory, self.running
        prompt, output = self.lengths
        # Half-way through its decode a sequence is as long as it is on average.
        blocks = mean_blocks(memory.layout, prompt + output // 2, output)
        return {
            "run_at_once": running,
            "limit": limit,
            "statement": self._why(),
            "live_tokens_per_sequence": self.live_tokens,
            "live_bytes_per_sequence": round(blocks * memory.layout.bytes_per_block),
            "live_tokens": running * self.live_tokens,
            "share_of_pool": running * blocks / memory.usable_blocks,
            "preemption": [
                {
                    "lengths": "the demand's final lengths, on average",
                    "tokens": round(self.final.mean()),
                    "above": int(self.fit_at_once(memory.layout)),
                },
                *(
                    {"lengths": said, "tokens": tokens, "above": int(memory.concurrency(tokens))}
                    for said, tokens in (
                        ("all at their p95", self._p95),
                        ("all at max_model_len", memory.max_model_len),
                    )
                ),
            ],
        }

    def changes(self) -> list[Json]:
        """What would change it, by what it adds to the sequences that run at once, then to the tokens."""
        found = [self._changed(change) for change in changes(self.question)]
        shorter = self._shorter()
        rows = [row for row in found if row is not None] + ([] if shorter is None else [shorter])
        return sorted(
            rows,
            key=lambda row: (row["run_at_once"], row["fit_at_once"], row["longest_at_once"]),
            reverse=True,
        )

    def factors(self) -> list[Json]:
        """What multiplies and what reduces the KV cache here: tokens and concurrency against doing without it."""
        pool_bytes = self.deployment.memory.kv_bytes
        return [factor._asdict() for factor in factors(self.question, pool_bytes, self.sequences)]

    def fit_at_once(self, layout: KvLayout, blocks: int | None = None) -> float:
        """Sequences of the demand, at their final lengths, whose blocks a pool holds."""
        usable = self.deployment.memory.usable_blocks if blocks is None else blocks - 1
        return max(0, usable) / mean_blocks(layout, self.final)

    @cached_property
    def _p95(self) -> int:
        return int(np.quantile(self.final, 0.95, method="inverted_cdf"))

    @cached_property
    def _correction(self) -> int:
        """What a measured or stated pool has more than the arithmetic says, bytes of a rank."""
        return self.deployment.memory.kv_bytes - self.question.kv_bytes

    def _why(self) -> str:
        memory, most = self.deployment.memory, self.deployment.engine.max_num_seqs
        running, limit = self.running
        fit, worst = (
            int(self.fit_at_once(memory.layout)),
            int(memory.concurrency(self.question.max_model_len)),
        )
        if limit == "KV cache":
            held = f"the KV cache holds {fit:,} sequences of the demand at their final lengths"
            return f"{held}; max_num_seqs is {most:,}"
        longest = f"even {worst:,}" if worst >= most else f"but only {worst:,}"
        return (
            f"max_num_seqs is {running:,}; the KV cache would hold {fit:,} sequences of the demand at their final "
            f"lengths, {longest} of max_model_len"
        )

    def _changed(self, change: Change) -> Json | None:
        """A change's effect; None where it leaves no room for one longest sequence."""
        question = change.question
        layout, kv_bytes = question.layout, question.kv_bytes + self._correction
        if kv_bytes < question.needed_bytes:
            return None
        blocks = kv_bytes // layout.bytes_per_block
        return self._row(
            change.name,
            change.price,
            pool_tokens(layout, blocks - 1, question.max_model_len),
            self.fit_at_once(layout, blocks),
            question.max_num_seqs,
            (blocks - 1) // layout.blocks(question.max_model_len),
        )

    def _shorter(self) -> Json | None:
        """`max_model_len` as short as the demand allows: no token more, but more sequences in the worst case."""
        memory = self.deployment.memory
        longest = int(self.final.max()) + 1
        if longest >= self.question.max_model_len:
            return None
        return self._row(
            f"max_model_len {longest}",
            "rejects what is longer",
            memory.kv_tokens,
            self.fit_at_once(memory.layout),
            self.deployment.engine.max_num_seqs,
            int(memory.concurrency(longest)),
        )

    def _row(self, name: str, price: str, tokens: int, fit: float, most: int, longest: int) -> Json:
        memory = self.deployment.memory
        return {
            "name": name,
            "price": price,
            "kv_tokens": tokens,
            "tokens_ratio": tokens / memory.kv_tokens,
            "fit_at_once": int(fit),
            "run_at_once": min(int(fit), most),
            "longest_at_once": longest,
        }
