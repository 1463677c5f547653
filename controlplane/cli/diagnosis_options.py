"""Whether and by which rules deployments are diagnosed all the time: options of what runs a control
plane. Imports nothing heavy."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from controlplane.diagnosis.always_on.settings import AlwaysOnSettings

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--diagnosis",
        type=click.Choice(["on", "off"]),
        default="on",
        show_default=True,
        envvar="PILOTHOUSE_DIAGNOSIS",
        show_envvar=True,
        help="Whether every deployment is looked at all the time: metrics of its replicas are "
        "read every 5 s (in turns where there are more than 100 replicas), and what is found wrong "
        "opens an incident.",
    ),
    click.option(
        "--rules",
        "rule_plugins",
        metavar="PLUGIN",
        multiple=True,
        help="A plugin whose rules of diagnosis go before the built-in ones; may be given "
        "several times.",
    ),
)


def diagnosis_options(command: Command) -> Command:
    """`--diagnosis` and `--rules`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def diagnosis_arguments(diagnosis: str, rule_plugins: tuple[str, ...]) -> tuple[str, ...]:
    """The same options for another process."""
    rules = (text for name in rule_plugins for text in ("--rules", name))
    return ("--diagnosis", diagnosis, *rules)


def read_diagnosis(diagnosis: str, rule_plugins: tuple[str, ...]) -> "AlwaysOnSettings":
    """From what `diagnosis_options` passed to a command."""
    from controlplane.diagnosis.always_on.settings import AlwaysOnSettings

    return AlwaysOnSettings(is_on=diagnosis == "on", rule_plugins=rule_plugins)
