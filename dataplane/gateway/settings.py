"""What one gateway process is told when it starts. Read once, passed down, never changed."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from dataplane.access import AuthMode


class GatewaySettings(BaseModel):
    """All bounds of a gateway in one place."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    """Of the place, such as gateway-0; survives restarts."""
    state_dir: Path
    host: str = "127.0.0.1"
    port: int = Field(default=8701, ge=0, le=65535)
    """0: any free port."""
    advertise_host: str | None = None
    """The name under which the control plane reaches this gateway; None: the address it listens
    on, which is no address to call when that is 0.0.0.0."""
    control_plane: str | None = None
    """Base URL; None: only the snapshot on disk is served, and records stay in the spool."""
    control_plane_key: SecretStr | None = None
    """What the control plane knows this gateway by; None where it asks nobody who they are."""
    auth: AuthMode = AuthMode.OFF
    """Whether clients must show a key."""
    drain_seconds: float = Field(default=30.0, ge=0)
    """How long running streams may go on after SIGTERM."""
    leave_seconds: float = Field(default=600.0, ge=0)
    """How long they may go on once a successor has the port: nobody waits for their end."""

    max_choices: int = Field(default=16, ge=1)
    """Answers to one prompt (`n`) that a request may ask for."""
    max_answer_values: int = Field(default=2**17, ge=1)
    """Tokens that all answers to one prompt may have together, each counted with the likeliest
    tokens told beside it: n x output limit x (1 + top_logprobs)."""
    max_body_bytes: int = Field(default=4 * 2**20, gt=0)
    max_bodies_bytes: int = Field(default=256 * 2**20, gt=0)
    """Of all requests in flight together; whoever comes beyond it is answered 503."""
    body_seconds: float = Field(default=30.0, gt=0)
    """A request's body must be complete by then."""
    write_seconds: float = Field(default=60.0, gt=0)
    """A client that takes no byte for so long counts as gone."""
    unserved_seconds: float = Field(default=5.0, ge=0)
    """How long a request waits while no replica can be reached."""
    release_seconds: float = Field(default=30.0, gt=0)
    """An engine that has not confirmed an end and a release by then is no longer waited for."""
    surplus_slots: int = Field(default=2, ge=0)
    """Requests a replica is given beyond its active sequences, so that no step runs short."""
    default_output_tokens: int = Field(default=4096, gt=0)
    """The limit where neither the caller nor the endpoint knows one."""
    max_spool_bytes: int = Field(default=256 * 2**20, gt=0)
    """Records kept on disk while the control plane is away."""
    report_seconds: float = Field(default=1.0, gt=0)
    send_buffer_bytes: int = Field(default=16 * 2**10, gt=0)
    """Of each connection's socket: what it hides is unobservable, so it is small."""
