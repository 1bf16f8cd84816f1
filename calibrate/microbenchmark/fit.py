"""From a raw file to a profile, and how well it predicts what it has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from calibrate.curves import reaching
from calibrate.draft import Curve, Draft, Operator
from calibrate.microbenchmark.attention_tables import attention_of
from calibrate.microbenchmark.case import ATTENTION, OPERATOR, Case
from calibrate.microbenchmark.coverage import Coverage
from calibrate.microbenchmark.evidence import (
    Alone,
    Repeats,
    alone_of,
    attention_errors,
    cost_of,
    failures_of,
    graphs_of,
    memory_of,
    repeats_of,
    step_errors,
    steps_of,
)
from calibrate.microbenchmark.gaps import gaps_of
from calibrate.microbenchmark.memory_section import memory_section
from calibrate.microbenchmark.operator_tables import communication_of, operators_of
from calibrate.microbenchmark.plan import Plan
from calibrate.microbenchmark.raw_file import Raw
from calibrate.microbenchmark.row import Row
from calibrate.microbenchmark.runner import ABOVE_CEILING, slowing
from calibrate.microbenchmark.scatter import scatter_warnings, spread_of
from calibrate.provenance import Provenance, SourceFile
from capsim.catalog import Gpu, Model
from capsim.cost.profile_tables import HeldOut
from capsim.errors import BadInput, Fault

IMPORTER = "capsim calibrate run"


@dataclass(frozen=True)
class Stated:
    """What the user says of the measurement.

    Attributes:
        measured_by, licence: for whoever is given the profile.
        gpu: the data sheet of the machine, None where the catalog has none; `gpu_name` is then its own.
        host: seconds of a step that the GPU waits for the CPU.
        host_tag: how they are known.
        host_note: likewise, in a sentence.
    """

    measured_by: str
    licence: str
    gpu: Gpu | None
    host: float
    host_tag: str
    host_note: str


@dataclass(frozen=True)
class Fitted:
    """What a raw file gave.

    Attributes:
        draft: the profile.
        steps: errors on whole steps of random batches, which the fit never sees, through all layers.
        attention: errors on attention at shapes that the tables do not hold.
        scaled: errors of the plain sum of operators times layers, without what lies between them, on whole steps at
            shapes that the tables hold.
        repeats: of whole steps.
        layers: that were measured as a whole.
        memory: bytes by what was measured, e.g. ``weights`` or ``activations of 512 tokens``.
        graphs: seconds of a decode step with CUDA graphs and without, by decodes.
        alone: one request.
        failures: how many cases failed, by why.
        warnings: what the reader must know, a sentence each.
    """

    draft: Draft
    steps: tuple[HeldOut, ...]
    attention: tuple[HeldOut, ...]
    scaled: tuple[HeldOut, ...]
    repeats: tuple[Repeats, ...]
    layers: int
    memory: Mapping[str, int]
    graphs: Mapping[int, tuple[float, float]]
    alone: Alone | None
    failures: Mapping[str, int]
    warnings: tuple[str, ...]


def fit(raw: Raw, model: Model, stated: Stated) -> Fitted:
    """The profile of a raw file.

    Raises:
        BadInput: rows lie above the ceilings, or too few shapes were measured for a table.
    """
    _refuse_impossible(raw)
    plan = raw.plan(model)
    coverage = Coverage.of(raw, plan)
    try:
        return _fitted(raw, plan, model, stated, coverage)
    except BadInput as error:
        if coverage.whole:
            raise
        raise BadInput(coverage.fault(raw.source), *error.faults) from error


def _fitted(raw: Raw, plan: Plan, model: Model, stated: Stated, coverage: Coverage) -> Fitted:
    bare, notes = _draft(raw, plan, stated, plan.limits.layers)
    plain = cost_of(replace(bare, host=0.0))
    gaps, gap_note = gaps_of(plain, steps_of(raw, "chain"))
    # What was measured as a whole may have fewer layers than the model; it is predicted with as many.
    cost = cost_of(replace(_with(bare, gaps, plan.limits.layers), host=0.0))
    whole, _ = _draft(raw, plan, stated, model.layers)
    whole = _with(whole, gaps, model.layers)
    notes += gap_note
    random = steps_of(raw, "random")
    steps, attention = step_errors(cost, random), attention_errors(cost, raw)
    held_out = steps or attention
    warnings = (*slowing(raw.rows), *coverage.warnings(), *scatter_warnings(spread_of(raw.rows), held_out))
    notes = [*notes, *_held_out_notes(plan, model, random, attention)]
    notes += [f"WARNING: {warning}." for warning in warnings]
    draft = replace(
        whole,
        held_out=held_out,
        provenance=replace(whole.provenance, notes=tuple(notes)),
        memory=memory_section(raw, plan, model),
    )
    return Fitted(
        draft=draft,
        steps=steps,
        attention=attention,
        scaled=step_errors(plain, [*steps_of(raw, "grid"), *steps_of(raw, "chain")]),
        repeats=repeats_of(raw, "random"),
        layers=plan.limits.layers,
        memory=memory_of(raw),
        graphs=graphs_of(raw),
        alone=alone_of(cost, raw),
        failures=failures_of(raw),
        warnings=warnings,
    )


def _draft(raw: Raw, plan: Plan, stated: Stated, layers: int) -> tuple[Draft, list[str]]:
    """The tables of a decoder of so many layers."""
    rank = plan.rank
    tokens = plan.limits.max_num_batched_tokens
    operators, operator_notes = operators_of(raw.source, raw.rows, rank, layers)
    reduce, reduce_notes = communication_of(raw.source, raw.rows, rank, layers, stated.gpu, tokens)
    attention, attention_notes = attention_of(raw.source, raw.rows, layers)
    notes = [*operator_notes, *reduce_notes, *attention_notes, stated.host_note, *_machine_notes(raw)]
    draft = Draft(
        provenance=_provenance(raw, replace(rank.model, layers=layers), stated, notes),
        operators=(*operators, *reduce),
        attention=attention,
        host=stated.host,
        host_tag=stated.host_tag,
        ranges=_ranges(raw.rows, plan),
        graph_sizes=plan.limits.graph_sizes,
    )
    return draft, notes


def _with(draft: Draft, gaps: Curve | None, layers: int) -> Draft:
    """The draft with what lies between the operators of each layer."""
    if gaps is None:
        return draft
    operator = reaching(Operator("gaps", "tokens", layers, "fitted", gaps))
    return replace(draft, operators=(*draft.operators, operator))


def _provenance(raw: Raw, model: Model, stated: Stated, notes: Sequence[str]) -> Provenance:
    head = raw.head
    name = head.machine.name
    return Provenance(
        gpu=stated.gpu.name if stated.gpu is not None else name,
        gpu_name=name,
        engine="torch",
        engine_version=head.machine.torch,
        model=model,
        dtype=head.dtype,
        kv_dtype=head.kv_dtype,
        tensor_parallel_size=head.tensor_parallel_size,
        routing="uniform" if model.experts is not None else "",
        date=head.date[:10],
        measured_by=stated.measured_by,
        licence=stated.licence,
        attribution=f"measured with capsim calibrate run by {stated.measured_by}",
        importer=IMPORTER,
        files=(SourceFile.of(Path(raw.source)),),
        notes=tuple(notes),
    )


def _machine_notes(raw: Raw) -> list[str]:
    machine, spread = raw.head.machine, spread_of(raw.rows)
    notes = [f"Measured on {machine}."]
    if spread is not None:
        notes.append(f"Repeats of one call spread by {100 * spread:.1f} % in the median of the rows.")
    if machine.device == "cuda":
        clocks = [each.clock for each in raw.conditions if each.clock]
        hottest = [each.temperature for each in raw.conditions if each.temperature]
        if clocks and hottest:
            notes.append(
                f"The clock was between {min(clocks):.0f} and {max(clocks):.0f} MHz, the GPU at most at "
                f"{max(hottest):.0f} C."
            )
        fused = (
            "compiled together" if machine.fused else "not compiled together, and so slower than an engine's"
        )
        notes.append(
            f"Kernels are torch's, not an engine's, timed inside CUDA graphs; element-wise ones were {fused}."
        )
    else:
        loads = [each.load for each in raw.conditions if each.load is not None]
        if loads:
            notes.append(f"The machine's load was between {min(loads):.1f} and {max(loads):.1f}.")
        notes.append("Kernels are torch's, not an engine's, timed with their launch.")
    return notes


def _ranges(rows: Sequence[Row], plan: Plan) -> dict[str, tuple[int, int]]:
    """Lowest and highest measured count of each axis that all tables of it cover."""
    measured = [row for row in rows if row.sample is not None]
    counts: dict[str, dict[str, list[int]]] = {"tokens": {}, "sequences": {}}
    for kind in plan.rank.operators():
        found = [
            row.case.count for row in measured if row.case.kind == OPERATOR and row.case.name == kind.name
        ]
        counts[kind.per][kind.name] = found
    ranges = {
        per: (max(min(found) for found in named.values()), min(max(found) for found in named.values()))
        for per, named in counts.items()
    }
    alone = {
        name: [row.case.shape for row in measured if row.case == Case(ATTENTION, name, batch=row.case.batch)]
        for name in ("prefill", "decode")
    }
    chunks = [batch.chunks[0] for batch in alone["prefill"]]
    axes = {
        "new": [chunk.new for chunk in chunks],
        "past": [chunk.past for chunk in chunks],
        "decodes": [len(batch.contexts) for batch in alone["decode"]],
        "context": [batch.contexts[0] for batch in alone["decode"]],
    }
    return ranges | {name: (min(found), max(found)) for name, found in axes.items()}


def _held_out_notes(
    plan: Plan, model: Model, steps: Sequence[Row], attention: Sequence[HeldOut]
) -> list[str]:
    if not steps:
        return [
            "No whole step was measured: the errors are those of attention at shapes that the tables lack."
        ]
    through = (
        "all layers" if plan.limits.layers == model.layers else f"the {plan.limits.layers} layers that fit"
    )
    return [
        f"Held out: {len(steps)} whole steps of random batches through {through}, none of which the tables have seen; "
        f"and attention at {sum(each.cases for each in attention)} shapes of its own."
    ]


def _refuse_impossible(raw: Raw) -> None:
    faults = [
        Fault(
            raw.source,
            f"{row.case} takes {row.seconds:.3g} s, {row.share:.2f} times faster than the ceilings allow: another "
            "dtype, cached, or not run",
            "",
            "a row measured anew (delete the line and continue the run)",
            "",
            row.line,
            1,
        )
        for row in raw.rows
        if row.failed == ABOVE_CEILING
    ]
    if faults:
        raise BadInput(*faults)
