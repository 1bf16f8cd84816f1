from __future__ import annotations

from pathlib import PurePath

from capsim.catalog.loader import is_path
from capsim.report import Json


def named(configuration: Json, key: str) -> str:
    """The model or the GPU of a scenario's record; of a file that describes one, the file's name without its ending."""
    stated = str(configuration[key])
    return PurePath(stated).stem if is_path(stated) else stated
