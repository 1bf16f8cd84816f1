"""A page of the documentation: prose, and the parts of it that commands and generators write.

- A fence ``console`` holds commands after ``$`` and what they print. After a comment ``not run by the tests: REASON``
  it is written by ``python -m tests.docs`` all the same.
- A fence after a comment ``file: NAME`` is saved under that name before the commands that follow.
- What stands between ``generated: NAME`` and ``end of NAME`` is written by the generator of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FILE = re.compile(r"<!-- file: (\S+) -->")
_NOT_RUN = re.compile(r"<!-- not run by the tests: .+ -->")
_GENERATED = re.compile(r"<!-- generated: (.+) -->")


@dataclass(frozen=True)
class Exchange:
    """A command and what it prints.

    Attributes:
        typed: the command's lines as the page has them, with prompt and continuations.
        output: lines that follow.
    """

    typed: tuple[str, ...]
    output: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command on one line."""
        return " ".join(line.removesuffix("\\").strip() for line in self.typed).removeprefix("$ ")


@dataclass(frozen=True)
class Prose:
    """Lines that are nobody's but the author's."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Console:
    """A fence with commands; `tested`: whether the tests run them."""

    exchanges: tuple[Exchange, ...]
    tested: bool

    @property
    def lines(self) -> tuple[str, ...]:
        """The fence as it stands in the page."""
        inside = (line for each in self.exchanges for line in (*each.typed, *each.output))
        return ("```console", *inside, "```")


@dataclass(frozen=True)
class SavedFile:
    """A fence that is a file of the page's working folder."""

    name: str
    lines: tuple[str, ...]

    @property
    def content(self) -> str:
        """What is saved."""
        return "\n".join(self.lines[1:-1]) + "\n"


@dataclass(frozen=True)
class Generated:
    """Lines between two comments that a generator writes."""

    name: str
    body: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """Comments and body."""
        return (f"<!-- generated: {self.name} -->", *self.body, f"<!-- end of {self.name} -->")


Part = Prose | Console | SavedFile | Generated


@dataclass(frozen=True)
class Page:
    """A Markdown file and its parts in order."""

    path: Path
    parts: tuple[Part, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """Path from the root of the repository."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        """The file's content."""
        return "\n".join(line for part in self.parts for line in part.lines) + "\n"


def page_paths() -> list[Path]:
    """README and every page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def read_page(path: Path) -> Page:
    """A page from its file."""
    return Page(path, tuple(_parts(path.read_text(encoding="utf-8").splitlines())))


def _parts(lines: list[str]) -> Iterator[Part]:
    position = 0
    while position < len(lines):
        before = lines[position - 1] if position else ""
        line, end = lines[position], position + 1
        saved, generated = _FILE.fullmatch(before), _GENERATED.fullmatch(line)
        if generated:
            end = lines.index(f"<!-- end of {generated[1]} -->", position) + 1
            yield Generated(generated[1], tuple(lines[position + 1 : end - 1]))
        elif line.startswith("```"):
            end = lines.index("```", position + 1) + 1
            fence = tuple(lines[position:end])
            if saved:
                yield SavedFile(saved[1], fence)
            elif line == "```console":
                yield Console(tuple(_exchanges(fence[1:-1])), tested=not _NOT_RUN.fullmatch(before))
            else:
                yield Prose(fence)
        else:
            yield Prose((line,))
        position = end


def _exchanges(inside: tuple[str, ...]) -> Iterator[Exchange]:
    starts = [i for i, line in enumerate(inside) if line.startswith("$ ")]
    for start, stop in zip(starts, [*starts[1:], len(inside)], strict=True):
        typed = start + 1
        while inside[typed - 1].endswith("\\"):
            typed += 1
        yield Exchange(inside[start:typed], inside[typed:stop])
