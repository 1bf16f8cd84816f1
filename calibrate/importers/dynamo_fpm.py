"""Forward-pass metrics of NVIDIA Dynamo: one record an engine iteration, live or from its self-benchmark.

Field names after Dynamo's documentation (Apache-2.0), record version 1: ``wall_time`` in seconds and
``scheduled_requests`` with ``num_prefill_requests``, ``sum_prefill_tokens``, ``sum_prefill_kv_tokens``,
``num_decode_requests``, ``sum_decode_kv_tokens`` and variances. Records are found at any depth of a JSON file, or one
a line. A record whose scheduled requests are all 0 is an idle engine's heartbeat and is dropped.

The records hold sums, not lengths: a step's chunks are taken to be equal and its decodes equally long, which costs
up to some per cent where they are not (17 % with sparse attention: ai-dynamo/dynamo, issue 12627).
"""

from __future__ import annotations

from pathlib import Path

from calibrate.chunks import equal_chunks
from calibrate.draft import Draft
from calibrate.importers import ImportRequest
from calibrate.importers.record import MOST_SEQUENCES, Record, read_records, refuse
from calibrate.importers.step_source import StepSource
from calibrate.importers.steps import draft_of
from calibrate.provenance import SourceFile
from calibrate.step_fit import MeasuredStep
from capsim.cost import BatchShape
from capsim.errors import BadInput, Fault

VERSION = 1


def read(path: Path, request: ImportRequest) -> Draft:
    """The draft of a file of records.

    Raises:
        BadInput: see `measured`; or the steps are in another unit, or do not suffice for a profile.
    """
    return draft_of(measured(path), request)


def measured(path: Path) -> StepSource:
    """The steps of a file.

    Raises:
        BadInput: the file is damaged, or has records of another version.
    """
    records = [found for record in read_records(path) for found in record.holding("scheduled_requests")]
    if not records:
        what = "no record has scheduled_requests"
        raise BadInput(Fault(str(path), what, expected="forward-pass metrics"))
    iterations = [_iteration(record) for record in records]
    refuse(records[0].faults)
    steps = tuple(step for step in iterations if step is not None)
    if not steps:
        raise BadInput(Fault(str(path), f"all {len(records)} records are heartbeats of an idle engine"))
    notes = ["The source has sums over the requests of a step: they are taken to be equally long."]
    if len(steps) < len(records):
        notes.append(f"{len(records) - len(steps)} heartbeats of an idle engine were dropped.")
    return StepSource(
        file=str(path),
        files=(SourceFile.of(path),),
        importer="dynamo-fpm",
        engine="vllm",
        tool="NVIDIA Dynamo's forward-pass metrics",
        unit="seconds",
        steps=steps,
        holds_host=True,
        holds_logits=True,
        notes=tuple(notes),
    )


def _iteration(record: Record) -> MeasuredStep | None:
    """The step of a record; None for a heartbeat."""
    version = record.count("version")
    if "version" in record and version != VERSION:
        record.fault("version", f"is {version}", str(VERSION))
        return None
    scheduled = record.record("scheduled_requests")
    prefills, decodes = (
        scheduled.count(key, most=MOST_SEQUENCES) for key in ("num_prefill_requests", "num_decode_requests")
    )
    if prefills == decodes == 0:
        return None
    new, past = scheduled.count("sum_prefill_tokens"), scheduled.count("sum_prefill_kv_tokens")
    cached = scheduled.count("sum_decode_kv_tokens")
    seconds = record.duration("wall_time")
    if new < prefills:
        what = f"{new} for {prefills} requests"
        scheduled.fault("sum_prefill_tokens", what, "a token or more for each")
        return None
    # The cached tokens of a decode do not count the one that it computes.
    chunks = equal_chunks(prefills, new, past)
    return MeasuredStep(BatchShape(chunks, decodes, cached + decodes), seconds)
