"""A plan as plain data: what `result.json` holds, and all that the report is drawn from.

Seconds, bytes, tokens and rates per second throughout. A figure that is infinite or does not exist is null.
"""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean
from typing import Any

from capsim.measure.objectives import Objectives
from capsim.plan.demand_record import demand_record
from capsim.plan.heading import heading, identity
from capsim.plan.memory_record import memory_record
from capsim.plan.not_modelled import not_modelled
from capsim.plan.planner import Plan
from capsim.plan.replay import Replay
from capsim.plan.replicas import FleetCheck, Trial
from capsim.plan.served_demand import ServedDemand
from capsim.plan.step_cost_record import step_cost_record
from capsim.plan.validated import validated
from capsim.plan.verdict import Verdict, rule_of_three

Json = dict[str, Any]


def plan_result(plan: Plan) -> Json:
    """The whole plan, answer first."""
    deployment = plan.deployment
    return {
        **heading("capsim.plan"),
        **identity(deployment),
        "answer": _answer(plan),
        **({} if plan.served is None else {"served": _served(plan, plan.served)}),
        "binding": _binding(plan),
        "confidence": _confidence(plan),
        "demand": demand_record(deployment),
        "memory": memory_record(deployment),
        "baseline": [asdict(alone) for alone in plan.baseline],
        "bound": {**asdict(plan.bound), "rate": plan.bound.rate, "limit": plan.bound.limit},
        "saturated_rate": {"mean": fmean(plan.saturated_rates), "replications": list(plan.saturated_rates)},
        "operating_point": _operating_point(plan),
        "sweep": [point.as_dict() for point in plan.operating_point.sweep],
        "fleets": [_fleet(check) for check in plan.replicas.checks],
    }


def _answer(plan: Plan) -> Json:
    count, deployment = plan.replicas, plan.deployment
    settings = deployment.scenario.plan
    replicas = count.chosen.replicas
    return {
        "replicas": replicas,
        "gpus": replicas * deployment.scenario.engine.tensor_parallel_size,
        "estimate": count.estimate,
        "estimate_formula": f"ceil({deployment.target_rate:.4g} / {plan.goodput:.4g} * (1 + {settings.reserve:g}))",
        "estimate_differs": _difference(plan),
        "deciding": _deciding(plan),
        "one_less": None if count.below is None else _fleet(count.below),
        "chosen": _fleet(count.chosen),
    }


def _served(plan: Plan, served: ServedDemand) -> Json:
    """The demand that was asked for: between which demands it lies, and what ends it."""
    demand, (beyond, above) = plan.deployment.scenario.demand, served.above
    return {
        "replicas": served.check.replicas,
        "target": served.target,
        "unit": demand.unit,
        "rate": plan.deployment.target_rate,
        "bracket": [served.target, beyond],
        "ends": "; ".join(_reason(trial) for trial in above.deciding),
        "gates": sorted({gate for trial in above.deciding if trial.point for gate in trial.point.failing}),
        "above": _fleet(above),
        "tried": [{"target": target, "verdict": check.verdict.value} for target, check in served.tried],
    }


def _difference(plan: Plan) -> str:
    """Why the answer is not the first estimate, empty if it is."""
    count = plan.replicas
    replicas = count.chosen.replicas
    if replicas == count.estimate:
        return ""
    if replicas < count.estimate:
        return (
            "the estimate takes each replica at its own operating point under its own random arrivals and rounds up; "
            f"{plan.deployment.scenario.fleet.router} over {replicas} replicas smooths arrivals, and the fleet passes"
        )
    tried = next(check for check in count.checks if check.replicas == replicas - 1)
    reasons = "; ".join(f"{trial.load} ({trial.name}): {trial.reason}" for trial in tried.deciding)
    return f"{replicas - 1} do not pass: {reasons}"


def _deciding(plan: Plan) -> str:
    """The load or drill that keeps the fleet from being smaller."""
    below = plan.replicas.below
    if below is None:
        return "one replica is the smallest fleet"
    return "; ".join(_reason(trial) for trial in below.deciding)


def _reason(trial: Trial) -> str:
    """Which load or drill does not pass, and why."""
    verdict = "undecided" if trial.verdict is Verdict.UNDECIDED else "fails"
    return f"{trial.name} ({trial.load}) {verdict}: {trial.reason}"


def _binding(plan: Plan) -> Json:
    point = plan.operating_point
    return {
        "gates": list(point.binding),
        "at_rate": point.failing.rate,
        "statement": f"one replica passes every gate up to {point.rate:.4g} requests/s; at {point.failing.rate:.4g} "
        f"{' and '.join(point.binding)} no longer {'pass' if len(point.binding) > 1 else 'passes'}",
    }


def _operating_point(plan: Plan) -> Json:
    point = plan.operating_point
    fails = [
        tested.rate for tested in point.sweep if tested.verdict is Verdict.FAIL and tested.rate > point.rate
    ]
    return {
        "rate": point.rate,
        "bracket": [point.rate, point.failing.rate],
        "fails_at": min(fails, default=None),
        "goodput": plan.goodput,
        "goodput_output_tokens": point.passing.mean("goodput", "output_tokens"),
        "share_of_saturated": point.rate / fmean(plan.saturated_rates),
        "share_of_bound": point.rate / plan.bound.rate,
        "gates": point.passing.as_dict()["gates"],
    }


def _confidence(plan: Plan) -> Json:
    deployment = plan.deployment
    chosen = [trial.point for trial in plan.replicas.chosen.trials if trial.point is not None]
    replications = min(len(point.samples) for point in chosen)
    outside = [point.mean("steps_outside") for point in chosen]
    return {
        "operating_point_bracket": [plan.operating_point.rate, plan.operating_point.failing.rate],
        "replications": replications,
        "runs_that_could_fail": rule_of_three(replications)
        if all(sample["passed"] for point in chosen for sample in point.samples)
        else None,
        "step_cost": step_cost_record(deployment),
        "steps_outside": max((share for share in outside if share is not None), default=0.0),
        "validation": validated(
            plan.validation, deployment.scenario, [point.rate / point.replicas for point in chosen]
        ),
        "slowdowns": [{"factor": slow.factor, **_fleet(slow.check)} for slow in plan.slowdowns],
        "not_modelled": not_modelled(deployment),
        "replays": [_replay(replay) for replay in plan.replays],
        "quality": _quality(deployment.scenario.objectives),
    }


def _quality(objectives: Objectives) -> str:
    if objectives.quality:
        return "quality figures are the scenario's own statement"
    return "no quality gate: the configuration's answers are assumed to be good enough"


def _replay(replay: Replay) -> Json:
    return {
        "kind": replay.kind,
        "load": replay.load,
        "replicas": replay.replicas,
        "rate": replay.rate,
        "duration": replay.duration,
        "passed": replay.passed,
        "gates": replay.sample["gates"],
    }


def _fleet(check: FleetCheck) -> Json:
    return {
        "replicas": check.replicas,
        "verdict": check.verdict.value,
        "trials": [_trial(trial) for trial in check.trials],
    }


def _trial(trial: Trial) -> Json:
    return {
        "name": trial.name,
        "load": trial.load,
        "verdict": trial.verdict.value,
        "reason": trial.reason,
        "point": None if trial.point is None else trial.point.as_dict(),
    }
