"""Writing to the terminal: what others chose (names, reasons, prompts) must not command it.

Everything that a command prints as text goes through `say` or, with colours, through a `Text`
made of `printable`. JSON is printed in ASCII, which escapes the same characters.
"""

import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_WIDTH = 120
_REPLACEMENT = "\ufffd"


def printable(text: str) -> str:
    """One line of text without what a terminal would obey: control and format characters
    (escape sequences, line breaks, changes of direction) and broken surrogates."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _REPLACEMENT for char in text)


def printable_lines(text: str) -> str:
    """The same for text that may have several lines."""
    return "\n".join(printable(line) for line in text.split("\n"))


def say(text: str, *, is_error: bool = False) -> None:
    """Print lines, made printable: to standard output, or to standard error."""
    click.echo(printable_lines(text), err=is_error)


def say_json(value: Any, *, is_line: bool = False) -> None:
    """Print a value as JSON: indented, or as one line of JSON Lines."""
    click.echo(json.dumps(value, indent=None if is_line else 2))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, every cell made printable."""
    clean = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*clean, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in clean
    )
    return "\n".join(line.rstrip() for line in lines)


def instant(unix_ns: int) -> str:
    """UTC, to the second."""
    try:
        return datetime.fromtimestamp(unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{unix_ns} ns, which is no date"


def continued(text: str, indent: str) -> str:
    """What somebody wrote, for a list of entries: its later lines are moved in and marked, so that
    none of them looks like an entry of its own."""
    return f"\n{indent}| ".join(text.splitlines())


def indented(text: str) -> str:
    """Every line moved in by two."""
    return "".join(f"  {line}\n" for line in text.splitlines())


def create_console() -> "Console":
    """For output with colours; as wide as the terminal, or 120 columns into a pipe."""
    from rich.console import Console

    is_terminal = sys.stdout.isatty()
    width = None if is_terminal or "COLUMNS" in os.environ else _PIPED_WIDTH
    return Console(width=width, highlight=False, markup=False)
