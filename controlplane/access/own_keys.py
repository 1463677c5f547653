"""Keys of our own processes: made by themselves, kept in files that only their user can read.

With authentication on, gateways and the control plane show each other keys like everybody
else. Those live under `secrets/` of the state directory, one file each; a file or a row that
is lost is simply replaced by a new key, and the old one is revoked.
"""

import contextlib
from pathlib import Path

from controlplane.store.access_grants import AccessError
from controlplane.store.access_keys import add_key, find_key, revoke_key
from controlplane.store.database import Database
from dataplane.access import Role, judge_key, key_id_of, read_key_file
from dataplane.atomic_file import replace_file
from dataplane.clock import WallClock, wall_clock

_ACTOR = "pilothouse"
_REASON = "for a process of this installation"


def secrets_dir(state_dir: Path) -> Path:
    """Where keys of our own processes are."""
    return state_dir / "secrets"


def ensure_key(
    database: Database,
    path: Path,
    name: str,
    role: Role,
    gateway: str | None = None,
    wall: WallClock = wall_clock,
) -> str:
    """The key in the file at `path`, made anew unless it is known as `name` with this role.

    Raises OSError when the file cannot be written.
    """
    text = _read(path)
    if text is not None and _is_good(database, text, name, role, gateway, wall()):
        return text
    with database.session() as session:
        with contextlib.suppress(AccessError):  # there was none, as at the first start
            revoke_key(session, name, actor=_ACTOR, reason="its file was lost or replaced")
        new = add_key(
            session,
            name=name,
            role=role,
            tenant=None,
            gateway=gateway,
            expires_at_unix_ns=None,
            actor=_ACTOR,
            reason=_REASON,
            clock=wall,
        )
        # Inside the transaction: a key that could not be written down must not exist.
        replace_file(path, f"{new.text}\n".encode(), is_private=True)
    return new.text


def _read(path: Path) -> str | None:
    try:
        return read_key_file(path)
    except (FileNotFoundError, ValueError):
        return None


def _is_good(
    database: Database, text: str, name: str, role: Role, gateway: str | None, now_unix_ns: int
) -> bool:
    with database.reading() as session:
        found = find_key(session, key_id_of(text) or "")
    if found is None:
        return False
    key, known_as = found
    return (known_as, key.role, key.gateway) == (name, role, gateway) and (
        judge_key(text, key, now_unix_ns) is None
    )
