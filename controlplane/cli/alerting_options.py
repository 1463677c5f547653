"""Whether objectives are evaluated by the control plane itself, and who is told: options of what
runs one. Imports nothing heavy."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import click

from controlplane.cli.options import check_console_url
from controlplane.slo.alerting_settings import (
    BUILT_IN_KINDS,
    AlertingSettings,
    NotifierPlan,
    parse_plan,
)
from controlplane.slo.notices.address import read_address

Command = TypeVar("Command", bound=Callable[..., Any])


class _Plan(click.ParamType[NotifierPlan]):
    """NAME=KIND:FILE."""

    name = "NAME=KIND:FILE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> NotifierPlan:
        """The file must be there and, of a built-in kind, hold an address: what starts the control
        plane would find that out much later."""
        if isinstance(value, NotifierPlan):
            return value
        try:
            plan = parse_plan(str(value))
            if plan.kind in BUILT_IN_KINDS:
                read_address(plan.file)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not plan.file.is_file():
            self.fail(f"there is no file {plan.file}, which should hold the address", param, ctx)
        _check_kind(plan.kind, lambda why: self.fail(why, param, ctx))
        return plan


def _check_kind(kind: str, fail: Callable[[str], NoReturn]) -> None:
    """Whether an installed plugin makes notifiers is only known once it is loaded, by who does."""
    if kind in BUILT_IN_KINDS:
        return
    from controlplane.specs.kind import nearest
    from dataplane.plugins import PluginGroup, list_plugins

    installed = [each.name for each in list_plugins(PluginGroup.CONTROLPLANE)]
    if kind not in installed:
        near = nearest(kind, [*BUILT_IN_KINDS, *installed])
        hint = f"; did you mean {near}?" if near else "."
        kinds = ", ".join(BUILT_IN_KINDS)
        fail(f"no notifier is of kind {kind!r}{hint} Built in are {kinds}; others come as plugins")


_OPTIONS = (
    click.option(
        "--alerting",
        type=click.Choice(["on", "off"]),
        default="on",
        show_default=True,
        envvar="PILOTHOUSE_ALERTING",
        show_envvar=True,
        help="Whether every objective is evaluated here, with or without a Prometheus: what burns "
        "opens an incident, and notifiers are told.",
    ),
    click.option(
        "--evaluate-seconds",
        type=click.FloatRange(min=5, max=300),
        default=30.0,
        show_default=True,
        envvar="PILOTHOUSE_EVALUATE_SECONDS",
        show_envvar=True,
        help="Between two evaluations.",
    ),
    click.option(
        "--notify",
        "notifiers",
        type=_Plan(),
        multiple=True,
        envvar="PILOTHOUSE_NOTIFY",
        show_envvar=True,
        help="Tell people of alerts, like oncall=slack:/etc/pilothouse/slack.url. KIND is slack, "
        "webhook (JSON) or a plugin's; the first line of FILE is the address, which is a secret, "
        "and further ones are headers. May be given several times.",
    ),
    click.option(
        "--console-url",
        envvar="PILOTHOUSE_CONSOLE_URL",
        show_envvar=True,
        callback=check_console_url,
        help="Where alerts lead to, as browsers reach the console. Default: where the control "
        "plane listens, as this machine reaches it.",
    ),
)


def alerting_options(command: Command) -> Command:
    """`--alerting`, `--evaluate-seconds`, `--notify` and `--console-url`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def alerting_arguments(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The same options for another process, from what `alerting_options` passed to a command.
    Raises click.UsageError for what that would refuse."""
    _check_names(given["notifiers"])
    told = (
        text
        for plan in given["notifiers"]
        for text in ("--notify", f"{plan.name}={plan.kind}:{plan.file}")
    )
    every = ("--evaluate-seconds", f"{given['evaluate_seconds']:g}")
    leads = () if given["console_url"] is None else ("--console-url", given["console_url"])
    return ("--alerting", given["alerting"], *every, *told, *leads)


def read_alerting(given: Mapping[str, Any]) -> AlertingSettings:
    """From what `alerting_options` passed to a command. Raises click.UsageError."""
    _check_names(given["notifiers"])
    return AlertingSettings(
        is_on=given["alerting"] == "on",
        evaluate_seconds=given["evaluate_seconds"],
        notifiers=tuple(given["notifiers"]),
        console_url=given["console_url"] or "",
    )


def _check_names(plans: Sequence[NotifierPlan]) -> None:
    names = [plan.name for plan in plans]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise click.UsageError(f"--notify: two are called {twice}: rename one of them")
