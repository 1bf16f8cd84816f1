"""A sweep in print: a row a point, and which of them pass."""

from __future__ import annotations

from itertools import groupby

from capsim.report import Json
from capsim.report.gates import limit
from capsim.report.number import INFINITE, NOTHING, milliseconds, number, share
from capsim.report.table import paragraph, table

LATENCIES = (("TTFT", "ttft"), ("TPOT", "tpot"))
PERCENTILES = ("p50", "p95", "p99")
VERDICTS = ("pass", "undecided", "fail", "overloaded", "does not fit")


def sweep_text(result: Json) -> str:
    """Which points pass, and the figures of each; lines of at most 100 columns with one or two axes.

    Args:
        result: as `capsim.plan.sweep_result.sweep_result` gives it.
    """
    lines = [
        result["scenario"],
        *paragraph(_asked(result)),
        "",
        *(line for sentence in _standings(result) for line in paragraph(sentence)),
        "",
        *_table(result),
        *_notes(result),
    ]
    return "\n".join(lines)


def standing(point: Json) -> str:
    """A point's verdict, or why there is none: one of `VERDICTS`."""
    judged = point["point"]
    if judged is None:
        return "does not fit"
    return "overloaded" if judged["overloaded"] else str(judged["verdict"])


def _asked(result: Json) -> str:
    over = " and ".join(axis["name"] for axis in result["over"])
    judged = [point for point in result["points"] if point["point"]]
    sizes = {point["replicas"] for point in judged}
    fleet = f" on {_fleet(sizes.pop())}" if len(sizes) == 1 else ""
    gates = (
        ", ".join(f"{gate['name']} {limit(gate)}" for gate in judged[0]["point"]["gates"]) if judged else ""
    )
    names = {axis["name"] for axis in result["over"]}
    loads = {"rate", "concurrency"} & names
    load = (
        "" if loads else f", at {number(judged[0]['point']['rate'])} requests/s" if _one_rate(judged) else ""
    )
    return f"Over {over}{fleet}{load}. Objectives: {gates}."


def _one_rate(judged: list[Json]) -> bool:
    return len({point["point"]["rate"] for point in judged}) == 1


def _fleet(replicas: int) -> str:
    return f"{replicas} replica{'' if replicas == 1 else 's'}"


def _standings(result: Json) -> list[str]:
    """A sentence a standing, with the values that have it."""
    sentences = []
    for name in VERDICTS:
        runs = [_run(list(points)) for has, points in groupby(result["points"], standing) if has == name]
        if runs:
            sentences.append(f"{name[:1].upper()}{name[1:]}: {'; '.join(runs)}.")
    return sentences


def _run(points: list[Json]) -> str:
    """Values of neighbours; of several on one axis, the first and the last."""
    values = [named(point["values"]) for point in points]
    if len(values) > 2 and len(points[0]["values"]) == 1:
        return f"{values[0]} to {values[-1]}"
    return "; ".join(values)


def named(values: Json) -> str:
    """Values of a point in words; of a single axis, the value alone."""
    if len(values) == 1:
        return str(next(iter(values.values())))
    return ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in values.items())


def _table(result: Json) -> list[str]:
    names = [axis["name"] for axis in result["over"]]
    header = [_title(name) for name in names]
    header += ["verdict", "inside\nall", "goodput\nper s"]
    header += [f"{title}\n{name}" for title, _ in LATENCIES for name in PERCENTILES]
    header += ["running", "KV\nmost"]
    align = "r" * len(names) + "lrr" + "r" * (len(LATENCIES) * len(PERCENTILES)) + "rr"
    return table(header, align, [_row(names, point) for point in result["points"]])


def _title(name: str) -> str:
    """The last key, in two lines where it is long."""
    key = name.rpartition(".")[2]
    words = key.split("_")
    half = (len(words) + 1) // 2
    return key if len(key) <= 11 else "_".join(words[:half]) + "_\n" + "_".join(words[half:])


def _row(names: list[str], point: Json) -> list[str]:
    cells = [point["values"][name] for name in names] + [standing(point)]
    judged = point["point"]
    if judged is None:
        return cells + [NOTHING] * (4 + len(LATENCIES) * len(PERCENTILES))
    absent = INFINITE if judged["error_rate"] else NOTHING
    cells += [share(judged["attainment"][0]), number(judged["goodput"][0], zeros=True)]
    cells += [
        milliseconds(judged[metric][name][0], absent) for _, metric in LATENCIES for name in PERCENTILES
    ]
    return [*cells, number(judged["running"]), share(point["pool_share"])]


def _notes(result: Json) -> list[str]:
    points = result["points"]
    lines = paragraph(
        'TTFT and TPOT in ms, means over runs. "inside all" is the share of requests inside every latency gate at '
        'once; "KV most" is the most of a replica\'s KV cache that was held.'
    )
    if any(standing(point) == "overloaded" for point in points):
        lines += paragraph(
            '"overloaded" fails: its percentiles depend on how long the run was, and stand for no steady state.'
        )
    for point in points:
        if point["does_not_fit"]:
            lines += paragraph(f"{named(point['values'])} does not fit: {point['does_not_fit']}.")
    costs = list(dict.fromkeys(point["step_cost"] for point in points if point["point"]))
    return lines + [line for cost in costs for line in paragraph(f"Step cost: {cost}.")]
