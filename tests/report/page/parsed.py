"""A page as a tree, read with the standard library: strict about nesting, which browsers would silently repair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link"}


@dataclass
class Node:
    """An element: its name, attributes, text of its own, and what is inside."""

    name: str
    attributes: dict[str, str]
    parent: Node | None = None
    children: list[Node | str] = field(default_factory=list)

    def all(self, name: str = "", **attributes: str) -> Iterator[Node]:
        """Elements inside with this name and these attributes, `class_` among the classes."""
        for child in self.children:
            if isinstance(child, Node):
                if child._fits(name, attributes):
                    yield child
                yield from child.all(name, **attributes)

    def first(self, name: str = "", **attributes: str) -> Node:
        return next(self.all(name, **attributes))

    @property
    def text(self) -> str:
        return " ".join("".join(self._texts()).split())

    @property
    def ancestors(self) -> Iterator[Node]:
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def strings(self) -> Iterator[tuple[str, Node]]:
        """Every text with the element that it stands in."""
        for child in self.children:
            if isinstance(child, Node):
                yield from child.strings()
            else:
                yield child, self

    def _texts(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, Node):
                yield from child._texts()
            else:
                yield child

    def _fits(self, name: str, attributes: dict[str, str]) -> bool:
        wanted = dict(attributes)
        classes = wanted.pop("class_", None)
        return (
            name in ("", self.name)
            and (classes is None or classes in self.attributes.get("class", "").split())
            and all(self.attributes.get(key) == value for key, value in wanted.items())
        )


class Strict(HTMLParser):
    """Builds the tree; an end that does not fit its start is an error."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.open = Node("", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {key: value or "" for key, value in attrs}, self.open)
        assert len(node.attributes) == len(attrs), f"an attribute twice: {attrs}"
        self.open.children.append(node)
        if tag not in VOID:
            self.open = node

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.name == tag, f"</{tag}> ends <{self.open.name}> at {self.getpos()}"
        assert self.open.parent is not None
        self.open = self.open.parent

    def handle_data(self, data: str) -> None:
        self.open.children.append(data)


def parse(html: str) -> Node:
    """The page's tree."""
    parser = Strict()
    parser.feed(html)
    parser.close()
    assert parser.open is parser.root, f"<{parser.open.name}> is not ended"
    return parser.root
