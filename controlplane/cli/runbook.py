"""`pilothouse runbook`: what to do, for one mechanism or trouble."""

from typing import TYPE_CHECKING

import click

from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.failures import CallError
from controlplane.cli.terminal import create_console, printable_lines, say, table

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _complete(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    from controlplane.runbooks import runbook_names

    return [CompletionItem(name) for name in runbook_names() if name.startswith(incomplete)]


@click.command(
    epilog=examples(
        ("pilothouse runbook", "all of them"),
        ("pilothouse runbook cache.thrash", "the one of a mechanism, as diagnose names it"),
        ("pilothouse runbook replica-crash-loop", "one of Pilothouse's own troubles"),
    )
)
@click.argument("name", required=False, shell_complete=_complete)
def runbook(name: str | None) -> None:
    """Print a runbook: what it means, who is hurt, how to tell it apart, what to do.

    It needs no control plane. The console shows the same under /runbooks.
    """
    from controlplane.runbooks import find_runbook, runbook_names

    if name is None:
        found = [find_runbook(each) for each in runbook_names()]
        say(table([(each.name, each.title) for each in found if each is not None]))
        return
    one = find_runbook(name)
    if one is None:
        import difflib

        near = difflib.get_close_matches(name.replace(".", "-"), runbook_names(), n=1)
        hint = f"; did you mean {near[0]}?" if near else "."
        raise CallError(
            f"there is no runbook {name!r}{hint} See `pilothouse runbook` for all",
            ExitCode.NOT_FOUND,
        )
    from rich.markdown import Markdown

    text = printable_lines(f"# {one.title}\n\n{one.body}")
    console = create_console()
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        say(text)
