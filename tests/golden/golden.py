"""A short plan of each shipped scenario, as figures to hold on to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from capsim.plan.deployment import deploy
from capsim.plan.plan_result import plan_result
from capsim.plan.planner import make_plan
from capsim.plan.runner import Runner
from capsim.scenario import load

CONFIGS = Path(__file__).parents[2] / "configs"
SCENARIOS = {
    path.stem: path
    for path in (
        *CONFIGS.glob("scenarios/*.yaml"),
        *CONFIGS.glob("starters/*.yaml"),
        CONFIGS / "benchmarks" / "tinyllama-cpu.yaml",
    )
}
SHORT = ("plan.duration=60s", "plan.replications=3")
SHORTER = ("plan.duration=30s", "plan.replications=3", "plan.resolution=10%")
"""Enough for every part to run; the answer of so short a plan is nobody's plan."""


def names() -> list[str]:
    return sorted(SCENARIOS)


def golden_path(name: str) -> Path:
    return Path(__file__).parent / f"{name}.json"


def short_plan(name: str) -> dict[str, Any]:
    path = SCENARIOS[name]
    shortened = SHORT if path.parent.name == "scenarios" else SHORTER
    result = plan_result(make_plan(Runner(deploy(load(path, shortened)))))
    points = [
        {
            key: point[key]
            for key in ("rate", "verdict", "overloaded", "attainment", "goodput", "ttft", "tpot")
        }
        for point in result["sweep"]
    ]
    return {
        "replicas": result["answer"]["replicas"],
        "estimate": result["answer"]["estimate"],
        "binding": result["binding"]["gates"],
        "bracket": result["operating_point"]["bracket"],
        "saturated_rate": result["saturated_rate"],
        "num_gpu_blocks": result["memory"]["num_gpu_blocks"],
        "baseline": result["baseline"],
        "bound": result["bound"],
        "sweep": points,
        "fleets": [[fleet["replicas"], fleet["verdict"]] for fleet in result["fleets"]],
    }
