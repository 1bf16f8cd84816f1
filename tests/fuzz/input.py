"""A kind of file that capsim reads: a sound one, where it lies, and the commands that read it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

Content = Callable[[], bytes]


@dataclass(frozen=True)
class Input:
    """A kind of file.

    Attributes:
        name: what it is.
        file: its name when it is damaged.
        sound: makes the bytes of a sound one.
        commands: each reads it; ``FOLDER`` stands for where it lies.
        beside: sound files in the same folder, by name.
        examples: how many damaged ones the tests draw.
        frame: what of a file is damaged is a part of it; this puts the part where it belongs.
        optional: a command also answers where there is no such file.
    """

    name: str
    file: str
    sound: Content
    commands: tuple[str, ...]
    beside: Mapping[str, str | Content] = field(default_factory=dict)
    examples: int = 25
    frame: Callable[[bytes], bytes] | None = None
    optional: bool = False

    @cached_property
    def content(self) -> bytes:
        """A sound file's bytes."""
        return self.sound()

    @property
    def syntax(self) -> str:
        """Ending of files of the syntax in which a sound one is written; empty for a part of a file."""
        return Path(self.file).suffix if self.frame is None else ""

    def write(self, folder: Path, content: bytes) -> None:
        """Lay the file, with these bytes, and those beside it into a folder."""
        for name, sound in self.beside.items():
            (folder / name).write_bytes(sound.encode() if isinstance(sound, str) else sound())
        whole = content if self.frame is None else self.frame(content)
        (folder / self.file).write_bytes(whole)


def text_content(text: str) -> Content:
    """A text's bytes."""
    return text.encode


def file_content(path: Path, lines: int | None = None) -> Content:
    """A file's bytes, or its first lines."""
    return lambda: b"".join(path.read_bytes().splitlines(keepends=True)[:lines])


def shortened_content(path: Path, count: int = 8) -> Content:
    """A JSON result with the first items of each list, so that a damage often hits what matters."""

    def cut(value: Any) -> Any:
        if isinstance(value, list):
            return [cut(item) for item in value[:count]]
        return {key: cut(item) for key, item in value.items()} if isinstance(value, dict) else value

    return lambda: json.dumps(cut(json.loads(path.read_text(encoding="utf-8"))), indent=1).encode()
