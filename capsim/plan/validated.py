"""How well a planned service was validated: what a ``validation.json`` says of it, and of the load that is planned."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capsim import __version__, documents
from capsim.catalog.schema import shown
from capsim.documents import Document, KeyPath
from capsim.errors import BadInput
from capsim.plan.error_budget import HELD, LATENCIES
from capsim.plan.service import service_fingerprint
from capsim.scenario import Scenario, resolved
from capsim.units import format_duration

Json = dict[str, Any]

SCHEMA, SCHEMA_VERSION = "capsim.validation", 1
"""What can be read here; a test holds them against what `validation_result` writes."""
KINDS: Mapping[str, type | tuple[type, ...]] = {
    "a list": list,
    "a mapping": dict,
    "a number": (int, float),
    "text": str,
    "true or false": bool,
}


@dataclass(frozen=True)
class ValidationRecord:
    """What a validation found, as far as a plan needs it.

    Attributes:
        fingerprint: of the service, as `service_fingerprint` gives it.
        model: name of its model.
        configuration: the scenario that was validated, every default filled in.
        gateway: seconds, as that scenario states it.
        fitted: seconds of the host in a step and of the gateway that were fitted, neither of which is in the scenario;
            None: nothing was.
        score: by metric and statistic, without what was fitted: `worst`, the error furthest off, and `mean_size`, the
            mean of the errors' sizes.
        runs: that count.
        requests: compared in these runs.
        rates: least and greatest of these runs, answered requests/s a replica; None without one.
        inside_budget: None: no budget was stated.
        capsim_version: that simulated.
    """

    fingerprint: str
    model: str
    configuration: Json
    gateway: float
    fitted: tuple[float, float] | None
    score: Mapping[str, Mapping[str, Mapping[str, float]]]
    runs: int
    requests: int
    rates: tuple[float, float] | None
    inside_budget: bool | None
    capsim_version: str


def validation_of(scenario: Scenario) -> ValidationRecord | None:
    """What the scenario's validation found, None where it names none; raises as `read_validation` does."""
    return None if scenario.validation is None else read_validation(scenario.validation)


def read_validation(path: Path) -> ValidationRecord:
    """Read the ``validation.json`` that `capsim validate` wrote.

    Raises:
        BadInput: it cannot be read, is no validation, has another version, or lacks what a plan needs.
    """
    file = _File(documents.load(path))
    file.expect(("schema",), SCHEMA, f"{SCHEMA}, as capsim validate --out writes it")
    file.expect(("schema_version",), SCHEMA_VERSION, str(SCHEMA_VERSION))
    for key in ("engine", "step_cost"):
        file.value(("configuration", key), "a mapping")
    file.value(("configuration", "gpu"), "text")
    fitted = (
        _pair(file, ("fit", "host_overhead"), ("fit", "gateway_latency")) if file.states(("fit",)) else None
    )
    inside_budget = None
    if file.states(("inside_budget",)):
        inside_budget = file.value(("inside_budget",), "true or false")
    counted = [
        run
        for run in range(len(file.value(("runs",), "a list")))
        if file.value(("runs", run, "counts"), "true or false")
    ]
    return ValidationRecord(
        fingerprint=file.value(("service", "fingerprint"), "text"),
        model=file.value(("comparable", "model"), "text"),
        configuration=file.value(("configuration",), "a mapping"),
        gateway=max(0.0, file.value(("service", "gateway"), "a number") - (fitted[1] if fitted else 0.0)),
        fitted=fitted,
        score=_score(file, ("score",) if fitted is None else ("fit", "score_without")),
        runs=len(counted),
        requests=sum(file.value(("runs", run, "requests", "compared"), "a number") for run in counted),
        rates=_rates(file, ("validated", "rates_per_replica")),
        inside_budget=inside_budget,
        capsim_version=file.value(("capsim_version",), "text"),
    )


def validated(record: ValidationRecord | None, scenario: Scenario, rates: Sequence[float]) -> Json | None:
    """What a validation says of a service at a load, as a result holds it.

    Args:
        record: what was validated; None: nothing was.
        scenario: what is planned.
        rates: requests/s a replica under which it is planned; empty: not known.
    """
    if record is None:
        return None
    same = record.fingerprint == service_fingerprint(scenario)
    planned = (min(rates), max(rates)) if rates else None
    known = record.rates if same else None
    inside = None
    if planned and known:
        inside = known[0] <= planned[0] and planned[1] <= known[1]
    return {
        "same_service": same,
        "differences": [] if same else list(_differences(record, scenario)),
        "runs": record.runs,
        "requests": record.requests,
        "score": _summary(record) if same else None,
        "rate_per_replica": None if planned is None else list(planned),
        "validated_rate_per_replica": None if known is None else list(known),
        "inside": inside,
        "notes": list(_notes(record, scenario)) if same else [],
    }


@dataclass(frozen=True)
class _File:
    """A validation's file; a value that is not what it must be raises BadInput with its place."""

    document: Document

    def value(self, path: KeyPath, expected: str) -> Any:
        """The value at a path, of one of `KINDS`."""
        found = self._find(path)
        if not isinstance(found, KINDS[expected]) or (isinstance(found, bool) and expected == "a number"):
            what = "is missing" if found is None else f"{shown(found)} is not {expected}"
            raise BadInput(self.document.fault(path, what, expected))
        return found

    def expect(self, path: KeyPath, value: object, expected: str) -> None:
        """One value and no other."""
        found = self._find(path)
        if found != value or isinstance(found, bool):
            what = "is missing" if found is None else f"{shown(found)} cannot be read here"
            raise BadInput(self.document.fault(path, what, expected))

    def states(self, path: KeyPath) -> bool:
        """Whether there is anything but null."""
        return self._find(path) is not None

    def _find(self, path: KeyPath) -> Any:
        found: Any = self.document.data
        for part in path:
            inside = isinstance(found, list) if isinstance(part, int) else isinstance(found, dict)
            found = (found[part] if isinstance(part, int) else found.get(part)) if inside else None
        return found


def _score(file: _File, at: KeyPath) -> dict[str, dict[str, dict[str, float]]]:
    """The statistics that a budget holds for; one of which 0 was measured has no error."""
    return {
        metric: {
            statistic: {
                figure: file.value((*at, metric, statistic, figure), "a number")
                for figure in ("worst", "mean_size")
            }
            for statistic in HELD
            if statistic in file.value((*at, metric), "a mapping")
        }
        for metric in LATENCIES
        if metric in file.value(at, "a mapping")
    }


def _rates(file: _File, at: KeyPath) -> tuple[float, float] | None:
    if not file.states(at):
        return None
    low, high = _pair(file, (*at, 0), (*at, 1))
    if not 0 < low <= high:
        raise BadInput(file.document.fault(at, f"{low:g} to {high:g} is no range", "least and greatest rate"))
    return low, high


def _pair(file: _File, first: KeyPath, second: KeyPath) -> tuple[float, float]:
    return file.value(first, "a number"), file.value(second, "a number")


def _summary(record: ValidationRecord) -> Json:
    """Of each metric how far its mean is off on average, and which statistic is furthest off."""
    summary: Json = {}
    for metric, figures in record.score.items():
        if not figures:
            continue
        errors = {statistic: figure["worst"] for statistic, figure in figures.items()}
        statistic, worst = max(errors.items(), key=lambda error: abs(error[1]))
        summary[metric] = {
            "mean_size": figures["mean"]["mean_size"] if "mean" in figures else None,
            "worst": worst,
            "worst_statistic": statistic,
        }
    return summary


def _differences(record: ValidationRecord, scenario: Scenario) -> Iterator[str]:
    """What makes another service of it, one phrase each."""
    theirs, ours = record.configuration, resolved(scenario)
    found = list(_unequal("model", record.model, scenario.model.name))
    for key in ("gpu", "engine", "step_cost"):
        found += _unequal(key, theirs[key], ours[key])
    yield from found or ["the model's or the profile's file says something else"]


def _unequal(key: str, theirs: Any, ours: Any) -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        # Step costs of two sources have no other key in common.
        same_kind = theirs.get("source") == ours.get("source")
        for name in {**theirs, **ours} if same_kind else ["source"]:
            yield from _unequal(f"{key}.{name}", theirs.get(name), ours.get(name))
        return
    if key == "step_cost.path":  # a file counts by what it holds, not by where it lies
        theirs, ours = Path(theirs).name, Path(ours).name
    if theirs != ours:
        yield f"{key} was {_said(theirs)}, here {_said(ours)}"


def _said(value: Any) -> str:
    if value is None:
        return "not stated"
    return value if isinstance(value, str) else json.dumps(value)


def _notes(record: ValidationRecord, scenario: Scenario) -> Iterator[str]:
    """Why the score may not be that of this plan, one sentence each."""
    if record.fitted is not None:
        host, gateway = map(format_duration, record.fitted)
        yield (
            f"the validation fitted an overhead ({host} in every step, {gateway} in the gateway) that this step cost "
            "does not have: the errors are those without it"
        )
    gateway_here = scenario.fleet.latencies.gateway
    # A fitted latency was added and is taken off again, which rounds.
    if not math.isclose(record.gateway, gateway_here, rel_tol=1e-9, abs_tol=1e-12):
        was, here = map(format_duration, (record.gateway, gateway_here))
        yield f"TTFT and E2E were validated with a gateway latency of {was}, here it is {here}"
    if record.inside_budget is False:
        yield "the validation was not inside its budget"
    if record.capsim_version != __version__:
        yield f"capsim {record.capsim_version} was validated, this is {__version__}"
