"""`pilothouse slo presets`: contracts to begin with."""

from typing import TYPE_CHECKING

import click

from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.failures import CallError
from controlplane.cli.terminal import say, table

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _complete(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    from controlplane.slo.preset import presets

    return [
        CompletionItem(each.name, help=each.purpose)
        for each in presets()
        if each.name.startswith(incomplete)
    ]


@click.command(
    "presets",
    epilog=examples(
        ("pilothouse slo presets", "all of them, and what each is for"),
        ("pilothouse slo presets interactive-chat > contract.yaml", "one, to change and to apply"),
        ("pilothouse slo presets streaming-voice | pilothouse apply -f -", "one as it is"),
    ),
)
@click.argument("name", required=False, shell_complete=_complete)
def presets_command(name: str | None) -> None:
    """List contracts to begin with, or print the one called NAME.

    Each is a whole SLOContract with a reason beside each value, and `apply` takes it as it is.
    It needs no control plane.
    """
    from controlplane.slo.preset import find_preset, presets

    if name is None:
        say(table([(each.name, each.purpose) for each in presets()]))
        return
    found = find_preset(name)
    if found is None:
        raise CallError(
            f"there is no preset {name!r}: there are {', '.join(each.name for each in presets())}",
            ExitCode.NOT_FOUND,
        )
    say(found.text.rstrip("\n"))
