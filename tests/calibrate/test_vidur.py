from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibrate.draft import Draft
from calibrate.importers import ImportRequest, importer
from capsim.catalog import load_gpu, load_model
from capsim.errors import BadInput

SAMPLE = Path(__file__).parent / "samples" / "vidur" / "operators.csv"
MODEL = load_model("llama-3-8b")
REQUEST = ImportRequest(MODEL, gpu="a100-80gb-sxm", dtype="float16", kv_dtype="float16")


def _read(path: Path, request: ImportRequest = REQUEST) -> Draft:
    return importer("vidur")(path, request)


@pytest.fixture
def completed(tmp_path: Path) -> Path:
    """The sample with a decode table of our own in place of its scattered rows: 5 us, and 8 ns a token of context."""
    rows = [row for row in SAMPLE.read_text().splitlines() if ",attn_decode," not in row]
    rows += [
        f"a100,meta-llama/Meta-Llama-3-8B,1,attn_decode,{batch},{batch},0,{past},{5 + 0.008 * batch * past},ours"
        for batch in (1, 4, 16, 64)
        for past in (128, 1024, 4096)
    ]
    path = tmp_path / "operators.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_the_sample_is_incomplete_and_says_where() -> None:
    with pytest.raises(
        BadInput,
        match=r"attn_decode: 46 shapes of batch 37 to 272 at 2 contexts \(1408, 3392\), which leave 30",
    ):
        _read(SAMPLE)


def test_a_complete_file(completed: Path) -> None:
    draft = _read(completed)
    assert draft.profile().provenance.gpu == "a100-80gb-sxm"
    operators = {each.name: each for each in draft.operators}
    assert operators["qkv_proj"].curve.seconds[0] == pytest.approx(33e-6)
    assert operators["residual"].times == 64
    assert {operators[name].tag for name in ("lm_head", "final_norm")} == {"assumed"}
    assert list(draft.attention.decode.axes["context"]) == [129, 1025, 4097]
    assert draft.attention.decode.values[0, 0] == pytest.approx(5e-6 + 8e-9 * 128)
    assert draft.attention.mixed is None


def test_the_output_projection_is_priced_by_the_data_sheet(completed: Path) -> None:
    (head,) = (each for each in _read(completed).operators if each.name == "lm_head")
    read = 2 * MODEL.vocabulary_size * MODEL.hidden_size / load_gpu("a100-80gb-sxm").memory_bandwidth
    assert head.curve.seconds[0] > read


def test_prefill_after_past_tokens_is_measured_where_it_was_and_filled_elsewhere(completed: Path) -> None:
    draft = _read(completed)
    prefill = draft.attention.prefill
    assert prefill.tag == "fitted"
    row, column = prefill.axes["new"].index(64), prefill.axes["past"].index(4608)
    assert prefill.values[row, column] == pytest.approx(65e-6)  # the file's row
    longest = prefill.values[prefill.axes["new"].index(12800), 0]
    pair = longest / (12800 * 12801 / 2)
    expected = prefill.values[prefill.axes["new"].index(4096), 0] + 4096 * 4608 * pair
    assert prefill.values[prefill.axes["new"].index(4096), column] == pytest.approx(expected, rel=1e-6)
    assert any("the rule errs by" in note for note in draft.provenance.notes)


def test_without_any_past_tokens_the_rule_fills_all(completed: Path) -> None:
    text = completed.read_text().splitlines()
    header = text[0].split(",")
    op, past = header.index("op"), header.index("kv_cache")
    kept = [row for row in text if row.split(",")[op] != "attn_prefill" or row.split(",")[past] == "0"]
    completed.write_text("\n".join(kept) + "\n")
    prefill = _read(completed).attention.prefill
    assert prefill.axes["past"] == (0, *prefill.axes["new"])
    assert (np.diff(prefill.values, axis=1) >= 0).all()


def test_other_precisions_are_refused() -> None:
    with pytest.raises(BadInput, match="Vidur measures float16, not bfloat16"):
        _read(SAMPLE, replace(REQUEST, dtype="bfloat16"))


def test_a_gpu_is_needed() -> None:
    with pytest.raises(BadInput, match="--gpu must name the GPU"):
        _read(SAMPLE, replace(REQUEST, gpu=None))


def test_what_the_file_does_not_hold() -> None:
    with pytest.raises(
        BadInput, match="has no rows of device h100, llama-3-8b, tp 1, expected one of a100 meta-llama"
    ):
        _read(SAMPLE, replace(REQUEST, gpu="h100-sxm"))
    with pytest.raises(BadInput) as refused:
        _read(SAMPLE, replace(REQUEST, gpu="h100-sxm", options={"source_model": "meta-llama/Llama-2-7b-hf"}))
    assert "attn_prefill: is not measured" in str(refused.value)
    assert "attn_decode: is not measured" in str(refused.value)


def test_a_missing_operator(completed: Path) -> None:
    completed.write_text(completed.read_text().replace(",mlp_act,", ",act,"))
    with pytest.raises(BadInput, match="mlp_act: is not measured"):
        _read(completed)


def test_chunks_without_past_tokens_are_needed(completed: Path) -> None:
    text = completed.read_text()
    row = next(line for line in text.splitlines() if ",attn_prefill,4096," in line)
    completed.write_text(text.replace(row, row.replace(",4096,0,", ",4096,64,")))
    with pytest.raises(BadInput, match="chunks without past tokens are missing"):
        _read(completed)
