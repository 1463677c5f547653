"""Attached endpoints: somebody else's running servers, which are listed and never started."""

from controlplane.hooks import ReplicaObservation
from dataplane.engine import EngineProcess, ReplicaSpec, ReplicaStatus

ATTACHED = "attached"
OBSERVED = "observed"
"""Of a deployment that is only observed."""
ATTACHED_LAUNCHERS = frozenset({ATTACHED, OBSERVED})
"""Stand where the launcher of a replica is named."""
ATTACHED_REASON = "attached, not probed"
PROVEN_REASON = "attached; a gateway sends it requests once it has generated a token"
"""Of an engine whose client lets it prove itself: only gateways have the endpoint's key."""
OBSERVED_REASON = "observed only: its metrics are read, and no request passes through Pilothouse"
KEYLESS_REASON = "its metrics are read without its key, which is in gateways' environment alone"
"""Added for an endpoint with a key: one whose metrics ask for it is silent to the diagnosis."""


def is_attached(artifact: str, process: EngineProcess | None) -> bool:
    """A replica of `artifact` is somebody else's running server: its engine cannot be started, or
    can, and the Model names a server that runs."""
    if process is None:
        return True
    return process.attaches and artifact.startswith(("http://", "https://"))


def why_ready(spec: ReplicaSpec, is_observed: bool, process: EngineProcess | None) -> str:
    """An attached endpoint is ready at once, as far as the control plane can know."""
    reason = ATTACHED_REASON if process is None else PROVEN_REASON
    if is_observed:
        reason = OBSERVED_REASON
    has_key = any(spec.settings.get(name) for name in ("api_key_env", "api_key_file"))
    return f"{reason}; {KEYLESS_REASON}" if has_key else reason


class AttachedEndpoints:
    """Keeps the pseudo replicas of attached endpoints, one thread's alone.

    Like a launcher, but nothing outlives it: after a restart they come back from the database.
    """

    def __init__(self) -> None:
        self._specs: dict[str, ReplicaSpec] = {}

    def attach(self, spec: ReplicaSpec) -> None:
        """List the endpoint at `spec.artifact`."""
        self._specs[spec.replica_id] = spec

    def observe(self) -> list[ReplicaObservation]:
        """Every listed endpoint, as if it served: whether it does is the gateways' to find out."""
        return [
            ReplicaObservation(
                spec=spec,
                pid=None,
                is_alive=True,
                status=ReplicaStatus(
                    replica_id=spec.replica_id,
                    pid=0,
                    stage="serving",
                    address=spec.artifact,
                    metrics_address=None,
                    stages={},
                ),
            )
            for spec in self._specs.values()
        ]

    def stop(self, replica_id: str, is_forced: bool = False) -> None:
        """Detach: the endpoint itself is not ours to stop."""
        self._specs.pop(replica_id, None)

    def forget(self, replica_id: str) -> None:
        """Unknown ids are no error."""
        self._specs.pop(replica_id, None)
