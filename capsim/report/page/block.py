"""What a page is made of: plain values, which the templates lay out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from capsim.report.page.tag import Tag


@dataclass(frozen=True)
class Cell:
    """A figure or a word of a table.

    Attributes:
        text: as printed.
        value: the figure as the result has it; None for words and for figures that do not exist.
        verdict: how it is marked: ``pass``, ``fail``, ``undecided``, ``overloaded``, or empty.
        tag: where it differs from the table's; without a text the tag itself is what the cell says.
        picture: an SVG in place of the text, which then describes it.
    """

    text: str
    value: float | None = None
    verdict: str = ""
    tag: Tag | None = None
    picture: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header.

    Attributes:
        header: a title a column.
        align: a letter a column, ``l`` or ``r``.
        rows: cells of each row.
        tag: how its figures are known.
        caption: above it; empty: the section's title says enough.
        notes: sentences below.
        marked: row that stands out.
    """

    kind: ClassVar[str] = "table"
    header: tuple[str, ...]
    align: str
    rows: tuple[tuple[Cell, ...], ...]
    tag: Tag
    caption: str = ""
    notes: tuple[str, ...] = ()
    marked: int | None = None


@dataclass(frozen=True)
class Key:
    """A line or area of a chart's legend: its class in the style sheet, its word, its shape."""

    name: str
    text: str
    shape: str = "line"


@dataclass(frozen=True)
class Figure:
    """A chart with what it is called and what its lines are."""

    title: str
    svg: str
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Charts:
    """Charts of one kind side by side; `table` says the same to those who cannot see them."""

    kind: ClassVar[str] = "charts"
    figures: tuple[Figure, ...]
    tag: Tag
    table: Table | None = None


@dataclass(frozen=True)
class Statement:
    """A sentence and how its figures are known; `warning`: it speaks against the answer."""

    text: str
    tag: Tag
    warning: bool = False


@dataclass(frozen=True)
class Statements:
    """A list of sentences."""

    kind: ClassVar[str] = "statements"
    items: tuple[Statement, ...]

    @property
    def tag(self) -> Tag | None:
        """How all their figures are known; None where they differ."""
        tags = {item.tag.words: item.tag for item in self.items}
        return next(iter(tags.values())) if len(tags) == 1 else None


@dataclass(frozen=True)
class Terms:
    """Words and what they stand for, after a title if they have one."""

    kind: ClassVar[str] = "terms"
    pairs: tuple[tuple[str, Cell], ...]
    tag: Tag
    title: str = ""


@dataclass(frozen=True)
class Listing:
    """Text as it is."""

    kind: ClassVar[str] = "listing"
    text: str
    tag: Tag


Block = Table | Charts | Statements | Terms | Listing


@dataclass(frozen=True)
class Section:
    """A titled part; `brief` stands beside the title and is seen while the rest is folded."""

    title: str
    blocks: tuple[Block, ...]
    brief: str = ""
    tag: Tag | None = None

    @property
    def shared(self) -> Tag | None:
        """The tag of a section that begins with sentences, all of one tag."""
        first = self.blocks[0]
        return first.tag if isinstance(first, Statements) else None


@dataclass(frozen=True)
class Fact:
    """A figure of the answer: what it is, the figure, what to know of it."""

    term: str
    cell: Cell
    note: str
    tag: Tag


@dataclass(frozen=True)
class Page:
    """Everything that a page says, the answer first.

    Attributes:
        scenario: its name.
        subject: model, GPU and engine.
        kind: which question was asked, e.g. ``plan``.
        headline: the answer's figure.
        unit: what the figure counts.
        standing: ``pass``, ``fail`` or ``undecided``: how the headline is marked.
        sentence: the answer as a sentence.
        tag: how its figures are known.
        facts: the figures behind it.
        answer: the rest of it.
        trust: how far to trust it.
        evidence: what it rests on, folded.
        command: that asks the same again; empty: not known.
        identity: version, fingerprint and seed.
    """

    scenario: str
    subject: str
    kind: str
    headline: Cell
    unit: str
    standing: str
    sentence: str
    tag: Tag
    facts: tuple[Fact, ...] = ()
    answer: tuple[Block, ...] = ()
    trust: tuple[Section, ...] = ()
    evidence: tuple[Section, ...] = ()
    command: str = ""
    identity: tuple[tuple[str, str], ...] = field(default=())
