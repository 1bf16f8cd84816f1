"""Mixtures of experts from aiconfigurator's kernel tables: the importer, damaged input, the shipped profiles."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from calibrate.draft import Draft
from calibrate.importers import ImportRequest
from calibrate.importers.aiconfigurator import read
from calibrate.importers.aiconfigurator.gemm import gemm_calls, gemms
from calibrate.importers.aiconfigurator.operators import elementwise_operators
from calibrate.show import Shown
from capsim.catalog import Experts, load_gpu, load_model
from capsim.catalog.data import data_folder
from capsim.cost import BatchShape, ProfileCost, RooflineCost, load_profile
from capsim.errors import BadInput
from tests.calibrate.test_aiconfigurator import curve_of, edit, fails, folder, request, scaled, tags
from tests.calibrate.test_h200_profiles import COPY, OPTIONS, PRODUCT, ROUNDING, too_fast

SAMPLE = Path(__file__).parent / "samples" / "aiconfigurator"
MOE = "moe_us.csv"
SHIPPED = {
    "h200-mixtral-8x7b-bf16-tp1": ("mixtral-8x7b", 1, 1),
    "h200-mixtral-8x7b-bf16-tp2": ("mixtral-8x7b", 2, 1),
    "h200-mixtral-8x7b-bf16-tp2-ep2": ("mixtral-8x7b", 2, 2),
    "h200-qwen3-30b-a3b-bf16-tp1": ("qwen3-30b-a3b", 1, 1),
    "h200-qwen3-30b-a3b-bf16-tp2": ("qwen3-30b-a3b", 2, 1),
    "h200-qwen3-30b-a3b-bf16-tp2-ep2": ("qwen3-30b-a3b", 2, 2),
}

__all__ = ["folder"]
each_shipped = pytest.mark.parametrize("name", SHIPPED)


def mixtral(ranks: int = 1, **options: str) -> ImportRequest:
    return request("mixtral-8x7b", tensor_parallel_size=ranks, options={**OPTIONS, **options})


def measured(tp: int, ep: int, routing: str) -> dict[int, float]:
    """Seconds of Mixtral's experts by tokens, as the sample has them."""
    with (SAMPLE / MOE).open(newline="") as file:
        rows = [
            row for row in csv.DictReader(file) if row["engine"] == "vllm" and row["moe_dtype"] == "bfloat16"
        ]
    wanted = {"model_shape": "mixtral-8x7b", "tp": str(tp), "ep": str(ep), "routing": routing}
    row = next(row for row in rows if wanted.items() <= row.items())
    return {int(name[1:]): float(us) / 1e6 for name, us in row.items() if name[1:].isdigit()}


# The importer


@pytest.fixture(scope="module")
def draft() -> Draft:
    return read(SAMPLE, mixtral())


def test_experts_stand_where_the_mlp_stood(draft: Draft) -> None:
    assert [operator.name for operator in draft.operators] == [
        "embedding",
        "norm",
        "qkv_proj",
        "rotary",
        "kv_cache_write",
        "o_proj",
        "router",
        "moe",
        "lm_head",
        "sampler",
    ]
    times = {operator.name: operator.times for operator in draft.operators}
    assert (times["router"], times["moe"]) == (32, 32)
    assert tags(draft)["moe"] == "measured"
    assert tags(draft)["router"] == "fitted"  # 8 outputs; the table begins at 32
    assert any(
        "router (n, k) = (8, 4096)" in note and "as long as (32, 4096)" in note
        for note in draft.provenance.notes
    )


def test_their_times_are_the_tables_own(draft: Draft) -> None:
    curve, rows = curve_of(draft, "moe"), measured(1, 1, "power_law_1.01")
    assert curve.keys() == rows.keys()
    rising = (1, 2, 4, 2048, 4096, 16384)  # these rise in the table, so that isotonic regression keeps them
    assert [curve[count] for count in rising] == pytest.approx([rows[count] for count in rising])
    assert draft.ranges["tokens"] == (1, 16384)


def test_the_profile_says_what_it_holds_for(draft: Draft) -> None:
    profile = draft.profile()
    stated = profile.provenance
    assert stated.experts == Experts(8, 2, 14336)
    assert (stated.expert_parallel_size, stated.routing) == (1, "power_law_1.01")
    note = next(note for note in stated.notes if note.startswith("moe "))
    assert "routing power_law_1.01 (measured too: balanced, power_law_1.2)" in note
    assert MOE in [file["name"] for file in stated.files]


def test_the_layout_decides_which_rows_are_read() -> None:
    split = read(SAMPLE, mixtral(2))
    whole = read(SAMPLE, mixtral(2, expert_parallel_size="2"))
    assert curve_of(split, "moe")[16384] == pytest.approx(measured(2, 1, "power_law_1.01")[16384])
    assert curve_of(whole, "moe")[16384] == pytest.approx(measured(1, 2, "power_law_1.01")[16384])
    assert (split.provenance.expert_parallel_size, whole.provenance.expert_parallel_size) == (1, 2)
    for name in ("qkv_proj", "o_proj", "router", "all_reduce"):
        assert curve_of(split, name) == curve_of(whole, name)
    assert whole.profile().provenance.expert_parallel


def test_the_routing_can_be_stated() -> None:
    balanced = read(SAMPLE, mixtral(routing="balanced"))
    assert curve_of(balanced, "moe")[16384] == pytest.approx(measured(1, 1, "balanced")[16384])
    assert balanced.profile().provenance.routing == "balanced"


def test_without_the_first_routing_the_next_is_taken(folder: Path) -> None:
    edit(folder / MOE, lambda text: text.replace("power_law_1.01", "power_law_1.5"))
    assert read(folder, mixtral()).provenance.routing == "balanced"


def test_no_rank_is_faster_than_its_share_of_reading_and_arithmetic(folder: Path) -> None:
    scaled(folder / MOE, 10, 0.7)  # more than the ceilings allow, not so much that the unit is in doubt
    curve = curve_of(read(folder, mixtral()), "moe")
    expert = 3 * 4096 * 14336
    assert curve[1] == pytest.approx(2 * 2 * expert / COPY)  # two experts of two bytes a weight
    assert curve[16384] == pytest.approx(2 * 2 * 16384 * expert / PRODUCT)


def test_shared_experts_and_dense_layers_are_linear_layers_of_their_own() -> None:
    model = load_model("mixtral-8x7b")
    assert model.experts is not None
    model = replace(model, experts=replace(model.experts, intermediate_size=1024, shared=2, dense_layers=3))
    shapes, calls = gemms(model, 2), gemm_calls(model)
    assert shapes["gate_up_proj"] == (2 * 7168, 4096)
    assert shapes["shared_gate_up_proj"] == (2 * 1024, 4096)
    assert shapes["shared_down_proj"] == (4096, 1024)
    assert calls == {
        "qkv_proj": 32,
        "o_proj": 32,
        "gate_up_proj": 3,
        "down_proj": 3,
        "shared_gate_up_proj": 29,
        "shared_down_proj": 29,
    }
    times = {each.name: each.times for each in elementwise_operators(model, load_gpu("h200"), 2, "bfloat16")}
    assert (times["activation"], times["shared_activation"]) == (3, 29)


# Damaged and wrong input


def test_other_experts_are_refused_with_those_of_the_table() -> None:
    model = load_model("mixtral-8x7b")
    assert model.experts is not None
    message = fails(
        SAMPLE, replace(mixtral(), model=replace(model, experts=replace(model.experts, count=16)))
    )
    assert "no bfloat16 row with hidden 4096, inter 14336, topk 2, experts 16" in message
    assert "hidden 2048, inter 768, topk 8, experts 128" in message
    assert "hidden 4096, inter 14336, topk 2, experts 8" in message


def test_another_layout_is_refused_with_those_of_the_table(folder: Path) -> None:
    edit(folder / MOE, lambda text: text.replace("14336,2,8,2,1,", "14336,2,8,4,1,"))
    message = fails(folder, mixtral(2))
    assert "row with tp 2, ep 1, expected one of tp 1, ep 1; tp 1, ep 2; tp 4, ep 1" in message


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            mixtral(routing="power_law_1.1"),
            "routing=power_law_1.1 was not measured, expected routing=balanced or",
        ),
        (mixtral(2, expert_parallel_size="4"), "expert_parallel_size=4, expected 1 or the 2 tensor-parallel"),
        (mixtral(rooting="balanced"), "'rooting' is not known here"),
        (request(options={**OPTIONS, "routing": "balanced"}), "'routing' is not known here"),
        (replace(mixtral(), kv_dtype="float16"), "no rows for 32 query and 8 KV heads"),
    ],
)
def test_what_cannot_be_is_refused(asked: ImportRequest, words: str) -> None:
    assert words in fails(SAMPLE, asked)


def test_a_dtype_without_experts_is_refused(folder: Path) -> None:
    edit(folder / MOE, lambda text: text.replace(",bfloat16,", ",fp4,"))
    assert "any row of bfloat16, there is none" in fails(folder, mixtral())


def test_milliseconds_for_microseconds_are_refused(folder: Path) -> None:
    scaled(folder / MOE, 10, 1e-3)
    assert "bfloat16 experts reach" in fails(folder, mixtral())


def test_a_missing_column_is_named(folder: Path) -> None:
    edit(folder / MOE, lambda text: text.replace("routing", "distribution", 1))
    assert f"{MOE}:1:1: the column routing is missing" in fails(folder, mixtral())


def test_a_folder_without_the_table_is_refused_and_dense_models_do_not_need_it(folder: Path) -> None:
    (folder / MOE).unlink()
    assert MOE in fails(folder, mixtral())
    assert read(folder, request()).profile().provenance.experts is None


def test_a_truncated_table_is_refused(folder: Path) -> None:
    edit(folder / MOE, lambda text: text[:-100])
    assert "cut off" in fails(folder, mixtral())


# The shipped profiles


@pytest.mark.parametrize("name", [name for name in SHIPPED if "mixtral" in name])
def test_the_sample_gives_the_shipped_profile(name: str) -> None:
    _, ranks, holders = SHIPPED[name]
    made = json.loads(read(SAMPLE, mixtral(ranks, expert_parallel_size=str(holders))).text())
    there = json.loads((data_folder("profiles") / f"{name}.json").read_text())
    for profile in (made, there):
        del profile["provenance"]["files"]  # the sample is a part of the files
    assert made == there


@each_shipped
def test_a_shipped_profile_holds_for_its_scenario_and_carries_its_attribution(name: str) -> None:
    model, ranks, holders = SHIPPED[name]
    profile = load_profile(data_folder("profiles") / f"{name}.json")
    ProfileCost(profile, load_model(model), "bfloat16", "bfloat16", ranks, expert_parallel=holders > 1)
    assert profile.provenance.licence == "Apache-2.0"
    assert "aiconfigurator-core 0.12.0" in profile.provenance.attribution


@each_shipped
def test_no_row_is_above_the_measured_ceilings(name: str) -> None:
    model_name, ranks, holders = SHIPPED[name]
    model = load_model(model_name)
    profile = load_profile(data_folder("profiles") / f"{name}.json")
    assert list(too_fast(profile, model, "bfloat16", ranks)) == []
    assert model.experts is not None
    # The busiest rank has at least its share of a token's experts to read, and of all tokens' arithmetic.
    expert = 3 * model.hidden_size * model.experts.intermediate_size * holders / ranks
    reading = -(-model.experts.per_token // holders) * 2 * expert / COPY
    moe = next(operator for operator in profile.operators if operator.name == "moe")
    for tokens, seconds in zip(moe.seconds.points, moe.seconds.values, strict=True):
        arithmetic = 2 * tokens * model.experts.per_token / holders * expert / PRODUCT
        assert seconds >= max(reading, arithmetic) * (1 - ROUNDING), tokens


@each_shipped
def test_decode_of_one_costs_at_least_reading_what_one_token_goes_through(name: str) -> None:
    model, ranks, holders = SHIPPED[name]
    profile = load_profile(data_folder("profiles") / f"{name}.json")
    whole = holders > 1
    cost = ProfileCost(profile, load_model(model), "bfloat16", "bfloat16", ranks, expert_parallel=whole)
    roofline = RooflineCost(load_model(model), load_gpu("h200"), ranks, expert_parallel=whole)
    step = cost.step(BatchShape((), 1, 2)) - profile.host
    assert step >= roofline.operators.streamed_weight_bytes() / COPY


@each_shipped
def test_the_roofline_is_compared_in_every_regime(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = Shown.of(load_profile(data_folder("profiles") / f"{name}.json"))
    with capsys.disabled():
        errors = ", ".join(f"{each.regime} {each.size} {each.bias:+.1%}" for each in shown.errors)
        print(f"\n{name}: roofline {errors}")
    assert len(shown.errors) == 6
    # 30 %: the roofline assumes uniform routing, the tables have skewed loads drawn at random; for whole experts on
    # two ranks the busiest takes up to 1.6 times as long as under balanced loads in the same tables.
    assert all(abs(each.bias) < 0.30 for each in shown.errors)


@pytest.mark.parametrize("source", ["vidur", "llmservingsim", "vllm-bench-forward"])
def test_other_sources_are_read_for_dense_models_only(source: str) -> None:
    from calibrate.importers import importer

    samples = {
        "vidur": SAMPLE.parent / "vidur" / "operators.csv",
        "llmservingsim": SAMPLE.parent / "llmservingsim",
        "vllm-bench-forward": SAMPLE.parent / "steps" / "vllm_bench_forward.json",
    }
    with pytest.raises(BadInput, match="has experts, and this source is read for dense models only"):
        importer(source)(samples[source], ImportRequest(load_model("mixtral-8x7b"), gpu="h200"))
