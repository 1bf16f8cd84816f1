"""What several keys of a scenario must agree on, and what must be there at all."""

from __future__ import annotations

from capsim.catalog.schema import closest
from capsim.scenario.demand_checks import check_demand
from capsim.scenario.engine_checks import check_engine
from capsim.scenario.inspection import Inspection
from capsim.scenario.objectives_section import percentile
from capsim.scenario.references import References, find_references

REQUIRED = {
    "version": "1",
    "name": "a name for this scenario",
    "model": "the name of a model, e.g. llama-3.1-8b",
    "gpu": "the name of a GPU, e.g. h200",
    "demand": "target, and trace or synthetic",
    "slo": "at least one objective such as ttft: {p95: 500ms}",
}


def check(inspection: Inspection) -> References:
    """Run every check.

    Returns:
        What the scenario names, as far as it is there.
    """
    _required(inspection)
    references = find_references(inspection)
    check_engine(inspection, references.model)
    check_demand(inspection)
    _fleet(inspection)
    _objectives(inspection)
    return references


def _required(inspection: Inspection) -> None:
    # A misspelt key that is missing under its right name is one fault, not two.
    misspelt = {closest(str(path[0]), REQUIRED) for path in inspection.left_out if len(path) == 1}
    for key, expected in REQUIRED.items():
        missing = getattr(inspection.section, key) is None and inspection.sound((key,))
        if missing and key not in misspelt:
            inspection.report((key,), "is missing", expected, of_key=True)


def _fleet(inspection: Inspection) -> None:
    """Failures name a replica that there is."""
    fleet = inspection.section.fleet
    if not inspection.sound(("fleet", "replicas")):
        return
    for index, failure in enumerate(fleet.failures):
        if failure.replica >= fleet.replicas:
            what = f"there is no replica {failure.replica}"
            expected = "0" if fleet.replicas == 1 else f"0 to {fleet.replicas - 1}"
            inspection.report(("fleet", "failures", index, "replica"), what, expected)


def _objectives(inspection: Inspection) -> None:
    """At least one gate, and no percentile twice."""
    slo = inspection.section.slo
    if slo is None:
        return
    latency = {metric: getattr(slo, metric) for metric in ("ttft", "tpot", "itl", "e2e")}
    if (
        inspection.sound(("slo",))
        and not any(latency.values())
        and slo.error_rate is None
        and not slo.quality
    ):
        inspection.report(("slo",), "states no objective", REQUIRED["slo"])
    for metric, gates in latency.items():
        seen: dict[float, str] = {}
        for name in gates:
            first = seen.setdefault(percentile(name), name)
            if first != name:
                inspection.report(("slo", metric, name), f"the same percentile as {first}", "each once")
