"""`python -m dataplane.gateway`: one gateway process."""

import contextlib
import gc
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import uvloop
from pydantic import SecretStr, ValidationError

from dataplane.access import AuthMode, OpenBindError, check_bind, read_key_file
from dataplane.gateway.gateway import create_gateway_id
from dataplane.gateway.handover import Predecessor, TakeoverError, knock
from dataplane.gateway.listener import ListenError, choose_listener
from dataplane.gateway.process import GatewayProcess, StartError
from dataplane.gateway.server import tune
from dataplane.gateway.settings import GatewaySettings
from dataplane.gateway.successor import TAKE_OVER_OPTION, Successors
from dataplane.invalid_input import say_invalid
from dataplane.logs import configure_logs
from dataplane.service_manager import InheritedSocketError, inherited_listener

_OBJECTS_TO_COLLECTION = 10_000
_SWITCH_SECONDS = 0.001
"""How long a thread that tokenizes may hold the event loop up."""


@click.command()
@click.option("--name", required=True, help="Of the place, such as gateway-0.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8701, show_default=True, help="0: any free port.")
@click.option(
    "--advertise-host",
    help="The name by which the control plane reaches this gateway, where --host is no address "
    "to call, such as 0.0.0.0.",
)
@click.option("--control-plane", default=None, help="Base URL; without it, the snapshot on disk.")
@click.option("--state-dir", required=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--drain-seconds", default=30.0, show_default=True)
@click.option(
    "--leave-seconds",
    default=600.0,
    show_default=True,
    help="How long streams may go on once a successor has the port.",
)
@click.option(
    "--auth",
    type=click.Choice([mode.value for mode in AuthMode]),
    default=AuthMode.OFF.value,
    show_default=True,
    help="Whether clients must show a key; needed to listen beyond this machine.",
)
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Holds the key with the role gateway by which the control plane knows this one.",
)
@click.option(
    TAKE_OVER_OPTION,
    "takes_over",
    is_flag=True,
    help="Take the port of the gateway that serves from --state-dir, if one does: it goes on "
    "with its streams and ends.",
)
def main(auth: str, key_file: Path | None, takes_over: bool, **options: Any) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    SIGHUP starts a new process on what is installed now, which takes the port over while this
    one finishes its streams. A socket that systemd passes (LISTEN_FDS) is listened on instead
    of --host and --port.
    """
    settings = _read_settings(AuthMode(auth), key_file, options)
    gateway_id = create_gateway_id(settings.name)
    configure_logs("gateway", gateway_id=gateway_id)
    try:
        inherited = inherited_listener()
        predecessor = knock(settings.state_dir, gateway_id) if takes_over else None
        with contextlib.nullcontext() if predecessor is None else contextlib.closing(predecessor):
            _serve(settings, gateway_id, inherited, predecessor)
    except (InheritedSocketError, ListenError, OpenBindError, TakeoverError, StartError) as error:
        raise click.ClickException(str(error)) from error


def _read_settings(
    auth: AuthMode, key_file: Path | None, options: Mapping[str, Any]
) -> GatewaySettings:
    """As told on the command line, under the names of the settings. Raises what click shows."""
    try:
        check_bind(options["host"], auth)
        key = None if key_file is None else SecretStr(read_key_file(key_file))
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    try:
        return GatewaySettings(auth=auth, control_plane_key=key, **options)
    except ValidationError as error:
        raise click.UsageError(_say_wrong(error)) from error


def _say_wrong(error: ValidationError) -> str:
    """Each option that does not fit, and why."""
    return "; ".join(
        f"--{str(item['loc'][0]).replace('_', '-')}: {said}" if item["loc"] else said
        for item in error.errors()
        for said in [say_invalid(item["type"], item["msg"])]
    )


def _serve(
    settings: GatewaySettings,
    gateway_id: str,
    inherited: socket.socket | None,
    predecessor: Predecessor | None,
) -> None:
    """Until the end of this process. Raises ListenError, OpenBindError and StartError."""
    listener, is_kept = choose_listener(settings, inherited, predecessor)
    # Whoever opened it, and whatever --host says.
    check_bind(listener.getsockname()[0], settings.auth)
    tune(listener, settings.send_buffer_bytes)
    process = GatewayProcess(
        settings=settings,
        gateway_id=gateway_id,
        listener=listener,
        is_listener_kept=is_kept,
        predecessor=predecessor,
        successors=Successors(sys.argv[1:]),
    )
    _spare_the_collector()
    sys.setswitchinterval(_SWITCH_SECONDS)
    uvloop.run(process.run())


def _spare_the_collector() -> None:
    """What was imported stays for good, and nearly all that a request makes goes by itself: the
    cycles that are left are looked for after ten thousand objects, not after each ten chunks."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_TO_COLLECTION, *gc.get_threshold()[1:])


if __name__ == "__main__":
    main()
