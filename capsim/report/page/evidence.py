"""Sections that a plan's page and a run's page share: demand, memory, the course of one run, the scenario."""

from __future__ import annotations

import json
import math

from capsim.report import Json
from capsim.report.evidence import SEQUENCES, target
from capsim.report.named import named
from capsim.report.number import INFINITE, NOTHING, count, duration, milliseconds, number, share
from capsim.report.page.block import Block, Cell, Charts, Listing, Section, Table, Terms
from capsim.report.page.course_charts import distribution_charts, time_charts
from capsim.report.page.parts_chart import parts_of_ttft
from capsim.report.page.tag import DERIVED, STATED, Tag, tag
from capsim.units import format_size

GIB = 2**30
GROUP = 10
"""Bins of the timeline that one row of its table stands for."""
METRICS = ("ttft", "tpot", "itl", "e2e")
FIGURES = ("mean", "p50", "p95", "p99")


def subject(result: Json) -> str:
    """Model, GPU and engine on one line."""
    configuration, same = result["configuration"], result["comparable"]
    engine = configuration["engine"]
    gpus = math.prod(engine.get(f"{kind}_parallel_size", 1) for kind in ("tensor", "pipeline", "data"))
    return f"{same['model']} ({same['dtype']}) on {gpus} x {named(configuration, 'gpu')} a replica, {same['engine']}"


def identity(result: Json) -> tuple[tuple[str, str], ...]:
    """What the result is of, and what wrote it."""
    schema = f"{result['schema']} {result['schema_version']}"
    known = [("capsim", result["capsim_version"]), ("schema", schema)]
    known += [("fingerprint", result["fingerprint"])] if "fingerprint" in result else []
    return (*known, ("seed", str(result["seed"])))


def course_sections(course: Json | None, gates: list[Json], steps: Tag) -> tuple[Section, ...]:
    """One run over time, its latencies and the parts of its TTFT; none without its course."""
    if course is None:
        return ()
    load = f"{count(course['replicas'])} replica{'' if course['replicas'] == 1 else 's'}"
    rate = f" at {number(course['rate'])} requests/s" if course["rate"] else ""
    brief = f"one run of {load}{rate}, {count(course['requests'])} requests"
    sections = []
    over_time = time_charts(course)
    if over_time:
        charts = Charts(over_time, steps, table=_time_table(course, steps))
        sections.append(Section("KV cache, batch and queue over time", (charts,), brief))
    curves = distribution_charts(course, gates)
    if curves:
        charts = Charts(curves, steps, table=_distribution_table(course, steps))
        sections.append(
            Section("Latency distributions", (charts,), "TTFT, TPOT, ITL and E2E of the same run")
        )
    if course["ttft_bands"]:
        parts = parts_of_ttft(course["ttft_bands"], steps)
        sections.append(
            Section("Parts of TTFT", (parts,), "where the time to the first token goes, same run")
        )
    return tuple(sections)


def demand_section(demand: Json) -> Section:
    """The demand: target, arrivals, source, lengths."""
    known = tag("measured", "as recorded in the trace") if demand["kind"] == "trace" else STATED
    pairs = [("target", Cell(target(demand), demand["target_rate"], tag=STATED))]
    if demand["kind"] == "trace":
        recorded = f"{count(demand['requests'])} requests in {duration(demand['duration'])}, "
        pairs.append((f"trace {demand['name']}", Cell(f"{recorded}{number(demand['rate'])} requests/s")))
    windows = ", ".join(
        f"{window} {number(value)}" for window, value in demand["dispersion_of_counts"].items()
    )
    gaps = f"coefficient of variation of gaps {number(demand['gap_cv'])}; variance over mean of counts: {windows}"
    reuse = demand["prefix_reuse"]
    pairs += [
        ("burstiness", Cell(gaps)),
        ("prefix reuse", Cell(reuse) if isinstance(reuse, str) else Cell(share(reuse), reuse)),
        ("source", Cell(demand["source"])),
    ]
    pairs += [(name, Cell(demand[name])) for name in ("sha256", "attribution") if demand.get(name)]
    pairs += [("note", Cell(note)) for note in demand.get("notes", [])]
    figures = ("mean", "p50", "p95", "p99")
    rows = tuple(
        (Cell(name), *(Cell(number(demand[name][figure]), demand[name][figure]) for figure in figures))
        for name in ("prompt", "output")
    )
    lengths = Table(("tokens", *figures), "lrrrr", rows, known)
    return Section("Demand", (Terms(tuple(pairs), known), lengths), target(demand), STATED)


def memory_section(memory: Json) -> Section:
    """The memory of one GPU line by line, and what sequences cost in the KV pool."""
    lines = tuple(
        (
            Cell(line["name"]),
            Cell(f"{line['bytes'] / GIB:,.2f}", line["bytes"], tag=tag(line["tag"], line["note"])),
            Cell("", tag=tag(line["tag"], line["note"])),
            Cell(line["note"]),
        )
        for line in memory["lines"]
    )
    sequences = tuple(
        (
            Cell(SEQUENCES.get(sequence["name"], sequence["name"])),
            Cell(count(sequence["tokens"]), sequence["tokens"]),
            Cell(count(sequence["blocks"]), sequence["blocks"]),
            Cell(format_size(sequence["bytes"]), sequence["bytes"]),
            Cell(count(sequence["concurrency"]), sequence["concurrency"]),
            Cell(count(min(sequence["concurrency"], memory["max_num_seqs"]))),
        )
        for sequence in memory["sequences"]
    )
    header = ("sequence", "tokens", "blocks", "KV cache", "fit at once", "run at once")
    pool = f"{count(memory['usable_blocks'])} blocks of {memory['block_size']} tokens hold {count(memory['kv_tokens'])}"
    blocks: tuple[Block, ...] = (
        Table(("part", "GiB", "tag", "note"), "lrll", lines, DERIVED),
        Table(header, "lrrrrr", sequences, DERIVED, caption="What sequences cost in it"),
    )
    return Section("Memory of one GPU", blocks, pool, DERIVED)


def scenario_section(result: Json) -> Section:
    """The scenario with every default filled in, and what must be equal to compare."""
    text = json.dumps(result["configuration"], indent=2)
    blocks: list[Block] = [Listing(text, STATED)]
    if "comparable" in result:
        same = "Results compare only where this is equal."
        rows = tuple((name, Cell(_plain(value))) for name, value in result["comparable"].items())
        blocks = [Terms(rows, STATED), *blocks]
        return Section("Scenario as resolved", tuple(blocks), same)
    return Section("Scenario as resolved", tuple(blocks), "every default filled in")


def absent(error_rate: float | None) -> str:
    """A percentile that is null: infinite where requests failed, not there where nothing has the metric."""
    return INFINITE if error_rate else NOTHING


def latency(metric: str, found: Json, absent: str) -> tuple[Cell, ...]:
    """A row's cells of one metric: its name, `FIGURES` in milliseconds, and how many samples they are of."""
    figures = (Cell(milliseconds(found[name], absent), found[name]) for name in FIGURES)
    return (Cell(metric.upper()), *figures, Cell(count(found["count"]), found["count"]))


def priority_section(classes: list[Json], steps: Tag) -> Section | None:
    """What users of each priority saw; none where all requests have the same."""
    if not classes:
        return None
    # A figure of samples that is null is infinite, as requests failed; without samples nothing has the metric.
    rows = tuple(
        (
            Cell(f"priority {each['priority']}"),
            *latency(metric, each[metric], INFINITE if each[metric]["count"] else NOTHING),
        )
        for each in classes
        for metric in ("ttft", "tpot", "e2e")
    )
    table = Table(("ms", "", *FIGURES, "samples"), "llrrrrr", rows, steps)
    return Section("Latency of each priority", (table,), f"{count(len(classes))} priorities, of one run")


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _time_table(course: Json, steps: Tag) -> Table:
    """The timeline in rows of `GROUP` bins: means of means, most of maxima."""
    timeline = course["timeline"]
    bins, width = len(timeline["arrivals"]), timeline["width"]
    rows = []
    for start in range(0, bins, GROUP):
        stop = min(start + GROUP, bins)
        figures = [
            _over(timeline[name][start:stop], name)
            for name in (
                "arrivals",
                "completions",
                "blocks_mean",
                "blocks_max",
                "running_mean",
                "running_max",
                "waiting_mean",
                "waiting_max",
            )
        ]
        begins = width * start
        rows.append((Cell(number(begins), begins), *(Cell(number(value), value) for value in figures)))
    header = (
        "from, s",
        "arrivals/s",
        "completed/s",
        "KV blocks",
        "most",
        "batch",
        "most",
        "queue",
        "most",
    )
    return Table(header, "r" * len(header), tuple(rows), steps)


def _over(values: list[float], name: str) -> float:
    return max(values) if name.endswith("_max") else math.fsum(values) / len(values)


def _distribution_table(course: Json, steps: Tag) -> Table:
    shown = (50, 90, 95, 99, 99.9)
    places = [course["percentiles"].index(percent) for percent in shown]
    rows = []
    for metric in METRICS:
        values = [course["distributions"][metric][place] for place in places]
        rows.append((Cell(metric.upper()), *(Cell(milliseconds(value, INFINITE), value) for value in values)))
    header = ("ms", *(f"p{percent:g}" for percent in shown))
    return Table(header, "l" + "r" * len(shown), tuple(rows), steps)
