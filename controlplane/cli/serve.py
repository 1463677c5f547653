"""`pilothouse serve` and `pilothouse controlplane`: the commands that run something."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from controlplane.supervisor.child import REFUSED_EXIT_CODE, GivenUpError
from controlplane.supervisor.settings import ServeSettings
from controlplane.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from controlplane.api.settings import ControlPlaneSettings

_FIRST_PASS_SECONDS = 3.0
_PORT = click.IntRange(1, 65535)

_state_dir_option = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="PILOTHOUSE_STATE_DIR",
    default=Path(".pilothouse"),
    show_default=True,
    show_envvar=True,
    help="Where databases, logs and the record of processes are.",
)


def _refuse(message: str, exit_code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    raise SystemExit(exit_code)


@click.command()
@_state_dir_option
@click.option("--port", type=_PORT, default=8700, show_default=True, help="Of the control plane.")
@click.option("--gateway-port", type=_PORT, default=8701, show_default=True)
@click.option(
    "--config",
    "config_dir",
    type=click.Path(path_type=Path, exists=True),
    help="Documents to apply at this start. Without it, the first start applies the demo.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="How long running streams may go on after Ctrl-C.",
)
def serve(
    state_dir: Path, port: int, gateway_port: int, config_dir: Path | None, drain_seconds: float
) -> None:
    """Serve models on this machine: control plane, gateway and replicas, until Ctrl-C.

    The first start creates what is missing. One that was killed is followed by one that adopts
    what still runs. Exit code 3: a database must be upgraded first.
    """
    settings = ServeSettings(
        state_dir=state_dir.absolute(),
        port=port,
        gateway_port=gateway_port,
        config_dir=config_dir,
        drain_seconds=drain_seconds,
    )
    try:
        Supervisor(settings, click.echo).run()
    except GivenUpError as error:
        _refuse(str(error), error.exit_code)


@click.command()
@_state_dir_option
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8700, show_default=True)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="How long a replica that is to end may go on with what it is doing.",
)
def controlplane(state_dir: Path, host: str, port: int, drain_seconds: float) -> None:
    """Run the control plane alone, in the foreground. Ending it leaves replicas running.

    The databases must exist (`pilothouse db upgrade`). Exit code 3: they cannot be used as
    they are.
    """
    # Imported here, so that `serve` starts without them.
    from controlplane.api.settings import ControlPlaneSettings
    from controlplane.store.database import SchemaError
    from dataplane.logs import configure_logs

    configure_logs("controlplane")
    settings = ControlPlaneSettings(
        state_dir=state_dir.absolute(), host=host, port=port, drain_seconds=drain_seconds
    )
    with _only_one(settings.state_dir):
        try:
            listener = _listen(host, port)
            _serve_api(settings, listener)
        except SchemaError as error:
            _refuse(str(error), REFUSED_EXIT_CODE)


def _listen(host: str, port: int) -> socket.socket:
    from controlplane.api.listener import listen

    try:
        return listen(host, port)
    except OSError as error:
        _refuse(f"cannot listen on {host}:{port}: {error.strerror}", 1)


def _serve_api(settings: "ControlPlaneSettings", listener: socket.socket) -> None:
    """Raises SchemaError."""
    opened = settings.open_state()
    # A replica takes longer to start than all that follows; its start goes first. And two threads
    # that import at once would wait for each other.
    opened.operator.wait_for_first_pass(_FIRST_PASS_SECONDS)
    from controlplane.api.app import create_app
    from controlplane.api.server import StartError, run

    try:
        run(create_app(opened), listener)
    except StartError as error:
        _refuse(str(error.__cause__), 1)


@contextmanager
def _only_one(state_dir: Path) -> Iterator[None]:
    """Two operators on one state directory would undo each other's work."""
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / "controlplane.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            _refuse(
                f"another control plane (pid {file.read().strip()}) has {state_dir}: end it, or "
                f"name another directory with --state-dir",
                1,
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
