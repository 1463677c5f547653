"""`python -m dataplane.gateway`: one gateway process."""

import errno
import socket
import sys
from pathlib import Path

import click
import uvloop
from pydantic import SecretStr, ValidationError

from dataplane.access import AuthMode, OpenBindError, check_bind, read_key_file
from dataplane.gateway.gateway import create_gateway_id
from dataplane.gateway.handover import Predecessor, TakeoverError, knock
from dataplane.gateway.process import GatewayProcess, StartError
from dataplane.gateway.server import listen, tune
from dataplane.gateway.settings import GatewaySettings
from dataplane.gateway.successor import TAKE_OVER_OPTION, Successors
from dataplane.logs import configure_logs
from dataplane.service_manager import InheritedSocketError, inherited_listener


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
def main(
    name: str,
    host: str,
    port: int,
    advertise_host: str | None,
    control_plane: str | None,
    state_dir: Path,
    drain_seconds: float,
    auth: str,
    key_file: Path | None,
    takes_over: bool,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    SIGHUP starts a new process on what is installed now, which takes the port over while this
    one finishes its streams. A socket that systemd passes (LISTEN_FDS) is listened on instead
    of --host and --port.
    """
    try:
        check_bind(host, AuthMode(auth))
        key = None if key_file is None else SecretStr(read_key_file(key_file))
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    try:
        settings = GatewaySettings(
            name=name,
            host=host,
            port=port,
            advertise_host=advertise_host,
            control_plane=control_plane,
            state_dir=state_dir,
            drain_seconds=drain_seconds,
            auth=AuthMode(auth),
            control_plane_key=key,
        )
    except ValidationError as error:
        raise click.ClickException(str(error)) from error
    gateway_id = create_gateway_id(name)
    configure_logs("gateway", gateway_id=gateway_id)
    try:
        inherited = inherited_listener()
        predecessor = knock(state_dir, gateway_id) if takes_over else None
        listener = inherited or _choose_listener(settings, predecessor)
        # Whoever opened it, and whatever --host says.
        check_bind(listener.getsockname()[0], settings.auth)
        tune(listener, settings.send_buffer_bytes)
        process = GatewayProcess(
            settings=settings,
            gateway_id=gateway_id,
            listener=listener,
            is_listener_kept=inherited is not None or _is_kept(predecessor, listener),
            predecessor=predecessor,
            successors=Successors(sys.argv[1:]),
        )
        uvloop.run(process.run())
    except (InheritedSocketError, OpenBindError, TakeoverError, StartError) as error:
        raise click.ClickException(str(error)) from error


def _is_kept(predecessor: Predecessor | None, listener: socket.socket) -> bool:
    return (
        predecessor is not None
        and predecessor.listener is listener
        and predecessor.grant.is_listener_kept
    )


def _choose_listener(settings: GatewaySettings, predecessor: Predecessor | None) -> socket.socket:
    """The predecessor's, unless it listens elsewhere than this gateway is to. One that a
    service manager keeps is right wherever it listens: its unit says where."""
    if predecessor is not None:
        host, port = predecessor.listener.getsockname()[:2]
        is_asked_for = settings.port in (0, port) and settings.host in (host, "localhost")
        if is_asked_for or predecessor.grant.is_listener_kept:
            return predecessor.listener
        predecessor.listener.close()
    try:
        return listen(settings.host, settings.port, settings.send_buffer_bytes)
    except OSError as error:
        remedy = "choose another --host or --port"
        if error.errno == errno.EADDRINUSE:
            remedy += (
                f", or take the place of a gateway of this state directory: {TAKE_OVER_OPTION}"
            )
        raise click.ClickException(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; {remedy}"
        ) from error


if __name__ == "__main__":
    main()
