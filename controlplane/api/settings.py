"""What one control plane process is told when it starts. Read once, passed down, never changed."""

from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.open_state import OpenState
from controlplane.operator.settings import DEFAULT_DRAIN_SECONDS, OperatorSettings
from controlplane.slo.alerting_settings import AlertingSettings
from controlplane.store.connection import DatabaseKind, database_urls
from controlplane.store.retention import StorageSettings
from dataplane.access import AuthMode

_THIS_MACHINE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Who listens on every address is called by none of these names."""


class ControlPlaneSettings(BaseModel):
    """Where it listens and where its state is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state_dir: Path = Path(".pilothouse")
    host: str = "127.0.0.1"
    port: int = Field(default=8700, ge=0, le=65535)
    """0: any free port."""
    config_url: str | None = None
    """SQLAlchemy URL; None: SQLite under `state_dir`."""
    requests_url: str | None = None
    auth: AuthMode = AuthMode.OFF
    """Whether callers must show who they are."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose X-Forwarded headers count."""
    storage: StorageSettings = StorageSettings()
    """How much request data is kept."""
    always_on: AlwaysOnSettings = AlwaysOnSettings()
    """How closely deployments are diagnosed while it runs."""
    alerting: AlertingSettings = AlertingSettings()
    """Whether objectives are evaluated here, and who is told."""
    drain_seconds: float = Field(default=DEFAULT_DRAIN_SECONDS, ge=0)
    """How long a replica that is to end may go on with what it is doing."""

    @property
    def database_urls(self) -> dict[DatabaseKind, str]:
        """The URLs of both databases."""
        return database_urls(self.state_dir, self.config_url, self.requests_url)

    def database_url(self, kind: DatabaseKind) -> str:
        """The URL of one of the two databases."""
        return self.database_urls[kind]

    def open_state(self) -> OpenState:
        """Open the databases and begin to reconcile. Raises SchemaError."""
        return OpenState.open(
            self.state_dir,
            self.database_url(DatabaseKind.CONFIG),
            self.database_url(DatabaseKind.REQUESTS),
            OperatorSettings(drain_seconds=self.drain_seconds),
            self.storage,
            self.always_on,
            replace(self.alerting, console_url=self.console_url),
        )

    @property
    def console_url(self) -> str:
        """Where alerts lead to, unless somebody says where browsers reach the console: this machine
        at least opens it."""
        host = _THIS_MACHINE.get(self.host, self.host)
        address = f"[{host}]" if ":" in host else host
        return self.alerting.console_url or f"http://{address}:{self.port}"
