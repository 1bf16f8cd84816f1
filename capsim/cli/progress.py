from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol


class Reporter(Protocol):
    """A `capsim.plan.progress.Progress` that can be closed."""

    def start(self, stage: str, total: int) -> None: ...  # noqa: D102
    def advance(self) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class _Drawn:
    """A bar a stage, for people who watch."""

    def __init__(self) -> None:
        from rich.console import Console  # rich is slow to import: only where somebody watches
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._bars = Progress(
            TextColumn("{task.description:<18}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._bars.start()
        self._task = None if not self._bars.tasks else self._bars.tasks[0].id

    def start(self, stage: str, total: int) -> None:
        self._task = self._bars.add_task(stage, total=total)

    def advance(self) -> None:
        if self._task is not None:
            self._bars.advance(self._task)

    def close(self) -> None:
        self._bars.stop()


class _Lines:
    """A line a stage, for logs."""

    def start(self, stage: str, total: int) -> None:
        print(f"{stage}: {total} simulation{'s' if total > 1 else ''}", file=sys.stderr, flush=True)

    def advance(self) -> None:
        pass

    def close(self) -> None:
        pass


class Watch:
    """Progress on stderr for the length of a with block."""

    def __enter__(self) -> Reporter:
        self._reporter: Reporter = _Drawn() if sys.stderr.isatty() else _Lines()
        return self._reporter

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reporter.close()
