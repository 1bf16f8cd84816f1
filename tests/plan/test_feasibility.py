"""What `capsim fit` says beyond the memory table, against arithmetic by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capsim.catalog import load_model
from capsim.errors import BadInput
from capsim.memory import KvLayout
from capsim.memory.startup_log import read_startup_log
from capsim.plan.deployment import deploy, fitted
from capsim.plan.factors import factors
from capsim.plan.feasibility import Feasibility
from capsim.plan.fit_result import fit_result
from capsim.plan.not_modelled import not_modelled
from capsim.plan.request_factors import request_blocks
from capsim.plan.sequences import Sequences
from capsim.plan.startup import fitted_as_logged
from capsim.scenario import load
from tests.cost.hardware import GIB

HERE = Path(__file__).parent
LOG = HERE.parent / "memory" / "logs" / "vllm-0.19.log"
FIXED = (
    "demand.synthetic.prompt_tokens={distribution: fixed, value: 1000}",
    "demand.synthetic.output_tokens={distribution: fixed, value: 201}",
    "engine.num_gpu_blocks=4051",
)
"""1,200 tokens at the end, 75 blocks; 4,050 usable blocks hold 54 of them."""
LOGGED = (
    "gpu=h100",
    "engine.gpu_memory_utilization=0.95",
    "engine.max_model_len=8192",
    "engine.max_num_seqs=1024",
    "engine.max_num_batched_tokens=8192",
    "engine.num_gpu_blocks=null",
)


def feasibility(*overrides: str) -> Feasibility:
    return Feasibility(fitted(load(HERE / "small.yaml", [*FIXED, *overrides])))


def sequences(prompt: int = 1000, output: int = 201) -> Sequences:
    """Sequences that are all alike, with a prefix cache."""
    return Sequences(np.full(3, prompt), np.full(3, output), running=1, prefix_caching=True)


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in rows}


def test_the_limit_is_the_cache_or_the_number_of_sequences() -> None:
    cache = feasibility("engine.max_num_seqs=60").capacity()
    assert (cache["run_at_once"], cache["limit"]) == (54, "KV cache")
    assert cache["statement"].endswith("max_num_seqs is 60")
    sequences = feasibility("engine.max_num_seqs=50").capacity()
    assert (sequences["run_at_once"], sequences["limit"]) == (50, "max_num_seqs")
    assert "would hold 54 sequences" in sequences["statement"]
    assert "but only 15 of max_model_len" in sequences["statement"]  # 4,096 tokens are 256 blocks


def test_live_tokens_and_preemption_by_hand() -> None:
    capacity = feasibility("engine.max_num_seqs=50").capacity()
    # A decode grows from 1,000 to 1,200 tokens: 1,100.5 on average, 69 blocks of 16.
    assert capacity["live_tokens_per_sequence"] == 1100.5
    assert capacity["live_bytes_per_sequence"] == 69 * 16 * 131072
    assert capacity["live_tokens"] == 50 * 1100.5
    assert capacity["share_of_pool"] == pytest.approx(50 * 69 / 4050, rel=1e-12)  # one rounding
    assert [(point["tokens"], point["above"]) for point in capacity["preemption"]] == [
        (1200, 54),
        (1200, 54),
        (4096, 15),
    ]


def test_changes_are_ranked_by_their_effect() -> None:
    rows = feasibility("engine.max_num_seqs=60").changes()
    ranks = [(row["run_at_once"], row["fit_at_once"], row["longest_at_once"]) for row in rows]
    assert ranks == sorted(ranks, reverse=True)
    found = by_name(rows)
    half = found["kv_cache_dtype fp8"]
    # A pool of the same bytes has twice the blocks, one of them the null block.
    assert half["kv_tokens"] == (2 * 4051 - 1) * 16
    assert (half["fit_at_once"], half["run_at_once"]) == (108, 60)
    shorter = found["max_model_len 1201"]
    assert (shorter["tokens_ratio"], shorter["longest_at_once"]) == (1.0, 4050 // 76)
    assert found["max_num_seqs 120"]["kv_tokens"] < 4050 * 16  # a larger sampler


def test_a_change_without_room_for_a_longest_sequence_is_left_out() -> None:
    tight = ("engine.num_gpu_blocks=257", "engine.max_num_seqs=1024")
    assert "max_num_seqs 2048" not in by_name(feasibility(*tight).changes())


def test_factors_by_hand() -> None:
    found = by_name(feasibility().factors())
    assert found["8 KV heads for 32 query heads"]["tokens_ratio"] == 4
    assert found["blocks of 16 tokens"]["concurrency_ratio"] == 1.0  # 1,200 tokens are 75 blocks
    assert found["sequences of all ages"]["concurrency_ratio"] == 1200 / 1100.5
    assert "KV cache in fp8" not in found
    coarse = by_name(feasibility("engine.block_size=128", "engine.num_gpu_blocks=600").factors())
    assert coarse["blocks of 128 tokens"]["concurrency_ratio"] == 1200 / 1280
    narrow = by_name(feasibility("engine.kv_cache_dtype=fp8").factors())
    assert narrow["KV cache in fp8"]["tokens_ratio"] == 2
    copied = by_name(feasibility("engine.tensor_parallel_size=16").factors())
    assert copied["16 GPUs hold 2 copies"]["tokens_ratio"] == 0.5


def test_factors_of_a_latent_and_of_windows() -> None:
    latent = by_name(feasibility("model=deepseek-v2-lite", "engine.tensor_parallel_size=2").factors())
    # 16 heads of 128 + 64 and 128 elements for one latent of 512 + 64.
    assert latent["one latent for all heads"]["tokens_ratio"] == 16 * 320 / 576
    assert latent["2 GPUs hold 2 copies"]["tokens_ratio"] == 0.5
    windows = by_name(feasibility("model=gpt-oss-20b").factors())
    # Half of the layers keep 128 of 4,096 tokens, and one block more.
    assert 1.9 < windows["layers with a window of 128 tokens"]["tokens_ratio"] < 2


def test_attention_on_ranks_of_its_own_against_tensor_parallelism() -> None:
    ranks = ("engine.tensor_parallel_size=2", "engine.data_parallel_size=4")
    dealt = (*ranks, "engine.enable_expert_parallel=true")
    latent = by_name(feasibility("model=deepseek-v2-lite", *dealt).factors())["attention on 4 ranks"]
    # On eight ranks every one would hold the latent; on four times two, two do.
    assert (latent["tokens_ratio"], latent["concurrency_ratio"]) == (4, 4)
    assert latent["note"].endswith("the replica against tensor_parallel_size 8")
    heads = by_name(feasibility(*ranks).factors())["attention on 4 ranks"]
    assert (
        heads["tokens_ratio"] == 1
    )  # eight KV heads on eight ranks, or all of them for a fourth of the sequences
    assert "attention on 1 ranks" not in by_name(feasibility().factors())
    # 28 heads on 8 GPUs: there is nothing to compare with.
    odd = by_name(feasibility("model=qwen2.5-7b", "engine.data_parallel_size=8").factors())
    assert not any(name.startswith("attention on") for name in odd)


def test_data_parallel_ranks_are_counted_and_not_simulated() -> None:
    scenario = load(HERE / "small.yaml", ["engine.data_parallel_size=2", "engine.num_gpu_blocks=null"])
    memory = fitted(scenario).memory
    alone = fitted(load(HERE / "small.yaml", ["engine.num_gpu_blocks=null"])).memory
    assert (memory.kv_tokens, memory.replica_tokens) == (alone.kv_tokens, 2 * alone.kv_tokens)
    with pytest.raises(BadInput, match="steps of data-parallel ranks run in lockstep, which is not modelled"):
        deploy(scenario)


def test_factors_of_states_and_of_layers_without_a_cache() -> None:
    overrides = ("model=qwen3-next-80b-a3b", "engine.tensor_parallel_size=2", "engine.num_gpu_blocks=4000")
    states = by_name(feasibility(*overrides).factors())
    # 48 layers of 4,096 tokens in blocks of 16, to 12 of 8 blocks of 544 and three groups of one block of 12 layers,
    # 544 tokens of one KV head of a rank, 2 x 256 elements of 16 bits, each.
    kept, held = 48 * 4096, 12 * (8 + 3) * 544
    assert states["36 layers with a state"]["tokens_ratio"] == kept / held
    model = replace(load_model("llama-3.1-8b"), kv_shared_layers=12)
    question = replace(feasibility().question, model=model)
    found = {factor.name: factor for factor in factors(question, GIB, sequences())}
    assert found["12 layers read an earlier one's"].tokens_ratio == 32 / 20


def test_what_more_and_longer_sequences_hold() -> None:
    found = by_name(feasibility("engine.max_num_seqs=50").factors())
    # 50 sequences take a sampler's workspace of 50 rows of logits; it is below that of the MLP, as for one.
    assert found["50 sequences at once"]["tokens_ratio"] == 1
    assert "hold 55,025 live tokens, one holds 1,100" in found["50 sequences at once"]["note"]
    many = by_name(feasibility("engine.max_num_seqs=2048").factors())
    # 4,050 usable blocks of 2 MiB and the null block; 14 bytes a logit, less the MLP's peak that one sequence has.
    peak = 2 * 2048 * (3 * 14336 + 2 * 4096)
    more = 2048 * 128256 * 14 + 2 * 2048 * 4096 - peak
    pool = 4051 * 16 * 131072
    assert many["54 sequences at once"]["tokens_ratio"] == pytest.approx(pool / (pool + more), rel=1e-12)
    # 1,401 tokens instead of 1,200: 88 blocks instead of 75; 402 tokens of output beside 1,201 of 1,000 + 201.
    longer = found["outputs twice as long"]
    assert longer["concurrency_ratio"] == 75 / 88
    assert "1,201 live tokens" in longer["note"]
    assert f"{2 * 1201 / 1100.5:.3g} times" in longer["note"]
    # No output goes beyond max_model_len.
    full = feasibility("engine.max_model_len=1201", "engine.max_num_seqs=50").factors()
    assert by_name(full)["outputs twice as long"]["concurrency_ratio"] == 1


@pytest.mark.parametrize(("caching", "blocks"), [("true", 62 + 4 * 13), ("false", 4 * 75)])
def test_samples_share_their_prompts_full_blocks(caching: str, blocks: int) -> None:
    sampling = f"engine.enable_prefix_caching={caching}"
    found = by_name(feasibility("demand.sampling={n: 4}", sampling).factors())["4 samples a request"]
    # 1,000 tokens fill 62 blocks of 16; 1,200 tokens take 13 more.
    assert found["concurrency_ratio"] == 75 / blocks
    assert found["tokens_ratio"] == 4 * 75 / blocks
    best = by_name(feasibility("demand.sampling={n: 1, best_of: 4}", sampling).factors())
    assert best["4 samples a request"] == found
    beams = by_name(feasibility("demand.sampling={n: 4, beam_width: 4}", sampling).factors())
    assert beams["4 beams a request"]["concurrency_ratio"] == found["concurrency_ratio"]
    assert "4 samples a request" not in beams


def test_the_last_token_of_a_prompt_is_never_shared_and_windows_and_states_are_held_by_each() -> None:
    held = sequences(prompt=1024, output=1)
    layout = feasibility().question.layout
    # 64 full blocks, of which the last is computed again by each sample.
    assert request_blocks(layout, held, 3) == 63 + 3 * 1
    gpt_oss = KvLayout.of(load_model("gpt-oss-20b"), 1, "bfloat16", 16)
    window = gpt_oss.blocks(1024) - 64
    assert request_blocks(gpt_oss, held, 3) == 63 + 3 * 1 + 3 * window
    hybrid = KvLayout.of(load_model("qwen3-next-80b-a3b"), 2, "bfloat16", 16)
    assert request_blocks(hybrid, held, 3) == 1 + 3 * 1 + 3 * 3  # two blocks of 544 tokens, three of states


def test_a_request_of_one_sample_has_no_copies() -> None:
    for sampling in ("{}", "{n: 1, temperature: 0.7}", "{n: null}"):
        names = by_name(feasibility(f"demand.sampling={sampling}").factors())
        assert not any("samples" in name or "beams" in name for name in names)


def test_shared_prefixes_are_held_once_at_best() -> None:
    question = feasibility().question
    reused = replace(sequences(), prefix_reuse=0.5)
    (found,) = (f for f in factors(question, GIB, reused) if f.name == "shared prefixes")
    # 500 of 1,000 prompt tokens are held once; 700 of 1,200 tokens take 44 of 75 blocks.
    assert found.concurrency_ratio == found.tokens_ratio == 75 / 44
    assert found.note.startswith("50% of the prompt tokens, at best")
    without = replace(reused, prefix_caching=False)
    assert "shared prefixes" not in {factor.name for factor in factors(question, GIB, without)}
    assert "shared prefixes" not in {factor.name for factor in factors(question, GIB, sequences())}


def test_the_demands_reuse_is_what_counts() -> None:
    prefix = "demand.synthetic.prefix={tokens: 500, count: 1}"
    found = by_name(feasibility(prefix, "engine.enable_prefix_caching=true").factors())
    assert found["shared prefixes"]["concurrency_ratio"] == 75 / 44


def test_images_are_tokens_of_the_prompt_and_an_encoder() -> None:
    question = feasibility("model=gemma-3-27b").question
    names = {factor.name for factor in factors(question, 40 * GIB, sequences())}
    assert not any(name.startswith("images") for name in names)
    seeing = replace(question, images_per_prompt=2)
    (found,) = (f for f in factors(seeing, 40 * GIB, sequences()) if f.name == "images, 2 a prompt")
    taken = question.kv_bytes - seeing.kv_bytes
    pool = 40 * GIB / (40 * GIB + taken)
    assert found.tokens_ratio == pool
    # 1,200 tokens, 512 of which are two images: 75 and 43 blocks of each of six groups, less what windows freed.
    blocks = question.layout.blocks
    assert found.concurrency_ratio == pytest.approx(pool * blocks(688) / blocks(1200), rel=1e-12)
    assert found.note.startswith("at most 512 tokens of each prompt")


def test_any_attention_kind_fits_without_a_step_cost() -> None:
    for model in ("deepseek-v2-lite", "gemma-3-27b", "qwen3-next-80b-a3b"):
        overrides = [f"model={model}", "engine.tensor_parallel_size=2", "step_cost={source: roofline}"]
        result = fit_result(fitted(load(HERE / "small.yaml", [*overrides, "engine.num_gpu_blocks=null"])))
        assert (result["memory"]["bytes_per_token"] is None) == (model != "deepseek-v2-lite")
        assert result["capacity"]["run_at_once"] == 64
        assert result["memory"]["kv_tokens"] > 0


def test_a_log_gives_the_blocks_and_the_signed_errors_of_the_model() -> None:
    log = read_startup_log(LOG)
    result = fit_result(fitted_as_logged(load(HERE / "small.yaml", LOGGED), log), log)
    assert result["memory"]["num_gpu_blocks"] == result["log"]["num_gpu_blocks"] == 29751
    assert result["configuration"]["engine"]["num_gpu_blocks"] == 29751
    rows = by_name(result["log"]["lines"])
    assert list(rows) == [
        "GPU memory",
        "weights",
        "activations",
        "outside PyTorch",
        "CUDA graphs",
        "KV cache",
    ]
    for row in rows.values():
        assert row["difference"] == row["model"] - row["log"]
    assert rows["weights"]["difference"] < 0
    assert result["log"]["model_num_gpu_blocks"] == pytest.approx(
        29751, rel=0.001
    )  # as the table of start-ups
    assert result["log"]["disagreements"] == []
    assert fit_result(fitted(load(HERE / "small.yaml")))["log"] is None


def test_the_same_blocks_stated_give_the_same_fingerprint_as_the_log() -> None:
    log = read_startup_log(LOG)
    logged = fitted_as_logged(load(HERE / "small.yaml", LOGGED), log)
    stated = fitted(load(HERE / "small.yaml", [*LOGGED, "engine.num_gpu_blocks=29751"]))
    assert logged.fingerprint == stated.fingerprint
    assert logged.engine == stated.engine


def test_a_log_of_ranks_compares_what_is_outside_pytorch_as_one() -> None:
    log = read_startup_log(LOG.with_name("vllm-0.11-tp2.log"))
    overrides = (
        "model=qwen3-32b",
        "gpu=h100",
        "engine.version='0.11.0'",
        "engine.tensor_parallel_size=2",
        "engine.max_model_len=16000",
        "engine.max_num_seqs=1024",
        "engine.max_num_batched_tokens=8192",
    )
    result = fit_result(fitted_as_logged(load(HERE / "small.yaml", overrides), log), log)
    row = by_name(result["log"]["lines"])["outside PyTorch and communication"]
    assert row["log"] == round(0.54 * 2**30)
    assert abs(row["difference"]) < 0.02 * 2**30  # two digits


def test_a_log_of_other_settings_is_refused_with_the_changes_that_agree() -> None:
    log = read_startup_log(LOG)
    scenario = load(HERE / "small.yaml", ["engine.version=0.24.1", "engine.kv_cache_dtype=fp8"])
    with pytest.raises(BadInput) as caught:
        fitted_as_logged(scenario, log)
    said = str(caught.value)
    for change in (
        "version=0.19.0",
        "kv_cache_dtype=auto",
        "max_model_len=8192",
        "max_num_batched_tokens=8192",
        "gpu_memory_utilization=0.95",
    ):
        assert f"--set engine.{change}," in said
    assert "tensor_parallel_size" not in said
    same = load(HERE / "small.yaml", [*LOGGED, "engine.version=0.19.3", "engine.kv_cache_dtype=bfloat16"])
    assert fitted_as_logged(same, log).memory.num_gpu_blocks == 29751


def test_kernels_launched_one_by_one_are_said_not_to_be_modelled() -> None:
    deployment = deploy(load(HERE / "small.yaml"))
    engine = replace(deployment.scenario.engine, enforce_eager=True)
    eager = replace(deployment, scenario=replace(deployment.scenario, engine=engine))
    assert len(not_modelled(eager)) == len(not_modelled(deployment)) + 1
    assert any("enforce_eager" in sentence for sentence in not_modelled(eager))
