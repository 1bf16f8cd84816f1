from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.errors import BadInput, Infeasible
from capsim.memory import MemoryFit, fit_memory, weight_bytes
from capsim.memory.question import MemoryQuestion
from tests.cost.hardware import GIB, H100, H200, KIMI_72B, LLAMA_8B, LLAMA_70B

SETTINGS: dict[str, Any] = {
    "tensor_parallel_size": 1,
    "weight_dtype": "bfloat16",
    "kv_dtype": "bfloat16",
    "block_size": 16,
    "gpu_memory_utilization": 0.9,
    "max_model_len": 8192,
    "max_num_seqs": 256,
    "max_num_batched_tokens": 8192,
    "engine_version": "0.19.0",
}


def fit(model: Any = LLAMA_8B, gpu: Any = H200, **changes: Any) -> MemoryFit:
    return fit_memory(MemoryQuestion(model, gpu, **{**SETTINGS, **changes}))


@given(
    ranks=st.sampled_from([1, 2, 4, 8]),
    weight_dtype=st.sampled_from(["bfloat16", "fp8"]),
    kv_dtype=st.sampled_from(["bfloat16", "fp8"]),
    utilization=st.floats(0.8, 0.95),
    version=st.sampled_from(["0.15.0", "0.19.0", "vllm 0.26.1rc1"]),
)
def test_the_lines_add_up_to_the_cache_and_the_blocks_fill_it(
    ranks: int, weight_dtype: str, kv_dtype: str, utilization: float, version: str
) -> None:
    result = fit(
        tensor_parallel_size=ranks,
        weight_dtype=weight_dtype,
        kv_dtype=kv_dtype,
        gpu_memory_utilization=utilization,
        engine_version=version,
    )
    assert sum(line.bytes for line in result.lines[:-1]) == result.lines[-1].bytes == result.kv_bytes
    unused = result.kv_bytes - result.num_gpu_blocks * result.layout.bytes_per_block
    assert 0 <= unused < result.layout.bytes_per_block
    assert {line.tag for line in result.lines} <= {"data sheet", "stated", "derived", "fitted", "assumed"}


def test_the_null_block_serves_no_sequence() -> None:
    result = fit(num_gpu_blocks=1025)
    assert result.usable_blocks == 1024
    assert result.kv_tokens == 16384
    assert result.concurrency(8192) == 2
    assert result.concurrency(8177) == 2  # a block is held whole
    assert result.bytes_per_token == 128 << 10


def test_a_stated_number_of_blocks_wins_and_says_so() -> None:
    result = fit(num_gpu_blocks=1000)
    assert result.num_gpu_blocks == 1000
    assert result.kv_bytes == 1000 * (2 << 20)
    assert result.lines[-1].tag == "stated"
    assert "1000 blocks stated" in result.lines[-1].note


def test_graphs_are_taken_from_the_budget_after_0_19() -> None:
    older, newer = fit(engine_version="0.19.1"), fit(engine_version="0.20.0")
    graphs = next(line for line in newer.lines if line.name == "CUDA graphs")
    assert graphs.bytes < 0
    assert newer.kv_bytes == older.kv_bytes + graphs.bytes
    line = next(line for line in older.lines if line.name == "CUDA graphs")
    assert line.bytes == 0
    assert "0.89 GiB outside the budget" in line.note


def test_graphs_that_do_not_fit_beside_the_budget_are_warned_of() -> None:
    names = [line.name for line in fit(gpu=H100, gpu_memory_utilization=0.99).lines]
    assert "CUDA graphs do not fit" in names
    assert "CUDA graphs do not fit" not in [line.name for line in fit(gpu=H100).lines]


def test_fp8_keeps_embeddings_and_norms_at_two_bytes() -> None:
    linear = 32 * (LLAMA_8B.attention_parameters + LLAMA_8B.mlp_parameters)
    assert weight_bytes(LLAMA_8B, 1, "bfloat16") == 2 * LLAMA_8B.parameters
    assert weight_bytes(LLAMA_8B, 1, "fp8") == 2 * LLAMA_8B.parameters - linear


def test_ranks_share_the_weights_except_norms_and_replicated_kv() -> None:
    norms = 2 * (LLAMA_70B.layers * LLAMA_70B.norm_parameters + LLAMA_70B.hidden_size)
    whole = weight_bytes(LLAMA_70B, 1, "bfloat16") - norms
    assert weight_bytes(LLAMA_70B, 8, "bfloat16") - norms == whole // 8
    assert weight_bytes(LLAMA_70B, 16, "bfloat16") - norms > whole // 16
    assert weight_bytes(KIMI_72B, 1, "bfloat16") == 2 * KIMI_72B.parameters


def test_a_tied_embedding_is_counted_once() -> None:
    tied = replace(LLAMA_8B, tied_embeddings=True)
    saved = weight_bytes(LLAMA_8B, 1, "fp8") - weight_bytes(tied, 1, "fp8")
    assert saved == 2 * LLAMA_8B.embedding_parameters


def test_weights_without_room_are_infeasible_and_the_smallest_ranks_that_fit_are_named() -> None:
    with pytest.raises(
        Infeasible, match="weights and workspace exceed the memory budget of a GPU by"
    ) as caught:
        fit(LLAMA_70B, H100, max_model_len=32768)
    assert any(remedy.startswith("tensor_parallel_size 4 (") for remedy in caught.value.remedies)
    with pytest.raises(Infeasible):
        fit(LLAMA_70B, H100, max_model_len=32768, tensor_parallel_size=2)
    assert fit(LLAMA_70B, H100, max_model_len=32768, tensor_parallel_size=4).concurrency(32768) > 1


def test_a_pool_below_one_longest_sequence_is_infeasible_by_the_stated_amount() -> None:
    roomy = fit(LLAMA_70B, tensor_parallel_size=2, max_model_len=8192)
    longest = roomy.num_gpu_blocks * 16
    assert (
        fit(LLAMA_70B, tensor_parallel_size=2, max_model_len=longest).num_gpu_blocks == roomy.num_gpu_blocks
    )
    with pytest.raises(Infeasible) as caught:
        fit(LLAMA_70B, tensor_parallel_size=2, max_model_len=longest + 16 * 1024)
    short = (longest + 16 * 1024) * roomy.bytes_per_token - roomy.kv_bytes
    assert f"({short / GIB:.2f} GiB short)" in caught.value.limit
    assert f"max_model_len of at most {longest}" in caught.value.remedies[-1]


def test_each_remedy_computed_is_one_that_fits() -> None:
    tight = {"model": LLAMA_8B, "gpu": H100, "gpu_memory_utilization": 0.3, "max_model_len": 131072}
    with pytest.raises(Infeasible) as caught:
        fit(**tight)
    cures = {remedy.split(" (")[0] for remedy in caught.value.remedies}
    utilization = next(float(cure.split()[-1]) for cure in cures if cure.startswith("gpu_memory_utilization"))
    ranks = next(int(cure.split()[-1]) for cure in cures if cure.startswith("tensor_parallel_size"))
    length = next(int(cure.split()[-1]) for cure in cures if cure.startswith("max_model_len"))
    assert fit(**{**tight, "gpu_memory_utilization": utilization}).concurrency(131072) > 0.99
    with pytest.raises(Infeasible):
        fit(**{**tight, "gpu_memory_utilization": utilization - 0.01})
    assert fit(**{**tight, "tensor_parallel_size": ranks}).concurrency(131072) > 0.99
    with pytest.raises(Infeasible):
        fit(**{**tight, "tensor_parallel_size": ranks // 2})
    assert fit(**{**tight, "max_model_len": length}).num_gpu_blocks * 16 == length
    assert caught.value.remedies[0].startswith("gpu_memory_utilization")


def test_a_model_beyond_every_remedy_names_the_gpu_it_needs() -> None:
    small = replace(H100, memory=2 * GIB, name="small")
    with pytest.raises(Infeasible, match=r"GPUs with at least \d+\.\d\d GiB"):
        fit(LLAMA_70B, small)


def test_stated_blocks_below_one_longest_sequence_are_infeasible() -> None:
    with pytest.raises(Infeasible, match="num_gpu_blocks of at least 512"):
        fit(num_gpu_blocks=511)
    assert fit(num_gpu_blocks=512).num_gpu_blocks == 512


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpu_memory_utilization": 1.2}, "gpu_memory_utilization 1.2"),
        ({"max_model_len": 0, "max_num_seqs": 0}, "max_model_len 0, expected at least 1\nmax_num_seqs 0"),
        ({"num_gpu_blocks": 0}, "num_gpu_blocks 0"),
        ({"weight_dtype": "int3"}, "weight dtype 'int3'"),
        ({"engine_version": "latest"}, "engine version 'latest'"),
        ({"tensor_parallel_size": 5}, "does not divide"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        fit(**changes)
