"""After a restore: who may enter again, and that it was restored, in the audit of what was."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from controlplane.store.access_keys import list_keys, revoke_all_keys
from controlplane.store.archive import Archive
from controlplane.store.audit import record_change
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import open_database
from controlplane.store.integrity import ConfigDigest
from controlplane.store.users import list_users


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredAccess:
    """What opens the restored installation."""

    num_keys: int
    """In use; of expired ones nobody asks."""
    num_users: int
    """Who are not disabled."""
    num_revoked: int
    """Keys that were revoked now."""


def note_restored(
    urls: Mapping[DatabaseKind, str],
    archive: Archive,
    digest: ConfigDigest,
    *,
    revokes_keys: bool,
    actor: str,
    reason: str,
) -> RestoredAccess:
    """Enter the restore into the restored audit, and end all keys first if `revokes_keys`.

    All of it in one unit of work.
    """
    database = open_database(urls[DatabaseKind.CONFIG], DatabaseKind.CONFIG)
    try:
        with database.session() as session:
            num_revoked = 0
            if revokes_keys:
                num_revoked = revoke_all_keys(session, actor=actor, reason=reason or "restored")
            access = RestoredAccess(
                num_keys=sum(key.revoked_at_unix_ns is None for key in list_keys(session)),
                num_users=sum(not user.is_disabled for user in list_users(session)),
                num_revoked=num_revoked,
            )
            saved_at = datetime.fromtimestamp(archive.header.created_at_unix_ns // 10**9, UTC)
            record_change(
                session,
                actor=actor,
                action="database.restore",
                subject=f"database/{'+'.join(sorted(urls))}",
                reason=reason,
                before=None,  # only an empty database is restored into
                after={
                    "file": archive.path.name,
                    "saved_at": saved_at.isoformat().replace("+00:00", "Z"),
                    "saved_by_version": archive.header.version,
                    "config_digest": digest.digest,
                    "rows": archive.num_rows(urls),
                    "keys_in_use": access.num_keys,
                    "keys_revoked": access.num_revoked,
                    "users": access.num_users,
                },
            )
    finally:
        database.close()
    return access
