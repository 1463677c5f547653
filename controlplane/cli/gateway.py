"""`pilothouse gateway`: what is done to a gateway process of `pilothouse serve`."""

from pathlib import Path

import click

from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.failures import CallError
from controlplane.cli.options import state_dir_option
from controlplane.cli.terminal import say


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
@click.option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="Seconds to wait until the new process serves.",
)
def restart(state_dir: Path, timeout_seconds: float) -> None:
    """Let a new gateway process take the port over, and cut no stream.

    The new one starts on what is installed now, is given the listening socket, and serves once
    it enforces the same snapshot and has the same replicas. Only then the old one stops to
    accept; it finishes its streams within serve's --drain-seconds, delivers its records and
    ends. When the new one cannot serve, the old one goes on as if nothing had been asked.
    """
    from controlplane.supervisor.asking import RestartError, restart_gateway

    try:
        replaced = restart_gateway(state_dir.absolute(), timeout_seconds)
    except RestartError as error:
        raise CallError(str(error), ExitCode.FAILED) from error
    before, after = replaced.before, replaced.after
    say(f"{after.name}: pid {after.pid} serves at {after.address} in the place of {before.pid}")
    say(f"  {before.gateway_id} finishes its streams; see `pilothouse get gateways`")
