"""Measure the engine of this machine, simulate what was measured, and print both: ``python -m tests.loop``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory

from tests.loop.outcome import keep, outcome_of, table
from tests.loop.samples import keep_samples
from tests.truth import blis, page

parser = ArgumentParser("python -m tests.loop")
parser.add_argument("--write", action="store_true", help="also into the documentation")
parser.add_argument("--folder", type=Path, help="a measurement of before, or where to keep this one")
options = parser.parse_args()
if options.write and blis.missing():
    parser.error(f"the page of the documentation needs every measurement; {blis.missing()}")
with TemporaryDirectory() as temporary:
    folder = options.folder or Path(temporary)
    if not list(folder.glob("*.run.json")):
        command = [sys.executable, "-W", "ignore", "-m", "tests.loop.measure", str(folder)]
        run(command, check=True, start_new_session=True)
    outcome = outcome_of(folder)
    if options.write:
        keep(outcome)
        keep_samples(folder)
shown = table(outcome)
print(*shown.text(), sep="\n")
for verdict in shown.verdicts:
    print(f"{verdict.word:<7} {verdict.figure:<9} {verdict.target}: {verdict.found}")
if options.write:
    page.PAGE.write_text(page.page(list(page.tables())), encoding="utf-8")
