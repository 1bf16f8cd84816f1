"""Writes every output, generated table and picture of the documentation anew: ``python -m tests.docs [PAGE ...]``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.docs.elision import matches, refreshed
from tests.docs.generators import GENERATORS
from tests.docs.knee import save_knee
from tests.docs.page import Console, Exchange, Generated, Page, Part, SavedFile, page_paths, read_page
from tests.docs.profile_figures import save_profile_figures
from tests.docs.shell import Shell

QUICK_START = "runs/chat-llama-3.1-8b-h200"


def write_anew(page: Page, shell: Shell) -> None:
    """Run a page's commands and generators and write it where something has changed."""
    shell.begin()
    text = replace(page, parts=tuple(_anew(page.parts, shell))).text
    if text != page.text:
        page.path.write_text(text, encoding="utf-8")
        print(f"written: {page.name}")


def _anew(parts: Sequence[Part], shell: Shell) -> Iterator[Part]:
    for part in parts:
        if isinstance(part, SavedFile):
            shell.save(part)
        if isinstance(part, Console):
            yield replace(part, exchanges=tuple(_run(exchange, shell) for exchange in part.exchanges))
        elif isinstance(part, Generated):
            yield replace(part, body=tuple(GENERATORS[part.name]()))
        else:
            yield part


def _run(exchange: Exchange, shell: Shell) -> Exchange:
    printed = shell.run(exchange.command)
    if exchange.output and matches(exchange.output, printed):
        return exchange
    try:
        return replace(exchange, output=tuple(refreshed(exchange.output, printed)))
    except LookupError as error:
        sys.exit(f"$ {exchange.command}\n{error}\n" + "\n".join(printed))


def main(names: Sequence[str]) -> None:
    """Write these pages anew, or all of them, and the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(Path(folder))
        for path in [Path(name).resolve() for name in names] or page_paths():
            write_anew(read_page(path), shell)
        if (shell.folder / QUICK_START).is_dir():
            save_knee(shell.folder / QUICK_START)
    save_profile_figures()


if __name__ == "__main__":
    main(sys.argv[1:])
