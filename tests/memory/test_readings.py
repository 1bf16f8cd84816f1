"""Measured figures in place of the rules', at the settings they were measured with and at others."""

from dataclasses import replace

import pytest

from capsim.catalog import load_model
from capsim.errors import Infeasible
from capsim.memory.budget import fit_memory
from capsim.memory.measured import log_readings
from capsim.memory.question import MemoryLine, MemoryQuestion
from capsim.memory.readings import ENGINE, LOG, RUN, Peak, Peaks, Reading, Readings
from capsim.memory.readings_lines import readings_lines
from capsim.memory.workspace import Workspace
from tests.cost.hardware import GIB, H100, LLAMA_8B
from tests.memory.test_startup_log import QUESTION, log

SIZE = 1_000_000_007
"""No rule gives it."""


def reading(source: str = LOG, version: str = "0.19.0", size: int = SIZE) -> Reading:
    return Reading(size, "measured", source, version)


def peaks(*points: tuple[int, int, int], source: str = LOG, version: str = "0.19.0") -> Readings:
    found = tuple(Peak(*point) for point in points)
    return Readings(activations=Peaks(found, "measured", source, version))


def lines(question: MemoryQuestion, readings: Readings) -> dict[str, MemoryLine]:
    return {line.name: line for line in readings_lines(question, readings)}


def activations(readings: Readings, **settings: object) -> MemoryLine:
    return lines(replace(QUESTION, **settings), readings)["activations"]  # type: ignore[arg-type]


def rule(**settings: object) -> int:
    line = next(
        each
        for each in replace(QUESTION, **settings).deductions()  # type: ignore[arg-type]
        if each.name == "activations"
    )
    return -line.bytes


def test_nothing_measured_leaves_the_rules() -> None:
    assert readings_lines(QUESTION, Readings()) == QUESTION.deductions()


def test_what_was_measured_stands_in_place_of_the_rules_and_the_cache_is_what_is_left() -> None:
    readings = Readings(
        total=reading(size=80 * GIB),
        weights=reading(size=15 * GIB),
        non_torch=reading(size=GIB),
        activations=peaks((8192, 1024, 2 * GIB)).activations,
    )
    fit = fit_memory(QUESTION, readings)
    assert [line.tag for line in fit.lines] == [
        "measured",  # the GPU's memory
        "stated",  # outside the budget
        "measured",  # weights
        "measured",  # activations
        "measured",  # outside PyTorch
        "fitted",  # CUDA graphs, outside the budget in 0.19
        "derived",  # the KV cache
    ]
    assert fit.kv_bytes == int(0.95 * 80 * GIB) - 18 * GIB


def test_a_stated_number_of_blocks_still_wins() -> None:
    fit = fit_memory(replace(QUESTION, num_gpu_blocks=5000), Readings(weights=reading()))
    assert fit.num_gpu_blocks == 5000
    assert fit.lines[-1].tag == "stated"


@pytest.mark.parametrize("source", [LOG, ENGINE, RUN])
def test_a_peak_at_the_batch_that_is_asked_for_is_taken_as_it_is(source: str) -> None:
    size = 3 * GIB  # more than any sampler takes here
    line = activations(peaks((2048, 256, GIB), (8192, 1024, size), source=source))
    assert (line.bytes, line.tag) == (-size, "measured")


def test_between_two_batches_the_peak_is_linear() -> None:
    line = activations(peaks((2048, 1024, 2 * GIB), (8192, 1024, 3 * GIB)), max_num_batched_tokens=4096)
    assert line.bytes == -(2 * GIB + GIB // 3)
    assert line.tag == "derived"
    assert "between 2048 and 8192 tokens" in line.note


@pytest.mark.parametrize("tokens", [1024, 32768])
def test_beyond_the_batches_the_peak_goes_on_as_the_rules_do(tokens: int) -> None:
    beyond = rule() + 12345
    line = activations(
        peaks((2048, 1024, rule(max_num_batched_tokens=2048) + 12345), (8192, 1024, beyond)),
        max_num_batched_tokens=tokens,
    )
    assert line.bytes == -(rule(max_num_batched_tokens=tokens) + 12345)
    assert line.tag == "derived"


def test_other_sequences_move_a_peak_by_what_the_sampler_takes() -> None:
    line = activations(peaks((8192, 1024, rule() + 12345)), max_num_seqs=2048)
    assert line.bytes == -(rule(max_num_seqs=2048) + 12345)
    assert "moved from 1024 sequences by the rules" in line.note


def test_a_peak_of_an_older_version_is_moved_to_what_the_newer_one_printed() -> None:
    """Qwen3-14B on one GPU: 5.64 GiB under vLLM 0.16, 2.23 under 0.17, with the same flags."""
    question = replace(QUESTION, model=load_model("qwen3-14b"), engine_version="0.17.0")
    older = peaks((8192, 1024, round(5.64 * GIB)), version="0.16.0")
    line = lines(question, older)["activations"]
    # The rule for the sorting copies is round: 0.06 GiB, as for the logs themselves.
    assert -line.bytes / GIB == pytest.approx(2.23, abs=0.07)
    assert "moved from vLLM 0.16.0" in line.note


def test_memory_outside_pytorch_is_moved_to_another_version() -> None:
    """The same start-ups: 0.13 GiB under 0.17, 0.25 under 0.18."""
    question = replace(QUESTION, engine_version="0.18.0")
    line = lines(question, Readings(non_torch=reading(version="0.17.0", size=round(0.13 * GIB))))[
        "outside PyTorch"
    ]
    assert -line.bytes / GIB == pytest.approx(0.25, abs=0.005)  # printed with two digits
    assert line.tag == "derived"


def test_an_engines_memory_outside_pytorch_has_its_communication_buffers_in_it() -> None:
    found = lines(replace(QUESTION, tensor_parallel_size=2), Readings(non_torch=reading()))
    assert (found["outside PyTorch"].bytes, found["communication"].bytes) == (-SIZE, 0)


def test_a_context_that_torch_holds_is_no_part_of_the_budget() -> None:
    """At a start 0.51 GiB of 79.19 were not free before an engine counted 0.25 GiB as its own outside PyTorch."""
    found = lines(QUESTION, Readings(non_torch=reading(RUN, "2.13.0", GIB // 2)))
    assert found["outside PyTorch"].bytes == -Workspace.of("0.19.0").non_torch
    assert "0.50 GiB of torch's own, outside the budget" in found["outside PyTorch"].note


def test_layers_measured_in_torch_are_bounded_below_by_an_engines_sampler() -> None:
    """1,024 sequences' logits take more than the layers of 512 tokens were seen to take."""
    few = peaks((8192, 256, GIB // 2), source=RUN, version="2.13.0")
    line = activations(few)
    sampling = Workspace.of("0.19.0").sampling_bytes(LLAMA_8B, 1, 1024, 8192)
    assert (line.bytes, line.tag) == (-sampling, "derived")
    many = peaks((8192, 256, 4 * GIB), source=RUN, version="2.13.0")
    assert activations(many).bytes == -4 * GIB


@pytest.mark.parametrize(
    ("version", "source", "estimated", "expected"),
    [
        ("0.19.0", LOG, None, 0),  # outside the budget
        ("0.20.0", RUN, None, -SIZE),
        ("0.20.0", LOG, SIZE - 5, -(SIZE - 5)),  # the engine takes its own estimate
    ],
)
def test_graphs_are_taken_as_the_version_takes_them(
    version: str, source: str, estimated: int | None, expected: int
) -> None:
    readings = Readings(
        graphs=reading(source),
        estimated_graphs=None if estimated is None else reading(size=estimated),
    )
    found = lines(replace(QUESTION, engine_version=version), readings)["CUDA graphs"]
    assert (found.bytes, found.tag) == (expected, "measured")
    eager = lines(replace(QUESTION, engine_version=version, enforce_eager=True), readings)["CUDA graphs"]
    assert (eager.bytes, eager.tag) == (0, "stated")


def test_a_logs_own_settings_give_its_own_figures() -> None:
    found = lines(QUESTION, log_readings(QUESTION, log("0.19")))
    assert {line.tag for name, line in found.items() if name != "outside the budget"} == {"measured"}


def test_what_would_make_it_fit_is_said_of_the_measured_rank() -> None:
    """By the rules it fits; with weights that take all of the cache 0.25 GiB are missing, 0.02 of 19 GiB hold them."""
    small = replace(H100, memory=19 * GIB)
    question = replace(QUESTION, gpu=small, max_model_len=2048, max_num_seqs=32, enforce_eager=True)
    rules = fit_memory(question)
    weights = -next(line.bytes for line in rules.lines if line.name == "weights")
    with pytest.raises(Infeasible, match=r"0\.25 GiB short") as refused:
        fit_memory(question, Readings(weights=reading(size=weights + rules.kv_bytes)))
    assert refused.value.remedies[0].startswith("gpu_memory_utilization 0.97")
