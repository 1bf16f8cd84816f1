"""The decoder computes what a decoder computes, whatever way its batch is cut and wherever its cache lies."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[calibrate]'")

from calibrate.microbenchmark.all_reduce import GLOO, time_all_reduce  # noqa: E402
from calibrate.microbenchmark.attention import PagedCache, WholeCache  # noqa: E402
from calibrate.microbenchmark.axes import DENSITIES  # noqa: E402
from calibrate.microbenchmark.bench import NotPossible, OutOfMemory  # noqa: E402
from calibrate.microbenchmark.case import CEILING, MEMORY, OPERATOR, Batch, Case  # noqa: E402
from calibrate.microbenchmark.cpu import CpuDevice  # noqa: E402
from calibrate.microbenchmark.decoder import Decoder  # noqa: E402
from calibrate.microbenchmark.kernels import Kernels  # noqa: E402
from calibrate.microbenchmark.plan import Plan  # noqa: E402
from calibrate.microbenchmark.rank import Rank  # noqa: E402
from calibrate.microbenchmark.run_command import open_bench  # noqa: E402
from calibrate.microbenchmark.sample import CPU  # noqa: E402
from calibrate.microbenchmark.torch_bench import TorchBench  # noqa: E402
from capsim.catalog import Experts  # noqa: E402
from capsim.cost import Chunk  # noqa: E402
from capsim.errors import BadInput  # noqa: E402
from capsim.memory import weight_bytes  # noqa: E402
from tests.calibrate.microbenchmark.fake_bench import LIMITS, RANK, SMALL  # noqa: E402
from tests.calibrate.microbenchmark.paged import paged  # noqa: E402

DEVICE = CpuDevice(1)
BFLOAT16 = 2.0**-7  # relative error of a number, times a few sums of them


@pytest.fixture
def paged_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", paged)


Cache = Callable[[], Any]
CACHES = [
    pytest.param(lambda: WholeCache(SMALL, 8192), id="whole"),
    pytest.param(lambda: PagedCache(SMALL, 8192, "cpu"), id="paged"),
]


def logits_of(decoder: Decoder, cache: Any, ids: list[int], cuts: list[int]) -> Any:
    """Logits after the last token of a prompt that is computed in chunks, with another sequence beside each."""
    past, found = 0, None
    for new in cuts:
        inputs = decoder.inputs(Batch((Chunk(new, past),), ()), cache)
        inputs.ids.copy_(torch.tensor(ids[past : past + new]))
        found = decoder.logits(inputs, cache)
        past += new
    return found


@pytest.mark.usefixtures("paged_kernel")
@pytest.mark.parametrize("make", CACHES)
def test_a_prompt_in_chunks_is_the_prompt_at_once(make: Cache) -> None:
    torch.manual_seed(1)
    decoder, ids = Decoder(SMALL, 2, DEVICE), list(range(100, 140))
    with torch.inference_mode():
        whole = logits_of(decoder, make(), ids, [40])
        cut = logits_of(decoder, make(), ids, [17, 22, 1])
    assert torch.allclose(whole.float(), cut.float(), atol=8 * BFLOAT16 * float(whole.abs().max()))


@pytest.mark.usefixtures("paged_kernel")
@pytest.mark.parametrize("make", CACHES)
def test_a_batch_is_its_sequences_alone(make: Cache) -> None:
    """Attention of chunks and decodes together, of unequal lengths, is that of each."""
    torch.manual_seed(2)
    cache = make()
    batch = Batch((Chunk(5, 0), Chunk(7, 300)), (1, 260, 33))
    queries = torch.randn(batch.tokens, SMALL.query_heads, SMALL.model.head_dim).to(torch.bfloat16)
    placement = cache.place(batch, 1)
    part = cache.part(0, 1)
    together = cache.attend(part, placement, queries)
    assert together.shape == queries.shape
    first = 0
    for place, (new, length) in enumerate(batch.lengths):
        keys, values = _seen(cache, part, placement, place, length)
        mine = queries[first : first + new].float()
        scores = torch.einsum("qhd,khd->hqk", mine, keys) / math.sqrt(SMALL.model.head_dim)
        seen = torch.ones(new, length, dtype=torch.bool).tril(length - new)
        expected = torch.einsum("hqk,khd->qhd", scores.masked_fill(~seen, -math.inf).softmax(-1), values)
        assert torch.allclose(together[first : first + new].float(), expected, atol=4 * BFLOAT16)
        first += new


def _seen(cache: Any, part: Any, placement: Any, place: int, length: int) -> Any:
    """Keys and values of a sequence as float32, one a query head."""
    sharing = SMALL.query_heads // SMALL.kv_heads
    if isinstance(cache, WholeCache):
        start = placement.tables["starts"][place]
        found = [each[:, start : start + length].transpose(0, 1) for each in part]
    else:
        rows = placement.tables["block_table"][place].long()
        found = [each[rows].flatten(0, 1)[:length] for each in part]
    return [each.repeat_interleave(sharing, 1).float() for each in found]


@pytest.mark.usefixtures("paged_kernel")
@pytest.mark.parametrize("make", CACHES)
def test_a_decode_that_advances_is_the_next_one(make: Cache) -> None:
    """One placement with room, advanced in place, gives what a placement of the longer batch gives."""
    torch.manual_seed(3)
    decoder, cache, ids = Decoder(SMALL, 2, DEVICE), make(), [7, 8, 9, 10]
    with torch.inference_mode():
        expected = logits_of(decoder, make(), ids, [4])
        logits_of(decoder, cache, ids, [2])
        decode = decoder.inputs(Batch(contexts=(3,)), cache, room=4)
        # Beside one another from here on: the prompt is written once more where the decode reads.
        prompt = decoder.inputs(Batch((Chunk(2, 0),)), cache, room=5)
        prompt.ids.copy_(torch.tensor(ids[:2]))
        decoder.logits(prompt, cache)
        for token in ids[2:]:
            decode.ids.fill_(token)
            found = decoder.logits(decode, cache)
            decode.positions.add_(1)
            cache.advance(decode.placement)
    assert torch.allclose(found.float(), expected.float(), atol=8 * BFLOAT16 * float(expected.abs().max()))


@pytest.mark.usefixtures("paged_kernel")
def test_pages_of_one_turn_are_not_those_of_the_next() -> None:
    cache = PagedCache(SMALL, 256 * 20, "cpu")
    batch = Batch.equal(0, 0, 3, 500)
    tables = [set(cache.place(batch, 1, turn).tables["block_table"].flatten().tolist()) for turn in (0, 1)]
    assert all(len(table) == 6 for table in tables)
    assert tables[0].isdisjoint(tables[1])


@pytest.mark.parametrize("make", CACHES)
def test_a_batch_that_the_cache_does_not_hold_is_out_of_memory(make: Cache) -> None:
    with pytest.raises(MemoryError, match="out of memory"):
        make().place(Batch.equal(0, 0, 100, 1000), 1)


def test_padding_changes_nothing() -> None:
    torch.manual_seed(4)
    decoder, cache = Decoder(SMALL, 2, DEVICE), WholeCache(SMALL, 8192)
    batch = Batch((Chunk(5, 3),), (9, 4))
    with torch.inference_mode():
        plain, padded = decoder.inputs(batch, cache), decoder.inputs(batch, cache, padded=16)
        assert len(padded.ids) == 16
        padded.ids[:7].copy_(plain.ids)
        one, two = decoder.logits(plain, cache), decoder.logits(padded, cache)
    assert one.shape == two.shape == (3, SMALL.model.vocabulary_size)
    assert torch.allclose(one.float(), two.float(), atol=8 * BFLOAT16 * float(one.abs().max()))


def test_experts_are_the_chosen_ones_weighted() -> None:
    torch.manual_seed(5)
    model = replace(SMALL.model, experts=Experts(count=4, per_token=2, intermediate_size=64, shared=1))
    rank = Rank(model, 1, "bfloat16")
    decoder = Decoder(rank, 1, DEVICE)
    weights, tokens = decoder.random_experts(), decoder.random_tokens(9, model.hidden_size)
    found = Kernels(rank, DEVICE).experts(tokens, weights).float()

    def mlp(token: Any, gate_up: Any, down: Any) -> Any:
        gate, up = (gate_up.float() @ token).chunk(2)
        return down.float() @ (torch.nn.functional.silu(gate) * up)

    for row, token in zip(found, tokens.float(), strict=True):
        chances = (weights["router"].float() @ token).softmax(0)
        expected = mlp(token, weights["shared_gate_up"], weights["shared_down"])
        for share, chosen in zip(*(each.tolist() for each in chances.topk(2)), strict=True):
            expected = expected + share * mlp(token, weights["gate_up"][chosen], weights["down"][chosen])
        assert torch.allclose(row, expected, atol=16 * BFLOAT16 * float(expected.abs().max()))


def test_a_decoder_with_experts_takes_a_step() -> None:
    model = replace(
        SMALL.model, qk_norm=True, experts=Experts(count=8, per_token=2, intermediate_size=64, dense_layers=1)
    )
    rank = Rank(model, 1, "bfloat16")
    decoder, cache = Decoder(rank, 2, DEVICE), WholeCache(rank, 4096)
    with torch.inference_mode():
        tokens = decoder.step(decoder.inputs(Batch((Chunk(6, 0),), (5,)), cache), cache)
    assert tokens.shape == (2,)
    assert [("router" in layer) for layer in decoder.layers] == [False, True]
    names = [kind.name for kind in rank.operators()]
    assert {"moe", "qk_norm", "gate_up_proj"} <= set(names)


def test_the_decoder_weighs_what_the_memory_model_says() -> None:
    decoder = Decoder(SMALL, SMALL.model.layers, DEVICE)
    assert decoder.weight_bytes == weight_bytes(SMALL.model, 1, "bfloat16")


@pytest.fixture(scope="module")
def bench() -> TorchBench:
    found = TorchBench(CpuDevice(1, time.thread_time))
    found.load(Plan(RANK, LIMITS, DENSITIES[-1]))
    return found


def test_weights_are_rotated_past_the_cache(bench: TorchBench) -> None:
    calls = bench._calls.operator("qkv_proj", 4)
    n, k = RANK.product("qkv_proj")
    assert len(calls) * n * k * 2 > 2 * bench.machine.cache


def test_no_input_is_zero(bench: TorchBench) -> None:
    decoder, cache, _ = bench._loaded
    for layer in decoder.layers:
        for weights in layer.values():
            assert float((weights == 0).float().mean()) < 0.01
    for part in cache.part(0, 1):
        assert float((part == 0).float().mean()) < 0.01


def test_every_operator_is_measured(bench: TorchBench) -> None:
    for kind in RANK.operators():
        sample = bench.measure(Case(OPERATOR, kind.name, 8)).sample
        assert sample is not None
        assert sample.seconds > 0


def test_activations_grow_with_the_tokens(bench: TorchBench) -> None:
    """In both the tokens are as many sequences as may run: of the logits there are equally many."""
    sizes = [
        (bench.measure(Case(MEMORY, "activations", tokens)).figures or {})["bytes"] for tokens in (64, 256)
    ]
    # At least gate and up of the tokens that the larger one has more.
    assert sizes[1] - sizes[0] >= 192 * 2 * RANK.columns * 2


def test_a_memory_that_no_cpu_tells_is_said(bench: TorchBench) -> None:
    with pytest.raises(NotPossible, match="not known"):
        bench.measure(Case(MEMORY, "outside torch"))


def test_out_of_memory_is_told_from_defects(bench: TorchBench) -> None:
    with pytest.raises(OutOfMemory):
        bench.measure(Case("attention", "decode", batch=Batch.equal(0, 0, 10_000, 1000)))
    with pytest.raises(KeyError):
        bench.measure(Case(OPERATOR, "no such operator", 8))


def test_fp8_is_refused_by_name_on_a_cpu(bench: TorchBench) -> None:
    with pytest.raises(NotPossible, match=r"torch\._scaled_mm"):
        bench.measure(Case(CEILING, "matrix fp8"))
    with pytest.raises(BadInput, match="expected bfloat16"):
        open_bench("cpu", 1, "fp8")


def test_an_all_reduce_over_two_processes_is_timed() -> None:
    sample = time_all_reduce(2, 4096, GLOO, replace(CPU, repeats=3, least=1e-4))
    assert sample.repeats == 3
    assert sample.seconds > 0
