from __future__ import annotations

import pytest

from capsim.report.number import INFINITE, count, duration, milliseconds, number, share


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (14.30491, "14.3"),
        (80.0, "80"),
        (0.0, "0"),
        (924400.0, "924,400"),
        (17055.7, "17,060"),
        (999.96, "1,000"),
        (0.00012344, "0.0001234"),
        (-11.184, "-11.18"),
        (None, "-"),
    ],
)
def test_four_significant_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_zeros_are_kept_in_a_column() -> None:
    assert number(14.3, zeros=True) == "14.30"
    assert milliseconds(0.25) == "250.0"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.95, "95%"),
        (1.0, "100%"),
        (0.99168, "99.17%"),
        (0.9999365, "99.994%"),
        (0.9999995, "99.99995%"),
        (0, "0%"),
    ],
)
def test_only_the_whole_is_printed_as_the_whole(value: float, text: str) -> None:
    assert share(value) == text


def test_what_does_not_exist_has_a_word() -> None:
    assert (share(None), count(None), duration(None), milliseconds(None)) == ("-", "-", "-", "-")
    assert duration(None, INFINITE) == milliseconds(None, INFINITE) == "inf"
    assert (count(48252), duration(0.2459)) == ("48,252", "245.9ms")
