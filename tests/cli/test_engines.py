"""One run of each kind of engine and model from end to end: what the log must conserve is checked in every run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Capsim

SMALL = str(Path(__file__).parents[1] / "plan" / "small.yaml")
ROOFLINE, STEADY = "step_cost={source: roofline}", "step_cost={source: constant, seconds: 10ms}"
SHORT = "engine.num_gpu_blocks=600"


@pytest.mark.parametrize(
    "changes",
    [
        ["model=gpt-oss-20b", ROOFLINE],
        [
            "model=gemma-3-27b",
            ROOFLINE,
            "engine.num_gpu_blocks=4000",
            "engine.scheduler_reserve_full_isl=false",
        ],
        ["model=qwen3-next-80b-a3b", STEADY, "engine.tensor_parallel_size=2", "engine.num_gpu_blocks=null"],
        ["model=kimi-linear-48b-a3b", STEADY, "engine.tensor_parallel_size=2", "engine.num_gpu_blocks=null"],
        ["model=nemotron-h-8b", STEADY, "engine.num_gpu_blocks=null"],
        ["model=deepseek-v2-lite", STEADY],
        [SHORT, "engine.watermark=5%"],
        [SHORT, "engine.kv_offload=[{name: host, capacity: 4GiB, bandwidth: 20GB/s}]"],
        [
            SHORT,
            "demand.sampling={n: 3}",
            "fleet.failures=[{replica: 0, at: 3s, down_for: 1s}]",
            "fleet.model_load_time=1s",
        ],
        [SHORT, "engine.async_scheduling=true", "demand.synthetic.prefix={tokens: 40, count: 3}"],
    ],
    ids=lambda changes: changes[0] if "model" in changes[0] else changes[1].split("=")[0],
)
def test_every_kind_of_engine_runs_to_its_end(capsim: Capsim, changes: list[str]) -> None:
    settings = [argument for change in changes for argument in ("--set", change)]
    printed = capsim("run", SMALL, "--rate", "20/s", "--requests", "200", "--jobs", "1", "--json", *settings)
    assert printed.code == 0, printed.err
    counts = printed.json["summary"]["counts"]
    assert counts["offered"] == counts["completed"] + counts["rejected"] + counts["lost"]
    assert counts["completed"] > 0
