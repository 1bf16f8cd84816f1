from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from capsim.workload.prefixes import Prefixes

BLOCK = 4

Prompt = tuple[list[int], int]


def built(prompts: list[Prompt]) -> Prefixes:
    tokens = np.array([tokens for _, tokens in prompts], dtype=np.int64)
    return Prefixes.of_hashes([ids for ids, _ in prompts], tokens, BLOCK)


def prompts() -> st.SearchStrategy[list[Prompt]]:
    """Ids that repeat often, also after other ids, with full, partial and missing last blocks."""
    ids = st.lists(st.integers(0, 2), max_size=5)
    missing = st.integers(-(BLOCK - 1), 2 * BLOCK)
    prompt = st.tuples(ids, missing).map(lambda drawn: (drawn[0], max(1, len(drawn[0]) * BLOCK + drawn[1])))
    return st.lists(prompt, max_size=8)


def common(first: Prompt, second: Prompt) -> int:
    """Leading tokens that two prompts share, from their ids alone."""
    shared = 0
    for place, (one, other) in enumerate(zip(first[0], second[0], strict=False)):
        ends = {min((place + 1) * BLOCK, tokens) for _, tokens in (first, second)}
        if one != other or len(ends) > 1:
            break
        shared = ends.pop()
    return shared


def common_of_paths(first: tuple[tuple[int, int], ...], second: tuple[tuple[int, int], ...]) -> int:
    return max((end for node, end in first if (node, end) in second), default=0)


def test_a_path_is_a_node_an_id() -> None:
    prefixes = built([([7, 8, 9], 10), ([7, 8], 8), ([], 3), ([7, 5, 9], 12)])
    assert prefixes.path(0) == ((0, 4), (1, 8), (2, 10))
    assert prefixes.path(1) == ((0, 4), (1, 8))
    assert prefixes.path(2) == ()
    # 9 after 7, 5 is not 9 after 7, 8.
    assert prefixes.path(3) == ((0, 4), (3, 8), (4, 12))


def test_a_block_of_another_size_is_another_block() -> None:
    prefixes = built([([1, 2], 8), ([1, 2], 7)])
    assert prefixes.path(0)[0] == prefixes.path(1)[0]
    assert prefixes.path(0)[1][0] != prefixes.path(1)[1][0]


def test_chains_become_one_node_and_what_one_prompt_has_is_left_out() -> None:
    prefixes = built(
        [([1, 2, 3, 4], 16), ([1, 2, 3, 5, 6], 20), ([1, 2], 8), ([9, 9, 9], 12), ([1, 2, 3], 12)]
    )
    compressed = prefixes.compressed()
    assert [compressed.path(row) for row in range(5)] == [
        ((0, 8), (1, 12)),
        ((0, 8), (1, 12)),
        ((0, 8),),
        (),
        ((0, 8), (1, 12)),
    ]


@given(prompts())
def test_compression_changes_no_pair_of_prompts(drawn: list[Prompt]) -> None:
    plain = built(drawn)
    compressed = plain.compressed()
    assert len(compressed) == len(plain) == len(drawn)
    for first in range(len(drawn)):
        for second in range(first):
            expected = common(drawn[first], drawn[second])
            for prefixes in (plain, compressed):
                assert common_of_paths(prefixes.path(first), prefixes.path(second)) == expected


@given(prompts())
def test_compression_leaves_a_tree_without_needless_nodes(drawn: list[Prompt]) -> None:
    compressed = built(drawn).compressed()
    parents: dict[int, tuple[int, int]] = {}
    passing: dict[int, list[int]] = {}
    for row, (_, tokens) in enumerate(drawn):
        path = compressed.path(row)
        ends = [end for _, end in path]
        assert ends == sorted(set(ends))
        assert all(0 < end <= tokens for end in ends)
        parent = -1
        for node, end in path:
            assert parents.setdefault(node, (parent, end)) == (parent, end)
            passing.setdefault(node, []).append(row)
            parent = node
    assert sorted(passing) == list(range(len(passing)))
    assert all(len(rows) > 1 for rows in passing.values())
    assert all(passing[node] != passing[parent] for node, (parent, _) in parents.items() if parent >= 0)


def test_rows_are_taken_in_the_order_asked_for() -> None:
    prefixes = built([([1, 2], 8), ([], 5), ([1, 3], 6)])
    taken = prefixes.take(np.array([2, 1, 2, 0]))
    assert [taken.path(row) for row in range(4)] == [prefixes.path(row) for row in (2, 1, 2, 0)]
    assert len(prefixes.take(np.zeros(0, dtype=np.int64))) == 0


def test_copies_share_nothing() -> None:
    prefixes = built([([1, 2], 8), ([1, 3], 6)])
    taken = prefixes.take(np.array([0, 1, 0, 1]), copies=np.array([0, 0, 1, 1]))
    first, second = ({node for row in rows for node, _ in taken.path(row)} for rows in ((0, 1), (2, 3)))
    assert len(first) == len(second) == 3
    assert not first & second
    assert [end for _, end in taken.path(2)] == [end for _, end in taken.path(0)]


def test_prompts_without_ids_have_empty_paths() -> None:
    compressed = built([([], 5), ([], 1)]).compressed()
    assert [compressed.path(row) for row in range(2)] == [(), ()]
    assert len(compressed.take(np.array([1, 0]), copies=np.array([0, 1]))) == 2
