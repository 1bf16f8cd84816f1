from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.catalog import gpu_names, load_gpu
from capsim.catalog.gpu import Gpu
from capsim.catalog.model import Model
from capsim.cost import UNBOUNDED, BatchShape, Chunk, Efficiency, RooflineCost
from capsim.errors import BadInput
from tests.cost.hardware import A100, H200, LLAMA_8B, LLAMA_70B, QWEN3_8B, QWEN3_30B_A3B

IDEAL = Efficiency(
    gemm_compute=1,
    gemm_bandwidth=1,
    weight_only_compute=1,
    expert_compute=1,
    narrow_expert_compute=1,
    expert_bandwidth=1,
    expert_latency=0,
    narrow_expert_latency=0,
    attention_compute=1,
    attention_bandwidth=1,
    attention_latency=0,
    elementwise_bandwidth=1,
    kernel_latency=0,
    link_bandwidth=1,
    all_reduce_latency=0,
    host_overhead=0,
)


def test_one_layer_by_hand() -> None:
    """A model and GPU of round sizes; each operator's bytes and FLOPs are written out."""
    model = Model("tiny", "gqa", 1, 8, 16, 4, 2, 4, 32, False, 128, "by hand")
    gpu = Gpu("slow", 1 << 30, 1000.0, {"bfloat16": 10_000.0}, 100.0, {})
    cost = RooflineCost(model, gpu, efficiency=IDEAL)
    # Two decodes, 10 tokens of context: T = 2, queries 16 wide, keys and values 8 each. Every product is bound by
    # its bytes: weights n * k * 2 and activations 2 * (n + k) * 2, against 2 * 2 * n * k FLOPs at ten times the rate.
    gemm_bytes = sum(n * k * 2 + 2 * (n + k) * 2 for n, k in ((32, 8), (8, 16), (32, 8), (8, 16), (32, 8)))
    # Norms 4 * 8 elements twice, rotary 2 * (16 + 8), cache 2 * 8 read and written, activation 3 * 16; 2 bytes each.
    elementwise_bytes = 2 * 2 * (2 * 4 * 8 + 2 * 24 + 2 * 16 + 3 * 16)
    sampling_bytes = 2 * 32 * 10
    kv_bytes = 10 * 2 * 8 * 2
    seconds = (gemm_bytes + elementwise_bytes + sampling_bytes + kv_bytes) / 1000
    assert cost.step(BatchShape((), 2, 10)) == pytest.approx(seconds, rel=1e-12)  # rounding only
    # One chunk of 100 tokens after 50: attention is 4 * pairs * 16 FLOPs against 150 tokens of KV, 32 bytes each.
    attention = max(4 * (100 * 50 + 5050) * 16 / 10_000, 150 * 32 / 1000)
    without = cost.operators.token_seconds(100) + cost.operators.sequence_seconds(1)
    assert cost.step(BatchShape((Chunk(100, 50),), 0, 0)) == pytest.approx(without + attention, rel=1e-12)


def test_two_ranks_by_hand_communicate() -> None:
    model = Model("tiny", "gqa", 1, 8, 16, 4, 2, 4, 32, False, 128, "by hand")
    gpu = Gpu("linked", 1 << 30, 1e30, {"bfloat16": 1e30}, 100.0, {})
    seconds = RooflineCost(model, gpu, 2, efficiency=IDEAL).step(BatchShape((), 1, 1))
    # Two all-reduces of 8 elements send 2 * 1/2 of them, the logits' gathering sends 1/2 of 32: 2 bytes each.
    assert seconds == pytest.approx((2 * 8 * 2 + 32 * 2 / 2) / 100, rel=1e-12)


@given(
    tokens=st.integers(1, 16_384),
    past=st.integers(0, 16_384),
    decodes=st.integers(0, 512),
    context=st.integers(1, 8192),
    ranks=st.sampled_from([1, 2, 4, 8]),
    dtype=st.sampled_from(["bfloat16", "fp8"]),
)
def test_no_step_beats_the_data_sheet(
    tokens: int, past: int, decodes: int, context: int, ranks: int, dtype: str
) -> None:
    model = LLAMA_70B
    cost = RooflineCost(model, H200, ranks, dtype, dtype)
    seconds = cost.step(BatchShape((Chunk(tokens, past),), decodes, decodes * context))
    linear = model.layers * (model.attention_parameters + model.mlp_parameters)
    pairs = tokens * past + tokens * (tokens + 1) / 2
    attention = 4 * pairs * model.attention_heads * model.head_dim * model.layers
    peak = H200.dense_flops
    arithmetic = 2 * (tokens + decodes) * linear / peak[dtype] + attention / peak["bfloat16"]
    assert seconds >= arithmetic / ranks
    width = 1 if dtype == "fp8" else 2
    kv = decodes * context * 2 * model.layers * model.kv_heads * model.head_dim * width
    assert seconds >= (linear * width + 2 * model.embedding_parameters + kv) / ranks / H200.memory_bandwidth


@pytest.mark.parametrize("dtype", ["bfloat16", "fp8"])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_one_decode_reads_all_weights(ranks: int, dtype: str) -> None:
    cost = RooflineCost(LLAMA_8B, H200, ranks, dtype)
    assert cost.step(BatchShape((), 1, 1)) >= cost.operators.streamed_weight_bytes() / H200.memory_bandwidth


def test_streamed_weights_are_all_but_embedding_and_norms_and_are_split() -> None:
    streamed = [
        RooflineCost(LLAMA_8B, H200, ranks).operators.streamed_weight_bytes() for ranks in (1, 2, 4, 8)
    ]
    norms = LLAMA_8B.layers * LLAMA_8B.norm_parameters + LLAMA_8B.hidden_size
    assert streamed[0] == 2 * (LLAMA_8B.parameters - LLAMA_8B.embedding_parameters - norms)
    assert all(more == 2 * fewer for more, fewer in pairwise(streamed))


def test_kv_is_split_over_ranks_then_replicated() -> None:
    operators = [RooflineCost(LLAMA_70B, H200, ranks).operators for ranks in (1, 8, 16)]
    one, eight, sixteen = (part.seconds_per_context_token for part in operators)
    assert one == 8 * eight
    assert eight == sixteen


def test_fp8_halves_kv_and_weight_traffic() -> None:
    wide, narrow = RooflineCost(LLAMA_8B, H200), RooflineCost(LLAMA_8B, H200, 1, "fp8", "fp8")
    assert wide.operators.seconds_per_context_token == 2 * narrow.operators.seconds_per_context_token
    head = 2 * LLAMA_8B.embedding_parameters
    layers = [cost.operators.streamed_weight_bytes() - head for cost in (wide, narrow)]
    assert layers[0] == 2 * layers[1]


@pytest.mark.parametrize(("gpu", "dtype"), [(A100, "fp8"), (A100, "int8"), (H200, "int8"), (H200, "int4")])
def test_weights_that_are_widened_compute_below_the_16_bit_rate(gpu: Gpu, dtype: str) -> None:
    efficiency = replace(IDEAL, weight_only_compute=0.5)
    wide = RooflineCost(LLAMA_8B, gpu, efficiency=efficiency).operators
    narrow = RooflineCost(LLAMA_8B, gpu, 1, dtype, efficiency=efficiency).operators
    gemms = (*wide.attention_gemms(), *wide.mlp_gemms())
    linear = 32 * sum(2 * 8192 * n * k for n, k in gemms) / gpu.dense_flops["bfloat16"]
    # At 8,192 tokens all products are bound by arithmetic: half the rate takes once more what they took.
    slower = narrow.token_seconds(8192) - wide.token_seconds(8192)
    assert slower == pytest.approx(linear, rel=1e-9)  # a difference of sums
    assert narrow.sequence_seconds(64) == wide.sequence_seconds(64)


@pytest.mark.parametrize(("dtype", "size"), [("int8", 1 + 2 / 128), ("int4", 0.5 + 2 / 128 + 0.5 / 128)])
def test_weight_only_bytes_are_the_weights_and_the_scales_of_their_groups(dtype: str, size: float) -> None:
    operators = RooflineCost(LLAMA_8B, H200, 1, dtype).operators
    linear = 32 * (LLAMA_8B.attention_parameters + LLAMA_8B.mlp_parameters)
    assert operators.streamed_weight_bytes() == linear * size + 2 * LLAMA_8B.embedding_parameters


def test_one_decode_gains_what_int4_weights_save() -> None:
    wide, narrow = (
        RooflineCost(LLAMA_8B, H200, 1, dtype, efficiency=IDEAL) for dtype in ("bfloat16", "int4")
    )
    saved = wide.operators.streamed_weight_bytes() - narrow.operators.streamed_weight_bytes()
    batch = BatchShape((), 1, 1)
    assert wide.step(batch) - narrow.step(batch) == pytest.approx(saved / H200.memory_bandwidth, rel=1e-9)


def test_16_bit_logits_compute_at_the_16_bit_rate_whatever_the_weights() -> None:
    wide, narrow = RooflineCost(LLAMA_8B, H200).operators, RooflineCost(LLAMA_8B, H200, 1, "fp8").operators
    assert wide.sequence_seconds(4096) == narrow.sequence_seconds(4096)


def test_a_pipeline_is_one_pass_through_its_stages_and_the_hops_between_them() -> None:
    batch = BatchShape((Chunk(512, 0),), 8, 8 * 1024)
    whole = RooflineCost(LLAMA_8B, H200, efficiency=IDEAL)
    cut = RooflineCost(LLAMA_8B, H200, efficiency=IDEAL, pipeline_parallel_size=4)
    # Three hops of hidden state and residual, 520 tokens of 4,096 elements of 2 bytes.
    hops = 3 * 2 * 520 * 4096 * 2 / H200.link_bandwidth
    assert cut.step(batch) - whole.step(batch) == pytest.approx(hops, rel=1e-9)  # a difference
    assert "on 4 x h200 in 4 stages" in cut.description


def test_ranks_send_their_share_of_a_hop_and_gather_it() -> None:
    model = Model("tiny", "gqa", 2, 8, 16, 4, 2, 4, 32, False, 128, "by hand")
    gpu = Gpu("linked", 1 << 30, 1e30, {"bfloat16": 1e30}, 100.0, {})
    batch = BatchShape((), 1, 1)
    whole, cut = (
        RooflineCost(model, gpu, 2, efficiency=IDEAL, pipeline_parallel_size=stages) for stages in (1, 2)
    )
    # Two tensors of 8 elements of 2 bytes: half of them over the link, and half again to gather them on both ranks.
    assert cut.step(batch) - whole.step(batch) == pytest.approx(2 * 8 * 2 / 100, rel=1e-9)  # a difference


def test_a_mesh_uses_as_many_links_as_a_group_has_peers() -> None:
    model = Model("tiny", "gqa", 1, 32, 64, 16, 8, 4, 32, False, 128, "by hand")
    bus = Gpu("bus", 1 << 30, 1e30, {"bfloat16": 1e30}, 100.0, {})
    mesh = replace(bus, link_per_peer=True)
    batch = BatchShape((), 1, 1)
    for ranks in (2, 4, 8):
        slow, fast = (RooflineCost(model, gpu, ranks, efficiency=IDEAL).step(batch) for gpu in (bus, mesh))
        assert slow == pytest.approx((ranks - 1) * fast, rel=1e-9)  # communication alone, up to rounding


@pytest.mark.parametrize("name", gpu_names())
@pytest.mark.parametrize("dtype", ["bfloat16", "fp8", "int8", "int4"])
def test_no_gpu_of_the_catalog_beats_its_data_sheet(name: str, dtype: str) -> None:
    gpu = load_gpu(name)
    cost = RooflineCost(LLAMA_8B, gpu, 1, dtype)
    linear = LLAMA_8B.layers * (LLAMA_8B.attention_parameters + LLAMA_8B.mlp_parameters)
    # The fastest arithmetic that the weights could ever be given.
    rate = max(gpu.dense_flops["bfloat16"], gpu.dense_flops.get(dtype if dtype == "fp8" else "bfloat16", 0))
    assert cost.step(BatchShape((Chunk(8192, 0),), 0, 0)) >= 2 * 8192 * linear / rate
    decode = cost.step(BatchShape((), 1, 1))
    assert decode >= weight_bytes_read(dtype, linear) / gpu.memory_bandwidth
    # And none is so slow that a prefix must have slipped: half the data sheet's bandwidth, and the fixed latencies.
    assert decode <= 2 * cost.operators.streamed_weight_bytes() / gpu.memory_bandwidth + 2e-3


def weight_bytes_read(dtype: str, linear: int) -> float:
    return (
        linear * {"bfloat16": 2, "fp8": 1, "int8": 1, "int4": 0.5}[dtype] + 2 * LLAMA_8B.embedding_parameters
    )


def test_a_line_is_flat_to_the_knee_and_rises_beyond() -> None:
    cost = RooflineCost(LLAMA_8B, H200)
    flat = cost.line(BatchShape((), 8, 8 * 64))
    assert flat.slope == 0
    last = 8 * 64 + 8 * (flat.steps - 1)
    assert cost.step(BatchShape((), 8, last)) == flat.first < cost.step(BatchShape((), 8, last + 8))
    beyond = cost.line(BatchShape((), 8, last + 8))
    assert beyond.slope == 8 * cost.operators.seconds_per_context_token
    assert beyond.steps == UNBOUNDED


def test_drafts_are_tokens_and_rows_of_logits() -> None:
    cost = RooflineCost(LLAMA_8B, H200)
    verifying = cost.step(BatchShape((), 64, 64 * 1000, query_tokens=4))
    assert verifying == cost.step(BatchShape((), 256, 64 * 1000))


def test_normed_queries_cost_another_kernel() -> None:
    batch = BatchShape((), 1, 1)
    plain = RooflineCost(replace(QWEN3_8B, qk_norm=False), H200)
    extra = RooflineCost(QWEN3_8B, H200).step(batch) - plain.step(batch)
    assert extra == pytest.approx(QWEN3_8B.layers * plain.efficiency.kernel_latency, rel=1e-9)  # a difference


def test_factors_are_described_with_their_source_and_overrides_are_the_users() -> None:
    described = RooflineCost(LLAMA_8B, H200, efficiency=Efficiency(gemm_compute=0.5)).describe()
    assert described["gemm_compute"] == (0.5, "stated", "the scenario")
    assert described["gemm_bandwidth"][:2] == (0.75, "measured")
    assert "shipped profiles" in described["gemm_bandwidth"].source
    assert "Apache-2.0" in described["kernel_latency"].source
    assert described["host_overhead"].tag == "assumed"
    assert described["gpu.memory_bandwidth"][:2] == (4.8e12, "data sheet")


def test_only_factors_that_play_a_part_are_described() -> None:
    dense = RooflineCost(LLAMA_8B, H200).describe()
    assert not {name for name in dense if "expert" in name or name in ("weight_only_compute", "routing_skew")}
    assert RooflineCost(LLAMA_8B, A100, 1, "fp8").describe()["weight_only_compute"].tag == "assumed"
    uniform, skewed = (RooflineCost(QWEN3_30B_A3B, H200, routing_skew=skew).describe() for skew in (0.0, 0.8))
    assert uniform["expert_compute"].tag == "fitted"
    assert "H100 and H200" in uniform["expert_compute"].source
    assert not {name for name in uniform if name.startswith("narrow")}
    narrow = set(RooflineCost(QWEN3_30B_A3B, H200, 1, "fp8").describe())
    assert {"narrow_expert_compute", "narrow_expert_latency", "expert_bandwidth"} <= narrow
    assert not {"expert_compute", "expert_latency"} & narrow
    assert uniform["routing_skew"][:2] == (0.0, "assumed")
    assert skewed["routing_skew"][:2] == (0.8, "stated")


def test_every_factor_out_of_range_is_named() -> None:
    with pytest.raises(BadInput, match=r"(?s)gemm_compute: 1.2.*kernel_latency: -1"):
        Efficiency(gemm_compute=1.2, kernel_latency=-1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": replace(LLAMA_8B, attention="mla")}, "attention 'mla' is not covered"),
        ({"model": replace(QWEN3_30B_A3B, attention="mla")}, "attention 'mla' is not covered"),
        ({"pipeline_parallel_size": 33}, "pipeline_parallel_size 33, expected 1 to 32"),
        ({"model": QWEN3_30B_A3B, "routing_skew": -1.0}, "routing_skew -1, expected 0"),
        ({"weight_dtype": "int3"}, "weight dtype 'int3'"),
        ({"kv_dtype": "int8"}, "KV dtype 'int8'"),
        ({"kv_dtype": "int3"}, "KV dtype 'int3'"),
        ({"tensor_parallel_size": 3}, "does not divide"),
        ({"gpu": replace(H200, dense_flops={"fp8": 1e15})}, "lacks bfloat16"),
    ],
)
def test_what_is_not_covered_is_refused(changes: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"model": LLAMA_8B, "gpu": H200, **changes}
    with pytest.raises(BadInput, match=message):
        RooflineCost(**arguments)  # type: ignore[arg-type]
