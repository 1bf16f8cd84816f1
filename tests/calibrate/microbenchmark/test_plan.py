from __future__ import annotations

from dataclasses import replace

import pytest

from calibrate.microbenchmark import sample
from calibrate.microbenchmark.axes import DENSITIES, doubling, graph_sizes, odd_counts, tile_counts
from calibrate.microbenchmark.case import ATTENTION, OPERATOR, STEP, Batch, Case
from calibrate.microbenchmark.limits import Limits, limits_of
from calibrate.microbenchmark.plan import Plan, plan_of, pool_tokens
from calibrate.microbenchmark.plan_command import data_sheet_ceilings
from calibrate.microbenchmark.rank import Ceilings, Rank, Work
from calibrate.regime import kind_of
from capsim.catalog import load_gpu, load_model
from capsim.errors import BadInput, Infeasible
from capsim.memory import weight_bytes
from tests.calibrate.microbenchmark.fake_bench import LIMITS, RANK

H200 = load_gpu("h200")
LLAMA = Rank(load_model("llama-3.1-8b"), 1, "bfloat16")
CEILINGS = data_sheet_ceilings(H200)


def h200_limits(rank: Rank = LLAMA) -> Limits:
    return limits_of(
        rank,
        H200.memory,
        max_num_batched_tokens=8192,
        max_num_seqs=256,
        max_model_len=16384,
        graphs=True,
    )


def test_products_are_dense_where_tiles_step() -> None:
    counts = tile_counts(8192, DENSITIES[0])
    assert counts[:5] == (1, 2, 4, 8, 16)
    assert set(range(16, 513, 16)) <= set(counts)
    assert counts[-1] == 8192
    assert all(count % 64 == 0 for count in counts if count > 512)


def test_counts_off_the_alignment_begin_a_tile() -> None:
    counts = odd_counts(8192, DENSITIES[0])
    assert {17, 33} <= set(counts)
    assert all(count % 16 == 1 for count in counts)
    assert max(counts) < 8192


@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 2), (3, 100), (64, 64), (16, 8192)])
def test_a_doubling_axis_has_both_ends(first: int, last: int) -> None:
    counts = doubling(first, last)
    assert counts[0] == first
    assert counts[-1] == last
    assert list(counts) == sorted(set(counts))


def test_graph_sizes_end_where_the_engine_does() -> None:
    assert graph_sizes(8) == (1, 2, 4, 8)
    assert graph_sizes(10_000)[-3:] == (480, 496, 512)


def test_every_regime_is_measured_and_kept_out_in_part() -> None:
    cases = Plan(LLAMA, h200_limits(), DENSITIES[0]).cases()
    names = {(case.kind, case.name) for case in cases}
    assert {(ATTENTION, name) for name in ("prefill", "decode", "mixed", "skew", "held out")} <= names
    assert {(STEP, name) for name in ("chain", "grid", "random", "graph", "eager")} <= names
    assert {name for kind, name in names if kind == OPERATOR} == {
        kind.name for kind in LLAMA.operators(LLAMA.model.layers)
    }
    random = [case.shape.shape for case in cases if case.kind == STEP and case.name == "random"]
    assert {kind_of(batch).regime for batch in random} == {"prefill", "decode", "mixed"}
    assert len(set(cases)) == len(cases)


def test_no_batch_is_larger_than_the_memory() -> None:
    limits = h200_limits()
    for case in Plan(LLAMA, limits, DENSITIES[0]).cases():
        if case.batch is not None:
            assert case.batch.kv_tokens <= limits.kv_tokens
            assert case.batch.tokens <= limits.max_num_batched_tokens
            assert max(length for _, length in case.batch.lengths) <= limits.max_model_len


def test_weights_and_kv_of_the_largest_batch_fit() -> None:
    limits = h200_limits()
    pool = pool_tokens(Plan(LLAMA, limits, DENSITIES[0]), page=256) * LLAMA.kv_bytes
    assert pool + weight_bytes(LLAMA.model, 1, "bfloat16") < H200.memory


def test_the_order_does_not_depend_on_the_process() -> None:
    plan = Plan(RANK, LIMITS, DENSITIES[-1])
    assert plan.cases() == Plan(RANK, LIMITS, DENSITIES[-1]).cases()


def test_a_second_round_comes_after_every_first_one() -> None:
    rounds = [case.round for case in Plan(RANK, LIMITS, DENSITIES[-1]).cases() if case.kind == STEP]
    assert rounds == sorted(rounds)


def test_more_minutes_give_denser_tables_and_fewer_never_too_long_ones() -> None:
    found = []
    for minutes in (1.0, 2.0, 3.0, 5.0):
        plan = plan_of(LLAMA, h200_limits(), CEILINGS, sample.CUDA, minutes)
        seconds = sum(plan.seconds(CEILINGS, sample.CUDA).values())
        assert seconds <= 60 * minutes or plan.density == DENSITIES[-1]
        found.append(len(plan.cases()))
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_a_model_too_large_for_one_gpu_is_measured_in_part() -> None:
    limits = h200_limits(Rank(load_model("llama-3.1-70b"), 1, "bfloat16"))
    assert 1 <= limits.layers < 80
    assert limits.kv_tokens >= limits.max_model_len


def test_a_model_of_which_no_layer_fits_is_refused() -> None:
    with pytest.raises(Infeasible, match="not one layer"):
        limits_of(
            LLAMA, 1 << 30, max_num_batched_tokens=8192, max_num_seqs=8, max_model_len=4096, graphs=True
        )


def test_a_model_with_other_attention_is_refused() -> None:
    with pytest.raises(BadInput, match="attention over everything"):
        Rank(load_model("deepseek-v3"), 1, "bfloat16")


def test_ranks_share_heads_and_columns() -> None:
    two = replace(LLAMA, ranks=2)
    assert two.product("qkv_proj") == (3072, 4096)
    assert two.product("o_proj") == (4096, 2048)
    assert two.product("gate_up_proj") == (14336, 4096)
    assert two.kv_bytes * 2 == LLAMA.kv_bytes


def test_the_operators_hold_all_weights() -> None:
    """The products' weights, and embedding and norms, are what the memory model counts."""
    products = sum(
        kind.times * LLAMA.operator_work(kind.name, 1).cold for kind in LLAMA.operators(LLAMA.model.layers)
    )
    embedding = 2 * LLAMA.model.embedding_parameters
    norms = 2 * (2 * LLAMA.model.layers + 1) * LLAMA.model.hidden_size
    assert products + embedding + norms == weight_bytes(LLAMA.model, 1, "bfloat16")


def test_the_least_seconds_are_the_longer_of_arithmetic_and_memory() -> None:
    ceilings = Ceilings(bandwidth=10.0, flops={"bfloat16": 100.0}, cache=5)
    assert ceilings.least_seconds(Work(flops=200.0, cold=10.0)) == 2.0
    assert ceilings.least_seconds(Work(flops=10.0, cold=50.0)) == 5.0
    # What a cache may hold is not counted against the memory.
    assert ceilings.least_seconds(Work(warm=30.0)) == 2.0
    assert ceilings.least_seconds(Work(warm=10.0)) == 0.0


def test_pairs_of_a_batch_are_those_of_its_chunks_and_decodes() -> None:
    batch = Batch.of([[3, 2]], [[7, 2]])
    assert batch.pairs == (3 + 4 + 5) + 7 + 7
    assert batch.kv_tokens == 5 + 14
    assert batch.tokens == 5


@pytest.mark.parametrize("case", Plan(RANK, LIMITS, DENSITIES[-1]).cases()[::7])
def test_a_case_survives_its_file(case: Case) -> None:
    assert Case.of(case.members()) == case
