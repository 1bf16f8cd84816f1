"""Quantities with units: from text to the plain numbers used inside, and back.

Inside capsim time is float seconds, memory int bytes, rates per second. A bare number is refused wherever a
unit could be meant (0 needs none), because 250 could be seconds or milliseconds. Units are written as their
standards write them: 1 GB is 1e9 bytes (SI) and 1 GiB is 2**30 bytes (IEC 80000-13), and case counts.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

_NUMBER = re.compile(
    r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3}(?!\d))?)\s*(.*?)\s*", re.ASCII | re.DOTALL
)
LONGEST = 64
"""Characters of a quantity that are looked at: enough for any, and no work for a pasted file."""

_SECONDS: Mapping[str, Fraction] = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
_BYTES: Mapping[str, Fraction] = {
    "B": Fraction(1),
    "kB": Fraction(10**3),
    "KB": Fraction(10**3),
    "MB": Fraction(10**6),
    "GB": Fraction(10**9),
    "TB": Fraction(10**12),
    "KiB": Fraction(2**10),
    "MiB": Fraction(2**20),
    "GiB": Fraction(2**30),
    "TiB": Fraction(2**40),
}
_BYTES_PER_SECOND = {f"{unit}/s": factor for unit, factor in _BYTES.items()}
_FLOPS = {
    f"{prefix}{unit}": Fraction(10**power)
    for unit in ("FLOP/s", "FLOPS")
    for prefix, power in (("M", 6), ("G", 9), ("T", 12), ("P", 15))
}
_PER = {"s": Fraction(1), "min": Fraction(1, 60), "h": Fraction(1, 3600)}
_RATES = {
    **{f"{word}/{per}": factor for word in ("", "requests", "request") for per, factor in _PER.items()},
    **{f"{word}/{per}": factor for word in ("tokens", "output tokens") for per, factor in _PER.items()},
}
_PERCENT = {"%": Fraction(1, 100)}


class UnitError(ValueError):
    """A quantity that cannot be read.

    Attributes:
        what: what is wrong.
        expected: what was expected, with an example.
        suggestion: the quantity that was probably meant, or empty.
    """

    def __init__(self, what: str, expected: str, suggestion: str = "") -> None:
        self.what = what
        self.expected = expected
        self.suggestion = suggestion
        hint = f", did you mean {suggestion!r}?" if suggestion else ""
        super().__init__(f"{what}, expected {expected}{hint}")


class Rate(NamedTuple):
    """A rate and what it counts: ``requests`` or ``output_tokens``, per second."""

    per_second: float
    unit: str


def parse_duration(value: object) -> float:
    """Seconds of a duration such as ``250ms``, ``1.5s``, ``2min``, ``1h`` or ``30us``.

    Raises:
        UnitError: no duration, no unit, negative or not finite.
    """
    return _finite(
        _quantity(value, _SECONDS, "a duration such as '250ms'"), value, "a duration such as '250ms'"
    )


def parse_size(value: object) -> int:
    """Bytes of a size such as ``80GiB`` or ``141GB``, rounded to whole bytes.

    Raises:
        UnitError: no size, no unit, negative or not finite.
    """
    expected = "a size such as '80GiB'"
    size = _quantity(value, _BYTES, expected)
    _finite(size, value, expected)
    return round(size)


def parse_bandwidth(value: object) -> float:
    """Bytes per second of a bandwidth such as ``4.8TB/s``.

    Raises:
        UnitError: no bandwidth, no unit, negative or not finite.
    """
    expected = "a bandwidth such as '4.8TB/s'"
    return _finite(_quantity(value, _BYTES_PER_SECOND, expected), value, expected)


def parse_compute(value: object) -> float:
    """Floating-point operations per second of a compute rate such as ``989.4TFLOP/s``.

    Raises:
        UnitError: no compute rate, no unit, negative or not finite.
    """
    expected = "a compute rate such as '989.4TFLOP/s'"
    return _finite(_quantity(value, _FLOPS, expected), value, expected)


def parse_rate(value: object) -> Rate:
    """A rate such as ``80/s``, ``4800/min``, ``80 requests/s`` or ``17000 tokens/s`` (output tokens).

    Raises:
        UnitError: no rate, no unit, negative or not finite.
    """
    expected = "a rate such as '80/s' or '17000 tokens/s'"
    per_second = _finite(_quantity(value, _RATES, expected), value, expected)
    return Rate(per_second, "output_tokens" if "token" in str(value) else "requests")


def parse_share(value: object) -> float:
    """A share as a fraction of one: ``95%`` and ``0.95`` both give 0.95; more than ``100%`` needs its sign.

    Raises:
        UnitError: no share, negative, not finite, or a bare number above 1.
    """
    expected = "a share such as '5%' or 0.05"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not math.isfinite(value) or value < 0:
            raise UnitError(f"{value!r} is no share", expected)
        if value > 1:
            raise UnitError(f"{value!r} is more than the whole", expected, f"{value:g}%")
        return float(value)
    return _finite(_quantity(value, _PERCENT, expected), value, expected)


def format_duration(seconds: float, digits: int | None = 4) -> str:
    """A duration in the unit that suits it, e.g. ``250ms``.

    Args:
        seconds: how long, not negative.
        digits: significant digits; None gives the exact value, which `parse_duration` reads back unchanged.
    """
    if digits is None:
        return _exact(seconds, (("s", 0), ("ms", -3), ("us", -6), ("ns", -9)))
    for unit in ("h", "min"):
        factor = int(_SECONDS[unit])
        if seconds >= 2 * factor:
            return _rounded(seconds / factor, digits) + unit
    return _scaled(seconds, (("s", 0), ("ms", -3), ("us", -6), ("ns", -9)), digits)


def format_size(size: int) -> str:
    """A size in binary units, 4 significant digits, e.g. ``79.19GiB``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        factor = int(_BYTES[unit])
        if size >= factor:
            return _rounded(size / factor, 4) + unit
    return f"{size}B"


def format_bandwidth(bytes_per_second: float) -> str:
    """A bandwidth in decimal units, 4 significant digits, e.g. ``4.8TB/s``."""
    return _scaled(bytes_per_second, (("TB/s", 12), ("GB/s", 9), ("MB/s", 6), ("kB/s", 3), ("B/s", 0)), 4)


def format_compute(flops: float) -> str:
    """A compute rate, 4 significant digits, e.g. ``989.4TFLOP/s``."""
    return _scaled(flops, (("PFLOP/s", 15), ("TFLOP/s", 12), ("GFLOP/s", 9), ("MFLOP/s", 6)), 4)


def format_rate(per_second: float, unit: str = "requests", digits: int | None = 4) -> str:
    """A rate per second, e.g. ``80/s`` or ``17000 tokens/s``; `digits` None gives the exact value."""
    number = _plain(Decimal(repr(float(per_second)))) if digits is None else _rounded(per_second, digits)
    return number + (" tokens/s" if unit == "output_tokens" else "/s")


def format_share(share: float, digits: int | None = 4) -> str:
    """A share in percent, e.g. ``0.1%``; `digits` None gives the exact value."""
    if digits is None:
        return _plain(Decimal(repr(float(share))).scaleb(2)) + "%"
    return _rounded(share * 100, digits) + "%"


def pattern(parse: Callable[[object], object], *, positive: bool = False) -> str:
    """The texts that one of the functions above reads, as a regular expression that ECMA 262 knows too.

    Args:
        parse: e.g. `parse_duration`.
        positive: whether 0 is left out.
    """
    units = "|".join(unit.replace("/", r"\s*/\s*") for unit in _UNITS[parse])
    power = r"(?:[eE][-+]?[0-9]{1,3})?"
    number = rf"\+?(?=[0-9.]*[1-9])(?:[0-9]+\.?[0-9]*|\.[0-9]+){power}\s*(?:{units})"
    if positive:
        return rf"^\s*{number}\s*$"
    nothing = rf"[-+]?(?:0+\.?0*|\.0+){power}\s*(?:{units})?"
    return rf"^\s*(?:{number}|{nothing})\s*$"


_UNITS: Mapping[Callable[[object], object], Mapping[str, Fraction]] = {
    parse_duration: _SECONDS,
    parse_size: _BYTES,
    parse_bandwidth: _BYTES_PER_SECOND,
    parse_compute: _FLOPS,
    parse_rate: _RATES,
    parse_share: _PERCENT,
}


def _quantity(value: object, units: Mapping[str, Fraction], expected: str) -> Fraction:
    """The exact value of a quantity in its base unit."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value == 0:
            return Fraction(0)
        raise UnitError(f"{value!r} has no unit", expected)
    if not isinstance(value, str):
        raise UnitError(f"{_named(value)} is no quantity", expected)
    match = _NUMBER.fullmatch(value) if len(value) <= LONGEST else None
    if match is None:
        raise UnitError(f"{value[:LONGEST]!r} is no quantity", expected)
    number, unit = Fraction(match[1]), re.sub(r"\s*/\s*", "/", match[2])
    if number < 0:
        raise UnitError(f"{value!r} is negative", expected)
    if unit in units:
        return number * units[unit]
    if not unit and number == 0:
        return Fraction(0)
    if not unit:
        raise UnitError(f"{value!r} has no unit", expected)
    known = [name for name in units if name.lower() == unit.lower()]
    close = known or difflib.get_close_matches(unit, units, n=1, cutoff=0.6)
    raise UnitError(f"unit {unit!r} is not known here", expected, f"{match[1]}{close[0]}" if close else "")


def _finite(quantity: Fraction, value: object, expected: str) -> float:
    try:
        return float(quantity)
    except OverflowError as error:
        raise UnitError(f"{value!r} is too large", expected) from error


def _named(value: object) -> str:
    """A value of another kind in the words of the file."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return {"list": "a list", "dict": "a mapping"}.get(type(value).__name__, repr(value))


def _scaled(value: float, units: tuple[tuple[str, int], ...], digits: int) -> str:
    """`value` in the largest of these decimal units (with their powers of ten) that leaves 1 or more."""
    if value == 0:
        return "0" + units[0][0]
    for unit, power in units:
        # Rounded first, or 0.99996 would print as 1000ms.
        if float(f"{value / 10.0**power:.{digits}g}") >= 1 or (unit, power) == units[-1]:
            return _rounded(value / 10.0**power, digits) + unit
    raise AssertionError("the last unit always returns")


def _exact(value: float, units: tuple[tuple[str, int], ...]) -> str:
    """`value` unrounded, in the largest unit that leaves 1 or more: moving a decimal point is exact."""
    number = Decimal(repr(float(value)))
    for unit, power in units:
        scaled = number.scaleb(-power)
        if scaled >= 1 or scaled == 0:
            return _plain(scaled) + unit
    return _plain(number.scaleb(-units[-1][1])) + units[-1][0]


def _rounded(value: float, digits: int) -> str:
    return _plain(Decimal(f"{value:.{digits}g}"))


def _plain(number: Decimal) -> str:
    """A decimal without trailing zeros; with an exponent only where it would be unreadable otherwise."""
    text = f"{number:f}"
    if len(text) > 24:
        return f"{number.normalize():e}"
    return text.rstrip("0").rstrip(".") if "." in text else text
