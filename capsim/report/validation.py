"""A validation in print: the verdict, errors by load, each run's figures, and what could not be checked."""

from __future__ import annotations

from collections.abc import Sequence

from capsim.report import Json
from capsim.report.number import NOTHING, count, duration, milliseconds, number, share
from capsim.report.table import paragraph, table

STATISTICS = ("mean", "p50", "p90", "p95", "p99")
LATENCIES = ("ttft", "tpot", "itl", "e2e")
BY_LOAD = (("ttft", "mean"), ("ttft", "p95"), ("tpot", "mean"), ("tpot", "p95"), ("e2e", "mean"))
"""Errors that the table by load has room for."""
RATES = {"request_throughput": "requests/s", "output_throughput": "output tokens/s"}
KINDS = {
    "replayed": "measured arrivals replayed",
    "drawn": "arrivals drawn at the stated rate",
    "closed": "closed loop",
}


def validation_text(result: Json) -> str:
    """A validation; lines of at most 100 columns.

    Args:
        result: as `capsim.plan.validation_result.validation_result` gives it.
    """
    checked = [run for run in result["runs"] if run["metrics"]]
    sections = [
        _title(result),
        ["RESULT", *_verdict(result), *_score(result)],
        *([["OVERHEAD FITTED", *_fit(result["fit"])]] if result["fit"] else []),
        *([["Error by load", *_by_load(checked)]] if checked else []),
        *(_run(run) for run in checked),
        ["NOT CHECKED", *_unchecked(result)],
        ["HOW SURE", *_caveats(result)],
        paragraph(
            f"capsim {result['capsim_version']}, fingerprint {result['fingerprint']}, of the service "
            f"{result['service']['fingerprint']}, seed {result['seed']}."
        ),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def signed(error: float | None) -> str:
    """An error with its sign, in percent with one decimal, e.g. ``-3.1%``."""
    return NOTHING if error is None else f"{100 * error:+.1f}%"


def shortened(name: str, most: int = 20) -> str:
    """A run's name for a column; a label may be of any length."""
    return name if len(name) <= most else f"{name[: most - 3]}..."


def standing(run: Json) -> str:
    """A word for a run that is shown and not judged, empty for one that counts."""
    words = ["FITTED"] * run["fitted"] + ["OVERLOADED"] * bool(run["overloaded"])
    return ", ".join(words)


def _title(result: Json) -> list[str]:
    same, service = result["comparable"], result["service"]
    fleet = f"{service['replicas']} replica{'' if service['replicas'] == 1 else 's'}"
    return [
        result["scenario"],
        *paragraph(f"{same['model']} ({same['dtype']}), {same['engine']}, {fleet}, against measured runs"),
    ]


def _verdict(result: Json) -> list[str]:
    runs = result["runs"]
    counts = sum(run["counts"] for run in runs)
    lines = []
    if result["budget"] is None:
        lines += paragraph("No budget was stated, so there is no verdict.")
    else:
        limits = ", ".join(
            f"{metric.upper()} {share(limit)}"
            for metric, limit in result["budget"].items()
            if metric != "statistics"
        )
        word = "INSIDE THE BUDGET" if result["inside_budget"] else "NOT INSIDE THE BUDGET"
        lines += paragraph(f"{word} of {limits} (mean, p50 and p95 of every run that counts).")
        for miss in result["misses"]:
            lines += paragraph(f"{miss}.", "-")
    return lines + paragraph(
        f"{counts} of {len(runs)} runs count"
        + "".join(
            f"; {word}: {', '.join(run['name'] for run in chosen)}"
            for word, chosen in (
                ("fitted on", [run for run in runs if run["fitted"]]),
                ("overloaded", [run for run in runs if run["overloaded"]]),
                ("not checked", [run for run in runs if not run["metrics"]]),
            )
            if chosen
        )
        + "."
    )


def _score(result: Json) -> list[str]:
    score = result["score"]
    if not score:
        return paragraph("No error to report: no run counts.")
    lines = ["", *paragraph("Error furthest off, (simulated - measured) / measured:")]
    lines += table(
        ("", *STATISTICS),
        "lrrrrr",
        [
            (metric.upper(), *(signed(score[metric][name]["worst"]) for name in STATISTICS))
            for metric in LATENCIES
            if metric in score
        ],
    )
    return lines


def _fit(fit: Json) -> list[str]:
    lines = paragraph(
        f"On {', '.join(fit['runs'])}: {duration(fit['host_overhead'])} more in every step, "
        f"{duration(fit['gateway_latency'])} more in the gateway. What is left of the fitted figures (mean and p50 of "
        f"TTFT and TPOT) is {share(fit['residual'])}, root mean square."
    )
    if fit["score_without"]:
        lines += paragraph("On the runs that count, without the fit the error furthest off was:")
        lines += table(
            ("", *STATISTICS),
            "lrrrrr",
            [
                (metric.upper(), *(signed(figures[name]["worst"]) for name in STATISTICS))
                for metric, figures in fit["score_without"].items()
            ],
        )
    return lines


def _by_load(runs: Sequence[Json]) -> list[str]:
    """Errors of each run, from the lowest load to the highest."""
    rows = [
        (
            shortened(run["name"]),
            number(run["load"]["measured_rate"]),
            number(run["load"]["measured_concurrency"]),
            *(signed(_error(run, metric, name)) for metric, name in BY_LOAD),
            standing(run).lower() or "counts",
        )
        for run in sorted(runs, key=lambda run: run["load"]["measured_rate"] or 0.0)
    ]
    titles = (f"{metric.upper()}\n{name}" for metric, name in BY_LOAD)
    return table(("run", "answered/s", "open", *titles, ""), "lrrrrrrrl", rows)


def _error(run: Json, metric: str, statistic: str) -> float | None:
    figures = run["metrics"].get(metric)
    error: float | None = None if figures is None else figures[statistic]["error"]
    return error


def _run(run: Json) -> list[str]:
    load, requests, word = run["load"], run["requests"], standing(run)
    lines = [f"{shortened(run['name'], 70)}{f' ({word})' if word else ''}"]
    said = f"{run['tool']}, {KINDS[load['kind']]}"
    said += (
        f" of {load['most_open']} clients"
        if load["kind"] == "closed"
        else f", {number(load['rate'])} requests/s"
    )
    said += f"; {count(requests['compared'])} requests compared"
    if run["model"]:
        said += f"; it names its model {run['model']}"
    lines += paragraph(f"{said}.")
    if run["overloaded"]:
        lines += paragraph(
            f"OVERLOADED: {run['overloaded']}. Latencies depend on how long the run was and are not judged."
        )
    rows = [row for metric in LATENCIES if metric in run["metrics"] for row in _latency(run, metric)]
    lines += table(("ms", *STATISTICS), "lrrrrr", rows)
    for metric, unit in RATES.items():
        if metric in run["metrics"]:
            figure = run["metrics"][metric]["mean"]
            lines += paragraph(
                f"{unit}: measured {number(figure['measured'])}, simulated {number(figure['simulated'])}, "
                f"{signed(figure['error'])}."
            )
    for note in run["notes"]:
        lines += paragraph(f"{note[:1].upper()}{note[1:]}.", "-")
    return lines


def _latency(run: Json, metric: str) -> list[tuple[str, ...]]:
    figures = [run["metrics"][metric].get(name) for name in STATISTICS]
    rows = [
        (
            f"{metric.upper()} {which}",
            *(NOTHING if each is None else milliseconds(each[which]) for each in figures),
        )
        for which in ("measured", "simulated")
    ]
    rows.append(("  error", *(NOTHING if each is None else signed(each["error"]) for each in figures)))
    if any(each and each["errors"] for each in figures):
        for place, name in enumerate(("  least of the runs", "  greatest")):
            rows.append(
                (
                    name,
                    *(
                        signed(each["errors"][place]) if each and each["errors"] else NOTHING
                        for each in figures
                    ),
                )
            )
    return rows


def _unchecked(result: Json) -> list[str]:
    sentences = [f"{run['name']}: {reason}." for run in result["runs"] for reason in run["unchecked"]]
    lines = [line for sentence in sentences for line in paragraph(sentence, "-")]
    return lines or paragraph("Nothing: every run has what its metrics take.")


def _caveats(result: Json) -> list[str]:
    validated, cost = result["validated"], result["service"]["step_cost"]
    lines = paragraph(f"Step cost {cost['source']}: {cost['description']}.", "-")
    if validated["rates"]:
        low, high = validated["rates"]
        said = f"Validated from {number(low)} to {number(high)} answered requests/s"
        if validated["concurrency"]:
            few, many = validated["concurrency"]
            said += f", {number(few)} to {number(many)} requests open on average"
        lines += paragraph(f"{said}; a load outside is not.", "-")
    lines += paragraph(
        "Each run was measured once: how far two runs of one load differ is part of every error.", "-"
    )
    for note in result["notes"]:
        lines += paragraph(f"{note[:1].upper()}{note[1:]}.", "-")
    lines += paragraph("Not modelled:", "-")
    for name in result["not_modelled"]:
        lines += paragraph(name, "-", depth=2)
    return lines
