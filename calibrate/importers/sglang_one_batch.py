"""Result of ``python -m sglang.bench_one_batch``: one static batch a line, its prefill and its median decode step.

Field names after SGLang 0.5.23 (Apache-2.0): JSON lines with ``batch_size``, ``input_len``, ``output_len``,
``prefill_latency`` (seconds; all prompts in one step) and, where more than one token was asked for,
``median_decode_latency`` (seconds a step). The median decode step is the one in the middle of the output, at a context
of ``input_len + output_len / 2``. The benchmark runs the model without a server and waits for each step: its host time
is inside, and is not what a server that schedules ahead shows.
"""

from __future__ import annotations

from pathlib import Path

from calibrate.batch import mixed_batch
from calibrate.draft import Draft
from calibrate.importers import ImportRequest
from calibrate.importers.record import MOST_SEQUENCES, Record, read_records, refuse
from calibrate.importers.step_source import StepSource
from calibrate.importers.steps import draft_of
from calibrate.provenance import SourceFile
from calibrate.step_fit import MeasuredStep
from capsim.cost import Chunk


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
    steps = tuple(step for record in records for step in _steps(record))
    refuse(records[0].faults)
    return StepSource(
        file=str(path),
        files=(SourceFile.of(path),),
        importer="sglang-one-batch",
        engine="sglang",
        tool="sglang.bench_one_batch",
        unit="seconds",
        steps=steps,
        holds_host=True,
        holds_logits=True,
        notes=(
            "A decode step is the median over the output: it stands at a context of input_len + output_len / 2.",
            "Prefill was measured without a past and without decodes beside it.",
        ),
    )


def _steps(record: Record) -> list[MeasuredStep]:
    batch = record.count("batch_size", 1, MOST_SEQUENCES)
    prompt, output = record.count("input_len", 1), record.count("output_len", 1)
    steps = [MeasuredStep(mixed_batch([Chunk(prompt, 0)] * batch, ()), record.duration("prefill_latency"))]
    if output > 1:
        contexts = [prompt + output // 2] * batch
        steps.append(MeasuredStep(mixed_batch((), contexts), record.duration("median_decode_latency")))
    return steps
