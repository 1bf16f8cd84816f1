"""Files that a scenario names: beside the file that names them, at an absolute path, or shipped."""

from __future__ import annotations

from pathlib import Path

from capsim.catalog.data import data_names, data_path
from capsim.catalog.schema import closest, shown

BESIDE = "a file beside the scenario or an absolute path"


def find_file(name: str, base: Path, kind: str, suffixes: tuple[str, ...]) -> Path | None:
    """Absolute path of a named file: relative to `base`, or shipped; a shipped one needs no suffix."""
    beside = base / Path(name).expanduser()
    if beside.is_file():
        return beside.resolve()
    if Path(name).name != name:
        return None
    shipped = (data_path(kind, name + suffix) for suffix in ("", *suffixes))
    return next((path.resolve() for path in shipped if path.is_file()), None)


def missing_file(name: str, kind: str, suffixes: tuple[str, ...]) -> tuple[str, str, str]:
    """What is wrong with a name that `find_file` does not find, what was expected, and what may be meant.

    Shipped files are named as this one is: without a suffix, if it has none.
    """
    shipped = data_names(kind, suffixes)
    if not name.endswith(suffixes):
        shipped = tuple(_without_suffix(each, suffixes) for each in shipped)
    known = f", or one of the shipped ones: {', '.join(shipped)}" if shipped else ""
    return f"there is no file {shown(name)}", f"{BESIDE}{known}", _meant(Path(name).name, shipped)


def _without_suffix(name: str, suffixes: tuple[str, ...]) -> str:
    """A shipped file's name as `find_file` takes it too; the longest suffix counts, as in ``.csv.gz``."""
    return name.removesuffix(max((each for each in suffixes if name.endswith(each)), key=len))


def _meant(name: str, shipped: tuple[str, ...]) -> str:
    """The shipped name that is like this one, or whose beginning is."""
    beginnings = {each[: len(name)]: each for each in shipped}
    return closest(name, shipped) or beginnings.get(closest(name, beginnings), "")
