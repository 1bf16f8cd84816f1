from dataclasses import replace

import pytest

from capsim.errors import Infeasible
from capsim.memory.budget import fit_memory
from capsim.memory.changes import changes
from capsim.memory.question import MemoryQuestion
from tests.cost.hardware import H100, LLAMA_8B, QWEN25_7B

QUESTION = MemoryQuestion(LLAMA_8B, H100, 1, "bfloat16", "bfloat16", 16, 0.9, 8192, 256, 2048, "0.20.0")


def names(question: MemoryQuestion) -> list[str]:
    return [change.name for change in changes(question)]


def test_every_setting_that_could_be_another_is_named_once() -> None:
    assert names(QUESTION) == [
        "kv_cache_dtype fp8",
        "dtype fp8",
        "dtype int4",
        "gpu_memory_utilization 0.95",
        "tensor_parallel_size 2",
        "pipeline_parallel_size 2",
        "max_num_seqs 512",
        "max_num_batched_tokens 1024",
        "enforce_eager true",
    ]


def test_a_change_changes_that_setting_and_no_other() -> None:
    for change in changes(replace(QUESTION, num_gpu_blocks=9000)):
        name, value = change.name.rsplit(" ", 1)
        attribute = {"kv_cache_dtype": "kv_dtype", "dtype": "weight_dtype"}.get(name, name)
        changed = getattr(change.question, attribute)
        assert str(changed).lower() == value
        assert replace(change.question, **{attribute: getattr(QUESTION, attribute)}) == QUESTION


def test_what_is_so_already_is_not_offered() -> None:
    at_best = replace(
        QUESTION,
        kv_dtype="fp8",
        weight_dtype="int4",
        gpu_memory_utilization=0.95,
        max_num_seqs=2048,
        enforce_eager=True,
    )
    assert names(at_best) == ["tensor_parallel_size 2", "pipeline_parallel_size 2"]
    assert "enforce_eager true" not in names(replace(QUESTION, engine_version="0.19.0"))


def test_parallelism_that_cannot_share_the_model_is_not_offered() -> None:
    seven = replace(QUESTION, model=QWEN25_7B, tensor_parallel_size=4, pipeline_parallel_size=28)
    assert not [name for name in names(seven) if "parallel" in name]


def test_utilization_leaves_room_for_graphs_outside_the_budget() -> None:
    small = replace(
        QUESTION, engine_version="0.19.0", gpu=replace(H100, memory=24 << 30), gpu_memory_utilization=0.94
    )
    # 5 % of 24 GiB hold the graphs' 0.89 GiB; 5 % of 16 GiB do not.
    assert "gpu_memory_utilization 0.95" in names(small)
    assert not [
        name for name in names(replace(small, gpu=replace(H100, memory=16 << 30))) if "utilization" in name
    ]


def test_without_graphs_the_cache_has_their_memory() -> None:
    eager = replace(QUESTION, enforce_eager=True)
    graphs = next(line for line in fit_memory(QUESTION).lines if line.name == "CUDA graphs")
    assert fit_memory(eager).kv_bytes == fit_memory(QUESTION).kv_bytes - graphs.bytes
    assert (
        next(line for line in fit_memory(eager).lines if line.name == "CUDA graphs").note
        == "none: enforce_eager"
    )
    assert replace(eager, engine_version="0.19.0", gpu_memory_utilization=1.0).holds_graphs()


def test_communication_comes_with_ranks_that_share_a_layer() -> None:
    assert "communication" not in [line.name for line in fit_memory(QUESTION).lines]
    assert "communication" in [
        line.name for line in fit_memory(replace(QUESTION, tensor_parallel_size=2)).lines
    ]
    assert "communication" not in [
        line.name for line in fit_memory(replace(QUESTION, pipeline_parallel_size=2)).lines
    ]


def test_a_remedy_of_a_windowed_model_is_one_that_fits() -> None:
    windowed = replace(
        QUESTION,
        model=replace(LLAMA_8B, attention="sliding-window", window=1024, full_layers=tuple(range(5, 32, 6))),
        gpu_memory_utilization=0.22,
        max_model_len=131072,
    )
    with pytest.raises(Infeasible) as caught:
        fit_memory(windowed)
    longest = int(caught.value.remedies[-1].rsplit(" ", 1)[1])
    assert fit_memory(replace(windowed, max_model_len=longest)).num_gpu_blocks > 0
    with pytest.raises(Infeasible):
        fit_memory(replace(windowed, max_model_len=longest + 1))
