from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest

from calibrate.engine_steps import EngineHeader, EngineStep, header_path, read
from calibrate.importers import importer
from calibrate.importers.engine_steps import CONTEXT_RATIO, measured, pooled
from calibrate.step_fit import LIVE_SPACING, MeasuredStep, fit, thinned
from capsim.cost import BatchShape, Chunk, ProfileCost
from capsim.errors import BadInput
from tests.calibrate.step_law import (
    MODEL,
    PER_TOKEN,
    RATES,
    REQUEST,
    decode_steps,
    law,
    prefill_steps,
    steps_of,
)

OLD = (
    "t_start,t_sched_end,t_end,n_prefill_reqs,prefill_tokens,prefill_ctx,n_decode,decode_ctx,n_new,"
    "w_exec_start,w_exec_end,w_sample_start,w_sample_end"
)
NEW = f"case,kind,{OLD},chunks,decode_squares,decode_longest"
Cells = Sequence[object]


def written(path: Path, header: str, rows: Iterable[Cells]) -> Path:
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_several_chunks_known_by_their_sums_alone_are_taken_to_be_equal(tmp_path: Path) -> None:
    row = (1.0, 1.001, 1.05, 3, 100, 50, 4, 1000, 3, 1.002, 1.04, 1.041, 1.042)
    [step] = read(written(tmp_path / "old.csv", OLD, [row])).steps
    assert sum(chunk.new for chunk in step.batch.chunks) == 100
    assert sum(chunk.past for chunk in step.batch.chunks) == 50
    assert {chunk.new for chunk in step.batch.chunks} == {33, 34}
    assert not step.chunks_known
    assert (step.batch.squared_context, step.batch.largest_context) == (250_000, 250)
    assert (step.admitted, step.case, step.kind) == (3, "", "")


def test_chunks_and_unequal_contexts_are_read_where_they_stand(tmp_path: Path) -> None:
    row = (
        "a case",
        "admit",
        0,
        0.001,
        0.05,
        2,
        100,
        512,
        2,
        300,
        1,
        "",
        "",
        "",
        "",
        "90@0 10@512",
        50_000,
        200,
    )
    [step] = read(written(tmp_path / "new.csv", NEW, [row])).steps
    assert step.batch.chunks == (Chunk(90, 0), Chunk(10, 512))
    assert (step.batch.squared_context, step.batch.largest_context) == (50_000, 200)
    assert (step.chunks_known, step.case, step.kind) == (True, "a case", "admit")


def test_the_time_of_the_host_is_what_the_worker_does_not_take(tmp_path: Path) -> None:
    rows = [
        (1.0, 1.001, 1.05, 0, 0, 0, 1, 10, 0, 1.002, 1.04, 1.041, 1.043),
        (2.0, 2.001, 2.05, 0, 0, 0, 1, 11, 0, "", "", "", ""),
    ]
    first, second = read(written(tmp_path / "steps.csv", OLD, rows)).steps
    assert first.seconds == pytest.approx(0.05)
    assert first.schedule == pytest.approx(0.001)
    assert (first.execute, first.sample) == (pytest.approx(0.038), pytest.approx(0.002))
    assert first.host == pytest.approx(0.05 - 0.038 - 0.002)
    assert (second.execute, second.sample, second.host) == (None, None, None)


def test_the_header_stands_beside_the_steps_packed_or_not(tmp_path: Path) -> None:
    path = written(tmp_path / "steps.csv", OLD, [(0, 0, 0.01, 0, 0, 0, 1, 10, 0, "", "", "", "")])
    assert read(path).header == EngineHeader()
    header = EngineHeader("vllm", "0.32.0", "a CPU", "tiny", {"layers": 2}, {"max_num_seqs": 8}, "2026-11-30")
    header_path(path).write_text(header.text())
    assert read(path).header == header
    packed = path.with_name("steps.csv.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert (read(packed).header, read(packed).steps) == (header, read(path).steps)


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"chunks": "90-0"}, "steps.csv:2:16: chunks: '90-0', expected chunks as new@past"),
        ({"chunks": "90@0 20@512"}, "are not 2 chunks of 100 tokens after 512"),
        (
            {"t_end": 0.0005},
            "t_end: 0, 0.001 and 0.0005, expected t_start, t_sched_end and t_end in this order",
        ),
        ({"decode_ctx": 1}, "decode_ctx: 1 for 2 decodes"),
        ({"prefill_tokens": 1, "chunks": ""}, "prefill_tokens: 1 for 2 chunks"),
        (
            {"n_prefill_reqs": 0, "prefill_tokens": 0, "prefill_ctx": 0, "chunks": "", "n_decode": 0},
            "no chunk and",
        ),
        ({"w_exec_start": "soon"}, "w_exec_start: 'soon' to '', expected numbers, or nothing"),
        ({"n_decode": -1}, "n_decode: '-1' is no such number"),
    ],
)
def test_a_step_that_contradicts_itself_is_refused(
    tmp_path: Path, cells: dict[str, object], says: str
) -> None:
    names = NEW.split(",")
    row = ("a", "admit", 0, 0.001, 0.05, 2, 100, 512, 2, 300, 1, "", "", "", "", "90@0 10@512", 50_000, 200)
    path = written(
        tmp_path / "steps.csv", NEW, [tuple((dict(zip(names, row, strict=True)) | cells).values())]
    )
    with pytest.raises(BadInput, match=None) as refused:
        read(path)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "steps.json:1:2: not valid JSON"), ("[]", "is no object"), ('{"settings": 3}', "settings: 3")],
)
def test_a_damaged_header_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path / "steps.csv", OLD, [(0, 0, 0.01, 0, 0, 0, 1, 10, 0, "", "", "", "")])
    header_path(path).write_text(text)
    with pytest.raises(BadInput, match=says):
        read(path)


def logged(batch: BatchShape, seconds: float) -> EngineStep:
    return EngineStep(batch, seconds, 0.0, None, None, 0.0, 0, "", "", True)


def test_decodes_of_near_contexts_are_one_step_and_of_chunks_the_first_counts() -> None:
    near = [logged(BatchShape((), 2, 2 * context), 0.01 * (1 + context % 3)) for context in range(100, 105)]
    far = logged(BatchShape((), 2, round(200 * CONTEXT_RATIO**3)), 0.02)
    chunk = BatchShape((Chunk(64, 0),), 1, 100)
    repeated = [logged(chunk, 0.05), logged(chunk._replace(context=101), 0.03), logged(chunk, 0.03)]
    steps = pooled([*near, far, *repeated])
    assert [step.batch.context for step in steps] == [204, far.batch.context, 100]
    assert [step.seconds for step in steps] == pytest.approx([0.02, 0.02, 0.05])


def file_of(
    path: Path, batches: Sequence[BatchShape], extra: float = 0.0, noise: Iterable[float] = repeat(1.0)
) -> Path:
    """A log of the law, with what each chunk and each sequence adds, and factors of noise."""
    rows = []
    for batch, factor in zip(batches, noise, strict=False):
        seconds = factor * (law(batch) + extra * (2 * len(batch.chunks) + batch.decodes))
        chunks = " ".join(f"{new}@{past}" for new, past in batch.chunks)
        new, past = (sum(chunk[place] for chunk in batch.chunks) for place in (0, 1))
        counts = (len(batch.chunks), new, past, batch.decodes, batch.context, 0)
        rows.append(("", "", 0, 0, f"{seconds:.9f}", *counts, "", "", "", "", chunks, 0, 0))
    return written(path, NEW, rows)


BATCHES = [
    *(step.batch for step in (*decode_steps(), *prefill_steps())),
    *(
        BatchShape((Chunk(new, 0),) * 2, decodes, decodes * 512)
        for new in (100, 400, 900)
        for decodes in (3, 20)
    ),
]


def test_a_log_becomes_a_profile_that_prices_chunks_and_sequences(tmp_path: Path) -> None:
    """Few counts: a line between them is up to some per cent off attention; the law itself is linear in tokens."""
    extra = 20 * PER_TOKEN
    path = file_of(tmp_path / "steps.csv", BATCHES, extra)
    draft = importer("engine-steps")(path, REQUEST)
    cost = ProfileCost(draft.profile(), MODEL, "bfloat16", "bfloat16", 1)
    for batch in BATCHES:
        seconds = law(batch) + extra * (2 * len(batch.chunks) + batch.decodes)
        assert cost.step(batch) == pytest.approx(seconds, rel=0.05)
    assert [operator.name for operator in draft.operators] == ["step_tokens", "step_sequences"]
    assert draft.provenance.importer == "engine-steps"
    assert (draft.host, draft.host_tag) == (0.0, "measured")


def test_the_fit_of_live_steps_finds_what_each_chunk_and_sequence_adds() -> None:
    extra = 20 * PER_TOKEN
    steps = [
        replace(step, seconds=step.seconds + extra * (2 * len(step.batch.chunks) + step.batch.decodes))
        for step in steps_of(BATCHES)
    ]
    found = fit(steps, RATES, live=True)
    assert found.per_sequence == pytest.approx(extra, rel=0.1)
    assert found.per_chunk == pytest.approx(extra, rel=0.1)
    assert found.counts == thinned((step.tokens for step in steps), LIVE_SPACING)


def test_what_the_header_says_is_the_profiles_and_must_not_be_contradicted(tmp_path: Path) -> None:
    path = file_of(tmp_path / "steps.csv", BATCHES)
    header = EngineHeader(
        "vllm", "0.32.0", "NVIDIA H200", MODEL.name, {"layers": MODEL.layers}, {"a": 1}, "2026-11-30"
    )
    header_path(path).write_text(header.text())
    read_steps = importer("engine-steps")
    stated = read_steps(path, replace(REQUEST, options={})).provenance
    assert (stated.engine, stated.engine_version, stated.gpu_name) == ("vllm", "0.32.0", "NVIDIA H200")
    assert stated.date == "2026-11-30"
    assert [file.name for file in stated.files] == ["steps.csv", "steps.json"]
    with pytest.raises(BadInput, match=r"steps.json: version: 0.32.0, expected 0.9"):
        read_steps(path, replace(REQUEST, engine_version="0.9"))
    header_path(path).write_text(replace(header, shapes={"layers": 3}).text())
    with pytest.raises(BadInput, match=r"shapes.layers: 3, expected 32 of llama-3.1-8b"):
        read_steps(path, REQUEST)


def test_a_profile_can_be_checked_against_a_log(tmp_path: Path) -> None:
    path = file_of(tmp_path / "steps.csv", BATCHES)
    source = measured(path)
    assert len(source.steps) == len(BATCHES)
    with path.open() as file:
        seconds = [float(row["t_end"]) for row in csv.DictReader(file)]
    assert [step.seconds for step in source.steps] == pytest.approx(seconds)


def test_noise_of_single_steps_stays_out_of_the_tables(tmp_path: Path) -> None:
    """Seconds vary by up to 20 % either way, 12 % in the standard deviation; a shape has some ten steps near it."""
    draw = np.random.default_rng(3)
    batches = [
        *(
            BatchShape((), n, n * (c + step))
            for n in (1, 2, 4, 8, 16, 32)
            for c in (128, 1024)
            for step in range(10)
        ),
        *(BatchShape((Chunk(new, 0),), 0, 0) for new in draw.integers(16, 2048, 40)),
        *(BatchShape((Chunk(new, 0),), 8, 8 * 512) for new in draw.integers(16, 2048, 40)),
    ]
    path = file_of(tmp_path / "steps.csv", batches, noise=draw.uniform(0.8, 1.2, len(batches)))
    draft = importer("engine-steps")(path, REQUEST)
    cost = ProfileCost(draft.profile(), MODEL, "bfloat16", "bfloat16", 1)
    errors = [abs(cost.step(batch) / law(batch) - 1) for batch in batches]
    assert np.median(errors) < 0.03
    assert max(errors) < 0.12


def test_the_fit_of_live_steps_is_their_mean() -> None:
    """Neighbours 30 % above and below the law: errors relative to what was measured would be least 17 % below it."""
    batches = [BatchShape((Chunk(new + odd, 0),), 0, 0) for new in range(16, 2048, 32) for odd in (0, 1)]
    steps = [*decode_steps(), *(MeasuredStep(batch, law(batch)) for batch in batches)]
    steps = [replace(step, seconds=step.seconds * (0.7, 1.3)[place % 2]) for place, step in enumerate(steps)]
    found = fit(steps, RATES, live=True)
    errors = [found.step(batch) / law(batch) - 1 for batch in batches]
    assert abs(np.mean(errors)) < 0.02
