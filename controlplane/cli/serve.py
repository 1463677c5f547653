"""`pilothouse serve` and `pilothouse controlplane`: the commands that run something."""

import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from controlplane.cli.alerting_options import (
    alerting_arguments,
    alerting_options,
    read_alerting,
)
from controlplane.cli.credentials import FILE_VARIABLE, KEY_VARIABLE
from controlplane.cli.diagnosis_options import (
    diagnosis_arguments,
    diagnosis_options,
    read_diagnosis,
)
from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.options import config_url_option, requests_url_option, state_dir_option
from controlplane.cli.storage_options import read_storage, storage_arguments, storage_options
from controlplane.supervisor.child import REFUSED_EXIT_CODE, GivenUpError
from controlplane.supervisor.settings import (
    CONFIG_URL_VARIABLE,
    REQUESTS_URL_VARIABLE,
    Demo,
    ServeSettings,
)
from controlplane.supervisor.state_lock import state_lock
from controlplane.supervisor.supervisor import Supervisor
from dataplane.access import AuthMode, OpenBindError, check_bind

if TYPE_CHECKING:
    from controlplane.api.settings import ControlPlaneSettings

_FIRST_PASS_SECONDS = 3.0
_PORT = click.IntRange(1, 65535)


def _refuse(message: str, exit_code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    raise SystemExit(exit_code)


@click.command(
    epilog=examples(
        ("pilothouse serve", "the demo, on ports 8700 and 8701"),
        ("pilothouse serve --demo simulator", "the same without a model: no torch, no weights"),
        ("pilothouse serve --config conf/ --state-dir /var/lib/pilothouse", "your own documents"),
    )
)
@state_dir_option
@click.option("--port", type=_PORT, default=8700, show_default=True, help="Of the control plane.")
@click.option("--gateway-port", type=_PORT, default=8701, show_default=True, help="Of the gateway.")
@click.option(
    "--config",
    "config_dir",
    type=click.Path(path_type=Path, exists=True),
    help="Documents to apply at this start. Without it, the first start applies the demo.",
)
@click.option(
    "--demo",
    type=click.Choice([demo.value for demo in Demo]),
    help="What the first start applies without --config: a small model in the native engine "
    "(native, the default), or the simulator, which needs neither torch nor weights.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="How long running streams may go on after Ctrl-C.",
)
@click.option(
    "--auth",
    type=click.Choice([mode.value for mode in AuthMode]),
    default=AuthMode.OFF.value,
    show_default=True,
    help="Whether callers must show a key or log in (see pilothouse keys, users).",
)
@config_url_option
@requests_url_option
@diagnosis_options
@alerting_options
@storage_options
def serve(
    state_dir: Path,
    port: int,
    gateway_port: int,
    config_dir: Path | None,
    demo: str | None,
    drain_seconds: float,
    auth: str,
    config_url: str | None,
    requests_url: str | None,
    diagnosis: str,
    rule_plugins: tuple[str, ...],
    **more: Any,
) -> None:
    """Serve models on this machine: control plane, gateway and replicas, until Ctrl-C.

    The first start creates what is missing. One that was killed is followed by one that adopts
    what still runs, if it has the same version number, options and environment (OTEL_...,
    ENGINE_PROGRAMS, ENGINE_OPTIONS) and answers, and ends the rest; a gateway that differs hands
    its port to a new one first, and cuts no stream. `pilothouse gateway restart` asks for that at
    any time. Source that was edited without a new number is not noticed: end serve with Ctrl-C for
    that. Exit code 3: a database must be upgraded first.
    """
    if demo is not None and config_dir is not None:
        raise click.UsageError("give --demo or --config, not both")
    settings = ServeSettings(
        state_dir=state_dir.absolute(),
        port=port,
        gateway_port=gateway_port,
        config_dir=config_dir,
        demo=None if demo is None else Demo(demo),
        drain_seconds=drain_seconds,
        auth=AuthMode(auth),
        config_url=config_url,
        requests_url=requests_url,
        storage_arguments=storage_arguments(more),
        diagnosis_arguments=diagnosis_arguments(diagnosis, rule_plugins),
        alerting_arguments=alerting_arguments(more),
    )
    # By environment and not by argument: everybody on a machine can read arguments.
    os.environ.update(settings.database_environment)
    try:
        Supervisor(settings, click.echo).run()
    except GivenUpError as error:
        _refuse(str(error), error.exit_code)


@click.command(
    epilog=examples(
        ("pilothouse controlplane --state-dir /var/lib/pilothouse", "over SQLite files"),
        ("pilothouse controlplane --auth required --host 0.0.0.0", "for others than this machine"),
    )
)
@state_dir_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8700,
    show_default=True,
    help="Port to listen on; 0: any that is free.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="How long a replica that is to end may go on with its requests. One that an earlier "
    "control plane started keeps the bound that it was started with.",
)
@click.option(
    "--auth",
    type=click.Choice([mode.value for mode in AuthMode]),
    default=AuthMode.OFF.value,
    show_default=True,
    help="Whether callers must show a key or log in; needed to listen beyond this machine.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of a proxy in front, whose X-Forwarded-For and X-Forwarded-Proto "
    "count; repeatable. None is trusted unless named.",
)
@config_url_option
@requests_url_option
@diagnosis_options
@alerting_options
@storage_options
def controlplane(
    state_dir: Path,
    host: str,
    port: int,
    drain_seconds: float,
    auth: str,
    trusted_proxies: tuple[str, ...],
    config_url: str | None,
    requests_url: str | None,
    diagnosis: str,
    rule_plugins: tuple[str, ...],
    **more: Any,
) -> None:
    """Run the control plane alone, in the foreground. Ending it leaves replicas running.

    The databases must exist (`pilothouse db upgrade`), and no other control plane may run over
    them. Exit code 3: they cannot be used as they are, or another one has them; 5: their server
    cannot be reached.
    """
    # Imported here, so that `serve` starts without them.
    from controlplane.api.settings import ControlPlaneSettings
    from dataplane.host import DRAIN_VARIABLE
    from dataplane.logs import configure_logs

    try:
        check_bind(host, AuthMode(auth))
    except OpenBindError as error:
        raise click.UsageError(str(error)) from error
    configure_logs("controlplane")
    # Replicas drain by themselves; what a launcher starts inherits this.
    os.environ[DRAIN_VARIABLE] = f"{drain_seconds:g}"
    settings = ControlPlaneSettings(
        state_dir=state_dir.absolute(),
        host=host,
        port=port,
        config_url=config_url,
        requests_url=requests_url,
        storage=read_storage(more),
        always_on=read_diagnosis(diagnosis, rule_plugins),
        alerting=read_alerting(more),
        drain_seconds=drain_seconds,
        auth=AuthMode(auth),
        trusted_proxies=trusted_proxies,
    )
    # What replicas inherit holds no way into the databases and nobody's key.
    for variable in (CONFIG_URL_VARIABLE, REQUESTS_URL_VARIABLE, KEY_VARIABLE, FILE_VARIABLE):
        os.environ.pop(variable, None)
    _run_alone(settings)


def _run_alone(settings: "ControlPlaneSettings") -> None:
    """Under the locks that keep every other control plane away; what stands against it ends the
    process with its exit code."""
    from controlplane.process_history import ProcessHistory
    from controlplane.store.database import SchemaError, UnreachableError
    from controlplane.store.database_lock import DatabaseInUseError
    from controlplane.supervisor.database_absences import DatabaseAbsences
    from controlplane.supervisor.database_locks import LockWatch, held_locks

    try:
        with (
            state_lock(settings.state_dir, "controlplane.lock", "control plane"),
            held_locks(settings.database_urls, "pilothouse controlplane") as locks,
            LockWatch(
                locks,
                _end_this_process,
                on_change=DatabaseAbsences(ProcessHistory(settings.state_dir)).note,
            ).watching(),
        ):
            _serve_api(settings, _listen(settings.host, settings.port))
    except GivenUpError as error:
        _refuse(str(error), error.exit_code)
    except (SchemaError, DatabaseInUseError) as error:
        _refuse(str(error), REFUSED_EXIT_CODE)
    except UnreachableError as error:
        _refuse(str(error), ExitCode.UNREACHABLE)


def _end_this_process() -> None:
    """In order: streams are told, the operator ends its pass."""
    os.kill(os.getpid(), signal.SIGTERM)


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
        app = create_app(opened, settings.auth, settings.state_dir)
        run(app, listener, settings.trusted_proxies)
    except StartError as error:
        _refuse(str(error.__cause__), 1)
