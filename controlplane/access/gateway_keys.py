"""The keys that the control plane shows gateways: one for each, which opens that one alone.

It goes to whatever address a gateway says it has. So it must be worth nothing anywhere else:
neither at the control plane nor at another gateway.
"""

import hashlib
import threading
from pathlib import Path

from controlplane.access.own_keys import ensure_key
from controlplane.store.database import Database
from dataplane.access import Role


def key_path(folder: Path, gateway: str) -> Path:
    """The file in `folder` with the key for the gateway called so."""
    # Not by its name: that is whatever its key is called.
    return folder / f"for-gateway-{hashlib.sha256(gateway.encode()).hexdigest()[:16]}.key"


class GatewayKeys:
    """Made when first asked for; threads share it."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._lock = threading.Lock()
        self._keys: dict[str, str] = {}

    def get(self, gateway: str) -> tuple[str, bool]:
        """The key for the gateway called so, and whether it was made just now."""
        with self._lock:
            known = self._keys.get(gateway)
            if known is not None:
                return known, False
            path = key_path(self._folder, gateway)
            was_there = path.exists()
            self._keys[gateway] = ensure_key(
                self._database,
                path,
                f"control plane for {gateway}"[:128],
                Role.CONTROL_PLANE,
                gateway=gateway,
            )
            return self._keys[gateway], not was_there
