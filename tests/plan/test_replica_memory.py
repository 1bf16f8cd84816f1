"""Memory that a profile measured, in the answers of fit and plan."""

import json
from pathlib import Path
from typing import Any

import pytest

from capsim.errors import BadInput
from capsim.memory.startup_log import read_startup_log
from capsim.plan.deployment import deploy, fitted
from capsim.plan.feasibility import Feasibility
from capsim.plan.fit_result import fit_result
from capsim.plan.startup import fitted_as_logged
from capsim.report.text import fit_text
from capsim.scenario import load
from tests.cost.profiles import document, write
from tests.memory.test_startup_log import LOGS

ORIGIN = {"tag": "measured", "source": "log", "version": "0.19.0"}
WEIGHTS = 17_000_000_000
MEMORY: dict[str, Any] = {
    "total": {**ORIGIN, "bytes": 85_000_000_000},
    "weights": {**ORIGIN, "bytes": WEIGHTS},
    "non_torch": {**ORIGIN, "bytes": 300_000_000},
    "activations": {**ORIGIN, "tokens": [8192], "sequences": [256], "bytes": [1_900_000_000]},
    "graphs": {**ORIGIN, "bytes": 1_000_000_000},
}
SHIPPED = Path(__file__).parents[2] / "configs" / "scenarios" / "chat-llama-3.1-8b-h200.yaml"


def settings(folder: Path, memory: dict[str, Any] | None, *more: str) -> list[str]:
    content = document() if memory is None else {**document(), "memory": memory}
    content["provenance"]["gpu"] = "h100-sxm"
    return [
        f"step_cost={{source: profile, path: {write(folder, content)}}}",
        "gpu=h100-sxm",
        "engine.version=0.19.0",
        "engine.num_gpu_blocks=null",
        "engine.gpu_memory_utilization=0.9",
        "engine.max_num_seqs=256",
        "engine.max_num_batched_tokens=8192",
        *more,
    ]


def lines(folder: Path, memory: dict[str, Any] | None, *more: str) -> dict[str, dict[str, Any]]:
    result = fit_result(fitted(load(SHIPPED, settings(folder, memory, *more))))
    return {line["name"]: line for line in result["memory"]["lines"]}


def test_each_line_that_was_measured_is_told_so(tmp_path: Path) -> None:
    found = lines(tmp_path, MEMORY)
    assert {name for name, line in found.items() if line["tag"] == "measured"} == {
        "GPU memory",
        "weights",
        "activations",
        "outside PyTorch",
        "CUDA graphs",
    }
    left = int(0.9 * 85_000_000_000) - WEIGHTS - 1_900_000_000 - 300_000_000
    assert found["KV cache"]["bytes"] == pytest.approx(left, abs=1)


def test_the_table_in_print_says_it(tmp_path: Path) -> None:
    text = fit_text(fit_result(fitted(load(SHIPPED, settings(tmp_path, MEMORY)))))
    (line,) = (each for each in text.splitlines() if each.strip().startswith("weights"))
    assert line.split() == ["weights", "-15.83", "measured", "printed", "by", "the", "engine"]


def test_a_plan_simulates_the_measured_pool(tmp_path: Path) -> None:
    scenario = load(SHIPPED, settings(tmp_path, MEMORY))
    deployment = deploy(scenario)
    assert deployment.memory == fitted(scenario).memory
    assert deployment.engine.usable_blocks == deployment.memory.usable_blocks
    rules = deploy(load(SHIPPED, settings(tmp_path, None)))
    assert deployment.memory.num_gpu_blocks < rules.memory.num_gpu_blocks


def test_a_stated_number_of_blocks_wins(tmp_path: Path) -> None:
    found = lines(tmp_path, MEMORY, "engine.num_gpu_blocks=20000")
    assert found["KV cache"]["tag"] == "stated"
    assert found["KV cache"]["bytes"] == 20000 * 16 * 131072


@pytest.mark.parametrize(
    "other",
    ["engine.tensor_parallel_size=2", "engine.dtype=fp8", "engine.kv_cache_dtype=fp8", "gpu=h200"],
)
def test_memory_of_something_else_leaves_the_rules(tmp_path: Path, other: str) -> None:
    found, rules = (lines(tmp_path, memory, other) for memory in (MEMORY, None))
    assert found == rules


def test_what_would_change_it_counts_from_the_measured_pool(tmp_path: Path) -> None:
    """Half the tokens in a step: the rules' difference, on top of what was measured."""
    answers = []
    for memory in (MEMORY, None):
        feasibility = Feasibility(fitted(load(SHIPPED, settings(tmp_path, memory))))
        change = next(
            row for row in feasibility.changes() if row["name"].startswith("max_num_batched_tokens")
        )
        answers.append(change["kv_tokens"] - feasibility.deployment.memory.kv_tokens)
    assert answers[0] == pytest.approx(answers[1], abs=16)  # a block, which is whole in either pool


def test_an_engines_own_log_counts_before_a_profile(tmp_path: Path) -> None:
    logged = (
        "engine.gpu_memory_utilization=0.95",
        "engine.max_model_len=8192",
        "engine.max_num_seqs=1024",
    )
    scenario = load(SHIPPED, settings(tmp_path, MEMORY, *logged))
    found = fitted_as_logged(scenario, read_startup_log(LOGS / "vllm-0.19.log"))
    weights = next(line for line in found.memory.lines if line.name == "weights")
    assert weights.bytes == -round(14.99 * (1 << 30))
    assert found.memory.num_gpu_blocks == 29751


def test_a_damaged_profile_is_told_by_fit_too(tmp_path: Path) -> None:
    damaged = json.loads(json.dumps(MEMORY))
    damaged["weights"]["bytes"] = "many"
    with pytest.raises(BadInput, match=r"profile.json:\d+:\d+: memory.weights.bytes: 'many'"):
        lines(tmp_path, damaged)
