"""`pilothouse gateway`: what is done to a gateway process of `pilothouse serve`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.failures import CallError
from controlplane.cli.options import config_url_option, state_dir_option
from controlplane.cli.terminal import say

if TYPE_CHECKING:
    from controlplane.supervisor.asking import Replaced


@click.group()
def gateway() -> None:
    """Restart the gateway of a running `pilothouse serve`."""


@gateway.command(
    epilog=examples(
        ("pilothouse gateway restart", "of the installation in .pilothouse"),
        ("pilothouse gateway restart --state-dir /var/lib/pilothouse", "of another one"),
    )
)
@state_dir_option
@config_url_option
@click.option("--reason", default="", help="For the audit.")
@click.option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="Seconds to wait until the new process serves.",
)
def restart(state_dir: Path, config_url: str | None, reason: str, timeout_seconds: float) -> None:
    """Let a new gateway process take the port over, and cut no stream.

    The new one starts on what is installed now, is given the listening socket, and serves once
    it enforces the same snapshot and has the same replicas. Only then the old one stops to
    accept; it finishes its streams within ten minutes, delivers its records and
    ends. When the new one cannot serve, the old one goes on as if nothing had been asked.

    It is entered into the audit where the config database can be reached from here. A restart
    that was asked for by a signal (systemctl reload) is in the log of serve alone.
    """
    from controlplane.supervisor.asking import RestartError, restart_gateway

    try:
        replaced = restart_gateway(state_dir.absolute(), timeout_seconds)
    except RestartError as error:
        raise CallError(str(error), ExitCode.FAILED) from error
    _note(replaced, state_dir, config_url, reason)  # first: nobody may be there to read
    before, after = replaced.before, replaced.after
    say(f"{after.name}: pid {after.pid} serves at {after.address} in the place of {before.pid}")
    say(f"  {before.gateway_id} finishes its streams; see `pilothouse get gateways`")


def _note(replaced: "Replaced", state_dir: Path, config_url: str | None, reason: str) -> None:
    """In the audit. It has happened by now: what keeps it from being entered is only said."""
    from sqlalchemy.exc import DBAPIError

    from controlplane.cli.audited import open_audit
    from controlplane.store.connection import DatabaseKind, database_urls
    from controlplane.store.schema import SchemaError, UnreachableError

    url = database_urls(state_dir.absolute(), config_url, None)[DatabaseKind.CONFIG]
    before, after = replaced.before, replaced.after
    try:
        with open_audit(url) as audit:
            audit.note(
                "gateway.restart",
                f"gateway/{after.name}",
                reason,
                before={"gateway_id": before.gateway_id, "pid": before.pid},
                after={"gateway_id": after.gateway_id, "pid": after.pid},
            )
    except (SchemaError, UnreachableError, DBAPIError) as error:
        say(f"this is in no audit, but in the log of serve: {error}", is_error=True)
