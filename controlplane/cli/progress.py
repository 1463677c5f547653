"""A progress bar on standard error for work that takes a while; silent unless it is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """What the worker tells while it works."""

    def advance(self, what: str, share: float | None = None) -> None:
        """`what` is under way, and `share` of all (0 to 1) is done; None: nobody can say."""
        ...


class _Silence:
    def advance(self, what: str, share: float | None = None) -> None:
        """Nobody watches."""


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar until the block ends; then it is wiped away, since the result is what counts."""
    if not sys.stderr.isatty():
        yield _Silence()
        return
    from controlplane.cli.progress_bar import Bar

    with Bar() as bar:
        yield bar


@contextmanager
def counting_bar() -> Iterator[Callable[[str, int, int], None]]:
    """The same for work that counts: what is being done, how much is done, how much there is."""
    with progress_bar() as bar:

        def show(what: str, done: int, total: int) -> None:
            bar.advance(f"{what} {done:,}/{total:,}", done / total if total else None)

        yield show
