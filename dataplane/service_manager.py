"""What a service manager (systemd) gives a process and is told by it.

Sockets come as open file descriptors from 3 on, meant for one process id; words go as
datagrams to the socket that NOTIFY_SOCKET names. Without a service manager both do nothing.
"""

import os
import socket
from collections.abc import Mapping

_FIRST_FD = 3
OWN_VARIABLES = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID")
"""Meant for one process alone: whoever starts another one takes them out of its environment."""


class InheritedSocketError(Exception):
    """What was handed to this process is no socket it can listen on; the message says why."""


def inherited_listener(environment: Mapping[str, str] = os.environ) -> socket.socket | None:
    """The listening TCP socket that the service manager opened for us; None without one.

    Raises InheritedSocketError for anything but exactly one such socket.
    """
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return None
    count = environment.get("LISTEN_FDS", "")
    if count != "1":
        raise InheritedSocketError(
            f"the service manager passed {count or 'no'} sockets (LISTEN_FDS), and one is needed: "
            f"give the socket unit one ListenStream="
        )
    try:
        listener = socket.socket(fileno=_FIRST_FD)
    except OSError as error:
        raise InheritedSocketError(f"file descriptor 3 is no socket: {error.strerror}") from error
    is_listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if listener.family not in (socket.AF_INET, socket.AF_INET6) or not is_listening:
        raise InheritedSocketError(
            "the inherited socket does not listen on TCP: write ListenStream= with an address "
            "and a port, and Accept=no"
        )
    os.set_inheritable(_FIRST_FD, False)
    listener.setblocking(False)
    return listener


def notify(*words: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Tell the service manager, such as `notify("READY=1")`; False when there is none.

    Never waits. Raises OSError when there is one and it cannot be told now.
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as speaker:
        speaker.sendto("\n".join(words).encode(), address)
    return True


def watchdog_seconds(environment: Mapping[str, str] = os.environ) -> float | None:
    """How often at least `WATCHDOG=1` is expected; None where nobody expects it of us."""
    microseconds = environment.get("WATCHDOG_USEC", "")
    meant_for = environment.get("WATCHDOG_PID", str(os.getpid()))
    if not microseconds.isdecimal() or int(microseconds) == 0 or meant_for != str(os.getpid()):
        return None
    return int(microseconds) / 1e6
