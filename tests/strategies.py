"""Hypothesis strategies shared by the tests."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Case:
    """A small serving problem: requests (arrival, prompt, output) and the engine that serves them."""

    requests: list[tuple[float, int, int]]
    block_size: int
    usable_blocks: int
    max_num_seqs: int
    max_num_batched_tokens: int
    reserve_full_prompt: bool
    enable_prefix_caching: bool


@st.composite
def cases(draw: st.DrawFn, arrival_unit: float = 1 / 64) -> Case:
    """Ragged lengths, small pools and budgets: preemption and chunking are common, ties too.

    Arrivals are whole multiples of `arrival_unit`, so that they and dyadic step costs add up without rounding.
    """
    block_size = draw(st.sampled_from([1, 2, 4, 16]))
    longest_prompt = draw(st.sampled_from([5, 40, 200]))
    longest_output = draw(st.sampled_from([2, 20, 80]))
    gap = draw(st.sampled_from([0, 1, 8, 100]))
    count = draw(st.integers(1, 30))
    now = 0
    requests = []
    for _ in range(count):
        now += draw(st.integers(0, gap)) if gap else 0
        requests.append(
            (now * arrival_unit, draw(st.integers(1, longest_prompt)), draw(st.integers(1, longest_output)))
        )
    largest = max(-(-(prompt + output) // block_size) for _, prompt, output in requests)
    max_num_seqs = draw(st.sampled_from([1, 2, 8, 32]))
    return Case(
        requests=requests,
        block_size=block_size,
        usable_blocks=int(largest * draw(st.sampled_from([1.0, 1.2, 1.7, 3.0, 10.0]))),
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max(max_num_seqs, draw(st.sampled_from([8, 32, 64, 512]))),
        reserve_full_prompt=draw(st.booleans()),
        enable_prefix_caching=draw(st.booleans()),
    )
