"""A sweep as plain data: what ``sweep.json`` holds."""

from __future__ import annotations

from typing import Any

from capsim.plan.heading import heading
from capsim.plan.sweep import Sweep, SweepPoint
from capsim.scenario import resolved

Json = dict[str, Any]


def sweep_result(sweep: Sweep) -> Json:
    """Every point, in the order in which it was asked for; the same whether it was interrupted or not."""
    names = [axis.name for axis in sweep.axes]
    return {
        **heading("capsim.sweep"),
        "scenario": sweep.scenario.name,
        "seed": sweep.scenario.seed,
        "over": [{"name": axis.name, "values": list(axis.values)} for axis in sweep.axes],
        "points": [_point(names, point) for point in sweep.points],
        "configuration": resolved(sweep.scenario),
    }


def _point(names: list[str], point: SweepPoint) -> Json:
    deployment, load, judged = point.deployment, point.experiment, point.point
    stated = dict(zip(names, point.values, strict=True))
    if deployment is None or load is None or judged is None:
        return {"values": stated, "does_not_fit": point.does_not_fit, "point": None}
    figures = judged.as_dict()
    pool = deployment.memory.usable_blocks
    closed = load.concurrency is not None
    if closed:
        figures |= {"rate": None, "rate_per_replica": None}
    return {
        "values": stated,
        "does_not_fit": "",
        "fingerprint": deployment.fingerprint,
        "replicas": load.replicas,
        "gpus": load.replicas * deployment.scenario.engine.tensor_parallel_size,
        "concurrency": load.concurrency,
        "saturated_rate": point.saturated_rate,
        "kv_tokens": deployment.memory.kv_tokens,
        "pool_share": None if figures["blocks_max"] is None else figures["blocks_max"] / pool,
        "max_num_seqs": deployment.engine.max_num_seqs,
        "step_cost": deployment.cost.description,
        "point": figures,
    }
