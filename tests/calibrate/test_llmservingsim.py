from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibrate.draft import Attention, Draft, Grid
from calibrate.importers import ImportRequest, importer
from calibrate.importers.llmservingsim_skew import COLUMNS, RATIOS, mixed_skew_of, skew_of
from calibrate.table import read_table
from capsim.catalog import load_model
from capsim.cost import BatchShape, Chunk, ProfileCost
from capsim.errors import BadInput

SAMPLE = Path(__file__).parent / "samples" / "llmservingsim"
MODEL = load_model("llama-3.1-8b")
REQUEST = ImportRequest(MODEL, gpu="rtx-4090")
SKEWED = replace(REQUEST, options={"skew": "on"})
Edit = Callable[[str], str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the sample to damage."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "sample"))


def _read(folder: Path, request: ImportRequest = REQUEST) -> Draft:
    return importer("llmservingsim")(folder, request)


def _edit(path: Path, edit: Edit) -> None:
    path.write_text(edit(path.read_text()))


def _without(*beginnings: str) -> Edit:
    return lambda text: "".join(line for line in text.splitlines(True) if not line.startswith(beginnings))


def _with(old: str, new: str) -> Edit:
    return lambda text: text.replace(old, new)


def _before(beginning: str) -> Edit:
    return lambda text: text[: text.index(f"\n{beginning}") + 1]


def _until(beginning: str) -> Edit:
    return lambda text: text[: text.rindex(f"\n{beginning}") + 1]


def _time(name: str, key: str) -> float:
    """Seconds of one row of the sample, found by how it begins."""
    (row,) = (line for line in (SAMPLE / "tp1" / name).read_text().splitlines() if line.startswith(f"{key},"))
    return 1e-6 * float(row.split(",")[-1])


def test_a_step_is_the_sum_of_the_measured_rows() -> None:
    draft = _read(SAMPLE)
    cost = ProfileCost(draft.profile(), MODEL, "bfloat16", "bfloat16", 1)
    calls = {
        "embedding": 1,
        "layernorm": 64,
        "qkv_proj": 32,
        "rotary_emb": 32,
        "o_proj": 32,
        "gate_up_proj": 32,
        "act_fn": 32,
        "down_proj": 32,
        "final_layernorm": 1,
    }
    tokens = sum(times * _time("dense.csv", f"{layer},2048") for layer, times in calls.items())
    sequences = sum(_time("per_sequence.csv", f"{layer},1") for layer in ("lm_head", "sampler"))
    expected = tokens + sequences + 32 * _time("attention.csv", "2048,512,0,0")
    step = cost.step(BatchShape((Chunk(2048, 512),), 0, 0))
    assert step == pytest.approx(expected, rel=1e-3)  # smoothing moves some of these rows by less than that


def test_attention_with_decodes_is_the_measured_one_and_not_the_sum() -> None:
    cost = ProfileCost(_read(SAMPLE).profile(), MODEL, "bfloat16", "bfloat16", 1)
    batch = BatchShape((Chunk(256, 512),), 128, 128 * 1025, 1, 0, 0, 1025)
    together = 32 * _time("attention.csv", "256,512,128,1024")
    apart = 32 * (_time("attention.csv", "256,512,0,0") + _time("attention.csv", "0,0,128,1024"))
    assert cost.parts(batch)["attention"] == pytest.approx(together, rel=0.01)  # smoothing of the grid
    assert abs(apart / together - 1) > 0.1


def test_provenance_names_the_source() -> None:
    stated = _read(SAMPLE).provenance
    assert (stated.gpu, stated.gpu_name) == ("rtx-4090", "NVIDIA GeForce RTX 4090")
    assert (stated.engine, stated.engine_version, stated.date) == ("vllm", "0.19.0", "2026-08-17")
    assert stated.licence == "MIT"
    assert "KAIST" in stated.attribution
    assert [file.name for file in stated.files] == [
        "meta.yaml",
        "dense.csv",
        "per_sequence.csv",
        "attention.csv",
    ]


def test_ranges_are_what_was_measured() -> None:
    draft = _read(SAMPLE)
    assert draft.ranges == {
        "tokens": (1, 2048),
        "sequences": (1, 256),
        "new": (16, 2048),
        "past": (0, 16384),
        "decodes": (1, 256),
        "context": (17, 16385),
    }
    assert draft.operators[0].curve.counts[-1] > 2048


def test_the_host_is_assumed() -> None:
    assert _read(SAMPLE).host == 0.0
    draft = _read(SAMPLE, replace(REQUEST, host_overhead=0.001))
    assert (draft.host, draft.host_tag) == (0.001, "assumed")
    assert any("1 ms in every step" in note for note in draft.provenance.notes)


def test_options() -> None:
    draft = _read(SAMPLE, replace(REQUEST, options={"graph_sizes": "8,1,4", "measured_by": "us"}))
    assert draft.graph_sizes == (1, 4, 8)
    assert draft.provenance.measured_by == "us"
    with pytest.raises(BadInput, match=r"'graph_size' is not known here.*did you mean 'graph_sizes'"):
        _read(SAMPLE, replace(REQUEST, options={"graph_size": "8"}))
    with pytest.raises(BadInput, match="skew: 'yes', expected on or off"):
        _read(SAMPLE, replace(REQUEST, options={"skew": "yes"}))
    with pytest.raises(BadInput, match="graph_sizes: 'many'"):
        _read(SAMPLE, replace(REQUEST, options={"graph_sizes": "many"}))


def test_the_folder_of_the_ranks_itself(folder: Path) -> None:
    assert _read(folder / "tp1").text() == _read(folder).text()
    with pytest.raises(BadInput, match="the folder is of tp1"):
        _read(folder / "tp1", replace(REQUEST, tensor_parallel_size=2))
    with pytest.raises(BadInput, match="holds no dense"):
        _read(folder, replace(REQUEST, tensor_parallel_size=2))


def test_all_reduce_is_assumed_for_several_ranks(folder: Path) -> None:
    shutil.move(folder / "tp1", folder / "tp2")
    sizes = {
        "14336": "7168",
        "attention_heads: 32": "attention_heads: 16",
        "heads: 8": "heads: 4",
        "128256": "64128",
    }

    def halve(text: str) -> str:
        for whole, half in sizes.items():
            text = text.replace(whole, half)
        return text.replace("tp_degrees: [1]", "tp_degrees: [1, 2]")

    _edit(folder / "meta.yaml", halve)
    draft = _read(folder, replace(REQUEST, tensor_parallel_size=2))
    (communication,) = (each for each in draft.operators if each.name == "all_reduce")
    assert (communication.tag, communication.times) == ("assumed", 64)
    # 2,048 tokens of 8 KiB: a ring of 2 sends each byte once, here over 0.7 of 32 GB/s (PCIe 4.0 x16).
    at_2048 = communication.curve.seconds[communication.curve.counts.index(2048)]
    assert at_2048 == pytest.approx(4.5e-6 + 2048 * 8192 / (0.7 * 32e9))
    assert any("all_reduce was not measured" in note for note in draft.provenance.notes)


# Held-out shapes


def test_shapes_that_are_no_powers_of_two_are_held_out(folder: Path) -> None:
    at_1024, at_2048 = (1e6 * _time("attention.csv", f"0,0,128,{kv}") for kv in (1024, 2048))
    line = f"0,0,128,1536,{(at_1024 + at_2048) / 2 / 1.1}\n"
    _edit(folder / "tp1" / "attention.csv", lambda text: text + line)
    (held_out,) = _read(folder).held_out
    assert (held_out.regime, held_out.size, held_out.cases) == ("decode", "large", 1)
    assert held_out.bias == pytest.approx(0.1, rel=1e-3)  # the row is 1.1 times faster than the line between


def test_without_such_shapes_every_second_length_is() -> None:
    draft = _read(SAMPLE)
    assert {case.regime for case in draft.held_out} == {"prefill", "decode", "mixed"}
    assert "every second length" in draft.provenance.notes[-1]


# Unequal lengths


def _skew_file(folder: Path, *rows: str) -> Path:
    path = folder / "skew.csv"
    path.write_text(
        "n,pc,kp,kv_big,kv_mean,t_mean_us,t_max_us,t_skew_us\n" + "".join(f"{row}\n" for row in rows)
    )
    return path


def test_alpha_is_the_median_of_its_class(tmp_path: Path) -> None:
    path = _skew_file(
        tmp_path,
        "2,0,0,1600,1000,10,20,12",
        "2,0,0,1600,1000,10,20,11",
        "2,0,0,1600,1000,10,20,30",  # alpha 2, cut to 1
        "64,0,0,3000,1000,10,20,9",  # alpha below 0, cut to 0
        "64,0,0,1600,1000,10,10.2,10.1",  # too close to tell
        "64,512,0,1600,1000,10,20,20",  # with a chunk
    )
    grid, note = skew_of(read_table(path, COLUMNS))
    assert grid.axes == {"decodes": (2, 64), "ratio": RATIOS}
    np.testing.assert_allclose(grid.values[0], 0.2)  # 0.1, 0.2 and 1
    np.testing.assert_array_equal(grid.values[1], 0.0)
    assert "10 of 12 classes take their neighbour's" in note


def test_alpha_beside_a_chunk_is_the_share_that_gives_the_measured_ratio(tmp_path: Path) -> None:
    """By hand: a chunk of 100 us beside decodes that take 50 us at the mean and 90 us at the largest.

    Twice as long as equal ones: 150 us more, of 40 us between mean and largest: 3.75. A tenth longer: 15 / 40.
    """
    axes = {"decodes": (2, 64), "context": (1001, 3001)}
    decode = Grid("measured", axes, np.array([[50e-6, 90e-6], [50e-6, 90e-6]]))
    prefill = Grid("measured", {"new": (256, 512), "past": (0, 512)}, np.full((2, 2), 100e-6))
    path = _skew_file(
        tmp_path,
        "2,256,0,3000,1000,10,30,20",
        "2,512,512,3000,1000,10,30,20",
        "64,256,0,3000,1000,30,90,33",
        "64,256,0,3000,1000,30,31,40",  # too close to tell
        "64,0,0,3000,1000,30,90,90",  # without a chunk
    )
    grid, note = mixed_skew_of(read_table(path, COLUMNS), Attention(32, prefill, decode))
    assert grid is not None
    np.testing.assert_allclose(grid.values[0], 3.75)
    np.testing.assert_allclose(grid.values[1], 0.375)
    assert "median of 3 batches" in note
    assert "errs by 0.0 % in the median" in note


def test_skew_beside_a_chunk_is_left_out_where_it_was_not_measured(folder: Path) -> None:
    path = folder / "tp1" / "skew.csv"
    _edit(path, lambda text: "".join(line for line in text.splitlines(True) if ",256," not in line))
    draft = _read(folder, SKEWED)
    assert draft.attention.skew is not None
    assert draft.attention.mixed_skew is None
    assert any("beside a chunk were not measured" in note for note in draft.provenance.notes)


def test_alpha_of_the_sample() -> None:
    """Small alone: vLLM balances unequal decodes well; larger beside a chunk, the fewer decodes there are."""
    attention = _read(SAMPLE, SKEWED).attention
    assert attention.skew is not None
    assert attention.mixed_skew is not None
    assert attention.skew.tag == attention.mixed_skew.tag == "fitted"
    # LLMServingSim's own fit of all these rows is 0.05.
    assert np.median(attention.skew.values) < 0.2
    few, many = np.median(attention.mixed_skew.values, axis=1)
    assert 0 < many < few


def test_measured_unequal_batches_beside_a_chunk_are_predicted() -> None:
    """Half the error of a step cost that charges nothing, at the median of batches that the sample has."""
    draft = _read(SAMPLE, SKEWED)
    cost = ProfileCost(draft.profile(), MODEL, "bfloat16", "bfloat16", 1)
    equal = replace(draft, attention=replace(draft.attention, skew=None, mixed_skew=None))
    plain = ProfileCost(equal.profile(), MODEL, "bfloat16", "bfloat16", 1)
    rows = read_table(SAMPLE / "tp1" / "skew.csv", COLUMNS)
    rows = rows.where((rows.counts("pc") > 0) & (rows.numbers("t_max_us") > 1.5 * rows.numbers("t_mean_us")))
    measured = rows.numbers("t_skew_us") / rows.numbers("t_mean_us")
    names = ("n", "pc", "kp", "kv_big", "kv_mean")
    errors: dict[ProfileCost, list[float]] = {cost: [], plain: []}
    for n, new, past, big, mean, longer in zip(
        *(rows.counts(name).tolist() for name in names), measured, strict=True
    ):
        batch = BatchShape((Chunk(new, past),), n, n * (mean + 1), largest_context=big + 1)
        base = plain.parts(batch)["attention"]
        for each, found in errors.items():
            found.append(each.parts(batch)["attention"] / base / longer - 1)
    assert len(rows) > 30
    with_alpha, without = (np.median(np.abs(found)) for found in errors.values())
    assert with_alpha < 0.5 * without


@pytest.mark.parametrize(
    ("stated", "option", "charged"),
    [
        ("true", None, True),
        ("false", None, False),
        ("false", "on", True),
        ("true", "off", False),
        (None, None, True),
    ],
)
def test_the_source_says_whether_unequal_lengths_count(
    folder: Path, stated: str | None, option: str | None, charged: bool
) -> None:
    """``skew_fit.enabled`` of ``meta.yaml``, unless an option decides."""
    section = f"skew_fit:\n  enabled: {stated}\n" if stated else ""
    _edit(folder / "meta.yaml", lambda text: text.replace("skew_fit:\n  enabled: false\n", section))
    draft = _read(folder, replace(REQUEST, options={"skew": option} if option else {}))
    assert (draft.attention.skew is not None) == charged
    assert ("skew.csv" in [file.name for file in draft.provenance.files]) == charged
    assert any("lengths are not charged" in note for note in draft.provenance.notes) != charged


def test_without_skew_unequal_lengths_cost_as_much_as_equal_ones(folder: Path) -> None:
    (folder / "tp1" / "skew.csv").unlink()
    draft = _read(folder)
    assert draft.attention.skew is None
    assert any("Unequal decode lengths were not measured" in note for note in draft.provenance.notes)
    with pytest.raises(BadInput, match=r"holds no skew\.csv"):
        _read(folder, SKEWED)


# Damaged sources


def _line_ends_early(text: str) -> str:
    return text[: text.rindex(",") + 3]


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("tp1/dense.csv", _line_ends_early, "the last line has no end"),
        ("tp1/dense.csv", _until("rotary_emb,1,"), "has no rows of rotary_emb"),
        ("tp1/dense.csv", _until("rotary_emb,2048"), "rotary_emb has 6 counts where"),
        ("tp1/dense.csv", _with("time_us", "time_ms"), "time_us is missing (there is time_ms)"),
        ("tp1/dense.csv", _with("o_proj", "oproj"), "'oproj' is not an operator of this model"),
        ("tp1/per_sequence.csv", _without("sampler"), "has no rows of sampler"),
        ("tp1/attention.csv", _before("2048,0,"), "ends at chunks 256: the file may be cut off"),
        ("tp1/attention.csv", _without("256,512,0,"), "the grid has 1 holes of 12: new 256/past 512"),
        ("tp1/attention.csv", _without("0,0,16,1024"), "decode attention: the grid has 1 holes of 16"),
        ("tp1/attention.csv", _without("256,0,1", "256,512,1"), "the grid of a chunk with decodes has"),
        ("tp1/attention.csv", lambda text: text + "0,512,0,0,3.0\n", "neither a chunk nor decodes"),
        ("tp1/attention.csv", lambda _: "version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        ("tp1/skew.csv", lambda text: text.replace(",16,", ",many,", 1), "skew.csv"),
        ("meta.yaml", _with("profiler_version: 1.0.0", "profiler_version: 2.0.0"), "2.0.0 is not known"),
        ("meta.yaml", _with("variant: bf16", "variant: fp8"), "fp8 is measured with dtype fp8"),
        ("meta.yaml", _with("variant: bf16", "variant: bf16-kvfp8"), "with kv_dtype fp8"),
        ("meta.yaml", _with("intermediate_size: 14336", "intermediate_size: 8192"), "8192 on one of 1"),
        ("meta.yaml", _with("tp_degrees: [1]", "tp_degrees: [2]"), "2 ranks were measured"),
        ("meta.yaml", _without("vllm_version"), "vllm_version: is missing"),
        ("meta.yaml", _with("GeForce RTX 4090", "RTX PRO 6000 Blackwell Server Edition"), "is rtx-pro-6000"),
    ],
)  # fmt: skip
def test_damage_is_named(folder: Path, name: str, edit: Edit, said: str) -> None:
    _edit(folder / name, edit)
    with pytest.raises(BadInput) as refused:
        _read(folder, SKEWED)
    assert said in str(refused.value)


def test_a_few_holes_beside_decodes_take_the_sum_of_the_parts(folder: Path) -> None:
    _edit(folder / "tp1" / "attention.csv", _without("256,512,16,1024"))
    draft = _read(folder)
    mixed = draft.attention.mixed
    assert mixed is not None
    assert mixed.tag == "fitted"
    place = tuple(
        mixed.axes[axis].index(count)
        for axis, count in (("new", 256), ("past", 512), ("decodes", 16), ("context", 1025))
    )
    apart = _time("attention.csv", "256,512,0,0") + _time("attention.csv", "0,0,16,1024")
    smaller = _time("attention.csv", "256,0,16,1024")
    assert mixed.values[place] == pytest.approx(
        max(apart, smaller), rel=0.02
    )  # the grid is smoothed around it
    assert any(
        "1 of 144 shapes of a chunk with decodes were not measured" in note for note in draft.provenance.notes
    )


def test_without_any_the_parts_are_added(folder: Path) -> None:
    path = folder / "tp1" / "attention.csv"
    rows = path.read_text().splitlines(True)
    kept = [row for row in rows[1:] if row.split(",")[0] == "0" or row.split(",")[2] == "0"]
    path.write_text(rows[0] + "".join(kept))
    assert _read(folder).attention.mixed is None


def test_a_file_or_the_experts_of_another_model(folder: Path) -> None:
    (folder / "tp1" / "moe.csv").write_text("tokens,activated_experts,time_us\n1,1,1\n")
    with pytest.raises(BadInput, match="experts are not covered"):
        _read(folder)


def test_no_meta(folder: Path) -> None:
    (folder / "meta.yaml").unlink()
    with pytest.raises(BadInput, match="there is no meta"):
        _read(folder)


def test_other_engines_are_refused() -> None:
    with pytest.raises(BadInput, match=r"0\.19\.0, expected the version asked for, 0\.20\.0"):
        _read(SAMPLE, replace(REQUEST, engine_version="0.20.0"))
    with pytest.raises(BadInput, match="the engine is vllm, not sglang"):
        _read(SAMPLE, replace(REQUEST, engine="sglang"))


def test_a_gpu_that_the_catalog_does_not_hold(folder: Path) -> None:
    _edit(folder / "meta.yaml", lambda text: text.replace("RTX 4090", "RTX 9999"))
    assert _read(folder, replace(REQUEST, gpu="rtx-9999")).provenance.gpu == "rtx-9999"
    with pytest.raises(BadInput, match="'NVIDIA GeForce RTX 9999' is not in the catalog"):
        _read(folder, replace(REQUEST, gpu=None))


def test_an_importer_that_is_not_there() -> None:
    with pytest.raises(BadInput, match="importer 'llmservingsimm' is not known"):
        importer("llmservingsimm")
