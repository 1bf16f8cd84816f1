"""What the keys of a demand must agree on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from capsim.catalog.schema import shown
from capsim.documents import KeyPath
from capsim.scenario.demand_section import (
    ArrivalSection,
    LengthSection,
    PrefixSection,
    PrioritySection,
    SyntheticSection,
    TraceSection,
)
from capsim.scenario.inspection import Inspection
from capsim.units import format_share

COUNT = "a whole number, at least 1"


TRACE: KeyPath = ("demand", "trace")
SYNTHETIC: KeyPath = ("demand", "synthetic")


def check_demand(inspection: Inspection) -> None:
    """A target, exactly one source of requests, and what the keys of each ask of one another."""
    demand = inspection.section.demand
    if demand is None:
        return
    if demand.target is None and inspection.sound(("demand", "target")):
        expected = "a rate such as '80/s' or '17000 tokens/s'"
        inspection.report(("demand", "target"), "is missing", expected, of_key=True)
    _source(inspection)
    if demand.trace is not None:
        _trace(inspection, demand.trace)
    if demand.synthetic is not None:
        _synthetic(inspection, demand.synthetic)
    _sampling(inspection, demand.sampling)


def _source(inspection: Inspection) -> None:
    """One of trace and synthetic is stated, which they also are where they are at fault."""
    stated = inspection.document.data["demand"]
    trace, synthetic = (stated.get(key) is not None for key in ("trace", "synthetic"))
    if not trace and not synthetic:
        inspection.report(("demand",), "neither trace nor synthetic is stated", "one of them", of_key=True)
    if trace and synthetic:
        inspection.report(SYNTHETIC, "trace is stated too", "one of trace and synthetic", of_key=True)


def _trace(inspection: Inspection, trace: TraceSection) -> None:
    hashed = trace.format == "mooncake" or not inspection.sound((*TRACE, "format"))
    if trace.block_size is not None and not hashed:
        what = f"{trace.format} traces have no hash ids"
        inspection.report((*TRACE, "block_size"), what, "format: mooncake")


def _sampling(inspection: Inspection, sampling: Mapping[str, object]) -> None:
    """Parameters that decide how many sequences a request has; the others are only recorded."""
    place: KeyPath = ("demand", "sampling")
    counts = {name: sampling.get(name) for name in ("n", "best_of", "beam_width")}
    wrong = {name: value for name, value in counts.items() if value is not None and not _is_count(value)}
    for name, value in wrong.items():
        inspection.report((*place, name), f"{shown(value)} is no number of sequences", COUNT)
    n, best_of = counts["n"] or 1, counts["best_of"]
    if not wrong and isinstance(n, int) and isinstance(best_of, int) and best_of < n:
        inspection.report((*place, "best_of"), f"{best_of} is less than n ({n})", f"at least {n}")
    beams = sampling.get("use_beam_search")
    if beams is not None and not isinstance(beams, bool):
        what = f"{shown(beams)} is neither true nor false"
        inspection.report((*place, "use_beam_search"), what, "true or false")


def _synthetic(inspection: Inspection, synthetic: SyntheticSection) -> None:
    if inspection.sound((*SYNTHETIC, "arrivals")):
        _arrivals(inspection, synthetic.arrivals)
    for key in ("prompt_tokens", "output_tokens"):
        low, high = (getattr(getattr(synthetic, key), name, None) for name in ("low", "high"))
        if low is not None and high is not None and high < low:
            inspection.report(
                (*SYNTHETIC, key, "high"), f"{high} is less than low ({low})", f"at least {low}"
            )
    if synthetic.prefix is not None:
        _prefix(inspection, synthetic.prefix, synthetic.prompt_tokens)
    if synthetic.priorities and inspection.sound((*SYNTHETIC, "priorities")):
        _priorities(inspection, synthetic.priorities)


def _arrivals(inspection: Inspection, arrivals: ArrivalSection) -> None:
    """Burstiness is what a gamma distribution needs, and no other has."""
    place: KeyPath = (*SYNTHETIC, "arrivals")
    if arrivals.process == "gamma" and arrivals.burstiness is None:
        inspection.report(place, "gamma needs burstiness", "a number above 0; 1 is Poisson")
    if arrivals.process != "gamma" and arrivals.burstiness is not None:
        what = f"{arrivals.process} arrivals have no burstiness"
        inspection.report((*place, "burstiness"), what, "process: gamma")


def _priorities(inspection: Inspection, priorities: Sequence[PrioritySection]) -> None:
    """Each priority once, and every request has one."""
    place: KeyPath = (*SYNTHETIC, "priorities")
    values = [each.priority for each in priorities]
    for index, value in enumerate(values):
        if value in values[:index]:
            inspection.report((*place, index, "priority"), f"{value} is stated before", "each priority once")
    total = sum(each.share for each in priorities)
    if not math.isclose(total, 1.0, abs_tol=1e-9):
        inspection.report(place, f"the shares sum up to {format_share(total)}", "100%", of_key=True)


def _prefix(inspection: Inspection, prefix: PrefixSection, prompt: LengthSection) -> None:
    """A prefix that no prompt is long enough for would be shared by none."""
    limits = (getattr(prompt, name, None) for name in ("value", "high", "max"))
    longest = next((limit for limit in limits if limit is not None), None)
    sound = inspection.sound((*SYNTHETIC, "prefix", "tokens"), (*SYNTHETIC, "prompt_tokens"))
    if sound and longest is not None and prefix.tokens > longest:
        what = f"{prefix.tokens} is longer than any prompt"
        inspection.report((*SYNTHETIC, "prefix", "tokens"), what, f"at most {longest}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
