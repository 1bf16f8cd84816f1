"""Results to draw: what the shipped chat scenario gave, rounded and with some rates of its sweep left out."""

from __future__ import annotations

import copy
import json
from pathlib import Path

from capsim.report import Json

HERE = Path(__file__).parent


def stored(name: str) -> Json:
    result: Json = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return result


def with_failed_requests() -> Json:
    """The plan, with so many failures from 17.6 requests/s on that p95 and p99 are infinite."""
    result = stored("plan")
    for point in result["sweep"]:
        if point["rate"] > 17:
            point["error_rate"] = 0.1
            for metric in ("ttft", "tpot", "itl", "e2e"):
                for figure in ("mean", "p95", "p99"):
                    point[metric][figure] = [None, None, None]
            for gate in point["gates"][:2]:
                gate["observed"] = None
    return result


def without_latency_gates() -> Json:
    result = stored("plan")
    for gates in (result["operating_point"]["gates"], *(point["gates"] for point in result["sweep"])):
        del gates[:2]
    return result


def given_fleet(**verdicts: str) -> Json:
    """The plan as the answer to which demand its fleet serves; at more, each load has the verdict that is given."""
    result = stored("plan")
    above = copy.deepcopy(result["answer"]["chosen"])
    for trial in above["trials"]:
        trial["verdict"] = verdicts.get(trial["name"].replace(" ", "_"), "fail")
        trial["reason"] = "" if trial["verdict"] == "pass" else "tpot p95"
        trial["point"]["rate_per_replica"] = 14.5
    result["served"] = {"replicas": 7, "unit": "requests", "bracket": [80.0, 82.171], "above": above}
    above["verdict"] = "fail"
    return result
