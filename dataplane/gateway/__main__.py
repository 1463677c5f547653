"""`python -m dataplane.gateway`: one gateway process."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import click
import structlog
import uvloop
from pydantic import ValidationError

from dataplane.gateway.app import create_app
from dataplane.gateway.gateway import create_gateway_id
from dataplane.gateway.server import address_of, create_server, listen
from dataplane.gateway.settings import GatewaySettings
from dataplane.gateway.status import GatewayStatus, write_status
from dataplane.logs import configure_logs

_log = structlog.get_logger(__name__)


@click.command()
@click.option("--name", required=True, help="Of the place, such as gateway-0.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8701, show_default=True, help="0: any free port.")
@click.option("--control-plane", default=None, help="Base URL; without it, the snapshot on disk.")
@click.option("--state-dir", required=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--drain-seconds", default=30.0, show_default=True)
def main(
    name: str,
    host: str,
    port: int,
    control_plane: str | None,
    state_dir: Path,
    drain_seconds: float,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain."""
    try:
        settings = GatewaySettings(
            name=name,
            host=host,
            port=port,
            control_plane=control_plane,
            state_dir=state_dir,
            drain_seconds=drain_seconds,
        )
    except ValidationError as error:
        raise click.ClickException(str(error)) from error
    gateway_id = create_gateway_id(name)
    configure_logs("gateway", gateway_id=gateway_id)
    try:
        listener = listen(host, port, settings.send_buffer_bytes)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --host or --port"
        ) from error
    uvloop.run(serve(settings, gateway_id, listener))


async def serve(settings: GatewaySettings, gateway_id: str, listener: socket.socket) -> None:
    """Run one gateway to its end."""
    app = create_app(settings, gateway_id)
    app.address = address_of(listener)

    async def tell_listening() -> None:
        status = GatewayStatus(
            gateway_id=gateway_id, name=settings.name, pid=os.getpid(), address=app.address
        )
        write_status(settings.state_dir, status)
        _log.info("listening", address=app.address)

    server = create_server(app, tell_listening)
    drains: set[asyncio.Task[None]] = set()

    async def drain_and_end() -> None:
        await app.drain()
        server.should_exit = True

    def end() -> None:
        if drains:  # asked twice: somebody is impatient
            server.should_exit = True
        else:
            drains.add(asyncio.create_task(drain_and_end(), name="drain"))

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    await server.serve(sockets=[listener])


if __name__ == "__main__":
    main()
