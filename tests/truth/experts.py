"""Kernels of experts against the roofline: ``python -m tests.truth.experts [SYSTEMS]``.

NVIDIA's package ``aiconfigurator-core`` (Apache-2.0) has tables of fused experts: each row the seconds of the chosen
experts of one layer, as an engine calls them. The package need not be installed: SYSTEMS can name its folder
``aiconfigurator_core/systems/data``. Reading it needs pyarrow.

The factors are fitted to tables of one routing, a power law of 1.01 as the shipped profiles have it, with experts
split over ranks or not at all. Other routings and experts that are dealt out whole are unseen.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrate.grouped import DTYPES, FACTORS, ExpertTimes, held_out, quantiles
from calibrate.importers.aiconfigurator.parquet_source import ParquetSource
from capsim.catalog import load_gpu
from capsim.cost import Efficiency
from capsim.cost.efficiency import EXPERT_SPREAD
from tests.truth.table import Table

SYSTEMS = {"h100_sxm": "h100-sxm", "h200_sxm": "h200"}
"""Catalog names of the systems whose tables of experts are in the package."""
ENGINES = ("vllm", "sglang", "trtllm")
RANKS = 8
"""Most ranks: of one machine."""
ROUTING = "power_law_1.01"
BANDS = {
    "1 to 7 tokens": (1, 8),
    "8 to 127": (8, 128),
    "128 to 1,023": (128, 1024),
    "1,024 and more": (1024, 1 << 30),
}
USED = {name: getattr(Efficiency(), name) for name in FACTORS}
Labels = Callable[[ExpertTimes], NDArray[np.str_]]


def times(systems: Path) -> ExpertTimes:
    """All tables of experts of GPUs of the catalog."""
    return ExpertTimes.joined(list(_parts(systems)))


def _parts(systems: Path) -> Iterator[ExpertTimes]:
    for system, name in SYSTEMS.items():
        for engine in ENGINES:
            for file in sorted((systems / system / "moe" / engine).glob("*/moe_perf.parquet")):
                version = file.parent.name
                source, gpu = ParquetSource(systems / system, engine, version), load_gpu(name)
                for dtype in DTYPES:
                    columns = source.experts(dtype)
                    kept = columns["tp"] * columns["ep"] <= RANKS
                    part = ExpertTimes.of(
                        {name: column[kept] for name, column in columns.items()},
                        gpu,
                        f"{engine} {version}",
                        dtype,
                    )
                    if len(part.seconds):
                        yield part


def fitted(known: ExpertTimes) -> Table:
    """The factors, as fitted and as used."""
    seen = _seen(known)
    found = seen.fitted()
    rows = tuple((name, _value(found[name]), _value(USED[name])) for name in FACTORS)
    said = f"{len(seen.seconds):,} times of {len(np.unique(seen.kernel))} tables, {len(np.unique(seen.model))} shapes."
    return Table("Factors of experts", (said,), ("factor", "fitted", "used"), rows)


def said(known: ExpertTimes) -> Table:
    """What results say of experts: how long measured kernels take, as multiples of what is computed."""
    rows = []
    for (bits, dealt), spread in EXPERT_SPREAD.items():
        own = (known.routing == ROUTING) & (_bits(known) == f"{bits} bits") & ((known.ranks > 1) == dealt)
        low, middle, high = quantiles(1 / (1 + known.where(own).errors(USED)))
        names = (f"{bits} bits", "dealt out to ranks" if dealt else "on all ranks")
        rows.append(
            (*names, *(f"{each:.2f}" for each in (low, middle, high)), f"{spread.low:g} to {spread.high:g}")
        )
    columns = ("weights", "experts", "10 %", "median", "90 %", "said")
    return Table("Measured over computed", (), columns, tuple(rows), labels=2)


def by(known: ExpertTimes, title: str, labels: Labels) -> Table:
    """Errors of the factors in use, by label and tokens."""
    named = labels(known)
    rows = []
    for label in np.unique(named).tolist():
        own = known.where(named == label)
        errors = own.errors(USED)
        inside = [(own.tokens >= low) & (own.tokens < high) for low, high in BANDS.values()]
        spreads = [_spread(errors[band]) for band in inside]
        rows.append((label, f"{len(errors):,}", *spreads, _spread(errors)))
    told = (
        "Signed error of the roofline, (computed - measured) / measured: median (tenth to ninetieth percentile).",
    )
    return Table(title, told, ("", "n", *BANDS, "all"), tuple(rows))


def unseen(known: ExpertTimes) -> Table:
    """Errors of factors that were fitted without what they are judged by."""
    seen = _seen(known)
    whole: dict[str, Labels] = {"GPU": _part(0), "engine": _part(1), "shape": lambda each: each.model}
    rows = []
    for what, labels in whole.items():
        for label, errors in held_out(seen, labels(seen)):
            rows.append(
                (what, label, f"{len(errors):,}", _spread(errors), f"{100 * np.median(np.abs(errors)):.0f}%")
            )
    return Table("Left out in turn", (), ("left out", "", "n", "signed", "size"), tuple(rows), labels=2)


def tables(known: ExpertTimes) -> Iterator[Table]:
    """Everything that is printed."""
    seen = _seen(known)
    yield fitted(known)
    yield said(known)
    yield by(seen, "By weights", _bits)
    yield by(seen, "By table", lambda each: each.kernel)
    yield by(known.where(known.ranks == 1), "By routing, experts not dealt out", _with_routing)
    yield by(known.where(known.routing == ROUTING), "By ranks to which experts are dealt out", _with_ranks)
    yield unseen(known)


def _seen(known: ExpertTimes) -> ExpertTimes:
    return known.where((known.routing == ROUTING) & (known.ranks == 1))


def _part(place: int) -> Labels:
    return lambda each: np.array([name.split()[place] for name in each.kernel.tolist()], dtype=np.str_)


def _bits(each: ExpertTimes) -> NDArray[np.str_]:
    bits = {"bfloat16": "16 bits", "fp8": "8 bits", "int4": "4 bits"}
    return np.array([bits[DTYPES[name.split()[-1]]] for name in each.kernel.tolist()], dtype=np.str_)


def _with_routing(each: ExpertTimes) -> NDArray[np.str_]:
    return np.char.add(np.char.add(_bits(each), ", "), each.routing)


def _with_ranks(each: ExpertTimes) -> NDArray[np.str_]:
    return np.char.add(np.char.add(_bits(each), ", "), each.ranks.astype(np.str_))


def _spread(errors: NDArray[np.float64]) -> str:
    if not len(errors):
        return ""
    low, middle, high = quantiles(errors)
    return f"{100 * middle:+.0f}% ({100 * low:+.0f} to {100 * high:+.0f})"


def _value(value: float) -> str:
    return f"{1e6 * value:.0f} us" if value < 0.01 else f"{value:.2f}"


def _installed() -> Path:
    return Path(str(resources.files("aiconfigurator_core"))) / "systems" / "data"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = ArgumentParser("python -m tests.truth.experts")
    parser.add_argument("systems", metavar="SYSTEMS", type=Path, nargs="?", help="the package's systems/data")
    folder = parser.parse_args(arguments).systems or _installed()
    for table in tables(times(folder)):
        print("", *table.text(), sep="\n")


if __name__ == "__main__":
    main()
