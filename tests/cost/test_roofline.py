from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.catalog.gpu import Gpu
from capsim.catalog.model import Model
from capsim.cost import UNBOUNDED, BatchShape, Chunk, Efficiency, RooflineCost
from capsim.errors import BadInput
from tests.cost.hardware import A100, H200, LLAMA_8B, LLAMA_70B, QWEN3_8B

IDEAL = Efficiency(
    gemm_compute=1,
    gemm_bandwidth=1,
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


def test_fp8_weights_without_fp8_arithmetic_compute_as_bfloat16() -> None:
    batch = BatchShape((Chunk(8192, 0),), 0, 0)
    assert RooflineCost(LLAMA_8B, A100, 1, "fp8").step(batch) == pytest.approx(
        RooflineCost(LLAMA_8B, A100).step(batch), rel=0.01
    )  # compute-bound: only small kernels that wait for weights gain


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
    assert described["gemm_bandwidth"][:2] == (0.8, "measured")
    assert "Apache-2.0" in described["gemm_bandwidth"].source
    assert described["host_overhead"].tag == "assumed"
    assert described["gpu.memory_bandwidth"][:2] == (4.8e12, "data sheet")


def test_every_factor_out_of_range_is_named() -> None:
    with pytest.raises(BadInput, match=r"(?s)gemm_compute: 1.2.*kernel_latency: -1"):
        Efficiency(gemm_compute=1.2, kernel_latency=-1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": replace(LLAMA_8B, attention="mla")}, "attention 'mla' is not covered"),
        ({"weight_dtype": "int3"}, "weight dtype 'int3'"),
        ({"kv_dtype": "int3"}, "KV dtype 'int3'"),
        ({"tensor_parallel_size": 3}, "does not divide"),
        ({"gpu": replace(H200, dense_flops={"fp8": 1e15})}, "lacks bfloat16"),
    ],
)
def test_what_is_not_covered_is_refused(changes: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"model": LLAMA_8B, "gpu": H200, **changes}
    with pytest.raises(BadInput, match=message):
        RooflineCost(**arguments)  # type: ignore[arg-type]
