from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsim.catalog import load_model
from capsim.errors import BadInput, Infeasible
from capsim.memory.measured import disagreements, measured_fit, measured_lines
from capsim.memory.question import MemoryQuestion
from capsim.memory.startup_log import StartupLog, parse_startup_log, read_startup_log
from tests.cost.hardware import GIB, H100, LLAMA_8B

LOGS = Path(__file__).parent / "logs"
QUESTION = MemoryQuestion(LLAMA_8B, H100, 1, "bfloat16", "bfloat16", 16, 0.95, 8192, 1024, 8192, "0.19.0")
NEWER = replace(
    QUESTION,
    gpu_memory_utilization=0.9,
    max_num_seqs=256,
    max_num_batched_tokens=2048,
    engine_version="0.20.0",
)


def log(version: str) -> StartupLog:
    return read_startup_log(LOGS / f"vllm-{version}.log")


def gib(size: int | None) -> float | None:
    return None if size is None else round(size / GIB, 2)


@pytest.mark.parametrize(
    ("version", "sizes", "counts"),
    [
        ("0.6", (79.22, 14.96, 1.26, 1.79, None, None, 53.29), (None, 27284)),
        ("0.11-tp2", (79.18, 30.59, 5.64, 0.54, None, 0.97, 34.49), (282544, 17659)),
        ("0.19", (79.19, 14.99, 1.89, 0.25, 0.84, 0.91, 58.11), (476016, 29751)),
        ("0.20", (None, 14.99, None, None, 0.84, 0.91, 54.62), (447440, None)),
        ("0.28", (79.19, 14.99, 0.57, 0.25, 0.84, 0.91, 54.62), (447440, None)),
    ],
)
def test_what_each_version_prints_is_read(
    version: str, sizes: tuple[Any, ...], counts: tuple[Any, ...]
) -> None:
    read = log(version)
    names = ("total", "weights", "activations", "non_torch", "estimated_graphs", "graphs", "kv")
    assert tuple(gib(getattr(read, name)) for name in names) == sizes
    assert (read.kv_tokens, read.num_gpu_blocks) == counts


def test_the_settings_that_a_log_names_are_read() -> None:
    assert log("0.20").settings == {
        "version": "0.20.0",
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "enforce_eager": False,
        "kv_cache_dtype": "auto",
        "max_model_len": 8192,
        "max_num_batched_tokens": 2048,
        "max_num_seqs": 256,
        "gpu_memory_utilization": 0.9,
    }


def test_of_several_starts_the_last_one_counts() -> None:
    texts = [(LOGS / f"vllm-{version}.log").read_text(encoding="utf-8") for version in ("0.19", "0.20")]
    assert parse_startup_log("".join(texts), "vllm.log") == replace(log("0.20"), source="vllm.log")


def test_blocks_of_data_parallel_replicas_are_a_sum_that_does_not_count() -> None:
    text = (
        (LOGS / "vllm-0.19.log")
        .read_text(encoding="utf-8")
        .replace("data_parallel_size=1", "data_parallel_size=2")
    )
    read = parse_startup_log(text, "vllm.log")
    assert read.num_gpu_blocks is None
    assert measured_fit(QUESTION, read).num_gpu_blocks == 476016 // 16


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not the log of an engine's start, expected 'Model loading took"),
        ("Available KV cache memory: X GiB\nsome other service started", "is not the log"),
        (
            "INFO Model loading took 14.99 GiB memory and 1 seconds",
            "ends before the engine sized its KV cache",
        ),
    ],
)
def test_other_files_are_refused_with_what_was_looked_for(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        parse_startup_log(text, "vllm.log")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.log: cannot be read: No such file"):
        read_startup_log(tmp_path / "none.log")


@pytest.mark.parametrize(("version", "question"), [("0.19", QUESTION), ("0.20", NEWER), ("0.28", NEWER)])
def test_the_measured_table_adds_up_to_the_engines_own_cache(version: str, question: MemoryQuestion) -> None:
    read = log(version)
    fit = measured_fit(question, read)
    assert sum(line.bytes for line in fit.lines[:-1]) == fit.lines[-1].bytes == fit.kv_bytes
    assert fit.kv_tokens == (read.kv_tokens or 0) - 16  # less the null block
    assert fit.lines[-1].tag == "measured"
    rest = next(line for line in fit.lines if line.name == "not accounted for")
    # Five printed figures of 0.005 GiB each, and the model's activations and memory outside PyTorch at 0.20.
    assert abs(rest.bytes) <= 0.06 * GIB


def test_measured_lines_replace_the_models_and_say_so() -> None:
    lines = {line.name: line for line in measured_lines(QUESTION, log("0.19"))}
    assert {name for name, line in lines.items() if line.tag == "measured"} == {
        "GPU memory",
        "weights",
        "activations",
        "outside PyTorch",
        "CUDA graphs",
    }
    assert lines["CUDA graphs"].bytes == 0
    assert lines["CUDA graphs"].note == "0.91 GiB captured, outside the budget"
    newer = {line.name: line for line in measured_lines(NEWER, log("0.20"))}
    assert gib(newer["CUDA graphs"].bytes) == -0.84
    assert newer["CUDA graphs"].note == "estimated by the engine, 0.91 GiB captured"
    assert newer["activations"].tag == "fitted"


def test_communication_is_in_what_the_log_prints_outside_pytorch() -> None:
    question = replace(
        QUESTION,
        model=load_model("qwen3-32b"),
        tensor_parallel_size=2,
        gpu_memory_utilization=0.9,
        max_model_len=16000,
        engine_version="0.11.0",
    )
    fit = measured_fit(question, log("0.11-tp2"))
    lines = {line.name: line for line in fit.lines}
    assert (lines["communication"].bytes, lines["communication"].tag) == (0, "measured")
    assert gib(lines["outside PyTorch"].bytes) == -0.54
    assert fit.num_gpu_blocks == 17659


def test_an_engine_that_did_not_start_has_no_answer() -> None:
    with pytest.raises(
        Infeasible, match=r"exceed the memory budget of a GPU by 0.85 GiB.*as .*does-not-start.log says"
    ):
        measured_fit(replace(QUESTION, engine_version="0.18.0"), log("0.18-does-not-start"))


def test_a_log_of_another_model_is_told_from_its_tokens() -> None:
    assert disagreements(QUESTION, log("0.19")) == ()
    eagle = replace(log("0.19"), kv_tokens=476016 * 32 // 33)
    (sentence,) = disagreements(QUESTION, eagle)
    assert (
        "the log's engine holds 461,591 tokens in 58.11 GiB, this model and KV dtype would hold 476,0"
        in sentence
    )
