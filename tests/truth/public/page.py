"""The page of the documentation that is made of the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.truth.public.lengths import OUTPUT_SPREAD, PROMPT_SPREAD
from tests.truth.public.rows import Row
from tests.truth.public.run import Result
from tests.truth.public.tables import every_run, refused, sensitivities, silences, summaries, targets
from tests.truth.public.worst import worst
from tests.truth.table import Table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "background" / "public.md"
COMMAND = "python -m tests.truth.public --write docs/background/public.md"
HEAD = f"""# Published measurements

Serving measurements that others have published, simulated. Every error is signed, (simulated - measured) /
measured; *size* is the median of its sizes. `{COMMAND}`
computed all figures of this page and wrote it.

Nothing is fitted to any of these runs. Told are the settings, lengths and loads that their sources print. What
they do not tell was set before the first simulation:

- **Step cost.** A shipped profile where GPU, model's shapes, precisions and number of GPUs match, whatever the
  engine; else the roofline with its own defaults. 4-bit floats (mxfp4) are priced as 4-bit integers.
- **Engine.** Every engine has vLLM's scheduler. Limits and KV pool are the engine's own defaults where the
  command line does not state them: vLLM's by GPU, 8192 tokens and 2048 sequences of SGLang and of TensorRT-LLM,
  SGLang's own rule for the memory that it reserves. vLLM V0 has the rules of V1. Latencies outside the engine
  are 0.
- **Lengths.** Random prompts are as long as their mean; of a stated range uniform. Of ShareGPT only means are
  told: lognormal, with coefficients of variation of {PROMPT_SPREAD} (prompts) and {OUTPUT_SPREAD} (answers), those of
  300 prompts that one source prints; below is what equal lengths would change.
- **Prompts.** Nothing is shared but what inference-perf's generator repeats: a hundred prompts in turn.
- **Load.** A closed loop without a number of requests has ten a client. A constant rate of inference-perf has
  exponential gaps and the rate that its client achieved. A server run of MLPerf has each sample of its set once.

Three of these were set after a first simulation, when the facts had been found: the prompts and the gaps of
inference-perf, and the number of MLPerf's requests."""


def tables(results: Sequence[Result]) -> list[Table]:
    """All of the page."""
    return [
        targets(results),
        *summaries(results),
        sensitivities(results),
        silences(results),
        worst(results),
        refused(results),
        every_run(results),
        sources([result.row for result in results]),
    ]


def page(results: Sequence[Result]) -> str:
    """The page."""
    lines = [HEAD, ""]
    for table in tables(results):
        lines += table.markdown()
    return "\n".join(lines).rstrip() + "\n"


def sources(rows: Sequence[Row]) -> Table:
    """Where the figures were published, by the beginning of the runs' ids."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        groups.setdefault((row.name.split("-")[0], row["source_group"]), []).append(_document(row))
    lines = [
        (start, group, str(len(found)), "; ".join(dict.fromkeys(found)))
        for (start, group), found in groups.items()
    ]
    return Table(
        "Sources",
        ("Facts of these publications, attributed to them; nothing else of theirs is here.",),
        ("id begins", "source", "n", "published in"),
        tuple(lines),
        labels=4,
    )


def _document(row: Row) -> str:
    """The repository and its commit, and the folder; or the address."""
    place = row["source_url_or_repo_path"].split(" line ")[0].removeprefix("https://")
    repository, _, path = place.partition(" ")
    return f"{repository} {'/'.join(path.split('/')[:2])}".rstrip()
