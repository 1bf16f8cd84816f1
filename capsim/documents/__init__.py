"""YAML and JSON text to plain data that knows where each key and value stands.

Scalars follow the YAML 1.2 core schema, not PyYAML's YAML 1.1: ``1e3`` is a number; ``on``, ``off``, ``yes``
and ``no`` are text; ``12:30``, ``1_000`` and dates are text; ``0o17`` is octal and ``010`` is ten. JSON goes
the same way, since YAML 1.2 contains it. Aliases (``*name``) and tags of one's own are refused: a settings
file needs neither, and aliases can make a small file expand without bound.

Source: YAML 1.2.2, section 10.3.2 "Tag Resolution" (core schema).
"""

from capsim.documents.document import Document, KeyPath, Place, dotted
from capsim.documents.nodes import DEEPEST
from capsim.documents.reading import LARGE, load, parse, parse_value

__all__ = ["DEEPEST", "LARGE", "Document", "KeyPath", "Place", "dotted", "load", "parse", "parse_value"]
