"""A plan as plain data: what `result.json` holds, and all that the report is drawn from.

Seconds, bytes, tokens and rates per second throughout. A figure that is infinite or does not exist is null.
"""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean
from typing import Any

from capsim import __version__
from capsim.cost import ProfileCost
from capsim.measure.objectives import Objectives
from capsim.memory.budget import MemoryFit
from capsim.plan.deployment import SAMPLE, Deployment, Fitted
from capsim.plan.not_modelled import not_modelled
from capsim.plan.planner import Plan, Replay
from capsim.plan.replicas import FleetCheck, Trial
from capsim.plan.served_demand import ServedDemand
from capsim.plan.simulation import Simulation
from capsim.plan.validated import validated, validation_of
from capsim.plan.verdict import Verdict, rule_of_three
from capsim.scenario import Scenario, resolved
from capsim.workload.demand import Demand

SCHEMA = "capsim.plan"
SCHEMA_VERSION = 1

Json = dict[str, Any]


def plan_result(plan: Plan) -> Json:
    """The whole plan, answer first."""
    deployment = plan.deployment
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "capsim_version": __version__,
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


def identity(deployment: Fitted) -> Json:
    """What a result stands for: two results compare only where `comparable` is equal."""
    scenario = deployment.scenario
    return {
        "scenario": scenario.name,
        "fingerprint": deployment.fingerprint,
        "seed": scenario.seed,
        "comparable": {
            "model": scenario.model.name,
            "model_source": scenario.model.source,
            "tokenizer": "the demand's own token counts",
            "dtype": scenario.engine.dtype,
            "kv_cache_dtype": scenario.engine.kv_cache_dtype,
            "lengths": {key: deployment.demand.description()[key] for key in ("prompt", "output")},
            "engine": f"{scenario.engine.name} {scenario.engine.version}",
            "slo": resolved(scenario)["slo"],
        },
        "configuration": resolved(scenario),
    }


def demand_record(deployment: Deployment) -> Json:
    """The demand that a result was obtained on."""
    settings = deployment.scenario.demand
    return {
        "target": settings.target,
        "unit": settings.unit,
        "target_rate": deployment.target_rate,
        "concurrency": "open loop",
        "sampling": dict(settings.sampling),
        "unservable_share": unservable_share(deployment),
        "priorities": priorities(deployment.scenario, deployment.demand),
        **deployment.demand.description(),
    }


def priorities(scenario: Scenario, demand: Demand) -> str:
    """What becomes of the requests' priorities: ``none`` are stated, or they are ``ignored`` or ``heeded``."""
    if not demand.states_priorities:
        return "none"
    return "heeded" if scenario.engine.scheduling_policy == "priority" else "ignored"


def unservable_share(deployment: Fitted) -> float:
    """Share of the demand's requests that exceed `max_model_len` or the whole KV pool, and are rejected."""
    lengths = deployment.demand.saturating(SAMPLE, deployment.seed(0))
    return float(1 - deployment.engine.admits(lengths.prompt, lengths.output).mean())


def memory_record(deployment: Fitted) -> Json:
    """The memory table, the KV pool, and what the demand's sequences cost in it."""
    memory = deployment.memory
    lengths = deployment.demand.saturating(SAMPLE, deployment.seed(0))
    total = sorted((lengths.prompt + lengths.output).tolist())
    sequences = {
        "p50": total[int(0.5 * (len(total) - 1))],
        "mean": round(fmean(total)),
        "p95": total[int(0.95 * (len(total) - 1))],
        "longest": deployment.scenario.engine.max_model_len,
    }
    return {
        "lines": [asdict(line) for line in memory.lines],
        "num_gpu_blocks": memory.num_gpu_blocks,
        "usable_blocks": memory.usable_blocks,
        "block_size": memory.layout.block_size,
        "kv_tokens": memory.kv_tokens,
        "replica_tokens": memory.replica_tokens,
        "bytes_per_token": memory.bytes_per_token if memory.layout.plain else None,
        "max_num_seqs": deployment.engine.max_num_seqs,
        "sequences": [_sequence(memory, name, tokens) for name, tokens in sequences.items()],
    }


def _sequence(memory: MemoryFit, name: str, tokens: int) -> Json:
    blocks = memory.layout.blocks(tokens)
    return {
        "name": name,
        "tokens": tokens,
        "blocks": blocks,
        "bytes": blocks * memory.layout.bytes_per_block,
        "concurrency": int(memory.concurrency(tokens)),
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
        "step_cost": _step_cost(deployment),
        "steps_outside": max((share for share in outside if share is not None), default=0.0),
        "validation": validated(
            plan.validation, deployment.scenario, [point.rate / point.replicas for point in chosen]
        ),
        "slowdowns": [{"factor": slow.factor, **_fleet(slow.check)} for slow in plan.slowdowns],
        "not_modelled": not_modelled(deployment),
        "replays": [_replay(replay) for replay in plan.replays],
        "quality": _quality(deployment.scenario.objectives),
    }


def _step_cost(deployment: Deployment) -> Json:
    cost = deployment.cost
    return {
        "source": cost.source,
        "description": cost.description,
        "figures": {name: factor._asdict() for name, factor in cost.describe().items()},
        "differences": _differences(deployment),
        "notes": list(cost.profile.provenance.notes) if isinstance(cost, ProfileCost) else [],
    }


def _differences(deployment: Deployment) -> list[str]:
    """Where a profile was measured on something near what the scenario asks for, but not on it."""
    cost, engine = deployment.cost, deployment.scenario.engine
    if not isinstance(cost, ProfileCost):
        return []
    measured = f"{cost.profile.provenance.engine} {cost.profile.provenance.engine_version}"
    asked = f"{engine.name} {engine.version}"
    return [] if measured == asked else [f"measured on {measured}, the scenario runs {asked}"]


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


def run_result(simulation: Simulation) -> Json:
    """One simulation."""
    deployment, experiment = simulation.deployment, simulation.experiment
    closed = experiment.concurrency is not None
    return {
        "schema": "capsim.run",
        "schema_version": SCHEMA_VERSION,
        "capsim_version": __version__,
        **identity(deployment),
        "load": {
            "kind": experiment.load,
            "replicas": experiment.replicas,
            "rate": None if closed or not experiment.rate else experiment.rate,
            "concurrency": experiment.concurrency,
        },
        "overloaded": simulation.overloaded,
        "saturated_rate": simulation.saturated_rate,
        "demand": {
            **demand_record(deployment),
            "concurrency": experiment.concurrency if closed else "open loop",
        },
        "step_cost": _step_cost(deployment),
        "validation": validated(
            validation_of(deployment.scenario), deployment.scenario, _rates_per_replica(simulation)
        ),
        "not_modelled": not_modelled(deployment),
        "summary": simulation.sample,
    }


def _rates_per_replica(simulation: Simulation) -> list[float]:
    """The offered rate; where the load sets its own, the rate of the answers. Empty where there was none."""
    experiment = simulation.experiment
    rate = experiment.rate or simulation.sample["throughput"]["requests"]
    return [rate / experiment.replicas] if rate else []
