"""One simulation in print: how it stood, what users and the engine saw, and what was served."""

from __future__ import annotations

from capsim.report import Json
from capsim.report.confidence import demand_warnings, not_modelled, step_cost, validation
from capsim.report.gates import measured_gates
from capsim.report.kv_cache import kv_cache_section
from capsim.report.number import INFINITE, NOTHING, count, duration, milliseconds, number, share
from capsim.report.table import paragraph, table, terms

FIGURES = ("mean", "p50", "p95", "p99")
METRICS = ("ttft", "tpot", "itl", "e2e")
NOT_COMPLETED = ("rejected", "lost", "unfinished")
"""How a request ends that is not completed."""


def run_section(result: Json) -> list[list[str]]:
    """Sections of a run, its standing first; without a completed request there is no latency to print."""
    summary = result["summary"]
    word = "OVERLOADED, " if result["overloaded"] else ""
    completed = summary["counts"]["completed"]
    return [
        ["RESULT", *(_standing(result) if completed else _nothing_completed(result))],
        [f"Gates ({word}one run)", *measured_gates(summary["gates"])],
        *(_served(result, word) if completed else []),
        ["Counts", *_counts(summary)],
        *(_replicas(result) if summary["occupancy"]["steps"] else []),
        ["HOW SURE", *_caveats(result)],
    ]


def _served(result: Json, word: str) -> list[list[str]]:
    """What users got of the run."""
    summary = result["summary"]
    return [
        [f"Latency as users observe it ({word}ms)", *_latencies(summary["user"], summary)],
        [
            f"Latency inside the engine ({word}ms, from the engine's queue)",
            *_latencies(summary["engine"], summary),
        ],
        *_by_priority(summary, word),
        [f"Parts of users' TTFT ({word}ms, completed requests)", *_parts(summary)],
        ["Throughput", *_throughput(result)],
    ]


def _replicas(result: Json) -> list[list[str]]:
    """What went on inside the replicas."""
    return [["Occupancy", *_occupancy(result["summary"]["occupancy"])], kv_cache_section(result)]


def _nothing_completed(result: Json) -> list[str]:
    """How a run stood in which no request got all its tokens: nothing of it says how fast the fleet is."""
    counts = result["summary"]["counts"]
    ends = ", ".join(f"{count(counts[name])} {name}" for name in NOT_COMPLETED if counts[name])
    step = "" if result["summary"]["occupancy"]["steps"] else " No replica took a step."
    lines = paragraph(
        f"NO REQUEST COMPLETED of {count(counts['offered'])} offered: {ends}. There is no latency to report "
        f"and no goodput.{step}"
    )
    lines += paragraph(f"{offered_load(result)}: {verdict(result['summary'])} in this run.")
    return lines + (paragraph(f"OVERLOADED: {result['overloaded']}.") if result["overloaded"] else [])


def verdict(summary: Json) -> str:
    """Whether one run passed, as the end of a sentence."""
    missed = [gate["name"] for gate in summary["gates"] if not gate["passed"]]
    return f"FAILS {', '.join(missed)}" if missed else "every gate passes"


def _standing(result: Json) -> list[str]:
    summary, goodput = result["summary"], result["summary"]["goodput"]
    lines = paragraph(f"{offered_load(result)}: {verdict(summary)} in this run.")
    if result["overloaded"]:
        lines += paragraph(
            f"OVERLOADED: {result['overloaded']}. Percentiles depend on how long the run was, and stand for no "
            "steady state."
        )
    else:
        lines += paragraph(f"Not overloaded: {share_of_saturated(result)}.")
    return lines + paragraph(
        f"Goodput {number(goodput['requests'])} requests/s and {number(goodput['output_tokens'])} output tokens/s; "
        f"{share(goodput['joint_attainment'])} of the requests were inside every latency objective."
    )


def offered_load(result: Json) -> str:
    """Which fleet met which load."""
    load, demand = result["load"], result["demand"]
    fleet = f"{load['replicas']} replica{'' if load['replicas'] == 1 else 's'}"
    failures = len(result["configuration"]["fleet"]["failures"])
    if failures:
        fleet += f" with {failures} failure{'' if failures == 1 else 's'}"
    if load["kind"] == "closed":
        return f"{fleet}, closed loop of {load['concurrency']} clients"
    if load["kind"] == "recorded":
        return f"{fleet} under the trace as it was recorded ({number(demand['rate'])} requests/s)"
    drawn = "resampled trace" if demand["kind"] == "trace" else "synthetic arrivals"
    return f"{fleet} at {number(load['rate'])} requests/s ({drawn})"


def share_of_saturated(result: Json) -> str:
    """What was offered beside what the fleet can do, as the end of a sentence."""
    saturated = result["saturated_rate"]
    if result["load"]["kind"] == "closed":
        return f"clients wait for their answers; the fleet saturates at {number(saturated)} requests/s"
    offered = result["load"]["rate"] or result["summary"]["throughput"]["offered"]
    if offered is None:
        return f"all requests arrive at once; the fleet saturates at {number(saturated)} requests/s"
    return f"{share(offered / saturated)} of the {number(saturated)} requests/s at which the fleet saturates"


def _latencies(latencies: Json, summary: Json) -> list[str]:
    # A figure that is null is infinite where requests failed; otherwise nothing has the metric.
    absent = INFINITE if summary["error_rate"] else NOTHING
    rows = [
        (
            metric.upper(),
            *(milliseconds(latencies[metric][figure], absent) for figure in FIGURES),
            count(latencies[metric]["count"]),
        )
        for metric in METRICS
    ]
    lines = table(("", *FIGURES, "samples"), "lrrrrr", rows)
    if summary["itl_bound"]:
        lines += paragraph(f"ITL percentiles are exact to {share(summary['itl_bound'])} of their value.")
    return lines


def _by_priority(summary: Json, word: str) -> list[list[str]]:
    """What users of each priority saw, where there are several."""
    absent = INFINITE if summary["error_rate"] else NOTHING
    rows = [
        (
            f"{each['priority']}",
            metric.upper(),
            *(milliseconds(each[metric][figure], absent) for figure in FIGURES),
            count(each[metric]["count"]),
            count(each["preemptions"]) if metric == "ttft" else "",
        )
        for each in summary.get("priorities", [])
        for metric in ("ttft", "tpot", "e2e")
    ]
    header = ("priority", "", *FIGURES, "samples", "preempt.")
    return (
        [[f"Latency of each priority's users ({word}ms)", *table(header, "llrrrrrr", rows)]] if rows else []
    )


def _parts(summary: Json) -> list[str]:
    mean, p95 = summary["ttft_parts"], summary["ttft_parts_at_p95"]
    rows = [(name.replace("_", " "), milliseconds(mean[name]), milliseconds(p95[name])) for name in mean]
    rows.append(("sum", milliseconds(_sum(mean)), milliseconds(_sum(p95))))
    return table(("part", "mean", "request\nat p95"), "lrr", rows)


def _sum(parts: Json) -> float | None:
    return None if None in parts.values() else float(sum(parts.values()))


def _throughput(result: Json) -> list[str]:
    throughput, goodput = result["summary"]["throughput"], result["summary"]["goodput"]
    window = duration(throughput["window_end"] - throughput["window_start"])
    rows = [
        ("offered requests", throughput["offered"]),
        ("completed requests", throughput["requests"]),
        ("input tokens", throughput["input_tokens"]),
        ("output tokens", throughput["output_tokens"]),
        ("total tokens", throughput["total_tokens"]),
        ("goodput, requests", goodput["requests"]),
        ("goodput, output tokens", goodput["output_tokens"]),
    ]
    header = (f"in a window of {window}", "per second")
    return table(header, "lr", [(name, number(rate)) for name, rate in rows])


def _counts(summary: Json) -> list[str]:
    counts = summary["counts"]
    names = ("offered", "completed", *NOT_COMPLETED)
    ends = ", ".join(f"{count(counts[name])} {name}" for name in names)
    return terms(
        [
            ("requests", ends),
            ("error rate", share(summary["error_rate"])),
            (
                "warm-up",
                f"{count(counts['cut'])} requests cut before those" if counts["cut"] else "nothing cut",
            ),
            ("preemptions", count(counts["preemptions"])),
        ]
    )


def _occupancy(occupancy: Json) -> list[str]:
    rows = [
        (f"{name} a replica", number(occupancy[f"{key}_mean"]), count(occupancy[f"{key}_max"]))
        for name, key in (("running sequences", "running"), ("waiting sequences", "waiting"))
    ]
    steps = (
        f"{count(occupancy['steps'])} steps, busy for {duration(occupancy['busy_time'])} over all replicas, "
        f"{share(occupancy['mixed_steps'])} of the steps mix prefill and decodes"
    )
    return [*table(("", "mean", "most"), "lrr", rows), *paragraph(steps)]


def _caveats(result: Json) -> list[str]:
    lines = paragraph("One run: no interval. A plan judges by independent replications.", "-")
    for sentence in (
        *step_cost(result["step_cost"], result["summary"]["steps_outside"]),
        *validation(result.get("validation")),
        *demand_warnings(result["demand"]),
    ):
        lines += paragraph(sentence, "-")
    return lines + not_modelled(result["not_modelled"])
