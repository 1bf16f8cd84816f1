from __future__ import annotations

import numpy as np
import pytest

from capsim.measure.long_sum import MOST, long_sum


@pytest.mark.parametrize("count", [0, 1, 7, MOST, MOST + 1, 3 * MOST - 5, 5 * MOST + 13])
@pytest.mark.parametrize("part", [1000, MOST, 7 * MOST])
def test_a_long_sum_is_numpys_to_the_last_bit(count: int, part: int) -> None:
    column = np.random.default_rng(3).lognormal(sigma=5, size=count)
    parts = (column[first : first + part] for first in range(0, count, part))
    assert long_sum(parts, count) == column.sum()


def test_parts_may_be_empty_and_are_read_one_by_one() -> None:
    assert long_sum(iter([np.zeros(0), np.array([1.0, 2.0]), np.zeros(0), np.array([4.0])]), 3) == 7.0
