"""The bar itself; apart, because rich is only imported where somebody watches."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from controlplane.cli.terminal import printable


class Bar:
    """One line on standard error."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[share]}", markup=False),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr),
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, share="")

    def advance(self, what: str, share: float | None = None) -> None:
        """As `Progress.advance`."""
        is_known = share is not None
        self._progress.update(
            self._task,
            description=printable(what),
            total=1.0 if is_known else None,
            completed=share or 0.0,
            share=f"{share:.0%}" if share is not None else "",
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()
