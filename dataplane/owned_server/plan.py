"""How a server is started: what a plugin says, as plain data."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dataplane.openai_endpoint.settings import EngineEndpointSettings
from dataplane.owned_server.environment import server_environment
from dataplane.owned_server.grants import PROGRAMS_VARIABLE, Grants
from dataplane.owned_server.terms import LaunchTerms, check_launch

LOOPBACK = "127.0.0.1"


class ProgramMissingError(Exception):
    """The server's program is not on this machine; the message says the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """One server, listening on the loopback."""

    argv: tuple[str, ...]
    port: int
    environment: Mapping[str, str] = field(repr=False)
    """All of it."""
    start_lines: Mapping[str, str] = field(default_factory=dict)
    """As its LaunchTerms have them."""

    @property
    def address(self) -> str:
        """host:port."""
        return f"{LOOPBACK}:{self.port}"


def plan_server(
    terms: LaunchTerms,
    settings: EngineEndpointSettings,
    words: Sequence[str],
    port: int,
    more_environment: Mapping[str, str] | None = None,
) -> ServerPlan:
    """The program that `terms` and this process's environment allow, with `words` of the adapter
    and then those of `settings`. Raises ValueError for settings that are not allowed here or whose
    key cannot be had, and ProgramMissingError."""
    ours = os.environ
    grants = Grants.of(ours)
    problems = check_launch(terms, settings, grants)
    if problems:
        raise ValueError("; ".join(f"settings.{key}: {what}" for key, what in problems))
    return ServerPlan(
        argv=(_program(terms, settings.server_executable, grants), *words, *settings.server_args),
        port=port,
        environment={
            **server_environment(ours, settings.server_environment),
            **(more_environment or {}),
            **_key(terms, settings),
        },
        start_lines=terms.start_lines,
    )


def _program(terms: LaunchTerms, named: str | None, grants: Grants) -> str:
    found = grants.find_usual(terms.program) if named is None else grants.find_named(named)
    if found is not None and os.access(found, os.X_OK):
        return found
    where = f"{named}, which settings.server_executable names," if named else terms.program
    raise ProgramMissingError(
        f"{where} is no program here: install {terms.product} into an environment of its own, and "
        f"name its program's absolute path in {PROGRAMS_VARIABLE} in the control plane's "
        f"environment"
    )


def _key(terms: LaunchTerms, settings: EngineEndpointSettings) -> dict[str, str]:
    key = settings.read_api_key()
    if key is None:
        return {}
    if terms.key_variable is None:
        raise ValueError(
            f"{terms.product} takes its key only as an argument, which everybody on the machine "
            f"can read: leave api_key_env and api_key_file out, it listens on the loopback alone"
        )
    return {terms.key_variable: key}


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
