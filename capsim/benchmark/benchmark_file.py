"""The file of a benchmark's results, as every reader takes it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capsim.benchmark.places import KeyPath, offset_of, place_at, skip_blanks
from capsim.documents import reading
from capsim.documents.document import dotted
from capsim.errors import BadInput, Fault

EXPECTED = "a result file of a serving benchmark"

_YAML = (".yaml", ".yml")
_CSV = ".csv"


@dataclass(frozen=True)
class BenchmarkFile:
    """A file that could be read.

    Attributes:
        path: where it is.
        sha256: of the file's bytes.
        text: all of it, without a byte order mark.
        values: the JSON values that it holds one after another: one for a JSON file, one a line for JSON
            Lines; the one mapping of a YAML file; none for CSV.
        offsets: where in the text each value begins; none for YAML and CSV.
    """

    path: Path
    sha256: str
    text: str
    values: tuple[Any, ...]
    offsets: tuple[int, ...]

    @classmethod
    def read(cls, path: str | Path) -> BenchmarkFile:
        """Read a file as YAML or CSV where its name ends so, else as JSON or JSON Lines.

        Raises:
            BadInput: no such file, not UTF-8, empty, or not what its name says.
        """
        path = Path(path)
        source = str(path)
        try:
            content = path.read_bytes()
            text = content.decode("utf-8-sig")
        except OSError as error:
            raise BadInput(Fault(source, f"cannot be read: {error.strerror}", expected=EXPECTED)) from error
        except UnicodeDecodeError as error:
            what = f"is not text (byte {error.start})"
            raise BadInput(Fault(source, what, expected=f"{EXPECTED} in UTF-8")) from error
        if not text.strip():
            raise BadInput(Fault(source, "is empty", expected=EXPECTED))
        sha256 = hashlib.sha256(content).hexdigest()
        if path.suffix.lower() == _CSV:
            return cls(path, sha256, text, (), ())
        if path.suffix.lower() in _YAML:
            return cls(path, sha256, text, (reading.parse(text, source).data,), ())
        values, offsets = _json_values(text, source)
        return cls(path, sha256, text, values, offsets)

    @property
    def source(self) -> str:
        """The path, for faults and records."""
        return str(self.path)

    @property
    def is_csv(self) -> bool:
        """The name ends in ``.csv``."""
        return self.path.suffix.lower() == _CSV

    def fault(self, value: int, path: KeyPath, what: str, expected: str = "") -> Fault:
        """A fault at a path below one of the values, with line and column where the text is JSON."""
        if not self.offsets:
            return Fault(self.source, what, dotted(path), expected)
        line, column = place_at(self.text, offset_of(self.text, self.offsets[value], path))
        return Fault(self.source, what, dotted(path), expected, line=line, column=column)


def _json_values(text: str, source: str) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    decoder = json.JSONDecoder()
    values: list[Any] = []
    offsets: list[int] = []
    offset = skip_blanks(text, 0)
    while offset < len(text):
        try:
            value, end = decoder.raw_decode(text, offset)
        except json.JSONDecodeError as error:
            what = f"is not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}"
            fault = Fault(source, what, expected=EXPECTED, line=error.lineno, column=error.colno)
            raise BadInput(fault) from error
        except (RecursionError, ValueError) as error:
            # Nested too deep, or a number of thousands of digits.
            line, column = place_at(text, offset)
            what = "holds JSON that cannot be read"
            raise BadInput(Fault(source, what, expected=EXPECTED, line=line, column=column)) from error
        values.append(value)
        offsets.append(offset)
        offset = skip_blanks(text, end)
    return tuple(values), tuple(offsets)
