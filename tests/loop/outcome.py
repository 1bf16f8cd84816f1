"""The comparison of one measurement, as it is kept and as it is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from calibrate.engine_steps import read
from tests.loop.load import LOADS, Load
from tests.loop.measured import STEPS
from tests.loop.simulated import Compared, compare
from tests.truth.table import Table, Verdict, percent

KEPT = Path(__file__).with_name("outcome.json")
COMMAND = "python -m tests.loop --write"
TARGET = 0.15
NOISE = ("long outputs", "ITL p95")
"""A load and a figure of it that is the noise of single steps, which no simulation of a step cost has."""
FIGURES = ("TTFT p50", "TTFT p95", "TPOT p50", "TPOT p95", "ITL p50", "ITL p95", "tokens/s")


@dataclass(frozen=True)
class Outcome:
    """Runs of a measurement, measured and simulated.

    Attributes:
        engine, device, date: what was measured and when.
        steps: controlled steps that the profile was made of.
        runs: by load and repeat.
    """

    engine: str
    device: str
    date: str
    steps: int
    runs: tuple[Compared, ...]

    def spread(self, load: str, figure: str) -> float:
        """By how much repeats of a load differ: largest over smallest, less 1."""
        values = [run.measured[figure] for run in self.repeats(load)]
        return max(values) / min(values) - 1

    def repeats(self, load: str) -> list[Compared]:
        """The runs of a load."""
        return [run for run in self.runs if run.load == load]

    def error(self, load: str, figure: str, *, by_probes: bool = False) -> float:
        """Of a load: the median over its repeats."""
        return median(run.error(figure, by_probes=by_probes) for run in self.repeats(load))

    def allowed(self, load: str, figure: str) -> float:
        """Largest error of a figure."""
        return max(TARGET, self.spread(load, figure))

    def missed(self) -> set[tuple[str, str]]:
        """Loads and figures that are outside the target."""
        return {
            (load, figure)
            for figure in FIGURES
            for load in judged(figure)
            if abs(self.error(load, figure)) > self.allowed(load, figure)
        }


def judged(figure: str) -> list[str]:
    """The loads that a target is set for."""
    metric = figure.split(maxsplit=1)[0]
    return [load.name for load in LOADS if metric in load.judged and (load.name, figure) != NOISE]


def outcome_of(folder: Path) -> Outcome:
    """Compare a measurement."""
    controlled = read(folder / STEPS)
    header = controlled.header
    engine = f"{header.engine} {header.version}"
    return Outcome(engine, header.device, header.date, len(controlled.steps), tuple(compare(folder)))


def keep(outcome: Outcome) -> None:
    """Write the file of the comparison that the documentation shows."""
    KEPT.write_text(json.dumps(_rounded(asdict(outcome)), indent=1) + "\n", encoding="utf-8")


def kept() -> Outcome:
    """The comparison that the documentation shows."""
    members = json.loads(KEPT.read_text(encoding="utf-8"))
    runs = members.pop("runs")
    pairs = ("probes", "preemptions", "cached")
    return Outcome(
        runs=tuple(Compared(**{**run, **{pair: tuple(run[pair]) for pair in pairs}}) for run in runs),
        **members,
    )


def table(outcome: Outcome) -> Table:
    """Each run beside its simulation."""
    return Table(
        "A real engine on one machine: calibrated, replayed and simulated in one go",
        (
            f"Measured: {outcome.engine} on {outcome.device}, {outcome.date}, by `{COMMAND}`, which does all of this "
            "again on any machine with the engine: controlled batches, a profile of them, replays at shares of the "
            "capacity that a simulation with this profile has, and the simulation of each replay.",
            f"Told: the profile of {outcome.steps:,} controlled steps, arrivals, lengths, common beginnings and the "
            "engine's limits. Taken from each run: one number, how fast the machine was meanwhile, as seconds of all "
            "its steps over seconds by the profile; latencies play no part in it. A machine that is shared may be 30 % "
            "slower a minute later. `by probes`: its speed by fixed work before and after the run instead, so that "
            "nothing is taken from the run; shown with a verdict of its own, and no test rests on it, since the "
            "machine changes in between.",
            "The measurement ran before other work of the machine, as far as the system let it.",
            f"Target: the median error of a load's repeats at most {TARGET:.0%}, or the spread of the repeats where it "
            "is larger. Shown and not judged: the load near the knee, and TTFT of requests that wait for KV blocks.",
        ),
        ("load", "", *FIGURES, "preemptions", "cached tokens"),
        tuple(_rows(outcome)),
        labels=2,
        causes=(
            "`steps`: the scaled profile on the batches that the run logged against their logged seconds, without "
            "an engine model: decodes alone, and steps with prompts.",
            f"{NOISE[1]} of {NOISE[0]} is what a simulation of step costs cannot give, and is not judged: nearly all "
            "gaps are steps that decode alone, and the figure is where their noise ends. One in twenty of these steps "
            f"took {_noise(outcome):.2f} times the median or longer, at equal cost.",
            "Times are those of the client in the engine's process; there is no server.",
        ),
        verdicts=(*(_verdict(outcome, figure) for figure in FIGURES), _by_probes(outcome)),
    )


def _noise(outcome: Outcome) -> float:
    return min(run.noise for run in outcome.runs if run.load == NOISE[0])


def _rows(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    for load in LOADS:
        for run in outcome.repeats(load.name):
            name = f"{run.load}, {load.service.name}, {run.repeat}"
            yield (name, f"measured, {run.requests} at {run.rate:.2f}/s", *_values(run, 0))
            yield ("", f"simulated, speed {run.speed:.3f}", *_values(run, 1))
            steps = f"error; steps {percent(run.decode_steps)}, with prompts {percent(run.prompt_steps)}"
            yield ("", steps, *(percent(run.error(figure)) for figure in FIGURES), "", "")
        yield (
            f"{load.name}, all",
            "median error",
            *(_error(outcome, load, figure) for figure in FIGURES),
            "",
            "",
        )
        probes = (percent(outcome.error(load.name, figure, by_probes=True)) for figure in FIGURES)
        yield ("", "median error, by probes", *probes, "", "")
        spreads = (f"{outcome.spread(load.name, figure):.0%}" for figure in FIGURES)
        yield ("", "repeats, largest / smallest - 1", *spreads, "", "")


def _values(run: Compared, which: int) -> Iterator[str]:
    found = run.simulated if which else run.measured
    for figure in FIGURES:
        yield f"{found[figure]:.1f}" + (" ms" if " " in figure else "")
    yield f"{run.preemptions[which]}"
    yield f"{run.cached[which]:,}"


def _error(outcome: Outcome, load: Load, figure: str) -> str:
    target = TARGET if load.name in judged(figure) else None
    return percent(outcome.error(load.name, figure), target, outcome.spread(load.name, figure))


def _verdict(outcome: Outcome, figure: str) -> Verdict:
    loads = judged(figure)
    inside = sum(abs(outcome.error(load, figure)) <= TARGET for load in loads)
    outside = sum(figure == missed for _, missed in outcome.missed())
    found = f"{inside} of {len(loads)} loads within {TARGET:.0%}"
    alone = len(loads) - inside - outside
    found += f", {alone} within the spread alone" if alone else ""
    return Verdict(
        figure,
        f"{TARGET:.0%} or the spread of repeats",
        found + (f", {outside} outside" if outside else ""),
        not outside,
    )


def _by_probes(outcome: Outcome) -> Verdict:
    """All figures that are judged, from a simulation that is told nothing of the run."""
    sizes = [
        (abs(outcome.error(load, figure, by_probes=True)), outcome.allowed(load, figure))
        for figure in FIGURES
        for load in judged(figure)
    ]
    inside = sum(size <= allowed for size, allowed in sizes)
    return Verdict(
        "all, speed by probes",
        f"{TARGET:.0%} or the spread of repeats",
        f"{inside} of {len(sizes)} figures",
        inside == len(sizes),
    )


def _rounded(value: object) -> object:
    """Figures to the digits that are shown, and some more."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    return value
