"""From rows of operators to a profile's curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from calibrate.assumed import all_reduce
from calibrate.curves import curve_of, reaching
from calibrate.draft import Operator
from calibrate.microbenchmark.axes import ALIGNMENT
from calibrate.microbenchmark.case import COMMUNICATION, OPERATOR
from calibrate.microbenchmark.plan import TILED
from calibrate.microbenchmark.rank import OperatorKind, Rank
from calibrate.microbenchmark.row import Row
from capsim.catalog import Gpu
from capsim.errors import BadInput, Fault

CLIFF = 1.1
"""Median ratio of an unaligned count's seconds to those of the next aligned one above it, from which both are kept
apart. Without a cliff it is 1 at most, for less work."""
CLIFF_FROM = 64  # tokens; below, both lie in one tile


def operators_of(
    source: str, rows: Iterable[Row], rank: Rank, layers: int
) -> tuple[tuple[Operator, ...], list[str]]:
    """Every operator of a step but attention and communication, and notes.

    Raises:
        BadInput: an operator was measured at fewer than two counts.
    """
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.case.kind == OPERATOR and row.sample is not None:
            found.setdefault(row.case.name, {})[row.case.count] = row.seconds
    cliffs = _median_cliff([found[name] for name in TILED if name in found]) > CLIFF
    operators, moves = [], {}
    for kind in rank.operators(layers):
        operator, moves[kind.name] = _operator(source, kind, found.get(kind.name, {}), cliffs)
        operators.append(reaching(operator))
    notes = [_move_note(moves)]
    if cliffs:
        notes.append(
            f"Matrix products have alignment cliffs: multiples of {ALIGNMENT} tokens and other counts are apart."
        )
    return tuple(operators), notes


def communication_of(
    source: str, rows: Sequence[Row], rank: Rank, layers: int, gpu: Gpu | None, tokens: int
) -> tuple[tuple[Operator, ...], list[str]]:
    """The all-reduce of several ranks, measured or assumed, and the note that says so; nothing for one rank.

    Raises:
        BadInput: it was not measured, and no data sheet of the GPU is known.
    """
    if rank.ranks == 1:
        return (), []
    found = {
        row.case.count: row.seconds
        for row in rows
        if row.case.kind == COMMUNICATION and row.sample is not None
    }
    if len(found) > 1:
        curve, _ = curve_of(source, "all_reduce", list(found), list(found.values()))
        operator = Operator("all_reduce", "tokens", 2 * layers, "measured", curve)
        return (reaching(operator),), ["all_reduce was measured with torch.distributed, outside CUDA graphs."]
    if gpu is None:
        what = "all_reduce was not measured, and this machine's links are in no data sheet of the catalog"
        raise BadInput(Fault(source, what, "", "--gpu NAME of the catalog"))
    operator, note = all_reduce(rank.model, gpu, rank.ranks, tokens)
    return (Operator(operator.name, operator.per, 2 * layers, operator.tag, operator.curve),), [note]


def _operator(
    source: str, kind: OperatorKind, seconds: Mapping[int, float], cliffs: bool
) -> tuple[Operator, float]:
    even = {count: value for count, value in seconds.items() if count % ALIGNMENT == 0}
    odd = {count: value for count, value in seconds.items() if count % ALIGNMENT}
    if cliffs and kind.name in TILED and min(len(even), len(odd)) > 1:
        curve, move = curve_of(source, kind.name, list(odd), list(odd.values()))
        aligned, more = curve_of(source, kind.name, list(even), list(even.values()))
        return Operator(kind.name, kind.per, kind.times, "measured", curve, aligned, ALIGNMENT), max(
            move, more
        )
    curve, move = curve_of(source, kind.name, list(seconds), list(seconds.values()))
    return Operator(kind.name, kind.per, kind.times, "measured", curve), move


def _median_cliff(curves: Iterable[Mapping[int, float]]) -> float:
    ratios = []
    for seconds in curves:
        for count in seconds:
            above = [other for other in seconds if other > count and other % ALIGNMENT == 0]
            if count >= CLIFF_FROM and count % ALIGNMENT and above:
                ratios.append(seconds[count] / seconds[min(above)])
    return median(ratios) if ratios else 1.0


def _move_note(moves: Mapping[str, float]) -> str:
    name = max(moves, key=lambda each: moves[each])
    below = sum(move <= 0.05 for move in moves.values())
    return (
        f"Operators were made not to fall with the count: {name} moved farthest, by {100 * moves[name]:.0f} % at one "
        f"count; {below} of {len(moves)} moved by 5 % at most."
    )
