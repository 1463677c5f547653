"""Showing something again and again on a terminal."""

import sys
import time
from collections.abc import Callable

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from controlplane.cli.failures import CallError
from controlplane.cli.terminal import create_console, printable


def watch_until_interrupted(look: Callable[[], RenderableType], interval_seconds: float) -> None:
    """Show what `look` returns, until Ctrl-C, which ends it well.

    A call that fails once the first has succeeded is shown in place, and tried again.
    """
    if not sys.stdout.isatty():
        raise click.UsageError("--watch needs a terminal; a program asks again with -o json")
    shown = look()
    try:
        with Live(shown, console=create_console(), screen=True, auto_refresh=False) as live:
            while True:
                live.update(_framed(shown, interval_seconds), refresh=True)
                time.sleep(interval_seconds)
                try:
                    shown = look()
                except CallError as error:
                    shown = Text(printable(error.message), style="bold red")
    except KeyboardInterrupt:
        return


def _framed(shown: RenderableType, interval_seconds: float) -> RenderableType:
    at = time.strftime("%H:%M:%SZ", time.gmtime())
    return Group(Text(f"{at}, every {interval_seconds:g} s, Ctrl-C ends", style="dim"), shown)
