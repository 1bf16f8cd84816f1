"""What one row of a raw file measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from calibrate.batch import mixed_batch
from capsim.cost import BatchShape, Chunk

CEILING, OPERATOR, ATTENTION, STEP = "ceiling", "operator", "attention", "step"
MEMORY, REQUEST, COMMUNICATION = "memory", "request", "communication"
KINDS = (CEILING, MEMORY, OPERATOR, COMMUNICATION, ATTENTION, STEP, REQUEST)


@dataclass(frozen=True)
class Batch:
    """Chunks of prompts and decodes, each with its own length.

    Attributes:
        chunks: new tokens and those before them.
        contexts: tokens that each decode sees, the new one included.
    """

    chunks: tuple[Chunk, ...] = ()
    contexts: tuple[int, ...] = ()

    @classmethod
    def equal(cls, new: int, past: int, decodes: int, context: int) -> Batch:
        """One chunk (none where `new` is 0) and decodes of one context."""
        return cls((Chunk(new, past),) if new else (), (context,) * decodes)

    @property
    def tokens(self) -> int:
        """Tokens that the step computes."""
        return sum(chunk.new for chunk in self.chunks) + len(self.contexts)

    @property
    def sequences(self) -> int:
        """Chunks and decodes."""
        return len(self.chunks) + len(self.contexts)

    @property
    def lengths(self) -> tuple[tuple[int, int], ...]:
        """New tokens and tokens seen by the last of them, a sequence; chunks first."""
        return (*((new, past + new) for new, past in self.chunks), *((1, length) for length in self.contexts))

    @property
    def pairs(self) -> float:
        """Pairs of query and key."""
        return sum(new * (length - new) + new * (new + 1) / 2 for new, length in self.lengths)

    @property
    def kv_tokens(self) -> int:
        """Tokens whose keys and values are read."""
        return sum(length for _, length in self.lengths)

    @property
    def shape(self) -> BatchShape:
        """As a step's cost is asked for."""
        return mixed_batch(self.chunks, self.contexts)

    def members(self) -> dict[str, Any]:
        """For JSON; equal contexts in a row are counted: ``[[context, how many], ...]``."""
        contexts = [[context, len(list(same))] for context, same in groupby(self.contexts)]
        return {"chunks": [list(chunk) for chunk in self.chunks], "contexts": contexts}

    @classmethod
    def of(cls, chunks: Sequence[Sequence[int]], contexts: Sequence[Sequence[int]]) -> Batch:
        """From the members."""
        return cls(
            tuple(Chunk(new, past) for new, past in chunks),
            tuple(context for context, many in contexts for _ in range(many)),
        )


@dataclass(frozen=True)
class Case:
    """One thing to measure.

    Attributes:
        kind: one of `KINDS`.
        name: which of its kind, e.g. ``qkv_proj``.
        count: tokens or sequences of an operator, tokens of a memory peak, output tokens of a request; else 0.
        batch: of attention, a step or a request's prompt.
        round: 0; 1: the same once more, late in the run.
    """

    kind: str
    name: str
    count: int = 0
    batch: Batch | None = None
    round: int = 0

    @property
    def shape(self) -> Batch:
        """The batch of a case that has one."""
        if self.batch is None:
            raise TypeError(f"{self.kind} {self.name} has no batch")
        return self.batch

    def members(self) -> dict[str, Any]:
        """For JSON."""
        shape: dict[str, Any] = {} if self.batch is None else self.batch.members()
        if self.count:
            shape["count"] = self.count
        return {
            "kind": self.kind,
            "name": self.name,
            "shape": shape,
            **({"round": self.round} if self.round else {}),
        }

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Case:
        """From the members.

        Raises:
            KeyError, TypeError, ValueError: they are those of no case.
        """
        shape = members["shape"]
        batch = Batch.of(shape["chunks"], shape["contexts"]) if "chunks" in shape else None
        if members["kind"] not in KINDS:
            raise ValueError(f"kind {members['kind']!r}")
        return cls(
            members["kind"],
            str(members["name"]),
            int(shape.get("count", 0)),
            batch,
            int(members.get("round", 0)),
        )

    def __str__(self) -> str:
        """As progress and messages name it."""
        words = [self.kind, self.name]
        if self.count:
            words.append(str(self.count))
        if self.batch is not None:
            words += [f"{new}@{past}" for new, past in self.batch.chunks[:3]]
            words += ["..."] if len(self.batch.chunks) > 3 else []
            if self.batch.contexts:
                mean = sum(self.batch.contexts) / len(self.batch.contexts)
                words.append(f"{len(self.batch.contexts)}x{mean:.0f}")
        return " ".join(words)
