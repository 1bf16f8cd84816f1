from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from capsim.errors import BadInput, Fault


class RunFolder:
    """Where a command leaves its result.

    Raises:
        BadInput: the folder cannot be made or written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            probe = path / ".writable"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise BadInput(
                Fault("--out", f"cannot write to {path}: {error.strerror}", expected="a writable folder")
            ) from error

    def write(self, name: str, content: dict[str, Any]) -> Path:
        """Write a JSON file, whole or not at all."""
        target = self.path / name
        partial = target.with_suffix(".partial")
        partial.write_text(json_text(content) + "\n", encoding="utf-8")
        partial.replace(target)
        return target


def json_text(content: dict[str, Any]) -> str:
    """JSON as it is written and printed: stable, readable, without NaN."""
    return json.dumps(content, indent=2, allow_nan=False)
