"""Hypothesis strategies shared by the tests."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from capsim.engine.footprint import Footprint
from capsim.engine.offload import Tier

Path = tuple[tuple[int, int], ...]
"""Leading prompt tokens that requests share: (node, end in tokens), ends rising."""


@dataclass(frozen=True)
class Case:
    """A small serving problem: requests (arrival, prompt, output) and the engine that serves them.

    `paths` has one path per request, () if its prompt is its own alone. Two requests with the same node have the same
    tokens up to its end. `tiers` are those of KV offload; `groups` are those of a model with windows or states.
    `priorities` has one entry per request, or none.
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
    tiers: tuple[Tier, ...] = ()
    groups: Footprint | None = None
    long_prefill_token_threshold: int = 0
    by_priority: bool = False
    priorities: tuple[int, ...] = ()

    def priority(self, request: int) -> int:
        """Of a request; 0 where none is stated."""
        return self.priorities[request] if self.priorities else 0


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
def offload_cases(draw: st.DrawFn, arrival_unit: float = 1 / 64) -> Case:
    """Cases with one to three tiers of KV offload, from one block to more than anybody writes.

    Reads take from far less than a step to many steps, in dyadic fractions of a second.
    """
    case = draw(cases(arrival_unit))
    blocks = st.sampled_from([1, 2, 5, 1 + case.usable_blocks // 2, 2 * case.usable_blocks, 1000])
    seconds_per_block = st.sampled_from([2.0**-14, 2.0**-12, 2.0**-8, 2.0**-5])
    latency = st.sampled_from([0.0, 2.0**-9, 2.0**-6, 2.0**-2])
    tiers = [
        Tier(f"tier {number}", draw(blocks), draw(seconds_per_block), draw(latency))
        for number in range(draw(st.integers(1, 3)))
    ]
    return replace(case, enable_prefix_caching=True, tiers=tuple(tiers))


@st.composite
def hybrid_cases(draw: st.DrawFn, arrival_unit: float = 1 / 64) -> Case:
    """Cases whose layers form groups: some see everything, some a window, some have states."""
    case = draw(cases(arrival_unit))
    size, budget = case.block_size, case.max_num_batched_tokens
    window = draw(st.sampled_from([0, 1, 2, 7, 16, 50, 400]))
    windowed = draw(st.integers(1, 3)) if window else 0
    seeing_all = draw(st.integers(0 if windowed else 1, 2))
    states = draw(st.integers(0, 3))
    whole = max(-(-(prompt + output) // size) for _, prompt, output in case.requests)
    seen = min(whole, -(-(window - 1 + budget) // size) + 1)
    largest = seeing_all * whole + windowed * seen + states
    usable_blocks = int(largest * draw(st.sampled_from([1.0, 1.2, 1.7, 3.0, 10.0])))
    return replace(
        case,
        usable_blocks=usable_blocks,
        watermark_blocks=int(usable_blocks * draw(st.sampled_from([0.0, 0.01, 0.1, 0.4]))),
        enable_prefix_caching=False,
        groups=Footprint(size, seeing_all + windowed, window, windowed, states),
    )


@st.composite
def in_short_chunks(draw: st.DrawFn, of: st.SearchStrategy[Case]) -> Case:
    """Cases in which a prompt takes a few tokens of a step, so that several are half computed at once."""
    case = draw(of)
    return replace(case, long_prefill_token_threshold=draw(st.sampled_from([1, 2, 3, 7, 16, 33])))


@st.composite
def with_priorities(draw: st.DrawFn, of: st.SearchStrategy[Case]) -> Case:
    """Cases in which the engine heeds priorities, of few or of many different values."""
    case = draw(of)
    values = st.integers(*draw(st.sampled_from([(0, 1), (0, 1), (-2, 2), (0, 1000)])))
    priorities = draw(st.tuples(*(values for _ in case.requests)))
    return replace(case, by_priority=True, priorities=priorities)


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
