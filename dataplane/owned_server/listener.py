"""Who listens on a port: a server of ours, or somebody who took the port before it could.

A port that was free when we looked is anybody's until the server has it, and whoever answers there
would be proven and sent requests in its place.
"""

import os
from collections.abc import Iterator
from pathlib import Path

_TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
_LISTENING = "0A"
_REACHED_BY_LOOPBACK = frozenset({
    "0100007F", "00000000", "0" * 32, "0000000000000000FFFF00000100007F",
    "0000000000000000FFFF000000000000",
})  # fmt: skip
"""Local addresses, as the kernel writes them, that a connection to 127.0.0.1 may end at."""


def is_heard_by_group(port: int, group: int) -> bool | None:
    """Whether all that listens on the loopback's `port` belongs to the process group `group`, and
    something does; None where this system does not tell."""
    if not Path(_TABLES[0]).exists():
        return None
    listening = set(_sockets_on(port))
    return bool(listening) and listening <= set(_sockets_of(group))


def _sockets_on(port: int) -> Iterator[str]:
    for table in _TABLES:
        if not Path(table).exists():
            continue
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            address, _, its_port = fields[1].partition(":")
            is_here = int(its_port, 16) == port and address in _REACHED_BY_LOOPBACK
            if is_here and fields[3] == _LISTENING:
                yield f"socket:[{fields[9]}]"


def _sockets_of(group: int) -> Iterator[str]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) != group:
                continue
            for each in (folder / "fd").iterdir():
                yield str(each.readlink())
        except OSError:
            continue  # it has ended, or closed that file
