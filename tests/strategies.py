"""Hypothesis strategies shared by the tests."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

Path = tuple[tuple[int, int], ...]
"""Leading prompt tokens that requests share: (node, end in tokens), ends rising."""


@dataclass(frozen=True)
class Case:
    """A small serving problem: requests (arrival, prompt, output) and the engine that serves them.

    `paths` has one path per request, () if its prompt is its own alone. Two requests with the same node have the same
    tokens up to its end.
    """

    requests: list[tuple[float, int, int]]
    block_size: int
    usable_blocks: int
    max_num_seqs: int
    max_num_batched_tokens: int
    reserve_full_prompt: bool
    enable_prefix_caching: bool
    paths: list[Path]
    watermark_blocks: int


@st.composite
def cases(draw: st.DrawFn, arrival_unit: float = 1 / 64) -> Case:
    """Ragged lengths, small pools and budgets: preemption and chunking are common, ties and shared prefixes too.

    Arrivals are whole multiples of `arrival_unit`, so that they and dyadic step costs add up without rounding.
    """
    block_size = draw(st.sampled_from([1, 2, 4, 16]))
    longest_prompt = draw(st.sampled_from([5, 40, 200]))
    longest_output = draw(st.sampled_from([2, 20, 80]))
    gap = draw(st.sampled_from([0, 1, 8, 100]))
    count = draw(st.integers(1, 30))
    prompts = draw(prompts_with_paths(count, longest_prompt))
    now = 0
    requests = []
    for prompt, _ in prompts:
        now += draw(st.integers(0, gap)) if gap else 0
        requests.append((now * arrival_unit, prompt, draw(st.integers(1, longest_output))))
    largest = max(-(-(prompt + output) // block_size) for _, prompt, output in requests)
    usable_blocks = int(largest * draw(st.sampled_from([1.0, 1.2, 1.7, 3.0, 10.0])))
    max_num_seqs = draw(st.sampled_from([1, 2, 8, 32]))
    return Case(
        requests=requests,
        block_size=block_size,
        usable_blocks=usable_blocks,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max(max_num_seqs, draw(st.sampled_from([8, 32, 64, 512]))),
        reserve_full_prompt=draw(st.booleans()),
        enable_prefix_caching=draw(st.booleans()),
        paths=[path for _, path in prompts],
        watermark_blocks=int(usable_blocks * draw(st.sampled_from([0.0, 0.01, 0.1, 0.4]))),
    )


@st.composite
def prompts_with_paths(draw: st.DrawFn, count: int, longest: int) -> list[tuple[int, Path]]:
    """Prompt lengths with their paths in one tree; in a third of the draws nothing is shared.

    A prompt is its own alone, or opens with a path that is there already (a system prompt), or ends with it (the same
    prompt again, or one that others go on from), or adds a node to it (a conversation that grows, a new system
    prompt). Ends fall anywhere in a block.
    """
    kinds = draw(st.sampled_from([["alone"], ["alone", "open", "end", "add", "add"], ["open", "end", "add"]]))
    tree: list[Path] = [()]
    prompts = []
    for _ in range(count):
        kind = draw(st.sampled_from(kinds))
        path = () if kind == "alone" else draw(st.sampled_from(tree))
        end = path[-1][1] if path else 0
        if kind == "add" and end < longest:
            end = draw(st.integers(end + 1, longest))
            path = (*path, (len(tree), end))
            tree.append(path)
        prompt = end if kind == "end" and path else draw(st.integers(max(1, end), longest))
        prompts.append((prompt, path))
    return prompts
