"""What a sweep goes over: ``rate=2..20/s:10``, ``concurrency=1,8,64``, ``engine.max_num_seqs=64,128,256``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from capsim.errors import BadInput, Fault
from capsim.units import UnitError, parse_rate

RATE, CONCURRENCY = "rate", "concurrency"
MOST_VALUES = 1_000
"""Of one axis: more are a slip of the keyboard."""
EXAMPLES = "rate=2..20/s:10, concurrency=1,8,64 or engine.max_num_seqs=64,128,256"
SPAN = "FROM..TO:COUNT, such as rate=5..10/s:6"
DIGITS = 4
"""Significant digits of the step from one value of a span to the next, as figures are printed."""
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_SPAN = re.compile(rf"({_NUMBER})([^\d,]*?)\.\.({_NUMBER})([^\d,:]*):(\d{{1,9}})")
_BEGUN = re.compile(rf"{_NUMBER}[^\d,]*?\.\.")
"""How a span begins, whole or not."""


@dataclass(frozen=True)
class Axis:
    """One thing that a sweep changes.

    Attributes:
        name: ``rate`` (offered to the fleet), ``concurrency`` (clients of a closed loop), or a key of the scenario.
        values: as a scenario would state them, each once.
    """

    name: str
    values: tuple[str, ...]

    @property
    def is_load(self) -> bool:
        """Whether it changes what is asked of the service, not the scenario."""
        return self.name in (RATE, CONCURRENCY)

    def override(self, value: str) -> str:
        """As ``--set`` takes it."""
        return f"{self.name}={value}"


def parse_axis(text: str) -> Axis:
    """An axis from ``NAME=VALUES``: values separated by commas, or ``FROM..TO:COUNT`` evenly spaced, upwards.

    A unit of the one end counts for both.

    Raises:
        BadInput: it states no values, or rates and numbers of clients that are none.
    """
    name, equals, values = (part.strip() for part in text.partition("="))
    source = f"--over {name}"
    if not (name and equals and values):
        raise BadInput(Fault("--over", f"{text!r} goes over nothing", expected=EXAMPLES))
    spans = _SPAN.fullmatch(values)
    if spans is None and _BEGUN.match(values):
        raise BadInput(Fault(source, f"{values!r} is no span", expected=SPAN))
    found = tuple(dict.fromkeys(_spaced(spans, source) if spans else _listed(values)))
    if not all(found):
        raise BadInput(Fault(source, f"{values!r} has an empty value", expected=EXAMPLES))
    if len(found) > MOST_VALUES:
        what = f"{len(found)} values are too many"
        raise BadInput(Fault(source, what, expected=f"at most {MOST_VALUES}"))
    axis = Axis(name, found)
    faults = [fault for value in found for fault in _faults(axis, value)]
    if faults:
        raise BadInput(*faults)
    return axis


def parse_axes(texts: Sequence[str]) -> list[Axis]:
    """As `parse_axis`, with the faults of all."""
    faults: list[Fault | str] = []
    axes = [_parsed(text, faults) for text in texts]
    if faults:
        raise BadInput(*faults)
    return [axis for axis in axes if axis is not None]


def _parsed(text: str, faults: list[Fault | str]) -> Axis | None:
    try:
        return parse_axis(text)
    except BadInput as error:
        faults += error.faults
        return None


def requests_per_second(value: str) -> float:
    """The figure of a rate's value.

    Raises:
        UnitError: it is no rate.
    """
    return parse_rate(value).per_second


def _spaced(span: re.Match[str], source: str) -> Iterator[str]:
    """Values from the lower end to the upper, with no more digits than tell them apart."""
    low, low_unit, high, high_unit, count = span.groups()
    low_unit, high_unit = low_unit.strip(), high_unit.strip()
    if low_unit and high_unit and low_unit != high_unit:
        raise BadInput(Fault(source, f"{low_unit!r} and {high_unit!r} are two units", expected="one unit"))
    start, end = sorted((float(low), float(high)))
    steps = _steps(count, source)
    step = (end - start) / steps
    if not 0 < step < math.inf:
        raise BadInput(Fault(source, f"nothing lies between {low} and {high}", expected="two finite ends"))
    decimals = max(0, DIGITS - 1 - math.floor(math.log10(step)))
    between = (round(start + step * place, decimals) for place in range(1, steps))
    for value in (start, *between, end):
        yield f"{value:.10g}{high_unit or low_unit}"


def _steps(count: str, source: str) -> int:
    """How many steps lie between so many values."""
    values = int(count)
    if values < 2:
        raise BadInput(Fault(source, f"a span of {values} values", expected=f"from 2 to {MOST_VALUES}"))
    if values > MOST_VALUES:
        raise BadInput(Fault(source, f"{values} values are too many", expected=f"at most {MOST_VALUES}"))
    return values - 1


def _listed(values: str) -> Iterator[str]:
    """Values between commas that stand in no bracket."""
    depth, start = 0, 0
    for place, sign in enumerate(values):
        depth += (sign in "[{") - (sign in "]}")
        if sign == "," and not depth:
            yield values[start:place].strip()
            start = place + 1
    yield values[start:].strip()


def _faults(axis: Axis, value: str) -> Iterator[Fault]:
    """What is wrong with a value of a load; those of keys are the scenario's to judge."""
    source = f"--over {axis.name}"
    if axis.name == CONCURRENCY and not (value.isascii() and value.isdecimal() and int(value) > 0):
        yield Fault(source, f"{value!r} is no number of clients", expected="whole numbers, at least 1")
    if axis.name != RATE:
        return
    try:
        rate = parse_rate(value)
    except UnitError as error:
        yield Fault(source, error.what, "", error.expected, error.suggestion)
        return
    if rate.unit != "requests":
        yield Fault(source, f"{value!r} counts tokens", expected="requests per second, e.g. 20/s")
    elif not rate.per_second > 0:
        yield Fault(source, f"{value!r} offers nothing", expected="rates above 0, e.g. 20/s")
