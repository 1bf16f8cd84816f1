"""An explanation says what the result holds, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from capsim.report import Json
from capsim.report.changes import estimated_demand, estimated_fleet
from capsim.report.explain import explained_infeasible, explained_plan
from capsim.report.explain_run import explained_run, run_explanation
from capsim.report.explanation import infeasible_explanation, misses_used, plan_explanation
from capsim.report.number import share
from capsim.report.table import WIDTH
from tests.report.results import given_fleet, stored, with_failed_requests, without_latency_gates
from tests.report.test_text import in_order

RUNS = ("run-rate", "run-overload", "run-closed", "run-trace")


def changed(change: Callable[[Json], None]) -> Json:
    result = stored("plan")
    change(result)
    return plan_explanation(result)


def at_the_limit(result: Json) -> Any:
    """The lowest rate that does not pass."""
    return next(
        point for point in result["sweep"] if point["rate"] == result["operating_point"]["bracket"][1]
    )


def test_it_goes_from_load_to_gate_to_constraint_to_what_would_change_it() -> None:
    in_order(
        explained_plan(plan_explanation(stored("plan"))),
        "why 7 replicas",
        "WHICH LOAD",
        "full fleet, 7 replicas at 96/s: 13.71 requests/s a replica, 95.87% of what one passes alone.",
        "Tightest is tpot p95: 18.4ms where at most 30ms is asked for, 98.82% surely inside where 95% must be.",
        "replica_missing, 6 of 7 replicas at 80/s: 13.33",
        "A fleet of 6 does not hold them, so that this is the smallest:",
        "full fleet, 6 replicas at 96/s, fails: tpot p95",
        "WHICH GATE",
        "tpot p95 23.26ms 30ms 77.52% 96.06% 95% 14.3 14.56",
        "tpot p95 binds: at 14.56 it no longer passes. Behind is ttft p95, at 15.1, 3.662% higher.",
        "WHICH CONSTRAINT",
        "Step time: at 14.56 requests/s",
        "the KV cache is up to 18.42% full, 31.72 of 256 sequences run",
        "WHAT WOULD CHANGE IT",
        "Without tpot p95 a replica passes at 14.56 and no longer at 15.1 requests/s (ttft p95): 7 replicas",
        "Neither the reserve nor replica_missing decides alone",
        "up to about 83.45 requests/s",
        "With every step 5% longer it still holds; with 10% longer it is not shown to hold.",
        "Worth a sweep: engine.max_num_batched_tokens, now 2048",
    )


@pytest.mark.parametrize(
    "make", [lambda: stored("plan"), with_failed_requests, without_latency_gates, given_fleet]
)
def test_every_line_fits_and_the_data_is_json(make: Callable[[], Json]) -> None:
    why = plan_explanation(make())
    assert json.loads(json.dumps(why, allow_nan=False)) == why
    assert max(map(len, explained_plan(why).splitlines())) <= WIDTH


def test_the_binding_gate_is_the_plans_own() -> None:
    result = stored("plan")
    why = plan_explanation(result)
    assert [why["gates"][0]["name"]] == result["binding"]["gates"]
    assert why["gates"][0]["ends_at"] == result["binding"]["at_rate"]
    assert why["gates"][0]["passes_up_to"] == result["operating_point"]["rate"]


def test_gates_end_in_order_and_the_steady_ones_by_overload() -> None:
    gates = plan_explanation(stored("plan"))["gates"]
    assert [gate["name"] for gate in gates] == ["tpot p95", "ttft p95", "error rate"]
    assert [gate["ended_by"] for gate in gates] == ["tpot p95", "ttft p95", "overload"]
    assert all(gate["passes_up_to"] < gate["ends_at"] for gate in gates)


def test_without_a_gate_that_ends_overload_does() -> None:
    text = explained_plan(plan_explanation(without_latency_gates()))
    in_order(text, "Every gate holds until the replica is overloaded, at 25.16.")
    assert "Without" not in text.partition("WHAT WOULD CHANGE IT")[2].partition("Neither")[0]


@pytest.mark.parametrize(
    ("figures", "name"),
    [
        ({}, "step time"),
        ({"preemptions": 3.0}, "KV cache"),
        ({"blocks_max": 1e9}, "KV cache"),
        ({"running": 250.0}, "max_num_seqs"),
        ({"overloaded": "offered more than it serves"}, "throughput"),
    ],
)
def test_the_constraint_is_what_is_full(figures: dict[str, Any], name: str) -> None:
    why = changed(lambda result: at_the_limit(result).update(figures))
    assert why["constraint"]["name"] == name
    assert name.lower().removeprefix("max_num_seqs") in explained_plan(why).lower()
    assert why["try"]["setting"].startswith("engine.")


def test_a_full_pool_is_not_advised_to_be_left_alone() -> None:
    full = explained_plan(changed(lambda result: at_the_limit(result).update(preemptions=3.0)))
    assert "would change nothing" not in full
    assert "engine.kv_cache_dtype, now auto" in full


def test_where_prefixes_are_found_more_cache_may_help() -> None:
    in_order(
        explained_plan(plan_explanation(stored("plan"))),
        "More KV cache or a larger max_num_seqs would change",
    )
    found = explained_plan(changed(lambda result: at_the_limit(result).update(prefix_hit_rate=0.3)))
    assert "More KV cache" not in found
    in_order(found, "A larger max_num_seqs would change nothing")


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (["pass", "pass", "pass"], "With every step 20% longer it still holds, the longest tried."),
        (["pass", "fail", "fail"], "5% longer it still holds; with 10% longer it does not hold."),
        (["undecided", "fail", "fail"], "With every step 5% longer it is not shown to hold."),
    ],
)
def test_longer_steps_have_their_verdict(verdicts: list[str], said: str) -> None:
    def judge(result: Json) -> None:
        steps = zip((1.05, 1.1, 1.2), verdicts, strict=True)
        result["confidence"]["slowdowns"] = [{"factor": factor, "verdict": each} for factor, each in steps]

    in_order(explained_plan(changed(judge)), said)


def lose(result: Json, *names: str) -> None:
    """The fleet of one less fails under these loads alone."""
    for trial in result["answer"]["one_less"]["trials"]:
        trial["verdict"], trial["reason"] = ("fail", "tpot p95") if trial["name"] in names else ("pass", "")


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (("replica_missing",), "Without replica_missing, a fleet of 6 would do"),
        (("full fleet",), "The reserve decides: a fleet of 6 passes replica_missing, not the full load."),
        (("full fleet", "replica_missing"), "Neither the reserve nor replica_missing decides alone"),
    ],
)
def test_the_load_that_decides_is_named(lost: tuple[str, ...], said: str) -> None:
    in_order(explained_plan(changed(lambda result: lose(result, *lost))), said)


def test_a_demand_is_explained_by_what_ends_it() -> None:
    result = given_fleet(full_fleet="pass")
    why = plan_explanation(result)
    drilled = result["served"]["above"]["trials"][1]["point"]
    pool = share(drilled["blocks_max"] / result["memory"]["usable_blocks"])
    in_order(
        explained_plan(why),
        "why 7 replicas serve 80 requests/s",
        "WHICH DEMAND",
        "80 requests/s are the most that the fleet is shown to hold. At 82.171 requests/s it does not:",
        "full fleet, 7 replicas at 96/s, passes. That is 14.5 requests/s a replica, 101.4% of what one passes alone.",
        "replica_missing, 6 of 7 replicas at 80/s, fails: tpot p95. That is 14.5 requests/s a replica",
        f"Step time: neither memory nor batch is full ({pool} of the KV cache at most, 0 preemptions a run;",
        "WHICH LOAD",
        "Without tpot p95 a replica passes at 14.56 and no longer at 15.1 requests/s (ttft p95): 84.96 to 88.07",
        "Without replica_missing, the fleet at 82.171 requests/s would do",
    )
    assert "has room" not in explained_plan(why)
    assert [load["verdict"] for load in why["served"]["above"]] == ["pass", "fail"]


def test_a_demand_in_tokens_is_explained_in_tokens() -> None:
    result = given_fleet()
    result["served"] |= {"unit": "output_tokens", "bracket": [15_999.0, 16_432.0]}
    result["served"]["above"]["verdict"] = "undecided"
    in_order(
        explained_plan(plan_explanation(result)),
        "serve 15999 output tokens/s",
        "At 16432 output tokens/s it is not shown to:",
    )


def test_what_is_full_at_more_demand_is_named() -> None:
    result = given_fleet()
    for trial, figures in zip(
        result["served"]["above"]["trials"], ({"preemptions": 3.0}, {"running": 250.0}), strict=True
    ):
        trial["point"].update(figures)
    in_order(explained_plan(plan_explanation(result)), "The KV cache is full", "The batch is full")


def test_a_fleet_of_one_less_may_hold_a_demand_within_the_bracket() -> None:
    def hold(result: Json) -> None:
        result["answer"]["one_less"]["verdict"] = "pass"

    in_order(explained_plan(changed(hold)), "A fleet of 6 holds them too, within the bracket.")


def test_an_undecided_fleet_is_not_said_to_fail() -> None:
    def undecide(result: Json) -> None:
        result["answer"]["one_less"]["verdict"] = "undecided"

    in_order(
        explained_plan(changed(undecide)), "A fleet of 6 is not shown to hold, so that this is the smallest:"
    )


def test_one_replica_has_no_fleet_of_one_less() -> None:
    def single(result: Json) -> None:
        result["answer"]["one_less"] = None

    in_order(explained_plan(changed(single)), "One replica is the smallest fleet.")


def test_the_estimate_is_the_plans_formula_with_its_drills() -> None:
    result = stored("plan")
    assert estimated_fleet(result, 96.0) == 2  # one for the full load, and one more that may be missing
    assert estimated_fleet(result, 10.0) == 10  # ceil(80 * 1.2 / 10)
    assert estimated_demand(result, 12.0) == pytest.approx(70)  # 7 replicas with a reserve of a fifth
    assert estimated_demand(result, 10.0) == pytest.approx(min(70 / 1.2, 60))
    result["configuration"]["plan"] |= {"drills": [], "reserve": "0%"}
    assert estimated_fleet(result, 80.0) == 1
    assert estimated_demand(result, 12.0) == 84


@pytest.mark.parametrize(
    ("inside", "required", "used"),
    [(0.99, 0.95, 0.2), (0.95, 0.95, 1.0), (1.0, 1.0, 0.0), (0.99, 1.0, None)],
)
def test_misses_are_counted_against_those_that_are_allowed(
    inside: float, required: float, used: float | None
) -> None:
    assert misses_used(inside, required) == (None if used is None else pytest.approx(used))


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_explained_by_its_own_figures(name: str) -> None:
    result = stored(name)
    why = run_explanation(result)
    text = explained_run(why)
    assert json.loads(json.dumps(why, allow_nan=False)) == why
    assert max(map(len, text.splitlines())) <= WIDTH
    assert ("why every gate held" in text) is result["summary"]["passed"]
    assert {gate["name"] for gate in why["gates"]} == {gate["name"] for gate in result["summary"]["gates"]}
    used = [gate["misses_used"] for gate in why["gates"]]
    assert used == sorted(used, reverse=True)


def test_an_overloaded_run_says_so_and_where_its_first_tokens_waited() -> None:
    in_order(
        explained_run(run_explanation(stored("run-overload"))),
        "Overloaded: offered 200/s",
        "tpot p95 is missed: 56.04ms",
        "The batch was full",
        "first token of the request at p95: queue 3.367min",
    )


def test_no_feasible_answer_is_explained_by_its_limit() -> None:
    result = {
        "schema": "capsim.infeasible",
        "capsim_version": "0",
        "scenario": "big",
        "limit": "weights exceed the memory of a GPU by 3 GiB",
        "remedies": ["fp8 weights"],
    }
    why = infeasible_explanation(result)
    in_order(
        explained_infeasible(why), "big: why there is no feasible answer", "Weights exceed", "- fp8 weights"
    )
    in_order(explained_infeasible({**why, "remedies": []}), "Nothing single is known to.")
