"""Who listens where on this machine, as the kernel has it in /proc."""

from collections.abc import Iterator
from pathlib import Path

_TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")
_LISTENING = "0A"
_REACHED_BY_LOOPBACK = frozenset({
    "0100007F", "00000000", "0" * 32, "0000000000000000FFFF00000100007F",
    "0000000000000000FFFF000000000000",
})  # fmt: skip
"""Local addresses, as the kernel writes them, that a connection to 127.0.0.1 may end at."""


def is_told() -> bool:
    """Whether this system tells who listens."""
    return Path(_TABLES[0]).exists()


def ports_by_socket() -> dict[str, int]:
    """What listens where a connection to the loopback may end: `socket:[inode]` and its port."""
    return dict(_listening())


def sockets_on(port: int) -> set[str]:
    """All that listen on the loopback's `port`, as `socket:[inode]`."""
    return {socket for socket, its_port in _listening() if its_port == port}


def sockets_of(pid: int) -> set[str]:
    """What a process has open, as `socket:[inode]`; of another user's process nothing is told."""
    return {each for each in _open_files(pid) if each.startswith("socket:")}


def _listening() -> Iterator[tuple[str, int]]:
    for table in _TABLES:
        if not Path(table).exists():
            continue
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            address, _, port = fields[1].partition(":")
            if address in _REACHED_BY_LOOPBACK and fields[3] == _LISTENING:
                yield f"socket:[{fields[9]}]", int(port, 16)


def _open_files(pid: int) -> Iterator[str]:
    try:
        files = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return  # it has ended, or is not ours
    for each in files:
        try:
            yield str(each.readlink())
        except OSError:
            continue  # it closed that file
