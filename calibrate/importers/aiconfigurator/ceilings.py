"""How fast a GPU can be at most, and the record of what was done to measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from calibrate.monotone import monotone
from capsim.catalog import Gpu
from capsim.errors import BadInput

MEASURED_CEILINGS: Mapping[str, tuple[float, Mapping[str, float]]] = {
    "h200": (4.3e12, {"bfloat16": 788e12, "float16": 788e12})
}
"""What large copies (bytes/s, read and written) and matrix products (FLOP/s) reach on a GPU under sustained load, by
catalog name. Short bursts are faster, since the clock falls only after a while; a serving engine's load is no burst."""

_EQUAL = 1e-9  # relative; a time that was put on its ceiling before differs from it by rounding
_UNIT_SHARES = (0.05, 1.2)  # of the data sheet; a kernel outside was not measured in the unit that is assumed


@dataclass(frozen=True)
class Ceilings:
    """The fastest that a GPU moves bytes and multiplies: measured where known, else its data sheet's figures.

    Attributes:
        gpu: its data sheet.
        bandwidth: bytes per second.
        flops: FLOPs per second by dtype.
    """

    gpu: Gpu
    bandwidth: float
    flops: Mapping[str, float]

    @classmethod
    def of(cls, gpu: Gpu) -> Ceilings:
        """The ceilings of a GPU."""
        bandwidth, flops = MEASURED_CEILINGS.get(gpu.name, (gpu.memory_bandwidth, {}))
        return cls(gpu, bandwidth, {**gpu.dense_flops, **flops})

    def arithmetic(self, dtype: str) -> float:
        """FLOPs per second of this dtype; without its arithmetic weights are widened to 16 bits first."""
        return self.flops.get(dtype, self.flops["bfloat16"])

    def check_unit(self, what: str, rate: float, limit: float) -> None:
        """Refuse a best rate so far from the data sheet's that the times must have another unit.

        Raises:
            BadInput: naming both.
        """
        low, high = _UNIT_SHARES
        if not low <= rate / limit <= high:
            raise BadInput(
                f"{what} reach {rate:.3g}/s at best, {self.gpu.name}'s data sheet says {limit:.3g}/s: "
                "the times are in another unit than expected, or of another GPU"
            )


@dataclass
class Journal:
    """What was done to the figures on the way, for the notes of the profile.

    Attributes:
        moved: largest relative move to make a table monotone, by table.
        raised: how many points a ceiling raised, and the largest relative raise, by table.
        sentences: everything else.
    """

    moved: dict[str, float] = field(default_factory=dict)
    raised: dict[str, tuple[int, float]] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)

    def settled(
        self, name: str, seconds: NDArray[np.float64], least: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Values that never fall along any axis and are nowhere below `least`, which never falls either."""
        smooth, moved = monotone(seconds)
        self.moved[name] = max(self.moved.get(name, 0.0), moved)
        raised = np.maximum(smooth, least)
        points, most = self.raised.get(name, (0, 0.0))
        above = int(np.count_nonzero(raised > smooth * (1 + _EQUAL)))
        if above:
            self.raised[name] = (points + above, max(most, float((raised / smooth).max() - 1)))
        return raised

    def notes(self, ceilings: Ceilings) -> tuple[str, ...]:
        """One sentence a matter."""
        moves = ", ".join(f"{name} {move:.1%}" for name, move in self.moved.items() if move > 0)
        notes = [
            *self.sentences,
            f"seconds never fall, by isotonic regression; largest moves: {moves or 'none'}",
        ]
        if self.raised:
            raises = ", ".join(f"{name} {n} by up to {most:.1%}" for name, (n, most) in self.raised.items())
            flops = ", ".join(f"{rate / 1e12:g} TFLOP/s {dtype}" for dtype, rate in ceilings.flops.items())
            notes.append(
                f"points faster than the GPU's ceilings ({ceilings.bandwidth / 1e12:g} TB/s, {flops}) were raised to "
                f"them: {raises}"
            )
        return tuple(notes)
