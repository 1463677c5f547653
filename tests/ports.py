"""Ports for processes that take them a moment later."""

import random
import socket

_BELOW_EPHEMERAL = range(10_000, 32_000)
"""Below those that the system gives to whoever asks for any: tests that run beside do so all the
time, and would now and then be given a port that was promised here."""


def free_ports(count: int) -> list[int]:
    """Different ports of this machine that nobody listens at."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_BELOW_EPHEMERAL, len(_BELOW_EPHEMERAL)):
        if len(found) == count:
            return found
        if _is_free(port):
            found.append(port)
    raise OSError(f"fewer than {count} ports are free")


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
