"""What a started engine tells: its own account, and its log where it has a GPU."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from calibrate.memory.start import CPU, GPU, read_start, start
from capsim.catalog import load_model
from capsim.cli.main import cli
from capsim.errors import BadInput
from capsim.memory import KvLayout
from tests.memory.test_startup_log import LOGS

TINY = Path(__file__).parents[1] / "microbenchmark" / "tiny-llama.yaml"
INSTALLED = importlib.util.find_spec("vllm") is not None
SETTINGS: dict[str, Any] = {
    "version": "0.19.0",
    "tensor_parallel_size": 1,
    "enforce_eager": False,
    "kv_cache_dtype": "auto",
    "max_model_len": 8192,
    "max_num_seqs": 1024,
    "max_num_batched_tokens": 8192,
    "block_size": 16,
    "gpu_memory_utilization": 0.95,
}
TOLD: dict[str, Any] = {
    "device": GPU,
    "gpu_name": "NVIDIA H100 80GB HBM3",
    "total": 85029158912,
    "kv": None,
    "num_gpu_blocks": 29751,
    "settings": SETTINGS,
}


def test_of_a_gpu_the_log_tells_the_sizes_and_the_account_whole_bytes() -> None:
    found = read_start("vllm", (LOGS / "vllm-0.19.log").read_text(encoding="utf-8"), TOLD)
    assert found.log.settings == SETTINGS
    assert found.log.total == 85029158912
    assert found.log.weights == round(14.99 * (1 << 30))
    assert found.log.num_gpu_blocks == 29751


def test_of_a_cpu_only_the_cache_is_told() -> None:
    told = {**TOLD, "device": CPU, "gpu_name": "", "total": None, "kv": 1 << 29, "num_gpu_blocks": 682}
    found = read_start("vllm", "whatever it printed", told)
    log = found.log
    assert (log.kv, log.num_gpu_blocks) == (1 << 29, 682)
    assert (log.total, log.weights, log.activations, log.non_torch, log.graphs) == (None,) * 5


@pytest.mark.skipif(INSTALLED, reason="vLLM is installed in this Python")
def test_an_engine_that_is_not_installed_is_told_how_to_install() -> None:
    with pytest.raises(BadInput, match="vllm is not installed here, expected pip install vllm"):
        start("vllm", {})


@pytest.mark.skipif(not INSTALLED, reason="no vLLM in this Python: nothing to start")
def test_a_started_engine_tells_its_blocks() -> None:
    arguments = ["--max-num-seqs", "8", "--max-num-batched-tokens", "256", "--max-model-len", "512"]
    given = ["calibrate", "memory", "--engine", "vllm", "--model", str(TINY), *arguments, "--json"]
    result = CliRunner().invoke(cli, given)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    if found["gpu"] is None:
        assert "cannot be told there" in found["remark"]
    (blocks,) = (line for line in found["lines"] if line["name"] == "KV blocks")
    layout = KvLayout.of(load_model(str(TINY)), 1, "bfloat16", found["settings"]["block_size"])
    (cache,) = (line for line in found["lines"] if line["name"] == "KV cache")
    assert blocks["measured"] == cache["measured"] // layout.bytes_per_block
