"""Kernel times carried over to another GPU: the rule, the import, and the derived profiles that are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from calibrate.command import calibrate
from calibrate.efficiency import efficiencies
from calibrate.importers import ImportRequest
from calibrate.importers.aiconfigurator import read
from calibrate.importers.aiconfigurator.csv_source import CsvSource
from calibrate.importers.aiconfigurator.source import Heads
from calibrate.importers.aiconfigurator.supplement import SupplementedSource
from calibrate.importers.aiconfigurator.transfer import Transfer
from calibrate.probe import cost_of
from capsim.catalog import Gpu, load_gpu, load_model
from capsim.catalog.data import data_folder
from capsim.cost import BatchShape, Chunk, Profile, ProfileCost, load_profile
from capsim.errors import BadInput
from tests.calibrate.derived_profiles import KEPT, TABLES, derived
from tests.calibrate.transfer_check import KERNELS, SAMPLES, Bin, bins, rule
from tests.truth.blis_stages import VARIABLE, folder

OPTIONS = {"release": "aiconfigurator-core 0.12.0", "date": "2026-08-21", "gpu_name": "NVIDIA H200"}
BY = "inference-sim (https://github.com/inference-sim/inference-sim), Apache-2.0"
H100, H200 = load_gpu("h100-sxm"), load_gpu("h200")
ROUNDING = 1e-5  # profiles keep six significant digits

sizes = st.integers(1, 65536)


def request(model: str = "llama-3.1-8b", **changes: object) -> ImportRequest:
    asked = ImportRequest(load_model(model), gpu="h200", scale_to="h100-sxm", options=OPTIONS)
    return replace(asked, **changes)  # type: ignore[arg-type]


def gemm(transfer: Transfer, m: int, n: int, k: int, above: float) -> tuple[float, float]:
    """Seconds of a layer that takes `above` times its bound, before and after."""
    flops, moved = 2 * m * n * k, 2 * (n * k + m * (n + k))
    here = transfer.measured
    seconds = above * max(moved / here.bandwidth, flops / here.flops["bfloat16"])
    columns = {name: np.asarray([float(value)]) for name, value in (("m", m), ("n", n), ("k", k))}
    carried = transfer.gemm({**columns, "seconds": np.asarray([seconds])}, "bfloat16")
    return seconds, float(carried["seconds"][0])


# The rule


@given(sizes, sizes, sizes, st.floats(0.5, 20))
def test_no_layer_is_faster_than_the_data_sheet_of_its_gpu(m: int, n: int, k: int, above: float) -> None:
    """Not even one whose measured time was too fast for the GPU on which it was measured."""
    _, carried = gemm(rule(), m, n, k, above)
    assert carried >= 2 * m * n * k / H100.dense_flops["bfloat16"]
    assert carried >= 2 * (n * k + m * (n + k)) / H100.memory_bandwidth


@given(st.integers(2048, 65536), st.integers(4096, 65536), st.integers(4096, 65536), st.floats(1, 20))
def test_a_layer_bound_by_arithmetic_takes_as_long(m: int, n: int, k: int, above: float) -> None:
    seconds, carried = gemm(rule(), m, n, k, above)
    assert carried == pytest.approx(seconds, rel=1e-12)


@given(st.integers(1, 64), st.integers(4096, 65536), st.integers(4096, 65536), st.floats(1, 20))
def test_a_layer_bound_by_memory_pays_for_its_bytes_alone(m: int, n: int, k: int, above: float) -> None:
    seconds, carried = gemm(rule(), m, n, k, above)
    moved = 2 * (n * k + m * (n + k))
    here, there = rule().measured.bandwidth, rule().target.bandwidth
    assert carried - seconds == pytest.approx(moved / there - moved / here, rel=1e-9)


def test_a_saturated_layer_grows_by_the_ratio_of_the_bandwidths() -> None:
    seconds, carried = gemm(rule(), 1, 16384, 16384, 1.0)
    assert carried / seconds == pytest.approx(H200.memory_bandwidth / H100.memory_bandwidth)


@given(sizes, sizes, sizes, st.floats(1, 20), st.floats(1, 5), st.floats(1, 2))
def test_faster_memory_makes_no_layer_slower(
    m: int, n: int, k: int, above: float, terabytes: float, more: float
) -> None:
    slow, fast = (replace(H100, memory_bandwidth=terabytes * 1e12 * factor) for factor in (1, more))
    assert gemm(Transfer.between(H200, fast), m, n, k, above)[1] <= gemm(
        Transfer.between(H200, slow), m, n, k, above
    )[1] * (1 + 1e-12)


def test_attention_is_carried_over_by_what_it_reads() -> None:
    heads = Heads(32, 8, 128, "bfloat16")
    columns = {
        name: np.asarray([value])
        for name, value in (("decodes", 64.0), ("context", 8192.0), ("seconds", 1e-3))
    }
    carried = rule().decode(columns, heads)["seconds"][0]
    moved = 64 * 8192 * 2 * 8 * 128 * 2
    assert carried == pytest.approx(
        1e-3 + moved / rule().target.bandwidth - moved / rule().measured.bandwidth
    )
    prompt = {"new": np.asarray([16384.0]), "seconds": np.asarray([1.0])}
    assert rule().prefill(prompt, heads)["seconds"][0] == 1.0


@pytest.mark.parametrize(
    ("measured", "target", "what"),
    [
        (H200, H200, "measured itself"),
        (H200, load_gpu("a100-80gb-sxm"), "differ in bfloat16 FLOP/s"),
        (H200, load_gpu("h100-nvl"), "link bandwidth"),
    ],
)
def test_a_gpu_with_other_arithmetic_or_links_is_refused(measured: Gpu, target: Gpu, what: str) -> None:
    with pytest.raises(BadInput, match=what):
        Transfer.between(measured, target)


# Shapes that it never saw


def found(kernels: str) -> list[Bin]:
    return [each for each in bins() if kernels in each.kernels]


def test_layers_of_the_same_engine_come_within_a_few_per_cent_on_the_other_gpu() -> None:
    """A tenth of the ratio of bandwidths, 43 %, at the median, in each regime: the H200's own are 16 to 23 % off."""
    assert len(found("BF16")) == 4
    for each in found("BF16"):
        assert abs(np.median(each.carried)) < 0.05
        assert np.median(np.abs(each.carried)) < 0.08


def test_kernels_of_another_library_agree_where_launches_do_not_count() -> None:
    """A quarter of that ratio: the kernels differ as well, and both ways."""
    regimes = [each for each in found("another library") if not each.regime.startswith("0 to 50 MB")]
    assert len(regimes) == 6
    for each in regimes:
        assert abs(np.median(each.carried)) < 0.13
    memory = [each for each in regimes if each.regime in ("1 to 64 tokens", "200 MB of KV and more")]
    for each in memory:
        assert abs(np.median(each.carried)) < 0.5 * abs(np.median(each.unscaled))


# The import


def test_a_table_carried_over_is_called_derived_and_its_note_names_both_gpus() -> None:
    draft = read(TABLES, request())
    tags = {operator.name: operator.tag for operator in draft.operators}
    assert {tag for name, tag in tags.items() if name in ("qkv_proj", "gate_up_proj", "lm_head")} == {
        "derived"
    }
    assert tags["norm"] == "assumed"
    assert draft.attention.prefill.tag == draft.attention.decode.tag == "derived"
    stated = draft.provenance
    assert (stated.gpu, stated.derived_from, stated.gpu_name) == ("h100-sxm", "h200", "NVIDIA H200")
    assert any("measured on h200, not on h100-sxm" in note for note in stated.notes)


def test_the_cost_of_such_a_profile_says_so() -> None:
    profile = read(TABLES, request()).profile()
    cost = ProfileCost(profile, load_model("llama-3.1-8b"), "bfloat16", "bfloat16", 1)
    assert cost.source == "derived"
    assert "on 1 x h100-sxm, derived from h200 kernels" in cost.description


def test_all_reduces_stay_as_they_were_measured() -> None:
    carried = read(TABLES, request(tensor_parallel_size=2))
    measured = read(TABLES, request(tensor_parallel_size=2, scale_to=None))
    curves = [
        next(operator.curve for operator in draft.operators if operator.name == "all_reduce")
        for draft in (carried, measured)
    ]
    assert curves[0] == curves[1]


def test_heads_that_the_tables_lack_are_read_from_a_file_beside_them() -> None:
    source = SupplementedSource(CsvSource(TABLES, "vllm", None), KERNELS, BY)
    rows = source.decode(Heads(32, 32, 128, "bfloat16"))
    place = (rows["decodes"] == 64) & (rows["context"] == 1024)
    assert rows["seconds"][place].tolist() == pytest.approx([376.213e-6])
    assert source.attributions == [f"decode attention from {BY}"]
    assert "none in the tables for 32 query and 32 KV heads" in source.notes[-1]
    assert source.files[-1].name == "kernels.csv"


def test_heads_that_the_tables_have_are_not() -> None:
    asked = request(options={**OPTIONS, "decode_attention": str(KERNELS), "decode_attention_by": BY})
    assert read(TABLES, asked).text() == read(TABLES, request()).text()


def test_a_file_beside_the_tables_needs_somebody_to_be_named() -> None:
    with pytest.raises(BadInput, match="whose figures"):
        read(TABLES, request(options={**OPTIONS, "decode_attention": str(KERNELS)}))


def test_experts_are_refused() -> None:
    with pytest.raises(BadInput, match="not recorded"):
        read(TABLES, request("mixtral-8x7b"))


def run(*arguments: str) -> object:
    result = CliRunner().invoke(calibrate, ["import", *arguments])
    return json.loads(result.output) if result.exception is None else result.exception


def test_the_command_writes_a_profile_of_the_other_gpu(tmp_path: Path) -> None:
    out = tmp_path / "h100.json"
    arguments = [
        "--from",
        "aiconfigurator",
        str(TABLES),
        "--model",
        "llama-3.1-8b",
        "--out",
        str(out),
        "--json",
    ]
    answer = run(*arguments, "--gpu", "h200", "--scale-to", "h100-sxm")
    assert isinstance(answer, dict)
    assert answer["derived_from"] == "h200"
    assert answer["gpu"] == "1 x h100-sxm (derived from h200)"
    assert load_profile(out).provenance.derived_from == "h200"
    missing = run(*arguments, "--scale-to", "h100-sxm")
    assert isinstance(missing, BadInput)
    assert "--gpu" in str(missing)


def test_another_importer_refuses_to_carry_over(tmp_path: Path) -> None:
    source = str(SAMPLES / "llmservingsim")
    refused = run(
        "--from", "llmservingsim", source, "--model", "llama-3.1-8b", "--gpu", "rtx-4090",
        "--scale-to", "rtx-pro-6000", "--out", str(tmp_path / "x.json"),
    )  # fmt: skip
    assert isinstance(refused, BadInput)
    assert "--from aiconfigurator" in str(refused)


# The profiles that are kept


@pytest.fixture(params=sorted(path.stem for path in KEPT.glob("*.json")))
def kept(request: pytest.FixtureRequest) -> Profile:
    return derived(request.param)


def test_a_kept_profile_says_what_it_was_derived_from(kept: Profile) -> None:
    stated = kept.provenance
    assert (stated.gpu, stated.derived_from) == ("h100-sxm", "h200")
    assert stated.licence == "Apache-2.0"
    assert "aiconfigurator-core 0.12.0" in stated.attribution
    assert not {operator.tag for operator in kept.operators} & {"measured", "fitted"}
    # Decode attention of the one model whose heads the tables lack was timed on an H100, by others.
    own = kept.tags["decode"] == "measured"
    assert own == ("inference-sim" in stated.attribution) == (stated.model == "llama-2-7b")


def test_a_kept_profile_reads_no_faster_than_the_h100(kept: Profile) -> None:
    cost, stated = cost_of(kept), kept.provenance
    model = load_model(stated.model)
    step = cost.step(BatchShape((), 1, kept.ranges["context"][0])) - kept.host
    layers = model.layers * (model.attention_parameters + model.mlp_parameters)
    weights = layers * (1 if stated.dtype == "fp8" else 2) + model.vocabulary_size * model.hidden_size * 2
    assert step >= weights / stated.tensor_parallel_size / H100.memory_bandwidth


def test_a_kept_profile_is_what_the_importer_makes_of_the_tables(kept: Profile) -> None:
    tables, beside = folder() / "h200-silicon", folder() / "blis-h100-kernels.csv"
    if not (tables.is_dir() and beside.is_file()):
        pytest.skip(f"skipped: {tables} is not there; it is not shipped, and {VARIABLE} can name its folder")
    stated = kept.provenance
    options = {**OPTIONS, "decode_attention": str(beside), "decode_attention_by": BY}
    ranks = stated.tensor_parallel_size
    asked = request(stated.model, dtype=stated.dtype, tensor_parallel_size=ranks, options=options)
    assert json.loads(read(tables, asked).text()) == json.loads(Path(kept.source).read_text(encoding="utf-8"))


def test_prefill_costs_what_it_does_on_an_h200_and_decode_more() -> None:
    h100 = cost_of(derived("h100-llama-3.1-8b-bf16-tp1"))
    h200 = cost_of(load_profile(data_folder("profiles") / "h200-llama-3.1-8b-bf16-tp1.json"))
    prefill = BatchShape((Chunk(8192, 0),), 0, 0)
    decode = BatchShape((), 64, 64 * 2048)
    # 5 %: the element-wise kernels, by formula, are bound by memory and a twentieth of the step.
    assert h100.step(prefill) == pytest.approx(h200.step(prefill), rel=0.05)
    ratio = (h100.step(decode) - h100.profile.host) / (h200.step(decode) - h200.profile.host)
    assert 1.3 < ratio < H200.memory_bandwidth / H100.memory_bandwidth * (1 + ROUNDING)


def test_a_derived_profile_is_no_evidence_for_the_roofline(kept: Profile) -> None:
    stated = kept.provenance
    assert efficiencies([kept], {stated.model: load_model(stated.model)}, {stated.gpu: H100}) == []
