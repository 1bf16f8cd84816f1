"""Linear layers of a step from a table of (m, k) times (k, n) products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrate.draft import Curve, Operator
from calibrate.importers.aiconfigurator.ceilings import Ceilings, Journal
from calibrate.importers.aiconfigurator.source import Columns
from capsim.catalog import Model
from capsim.catalog.model import DTYPE_BYTES
from capsim.errors import BadInput

ALIGNMENT = 8
"""Multiple of tokens that an fp8 kernel prefers. Above 256 tokens the source measures multiples of 256 and their
successors only; that every multiple of 8 runs as those do is assumed."""

MOST = {"tokens": 32768, "sequences": 4096}
"""Counts that tables reach to, by what they count."""

_CLIFF = 1.10
"""Median ratio of a count from 256 on to its aligned predecessor above which both are kept apart. H200, vLLM, layers
from 1,024 on: 1.01 for bf16 (tenth and ninetieth percentile 0.92 and 1.11, which is noise), 1.22 for fp8 (1.03, 1.66).
"""
_CLIFF_FROM = 256  # tokens; below, both lie in the same tile


class GemmTable:
    """Seconds of linear layers of one dtype on a grid of (n, k).

    A layer that is not in the grid is the sum of its neighbours, weighted linearly in n and in k, because a layer
    takes a constant and a part that grows with n * k. On vLLM's H200 table, with each inner n or k from 1,024 on left
    out in turn, the error is 0.1 to 0.2 % in the median, 2 to 3 % in the median of its absolute value and 8 to 10 % in
    its ninetieth percentile; logarithmic weights do no better and lean 0.5 % upwards. Above the last n or k seconds are
    in proportion; below the first they are its own.

    Args:
        columns: ``m``, ``n``, ``k``, ``seconds``.
        dtype: of the weights.

    Raises:
        BadInput: there are no rows.
    """

    def __init__(self, columns: Columns, dtype: str) -> None:
        if not len(columns["seconds"]):
            raise BadInput(f"the table of linear layers has no row of dtype {dtype!r}")
        self.dtype = dtype
        self._columns = columns
        self._axes = {axis: np.unique(columns[axis]) for axis in ("n", "k")}
        rows: dict[tuple[int, int], list[int]] = {}
        for row, (n, k) in enumerate(zip(columns["n"].tolist(), columns["k"].tolist(), strict=True)):
            rows.setdefault((int(n), int(k)), []).append(row)
        self._rows = rows

    def best_rate(self) -> float:
        """FLOPs per second of the fastest row."""
        columns = self._columns
        return float((2 * columns["m"] * columns["n"] * columns["k"] / columns["seconds"]).max())

    def line(self, n: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64], str]:
        """Token counts and seconds of a layer of k inputs and n outputs, and how it was filled (empty: measured)."""
        if (n, k) in self._rows:
            return *self._measured(n, k), ""
        weights = {
            (int(low), int(high)): share * other
            for low, share in _neighbours(self._axes["n"], n)
            for high, other in _neighbours(self._axes["k"], k)
        }
        missing = [corner for corner in weights if corner not in self._rows]
        if missing:
            raise BadInput(
                f"{self.dtype} layer n={n}, k={k}: its neighbour n, k = {missing[0]} was not measured"
            )
        parts = {corner: self._measured(*corner) for corner in weights}
        counts = np.asarray(sorted(set.intersection(*(set(part[0].tolist()) for part in parts.values()))))
        seconds = np.zeros(len(counts))
        for corner, weight in weights.items():
            measured, values = parts[corner]
            seconds += weight * values[np.isin(measured, counts)]
        named = " and ".join(f"({low}, {high})" for low, high in weights)
        alone = "as long as" if 1 in weights.values() else "in proportion to"
        rule = "linear between" if len(weights) > 1 else alone
        return counts, seconds, f"(n, k) = ({n}, {k}) was not measured: {rule} {named}"

    def _measured(self, n: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        rows = self._rows[n, k]
        counts, first = np.unique(self._columns["m"][rows], return_index=True)
        return counts.astype(np.int64), self._columns["seconds"][rows][first]


def gemms(model: Model, ranks: int) -> dict[str, tuple[int, int]]:
    """Linear layers on one rank but a router and the experts that it chooses, as (outputs n, inputs k) by name."""
    query = model.attention_heads // ranks * model.head_dim
    key_value = model.kv_heads_of_rank(ranks) * model.head_dim
    shapes = {"qkv_proj": (query + 2 * key_value, model.hidden_size), "o_proj": (model.hidden_size, query)}
    for prefix, (columns, _) in mlps(model, ranks).items():
        shapes[f"{prefix}gate_up_proj"] = (2 * columns, model.hidden_size)
        shapes[f"{prefix}down_proj"] = (model.hidden_size, columns)
    return shapes


def gemm_calls(model: Model) -> dict[str, int]:
    """How many layers have each of `gemms`."""
    calls = {"qkv_proj": model.layers, "o_proj": model.layers}
    for prefix, (_, layers) in mlps(model).items():
        calls |= {f"{prefix}{name}": layers for name in ("gate_up_proj", "down_proj")}
    return calls


def mlps(model: Model, ranks: int = 1) -> dict[str, tuple[int, int]]:
    """MLPs that all tokens go through, as (columns on one rank, layers) by prefix: of dense layers, shared experts."""
    found = {"": (model.intermediate_size // ranks, model.dense_layers)}
    if model.experts is not None:
        shared = model.experts.shared * model.experts.intermediate_size
        found["shared_"] = (shared // ranks, model.expert_layers)
    return {prefix: (columns, layers) for prefix, (columns, layers) in found.items() if columns and layers}


def gemm_operators(
    table: GemmTable,
    shapes: Mapping[str, tuple[int, int]],
    times: Mapping[str, int],
    ceilings: Ceilings,
    journal: Journal,
    per: str = "tokens",
) -> list[Operator]:
    """Linear layers as operators, aligned and other counts apart where the kernel has cliffs."""
    lines = {name: table.line(n, k) for name, (n, k) in shapes.items()}
    ceilings.check_unit(
        f"{table.dtype} linear layers",
        table.best_rate(),
        ceilings.gpu.dense_flops.get(table.dtype, ceilings.flops["bfloat16"]),
    )
    cliffs = _median_cliff([(counts, seconds) for counts, seconds, _ in lines.values()]) > _CLIFF
    operators = []
    for name, (measured, seconds, filled) in lines.items():
        if filled:
            journal.sentences.append(f"{name} {filled}")
        counts = measured[measured <= MOST[per]]
        least = _least(*shapes[name], table.dtype, ceilings)
        other, aligned = _curves(name, counts, seconds[: len(counts)], least, cliffs, journal)
        tag = "fitted" if filled else "measured"
        operators.append(Operator(name, per, times[name], tag, other, aligned, ALIGNMENT if aligned else 0))
    if cliffs:
        journal.sentences.append(
            f"{table.dtype} layers have alignment cliffs: multiples of {ALIGNMENT} tokens and other counts are kept "
            f"apart; above {_CLIFF_FROM} the source measures multiples of 256 and their successors, that other "
            f"multiples of {ALIGNMENT} run as the former do is assumed"
        )
    return operators


def _least(
    n: int, k: int, dtype: str, ceilings: Ceilings
) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """Seconds that a layer takes at least: its arithmetic, and the weights that it reads."""
    reading = n * k * DTYPE_BYTES[dtype] / ceilings.bandwidth
    arithmetic = 2 * n * k / ceilings.arithmetic(dtype)
    return lambda counts: np.maximum(reading, counts * arithmetic)


def _curves(
    name: str,
    counts: NDArray[np.int64],
    seconds: NDArray[np.float64],
    least: Callable[[NDArray[np.int64]], NDArray[np.float64]],
    cliffs: bool,
    journal: Journal,
) -> tuple[Curve, Curve | None]:
    """Seconds at all counts, or at counts that are not aligned and at those that are."""
    if not cliffs:
        return Curve.of(counts, journal.settled(name, seconds, least(counts))), None
    even = counts % ALIGNMENT == 0
    aligned = Curve.of(counts[even], journal.settled(name, seconds[even], least(counts[even])))
    last = counts[~even][-1]
    # Beyond the last count that is not aligned: as much above the aligned ones as there.
    beyond = even & (counts > last)
    ratio = seconds[~even][-1] / np.interp(last, counts[even], seconds[even])
    odd = np.concatenate([counts[~even], counts[beyond] + 1])
    values = np.concatenate([seconds[~even], ratio * seconds[beyond]])
    return Curve.of(odd, journal.settled(name, values, least(odd))), aligned


def _median_cliff(lines: Sequence[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> float:
    """Median ratio of seconds at a count to those at its aligned predecessor."""
    ratios = []
    for counts, seconds in lines:
        at = dict(zip(counts.tolist(), seconds.tolist(), strict=True))
        starts = [
            count for count in at if count >= _CLIFF_FROM and count % ALIGNMENT == 0 and count + 1 in at
        ]
        ratios += [at[count + 1] / at[count] for count in starts]
    return float(np.median(ratios)) if ratios else 1.0


def _neighbours(axis: NDArray[np.float64], value: int) -> list[tuple[float, float]]:
    """Points of an axis and their weights for a value."""
    if value in axis or value < axis[0]:
        return [(float(max(value, axis[0])), 1.0)]
    if value > axis[-1]:
        return [(float(axis[-1]), value / float(axis[-1]))]
    above = int(np.searchsorted(axis, value))
    low, high = float(axis[above - 1]), float(axis[above])
    share = (value - low) / (high - low)
    return [(low, 1 - share), (high, share)]
