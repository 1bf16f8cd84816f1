"""The file of a recorded trace, as every reader takes it: text or gzip, with its attribution beside it."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capsim.documents.dropped_row import DroppedRow, no_usable_row
from capsim.errors import BadInput, Fault
from capsim.workload.prefixes import Prefixes
from capsim.workload.trace import Trace

GIT_LFS_HEAD = "version https://git-lfs.github.com/spec/"
_GZIP_HEAD = b"\x1f\x8b"


@dataclass(frozen=True)
class TraceFile:
    """A trace's file that could be read.

    Attributes:
        path: where it is.
        expected: what its reader wants it to be, for faults.
        sha256: of the file's bytes, compressed where they are.
        lines: its text, without line ends, a byte order mark or compression.
    """

    path: Path
    expected: str
    sha256: str
    lines: list[str]

    @classmethod
    def read(cls, path: str | Path, expected: str) -> TraceFile:
        """Read a file, unpacked where its name or its first bytes say gzip.

        Raises:
            BadInput: no such file, damaged, not text, empty, or a Git LFS pointer.
        """
        path = Path(path)
        source = str(path)
        try:
            content = path.read_bytes()
            text = _unpacked(path, content).decode("utf-8-sig")
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadInput(Fault(source, f"is damaged as gzip: {error}", expected=expected)) from error
        except OSError as error:
            raise BadInput(Fault(source, f"cannot be read: {error.strerror}", expected=expected)) from error
        except UnicodeDecodeError as error:
            what = f"is not text (byte {error.start})"
            raise BadInput(Fault(source, what, expected=f"{expected} in UTF-8")) from error
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        file = cls(path, expected, hashlib.sha256(content).hexdigest(), lines)
        if lines[file.first].startswith(GIT_LFS_HEAD):
            what = "is a Git LFS pointer, not the data; fetch the file with `git lfs pull`"
            raise BadInput(Fault(source, what, expected=expected, line=file.first + 1, column=1))
        return file

    @property
    def source(self) -> str:
        """The path, for faults and records."""
        return str(self.path)

    @property
    def name(self) -> str:
        """The file's name without its endings."""
        return self.path.name.split(".")[0]

    @property
    def first(self) -> int:
        """Index of the first line that is not blank.

        Raises:
            BadInput: there is none.
        """
        for index, line in enumerate(self.lines):
            if line.strip():
                return index
        raise BadInput(Fault(self.source, "is empty", expected=self.expected))

    @property
    def attribution(self) -> str:
        """Text of ``NAME.attribution.txt`` beside the file; empty if there is none."""
        beside = self.path.with_name(f"{self.name}.attribution.txt")
        return beside.read_text(encoding="utf-8").strip() if beside.is_file() else ""

    def trace(
        self,
        rows: Sequence[tuple[int, int, int]],
        dropped: Sequence[DroppedRow],
        ignored_columns: tuple[str, ...] = (),
        *,
        prefixes: Prefixes | None = None,
        hash_block: int | None = None,
        remarks: tuple[str, ...] = (),
        priority: Sequence[int] | None = None,
    ) -> Trace:
        """Put the usable rows into order.

        Args:
            rows: nanoseconds on any clock, prompt tokens and output tokens of each, in the file's order.
            dropped: the others.
            ignored_columns: columns that carry nothing for capsim.
            prefixes: of the rows, in the same order.
            hash_block: tokens of one hash id.
            remarks: what else the reader made of the file.
            priority: of the rows, in the same order; None: the file says nothing of it.

        Raises:
            BadInput: no row is usable; with the reasons of the first.
        """
        if not rows:
            raise no_usable_row(self.source, dropped)
        table = np.array(rows, dtype=np.int64)
        nanoseconds = table[:, 0]
        order = np.argsort(nanoseconds, kind="stable")
        return Trace(
            name=self.name,
            source=self.source,
            sha256=self.sha256,
            attribution=self.attribution,
            arrival=(nanoseconds[order] - nanoseconds[order[0]]) / 1e9,
            prompt=table[order, 1],
            output=table[order, 2],
            rows=len(rows) + len(dropped),
            dropped=tuple(dropped),
            out_of_order=int(np.count_nonzero(np.diff(nanoseconds) < 0)),
            ignored_columns=ignored_columns,
            remarks=remarks,
            prefixes=None if prefixes is None else prefixes.take(order),
            hash_block=hash_block,
            priority=None if priority is None else np.array(priority, dtype=np.int64)[order],
        )


def _unpacked(path: Path, content: bytes) -> bytes:
    packed = content.startswith(_GZIP_HEAD) or path.suffix == ".gz"
    # A pointer is named as the file that it stands for.
    return gzip.decompress(content) if packed and not content.startswith(GIT_LFS_HEAD.encode()) else content
