"""Published serving measurements simulated: ``python -m tests.truth.public [--write PAGE] [--jobs N]``."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from tests.truth.public.page import page, tables
from tests.truth.public.rows import missing, rows
from tests.truth.public.run import results

parser = ArgumentParser("python -m tests.truth.public")
parser.add_argument("--write", metavar="PAGE", type=Path, help="page of the documentation to write")
parser.add_argument("--jobs", metavar="N", type=int, default=2, help="simulations at a time")
arguments = parser.parse_args()
if missing():
    parser.error(missing())
found = results(rows(), arguments.jobs)
for table in tables(found):
    print("", *table.text(), sep="\n")
if arguments.write:
    arguments.write.write_text(page(found), encoding="utf-8")
