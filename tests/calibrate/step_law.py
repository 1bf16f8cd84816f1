"""Steps whose parts are known exactly."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from calibrate.batch import mixed_batch
from calibrate.importers import ImportRequest
from calibrate.importers.step_source import StepSource
from calibrate.step_fit import MeasuredStep, Rates, pairs_of
from capsim.catalog import load_gpu, load_model
from capsim.cost import BatchShape, Chunk, RooflineCost
from capsim.units import parse_duration

MODEL = load_model("llama-3.1-8b")
REQUEST = ImportRequest(MODEL, gpu="h200", options={"date": "2026-08-21", "measured_by": "a test"})
ROOFLINE = RooflineCost(MODEL, load_gpu("h200"))
RATES = Rates(ROOFLINE.operators.seconds_per_query_key_pair, ROOFLINE.operators.seconds_per_context_token)
SLOWER = 1.2
"""Attention of the law takes so much longer than the roofline's."""
FIXED, PER_TOKEN = parse_duration("5ms"), parse_duration("22us")
DECODES, CONTEXTS = (1, 2, 4, 8, 16, 32, 64), (128, 512, 2048, 8192)
NEW, PAST = (64, 128, 256, 512, 1024, 2048, 4096, 8192), (0, 1024, 4096)


def law(batch: BatchShape) -> float:
    """Seconds of a step: a line in tokens, and attention by pairs or by tokens read."""
    tokens = batch.decodes + sum(chunk.new for chunk in batch.chunks)
    attention = SLOWER * RATES.per_context * batch.context
    for chunk in batch.chunks:
        arithmetic, reading = RATES.per_pair * pairs_of(chunk), RATES.per_context * (chunk.past + chunk.new)
        attention += SLOWER * max(arithmetic, reading)
    return FIXED + PER_TOKEN * tokens + attention


def steps_of(batches: Iterable[BatchShape]) -> tuple[MeasuredStep, ...]:
    return tuple(MeasuredStep(batch, law(batch)) for batch in batches)


def decode_steps(
    decodes: Iterable[int] = DECODES, contexts: Iterable[int] = CONTEXTS
) -> tuple[MeasuredStep, ...]:
    return steps_of(mixed_batch((), [context] * count) for count, context in product(decodes, contexts))


def prefill_steps(new: Iterable[int] = NEW, past: Iterable[int] = PAST) -> tuple[MeasuredStep, ...]:
    return steps_of(mixed_batch([Chunk(count, before)], ()) for count, before in product(new, past))


def mixed_steps() -> tuple[MeasuredStep, ...]:
    shapes = product((256, 1024), (0, 4096), (8, 32), (512, 2048))
    return steps_of(
        mixed_batch([Chunk(new, past)], [context] * decodes) for new, past, decodes, context in shapes
    )


def source_of(steps: tuple[MeasuredStep, ...], *, holds_host: bool = True) -> StepSource:
    return StepSource(
        file="steps.json",
        files=(),
        importer="test",
        engine="vllm",
        tool="a formula",
        unit="seconds",
        steps=steps,
        holds_host=holds_host,
        holds_logits=holds_host,
    )
