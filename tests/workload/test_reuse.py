from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim.workload.mooncake import read_mooncake
from capsim.workload.prefixes import Prefixes
from capsim.workload.reuse import PromptBlocks
from capsim.workload.trace import Trace
from tests.workload.recorded import SHIPPED, TRACES, whole
from tests.workload.test_prefixes import BLOCK, Prompt, built, prompts

# Block, blocks, unique, hits, hit tokens, with partial last blocks counted, as computed apart from capsim.
KEPT = {
    "mooncake_arxiv_mixed_93.jsonl": (512, 1_449, 937, 512, 262_144),
    "agent_miniswe_derived.jsonl": (64, 38_957, 2_890, 36_067, 2_308_227),
}
WHOLE = {
    "mooncake_conversation.jsonl.gz": (512, 288_500, 182_790, 105_710, 54_098_411),
    "mooncake_synthetic.jsonl.gz": (512, 121_877, 43_924, 77_953, 39_852_661),
}


def blocks_of(trace: Trace, *, partial: bool) -> PromptBlocks:
    assert trace.prefixes is not None
    assert trace.hash_block is not None
    return PromptBlocks.cut(trace.prefixes, trace.prompt, trace.hash_block, partial=partial)


def has_the_known_figures(path: Path, block: int, *figures: int) -> None:
    reuse = blocks_of(read_mooncake(path, block), partial=True).found_ever()
    assert (reuse.blocks, reuse.unique, reuse.hits, reuse.hit_tokens) == figures


@pytest.mark.parametrize("name", KEPT)
def test_reuse_of_small_traces(name: str) -> None:
    has_the_known_figures(TRACES / name, *KEPT[name])


@pytest.mark.parametrize("name", WHOLE)
def test_reuse_of_whole_traces(name: str) -> None:
    has_the_known_figures(whole(name), *WHOLE[name])


def test_reuse_of_the_shipped_trace() -> None:
    path = SHIPPED / "mooncake_conversation_first2000.jsonl.gz"
    has_the_known_figures(path, 512, 54_559, 38_788, 15_771, 8_070_959)


@pytest.mark.parametrize(
    ("name", "block_share", "token_share"),
    [("mooncake_conversation.jsonl.gz", 0.3819, 0.3734), ("mooncake_synthetic.jsonl.gz", 0.6594, 0.6504)],
)
def test_reuse_of_whole_blocks(name: str, block_share: float, token_share: float) -> None:
    reuse = blocks_of(read_mooncake(whole(name)), partial=False).found_ever()
    # The reference figures have four decimals.
    assert reuse.block_share == pytest.approx(block_share, abs=5e-5)
    assert reuse.token_share == pytest.approx(token_share, abs=5e-5)


def test_reuse_with_a_cache_of_limited_size() -> None:
    blocks = blocks_of(read_mooncake(whole("mooncake_conversation.jsonl.gz")), partial=True)
    shares = [
        blocks.found_by_lru(capacity).block_share
        for capacity in (1_000, 5_000, 10_000, 20_000, 50_000, 100_000)
    ]
    # The reference figures have three decimals.
    assert shares == pytest.approx([0.045, 0.112, 0.212, 0.288, 0.355, 0.364], abs=5e-4)


def by_hand(drawn: list[Prompt], size: int, *, partial: bool) -> list[list[tuple[int, ...]]]:
    """Each prompt's blocks as the tokens up to their end: token by token what it is, as far as ids tell."""
    contents = []
    for row, (ids, tokens) in enumerate(drawn):
        content: list[int] = []
        for place, each in enumerate(ids):
            length = min((place + 1) * BLOCK, tokens) - place * BLOCK
            content += [100 * length + each] * length
        content += [-1 - row] * (tokens - len(content))
        ends = [*range(size, tokens + 1, size), *([tokens] if partial and tokens % size else [])]
        contents.append([tuple(content[:end]) for end in ends])
    return contents


@given(prompts(), st.sampled_from([BLOCK, 2, 8]), st.booleans(), st.booleans())
def test_an_endless_cache_finds_what_was_there_before(
    drawn: list[Prompt], size: int, partial: bool, compress: bool
) -> None:
    prefixes = built(drawn).compressed() if compress else built(drawn)
    prompt = np.array([tokens for _, tokens in drawn], dtype=np.int64)
    reuse = PromptBlocks.cut(prefixes, prompt, size, partial=partial).found_ever()
    seen: set[tuple[int, ...]] = set()
    hits = 0
    for blocks in by_hand(drawn, size, partial=partial):
        hits += sum(block in seen for block in blocks)
        seen.update(blocks)
    assert (reuse.unique, reuse.hits) == (len(seen), hits)
    assert reuse.tokens == prompt.sum()


@given(prompts(), st.integers(1, 12))
def test_a_cache_forgets_what_was_touched_least(drawn: list[Prompt], capacity: int) -> None:
    prompt = np.array([tokens for _, tokens in drawn], dtype=np.int64)
    blocks = PromptBlocks.cut(built(drawn).compressed(), prompt, BLOCK)
    held: list[tuple[int, ...]] = []  # least recently touched first
    hits = 0
    for path in by_hand(drawn, BLOCK, partial=False):
        run = 0
        while run < len(path) and path[run] in held:
            run += 1
        hits += run
        held = [block for block in held if block not in path] + path[::-1]
        held = held[-capacity:]
    assert blocks.found_by_lru(capacity).hits == hits


def test_a_cache_that_holds_all_forgets_nothing() -> None:
    blocks = blocks_of(read_mooncake(TRACES / "mooncake_arxiv_mixed_93.jsonl"), partial=True)
    assert blocks.found_by_lru(1_449) == blocks.found_ever()


def test_no_prompts_have_no_reuse() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    reuse = PromptBlocks.cut(Prefixes.of_hashes([], nothing, 512), nothing, 512).found_ever()
    assert (reuse.block_share, reuse.token_share) == (0.0, 0.0)
