"""Figures of a replica's memory that were measured, and the rules' figures where they were measured for other settings.

A reading holds for the settings that it was taken with. Where others are asked for it is moved by the difference that
the rules make between the two, so that what the rules leave out stays in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from capsim.memory.question import MemoryQuestion, gib
from capsim.memory.workspace import Workspace

RUN, ENGINE, LOG = "run", "engine", "log"
"""Who measured: the microbenchmark in torch, capsim on an engine that it started, or an engine in its log."""
SAID = {RUN: "measured by calibrate run", ENGINE: "told by the engine", LOG: "printed by the engine"}


class _Sourced:
    """Something that was measured by somebody."""

    source: str

    @property
    def of_engine(self) -> bool:
        """Whether an engine measured itself: with its communication buffers and the encoder for images."""
        return self.source != RUN


@dataclass(frozen=True)
class Reading(_Sourced):
    """One figure.

    Attributes:
        bytes: of one rank.
        tag: ``measured``, or what a file says of it.
        source: `RUN`, `ENGINE` or `LOG`.
        version: of the engine.
    """

    bytes: int
    tag: str
    source: str
    version: str


@dataclass(frozen=True)
class Peak:
    """Activations at their highest, in a step of so many tokens and sequences; `bytes` of one rank."""

    tokens: int
    sequences: int
    bytes: int


@dataclass(frozen=True)
class Peaks(_Sourced):
    """Peaks by the tokens of the batch, increasing; at least one. The other attributes are those of a `Reading`."""

    points: tuple[Peak, ...]
    tag: str
    source: str
    version: str


@dataclass(frozen=True)
class Readings:
    """What is known of a rank's memory; None where nothing was measured.

    Attributes:
        total: of the GPU, as its driver reports it.
        weights: of the model.
        activations: peak of a step.
        non_torch: outside PyTorch. An engine counts what it adds to its CUDA context, and communication buffers; the
            microbenchmark counts the context, which no engine takes from its budget, and no buffers.
        graphs: CUDA graphs as captured.
        estimated_graphs: as the engine estimates them before it sizes the KV cache.
    """

    total: Reading | None = None
    weights: Reading | None = None
    activations: Peaks | None = None
    non_torch: Reading | None = None
    graphs: Reading | None = None
    estimated_graphs: Reading | None = None


NO_READINGS = Readings()
"""Nothing was measured: the rules alone."""


@dataclass(frozen=True)
class Resolved:
    """A reading at the settings that are asked for; `note` says how it was taken there."""

    bytes: int
    tag: str
    note: str


def non_torch(question: MemoryQuestion, reading: Reading) -> Resolved:
    """An engine's memory outside PyTorch, with communication, in the version that is asked for."""
    there, here = Workspace.of(reading.version), Workspace.of(question.engine_version)
    moved = here.non_torch - there.non_torch
    if question.communicates:
        moved += here.communication - there.communication
    return _resolved(reading, moved, f"vLLM {reading.version}")


def activations(question: MemoryQuestion, peaks: Peaks) -> Resolved:
    """Peak of the activations at the tokens, sequences and version that are asked for.

    Between measured numbers of tokens the peak is linear; beyond them it goes on as the rules do. The microbenchmark
    samples greedily: an engine's sampler is then the rules', where it needs more than the layers were seen to need.
    """
    asked = question.max_num_batched_tokens
    moved = [_moved(question, peaks, peak) for peak in peaks.points]
    places = [peak.tokens for peak in peaks.points]
    if asked in places:
        at = places.index(asked)
        size, where = moved[at], ""
        exact = size == peaks.points[at].bytes
    else:
        size, where = _between(question, places, moved)
        exact = False
    if exact:
        return Resolved(size, peaks.tag, SAID[peaks.source])
    notes = [SAID[peaks.source], where, _settings_note(question, peaks)]
    return Resolved(max(0, size), "derived", "; ".join(note for note in notes if note))


def _resolved(reading: Reading, moved: int, settings: str) -> Resolved:
    if not moved:
        return Resolved(reading.bytes, reading.tag, SAID[reading.source])
    note = (
        f"{SAID[reading.source]} under {settings}, {gib(abs(moved))} {'more' if moved > 0 else 'less'} here"
    )
    return Resolved(max(0, reading.bytes + moved), "derived", note)


def _moved(question: MemoryQuestion, peaks: Peaks, peak: Peak) -> int:
    """A peak at its own tokens, for the sequences and the version that are asked for."""
    if not peaks.of_engine:
        return max(peak.bytes, _rule(question, peak.tokens, Workspace.sampling_bytes))
    measured_with = replace(question, max_num_seqs=peak.sequences, engine_version=peaks.version)
    return peak.bytes + _rule(question, peak.tokens) - _rule(measured_with, peak.tokens)


def _between(question: MemoryQuestion, places: list[int], moved: list[int]) -> tuple[int, str]:
    """The peak at tokens that were not measured, and where they lie."""
    asked = question.max_num_batched_tokens
    for (low, below), (high, above) in pairwise(zip(places, moved, strict=True)):
        if low < asked < high:
            share = (asked - low) / (high - low)
            return round(below + share * (above - below)), f"between {low} and {high} tokens"
    at, beside = (0, "below") if asked < places[0] else (-1, "beyond")
    change = _rule(question, asked) - _rule(question, places[at])
    return moved[at] + change, f"{beside} {places[at]} tokens as the rules go"


def _rule(
    question: MemoryQuestion, tokens: int, rule: Callable[..., int] = Workspace.activation_bytes
) -> int:
    """What a rule says of a step of so many tokens."""
    return rule(
        Workspace.of(question.engine_version),
        question.model,
        question.tensor_parallel_size,
        question.max_num_seqs,
        tokens,
        expert_parallel=question.expert_parallel,
    )


def _settings_note(question: MemoryQuestion, peaks: Peaks) -> str:
    if not peaks.of_engine:
        return "with an engine's sampler by the rules where it needs more"
    sequences = {peak.sequences for peak in peaks.points} - {question.max_num_seqs}
    words = [f"from {', '.join(map(str, sorted(sequences)))} sequences"] if sequences else []
    if Workspace.of(peaks.version) != Workspace.of(question.engine_version):
        words.append(f"from vLLM {peaks.version}")
    return f"moved {' and '.join(words)} by the rules" if words else ""
