"""Who listens on a port: a server of ours, or somebody who took the port before it could.

A port that was free when we looked is anybody's until the server has it, and whoever answers there
would be proven and sent requests in its place.
"""

import os

from dataplane.listening import is_told, sockets_of, sockets_on
from dataplane.process_mark import list_pids


def is_heard_by_group(port: int, group: int) -> bool | None:
    """Whether all that listens on the loopback's `port` belongs to the process group `group`, and
    something does; None where this system does not tell."""
    if not is_told():
        return None
    listening = sockets_on(port)
    return bool(listening) and listening <= _sockets_of_group(group)


def _sockets_of_group(group: int) -> set[str]:
    found: set[str] = set()
    for pid in list_pids():
        try:
            is_of_group = os.getpgid(pid) == group
        except OSError:
            continue  # it has ended
        if is_of_group:
            found |= sockets_of(pid)
    return found
