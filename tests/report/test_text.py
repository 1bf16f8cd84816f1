from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from capsim.report import Json
from capsim.report.table import WIDTH
from capsim.report.text import fit_text, plan_text, run_text
from tests.report.results import stored, with_failed_requests, without_latency_gates

RUNS = ("run-rate", "run-overload", "run-closed", "run-trace")


def in_order(text: str, *parts: str) -> None:
    """Each part occurs after the one before it; a break of the line counts as a space."""
    flat, place = " ".join(text.split()), 0
    for part in parts:
        found = flat.find(part, place)
        assert found >= 0, f"{part!r} is not found after {flat[max(0, place - 60) : place]!r}"
        place = found + len(part)


def row(text: str, start: str) -> list[str]:
    """Cells of the first line that begins so."""
    return next(line for line in text.splitlines() if line.strip().startswith(start)).split()


def changed(change: Callable[[Json], None]) -> str:
    result = stored("plan")
    change(result)
    return plan_text(result)


def test_a_plan_begins_with_its_answer_and_ends_with_its_evidence() -> None:
    in_order(
        plan_text(stored("plan")),
        "ANSWER",
        "7 replicas (7 GPUs: 1 x h200 each) serve 80 requests/s inside every objective, with 20% in reserve.",
        "full fleet: 7 replicas at 96/s passes",
        "replica_missing: 6 of 7 replicas at 80/s passes",
        "ttft p95 at most 500ms",
        "ceil(80 / 13.8 * (1 + 0.2)) = 7, as estimated.",
        "What decides: full fleet (6 replicas at 96/s) fails: tpot p95;",
        "6 replicas fail: shown in simulation.",
        "BINDING CONSTRAINT",
        "up to 14.3 requests/s; at 14.56 tpot p95 no longer passes.",
        "HOW SURE",
        "passes at 14.3 requests/s, undecided from 14.56, fails at 17.61.",
        "ttft p95 245.9ms at most 500ms 95% 99.17% 98.57% to 99.76% 5 pass",
        "at least 3 a load",
        "up to 63% of such runs could still fail (rule of three, 95%)",
        "WARNING: no step was measured",
        "host_overhead, assumed (exposed CPU time",
        "nothing was measured",
        "still passes with every step 5% longer; it is undecided at 10% (full fleet: tpot p95)",
        "Literal replay of the trace, one run each: 7 replicas at 96/s passes (17.36 times as fast",
        "No quality gate",
        "Not modelled: - prefix caching",
        "EVIDENCE",
        "trace azure_conv_2023: 19,366 requests",
        "prefix reuse not recorded",
        "attribution Patel et al.",
        "prompt 1,155 1,020 4,083 4,142",
        "weights -14.96 derived bfloat16, TP 1",
        "hold 924,400 tokens; a token costs 128KiB",
        "mean of the demand 1,363 86 172MiB 671 256",
        "median 1,020 131 30.45ms 23.95ms 5.196ms 706ms",
        "bound by hand 49.39",
        "saturated 25.16",
        "operating point 14.30",
        "56.85% of saturated, 28.96% of the bound",
        "goodput there 13.80",
        "KV cache fills up to 10,275 of its 57,775 blocks (17.78%), with 0 preemptions",
        "* 14.30 pass 97.07%",
        "25.16 overloaded",
        "6 replica_missing 5 of 6 replicas at 80/s fail 5 ttft p95, tpot p95",
        "fingerprint 414afdee71f0159d",
    )


@pytest.mark.parametrize("name", RUNS)
def test_a_run_shows_users_engine_and_throughput_apart(name: str) -> None:
    in_order(
        run_text(stored(name)),
        "RESULT",
        "Goodput",
        "Gates",
        "Latency as users observe it",
        *("TTFT", "TPOT", "ITL", "E2E"),
        "Latency inside the engine",
        *("TTFT", "TPOT", "ITL", "E2E"),
        "Parts of users' TTFT",
        *("queue", "prefill", "sum"),
        "Throughput",
        *("offered requests", "input tokens", "output tokens", "total tokens", "goodput, output tokens"),
        "Counts",
        "error rate",
        "Occupancy",
        "KV cache",
        "HOW SURE",
        "no step was measured",
        "Not modelled",
        "Demand",
        "fingerprint",
    )


def test_the_figures_of_a_run() -> None:
    text = run_text(stored("run-rate"))
    in_order(
        text,
        "6 replicas at 80 requests/s (resampled trace): every gate passes in this run.",
        "Not overloaded: 52.03% of the 153.7 requests/s at which the fleet saturates.",
        "Goodput 79.47 requests/s and 16,960 output tokens/s; 99.55% of the requests",
        "TTFT 49.74 34.38 152.8 222.2 48,252",
        "TTFT 43.24 27.88 146.3 215.7 48,252",
        "sum 49.74 152.8",
        "48,252 offered, 48,250 completed, 2 rejected, 0 lost, 0 unfinished",
        "running sequences a replica 26.29 110",
        "blocks held 2,092 3,853 11,078",
        "share of the pool 3.62% 6.669% 19.17%",
        "Of 57,775 blocks of 16 tokens; 0.5887% of the room",
    )
    assert "overloaded" not in text.lower().replace("not overloaded", "")


def test_each_kind_of_load_is_named() -> None:
    assert "6 replicas, closed loop of 64 clients: every gate passes" in run_text(stored("run-closed"))
    recorded = "6 replicas under the trace as it was recorded (5.53 requests/s): every gate passes"
    assert recorded in run_text(stored("run-trace"))


def test_percentiles_of_an_overloaded_run_carry_the_word() -> None:
    text = run_text(stored("run-overload"))
    in_order(text, "FAILS ttft p95, tpot p95", "OVERLOADED: offered 200/s, saturated at 153.7/s.")
    titles = [line for line in text.splitlines() if line.startswith(("Gates", "Latency", "Parts"))]
    assert len(titles) == 4
    assert all("OVERLOADED" in title for title in titles)


def test_memory_alone() -> None:
    in_order(
        fit_text(stored("fit")),
        "It fits: 924,400 tokens of KV cache a replica",
        "GPU memory 139.80 data sheet",
        "KV cache 112.84 derived 57776 blocks",
        "57,775 usable blocks of 16 tokens",
        "p50 of the demand",
        "max_model_len 8,192 512 1GiB 112 112",
    )


def test_why_not_more_sequences_and_what_would_change_it() -> None:
    in_order(
        fit_text(stored("fit")),
        "Why only 256: max_num_seqs is 256; the KV cache would hold 675 sequences",
        "Preemption starts when more sequences than this run, at",
        "- the demand's final lengths, on average (1,362 tokens): never, 675 fit",
        "- all at their p95 (4,132 tokens): 223",
        "What would change it",
        "max_num_seqs 512 920,896 x0.996 672 512",
        "kv_cache_dtype fp8 1,848,832 x2 1,350 256",
        "What makes the KV cache so large or small",
        "8 KV heads for 32 query heads x4 x4",
    )


def test_nothing_that_would_help_is_said() -> None:
    result = stored("fit")
    result["changes"] = []
    in_order(fit_text(result), "What would change it", "No single setting does.")
    result = stored("fit")
    result["changes"] = result["changes"][1:]
    in_order(fit_text(result), "None of them alone lets more than 256 run at once.")


def test_an_engines_log_beside_the_model() -> None:
    result = stored("fit-log")
    text = fit_text(result)
    in_order(
        text,
        "weights -14.99 measured printed by the engine",
        "KV cache 58.11 measured 29751 blocks",
        "The engine's log",
        "weights 14.99 14.96 -0.03",
        "KV blocks: 29,751 in the log, 29,761 by the model (+0.03%).",
        "state engine.num_gpu_blocks: 29751",
        "Why only 347: the KV cache holds 347 sequences",
    )
    assert "WARNING" not in text
    result["log"]["disagreements"] = ["another model"]
    in_order(fit_text(result), "num_gpu_blocks: 29751", "WARNING: another model.")


def test_a_size_that_depends_on_the_length_is_said() -> None:
    result = stored("fit")
    result["memory"]["bytes_per_token"] = None
    in_order(fit_text(result), "hold 924,400 tokens; a token's size depends on the length of its sequence")


def test_no_line_is_too_long() -> None:
    texts = [plan_text(stored("plan")), plan_text(with_failed_requests()), fit_text(stored("fit"))]
    texts.append(fit_text(stored("fit-log")))
    texts += [run_text(stored(name)) for name in RUNS] + [run_text(lost()), run_text(shared())]
    assert max(len(line) for text in texts for line in text.splitlines()) <= WIDTH


def test_an_infinite_percentile_is_inf_and_a_missing_one_a_dash() -> None:
    failed = row(plan_text(with_failed_requests()), "17.61")
    assert failed.count("inf") == 4

    def of_one_token(result: Json) -> None:
        point = result["sweep"][0]
        point["error_rate"] = 0.0
        point["tpot"] = {figure: [None, None, None] for figure in point["tpot"]}

    text = changed(of_one_token)
    assert row(text, "3.774")[7:10] == ["-", "-", "-"]


def lost() -> Json:
    """The run at a rate, as if none of its requests had been completed."""
    result = stored("run-rate")
    summary = result["summary"]
    summary["counts"].update(completed=0, rejected=2, lost=48_250)
    summary["error_rate"] = 1.0
    for gate in summary["gates"]:
        gate.update(attained=0.0, passed=False)
    return result


def test_a_run_in_which_nothing_completed_says_so_and_prints_no_latency() -> None:
    text = run_text(lost())
    in_order(
        text,
        "RESULT NO REQUEST COMPLETED of 48,252 offered: 2 rejected, 48,250 lost.",
        "6 replicas at 80 requests/s (resampled trace): FAILS ttft p95, tpot p95, error rate in this run.",
        "Gates",
        "48,252 offered, 0 completed, 2 rejected, 48,250 lost",
        "Occupancy",
        "HOW SURE",
    )
    for figure in (
        "Latency",
        "Parts of",
        "Throughput",
        "Goodput",
        "Not overloaded",
        "No replica took a step",
    ):
        assert figure not in text


def test_replicas_that_took_no_step_have_no_occupancy() -> None:
    result = lost()
    result["summary"]["occupancy"]["steps"] = 0
    text = run_text(result)
    in_order(text, "no goodput. No replica took a step.")
    assert "KV cache a replica" not in text
    assert "blocks held" not in text


def test_an_overloaded_run_in_which_nothing_completed_is_both() -> None:
    result = lost()
    result["overloaded"] = "the backlog grows"
    in_order(run_text(result), "NO REQUEST COMPLETED", "FAILS", "OVERLOADED: the backlog grows.", "Gates")


def test_without_shared_prefixes_one_line_says_so() -> None:
    text = run_text(stored("run-rate"))
    in_order(text, "KV cache", "no token yet. The demand records no shared prefixes. HOW SURE")
    result = stored("run-rate")
    result["configuration"]["engine"]["enable_prefix_caching"] = False
    in_order(run_text(result), "no token yet. Prefix caching is off. HOW SURE")


def test_room_that_is_not_known_is_not_told() -> None:
    result = stored("run-rate")
    result["summary"]["kv_cache"]["unfilled_share"] = None
    in_order(run_text(result), "Of 57,775 blocks of 16 tokens. The demand")


def shared() -> Json:
    """The run at a rate, as if a quarter of its prompt tokens had been found."""
    result = stored("run-rate")
    result["demand"]["prefix_reuse"] = 0.4
    ttft = result["summary"]["user"]["ttft"]
    result["summary"]["kv_cache"].update(
        query_tokens=4000,
        hit_tokens=1000,
        hit_rate=0.25,
        evictions=70,
        warm_ttft={**ttft, "mean": 0.03, "count": 40_000},
        cold_ttft={**ttft, "mean": 0.06, "count": 8_250},
        warm_prompt=1300.0,
        cold_prompt=None,
    )
    return result


def test_what_prompts_found_in_the_cache() -> None:
    text = run_text(shared())
    in_order(
        text,
        "prompt tokens found 1,000 of 4,000 (25%)",
        "evictions 70 blocks",
        "part of the prompt found 30.00 34.38 152.8 222.2 40,000 1,300",
        "nothing found 60.00 34.38 152.8 222.2 8,250 -",
        "HOW SURE",
    )
    assert "no shared prefixes" not in text


def test_preemptions_and_tiers_are_told_where_there_were_any() -> None:
    result = stored("run-rate")
    result["summary"]["counts"]["preemptions"] = 12
    result["summary"]["kv_cache"].update(
        recomputed_tokens=345,
        recomputed_share=0.01,
        found_tokens=678,
        tiers=[
            {
                "name": "CPU memory",
                "hit_tokens": 32,
                "hit_rate": 0.02,
                "stored_blocks": 7,
                "stored_tokens": 112,
                "loaded_blocks": 2,
                "loaded_tokens": 32,
                "evicted_blocks": 1,
                "loading_time": 0.5,
            }
        ],
    )
    in_order(
        run_text(result),
        "The demand records no shared prefixes.",
        "preemptions 12: 345 tokens computed again (1% of all that prefill computed), 678 found again",
        "evictions 0 blocks",
        "tier CPU memory 32 tokens found (2%); 7 blocks (112 tokens) written, 2 (32 tokens) read, 1 evicted;",
    )


def test_an_answer_above_the_estimate_says_why() -> None:
    def above(result: Json) -> None:
        result["answer"].update(
            estimate=6, estimate_differs="6 do not pass: 6 replicas at 96/s (full fleet): tpot p95"
        )

    in_order(changed(above), "= 6; the answer is 7: 6 do not pass: 6 replicas at 96/s")


def test_one_less_undecided_is_said_to_be_undecided() -> None:
    def undecided(result: Json) -> None:
        result["answer"]["one_less"]["verdict"] = "undecided"

    in_order(
        changed(undecided),
        "6 replicas remain undecided after 5 runs",
        "7 is the smallest fleet shown to pass",
    )


def test_one_replica_is_the_smallest_fleet() -> None:
    def one(result: Json) -> None:
        result["answer"].update(
            replicas=1, gpus=2, one_less=None, deciding="one replica is the smallest fleet"
        )

    in_order(
        changed(one), "1 replica (2 GPUs: 2 x h200 each) serves 80", "one replica is the smallest fleet."
    )


def test_a_fleet_of_which_nothing_is_left_has_no_figures() -> None:
    def gone(result: Json) -> None:
        result["fleets"][0]["trials"][1].update(point=None, reason="no replica is left")

    in_order(changed(gone), "Fleets tried", "fail - no replica is left")


def test_a_bracket_that_ends_in_failure() -> None:
    def fails(result: Json) -> None:
        high = result["operating_point"]["bracket"][1]
        next(point for point in result["sweep"] if point["rate"] == high)["verdict"] = "fail"

    in_order(changed(fails), "passes at 14.3 requests/s, fails at 14.56.")


def test_single_runs_that_missed_a_gate_leave_no_rule_of_three() -> None:
    def missed(result: Json) -> None:
        result["confidence"]["runs_that_could_fail"] = None

    text = changed(missed)
    assert "rule of three" not in text
    in_order(text, "some of its runs missed a gate")


@pytest.mark.parametrize(
    ("cost", "outside", "words"),
    [
        (
            {"source": "measured", "description": "profile p"},
            0.002,
            "measured: profile p. - 0.2% of the simulated",
        ),
        (
            {"source": "measured", "description": "profile p"},
            0.2,
            "WARNING: 20% of the simulated steps lay outside",
        ),
        (
            {"source": "stated", "description": "1 ms"},
            0.0,
            "WARNING: no step was measured: the step cost is stated",
        ),
    ],
)
def test_what_the_step_cost_rests_on(cost: Json, outside: float, words: str) -> None:
    def rests(result: Json) -> None:
        result["confidence"].update(step_cost={**cost, "figures": {}}, steps_outside=outside)

    in_order(changed(rests), "HOW SURE", words)


VALIDATED: Json = {
    "same_service": True,
    "differences": [],
    "runs": 3,
    "requests": 1380,
    "score": {
        "ttft": {"mean_size": 0.2208, "worst": -0.2978, "worst_statistic": "p95"},
        "tpot": {"mean_size": None, "worst": 0.1384, "worst_statistic": "p50"},
    },
    "rate_per_replica": [13.3333, 13.7143],
    "validated_rate_per_replica": [5.0, 15.0],
    "inside": True,
    "notes": [],
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {},
            "- Validated on 3 measured runs (1,380 requests). Average error of the mean: TTFT 22.1%, TPOT -. Furthest "
            "off, of mean, p50 and p95: TTFT p95 -29.8%, TPOT p50 +13.8%. - The load of 13.33 to 13.71 requests/s a "
            "replica lies inside the validated 5 to 15. - The fleet",
        ),
        ({"runs": 1}, "Validated on 1 measured run (1,380"),
        (
            {"inside": False, "validated_rate_per_replica": [5.0, 12.0]},
            "- WARNING: the load of 13.33 to 13.71 requests/s a replica lies outside the validated 5 to 12, 14.29% "
            "above: how far off it is was not measured. - The fleet",
        ),
        (
            {"inside": False, "rate_per_replica": [4.0, 4.0], "validated_rate_per_replica": [5.0, 5.0]},
            "the load of 4 requests/s a replica lies outside the validated 5, 20% below:",
        ),
        (
            {"inside": False, "rate_per_replica": [4.0, 6.0], "validated_rate_per_replica": [5.0, 5.0]},
            "outside the validated 5, 20% above and 20% below:",
        ),
        ({"inside": None, "rate_per_replica": None}, "TPOT p50 +13.8%. - The fleet"),
        (
            {"notes": ["one thing", "another"]},
            "5 to 15. - WARNING: one thing. - WARNING: another. - The fleet",
        ),
        (
            {"score": {}, "validated_rate_per_replica": None, "inside": None},
            "- WARNING: the validation has no run that counts, so that no error is known. - The fleet",
        ),
        (
            {"same_service": False, "score": None, "differences": ["gpu was l4, here h200", "another"]},
            "- WARNING: validated for another service, so that its errors are not used: gpu was l4, here h200; "
            "another. - The fleet",
        ),
    ],
)
def test_how_well_the_service_was_validated(changes: Json, words: str) -> None:
    def known(result: Json) -> None:
        result["confidence"]["validation"] = {**VALIDATED, **changes}

    in_order(changed(known), "HOW SURE", words)


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        (["pass", "pass"], "still passes with every step 10% longer; more was not tried"),
        (["fail"], "WARNING: with every step longer the fleet fails already at 5%"),
        ([], "Longer steps were not tried"),
    ],
)
def test_how_much_longer_steps_may_be(verdicts: list[str], words: str) -> None:
    def slower(result: Json) -> None:
        kept = result["confidence"]["slowdowns"][: len(verdicts)]
        result["confidence"]["slowdowns"] = [
            {**slow, "verdict": verdict} for slow, verdict in zip(kept, verdicts, strict=True)
        ]

    in_order(changed(slower), words)


def test_a_replay_that_fails_names_its_gates() -> None:
    def fails(result: Json) -> None:
        replay = result["confidence"]["replays"][0]
        replay["passed"] = replay["gates"][1]["passed"] = False

    in_order(changed(fails), "7 replicas at 96/s FAILS tpot p95")


def test_requests_that_cannot_be_served_and_notes_are_told() -> None:
    def odd(result: Json) -> None:
        result["demand"].update(unservable_share=0.02, notes=["3 rows had no output tokens"])

    in_order(
        changed(odd),
        "HOW SURE",
        "WARNING: 2% of the requests exceed max_model_len",
        "3 rows had no output tokens",
    )


def test_a_target_in_output_tokens_is_shown_in_both_units() -> None:
    def tokens(result: Json) -> None:
        result["demand"].update(target=17000.0, unit="output_tokens", target_rate=80.5)

    in_order(changed(tokens), "serve 17,000 output tokens/s (80.5 requests/s) inside")


def test_a_synthetic_demand() -> None:
    def synthetic(result: Json) -> None:
        lengths = {
            key: result["demand"][key] for key in ("prompt", "output", "target", "unit", "target_rate")
        }
        result["demand"] = {
            **lengths,
            "concurrency": "open loop",
            "sampling": {"temperature": 0.7},
            "unservable_share": 0.0,
            "kind": "synthetic",
            "gap_cv": 1.0,
            "dispersion_of_counts": {"limit": 1.0},
            "prefix_reuse": 0.0,
            "source": "Poisson, prompt 512, output 256",
            "attribution": None,
        }

    in_order(
        changed(synthetic), "EVIDENCE", "gaps 1;", "prefix reuse 0%", "temperature 0.7", "source Poisson"
    )


def test_a_stated_quality_is_a_gate_without_samples() -> None:
    def quality(result: Json) -> None:
        gate = {
            "name": "mmlu",
            "limit": 0.6,
            "required": None,
            "observed": 0.65,
            "attained": None,
            "verdict": "pass",
        }
        result["operating_point"]["gates"].append(gate)

    in_order(changed(quality), "mmlu at least 0.6", "HOW SURE", "mmlu 0.65 at least 0.6 - - as stated - pass")


def test_a_plan_without_latency_gates() -> None:
    assert "ttft p95 at most" not in plan_text(without_latency_gates())


def test_text_does_not_load_matplotlib() -> None:
    program = "import sys, capsim.report.text; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
