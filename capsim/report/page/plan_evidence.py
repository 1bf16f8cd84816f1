"""What a plan rests on: the knee, the sweep with its verdicts, fleets and drills, and what one request alone sees."""

from __future__ import annotations

from capsim.report import Json
from capsim.report.confidence import OUTSIDE
from capsim.report.gates import VERDICTS
from capsim.report.number import NOTHING, count, duration, milliseconds, number, share
from capsim.report.page.block import Cell, Charts, Section, Table
from capsim.report.page.evidence import absent
from capsim.report.page.gate_table import verdict
from capsim.report.page.knee_charts import knee_charts
from capsim.report.page.tag import Tag, simulated, tag

PERCENTILES = ("p50", "p95", "p99")


def knee_section(result: Json) -> Section:
    """The sweep as charts."""
    point, cost = result["operating_point"], result["confidence"]["step_cost"]
    outside = max(tested["steps_outside"] or 0.0 for tested in result["sweep"])
    brief = (
        f"one replica from near idle to overload; {share(point['share_of_saturated'])} of the saturated rate at the "
        "operating point"
    )
    return Section("Knee", (Charts(knee_charts(result), simulated(cost, outside)),), brief)


def sweep_section(result: Json) -> Section:
    """The sweep as a table: a row a rate, with its verdict."""
    sweep, point = result["sweep"], result["operating_point"]
    header: tuple[str, ...] = ("offered/s", "verdict", "inside all", "goodput/s")
    header += tuple(f"{metric.upper()} {name}" for metric in ("ttft", "tpot") for name in PERCENTILES)
    header += ("batch", "outside")
    rows = tuple(_rate(tested, result["confidence"]["step_cost"]) for tested in sweep)
    notes = [
        "A rate is of one replica; TTFT and TPOT are in ms; inside all is the share of requests inside every latency "
        "gate at once; outside is the share of steps outside the measured range. The shaded row is the operating point."
    ]
    if any(tested["overloaded"] for tested in sweep):
        notes.append(
            "Overloaded fails: its percentiles depend on how long the run was, and stand for no steady state."
        )
    marked = next(i for i, tested in enumerate(sweep) if tested["rate"] == point["rate"])
    words = [_word(tested) for tested in sweep]
    brief = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    known = simulated(
        result["confidence"]["step_cost"], max(tested["steps_outside"] or 0.0 for tested in sweep)
    )
    table = Table(header, "rl" + "r" * (len(header) - 2), rows, known, notes=tuple(notes), marked=marked)
    return Section("Sweep", (table,), f"{count(len(sweep))} rates: {brief}")


def fleets_section(result: Json, steps: Tag) -> Section:
    """Every fleet tried, under each load and drill."""
    fleets, replicas = result["fleets"], result["answer"]["replicas"]
    rows: list[tuple[Cell, ...]] = []
    marked = None
    for fleet in fleets:
        for trial in fleet["trials"]:
            marked = len(rows) if fleet["replicas"] == replicas and marked is None else marked
            rows.append(_trial(fleet["replicas"], trial))
    header = ("replicas", "trial", "load", "verdict", "runs", "inside all", "what does not pass")
    sizes = ", ".join(f"{count(fleet['replicas'])}: {fleet['verdict']}" for fleet in fleets)
    table = Table(header, "rlllrrl", tuple(rows), steps, marked=marked)
    return Section("Fleets and drills", (table,), sizes)


def slowdowns_section(slowdowns: list[Json], steps: Tag) -> Section | None:
    """The chosen fleet with longer steps."""
    rows = tuple(
        (
            Cell(f"+{number(100 * (slow['factor'] - 1))}%", slow["factor"]),
            Cell(trial["name"].replace("_", " ")),
            Cell(trial["load"]),
            verdict(trial["verdict"]),
            Cell(trial["reason"] or NOTHING),
        )
        for slow in slowdowns
        for trial in slow["trials"]
    )
    if not rows:
        return None
    table = Table(("every step", "trial", "load", "verdict", "what does not pass"), "rllll", rows, steps)
    brief = ", ".join(
        f"+{number(100 * (slow['factor'] - 1))}% {VERDICTS[slow['verdict']]}" for slow in slowdowns
    )
    return Section("If every step took longer", (table,), brief)


def replays_section(replays: list[Json], steps: Tag) -> Section | None:
    """The recorded demand against the chosen fleet."""
    if not replays:
        return None
    rows = tuple(
        (
            Cell(replay["kind"]),
            Cell(replay["load"]),
            Cell(duration(replay["duration"]), replay["duration"]),
            Cell(", ".join(gate["name"] for gate in replay["gates"] if not gate["passed"]) or NOTHING),
            verdict("pass" if replay["passed"] else "fail"),
        )
        for replay in replays
    )
    table = Table(("replay", "load", "lasts", "missed", "verdict"), "llrll", rows, steps)
    passed = sum(replay["passed"] for replay in replays)
    return Section(
        "Replays of the trace", (table,), f"{count(passed)} of {count(len(replays))} pass, one run each"
    )


def baseline_section(baseline: list[Json], steps: Tag) -> Section | None:
    """One request alone on a replica."""
    if not baseline:
        return None
    rows = tuple(
        (
            Cell(alone["lengths"]),
            Cell(count(alone["prompt"]), alone["prompt"]),
            Cell(count(alone["output"]), alone["output"]),
            *(
                Cell(duration(alone[metric]), alone[metric])
                for metric in ("ttft", "engine_ttft", "tpot", "e2e")
            ),
        )
        for alone in baseline
    )
    header = ("lengths", "prompt tokens", "output tokens", "TTFT", "TTFT in the engine", "TPOT", "E2E")
    median = baseline[0]
    brief = f"TTFT {duration(median['ttft'])} at {median['lengths']} lengths, the best a user can see"
    return Section("One request alone", (Table(header, "lrrrrrr", rows, steps),), brief)


def rates_section(result: Json, steps: Tag) -> Section:
    """The bound by hand beside what a replica serves when never idle, and inside the objectives."""
    bound, saturated, point = result["bound"], result["saturated_rate"], result["operating_point"]
    runs = saturated["replications"]
    rows = (
        _named_rate(
            "bound by hand",
            bound["rate"],
            f"data sheet, nothing lost; {bound['limit']} limits",
            tag("data sheet"),
        ),
        _named_rate(
            "saturated", saturated["mean"], f"never idle; {number(min(runs))} to {number(max(runs))}"
        ),
        _named_rate(
            "operating point",
            point["rate"],
            f"every gate passes; {share(point['share_of_bound'])} of the bound",
        ),
        _named_rate(
            "goodput there",
            point["goodput"],
            f"inside every objective; {number(point['goodput_output_tokens'])} output tokens/s",
        ),
    )
    brief = f"saturated at {number(saturated['mean'])}/s, bound by hand {number(bound['rate'])}/s"
    return Section("Rates", (Table(("one replica", "requests/s", ""), "lrl", rows, steps),), brief)


def _named_rate(name: str, rate: float, note: str, known: Tag | None = None) -> tuple[Cell, ...]:
    return (Cell(name), Cell(number(rate, zeros=True), rate, tag=known), Cell(note))


def _word(point: Json) -> str:
    return "overloaded" if point["overloaded"] else str(point["verdict"])


def _rate(point: Json, cost: Json) -> tuple[Cell, ...]:
    goodput, outside = point["goodput"][0], point["steps_outside"]
    each = None if goodput is None else goodput / point["replicas"]
    nothing = absent(point["error_rate"])
    beyond = outside is not None and outside > OUTSIDE
    return (
        Cell(number(point["rate_per_replica"], zeros=True), point["rate_per_replica"]),
        verdict(_word(point)),
        Cell(share(point["attainment"][0]), point["attainment"][0]),
        Cell(number(each, zeros=True), each),
        *(
            Cell(milliseconds(point[metric][name][0], nothing), point[metric][name][0])
            for metric in ("ttft", "tpot")
            for name in PERCENTILES
        ),
        Cell(number(point["running"]), point["running"]),
        Cell(share(outside), outside, tag=simulated(cost, outside) if beyond else None),
    )


def _trial(replicas: int, trial: Json) -> tuple[Cell, ...]:
    point = trial["point"]
    return (
        Cell(count(replicas), replicas),
        Cell(trial["name"].replace("_", " ")),
        Cell(trial["load"]),
        verdict(trial["verdict"] if point is None else _word({**point, "verdict": trial["verdict"]})),
        Cell(NOTHING) if point is None else Cell(count(point["replications"]), point["replications"]),
        Cell(NOTHING) if point is None else Cell(share(point["attainment"][0]), point["attainment"][0]),
        Cell(trial["reason"] or NOTHING),
    )
