"""What is installed: packages that capsim needs, and those of its extras."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

_REQUIREMENT = re.compile(r"([\w.-]+)\s*((?:[<>=!~]=?[^;,]*,?)*)\s*(?:;\s*extra == ['\"]([\w-]+)['\"])?")


@dataclass(frozen=True)
class Package:
    """A package that capsim or one of its extras asks for.

    Attributes:
        name: as it is asked for.
        asked: version that is asked for, e.g. ``>=2.10``, or empty.
        extra: the extra that asks, empty for capsim itself.
        installed: its version here, None if it is not.
    """

    name: str
    asked: str
    extra: str
    installed: str | None

    @property
    def well(self) -> bool:
        """Whether it is here in a version that will do."""
        if self.installed is None:
            return False
        relation, wanted = self.asked[:2], self.asked[2:]
        if relation == "==":
            return self.installed == wanted
        return relation != ">=" or _numbers(self.installed) >= _numbers(wanted)

    def __str__(self) -> str:
        if self.installed is None:
            return f"{self.name} is missing"
        return f"{self.name} {self.installed}" + ("" if self.well else f" where {self.asked} is asked for")


def packages() -> list[Package]:
    """All that capsim's own metadata asks for; empty where it runs from a clone that is not installed."""
    try:
        asked = metadata.requires("capsim") or []
    except metadata.PackageNotFoundError:
        return []
    return list(_packages(asked))


def _packages(asked: list[str]) -> Iterator[Package]:
    for text in asked:
        match = _REQUIREMENT.fullmatch(text.strip())
        if match is not None:
            yield Package(match[1], match[2].strip(), match[3] or "", _version(match[1]))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """Numbers that a version begins with, without zeros at their end."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
