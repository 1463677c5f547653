"""What one `pilothouse serve` is told. Imports nothing that a second start can do without."""

import hashlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from dataplane.access import AuthMode
from dataplane.owned_server.grants import OPTIONS_VARIABLE, PROGRAMS_VARIABLE

CONTROL_PLANE = "controlplane"
GATEWAY = "gateway-0"
DEFAULT_PORT = 8700
CONFIG_URL_VARIABLE = "PILOTHOUSE_CONFIG_URL"
REQUESTS_URL_VARIABLE = "PILOTHOUSE_REQUESTS_URL"
DATABASE_VARIABLES = frozenset(
    {
        CONFIG_URL_VARIABLE,
        REQUESTS_URL_VARIABLE,
        f"{CONFIG_URL_VARIABLE}_FILE",
        f"{REQUESTS_URL_VARIABLE}_FILE",
        "PGPASSWORD",
        "PGPASSFILE",
    }
)
"""Where databases are, and with which password."""
LEAVE_SECONDS = 600.0
"""How long a gateway that was replaced may go on with its streams: nobody waits for it."""
_HOST = "127.0.0.1"


class Demo(StrEnum):
    """What a first start serves that is given no documents."""

    NATIVE = "native"
    """A small model in the native engine."""
    SIMULATOR = "simulator"
    """No model: no torch and no weights are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """One installation on this machine."""

    state_dir: Path
    """Absolute."""
    port: int
    """Of the control plane."""
    gateway_port: int
    config_dir: Path | None
    """Documents to apply at this start; None: the packaged demo, at the first start only."""
    drain_seconds: float
    demo: Demo | None = None
    """Which, where somebody chose."""
    auth: AuthMode = AuthMode.OFF
    """Whether callers of control plane and gateway must show who they are."""
    config_url: str | None = None
    """Of the config database; None: a file in `state_dir`. It may hold a password."""
    requests_url: str | None = None
    storage_arguments: tuple[str, ...] = ()
    """The control plane's options for how much request data it keeps."""
    diagnosis_arguments: tuple[str, ...] = ()
    """The control plane's options for how it diagnoses."""
    alerting_arguments: tuple[str, ...] = ()
    """And for whom it tells of alerts."""

    @property
    def database_environment(self) -> dict[str, str]:
        """What tells the control plane where its databases are."""
        urls = {CONFIG_URL_VARIABLE: self.config_url, REQUESTS_URL_VARIABLE: self.requests_url}
        return {variable: url for variable, url in urls.items() if url is not None}

    @property
    def gateway_key_path(self) -> Path:
        """Where the gateway finds the key that it shows the control plane."""
        return self.state_dir / "secrets" / f"{GATEWAY}.key"

    @property
    def own_key_path(self) -> Path:
        """Where serve itself finds the key with which it watches."""
        return self.state_dir / "secrets" / "serve.key"

    @property
    def gateway_state_dir(self) -> Path:
        """Where the gateway keeps its snapshot, its records and its status."""
        return self.state_dir / "gateways" / GATEWAY

    @property
    def control_plane_url(self) -> str:
        """Base URL."""
        return f"http://{_HOST}:{self.port}"

    @property
    def gateway_url(self) -> str:
        """Base URL, without /v1."""
        return f"http://{_HOST}:{self.gateway_port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """A process that serve keeps running."""

    name: str
    role: str
    host: str
    port: int
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it is told besides, in variables that this process has set."""

    @property
    def whole_environment(self) -> dict[str, str]:
        """All that it inherits of ours. Only the control plane is told where databases are,
        and nobody the key of whoever typed the command."""
        withheld = {"PILOTHOUSE_KEY", "PILOTHOUSE_KEY_FILE"}
        if self.name != CONTROL_PLANE:
            withheld |= DATABASE_VARIABLES
        return {key: value for key, value in os.environ.items() if key not in withheld}

    @property
    def digest(self) -> str:
        """SHA-256 of all that decides how it behaves: an earlier process with another one is
        not adopted. Telemetry is configured by environment, so that counts too, and so does what
        the control plane may start for config."""
        counts = {key: value for key, value in os.environ.items() if self._counts(key)}
        environment = {**counts, **self.environment}
        version = importlib.metadata.version("pilothouse")
        meaning = json.dumps([self.argv, version, environment], sort_keys=True)
        return hashlib.sha256(meaning.encode()).hexdigest()

    def _counts(self, variable: str) -> bool:
        if self.name == CONTROL_PLANE and variable in (PROGRAMS_VARIABLE, OPTIONS_VARIABLE):
            return True
        return variable.startswith("OTEL_")


def gateway_spec(settings: ServeSettings) -> ChildSpec:
    """The one gateway."""
    return ChildSpec(
        name=GATEWAY,
        role="gateway",
        host=_HOST,
        port=settings.gateway_port,
        argv=(
            sys.executable, "-m", "dataplane.gateway", "--name", GATEWAY, "--host", _HOST,
            "--port", str(settings.gateway_port), "--control-plane", settings.control_plane_url,
            "--state-dir", str(settings.gateway_state_dir), "--take-over",
            "--drain-seconds", f"{settings.drain_seconds:g}",
            "--leave-seconds", f"{LEAVE_SECONDS:g}", *_auth(settings),
            *(("--key-file", str(settings.gateway_key_path)) if _is_guarded(settings) else ()),
        ),
    )  # fmt: skip


def control_plane_spec(settings: ServeSettings) -> ChildSpec:
    """The control plane."""
    return ChildSpec(
        name=CONTROL_PLANE,
        role="controlplane",
        host=_HOST,
        port=settings.port,
        argv=(
            sys.executable, "-m", "controlplane.cli", "controlplane", "--host", _HOST,
            "--port", str(settings.port), "--state-dir", str(settings.state_dir),
            "--drain-seconds", f"{settings.drain_seconds:g}", *_auth(settings),
            *settings.storage_arguments, *settings.diagnosis_arguments,
            *settings.alerting_arguments,
        ),
        environment=settings.database_environment,
    )  # fmt: skip


def _auth(settings: ServeSettings) -> tuple[str, ...]:
    return ("--auth", settings.auth.value) if _is_guarded(settings) else ()


def _is_guarded(settings: ServeSettings) -> bool:
    return settings.auth is AuthMode.REQUIRED
