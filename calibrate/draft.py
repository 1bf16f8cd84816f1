"""A profile under construction: typed parts, and the text of the file that `capsim.cost.load_profile` reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrate.profile_text import checked_profile, profile_text, rounded, write_profile
from calibrate.provenance import Provenance
from capsim.cost import Profile
from capsim.cost.profile_file import SCHEMA_VERSION
from capsim.cost.profile_tables import RANGES, HeldOut


@dataclass(frozen=True)
class Curve:
    """Seconds of one call over counts.

    Attributes:
        counts: strictly increasing, at least two, each at least 1.
        seconds: as many, never falling; see `calibrate.monotone`.
    """

    counts: tuple[int, ...]
    seconds: tuple[float, ...]

    @classmethod
    def of(cls, counts: Iterable[float], seconds: Iterable[float]) -> Curve:
        """From columns of any number type."""
        return cls(tuple(int(count) for count in counts), tuple(float(value) for value in seconds))

    def members(self) -> dict[str, Any]:
        """The lists of the file."""
        return {"counts": list(self.counts), "seconds": rounded(self.seconds)}


@dataclass(frozen=True)
class Operator:
    """Any kernel but attention.

    Attributes:
        name: the field's name, e.g. ``qkv_proj``.
        per: ``tokens`` or ``sequences`` of the batch.
        times: calls in one step.
        tag: ``measured``, ``fitted``, ``derived`` or ``assumed``.
        curve: seconds of one call.
        aligned: seconds at counts that are multiples of `multiple`, where the kernel prefers them.
        multiple: the alignment; 0 without one.
    """

    name: str
    per: str
    times: int
    tag: str
    curve: Curve
    aligned: Curve | None = None
    multiple: int = 0

    def members(self) -> dict[str, Any]:
        """The object of the file."""
        members: dict[str, Any] = {"name": self.name, "per": self.per, "times": self.times, "tag": self.tag}
        members |= self.curve.members()
        if self.aligned is not None:
            members["aligned"] = {"multiple": self.multiple, **self.aligned.members()}
        return members


@dataclass(frozen=True)
class Grid:
    """A table over several axes.

    Attributes:
        tag: ``measured``, ``fitted``, ``derived`` or ``assumed``.
        axes: strictly increasing counts (or ratios) by axis name, outermost first.
        values: seconds of one layer's call (or alpha), shape: the lengths of the axes.
        quantity: the key of the values in the file, ``seconds`` or ``alpha``.
    """

    tag: str
    axes: Mapping[str, tuple[float, ...]]
    values: NDArray[np.float64]
    quantity: str = "seconds"

    def members(self) -> dict[str, Any]:
        """The object of the file."""
        axes = {name: list(axis) for name, axis in self.axes.items()}
        return {"tag": self.tag, **axes, self.quantity: rounded(self.values.tolist())}


Table = TypeVar("Table", Operator, Grid)
GRIDS = ("prefill", "decode", "mixed", "skew", "mixed_skew")
"""Tables of attention, in the order of the file."""


@dataclass(frozen=True)
class Attention:
    """Attention of one layer; see `capsim.cost.load_profile` for the meaning of each table.

    Attributes:
        times: layers.
        prefill: axes ``new``, ``past``.
        decode: axes ``decodes``, ``context``.
        mixed: axes ``new``, ``past``, ``decodes``, ``context``, or None.
        skew: axes ``decodes``, ``ratio``, quantity ``alpha``, or None.
        mixed_skew: the same beside a chunk.
    """

    times: int
    prefill: Grid
    decode: Grid
    mixed: Grid | None = None
    skew: Grid | None = None
    mixed_skew: Grid | None = None

    def members(self) -> dict[str, Any]:
        """The object of the file."""
        grids = {name: getattr(self, name) for name in GRIDS}
        present = {name: grid.members() for name, grid in grids.items() if grid is not None}
        return {"times": self.times, **present}


@dataclass(frozen=True)
class Draft:
    """A whole profile.

    Attributes:
        provenance: where it comes from.
        operators: in the order of execution.
        attention: its tables.
        host: seconds of each step that the GPU waits for the CPU.
        host_tag: ``measured``, ``fitted``, ``derived`` or ``assumed``.
        ranges: lowest and highest measured count by the names in `RANGES`.
        graph_sizes: token counts captured as CUDA graphs; empty without graphs.
        held_out: errors on shapes that the tables do not hold.
        memory: what a rank was measured to hold, as the file states it; empty where nothing was.
    """

    provenance: Provenance
    operators: tuple[Operator, ...]
    attention: Attention
    host: float
    host_tag: str
    ranges: Mapping[str, tuple[int, int]]
    graph_sizes: tuple[int, ...] = ()
    held_out: tuple[HeldOut, ...] = field(default=())
    memory: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """The file: JSON with a line for each table row, and the same bytes for the same draft."""
        members: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "provenance": self.provenance.members(),
            "operators": [operator.members() for operator in self.operators],
            "attention": self.attention.members(),
            "host": {"tag": self.host_tag, "seconds": rounded(self.host)},
            "graph_sizes": list(self.graph_sizes),
            "ranges": {name: list(self.ranges[name]) for name in RANGES},
            "held_out": [
                {name: rounded(value) for name, value in vars(case).items()} for case in self.held_out
            ],
        }
        if self.memory:
            members["memory"] = self.memory
        return profile_text(members)

    def derived_from(self, gpu: str, *, decode_measured: bool = False) -> Draft:
        """The same figures, called derived where they are another GPU's, carried over.

        Args:
            gpu: catalog name of the one that was measured.
            decode_measured: decode attention alone was measured on the profile's own GPU.
        """
        decode = self.attention.decode
        return replace(
            self,
            provenance=replace(self.provenance, derived_from=gpu),
            operators=tuple(map(_derived, self.operators)),
            attention=replace(
                self.attention,
                prefill=_derived(self.attention.prefill),
                decode=decode if decode_measured else _derived(decode),
            ),
        )

    def profile(self) -> Profile:
        """The profile as capsim will read it.

        Raises:
            BadInput: the draft breaks a rule of the format.
        """
        return checked_profile(self.text())

    def write(self, path: Path) -> Profile:
        """Write the file, once it is known that capsim can read it, and return what capsim read.

        Raises:
            BadInput: the draft breaks a rule of the format, or the file cannot be written.
        """
        return write_profile(path, self.text())


def _derived(table: Table) -> Table:
    """The same figures; what was assumed stays so."""
    return table if table.tag == "assumed" else replace(table, tag="derived")
