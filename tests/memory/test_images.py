from dataclasses import replace

import pytest

from capsim.catalog import Vision
from capsim.errors import BadInput, Infeasible
from capsim.memory import Images
from capsim.memory.budget import fit_memory
from capsim.memory.changes import changes
from capsim.memory.measured import measured_fit
from capsim.memory.question import MemoryQuestion
from capsim.memory.startup_log import StartupLog
from tests.cost.hardware import GIB, H100, LLAMA_8B

SMALL = Vision(1000, 10, image_tokens=100, token_elements=4096, image_elements=300, layer_elements=50)
SEES = replace(LLAMA_8B, name="sees", vision=SMALL)
TEXT = MemoryQuestion(SEES, H100, 1, "bfloat16", "bfloat16", 16, 0.9, 8192, 256, 2048, "0.19.0")
QUESTION = replace(TEXT, images_per_prompt=1)


def at_once(**settings: int) -> int:
    limits = {"per_prompt": 4, "max_model_len": 8192, "max_num_seqs": 256, "max_num_batched_tokens": 2048}
    return Images.of(SMALL, **{**limits, **settings}).at_once


def lines(question: MemoryQuestion) -> dict[str, int]:
    return {line.name: line.bytes for line in fit_memory(question).lines}


def test_images_of_a_step_by_hand() -> None:
    assert at_once() == 20  # 2,048 tokens hold 20 images of 100
    assert at_once(max_num_batched_tokens=64) == 1  # an image is encoded whole
    assert at_once(max_num_seqs=2) == 8
    assert at_once(max_num_seqs=2, max_model_len=250) == 4  # a prompt holds two
    assert at_once(max_num_seqs=2, max_model_len=50) == 2  # and one at least


def test_text_alone_takes_what_it_took_without_an_encoder() -> None:
    blind = replace(TEXT, model=replace(SEES, vision=None))
    assert fit_memory(TEXT) == fit_memory(blind)


def test_what_images_take_by_hand() -> None:
    found = lines(QUESTION)
    assert found["vision encoder"] == -2 * 1010
    assert found["encoder cache"] == -2 * 20 * 100 * 4096
    assert found["pixels"] == -2 * 20 * 300
    assert "encoder activations" not in found
    taken = sum(found[name] for name in ("vision encoder", "encoder cache", "pixels"))
    assert found["KV cache"] == lines(TEXT)["KV cache"] + taken
    # Two ranks split the matrices and hold the rest twice; the encoder stays at 16 bits.
    shared = lines(replace(QUESTION, tensor_parallel_size=2, weight_dtype="fp8"))
    assert shared["vision encoder"] == -2 * (500 + 10)


def test_an_encoders_activations_count_where_they_are_more() -> None:
    large = replace(SEES, vision=replace(SMALL, layer_elements=GIB))
    found = lines(replace(QUESTION, model=large, max_num_batched_tokens=256))
    assert -found["encoder activations"] == 2 * 2 * GIB + found["activations"]


def test_a_pipelines_first_stage_holds_the_encoder() -> None:
    # Large enough that the first stage decides, not the last one with the logits.
    large = replace(SEES, vision=replace(SMALL, split_parameters=4 * GIB))
    staged = fit_memory(replace(QUESTION, model=large, pipeline_parallel_size=2))
    assert "first stage" in next(line for line in staged.lines if line.name == "weights").note
    assert "vision encoder" in {line.name for line in staged.lines}
    last = fit_memory(replace(QUESTION, pipeline_parallel_size=2))
    assert "last stage" in next(line for line in last.lines if line.name == "weights").note
    assert "vision encoder" not in {line.name for line in last.lines}


def test_images_without_a_known_encoder_are_refused() -> None:
    with pytest.raises(
        BadInput, match=r"2 images a prompt: the catalog knows no vision encoder of llama-3.1-8b"
    ):
        fit_memory(replace(QUESTION, model=LLAMA_8B, images_per_prompt=2))
    with pytest.raises(BadInput, match="images_per_prompt -1, expected at least 0"):
        fit_memory(replace(QUESTION, images_per_prompt=-1))


def test_text_alone_is_a_change_and_a_remedy() -> None:
    assert "limit_mm_per_prompt 0" in {change.name for change in changes(QUESTION)}
    assert "limit_mm_per_prompt 0" not in {change.name for change in changes(TEXT)}
    large = replace(SEES, vision=replace(SMALL, split_parameters=32 * GIB))
    with pytest.raises(Infeasible) as refusal:
        fit_memory(replace(QUESTION, model=large))
    assert any(text.startswith("limit_mm_per_prompt 0") for text in refusal.value.remedies)


def test_a_logs_weights_and_activations_contain_what_images_take() -> None:
    log = StartupLog("vllm.log", {}, weights=16 * GIB, activations=2 * GIB, kv=40 * GIB, num_gpu_blocks=20000)
    found = {line.name: line for line in measured_fit(QUESTION, log).lines}
    modelled = lines(QUESTION)
    assert found["weights"].bytes + found["vision encoder"].bytes == -16 * GIB
    of_images = modelled["encoder cache"] + modelled["pixels"]
    assert found["activations"].bytes + of_images == -2 * GIB
    assert found["weights"].note == "printed by the engine, less what images take"
    # The lines add up to the log's KV cache.
    *above, cache = measured_fit(QUESTION, log).lines
    assert sum(line.bytes for line in above) == cache.bytes
