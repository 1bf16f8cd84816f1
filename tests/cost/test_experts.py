import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.catalog.gpu import Gpu
from capsim.catalog.model import Experts, Model
from capsim.cost import BatchShape, Chunk, RooflineCost
from capsim.cost.experts import Routing
from tests.cost.hardware import H200, MIXTRAL_8X7B, QWEN3_30B_A3B
from tests.cost.test_roofline import IDEAL

EXPERTS = Experts(count=128, per_token=8, intermediate_size=768)
skews = st.floats(0, 3)


@given(count=st.integers(1, 256), data=st.data(), skew=skews)
def test_one_token_touches_its_experts_and_many_touch_all(
    count: int, data: st.DataObject, skew: float
) -> None:
    per_token = data.draw(st.integers(1, count))
    routing = Routing(Experts(count, per_token, 64), skew)
    assert routing.touched(1) == pytest.approx(per_token, rel=1e-9)  # a sum of chances
    touched = [routing.touched(tokens) for tokens in (1, 2, 10, 1000)]
    assert touched == sorted(touched)
    assert touched[-1] <= count * (1 + 1e-12)


def test_many_tokens_touch_every_expert() -> None:
    assert Routing(EXPERTS).touched(10_000) == pytest.approx(128, rel=1e-12)  # (15/16) ** 10000 is 0
    # The least popular of 128 has a chance of 0.012 a token at a skew of 1.
    assert Routing(EXPERTS, 1.0).touched(10_000) == pytest.approx(128, rel=1e-9)


@given(tokens=st.integers(1, 4096))
def test_uniform_routing_touches_the_closed_form(tokens: int) -> None:
    expected = 128 * (1 - (1 - 8 / 128) ** tokens)
    assert Routing(EXPERTS).touched(tokens) == pytest.approx(expected, rel=1e-9)


@given(tokens=st.integers(2, 4096), ranks=st.sampled_from([2, 4, 8]), skew=st.floats(0.05, 2))
def test_skew_touches_fewer_experts_and_loads_the_busiest_rank_more(
    tokens: int, ranks: int, skew: float
) -> None:
    uniform, skewed = Routing(EXPERTS), Routing(EXPERTS, skew)
    assert skewed.touched(tokens) <= uniform.touched(tokens) * (1 + 1e-12)
    assert skewed.busiest(tokens, ranks).rows > uniform.busiest(tokens, ranks).rows


@given(tokens=st.integers(1, 4096), ranks=st.integers(1, 128), skew=skews)
def test_the_busiest_rank_has_its_share_or_more_and_no_token_twice(
    tokens: int, ranks: int, skew: float
) -> None:
    routing = Routing(EXPERTS, skew)
    load = routing.busiest(tokens, ranks)
    held = -(-128 // ranks)
    slack = 1 + 1e-9
    assert 8 * tokens / ranks <= load.rows * slack
    assert load.rows <= tokens * min(8, held) * slack
    assert 1 <= load.touched <= min(held, max(1.0, routing.touched(tokens))) * slack


def test_the_hottest_expert_alone_bounds_a_rank_that_holds_no_other() -> None:
    # With a skew of 3 the first of 8 is in all choices of two, the second has most of the rest.
    load = Routing(Experts(8, 2, 64), 3.0).busiest(100, 8)
    assert (load.touched, load.rows) == pytest.approx((1, 100))


def test_one_rank_has_everything() -> None:
    load = Routing(EXPERTS, 0.7).busiest(32, 1)
    assert load.rows == pytest.approx(8 * 32, rel=1e-9)
    assert load.touched == pytest.approx(Routing(EXPERTS, 0.7).touched(32), rel=1e-9)


TINY = Model(
    "tiny",
    "gqa",
    2,
    8,
    16,
    4,
    2,
    4,
    32,
    False,
    128,
    "by hand",
    experts=Experts(4, 2, 4, shared=1, dense_layers=1),
)
SLOW = Gpu("slow", 1 << 30, 1000.0, {"bfloat16": 10_000.0}, 100.0, {})


def test_a_dense_layer_and_one_with_experts_by_hand() -> None:
    cost = RooflineCost(TINY, SLOW, efficiency=IDEAL)
    # Two decodes, 10 tokens of context. Both layers: qkv 32 x 8 and output 8 x 16, norms, rotary and cache, KV.
    attention = sum(n * k * 2 + 2 * (n + k) * 2 for n, k in ((32, 8), (8, 16)))
    around = 2 * 2 * (2 * 4 * 8 + 2 * 24 + 2 * 16)
    kv = 10 * 2 * 8 * 2
    # The dense layer's MLP, 16 columns: gate and up, down, activation.
    dense = sum(n * k * 2 + 2 * (n + k) * 2 for n, k in ((32, 8), (8, 16))) + 2 * 3 * 16 * 2
    # Uniform routing: two tokens with 2 of 4 experts each touch 4 * (1 - (1/2) ** 2) = 3, in 4 pairs.
    router = 4 * 8 * 2 + 2 * (4 + 8) * 2
    # Of a grouped product the arithmetic comes on top, at ten times the rate.
    chosen = sum(3 * n * k * 2 + 4 * (n + k) * 2 + 2 * 4 * n * k / 10 for n, k in ((8, 8), (8, 4)))
    moved = 2 * (3 * 4 * 4 + (4 + 2) * 8)
    shared = sum(n * k * 2 + 2 * (n + k) * 2 for n, k in ((8, 8), (8, 4))) + 2 * 3 * 4 * 2
    head = 32 * 8 * 2 + 2 * (32 + 8) * 2 + 2 * 32 * 10
    moved_bytes = 2 * (attention + around + kv) + dense + router + chosen + moved + shared + head
    assert cost.step(BatchShape((), 2, 10)) == pytest.approx(moved_bytes / 1000, rel=1e-12)  # rounding only


def test_weights_read_in_a_step_by_hand() -> None:
    operators = RooflineCost(TINY, SLOW, efficiency=IDEAL).operators
    always = 2 * (32 * 8 + 8 * 16) + 3 * 8 * 16 + 4 * 8 + 3 * 8 * 4 + 32 * 8
    for tokens, touched in ((1, 2.0), (2, 3.0)):
        expected = 2 * (always + touched * 3 * 8 * 4)
        assert operators.streamed_weight_bytes(tokens) == pytest.approx(expected, rel=1e-12)


def test_experts_are_split_or_dealt_out() -> None:
    def streamed(count: int, expert_parallel: bool) -> float:
        model = replace(TINY, experts=Experts(count, 2, 4))
        cost = RooflineCost(model, SLOW, 2, efficiency=IDEAL, expert_parallel=expert_parallel)
        return cost.operators.streamed_weight_bytes(1000)

    # Four experts on two ranks are half of each or two whole ones; five are half of each, or three on the fuller
    # rank: half an expert more in both layers.
    assert streamed(4, True) == streamed(4, False)
    assert streamed(5, True) - streamed(5, False) == pytest.approx(
        2 * 0.5 * 3 * 8 * 4 * 2, rel=1e-9
    )  # a difference


def test_expert_parallelism_ends_with_the_same_all_reduce() -> None:
    model = replace(TINY, experts=Experts(4, 2, 4))
    fast = Gpu("linked", 1 << 30, 1e30, {"bfloat16": 1e30}, 100.0, {})
    batch = BatchShape((), 1, 1)
    split, dealt = (
        RooflineCost(model, fast, 2, efficiency=IDEAL, expert_parallel=dealt).step(batch)
        for dealt in (False, True)
    )
    # Two all-reduces a layer of 8 elements send all of them, the logits' gathering half of 32: 2 bytes each.
    assert split == dealt == pytest.approx((2 * 2 * 8 * 2 + 32 * 2 / 2) / 100, rel=1e-12)


@pytest.mark.parametrize("expert_parallel", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 4])
@given(tokens=st.integers(1, 8192), decodes=st.integers(0, 256), skew=st.sampled_from([0.0, 1.0]))
def test_no_step_beats_the_data_sheet(
    expert_parallel: bool, ranks: int, tokens: int, decodes: int, skew: float
) -> None:
    model = QWEN3_30B_A3B
    cost = RooflineCost(model, H200, ranks, expert_parallel=expert_parallel, routing_skew=skew)
    seconds = cost.step(BatchShape((Chunk(tokens, 0),), decodes, decodes * 1024))
    linear = model.active_parameters - 2 * model.embedding_parameters - 49 * 2048 * 2 - 48 * 2 * 128
    rows = tokens + decodes
    assert seconds >= 2 * rows * linear / ranks / H200.dense_flops["bfloat16"]
    # At least the weights of one token's experts, whatever the routing.
    assert seconds >= 2 * linear / ranks / H200.memory_bandwidth


@given(st.lists(st.integers(1, 8192), min_size=2, max_size=5))
def test_more_tokens_never_take_less(tokens: list[int]) -> None:
    operators = RooflineCost(MIXTRAL_8X7B, H200, 2, expert_parallel=True, routing_skew=0.5).operators
    seconds = [operators.token_seconds(count) for count in sorted(tokens)]
    assert seconds == sorted(seconds)


def test_one_decode_is_far_cheaper_than_all_experts_and_a_batch_is_not() -> None:
    operators = RooflineCost(QWEN3_30B_A3B, H200).operators
    everything = 2 * (QWEN3_30B_A3B.parameters - QWEN3_30B_A3B.embedding_parameters)
    # 8 of 128 experts and all the rest: the card's 3.3 B of 30.5 B, less the embedding that is looked up.
    assert operators.streamed_weight_bytes(1) == pytest.approx(0.101 * everything, rel=0.01)
    # Norms, which are not counted as weights to stream, are less than 1e-5 of everything.
    assert operators.streamed_weight_bytes(1024) == pytest.approx(everything, rel=1e-5)


def test_a_cost_with_experts_can_be_sent_to_another_process() -> None:
    cost = RooflineCost(MIXTRAL_8X7B, H200, 2, expert_parallel=True)
    batch = BatchShape((), 16, 16 * 512)
    assert pickle.loads(pickle.dumps(cost)).step(batch) == cost.step(batch)
