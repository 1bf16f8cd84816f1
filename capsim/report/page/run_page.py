"""One run as a page: how it stood, what users got, and what went on inside the replicas."""

from __future__ import annotations

from capsim.report import Json
from capsim.report.number import INFINITE, NOTHING, count, duration, number, share
from capsim.report.page.block import Block, Cell, Fact, Page, Section, Statements, Table
from capsim.report.page.evidence import (
    FIGURES,
    METRICS,
    course_sections,
    demand_section,
    identity,
    latency,
    priority_section,
    scenario_section,
    subject,
)
from capsim.report.page.gate_table import measured_table
from capsim.report.page.tag import Tag, simulated
from capsim.report.page.trust import run_trust, statements
from capsim.report.run import NOT_COMPLETED, offered_load, share_of_saturated, verdict


def run_page(result: Json, course: Json | None, command: str) -> Page:
    """Everything that a run's page says.

    Args:
        result: as `capsim.plan.run_result.run_result` gives it.
        course: of the run, as `capsim.plan.course.course_result` gives it; None: not kept.
        command: that asked for the run; empty: not known.
    """
    summary = result["summary"]
    steps = simulated(result["step_cost"], summary["steps_outside"])
    goodput = summary["goodput"]["requests"] or 0.0
    evidence = (
        _latency_section(summary, steps),
        priority_section(summary.get("priorities", []), steps),
        *course_sections(course, summary["gates"], steps),
        _throughput_section(summary, steps),
        _replica_section(summary, steps),
        demand_section(result["demand"]),
        scenario_section(result),
    )
    return Page(
        scenario=result["scenario"],
        subject=subject(result),
        kind="run",
        headline=Cell(number(goodput), goodput),
        unit="requests/s inside every objective",
        standing="overloaded" if result["overloaded"] else "pass" if summary["passed"] else "fail",
        sentence=f"{_capital(offered_load(result))}: {verdict(summary)} in this run.",
        tag=steps,
        facts=_facts(summary, steps),
        answer=(_standing(result), measured_table(summary["gates"], steps)),
        trust=run_trust(result),
        evidence=tuple(section for section in evidence if section is not None),
        command=command,
        identity=identity(result),
    )


def _standing(result: Json) -> Statements:
    counts = result["summary"]["counts"]
    said = [_load(result)]
    if not counts["completed"]:
        ends = ", ".join(f"{count(counts[name])} {name}" for name in NOT_COMPLETED if counts[name])
        said.insert(0, f"WARNING: No request completed of {count(counts['offered'])} offered: {ends}.")
    steps = simulated(result["step_cost"], result["summary"]["steps_outside"])
    return statements(said, steps)


def _load(result: Json) -> str:
    if result["overloaded"]:
        return (
            f"WARNING: Overloaded: {result['overloaded']}. Percentiles depend on how long the run was, and stand for "
            "no steady state."
        )
    return f"Not overloaded: {share_of_saturated(result)}."


def _facts(summary: Json, steps: Tag) -> tuple[Fact, ...]:
    counts, cache, user = summary["counts"], summary["kv_cache"], summary["user"]
    absent = INFINITE if summary["error_rate"] else NOTHING
    facts = [
        Fact(
            f"{metric.upper()} p95",
            Cell(duration(user[metric]["p95"], absent), user[metric]["p95"]),
            f"p50 {duration(user[metric]['p50'], absent)}, p99 {duration(user[metric]['p99'], absent)}",
            steps,
        )
        for metric in ("ttft", "tpot")
    ]
    most = cache["pool_share"]["max"]
    return (
        *facts,
        Fact(
            "KV cache, fullest replica",
            Cell(share(most), most),
            f"p95 over time {share(cache['pool_share']['p95'])}; {count(counts['preemptions'])} preemptions",
            steps,
        ),
        Fact(
            "Completed requests",
            Cell(count(counts["completed"]), counts["completed"]),
            f"of {count(counts['offered'])} offered; error rate {share(summary['error_rate'])}",
            steps,
        ),
    )


def _latency_section(summary: Json, steps: Tag) -> Section | None:
    """Latency as users observe it and inside the engine."""
    if not summary["counts"]["completed"]:
        return None
    # A figure that is null is infinite where requests failed; otherwise nothing has the metric.
    absent = INFINITE if summary["error_rate"] else NOTHING
    blocks: tuple[Block, ...] = tuple(
        Table(
            ("ms", *FIGURES, "samples"),
            "lrrrrr",
            tuple(latency(metric, summary[side][metric], absent) for metric in METRICS),
            steps,
            caption=caption,
        )
        for side, caption in (("user", "As users observe it"), ("engine", "From the engine's queue"))
    )
    return Section("Latency", blocks, f"E2E p95 {duration(summary['user']['e2e']['p95'], absent)}")


def _throughput_section(summary: Json, steps: Tag) -> Section:
    throughput, goodput = summary["throughput"], summary["goodput"]
    named = (
        ("offered requests", throughput["offered"]),
        ("completed requests", throughput["requests"]),
        ("input tokens", throughput["input_tokens"]),
        ("output tokens", throughput["output_tokens"]),
        ("goodput, requests", goodput["requests"]),
        ("goodput, output tokens", goodput["output_tokens"]),
    )
    rows = tuple((Cell(name), Cell(number(rate), rate)) for name, rate in named)
    window = duration(throughput["window_end"] - throughput["window_start"])
    tokens = f"{number(throughput['output_tokens'])} output tokens/s"
    table = Table((f"in a window of {window}", "per second"), "lr", rows, steps)
    return Section("Throughput", (table,), tokens)


def _replica_section(summary: Json, steps: Tag) -> Section | None:
    """Batch, queue and KV cache of the replicas while they worked."""
    occupancy, cache = summary["occupancy"], summary["kv_cache"]
    if not occupancy["steps"]:
        return None
    levels = tuple(
        (Cell(name), Cell(number(mean), mean), Cell(number(most), most))
        for name, mean, most in (
            ("sequences in the batch", occupancy["running_mean"], occupancy["running_max"]),
            ("sequences in the queue", occupancy["waiting_mean"], occupancy["waiting_max"]),
            ("KV blocks held", cache["blocks"]["mean"], cache["blocks"]["max"]),
        )
    )
    tokens = tuple(
        (Cell(name), Cell(count(found), found), Cell(share(part), part))
        for name, found, part in (
            ("prompt tokens found in the prefix cache", cache["hit_tokens"], cache["hit_rate"]),
            (
                "tokens computed again after preemptions",
                cache["recomputed_tokens"],
                cache["recomputed_share"],
            ),
        )
    )
    blocks = (
        Table(("a replica, while it works", "mean", "most"), "lrr", levels, steps),
        Table(("KV cache", "tokens", "share"), "lrr", tokens, steps),
    )
    busy = f"{count(occupancy['steps'])} steps, busy for {duration(occupancy['busy_time'])} over all replicas"
    return Section("Inside the replicas", blocks, busy)


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
