"""The socket that a gateway process listens on: inherited, its predecessor's, or a new one."""

import errno
import socket

from dataplane.access import is_loopback
from dataplane.gateway.handover import Predecessor
from dataplane.gateway.server import listen
from dataplane.gateway.settings import GatewaySettings
from dataplane.gateway.successor import TAKE_OVER_OPTION


class ListenError(Exception):
    """The address cannot be listened on; the message says why and what to do."""


def choose_listener(
    settings: GatewaySettings, inherited: socket.socket | None, predecessor: Predecessor | None
) -> tuple[socket.socket, bool]:
    """What to listen on, and whether a service manager keeps it open.

    The predecessor's, unless it listens elsewhere than this gateway is to; then it is closed
    here. One that a service manager keeps is right wherever it listens: its unit says where.
    Raises ListenError.
    """
    if predecessor is not None:
        if inherited is None and _is_asked_for(settings, predecessor):
            return predecessor.listener, predecessor.grant.is_listener_kept
        predecessor.listener.close()
    if inherited is not None:
        return inherited, True
    return _open(settings), False


def _is_asked_for(settings: GatewaySettings, predecessor: Predecessor) -> bool:
    host, port = predecessor.listener.getsockname()[:2]
    is_same_host = settings.host == host or (settings.host == "localhost" and is_loopback(host))
    is_same = is_same_host and settings.port in (0, port)
    return is_same or predecessor.grant.is_listener_kept


def _open(settings: GatewaySettings) -> socket.socket:
    try:
        return listen(settings.host, settings.port, settings.send_buffer_bytes)
    except OSError as error:
        remedy = "choose another --host or --port"
        if error.errno == errno.EADDRINUSE:
            remedy += (
                f", or take the place of a gateway of this state directory: {TAKE_OVER_OPTION}"
            )
        raise ListenError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; {remedy}"
        ) from error
