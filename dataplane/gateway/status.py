"""What a running gateway says of itself, in its status file."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

STATUS_FILE = "status.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStatus:
    """Written once the gateway listens."""

    gateway_id: str
    """Of this process; never reused."""
    name: str
    pid: int
    address: str
    """Base URL."""


def write_status(state_dir: Path, status: GatewayStatus) -> None:
    """Replace the status file in one step, so that no reader sees half of it."""
    replace_file(state_dir / STATUS_FILE, msgspec.json.encode(status))


def read_status(state_dir: Path) -> GatewayStatus:
    """Raises FileNotFoundError before the gateway listens."""
    return msgspec.json.decode((state_dir / STATUS_FILE).read_bytes(), type=GatewayStatus)


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` beside `path` and move it there."""
    scratch = path.with_name(path.name + ".new")
    scratch.write_bytes(data)
    scratch.replace(path)
