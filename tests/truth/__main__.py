"""Signed errors and replayed steps against measured runs of vLLM: ``python -m tests.truth [--write PAGE]``."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from tests.truth import blis
from tests.truth.page import page, summary, tables

parser = ArgumentParser("python -m tests.truth")
parser.add_argument("--write", metavar="PAGE", type=Path, help="page of the documentation to write")
target = parser.parse_args().write
if target and blis.missing():
    parser.error(f"the page needs every measurement; {blis.missing()}")

compared = list(tables())
print("\n\n".join("\n".join(table.text()) for table in (*compared, summary(compared))))
if blis.missing():
    print(f"\n{blis.TITLE}: {blis.missing()}")
if target:
    target.write_text(page(compared))
