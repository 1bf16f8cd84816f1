from __future__ import annotations

from pathlib import Path

from capsim.errors import BadInput, Fault


def write_whole(path: Path, text: str, *, replace: bool = True) -> None:
    """Write a file, whole or not at all.

    Args:
        path: the file.
        text: its content.
        replace: whether a file of that name gives way.

    Raises:
        BadInput: the file cannot be written, or is there and must not give way.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        if not replace and path.exists():
            raise BadInput(Fault("--out", f"{path} is there already", expected="a new file"))
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise BadInput(
            Fault("--out", f"cannot write {path}: {error.strerror}", expected="a file in a writable folder")
        ) from error
