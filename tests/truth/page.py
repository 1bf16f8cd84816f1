"""All comparisons, and the page of the documentation that is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.loop import outcome as loop
from tests.truth import blis, h200, http_server, quiet, quiet_profile, run_seconds, run_table, vllm_cpu_table
from tests.truth.table import INDISTINCT, MISS, Table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "background" / "fidelity.md"
COMMAND = "python -m tests.truth --write docs/background/fidelity.md"
HEAD = f"""# Fidelity

How far simulations are from measured runs. Every error is signed, (simulated - measured) / measured.
`{COMMAND}` computed all figures of this page and wrote it.

What was fitted stands with each table; nothing else was. `{MISS}` follows an error outside its target,
`{INDISTINCT}` one outside it by which repeats of the measurement differ too.
[What the comparisons are worth](why-trust-it.md#measured-runs-of-vllm)."""


def tables() -> Iterator[Table]:
    """Every comparison whose measurements are there."""
    yield run_table.table()
    yield run_seconds.table()
    yield vllm_cpu_table.table()
    yield http_server.table()
    yield loop.table(loop.kept())
    yield quiet_profile.table()
    yield quiet.table()
    yield h200.table()
    if not blis.missing():
        yield blis.table()


def summary(compared: list[Table]) -> Table:
    """All targets."""
    rows = (
        (table.title, verdict.figure, verdict.target, verdict.found, verdict.word)
        for table in compared
        for verdict in table.verdicts
    )
    return Table("Targets", (), ("measured run", "figure", "target", "found", ""), tuple(rows), labels=5)


def page(compared: list[Table]) -> str:
    """The page."""
    lines = [HEAD, ""]
    for table in (summary(compared), *compared):
        lines += table.markdown()
    return "\n".join(lines).rstrip() + "\n"
