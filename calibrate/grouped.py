"""Experts' kernels of many shapes and engines: the roofline's factors fitted to them, and how far it lies off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.catalog import Gpu
from capsim.catalog.model import WEIGHT_BYTES, WEIGHT_ONLY, Experts
from capsim.cost import Efficiency
from capsim.cost.experts import Routing
from capsim.cost.kernels import ACTIVATION_BYTES

FACTORS = (
    "expert_latency",
    "narrow_expert_latency",
    "expert_bandwidth",
    "expert_compute",
    "narrow_expert_compute",
)
"""Of `Efficiency`, in the order of the columns of `ExpertTimes.work`."""
DTYPES = {
    "bfloat16": "bfloat16",
    "fp8": "fp8",
    "fp8_block": "fp8",
    "int4_wo": "int4",
    "w4a16_mxfp4": "int4",
}
"""The roofline's dtypes by the tables' own. 4-bit floats are priced as 4-bit integers."""
UNGATED = ((4096, 2688), (1024, 2688), (2688, 1856), (2048, 5120), (8192, 5120))
"""Hidden size and columns of experts of two matrices instead of three, which the roofline does not know."""
_ROUNDS = 60
_SMALLEST = 1e-9
"""Residual, as a share, below which a row's weight no longer grows."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExpertTimes:
    """Measured seconds of the chosen experts of single layers, one row a measurement.

    Attributes:
        seconds: shape (n,).
        work: seconds that each of `FACTORS` divides or, latencies, multiplies, at the data sheet's full rates;
            shape (n, 5). Seconds are ``work @ x + moved``, x being latencies and reciprocals of shares.
        moved: seconds of what is only moved, as the roofline has them; shape (n,).
        tokens: shape (n,).
        kernel: what was timed, as ``gpu engine version dtype``; shape (n,), text.
        model: hidden size, columns, experts per token and experts; shape (n,), text.
        ranks: to which whole experts are dealt out; shape (n,).
        routing: in the source's words; shape (n,), text.
    """

    seconds: Floats
    work: Floats
    moved: Floats
    tokens: NDArray[np.int64]
    kernel: NDArray[np.str_]
    model: NDArray[np.str_]
    ranks: NDArray[np.int64]
    routing: NDArray[np.str_]

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]], gpu: Gpu, engine: str, dtype: str) -> ExpertTimes:
        """Of a table as an aiconfigurator source has it; what has two matrices an expert is left out.

        Args:
            columns: see `calibrate.importers.aiconfigurator.experts.ExpertTable`.
            gpu: that was measured.
            engine: and its version, in words.
            dtype: of the weights, in the source's words.
        """
        ungated = np.zeros(len(columns["seconds"]), dtype=np.bool_)
        for size, width in UNGATED:
            ungated |= (columns["hidden"] == size) & (columns["inter"] == width)
        kept = {name: column[~ungated] for name, column in columns.items()}
        touched, rows = _load(kept)
        hidden, pairs = kept["hidden"].astype(np.float64), kept["tokens"] * kept["topk"]
        inter = kept["inter"] / kept["tp"]
        ours = DTYPES[dtype]
        narrow = ours != "bfloat16"
        widened = narrow and (ours in WEIGHT_ONLY or ours not in gpu.dense_flops)
        slower = Efficiency().weight_only_compute if widened else 1.0
        weights = touched * 3 * hidden * inter * WEIGHT_BYTES[ours] / slower
        reading = (weights + rows * (3 * inter + 2 * hidden) * ACTIVATION_BYTES) / gpu.memory_bandwidth
        flops = (gpu.dense_flops["bfloat16"] * slower) if widened or not narrow else gpu.dense_flops[ours]
        arithmetic = 6 * rows * hidden * inter / flops
        ones, none = np.ones(len(rows)), np.zeros(len(rows))
        latency, compute = (
            ((none, ones), (none, arithmetic)) if narrow else ((ones, none), (arithmetic, none))
        )
        moved = (3 * pairs * inter + (pairs + kept["tokens"]) * hidden) * ACTIVATION_BYTES
        shapes = zip(*(kept[name].tolist() for name in ("hidden", "inter", "topk", "experts")), strict=True)
        return cls(
            kept["seconds"].astype(np.float64),
            np.stack((*latency, reading, *compute), axis=1),
            moved / (gpu.memory_bandwidth * Efficiency().elementwise_bandwidth),
            kept["tokens"].astype(np.int64),
            np.full(len(rows), f"{gpu.name} {engine} {dtype}"),
            np.array([" ".join(f"{int(part)}" for part in shape) for shape in shapes], dtype=np.str_),
            kept["ep"].astype(np.int64),
            kept["routing"].astype(np.str_),
        )

    @classmethod
    def joined(cls, parts: Sequence[ExpertTimes]) -> ExpertTimes:
        """All rows of several."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__annotations__))

    def where(self, rows: NDArray[np.bool_]) -> ExpertTimes:
        """Some of the rows."""
        return ExpertTimes(*(getattr(self, name)[rows] for name in self.__annotations__))

    def errors(self, factors: Mapping[str, float]) -> Floats:
        """Signed errors of the roofline, (computed - measured) / measured, shape (n,); below 0: too fast."""
        return (self.work @ _unknowns(factors) + self.moved) / self.seconds - 1

    def fitted(self) -> dict[str, float]:
        """`FACTORS` for which the sum of the sizes of the logarithms of computed over measured is least.

        Each kernel has the same weight, however many rows it has, within dtypes of 16, 8 and 4 bits, and these three
        among themselves. Least squares whose weights are set anew, round by round, until they add up to that sum.
        """
        weights = self._weights()
        known = [column for column in range(len(FACTORS)) if self.work[:, column].any()]
        work, target = self.work[:, known], self.seconds - self.moved
        scale = np.sqrt(weights) / self.seconds
        for _ in range(_ROUNDS):
            found = np.linalg.lstsq(work * scale[:, None], target * scale, rcond=None)[0]
            found = np.maximum(found, _SMALLEST)
            computed = work @ found + self.moved
            off = np.maximum(np.abs(computed - self.seconds), _SMALLEST * self.seconds)
            sizes = np.maximum(np.abs(np.log(computed / self.seconds)), _SMALLEST)
            scale = np.sqrt(weights * sizes) / off
        return {FACTORS[column]: _factor(FACTORS[column], x) for column, x in zip(known, found, strict=True)}

    def _weights(self) -> Floats:
        bits = np.array([WEIGHT_BYTES[DTYPES[each.split()[-1]]] for each in np.unique(self.kernel)])
        _, which, rows = np.unique(self.kernel, return_inverse=True, return_counts=True)
        kernels = np.array([(bits == each).sum() for each in bits])
        weights: Floats = 1.0 / (rows * kernels)[which]
        return weights


def quantiles(errors: Floats) -> tuple[float, float, float]:
    """Tenth, median and ninetieth percentile."""
    low, middle, high = np.quantile(errors, (0.1, 0.5, 0.9)).tolist()
    return low, middle, high


def held_out(times: ExpertTimes, labels: NDArray[np.str_]) -> Iterable[tuple[str, Floats]]:
    """For each label the errors on its rows of factors that were fitted to all other rows."""
    for label in np.unique(labels).tolist():
        own = labels == label
        found = times.where(~own).fitted()
        if set(found) == set(FACTORS):
            yield label, times.where(own).errors(found)


def _load(columns: Mapping[str, NDArray[Any]]) -> tuple[Floats, Floats]:
    """Experts whose weights a rank reads, and its pairs of a token and an expert, if routing is uniform."""
    names = ("experts", "topk", "tokens", "ep")
    shapes, which = np.unique(
        np.stack([columns[name] for name in names], axis=1), axis=0, return_inverse=True
    )
    loads = [
        Routing(Experts(int(count), int(chosen), 1)).busiest(int(tokens), int(ranks))
        for count, chosen, tokens, ranks in shapes
    ]
    found = np.array(loads, dtype=np.float64).reshape(-1, 2)[which.reshape(-1)]
    return found[:, 0], found[:, 1]


def _unknowns(factors: Mapping[str, float]) -> Floats:
    return np.array([_factor(name, factors[name]) for name in FACTORS])


def _factor(name: str, value: float) -> float:
    """A share's reciprocal, or a latency as it is; either way round."""
    return value if name.endswith("_latency") else 1 / value
