"""Result of ``vllm bench forward --output-json``: the forward pass of exact batches, replayed as a CUDA graph.

Field names after vLLM 0.33.0 (Apache-2.0): a list of ``{case, requests: [{query_len, kv_len, num_draft_tokens,
chunked}], median_us, ranks: [{latency_us: {sample_spread_pct, ...}, ...}]}``, times in microseconds. ``kv_len`` is the
length after the step and includes the query. The time is the GPU's alone: scheduling, output projection and sampling
are not in it, and neither are model, precision, ranks and GPU in the file.
"""

from __future__ import annotations

from pathlib import Path

from calibrate.batch import mixed_batch
from calibrate.draft import Draft
from calibrate.importers import ImportRequest
from calibrate.importers.record import Record, read_records, refuse
from calibrate.importers.step_source import StepSource
from calibrate.importers.steps import draft_of
from calibrate.provenance import SourceFile
from calibrate.step_fit import MeasuredStep
from capsim.cost import Chunk
from capsim.errors import BadInput, Fault

NOISY_SPREAD = 0.5
"""Per cent of spread over a case's samples above which vLLM itself warns."""


def read(path: Path, request: ImportRequest) -> Draft:
    """The draft of a result file.

    Raises:
        BadInput: see `measured`; or the steps are in another unit, or do not suffice for a profile.
    """
    return draft_of(measured(path), request)


def measured(path: Path) -> StepSource:
    """The steps of a file.

    Raises:
        BadInput: the file is damaged or of another kind.
    """
    records = read_records(path)
    cases = [_case(record) for record in records]
    refuse(records[0].faults)
    steps = tuple(step for step in cases if step is not None)
    if not steps:
        raise BadInput(Fault(str(path), "every case verifies draft tokens", "", "cases without drafts"))
    drafts = len(cases) - len(steps)
    notes = (f"{drafts} cases with draft tokens were left out.",) if drafts else ()
    return StepSource(
        file=str(path),
        files=(SourceFile.of(path),),
        importer="vllm-bench-forward",
        engine="vllm",
        tool="vllm bench forward",
        unit="microseconds",
        steps=steps,
        holds_host=False,
        holds_logits=False,
        notes=notes,
    )


def _case(record: Record) -> MeasuredStep | None:
    """The step of a case; None where it verifies drafts, which a step of plain decodes does not resemble."""
    chunks: list[Chunk] = []
    contexts: list[int] = []
    drafts = False
    for each in record.records("requests"):
        query, length = each.count("query_len", 1), each.count("kv_len", 1)
        drafts |= each.number("num_draft_tokens", 0) > 0
        if length < query:
            each.fault("kv_len", f"{length} is less than the {query} tokens of the query, which it includes")
        # One token with a past is a decode, also as a chunk: the kernels do the same.
        if query == 1 and length > 1:
            contexts.append(length)
        else:
            chunks.append(Chunk(query, max(0, length - query)))
    seconds = 1e-6 * record.duration("median_us")
    spreads = [rank.record("latency_us").number("sample_spread_pct", 0) for rank in record.records("ranks")]
    if drafts:
        return None
    return MeasuredStep(mixed_batch(chunks, contexts), seconds, max(spreads, default=0) > NOISY_SPREAD)
