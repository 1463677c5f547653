"""Whether what is stored is what was stored: documents against their digests."""

import hashlib
from dataclasses import dataclass

from sqlalchemy import Connection, select

from controlplane.specs.kind import digest_of
from controlplane.store.tables import RevisionRow

_REVISIONS = RevisionRow.__table__


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDigest:
    """Every revision of a config database, and one digest over them all."""

    revisions: dict[str, str]
    """Digest by kind and label, like Model/smollm2@1, as it stands beside the document."""
    damaged: tuple[str, ...]
    """Those whose document has another digest."""

    @property
    def digest(self) -> str:
        """SHA-256 over every revision's name and digest, in hex: equal for equal config."""
        lines = "".join(f"{label} {digest}\n" for label, digest in sorted(self.revisions.items()))
        return hashlib.sha256(lines.encode()).hexdigest()


def read_config_digest(connection: Connection) -> ConfigDigest:
    """Computes the digest of every stored document again."""
    columns = ("kind", "name", "number", "digest", "document")
    rows = connection.execute(select(*(_REVISIONS.c[name] for name in columns)))
    revisions: dict[str, str] = {}
    damaged = []
    for kind, name, number, digest, document in rows:
        label = f"{kind}/{name}@{number}"
        revisions[label] = digest
        if digest_of(document) != digest:
            damaged.append(label)
    return ConfigDigest(revisions=revisions, damaged=tuple(sorted(damaged)))


def find_damage(connection: Connection) -> str | None:
    """What the database's own check finds wrong, None when nothing. PostgreSQL has none."""
    if connection.dialect.name != "sqlite":
        return None
    [(verdict,), *_] = connection.exec_driver_sql("PRAGMA integrity_check").fetchall()
    if verdict != "ok":
        return str(verdict)
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    return f"{len(broken)} rows refer to rows that do not exist" if broken else None
