"""From measured whole steps to a profile, for every source that measures no single kernels."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from calibrate.assumed import lm_head
from calibrate.draft import Draft, HeldOut, Provenance, SourceFile
from calibrate.importers import ImportRequest
from calibrate.regime import errors_of, shape_text
from calibrate.step_fit import MeasuredStep, Rates, fit
from calibrate.step_tables import StepTables, context_of, tables_of
from capsim.catalog import load_gpu
from capsim.cost import BatchShape, Chunk, Efficiency, ProfileCost, RooflineCost
from capsim.errors import BadInput, Fault

HELD_OUT_OF = 5
"""One shape in so many is kept out of the tables, to be predicted."""
FEWEST_TO_HOLD_OUT = 20
"""Steps below which all are needed for the tables."""
FARTHEST = 30.0
"""Times the roofline's seconds, or a fraction of them, at which a wrong unit is the likelier reason than a slow or
fast engine: units are a thousand apart, and 30 is about the middle of that."""
UNITS = ("nanoseconds", "microseconds", "milliseconds", "seconds")


@dataclass(frozen=True)
class StepSource:
    """Steps of one source, and what it is.

    Attributes:
        file: as messages name it.
        files: what was read.
        importer: its name.
        engine: whose steps they are, where the user does not say.
        tool: what measured, for the attribution.
        unit: of the source's times, one of `UNITS`.
        steps: what was measured.
        holds_host: the seconds include the time in which the GPU waits for the CPU.
        holds_logits: the seconds include output projection and sampling.
        notes: what else the reader of the profile must know.
        live: the engine served while it was measured, so that steps of one shape differ: the tables hold a fit with
            few parameters, and no measured step itself.
    """

    file: str
    files: tuple[SourceFile, ...]
    importer: str
    engine: str
    tool: str
    unit: str
    steps: tuple[MeasuredStep, ...]
    holds_host: bool
    holds_logits: bool
    notes: tuple[str, ...] = field(default=())
    live: bool = False


def decode_batch(contexts: Sequence[int]) -> BatchShape:
    """Decodes alone, one of each context (tokens, the new one included)."""
    return mixed_batch((), contexts)


def mixed_batch(chunks: Sequence[Chunk], contexts: Sequence[int]) -> BatchShape:
    """Chunks, and decodes of these contexts."""
    return BatchShape(
        chunks=tuple(chunks),
        decodes=len(contexts),
        context=sum(contexts),
        squared_context=sum(context * context for context in contexts),
        largest_context=max(contexts, default=0),
    )


def draft_of(source: StepSource, request: ImportRequest) -> Draft:
    """Fit the profile's tables to the steps, and test them on those kept out.

    Raises:
        BadInput: the GPU is not named, the steps do not suffice for all tables, or are in another unit.
    """
    request.refuse_experts()
    if request.gpu is None:
        what = "the file does not say which GPU was measured"
        raise BadInput(Fault(source.file, what, expected="its catalog name, e.g. --gpu h200"))
    if source.holds_host and request.host_overhead is not None:
        what = f"{request.host_overhead} seconds of host overhead are stated, but the steps include it"
        raise BadInput(Fault(source.file, what, expected="no host overhead"))
    roofline = _roofline(request, request.gpu)
    steps = _merged(source.steps)
    _check_unit(source, steps, roofline)
    _check_enough(source, steps)
    together = [step for step in steps if step.batch.chunks and step.batch.decodes and not source.live]
    kept, out = _split([step for step in steps if step not in together])
    operators = roofline.operators
    rates = Rates(operators.seconds_per_query_key_pair, operators.seconds_per_context_token)
    pieces = fit(kept, rates, live=source.live)
    tables = tables_of(pieces, kept, together, live=source.live)
    notes = [*source.notes, *_notes(steps, kept, tables, pieces.assumed_rate, source.live)]
    bare = _bare(source, request, tables, kept)
    if tables.attention.mixed is None:
        out = [*out, *together]
    held_out = _tested(bare, request, out)
    return _completed(bare, source, request, notes, held_out)


def _roofline(request: ImportRequest, gpu: str) -> RooflineCost:
    return RooflineCost(
        request.model,
        load_gpu(gpu),
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


def _check_unit(source: StepSource, steps: Sequence[MeasuredStep], roofline: RooflineCost) -> None:
    ratios = {step.seconds / roofline.step(step.batch): step for step in steps}
    ratio = sorted(ratios)[len(ratios) // 2]
    if 1 / FARTHEST <= ratio <= FARTHEST:
        return
    step = ratios[ratio]
    unit = UNITS.index(source.unit) - round(math.log(ratio, 1000))
    guess = f"is the file in {UNITS[unit]}?" if 0 <= unit < len(UNITS) else "is it the right GPU and model?"
    what = (
        f"half of the steps take {ratio:.3g} times what a roofline says or {'less' if ratio < 1 else 'more'}, e.g. "
        f"{shape_text(step.batch)}: {step.seconds:.3g} s for {roofline.step(step.batch):.3g} s; {guess}"
    )
    raise BadInput(Fault(source.file, what, expected=source.unit))


def _check_enough(source: StepSource, steps: Sequence[MeasuredStep]) -> None:
    """Refuse steps that leave a table without a base, saying what to measure."""
    contexts: dict[int, set[int]] = {}
    lengths = set()
    for step in steps:
        if not step.batch.chunks:
            contexts.setdefault(step.batch.decodes, set()).add(step.batch.context)
        elif not step.batch.decodes:
            lengths.add(step.tokens)
    told = sum(len(found) > 1 for found in contexts.values())
    faults = []
    if told < 2:
        what = f"{told} of {len(contexts)} numbers of decodes were measured at two contexts or more"
        faults.append(Fault(source.file, what, "decode", "at least 2, to tell attention from the rest"))
    if len(lengths) < 2:
        what = f"steps of chunks alone were measured at {len(lengths)} numbers of tokens"
        faults.append(Fault(source.file, what, "prefill", "at least 2"))
    if faults:
        raise BadInput(*faults)


def _split(steps: Sequence[MeasuredStep]) -> tuple[list[MeasuredStep], list[MeasuredStep]]:
    """Steps for the tables, and one shape in `HELD_OUT_OF` to test them, picked by a hash of the shape.

    Neither the order of the file nor the seconds have a say. The smallest and largest chunks, and the shortest and
    longest context of each number of decodes, stay in: the tests ask for what lies between, as a simulation does.
    """
    if len(steps) < FEWEST_TO_HOLD_OUT:
        return list(steps), []
    edges = _ends([step for step in steps if not step.batch.decodes])
    for decodes in {step.batch.decodes for step in steps if step.batch.decodes}:
        edges |= _ends([step for step in steps if step.batch.decodes == decodes])
    kept: list[MeasuredStep] = []
    out: list[MeasuredStep] = []
    for step in steps:
        digest = hashlib.sha256(repr(step.shape).encode()).digest()
        (out if digest[0] % HELD_OUT_OF == 0 and step.shape not in edges else kept).append(step)
    return kept, out


def _ends(steps: Sequence[MeasuredStep]) -> set[object]:
    """Shapes of the steps that are the first or last by tokens or by reach."""
    by_size = sorted(steps, key=lambda step: (step.tokens, _reach(step)))
    by_reach = sorted(steps, key=lambda step: (_reach(step), step.tokens))
    return {step.shape for order in (by_size, by_reach) for step in (order[0], order[-1])}


def _reach(step: MeasuredStep) -> int:
    """Context of a step's decodes, or the most tokens before a chunk."""
    if step.batch.decodes:
        return context_of(step)
    return max(past for _, past in step.batch.chunks)


def _bare(
    source: StepSource, request: ImportRequest, tables: StepTables, kept: Sequence[MeasuredStep]
) -> Draft:
    """The draft that prices what the source measured and nothing else."""
    options = request.options
    who = options.get("measured_by", "the user")
    version = request.engine_version or "not stated"
    provenance = Provenance(
        gpu=load_gpu(str(request.gpu)).name,
        gpu_name=options.get("gpu_name", str(request.gpu)),
        engine=request.engine or source.engine,
        engine_version=version,
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
    return Draft(provenance, tables.operators, tables.attention, 0.0, "measured", _ranges(kept))


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


def _tested(bare: Draft, request: ImportRequest, out: Sequence[MeasuredStep]) -> tuple[HeldOut, ...]:
    """Errors of the tables, composed as a simulation composes them, on steps that they do not hold."""
    cost = ProfileCost(
        bare.profile(), request.model, request.dtype, request.kv_dtype, request.tensor_parallel_size
    )
    batches = [step.batch for step in out]
    return errors_of(batches, [cost.step(batch) for batch in batches], [step.seconds for step in out])


def _completed(
    bare: Draft,
    source: StepSource,
    request: ImportRequest,
    notes: list[str],
    held_out: tuple[HeldOut, ...],
) -> Draft:
    """The draft with what the source does not measure, each by a rule that the notes state."""
    operators, host, tag = bare.operators, 0.0, "measured"
    if source.holds_host:
        notes.append("The time in which the GPU waits for the CPU is inside the steps: host is 0.")
    else:
        host, tag = _host(request, notes)
    if not source.holds_logits:
        gpu, most = load_gpu(bare.provenance.gpu), max(2, bare.ranges["sequences"][1])
        logits, note = lm_head(request.model, gpu, request.tensor_parallel_size, request.dtype, most)
        operators = (*operators, logits)
        notes.append(note)
    provenance = replace(bare.provenance, notes=tuple(notes))
    return replace(
        bare, provenance=provenance, operators=operators, host=host, host_tag=tag, held_out=held_out
    )


def _host(request: ImportRequest, notes: list[str]) -> tuple[float, str]:
    default = Efficiency().host_overhead
    if request.host_overhead is None:
        notes.append(
            "The time in which the GPU waits for the CPU is not in the source: assumed to be "
            f"{1e3 * default:g} ms a step."
        )
        return default, "assumed"
    notes.append(
        "The time in which the GPU waits for the CPU is not in the source: it is what the user stated."
    )
    return request.host_overhead, "assumed"


def _notes(
    steps: Sequence[MeasuredStep],
    kept: Sequence[MeasuredStep],
    tables: StepTables,
    assumed_rate: bool,
    live: bool,
) -> list[str]:
    noisy = sum(step.noisy for step in steps)
    if live:
        notes = [
            f"Whole steps of a live engine were logged ({len(steps)} shapes): what tokens, sequences, chunks and "
            "attention take is one fit of few parameters, and no logged step itself stands in the tables.",
            f"{noisy} shapes were measured once, or have chunks and count by their first step: they weigh half.",
        ]
    else:
        notes = [
            f"Whole steps were measured ({len(steps)} shapes); step_tokens and attention are a fit of their parts, "
            "which add up to the measured seconds at the shapes in the tables.",
            f"To never fall, attention was moved by at most {1e6 * tables.moved:.3g} us in a cell.",
        ]
    if noisy and not live:
        notes.append(f"{noisy} shapes are noisy by the source's own figures: they weigh half.")
    uneven = sum(step.batch.largest_context * step.batch.decodes > step.batch.context for step in steps)
    if uneven:
        notes.append(f"{uneven} shapes have decodes of unequal contexts: they are priced at the mean.")
    if assumed_rate:
        notes.append(
            "No shape tells a chunk's attention from its tokens (all are one chunk without a past): chunks take the "
            "roofline's seconds a pair of query and key, assumed."
        )
    if tables.apart is not None:
        notes.append(
            "Attention of chunks together with decodes is a table of all measured mixed shapes; prefill and decode "
            f"added up would be {100 * tables.apart:.1f} % off a step in the median."
        )
    if len(kept) == len(steps):
        notes.append("No shape was held out of the tables: there are too few.")
    return notes
