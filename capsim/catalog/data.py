"""Where the shipped data files are: the package ``capsim.configs``, or ``configs/`` of a source checkout."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def data_folder(kind: str) -> Path:
    """Folder of one kind of data: ``models``, ``gpus``, ``profiles``, ``scenarios`` or ``traces``."""
    try:
        root = Path(str(resources.files("capsim.configs")))
    except ModuleNotFoundError:
        # A clone that is not installed: setup.cfg maps this folder to the package.
        root = Path(__file__).resolve().parents[2] / "configs"
    return root / kind


def data_path(kind: str, name: str) -> Path:
    """Path of one shipped file, which need not exist."""
    return data_folder(kind) / name


def data_names(kind: str, suffixes: tuple[str, ...]) -> tuple[str, ...]:
    """File names of one kind with one of these suffixes, sorted."""
    folder = data_folder(kind)
    if not folder.is_dir():
        return ()
    return tuple(sorted(path.name for path in folder.iterdir() if path.name.endswith(suffixes)))
