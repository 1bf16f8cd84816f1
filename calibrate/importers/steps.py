"""From measured whole steps to a profile, for every source that measures no single kernels."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from calibrate.assumed import lm_head
from calibrate.draft import Draft
from calibrate.importers import ImportRequest
from calibrate.importers.step_checks import check_enough, check_unit
from calibrate.importers.step_notes import notes
from calibrate.importers.step_source import StepSource
from calibrate.importers.step_split import split
from calibrate.provenance import Provenance
from calibrate.regime import errors_of
from calibrate.stated import stated_gpu
from calibrate.step_fit import MeasuredStep, Rates, fit
from calibrate.step_tables import context_of, tables_of
from capsim.catalog import Gpu
from capsim.cost import Chunk, Efficiency, ProfileCost, RooflineCost
from capsim.cost.profile_tables import HeldOut
from capsim.errors import BadInput, Fault


def draft_of(source: StepSource, request: ImportRequest) -> Draft:
    """Fit the profile's tables to the steps, and test them on those kept out.

    Raises:
        BadInput: the GPU is not named, the steps do not suffice for all tables, or are in another unit.
    """
    gpu = _gpu(source, request)
    roofline = _roofline(request, gpu)
    steps = _merged(source.steps)
    check_unit(source, steps, roofline)
    check_enough(source, steps)
    together = [step for step in steps if step.batch.chunks and step.batch.decodes and not source.live]
    kept, out = split([step for step in steps if step not in together])
    operators = roofline.operators
    rates = Rates(operators.seconds_per_query_key_pair, operators.seconds_per_context_token)
    tables = tables_of(fit(kept, rates, live=source.live), kept, together, live=source.live)
    if tables.attention.mixed is None:
        out = [*out, *together]
    provenance = _provenance(source, request, gpu)
    bare = Draft(provenance, tables.operators, tables.attention, 0.0, "measured", _ranges(kept))
    tested = replace(bare, held_out=_held_out(bare, request, out))
    remarks = (*source.notes, *notes(steps, kept, tables, live=source.live))
    return _completed(tested, source, request, gpu, remarks)


def _gpu(source: StepSource, request: ImportRequest) -> Gpu:
    """The GPU that was measured, where the request goes with the source."""
    request.refuse_experts()
    if request.gpu is None:
        what = "the file does not say which GPU was measured"
        raise BadInput(Fault(source.file, what, expected="its catalog name, e.g. --gpu h200"))
    if source.holds_host and request.host_overhead is not None:
        what = f"{request.host_overhead} seconds of host overhead are stated, but the steps include it"
        raise BadInput(Fault(source.file, what, expected="no host overhead"))
    return stated_gpu(request.gpu)


def _roofline(request: ImportRequest, gpu: Gpu) -> RooflineCost:
    return RooflineCost(
        request.model,
        gpu,
        request.tensor_parallel_size,
        request.dtype,
        request.kv_dtype,
        Efficiency(host_overhead=0.0),
    )


def _merged(steps: Iterable[MeasuredStep]) -> list[MeasuredStep]:
    """One step a shape, by shape: the median of those that have it; certain if one of them is."""
    shapes: dict[tuple[tuple[Chunk, ...], int, int], list[MeasuredStep]] = {}
    for step in steps:
        shapes.setdefault(step.shape, []).append(step)
    return [
        replace(
            same[0],
            seconds=statistics.median(step.seconds for step in same),
            noisy=all(step.noisy for step in same),
        )
        for _, same in sorted(shapes.items())
    ]


def _provenance(source: StepSource, request: ImportRequest, gpu: Gpu) -> Provenance:
    options = request.options
    who = options.get("measured_by", "the user")
    return Provenance(
        gpu=gpu.name,
        gpu_name=options.get("gpu_name", str(request.gpu)),
        engine=request.engine or source.engine,
        engine_version=request.engine_version or "not stated",
        model=request.model,
        dtype=request.dtype,
        kv_dtype=request.kv_dtype,
        tensor_parallel_size=request.tensor_parallel_size,
        date=options.get("date", "not stated"),
        measured_by=who,
        licence=options.get("licence", "not stated"),
        attribution=options.get("attribution", f"measured with {source.tool} by {who}"),
        importer=source.importer,
        files=source.files,
    )


def _ranges(kept: Sequence[MeasuredStep]) -> dict[str, tuple[int, int]]:
    chunks = [Chunk(*chunk) for step in kept for chunk in step.batch.chunks]
    decoding = [step for step in kept if step.batch.decodes]
    axes = {
        "tokens": [step.tokens for step in kept],
        "sequences": [len(step.batch.chunks) + step.batch.decodes for step in kept],
        "new": [chunk.new for chunk in chunks],
        "past": [chunk.past for chunk in chunks],
        "decodes": [step.batch.decodes for step in decoding],
        "context": [context_of(step) for step in decoding],
    }
    return {name: (min(counts), max(counts)) for name, counts in axes.items()}


def _held_out(bare: Draft, request: ImportRequest, out: Sequence[MeasuredStep]) -> tuple[HeldOut, ...]:
    """Errors of the tables, composed as a simulation composes them, on steps that they do not hold."""
    cost = ProfileCost(
        bare.profile(), request.model, request.dtype, request.kv_dtype, request.tensor_parallel_size
    )
    batches = [step.batch for step in out]
    return errors_of(batches, [cost.step(batch) for batch in batches], [step.seconds for step in out])


def _completed(
    bare: Draft, source: StepSource, request: ImportRequest, gpu: Gpu, remarks: tuple[str, ...]
) -> Draft:
    """The draft with what the source does not measure, each by a rule that the notes state."""
    host, tag, remark = _host(source, request)
    operators, remarks = bare.operators, (*remarks, remark)
    if not source.holds_logits:
        most = max(2, bare.ranges["sequences"][1])
        logits, remark = lm_head(request.model, gpu, request.tensor_parallel_size, request.dtype, most)
        operators, remarks = (*operators, logits), (*remarks, remark)
    provenance = replace(bare.provenance, notes=remarks)
    return replace(bare, provenance=provenance, operators=operators, host=host, host_tag=tag)


def _host(source: StepSource, request: ImportRequest) -> tuple[float, str, str]:
    """Seconds of a step in which the GPU waits for the CPU, how they are known, and what to say of it."""
    waits = "The time in which the GPU waits for the CPU is"
    if source.holds_host:
        return 0.0, "measured", f"{waits} inside the steps: host is 0."
    if request.host_overhead is not None:
        return request.host_overhead, "assumed", f"{waits} not in the source: it is what the user stated."
    default = Efficiency().host_overhead
    return default, "assumed", f"{waits} not in the source: assumed to be {1e3 * default:g} ms a step."
