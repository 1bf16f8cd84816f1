"""What `capsim validate` found, as plain data: seconds, tokens and rates per second; errors are shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from capsim.benchmark.definitions import Columns, span_of_answers
from capsim.plan.deployment import Deployment
from capsim.plan.error_budget import HELD, LATENCIES
from capsim.plan.heading import heading, identity
from capsim.plan.not_modelled import not_modelled
from capsim.plan.prediction import Prediction, measured_columns
from capsim.plan.service import service_fingerprint
from capsim.plan.validation import Check, Comparison, Validation

Json = dict[str, Any]

SHARES = tuple(np.linspace(0, 1, 51).round(2).tolist())
"""Shares of the values at which a distribution is kept, to draw it."""


def validation_result(validation: Validation) -> Json:
    """Every run, its errors, the score and the verdict."""
    deployment = validation.deployment
    counted = [check for check in validation.checks if check.counts]
    return {
        **heading("capsim.validation"),
        **identity(deployment),
        "service": service_record(deployment),
        "inside_budget": validation.inside,
        "budget": None if validation.budget is None else {**validation.budget, "statistics": list(HELD)},
        "misses": list(validation.misses()),
        "validated": _validated(counted, deployment.scenario.fleet.replicas),
        "score": _score(counted),
        "fit": _fit(validation),
        "runs": [_run(check) for check in validation.checks],
        "notes": list(_notes(validation)),
        "not_modelled": not_modelled(deployment),
    }


def service_record(deployment: Deployment) -> Json:
    """What was simulated, and a fingerprint by which another scenario's service is told to be the same."""
    scenario = deployment.scenario
    return {
        "fingerprint": service_fingerprint(scenario),
        "replicas": scenario.fleet.replicas,
        "router": scenario.fleet.router,
        "step_cost": {"source": deployment.cost.source, "description": deployment.cost.description},
        "gateway": scenario.fleet.latencies.gateway,
    }


def _validated(counted: Sequence[Check], replicas: int) -> Json:
    """The loads that the score stands for; null without a run that counts."""
    loads = [_load(check) for check in counted]
    rates = [load["measured_rate"] for load in loads]
    return {
        "runs": [check.name for check in counted],
        "rates": _range(rates),
        "rates_per_replica": _range(rate / replicas for rate in rates if rate is not None),
        "concurrency": _range(load["measured_concurrency"] for load in loads),
    }


def _range(values: Iterable[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    return [min(known), max(known)] if known else None


def _score(counted: Sequence[Check]) -> Json:
    """Metric, then statistic: the error that is furthest off and the mean of the errors' sizes, over the runs."""
    score: Json = {}
    for metric in LATENCIES:
        for statistic in ("mean", "p50", "p90", "p95", "p99"):
            found = (
                check.comparisons[metric][statistic].error for check in counted if metric in check.comparisons
            )
            errors = [error for error in found if error is not None]
            if errors:
                score.setdefault(metric, {})[statistic] = {
                    "worst": max(errors, key=abs),
                    "mean_size": fmean(map(abs, errors)),
                    "runs": len(errors),
                }
    return score


def _fit(validation: Validation) -> Json | None:
    fit = validation.fit
    if fit is None:
        return None
    return {
        "runs": [check.name for check in validation.checks if check.fitted],
        "host_overhead": fit.overhead.host,
        "gateway_latency": fit.overhead.gateway,
        "residual": fit.residual,
        "searches": fit.searches,
        "score_without": _score(validation.without_fit),
    }


def _run(check: Check) -> Json:
    run = check.run
    return {
        "name": check.name,
        "file": run.source,
        "sha256": run.sha256,
        "tool": f"{run.tool} {run.tool_version}".strip(),
        "model": run.model,
        "fitted": check.fitted,
        "overloaded": check.overloaded,
        "counts": check.counts,
        "load": _load(check),
        "requests": _requests(check),
        "metrics": {
            metric: {statistic: _comparison(figure) for statistic, figure in figures.items()}
            for metric, figures in check.comparisons.items()
        },
        "curves": _curves(check),
        "unchecked": list(check.unchecked),
        "notes": list(check.notes()),
    }


def _load(check: Check) -> Json:
    run, load = check.run, check.load
    seconds = run.duration if run.duration > 0 else span_of_answers(run)
    lasted = len(run) > 0 and seconds > 0  # no time at all, where no answer took any
    simulated = [_concurrency(each) for each in check.predictions]
    return {
        "kind": None if load is None else load.kind,
        "rate": _known(None if load is None else load.rate),
        "stated_rate": run.request_rate,
        "burstiness": run.burstiness,
        "most_open": run.concurrency,
        "replications": len(check.predictions),
        "saturated_rate": check.saturated_rate,
        "measured_rate": _known(run.ok.sum() / seconds if lasted else None),
        "measured_concurrency": _known(np.nansum(run.e2e) / seconds if lasted else None),
        "simulated_concurrency": _known(fmean(simulated) if simulated else None),
    }


def _concurrency(prediction: Prediction) -> float:
    """Mean number of requests in the system, by Little's law."""
    return float(prediction.columns().e2e.sum()) / prediction.duration


def _requests(check: Check) -> Json:
    load = check.load
    return {
        "in_file": len(check.run),
        "answered": int(check.run.ok.sum()),
        "simulated": 0 if load is None else len(load.rows),
        "compared": 0 if load is None else int(load.compared.sum()),
        "not_completed_in_simulation": sum(prediction.failures for prediction in check.predictions),
    }


def _comparison(figure: Comparison) -> Json:
    errors = figure.errors if figure.measured and len(figure.simulated) > 1 else ()
    return {
        "measured": figure.measured,
        "simulated": fmean(figure.simulated),
        "error": figure.error,
        "errors": [min(errors), max(errors)] if errors else None,
    }


def _curves(check: Check) -> Json:
    """Metric, then the values at `SHARES` of the requests (of the gaps, for ITL), measured and simulated."""
    if check.load is None:
        return {}
    metrics: Callable[[Columns], dict[str, Any]] = check.load.definition.metrics
    measured = metrics(measured_columns(check.load))
    runs = [metrics(prediction.columns()) for prediction in check.predictions]
    return {
        metric: {
            "measured": _quantiles(measured[metric]),
            "simulated": _quantiles(np.concatenate([run[metric] for run in runs])),
        }
        for metric in LATENCIES
        if metric in check.comparisons
    }


def _quantiles(values: Any) -> list[float]:
    found: list[float] = np.quantile(values, SHARES).tolist()
    return found


def _known(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _notes(validation: Validation) -> Iterator[str]:
    """What holds for every run, one sentence each."""
    deployment = validation.deployment
    if any(
        check.fitted and check.load is not None and check.load.kind == "closed" for check in validation.checks
    ):
        yield (
            "overhead was fitted on a closed loop, whose clients send when a step has ended: a gateway latency shorter "
            "than a step hides behind the next one there, so that its figure may be anything up to a step"
        )
    if deployment.engine.enable_prefix_caching:
        yield (
            "the scenario caches prefixes, and benchmark files do not tell which prompts begin alike: every prompt is "
            "computed"
        )
    if deployment.scenario.fleet.failures:
        yield "the scenario's failures are left out"
