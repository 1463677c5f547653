"""What has a name like a file and is none: a device or a pipe may never end.

What a shell hands over, `<(command)` and standard input, is a pipe too, and ends with its command.
"""

import io
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from controlplane.diagnosis.sources.input_error import InputError

_HANDED_OVER = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/(?:self|\d+)/fd/\d+")


def refuse_special(file: Path) -> None:
    """Raises InputError for one that may never end, OSError where it cannot be looked at."""
    known = file.stat()
    kind = _kind(known)
    if kind is None:
        return
    is_handed_over = _HANDED_OVER.fullmatch(str(file)) is not None
    if is_handed_over and (stat.S_ISFIFO(known.st_mode) or _is_typed_at(file)):
        return
    raise InputError(
        str(file),
        f"is {kind}, and no file: it may never end",
        "save what is meant in a file, or pass it on: `command | pilothouse diagnose -`",
    )


def refuse_endless_input(stdin: BinaryIO) -> None:
    """Raises InputError where standard input is a device, and no terminal."""
    try:
        known = os.fstat(stdin.fileno())
    except (io.UnsupportedOperation, OSError):
        return  # held in memory, or closed: whoever reads it is told
    is_device = stat.S_ISCHR(known.st_mode) or stat.S_ISBLK(known.st_mode)
    if is_device and not _is_null(known) and not stdin.isatty():
        raise InputError(
            "standard input",
            "is a device: it may never end",
            "pass on a log or a page: `command | pilothouse diagnose -`",
        )


def _kind(known: os.stat_result) -> str | None:
    mode = known.st_mode
    if stat.S_ISREG(mode) or _is_null(known):
        return None
    kinds = (
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for is_it, name in kinds if is_it(mode)), None)


def _is_null(known: os.stat_result) -> bool:
    """It ends at once."""
    return stat.S_ISCHR(known.st_mode) and known.st_rdev == Path(os.devnull).stat().st_rdev


def _is_typed_at(file: Path) -> bool:
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return os.isatty(descriptor)
    finally:
        os.close(descriptor)
