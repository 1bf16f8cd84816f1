"""Unions of sections in a file: a word at a key tells which one a mapping is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BeforeValidator, Discriminator, Tag

from capsim.catalog.schema import TAGGED, closest, refused, shown


def member(name: str) -> Tag:
    """Marks the member of a union that `chosen_by` selects with this word."""
    return Tag(TAGGED + name)


@dataclass(frozen=True)
class Selection:
    """Names the member of a union of sections by the word at a key.

    Attributes:
        key: the key that every member has.
        default: the word where the key is missing; empty: the key is required.
    """

    key: str
    default: str = ""

    @property
    def __name__(self) -> str:  # pydantic's core asks a discriminator for it
        """The key."""
        return self.key

    def __call__(self, value: Any) -> str:
        """The member's tag."""
        word = value.get(self.key, self.default) if isinstance(value, dict) else getattr(value, self.key)
        return f"{TAGGED}{word}"

    def condition(self, tag: str) -> dict[str, Any]:
        """JSON Schema of what the key must hold for the member with this tag."""
        word = tag.removeprefix(TAGGED)
        required = {} if word == self.default else {"required": [self.key]}
        return {"properties": {self.key: {"const": word}}, **required}


def chosen_by(key: str, *known: str, default: str = "") -> tuple[Discriminator, BeforeValidator]:
    """Selects the member of a union of sections by the word at `key`; annotate the union with both.

    Args:
        key: the key that every member has.
        known: its words, each the `member` name of one section.
        default: the word where the key is missing; empty: the key is required.
    """

    def check(value: object) -> object:
        if value is None and default:
            return {}
        if not isinstance(value, dict):
            raise refused(f"{shown(value)} is no mapping", f"a mapping with the key {key}")
        if key not in value:
            if default:
                return value
            raise refused(f"the key {key} is missing", f"{key}: one of {', '.join(known)}")
        word = value[key]
        if not isinstance(word, str) or word not in known:
            suggestion = closest(word, known) if isinstance(word, str) else ""
            raise refused(f"{key} {shown(word)} is not known", f"one of {', '.join(known)}", suggestion)
        return value

    return Discriminator(Selection(key, default)), BeforeValidator(check)
