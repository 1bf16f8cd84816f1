from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import QUICK_START, REPOSITORY, SMALL, Capsim

LOGS = REPOSITORY / "tests" / "memory" / "logs"
LOGGED = (
    "--set",
    "gpu=h100",
    "--set",
    "engine.gpu_memory_utilization=0.95",
    "--set",
    "engine.max_model_len=8192",
    "--set",
    "engine.max_num_seqs=1024",
    "--set",
    "engine.max_num_batched_tokens=8192",
)


def test_the_result_folder_has_the_figure(capsim: Capsim, tmp_path: Path) -> None:
    assert capsim("fit", SMALL, "--out", tmp_path / "fit").code == 0
    assert {path.name for path in (tmp_path / "fit").iterdir()} == {"result.json", "memory.png"}
    assert (tmp_path / "fit" / "memory.png").read_bytes()[:4] == b"\x89PNG"


def test_a_log_replaces_the_models_figures(capsim: Capsim) -> None:
    log = LOGS / "vllm-0.19.log"
    printed = capsim("fit", QUICK_START, *LOGGED, "--log", log)
    assert printed.code == 0
    assert "measured" in printed.out
    assert "state engine.num_gpu_blocks: 29751" in printed.out
    result = capsim("fit", QUICK_START, *LOGGED, "--log", log, "--json").json
    assert result["memory"]["num_gpu_blocks"] == 29751
    stated = capsim("fit", QUICK_START, *LOGGED, "--set", "engine.num_gpu_blocks=29751", "--json").json
    assert stated["fingerprint"] == result["fingerprint"]


def test_a_log_of_other_settings_is_bad_input(capsim: Capsim) -> None:
    printed = capsim("fit", QUICK_START, "--log", LOGS / "vllm-0.19.log")
    assert printed.code == 2
    assert "gpu_memory_utilization: the engine ran with 0.95, the scenario says 0.92" in printed.err
    assert "--set engine.gpu_memory_utilization=0.95" in printed.err


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00nothing of the kind", b"Model loading took many GiB"])
def test_what_is_no_log_is_bad_input(capsim: Capsim, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.log").write_bytes(content)
    printed = capsim("fit", SMALL, "--log", tmp_path / "other.log")
    assert printed.code == 2
    assert "is not the log of an engine's start, expected 'Model loading took" in printed.err


def test_a_log_of_an_engine_that_did_not_start_has_no_answer(capsim: Capsim) -> None:
    log = LOGS / "vllm-0.18-does-not-start.log"
    printed = capsim("fit", SMALL, "--set", "engine.version=0.18.0", "--log", log)
    assert printed.code == 3
    assert "0.85 GiB" in printed.err


def test_what_does_not_fit_says_by_how_much_and_what_would(capsim: Capsim) -> None:
    printed = capsim("fit", QUICK_START, "--set", "model=llama-3.3-70b", "--set", "gpu=h100", "--json")
    assert printed.code == 3
    assert "GiB" in printed.json["limit"]
    assert printed.json["remedies"][0].startswith("tensor_parallel_size 2 (")


def test_a_pipeline_fits_although_it_is_not_simulated(capsim: Capsim) -> None:
    assert capsim("fit", QUICK_START, "--set", "engine.pipeline_parallel_size=2").code == 0
    assert capsim("plan", QUICK_START, "--set", "engine.pipeline_parallel_size=2").code == 2


def test_eager_is_a_setting(capsim: Capsim) -> None:
    result = capsim("fit", SMALL, "--set", "engine.enforce_eager=true", "--json").json
    assert result["configuration"]["engine"]["enforce_eager"] is True
