"""Gates as a table: judged over replications with a picture of the interval, or in one run."""

from __future__ import annotations

from capsim.report import Json
from capsim.report.gates import limit, observed
from capsim.report.number import NOTHING, share
from capsim.report.page.block import Cell, Table
from capsim.report.page.scale import Scale
from capsim.report.page.svg import element, words
from capsim.report.page.tag import STATED, Tag

WIDTH, HEIGHT = 116.0, 18.0


def judged_table(gates: list[Json], tag: Tag) -> Table:
    """Gates over replications, each with its interval beside the share that it needs."""
    header = ("gate", "observed", "limit", "needed", "inside", "interval", "", "runs", "verdict")
    rows = tuple(_judged(gate) for gate in gates)
    level = next((gate["attained"]["confidence"] for gate in gates if gate["attained"]), None)
    notes = (
        ()
        if level is None
        else (
            f"Interval of the mean share inside over independent runs at {share(level)}, "
            "so that all looks together keep 95%. A gate passes if the whole interval does.",
        )
    )
    return Table(header, "lrrrrrlrl", rows, tag, notes=notes)


def measured_table(gates: list[Json], tag: Tag) -> Table:
    """Gates of one run."""
    header = ("gate", "observed", "limit", "needed", "inside", "verdict")
    return Table(header, "lrrrrl", tuple(_measured(gate) for gate in gates), tag)


def verdict(word: str) -> Cell:
    """A verdict, marked."""
    return Cell(word, verdict=word)


def _asked(gate: Json) -> tuple[Cell, ...]:
    return (
        Cell(gate["name"]),
        Cell(observed(gate), gate["observed"]),
        Cell(limit(gate), gate["limit"], tag=STATED),
        Cell(share(gate["required"]), gate["required"], tag=STATED),
    )


def _judged(gate: Json) -> tuple[Cell, ...]:
    attained = gate["attained"]
    if attained is None:
        nothing = Cell(NOTHING)
        return (*_asked(gate), nothing, Cell("as stated"), nothing, nothing, verdict(gate["verdict"]))
    between = f"{share(attained['low'])} to {share(attained['high'])}"
    return (
        *_asked(gate),
        Cell(share(attained["mean"]), attained["mean"]),
        Cell(between),
        Cell(between, picture=_interval(gate)),
        Cell(str(attained["replications"]), attained["replications"]),
        verdict(gate["verdict"]),
    )


def _measured(gate: Json) -> tuple[Cell, ...]:
    inside = Cell(share(gate["attained"]), gate["attained"])
    return (*_asked(gate), inside, verdict("pass" if gate["passed"] else "fail"))


def _interval(gate: Json) -> str:
    """The interval as a line with its mean, and the share that is needed as a stroke across."""
    attained, required = gate["attained"], gate["required"]
    room = max(0.25 * (1 - min(attained["low"], required)), 1e-9)
    scale = Scale(max(0.0, min(attained["low"], required) - room), 1.0, 4.0, WIDTH - 4)
    low, mean, high = (scale(attained[name]) for name in ("low", "mean", "high"))
    needed = scale(required)
    middle = HEIGHT / 2
    said = f"{share(attained['low'])} to {share(attained['high'])}, {share(required)} needed"
    return element(
        "svg",
        element("title", words(said)),
        element("line", class_="rail", x1=4.0, x2=WIDTH - 4, y1=middle, y2=middle),
        element(
            "line", class_=f"interval {gate['verdict']}", x1=low, x2=max(high, low + 1), y1=middle, y2=middle
        ),
        element("circle", class_=f"interval {gate['verdict']}", cx=mean, cy=middle, r=3.2),
        element("line", class_="needed", x1=needed, x2=needed, y1=2.0, y2=HEIGHT - 2),
        class_="interval-picture",
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        width=WIDTH,
        height=HEIGHT,
        role="img",
    )
