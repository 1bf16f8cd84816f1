"""Names that are known and that the catalog does not have, with the reason: data of ``configs/unmodelled``."""

from __future__ import annotations

from typing import NamedTuple

from capsim import documents
from capsim.catalog import schema
from capsim.catalog.data import data_path
from capsim.catalog.schema import Text
from capsim.errors import BadInput, Fault


class Unmodelled(NamedTuple):
    """Why a name has no entry.

    Attributes:
        reason: what stands against one.
        instead: what to state in its place; empty where there is nothing.
    """

    reason: str
    instead: str


class _Group(schema.Section):
    names: list[Text]
    reason: Text
    instead: Text = ""


class _Table(schema.Section):
    unmodelled: list[_Group]


def unmodelled(kind: str) -> dict[str, Unmodelled]:
    """All of one kind, ``models`` or ``gpus``, by their names in lower case.

    Raises:
        BadInput: every fault of the table.
    """
    faults: list[Fault] = []
    document = documents.load(data_path("unmodelled", f"{kind}.yaml"), faults=faults)
    table = schema.validated(_Table, document, faults)
    if table is None or faults:
        raise BadInput(*faults)
    return {
        name.lower(): Unmodelled(group.reason, group.instead)
        for group in table.unmodelled
        for name in group.names
    }
