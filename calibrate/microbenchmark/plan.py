"""Which shapes are measured, and about how long that takes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from calibrate.microbenchmark.attention_axes import AttentionAxes
from calibrate.microbenchmark.axes import DENSITIES, Density, doubling, odd_counts, tile_counts
from calibrate.microbenchmark.case import (
    ATTENTION,
    CEILING,
    COMMUNICATION,
    MEMORY,
    OPERATOR,
    REQUEST,
    STEP,
    Batch,
    Case,
)
from calibrate.microbenchmark.limits import Limits
from calibrate.microbenchmark.random_batches import held_out_batches, random_steps
from calibrate.microbenchmark.rank import PRODUCTS, WIDE, Ceilings, Rank
from calibrate.microbenchmark.sample import Timing

REACHED = 0.5
"""Share of the ceilings that a kernel is expected to reach when its time is estimated."""
RESERVE = 0.9
"""Share of the minutes that an estimate may take."""
START_OF_RANKS = 10.0
"""Seconds until processes, one a GPU, have started and met."""
TILED = (*PRODUCTS, "lm_head", "moe")
"""Operators whose kernels step at tile edges; the others are smooth."""
REQUEST_OUTPUT = 32
"""Output tokens of the request that is measured alone."""


@dataclass(frozen=True)
class Plan:
    """What one run measures.

    Attributes:
        rank: model, ranks and dtype.
        limits: how far the tables reach.
        density: how many counts an axis has.
    """

    rank: Rank
    limits: Limits
    density: Density

    def cases(self) -> tuple[Case, ...]:
        """Ceilings and memory first, then everything in an order that mixes all kinds, ceilings once more at the end.

        A machine that slows down on the way does so for all kinds alike, and the second look at the ceilings tells.
        """
        ceilings = list(self._ceilings())
        body = [*self._operators(), *self._communication(), *self._attention(), *self._steps()]
        last = [Case(each.kind, each.name, round=1) for each in ceilings]
        return (*ceilings, *self._memory(), *sorted(body, key=_mixed), *self._request(), *last)

    def seconds(self, ceilings: Ceilings, timing: Timing) -> dict[str, float]:
        """Estimated seconds by kind of case."""
        found: dict[str, float] = {}
        for case in self.cases():
            found[case.kind] = found.get(case.kind, 0.0) + self.case_seconds(case, ceilings, timing)
        return found

    def case_seconds(self, case: Case, ceilings: Ceilings, timing: Timing) -> float:
        """Estimated seconds to measure one case."""
        if case.kind == COMMUNICATION:
            return START_OF_RANKS
        if case.kind in (CEILING, MEMORY):
            return 10 * timing.setup + timing.capture * (case.count if case.name == "graphs" else 0)
        least = ceilings.least_seconds(self.rank.work(case, self.limits.layers)) / REACHED
        if case.kind == REQUEST:
            return timing.setup + 2 * least * (1 + case.count)
        kernels = 12 * self.limits.layers if case.kind == STEP else 1
        return timing.duration(least + kernels * timing.launch)

    def members(self) -> dict[str, Any]:
        """For the head of a raw file."""
        return {"density": self.density.name, "limits": self.limits.members()}

    @classmethod
    def of(cls, rank: Rank, members: Mapping[str, Any]) -> Plan:
        """From the members.

        Raises:
            KeyError, StopIteration: one is missing or not known.
        """
        density = next(each for each in DENSITIES if each.name == members["density"])
        return cls(rank, Limits.of(members["limits"]), density)

    def _ceilings(self) -> Iterator[Case]:
        yield Case(CEILING, "copy")
        for dtype in dict.fromkeys((WIDE, self.rank.dtype)):
            yield Case(CEILING, f"matrix {dtype}")

    def _memory(self) -> Iterator[Case]:
        yield from (Case(MEMORY, name) for name in ("total", "weights", "outside torch"))
        for tokens in doubling(min(512, self.limits.max_num_batched_tokens), self._tokens, 4.0):
            yield Case(MEMORY, "activations", tokens)
        if self.limits.graphs:
            yield Case(MEMORY, "graphs", len(self.limits.graph_sizes))

    def _operators(self) -> Iterator[Case]:
        for kind in self.rank.operators():
            most = self._tokens if kind.per == "tokens" else self.limits.max_num_seqs
            if kind.name in TILED:
                counts: Iterable[int] = {*tile_counts(most, self.density), *odd_counts(most, self.density)}
            else:
                counts = doubling(1, most, 4.0)
            yield from (Case(OPERATOR, kind.name, count) for count in sorted(counts))

    def _communication(self) -> Iterator[Case]:
        if self.rank.ranks > 1:
            yield from (Case(COMMUNICATION, "all_reduce", count) for count in doubling(1, self._tokens, 4.0))

    def _attention(self) -> Iterator[Case]:
        axes = AttentionAxes.of(self.limits, self.density)
        for name, batches in axes.batches().items():
            for batch in batches:
                if self.limits.fits(batch):
                    yield Case(ATTENTION, name, batch=batch)
        for batch in held_out_batches(self.limits, self.density.held_out):
            yield Case(ATTENTION, "held out", batch=batch)

    def _steps(self) -> Iterator[Case]:
        named = {
            "chain": self._chain(),
            "random": random_steps(self.limits, self.density.random_steps),
            "grid": self._grid(),
        }
        for name, batches in named.items():
            for batch in batches:
                if self.limits.fits(batch):
                    yield Case(STEP, name, batch=batch)
                    if name != "grid":
                        yield Case(STEP, name, batch=batch, round=1)
        if self.limits.graphs:
            for batch in self._grid():
                if batch.contexts:
                    yield from (Case(STEP, name, batch=batch) for name in ("graph", "eager"))

    def _chain(self) -> Iterator[Batch]:
        """Steps of one chunk, which tell what lies between the operators."""
        for new in doubling(1, min(self._tokens, self.limits.max_model_len)):
            yield Batch.equal(new, 0, 0, 0)

    def _grid(self) -> Iterator[Batch]:
        """Steps at shapes of the tables."""
        axes = AttentionAxes.of(self.limits, self.density)
        context, past = axes.context[len(axes.context) // 2], axes.past[len(axes.past) // 2]
        for decodes in doubling(1, self.limits.max_num_seqs, 8.0):
            yield Batch.equal(0, 0, decodes, context)
        for new in axes.new[2::3]:
            if new + past <= self.limits.max_model_len:
                yield Batch.equal(new, past, 0, 0)

    def _request(self) -> Iterator[Case]:
        if self.limits.layers == self.rank.model.layers:
            prompt = min(512, self.limits.max_num_batched_tokens, self.limits.max_model_len // 2)
            yield Case(REQUEST, "alone", REQUEST_OUTPUT, Batch.equal(prompt, 0, 0, 0))

    @property
    def _tokens(self) -> int:
        return self.limits.max_num_batched_tokens


def plan_of(rank: Rank, limits: Limits, ceilings: Ceilings, timing: Timing, minutes: float) -> Plan:
    """The densest plan whose estimate fits the minutes, the start included, or the sparsest where none does."""
    plans = [Plan(rank, limits, density) for density in DENSITIES]
    for plan in plans:
        if timing.start + sum(plan.seconds(ceilings, timing).values()) <= RESERVE * 60 * minutes:
            return plan
    return plans[-1]


def pool_tokens(plan: Plan, page: int = 1) -> int:
    """Tokens of KV in one layer's terms that the largest case needs.

    Args:
        plan: all cases.
        page: tokens; each sequence takes whole pages.
    """
    layers, limits = plan.limits.layers, plan.limits
    sequences = max((limits.max_num_seqs, *limits.graph_sizes))
    tokens = [layers * (sequences * page + limits.max_num_batched_tokens)]
    for case in plan.cases():
        if case.batch is not None:
            lengths = [length + case.count for _, length in case.batch.lengths]
            pages = sum(-(-length // page) for length in lengths)
            tokens.append(pages * page * (1 if case.kind == ATTENTION else layers))
    return max(tokens)


def _mixed(case: Case) -> bytes:
    """A place in the run that depends on the case alone; a second round comes after every first one."""
    return bytes([case.round]) + hashlib.sha256(repr(case).encode()).digest()
