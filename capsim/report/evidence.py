"""What an answer rests on: demand, memory, bounds, the sweep, and the fleets that were tried."""

from __future__ import annotations

from capsim.report import Json
from capsim.report.number import INFINITE, NOTHING, count, duration, milliseconds, number, share
from capsim.report.table import paragraph, table, terms
from capsim.units import format_size

GIB = 2**30
SEQUENCES = {
    "p50": "p50 of the demand",
    "mean": "mean of the demand",
    "p95": "p95 of the demand",
    "longest": "max_model_len",
}


def target(demand: Json) -> str:
    """What must be served, in the unit that was asked for."""
    rate = f"{number(demand['target_rate'])} requests/s"
    if demand["unit"] == "requests":
        return rate
    return f"{number(demand['target'])} {demand['unit'].replace('_', ' ')}/s ({rate})"


def demand_section(demand: Json) -> list[str]:
    """The demand: target, lengths, arrivals, burstiness, source."""
    header = ("tokens", "mean", "p50", "p95", "p99")
    rows = [
        (name, *(number(demand[name][figure]) for figure in ("mean", "p50", "p95", "p99")))
        for name in ("prompt", "output")
    ]
    about = [("target", target(demand)), ("load", _load(demand)), *_arrivals(demand)]
    return ["Demand", *terms(about), "", *table(header, "lrrrr", rows)]


def memory_section(memory: Json) -> list[str]:
    """The memory of one GPU, the KV pool, and what sequences cost in it."""
    lines = [
        (line["name"], f"{line['bytes'] / GIB:,.2f}", line["tag"], line["note"]) for line in memory["lines"]
    ]
    pool = (
        f"{count(memory['usable_blocks'])} usable blocks of {memory['block_size']} tokens hold "
        f"{count(memory['kv_tokens'])} tokens; {_size_of_token(memory)}."
    )
    limit = memory["max_num_seqs"]
    sequences = [
        (
            SEQUENCES.get(sequence["name"], sequence["name"]),
            count(sequence["tokens"]),
            count(sequence["blocks"]),
            format_size(sequence["bytes"]),
            count(sequence["concurrency"]),
            count(min(sequence["concurrency"], limit)),
        )
        for sequence in memory["sequences"]
    ]
    header = ("sequence", "tokens", "blocks", "KV cache", "fit at once", "run at once")
    return [
        "Memory of one GPU",
        *table(("part", "GiB", "tag", "note"), "lrll", lines),
        "",
        *paragraph(pool),
        "",
        *table(header, "lrrrrr", sequences),
        *paragraph(f"At most {count(limit)} sequences run at once (max_num_seqs)."),
    ]


def _size_of_token(memory: Json) -> str:
    if memory["bytes_per_token"] is None:
        return "a token's size depends on the length of its sequence (windows or states)"
    return f"a token costs {format_size(memory['bytes_per_token'])} on each GPU"


def baseline_section(baseline: list[Json]) -> list[str]:
    """One request alone on a replica."""
    if not baseline:
        return ["One request alone", *paragraph("Requests of these lengths cannot be served.")]
    rows = [
        (
            alone["lengths"],
            count(alone["prompt"]),
            count(alone["output"]),
            *(duration(alone[metric]) for metric in ("ttft", "engine_ttft", "tpot", "e2e")),
        )
        for alone in baseline
    ]
    header = ("lengths", "prompt\ntokens", "output\ntokens", "TTFT", "TTFT in\nthe engine", "TPOT", "E2E")
    return ["One request alone (the best a user can see)", *table(header, "lrrrrrr", rows)]


def rates_section(result: Json) -> list[str]:
    """The bound by hand beside what a replica serves when never idle, and inside the objectives."""
    bound, saturated, point = result["bound"], result["saturated_rate"], result["operating_point"]
    runs = saturated["replications"]
    tokens = number(point["goodput_output_tokens"])
    rows = [
        ("bound by hand", bound["rate"], f"data sheet, nothing lost; {bound['limit']} limits"),
        (
            "saturated",
            saturated["mean"],
            f"never idle; {number(min(runs))} to {number(max(runs))} in {len(runs)} runs",
        ),
        (
            "operating point",
            point["rate"],
            f"every gate passes; {share(point['share_of_saturated'])} of saturated, "
            f"{share(point['share_of_bound'])} of the bound",
        ),
        ("goodput there", point["goodput"], f"inside every objective; {tokens} output tokens/s"),
    ]
    header = ("one replica", "requests/s", "")
    return [
        "Rates",
        *table(header, "lrl", [(name, number(rate, zeros=True), note) for name, rate, note in rows]),
        *paragraph(_kv_cache(result)),
    ]


def _kv_cache(result: Json) -> str:
    """How full the KV pool of one replica gets at the operating point."""
    rate, pool = result["operating_point"]["rate"], result["memory"]["usable_blocks"]
    point = next(tested for tested in result["sweep"] if tested["rate"] == rate)
    most, preemptions, found = point["blocks_max"], point["preemptions"], point["prefix_hit_rate"]
    prefixes = f" and {share(found)} of the prompt tokens found in the prefix cache" if found else ""
    return (
        f"At the operating point a replica's KV cache fills up to {count(most)} of its {count(pool)} blocks "
        f"({share(most / pool)}), with {number(preemptions)} preemptions{prefixes}; means over runs."
    )


def sweep_section(sweep: list[Json], operating_point: float) -> list[str]:
    """Every rate that one replica was tried at."""
    header = ["offered\nper s", "verdict", "inside\nall", "goodput\nper s"]
    header += [f"{metric}\n{name}" for metric in ("TTFT", "TPOT") for name in ("p50", "p95", "p99")]
    rows = [_sweep_row(point, operating_point) for point in sweep]
    lines = [
        "Sweep of one replica (requests/s; TTFT and TPOT in ms)",
        *table([*header, "running"], "rlrrrrrrrrr", rows),
    ]
    lines += paragraph(
        '"*" marks the operating point; "inside all" is the share of requests inside every latency gate at once.'
    )
    if any(point["overloaded"] for point in sweep):
        lines += paragraph(
            '"overloaded" fails: its percentiles depend on how long the run was, and stand for no steady state.'
        )
    return lines


def fleets_section(fleets: list[Json]) -> list[str]:
    """Every fleet tried, under each load and drill."""
    rows = [
        (
            str(fleet["replicas"]),
            trial["name"],
            trial["load"],
            trial["verdict"],
            NOTHING if trial["point"] is None else str(trial["point"]["replications"]),
            trial["reason"],
        )
        for fleet in fleets
        for trial in fleet["trials"]
    ]
    header = ("replicas", "trial", "load", "verdict", "runs", "what does not pass")
    return ["Fleets tried", *table(header, "rlllrl", rows)]


def _load(demand: Json) -> str:
    concurrency = demand["concurrency"]
    return str(concurrency) if isinstance(concurrency, str) else f"closed loop of {concurrency} clients"


def _arrivals(demand: Json) -> list[tuple[str, str]]:
    dispersion = ", ".join(
        f"{window} {number(value)}" for window, value in demand["dispersion_of_counts"].items()
    )
    reuse, sampling = demand["prefix_reuse"], demand["sampling"]
    about = [
        (
            "burstiness",
            f"coefficient of variation of gaps {number(demand['gap_cv'])}; variance over mean of counts: {dispersion}",
        ),
        ("prefix reuse", reuse if isinstance(reuse, str) else share(reuse)),
        ("sampling", ", ".join(f"{key} {value}" for key, value in sampling.items()) or "not stated"),
        ("source", demand["source"]),
    ]
    if demand["kind"] == "trace":
        recorded = (
            f"{count(demand['requests'])} requests in {duration(demand['duration'])}, {number(demand['rate'])} "
            f"requests/s; other rates follow its rate in bins of {duration(demand['envelope_bin'])}"
        )
        about = [("trace", f"{demand['name']}: {recorded}"), *about, ("sha256", demand["sha256"])]
    if demand["attribution"]:
        about.append(("attribution", demand["attribution"]))
    return about


def _sweep_row(point: Json, operating_point: float) -> tuple[str, ...]:
    mark = "* " if point["rate"] == operating_point else ""
    latencies = [
        milliseconds(point[metric][name][0], _absent(point))
        for metric in ("ttft", "tpot")
        for name in ("p50", "p95", "p99")
    ]
    return (
        mark + number(point["rate_per_replica"], zeros=True),
        "overloaded" if point["overloaded"] else point["verdict"],
        share(point["attainment"][0]),
        number(None if point["goodput"][0] is None else point["goodput"][0] / point["replicas"], zeros=True),
        *latencies,
        number(point["running"]),
    )


def _absent(point: Json) -> str:
    """A percentile that is null: infinite where requests failed, not there where nothing has the metric."""
    return INFINITE if point["error_rate"] else NOTHING
