"""What a running gateway says of itself, in its status file."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from dataplane.atomic_file import replace_file

STATUS_FILE = "status.json"
PROBE_HEADER = "x-pilothouse-probe"
"""Carries the probe key."""
DEPLOYMENTS_PATH = "/internal/deployments"
"""What the gateway could serve right now; open to probes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStatus:
    """Written once the gateway listens, by each process of the place after the other."""

    gateway_id: str
    """Of this process; never reused."""
    name: str
    pid: int
    address: str
    """Base URL."""
    probe_key: str = ""
    """Sent as x-pilothouse-probe it makes a request a probe, which is no tenant's. Whoever may
    read this file started the gateway, or is root."""
    num_successors_failed: int = 0
    """Processes that this one started to take its place and that ended before they served."""


def write_status(state_dir: Path, status: GatewayStatus) -> None:
    """Replace the status file in one step, so that no reader sees half of it."""
    replace_file(state_dir / STATUS_FILE, msgspec.json.encode(status), is_private=True)


def read_status(state_dir: Path) -> GatewayStatus:
    """Raises FileNotFoundError before the gateway listens."""
    return msgspec.json.decode((state_dir / STATUS_FILE).read_bytes(), type=GatewayStatus)
