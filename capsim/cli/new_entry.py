"""What the commands share that write an entry of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from capsim.catalog.loader import is_path
from capsim.cli.options import Command, json_option
from capsim.errors import BadInput, Fault


def entry_options(kind: str) -> Callable[[Command], Command]:
    """What a command takes that writes an entry of this kind: further names, the file, and how the answer goes."""
    alias = click.option(
        "--alias",
        "aliases",
        multiple=True,
        help="A further name of it in the catalog, beside its own. May be repeated.",
    )
    out = click.option(
        "--out",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"File of the entry; the {kind}'s name with .yaml, in this folder, if not given.",
    )
    return lambda command: alias(out(json_option(command)))


def refuse_names(
    name: str, aliases: Sequence[str], known: Callable[[str], str], option: str = "--name"
) -> None:
    """A shipped entry's name would go with its profiles, which are of another; a path is no name.

    Args:
        name: of the entry.
        aliases: further ones.
        known: the catalog's name of one, empty where there is none.
        option: by which the name was given.

    Raises:
        BadInput: every name at fault.
    """
    faults = []
    for by, given in ((option, name), *(("--alias", alias) for alias in aliases)):
        shipped = known(given)
        if shipped:
            faults.append(Fault(by, f"{given!r} is in the catalog, as {shipped}", expected="another name"))
        elif not given.strip() or is_path(given):
            faults.append(Fault(by, f"{given!r} is no name", expected="one that does not end in .yaml"))
    if faults:
        raise BadInput(*faults)


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet.

    Raises:
        BadInput: it is, or cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        what = f"cannot write {path}: {error.strerror}"
        raise BadInput(Fault("--out", what, expected="a new file in a folder that is there")) from error
