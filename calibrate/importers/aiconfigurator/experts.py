"""A layer's experts: the source's table of them, and the operators that stand where a dense layer has its MLP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate.draft import Curve, Operator
from calibrate.importers import ImportRequest
from calibrate.importers.aiconfigurator.ceilings import Ceilings, Journal
from calibrate.importers.aiconfigurator.gemm import MOST, GemmTable, gemm_operators
from calibrate.table import closest, pivot
from capsim.catalog import Model
from capsim.catalog.model import DTYPE_BYTES, Experts
from capsim.errors import BadInput, Fault

ROUTINGS = ("power_law_1.01", "balanced")
"""Routings to take where none is asked for, best first: served models choose experts unevenly."""

_SHAPE = ("hidden", "inter", "topk", "experts")
_SPLIT = ("tp", "ep")


@dataclass(frozen=True)
class ExpertSplit:
    """How one layer's experts lie on the ranks.

    Attributes:
        ranks: GPUs that share the layer.
        holders: ranks that whole experts are dealt out to; 1: each expert is split over all ranks.
    """

    ranks: int
    holders: int

    @classmethod
    def of(cls, request: ImportRequest) -> ExpertSplit:
        """As the option ``expert_parallel_size`` says; 1 where it is not given.

        Raises:
            BadInput: it is neither 1 nor the number of ranks.
        """
        ranks = request.tensor_parallel_size
        stated = request.options.get("expert_parallel_size", "1")
        if stated not in ("1", str(ranks)):
            what = f"expert_parallel_size={stated}"
            raise BadInput(Fault("--option", what, "", f"1 or the {ranks} tensor-parallel ranks"))
        return cls(ranks, int(stated))


class ExpertTable:
    """Seconds of the fused experts of one layer, on the busiest rank.

    Args:
        columns: ``hidden``, ``inter`` (columns of a whole expert), ``topk``, ``experts``, ``tp``, ``ep``, ``tokens``,
            ``seconds`` and ``routing`` (text), of one dtype.
        dtype: of the weights.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]], dtype: str) -> None:
        self._columns = columns
        self._dtype = dtype

    def line(
        self, model: Model, experts: Experts, split: ExpertSplit, routing: str | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], str, list[str]]:
        """Token counts and seconds of a model's experts, their routing, and the others that were measured.

        Raises:
            BadInput: these experts, this split or this routing was not measured: with what was.
        """
        shape = (model.hidden_size, experts.intermediate_size, experts.per_token, experts.count)
        rows = self._where(
            np.ones(len(self._columns["seconds"]), dtype=np.bool_), dict(zip(_SHAPE, shape, strict=True))
        )
        rows = self._where(rows, {"tp": split.ranks // split.holders, "ep": split.holders})
        measured = sorted(set(self._columns["routing"][rows].tolist()))
        wanted = next((each for each in ROUTINGS if each in measured), "") if routing is None else routing
        if wanted not in measured:
            what = f"routing={wanted} was not measured" if wanted else "no routing is stated"
            near = closest(wanted, measured)
            known = f"routing={' or '.join(measured)}"
            raise BadInput(Fault("--option", what, "", known, near and f"routing={near}"))
        rows &= self._columns["routing"] == wanted
        axes, seconds = pivot({"tokens": self._columns["tokens"][rows]}, self._columns["seconds"][rows])
        if len(seconds) < 2:
            raise BadInput(f"the table of {self._dtype} experts has one count of tokens for {model.name}")
        others = [each for each in measured if each != wanted]
        return np.asarray(axes["tokens"]), seconds, wanted, others

    def best_rate(self) -> float:
        """FLOPs per second of the fastest row, of a rank with its share of the tokens."""
        columns = self._columns
        rows = columns["tokens"] * columns["topk"] / columns["ep"]
        flops = 2 * rows * 3 * columns["hidden"] * columns["inter"] / columns["tp"]
        return float((flops / columns["seconds"]).max())

    def _where(self, rows: NDArray[np.bool_], wanted: Mapping[str, int]) -> NDArray[np.bool_]:
        """Those of the rows that have these values; refused with the values that there are if none has."""
        asked = np.stack([self._columns[name] == value for name, value in wanted.items()])
        kept: NDArray[np.bool_] = rows & asked.all(axis=0)
        if kept.any():
            return kept
        found = np.unique(np.stack([self._columns[name][rows] for name in wanted], axis=1), axis=0)
        named = "; ".join(_named(dict(zip(wanted, each, strict=True))) for each in found.astype(int).tolist())
        raise BadInput(
            Fault(
                "the table of experts",
                f"has no {self._dtype} row with {_named(wanted)}",
                "",
                f"one of {named}" if named else f"any row of {self._dtype}, there is none",
            )
        )


def expert_operators(
    columns: Mapping[str, NDArray[Any]],
    wide: GemmTable,
    request: ImportRequest,
    experts: Experts,
    ceilings: Ceilings,
    journal: Journal,
) -> tuple[list[Operator], str]:
    """The router and the experts that it chooses, and how it chose.

    Args:
        columns: of the experts, see `ExpertTable`.
        wide: linear layers of 16 bits; published checkpoints keep the router in them.
        request: model, precision, ranks, routing.
        experts: of the model.
        ceilings: of the GPU.
        journal: what is done is written here.
    """
    model, split = request.model, ExpertSplit.of(request)
    table = ExpertTable(columns, request.dtype)
    counts, seconds, routing, others = table.line(model, experts, split, request.options.get("routing"))
    kept = counts <= MOST["tokens"]
    counts, seconds = counts[kept], seconds[kept]
    ceilings.check_unit(
        f"{request.dtype} experts",
        table.best_rate(),
        ceilings.gpu.dense_flops.get(request.dtype, ceilings.flops["bfloat16"]),
    )
    least = _least(model, experts, split, request.dtype, ceilings, counts)
    curve = Curve.of(counts, journal.settled("moe", seconds, least))
    routers = {"router": (experts.count, model.hidden_size)}
    operators = gemm_operators(wide, routers, {"router": model.expert_layers}, ceilings, journal)
    operators.append(Operator("moe", "tokens", model.expert_layers, "measured", curve))
    journal.sentences += _sentences(routing, others, split)
    return operators, routing


def _least(
    model: Model,
    experts: Experts,
    split: ExpertSplit,
    dtype: str,
    ceilings: Ceilings,
    counts: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Seconds that the busiest rank needs at least: its share of one token's experts to read, and of the arithmetic."""
    columns = experts.intermediate_size / (split.ranks // split.holders)
    expert = 3 * model.hidden_size * columns
    reading = -(-experts.per_token // split.holders) * expert * DTYPE_BYTES[dtype] / ceilings.bandwidth
    flops = 2 * counts * experts.per_token / split.holders * expert
    least: NDArray[np.float64] = np.maximum(reading, flops / ceilings.arithmetic(dtype))
    return least


def _sentences(routing: str, others: list[str], split: ExpertSplit) -> list[str]:
    lie = ", each expert split over all ranks" if split.ranks > 1 else ""
    if split.holders > 1:
        lie = ", whole experts dealt out to the ranks, of which the busiest was timed"
    measured = f" (measured too: {', '.join(others)})" if others else ""
    drawn = "; the loads were drawn anew for each count of tokens, and scatter"
    drawn = "" if routing == "balanced" else drawn
    return [
        f"moe is the source's fused experts of a layer{lie}; tokens choose experts by its routing {routing}{measured}, "
        f"whose relation to real traffic it does not record{drawn}",
        "router is its product alone; the choice of the experts has no time of its own in the source",
    ]


def _named(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
