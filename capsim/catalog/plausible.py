"""Figures that no GPU has: a slip of a unit or of a prefix is a factor of 8 to 1,000, and is told by these bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from capsim.catalog.gpu import Gpu
from capsim.units import format_bandwidth, format_compute, format_size


class Implausible(NamedTuple):
    """A figure that is not believed.

    Attributes:
        path: of the figure in a GPU's file.
        what: what is wrong with it.
        expected: what is believed.
    """

    path: tuple[str, ...]
    what: str
    expected: str


class _Bounds(NamedTuple):
    least: float
    most: float
    show: Callable[[float], str]


def _size(size: float) -> str:
    return format_size(int(size))


# From a tenth of the least to ten times the most that the shipped GPUs have, in round numbers. One core of a CPU
# bounds the bandwidths and rates from below.
MEMORY = _Bounds(2 * 2**30, 2 * 2**40, _size)
MEMORY_BANDWIDTH = _Bounds(3e9, 100e12, format_bandwidth)
LINK_BANDWIDTH = _Bounds(1e9, 10e12, format_bandwidth)
RATE = _Bounds(0.25e12, 100e15, format_compute)

INTENSITY = (5, 5000)
"""Operations of 16 bits for each byte of memory that is read: the shipped GPUs have 75 to 550."""

TIMES = {"float16": (0.5, 2), "fp8": (1, 4), "int8": (1, 8), "fp4": (1, 16)}
"""Rates over that of bfloat16: each halving of the bits at most doubles it, and some halve it where they accumulate."""


def implausible(gpu: Gpu) -> Iterator[Implausible]:
    """Every figure of a GPU that is not believed, and those that do not go together."""
    yield from _outside(("memory",), gpu.memory, MEMORY)
    yield from _outside(("memory_bandwidth",), gpu.memory_bandwidth, MEMORY_BANDWIDTH)
    yield from _outside(("link_bandwidth",), gpu.link_bandwidth, LINK_BANDWIDTH)
    for dtype, rate in gpu.dense_flops.items():
        yield from _outside(("dense_flops", dtype), rate, RATE)
    if gpu.link_bandwidth > gpu.memory_bandwidth:
        what = f"{format_bandwidth(gpu.link_bandwidth)} is more than the memory has"
        expected = f"at most {format_bandwidth(gpu.memory_bandwidth)}, bytes per second in one direction"
        yield Implausible(("link_bandwidth",), what, expected)
    yield from _rates(gpu)


def _outside(path: tuple[str, ...], figure: float, bounds: _Bounds) -> Iterator[Implausible]:
    if not bounds.least <= figure <= bounds.most:
        expected = f"{bounds.show(bounds.least)} to {bounds.show(bounds.most)}"
        yield Implausible(path, f"{bounds.show(figure)} is implausible for one GPU", expected)


def _rates(gpu: Gpu) -> Iterator[Implausible]:
    """Rates that do not go with the bandwidth, or with each other."""
    wide = gpu.dense_flops.get("bfloat16")
    if wide is None:
        what = "bfloat16 is missing"
        yield Implausible(("dense_flops",), what, "its rate: attention and 16-bit weights need it")
        return
    least, most = INTENSITY
    if not least <= wide / gpu.memory_bandwidth <= most:
        what = f"{wide / gpu.memory_bandwidth:.3g} operations for each byte of memory are implausible"
        yield Implausible(("dense_flops", "bfloat16"), what, f"{least} to {most}")
    for dtype, (slowest, fastest) in TIMES.items():
        rate = gpu.dense_flops.get(dtype, wide)
        if not slowest <= rate / wide <= fastest:
            what = f"{format_compute(rate)} is {rate / wide:.3g} times the rate of bfloat16"
            yield Implausible(("dense_flops", dtype), what, f"{slowest} to {fastest} times, both dense")
