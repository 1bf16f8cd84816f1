from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibrate.curves import FURTHER, curve_of, grid_of, reaching, reaching_prefill
from calibrate.draft import Attention, Curve, Draft, Grid, Operator
from calibrate.provenance import Provenance, SourceFile
from capsim.catalog import load_model
from capsim.cost import load_profile
from capsim.cost.profile_tables import HeldOut
from capsim.errors import BadInput

MODEL = load_model("llama-3.1-8b")


def small_draft() -> Draft:
    """A draft with every part of the format."""
    counts = (1, 8, 64)
    attention = Attention(
        times=MODEL.layers,
        prefill=Grid(
            "measured", {"new": (1, 64), "past": (0, 64)}, np.array([[1.0, 2.0], [3.0, 4.0]]) * 1e-5
        ),
        decode=Grid(
            "measured", {"decodes": (1, 64), "context": (1, 64)}, np.array([[1.0, 2.0], [3.0, 4.0]]) * 1e-5
        ),
        mixed=Grid(
            "measured",
            {"new": (1, 64), "past": (0, 64), "decodes": (1, 64), "context": (1, 64)},
            np.arange(1.0, 17.0).reshape(2, 2, 2, 2) * 1e-5,
        ),
        skew=Grid(
            "fitted", {"decodes": (2, 64), "ratio": (1.0, 2.5)}, np.array([[0.0, 0.5], [0.1, 0.2]]), "alpha"
        ),
        mixed_skew=Grid(
            "fitted", {"decodes": (2, 64), "ratio": (1.0, 2.5)}, np.array([[0.0, 1.5], [0.1, 0.2]]), "alpha"
        ),
    )
    operators = (
        Operator(
            "qkv_proj",
            "tokens",
            32,
            "measured",
            Curve(counts, (1e-5, 2e-5, 3.123456789e-5)),
            Curve((8, 64), (1e-5, 2e-5)),
            8,
        ),
        Operator("lm_head", "sequences", 1, "assumed", Curve(counts, (1e-4, 2e-4, 3e-4))),
    )
    provenance = Provenance(
        gpu="h200",
        gpu_name="NVIDIA H200",
        engine="vllm",
        engine_version="0.24.0",
        model=MODEL,
        dtype="bfloat16",
        kv_dtype="bfloat16",
        tensor_parallel_size=1,
        date="2026-08-21",
        measured_by="somebody",
        licence="MIT",
        attribution="somebody, MIT",
        importer="none",
        files=(SourceFile("a.csv", "00"),),
        notes=("Nothing was measured.",),
    )
    ranges = dict.fromkeys(("tokens", "sequences", "new", "past", "decodes", "context"), (1, 64))
    return Draft(
        provenance,
        operators,
        attention,
        host=0.0005,
        host_tag="assumed",
        ranges=ranges,
        graph_sizes=(1, 8, 64),
        held_out=(HeldOut("decode", "small", 3, 0.01, 0.02, -0.003),),
    )


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    draft = small_draft()
    path = tmp_path / "profile.json"
    profile = draft.write(path)
    assert replace(load_profile(path), source="") == replace(profile, source="")
    assert profile.provenance.notes == draft.provenance.notes
    assert profile.operators[0].seconds.values[2] == 3.12346e-5  # six significant digits
    assert profile.operators[0].multiple == 8
    assert profile.attention.mixed is not None
    assert profile.attention.mixed.seconds[1][1][1][1] == 16e-5
    assert profile.attention.skew is not None
    assert profile.attention.skew.alpha == ((0.0, 0.5), (0.1, 0.2))
    assert profile.attention.mixed_skew is not None
    assert profile.attention.mixed_skew.alpha == ((0.0, 1.5), (0.1, 0.2))
    assert profile.held_out[0].bias == -0.003
    assert profile.graph_sizes == (1, 8, 64)


def test_the_text_is_stable_with_a_row_on_each_line() -> None:
    text = small_draft().text()
    assert text == small_draft().text()
    assert "[1e-05, 2e-05]" in text
    assert '"new": [1, 64]' in text


def test_a_draft_that_breaks_the_format_is_not_written(tmp_path: Path) -> None:
    draft = small_draft()
    falling = replace(draft.operators[1], curve=Curve((1, 8), (2e-4, 1e-4)))
    path = tmp_path / "profile.json"
    with pytest.raises(BadInput, match="falls"):
        replace(draft, operators=(falling,)).write(path)
    assert not path.exists()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be written"):
        small_draft().write(tmp_path / "no folder" / "profile.json")


def test_a_source_file_is_known_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"abc")
    # FIPS 180-4's example of SHA-256.
    assert SourceFile.of(path).sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_curves_and_grids_of_rows() -> None:
    curve, move = curve_of("a.csv", "o_proj", [8, 1, 4], [3.0, 1.0, 4.0])
    assert curve == Curve((1, 4, 8), (1.0, 3.5, 3.5))
    assert move == pytest.approx(1 / 6)  # 3 became 3.5
    grid, _ = grid_of(
        "a.csv", "decode", {"decodes": [1, 1, 2, 2], "context": [1, 9, 1, 9]}, [1.0, 2.0, 3.0, 4.0]
    )
    assert grid.values.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("counts", [[4, 4], [0, 4]])
def test_a_curve_needs_two_counts(counts: list[int]) -> None:
    with pytest.raises(BadInput, match="at least two different counts"):
        curve_of("a.csv", "o_proj", counts, [1.0, 1.0])


def test_a_grid_with_holes_is_refused_and_they_are_named() -> None:
    with pytest.raises(BadInput, match="the grid has 1 holes of 4: decodes 2/context 9"):
        grid_of("a.csv", "decode", {"decodes": [1, 1, 2], "context": [1, 9, 1]}, [1.0, 2.0, 3.0])
    with pytest.raises(BadInput, match="context has no two different counts"):
        grid_of("a.csv", "decode", {"decodes": [1, 2], "context": [1, 1]}, [1.0, 2.0])


def test_a_curve_reaches_on_at_the_slope_of_its_upper_half() -> None:
    # A plateau of the kernel's tiles at the end: its last slope is 0, that of the upper half 1.
    operator = Operator("o_proj", "tokens", 1, "measured", Curve((1, 4, 7, 8), (1.0, 4.0, 8.0, 8.0)))
    reached = reaching(operator).curve
    assert reached.counts[-1] == 8 * FURTHER
    assert reached.seconds[-1] == 8.0 + (8 * FURTHER - 8)
    assert reached.seconds[:-1] == operator.curve.seconds


def test_longer_chunks_cost_by_their_pairs_of_query_and_key() -> None:
    new, past = np.array([4.0, 8.0]), np.array([0.0, 16.0])
    pairs = new[:, None] * past + (new * (new + 1) / 2)[:, None]
    grid = reaching_prefill(Grid("measured", {"new": (4, 8), "past": (0, 16)}, 1e-6 * pairs))
    longest = 8 * FURTHER
    assert grid.axes["new"][-1] == longest
    assert grid.values[-1, 1] == pytest.approx(1e-6 * (longest * 16 + longest * (longest + 1) / 2))
    np.testing.assert_array_equal(grid.values[:2], 1e-6 * pairs)
