from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calibrate.importers.vllm_bench_forward import measured, read
from capsim.cost import ProfileCost
from capsim.errors import BadInput
from tests.calibrate.step_law import MODEL, REQUEST

SAMPLE = Path(__file__).parent / "samples" / "steps" / "vllm_bench_forward.json"
SLOWER = 1.07
"""The sample's times over the roofline's; see the README beside it."""
Case = dict[str, Any]


def edited(path: Path, edit: Callable[[list[Case]], object]) -> Path:
    """A copy of the sample whose cases were changed in place."""
    cases: list[Case] = json.loads(SAMPLE.read_text())
    edit(cases)
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
    return path


def test_the_sample_becomes_a_profile_with_its_provenance() -> None:
    draft = read(SAMPLE, replace(REQUEST, engine_version="0.33.0"))
    stated = draft.profile().provenance
    assert (stated.gpu, stated.engine, stated.engine_version) == ("h200", "vllm", "0.33.0")
    assert stated.importer == "vllm-bench-forward"
    assert [file["name"] for file in stated.files] == [SAMPLE.name]
    assert (stated.date, stated.measured_by) == ("2026-08-21", "a test")
    assert draft.ranges == {
        "tokens": (1, 8192),
        "sequences": (1, 32),
        "new": (64, 8192),
        "past": (0, 4096),
        "decodes": (1, 32),
        "context": (128, 8192),
    }


def test_the_tables_give_back_the_measured_steps() -> None:
    draft, steps = read(SAMPLE, REQUEST), measured(SAMPLE).steps
    cost = ProfileCost(draft.profile(), MODEL, "bfloat16", "bfloat16", 1)
    errors = []
    for step in steps:
        parts = cost.parts(step.batch)
        errors.append(abs((parts["step_tokens"] + parts["attention"]) / step.seconds - 1))
    # One case in five is held out and interpolated; the others are in the tables.
    assert sorted(errors)[len(errors) // 2] < 1e-3
    assert max(errors) < 0.05


def test_host_and_logits_are_not_in_the_file() -> None:
    draft = read(SAMPLE, replace(REQUEST, host_overhead=0.001))
    assert (draft.host, draft.host_tag) == (0.001, "assumed")
    assert {operator.name: operator.tag for operator in draft.operators} == {
        "step_tokens": "fitted",
        "lm_head": "assumed",
    }
    notes = " ".join(draft.provenance.notes)
    assert "lm_head" in notes
    assert "waits for the CPU" in notes


def test_cases_are_read_as_chunks_and_decodes(tmp_path: Path) -> None:
    def keep(cases: list[Case]) -> None:
        mixed = next(case for case in cases if case["case"] == "mixed_256_4096_8_512")
        cases[:] = [mixed]

    (step,) = measured(edited(tmp_path / "one.json", keep)).steps
    assert [tuple(chunk) for chunk in step.batch.chunks] == [(256, 4096)]
    assert (step.batch.decodes, step.batch.context, step.batch.largest_context) == (8, 8 * 512, 512)


def test_drafts_are_left_out_and_spreads_are_graded() -> None:
    source = measured(SAMPLE)
    assert len(source.steps) == len(json.loads(SAMPLE.read_text())) - 1
    assert source.notes == ("1 cases with draft tokens were left out.",)
    assert sum(step.noisy for step in source.steps) == 1


def test_unequal_contexts_are_noted(tmp_path: Path) -> None:
    def jitter(cases: list[Case]) -> None:
        for case in cases:
            if case["case"].startswith("decode_4_"):
                case["requests"][0]["kv_len"] -= 10
                case["requests"][1]["kv_len"] += 10

    draft = read(edited(tmp_path / "jitter.json", jitter), REQUEST)
    assert any("4 shapes have decodes of unequal contexts" in note for note in draft.provenance.notes)


def test_a_file_that_is_cut_off_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    text = SAMPLE.read_text()
    path.write_text(text[: text.index("prefill_64_0") + 100])
    cut = path.read_text().count("\n") + 1
    with pytest.raises(BadInput, match=rf"cut.json:{cut}:\d+: not valid JSON.*cut off here"):
        read(path, REQUEST)


def test_a_list_without_its_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text(SAMPLE.read_text().rstrip().rstrip("]"))
    with pytest.raises(BadInput, match="the list has no end: the file may be cut off here"):
        read(path, REQUEST)


@pytest.mark.parametrize(
    ("factor", "unit"), [(1e-3, "milliseconds"), (1e-6, "seconds"), (1e3, "nanoseconds")]
)
def test_times_in_another_unit_are_refused(tmp_path: Path, factor: float, unit: str) -> None:
    def scale(cases: list[Case]) -> None:
        for case in cases:
            case["median_us"] *= factor

    with pytest.raises(BadInput, match=f"is the file in {unit}.*expected microseconds"):
        read(edited(tmp_path / "unit.json", scale), REQUEST)


def test_every_missing_key_is_named_with_the_line_of_its_case(tmp_path: Path) -> None:
    def damage(cases: list[Case]) -> None:
        cases[0]["median_ms"] = cases[0].pop("median_us")
        del cases[2]["requests"][0]["kv_len"]
        cases[4]["median_us"] = "fast"
        del cases[6]["ranks"]

    with pytest.raises(BadInput) as refused:
        read(edited(tmp_path / "keys.json", damage), REQUEST)
    text = str(refused.value)
    assert (
        "keys.json:2:1: median_us: is missing, expected a number above 0, did you mean 'median_ms'?" in text
    )
    assert "keys.json:4:1: requests[0].kv_len: is missing" in text
    assert "keys.json:6:1: median_us: 'fast'" in text
    assert "keys.json:8:1: ranks: is missing" in text


def test_a_context_that_does_not_include_its_query_is_refused(tmp_path: Path) -> None:
    def shorten(cases: list[Case]) -> None:
        chunk = next(case for case in cases if case["case"] == "prefill_512_0")
        chunk["requests"][0]["kv_len"] = 100

    with pytest.raises(BadInput, match="100 is less than the 512 tokens of the query"):
        read(edited(tmp_path / "short.json", shorten), REQUEST)


def test_a_sweep_with_one_context_is_refused(tmp_path: Path) -> None:
    def holes(cases: list[Case]) -> None:
        cases[:] = [
            case for case in cases if not case["case"].startswith("decode") or "_2048" in case["case"]
        ]

    with pytest.raises(BadInput, match="0 of 6 numbers of decodes were measured at two contexts or more"):
        read(edited(tmp_path / "holes.json", holes), REQUEST)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("[]", "is empty"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "is a Git LFS pointer"),
        ("case,median_us\n", "not valid JSON"),
        ("[1, 2]", "expected an object"),
        ("{}", "requests: is missing"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=says):
        read(path, REQUEST)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read(tmp_path / "none.json", REQUEST)
