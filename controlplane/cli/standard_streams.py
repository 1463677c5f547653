"""The streams that a shell hands over, made fit for every command: an answer that is not wholly
written is never taken for one that is.

Standard output is written through one file that takes note of a failure. Where Python does not
buffer (PYTHONUNBUFFERED, as in most containers) it also passes over in silence that a disk took
half of what it was given; a buffer of ours above the file writes the rest, and so finds out.
"""

import io
import os
import select
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_REMEDY = "make room, or write it elsewhere"


class LostOutputError(OSError):
    """Standard output takes no more: its disk is full, or its file may not grow. Whoever reads a
    pipe and has gone is a BrokenPipeError, and no loss."""

    def __init__(self, error: OSError) -> None:
        self.why = error.strerror or str(error)
        super().__init__(
            error.errno,
            f"the answer cannot be written to standard output: {self.why}; only a part of it is "
            f"there, if any: {_REMEDY}",
        )


class ClosedOutputError(click.ClickException):
    """There is no standard output, so the next file that is opened would become it."""

    def __init__(self) -> None:
        super().__init__(
            "standard output is closed, so there is nowhere to answer, and nothing was done: "
            "leave out >&-, or write >/dev/null where no answer is wanted"
        )


class OutputFile(io.FileIO):
    """Standard output. After the first failure it takes everything and keeps nothing: what buffers
    still hold would otherwise fail again while the process ends."""

    loss: LostOutputError | None = None

    def write(self, data: "ReadableBuffer", /) -> int:
        """Raises LostOutputError, once."""
        if self.loss is not None:
            return memoryview(data).nbytes
        try:
            written: int | None = super().write(data)
            while written is None:  # whoever reads it set it so that nobody waits: we do
                select.select([], [self], [])
                written = super().write(data)
            return written
        except BrokenPipeError:
            raise
        except OSError as error:
            self.loss = LostOutputError(error)
            raise self.loss from error


def take_streams() -> OutputFile:
    """Put `sys.stdout` above the file that is returned, and nothing in the place of a standard
    input or error that is closed. Raises ClosedOutputError."""
    # Each takes the lowest number that is free, which is that of the stream in whose place it is.
    sys.stdin = sys.stdin or os.fdopen(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")
    if sys.stdout is None:
        raise ClosedOutputError
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    sys.stdout.flush()
    file = OutputFile(sys.stdout.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=sys.stdout.encoding,
        errors=sys.stdout.errors,
        newline="\n",
        line_buffering=True,
    )
    return file
