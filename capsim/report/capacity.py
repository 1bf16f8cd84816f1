"""How many sequences the KV cache holds, why not more, and what would change it."""

from __future__ import annotations

from capsim.report import Json
from capsim.report.number import count, number, share
from capsim.report.table import paragraph, table

GIB = 2**30


def capacity_section(capacity: Json, max_num_seqs: int) -> list[str]:
    """Why so many sequences run at once, and from how many on they are preempted."""
    lines = [
        "Sequences at once",
        *paragraph(f"Why only {count(capacity['run_at_once'])}: {capacity['statement']}."),
    ]
    lines += paragraph(
        f"They hold {count(capacity['live_tokens'])} live tokens on average, {share(capacity['share_of_pool'])} of the "
        f"KV cache: {count(capacity['live_tokens_per_sequence'])} tokens each."
    )
    lines += paragraph("Preemption starts when more sequences than this run, at")
    for point in capacity["preemption"]:
        fit = count(point["above"])
        above = f"never, {fit} fit" if point["above"] >= max_num_seqs else fit
        lines += paragraph(
            f"{point['lengths']} ({count(point['tokens'])} tokens): {above}",
            "-",
        )
    return lines


def changes_section(changes: list[Json], capacity: Json) -> list[str]:
    """What would change it, ranked."""
    title = "What would change it (most sequences at once first)"
    if not changes:
        return [title, *paragraph("No single setting does.")]
    rows = [
        (
            change["name"],
            count(change["kv_tokens"]),
            _times(change["tokens_ratio"]),
            count(change["fit_at_once"]),
            count(change["run_at_once"]),
            count(change["longest_at_once"]),
            change["price"],
        )
        for change in changes
    ]
    header = (
        "setting",
        "KV cache\ntokens",
        "",
        "fit at\nonce",
        "run at\nonce",
        "longest\nat once",
        "price",
    )
    lines = [title, *table(header, "lrrrrrl", rows)]
    if all(change["run_at_once"] <= capacity["run_at_once"] for change in changes):
        lines += paragraph(f"None of them alone lets more than {count(capacity['run_at_once'])} run at once.")
    return lines


def factors_section(factors: list[Json]) -> list[str]:
    """What multiplies and what reduces the KV cache here."""
    rows = [
        (factor["name"], _times(factor["tokens_ratio"]), _times(factor["concurrency_ratio"]), factor["note"])
        for factor in factors
    ]
    return [
        "What makes the KV cache so large or small",
        *table(("factor", "tokens", "sequences\nat once", ""), "lrrl", rows),
    ]


def log_section(log: Json) -> list[str]:
    """What an engine printed beside what the memory model says."""
    rows = [
        (
            row["name"],
            *(f"{row[name] / GIB:,.2f}" for name in ("log", "model")),
            f"{row['difference'] / GIB:+,.2f}",
        )
        for row in log["lines"]
    ]
    blocks, model = log["num_gpu_blocks"], log["model_num_gpu_blocks"]
    error = f" ({(model - blocks) / blocks:+.2%})" if blocks else ""
    lines = [
        f"The engine's log {log['source']}",
        *table(("GiB", "log", "model", "model - log"), "lrrr", rows),
    ]
    lines += paragraph(f"KV blocks: {count(blocks)} in the log, {count(model)} by the model{error}.")
    lines += paragraph(f"To simulate with the engine's own, state engine.num_gpu_blocks: {blocks}")
    for sentence in log["disagreements"]:
        lines += paragraph(f"WARNING: {sentence}.")
    return lines


def _times(ratio: float) -> str:
    return f"x{number(round(ratio, 3))}"
