from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsim import units
from capsim.units import Rate, UnitError

GOOD: list[tuple[Callable[[object], object], object, object]] = [
    (units.parse_duration, "250ms", 0.25),
    (units.parse_duration, "1.5s", 1.5),
    (units.parse_duration, "2min", 120.0),
    (units.parse_duration, "1h", 3600.0),
    (units.parse_duration, "30us", 3e-5),
    (units.parse_duration, "30 µs", 3e-5),
    (units.parse_duration, " 0.3ms ", 0.0003),
    (units.parse_duration, "1e-3s", 0.001),
    (units.parse_duration, 0, 0.0),
    (units.parse_duration, "0", 0.0),
    (units.parse_size, "80GiB", 80 * 2**30),
    (units.parse_size, "141GB", 141_000_000_000),
    (units.parse_size, "79.19GiB", 85029615043),
    (units.parse_bandwidth, "4.8TB/s", 4.8e12),
    (units.parse_bandwidth, "450 GB / s", 450e9),
    (units.parse_compute, "989TFLOP/s", 989e12),
    (units.parse_compute, "1.9789PFLOPS", 1978.9e12),
    (units.parse_rate, "80/s", Rate(80.0, "requests")),
    (units.parse_rate, "4800/min", Rate(80.0, "requests")),
    (units.parse_rate, "80 requests/s", Rate(80.0, "requests")),
    (units.parse_rate, "1 request/h", Rate(1 / 3600, "requests")),
    (units.parse_rate, "17000 tokens/s", Rate(17000.0, "output_tokens")),
    (units.parse_rate, "60 output tokens/min", Rate(1.0, "output_tokens")),
    (units.parse_share, "95%", 0.95),
    (units.parse_share, "0.1%", 0.001),
    (units.parse_share, 0.05, 0.05),
    (units.parse_share, 1, 1.0),
    (units.parse_share, "150%", 1.5),
]


@pytest.mark.parametrize(("parse", "text", "value"), GOOD)
def test_quantities_are_read_exactly(parse: Callable[[object], object], text: object, value: object) -> None:
    assert parse(text) == value


DURATION = "expected a duration such as '250ms'"
BAD: list[tuple[Callable[[object], object], object, str]] = [
    (units.parse_duration, 250, f"250 has no unit, {DURATION}"),
    (units.parse_duration, "250", f"'250' has no unit, {DURATION}"),
    (units.parse_duration, "-1s", f"'-1s' is negative, {DURATION}"),
    (units.parse_duration, math.nan, f"nan has no unit, {DURATION}"),
    (units.parse_duration, math.inf, f"inf has no unit, {DURATION}"),
    (units.parse_duration, "inf s", f"'inf s' is no quantity, {DURATION}"),
    (units.parse_duration, "1e400s", f"'1e400s' is too large, {DURATION}"),
    (units.parse_duration, "1e999999999s", f"unit 'e999999999s' is not known here, {DURATION}"),
    (units.parse_duration, "٣s", f"'٣s' is no quantity, {DURATION}"),
    (units.parse_duration, True, f"true is no quantity, {DURATION}"),
    (units.parse_duration, None, f"nothing is no quantity, {DURATION}"),
    (units.parse_duration, [1], f"a list is no quantity, {DURATION}"),
    (units.parse_duration, "5 sec", f"unit 'sec' is not known here, {DURATION}"),
    (units.parse_duration, "5MS", f"unit 'MS' is not known here, {DURATION}, did you mean '5ms'?"),
    (units.parse_duration, "80GiB", f"unit 'GiB' is not known here, {DURATION}"),
    (
        units.parse_size,
        "80gib",
        "unit 'gib' is not known here, expected a size such as '80GiB', did you mean '80GiB'?",
    ),
    (
        units.parse_bandwidth,
        "4.8TB",
        "unit 'TB' is not known here, expected a bandwidth such as '4.8TB/s', did you mean '4.8TB/s'?",
    ),
    (
        units.parse_compute,
        989e12,
        "989000000000000.0 has no unit, expected a compute rate such as '989.4TFLOP/s'",
    ),
    (units.parse_rate, 80, "80 has no unit, expected a rate such as '80/s' or '17000 tokens/s'"),
    (
        units.parse_rate,
        "80 request/sec",
        "unit 'request/sec' is not known here, expected a rate such as '80/s' or '17000 tokens/s',"
        " did you mean '80request/s'?",
    ),
    (
        units.parse_share,
        20,
        "20 is more than the whole, expected a share such as '5%' or 0.05, did you mean '20%'?",
    ),
    (units.parse_share, -0.1, "-0.1 is no share, expected a share such as '5%' or 0.05"),
    (units.parse_share, math.nan, "nan is no share, expected a share such as '5%' or 0.05"),
]


@pytest.mark.parametrize(("parse", "text", "message"), BAD)
def test_other_text_is_refused_and_says_what_was_expected(
    parse: Callable[[object], object], text: object, message: str
) -> None:
    with pytest.raises(UnitError) as refusal:
        parse(text)
    assert str(refusal.value) == message


# 0.5e-3 is the most that rounding to four significant digits changes a number by, relative to it.
ROUNDED = 0.5e-3


@given(st.floats(1e-12, 1e9))
def test_durations_survive_printing(seconds: float) -> None:
    assert units.parse_duration(units.format_duration(seconds)) == pytest.approx(seconds, rel=ROUNDED)


@given(st.just(0.0) | st.floats(0, 1e300))
def test_exact_durations_rates_and_shares_are_unchanged(value: float) -> None:
    assert units.parse_duration(units.format_duration(value, digits=None)) == value
    assert units.parse_rate(units.format_rate(value, digits=None)) == Rate(value, "requests")
    assert units.parse_rate(units.format_rate(value, "output_tokens", digits=None)) == Rate(
        value, "output_tokens"
    )
    assert units.parse_share(units.format_share(value, digits=None)) == value


@given(st.integers(0, 2**50))
def test_sizes_survive_printing(size: int) -> None:
    """To the digits printed, and to the byte that a size is rounded to when it is read."""
    assert units.parse_size(units.format_size(size)) == pytest.approx(size, rel=ROUNDED, abs=1)


@given(st.floats(1e6, 1e18))
def test_bandwidths_compute_rates_and_rates_survive_printing(value: float) -> None:
    assert units.parse_bandwidth(units.format_bandwidth(value)) == pytest.approx(value, rel=ROUNDED)
    assert units.parse_compute(units.format_compute(value)) == pytest.approx(value, rel=ROUNDED)
    assert units.parse_rate(units.format_rate(value)).per_second == pytest.approx(value, rel=ROUNDED)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (units.format_duration(0.25), "250ms"),
        (units.format_duration(0.99996), "1s"),
        (units.format_duration(0), "0s"),
        (units.format_duration(7.123456e-5), "71.23us"),
        (units.format_duration(600), "10min"),
        (units.format_duration(90), "90s"),
        (units.format_duration(600, digits=None), "600s"),
        (units.format_duration(0.0002, digits=None), "200us"),
        (units.format_size(85029615043), "79.19GiB"),
        (units.format_size(12), "12B"),
        (units.format_bandwidth(4.8e12), "4.8TB/s"),
        (units.format_compute(989.4e12), "989.4TFLOP/s"),
        (units.format_rate(80), "80/s"),
        (units.format_rate(17000.4, "output_tokens"), "17000 tokens/s"),
        (units.format_share(0.001), "0.1%"),
        (units.format_share(0.2, digits=None), "20%"),
    ],
)
def test_quantities_are_printed_in_a_unit_that_suits_them(text: str, printed: str) -> None:
    assert text == printed
