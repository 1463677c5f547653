"""How a server is started: what a plugin says, as plain data."""

import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"


class ProgramMissingError(Exception):
    """The server's program is not on this machine; the message says the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """One server, listening on the loopback."""

    argv: tuple[str, ...]
    port: int
    environment: Mapping[str, str]
    """All of it."""

    @property
    def address(self) -> str:
        """host:port."""
        return f"{LOOPBACK}:{self.port}"


def find_program(named: str | None, usual: str, product: str) -> str:
    """The absolute path of a server's program. Raises ProgramMissingError."""
    found = shutil.which(named or usual)
    if found is not None:
        return os.path.abspath(found)  # noqa: PTH100  (a virtual environment is known by its link)
    where = f"settings.server_executable names {named}, which" if named else f"{usual}, which"
    raise ProgramMissingError(
        f"{where} is no program here: install {product} into an environment of its own, and name "
        f"its program's absolute path in settings.server_executable"
    )


def environment_with(entries: Sequence[str]) -> dict[str, str]:
    """Our environment, and `entries` of NAME=value over it."""
    return {**os.environ, **{name: value for name, _, value in (e.partition("=") for e in entries)}}


def flags(**values: object) -> tuple[str, ...]:
    """`--max-model-len 2048` for max_model_len=2048; what is None is left out."""
    told = {name: value for name, value in values.items() if value is not None}
    pairs = ((f"--{name.replace('_', '-')}", str(value)) for name, value in told.items())
    return tuple(word for pair in pairs for word in pair)


def free_port() -> int:
    """Free a moment ago, on the loopback."""
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        return int(one.getsockname()[1])
