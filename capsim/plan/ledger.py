from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Ledger:
    """Finished experiments of a run folder, so that an interrupted plan goes on where it stopped.

    One JSON line an experiment, keyed by its content (see `Deployment.fingerprint`): a changed scenario finds nothing
    of the old one. Each line has its check sum: one that was cut off in writing, or damaged since, is dropped.

    Args:
        path: the file; None keeps the records in memory only.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._records: dict[str, Record] = {}
        content = path.read_bytes() if path is not None and path.exists() else b""
        for line in content.splitlines():
            self._read(line)
        self._torn = bool(content) and not content.endswith(b"\n")

    def _read(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            key, record = entry["key"], entry["record"]
            whole = entry["check"] == _check(key, json.dumps(record))
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # its experiment is done again
        if whole:
            self._records[key] = record

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: str) -> Record | None:
        """The record of a finished experiment, None if it is not there."""
        return self._records.get(key)

    def put(self, key: str, record: Record) -> Record:
        """Keep a finished experiment and return it as it will be read again."""
        text = json.dumps(record)
        self._records[key] = json.loads(text)
        if self._path is not None:
            end = "\n" if self._torn else ""  # a line that was cut off must not swallow the next one
            with self._path.open("a", encoding="utf-8") as file:
                check = _check(key, text)
                file.write(f'{end}{{"key": {json.dumps(key)}, "check": {check}, "record": {text}}}\n')
            self._torn = False
        return self._records[key]


def _check(key: str, text: str) -> int:
    """Of a record's key and JSON, which is the same again when it is read and written: CRC-32."""
    return zlib.crc32(f"{key} {text}".encode())
