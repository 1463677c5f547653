"""Taking an export in: into an empty config database, whole or not at all."""

from collections import Counter
from typing import Any

import msgspec
from sqlalchemy import Table, select
from sqlalchemy.exc import DatabaseError, StatementError
from sqlalchemy.orm import Session

from controlplane.specs.kind import digest_of
from controlplane.store.audit import record_change
from controlplane.store.config_export import (
    FORMAT,
    TABLES,
    VERSION,
    ConfigExport,
    ExportedRevision,
    ExportedRow,
    digest_over,
    exported_columns,
    is_of_revision,
)
from controlplane.store.revisions import list_latest
from controlplane.store.stored_tables import continue_numbering
from controlplane.store.tables import RevisionRow
from dataplane.clock import WallClock, wall_clock


class RefusedExportError(ValueError):
    """An export that is not what was exported; says where. Nothing was stored."""


class FilledDatabaseError(Exception):
    """There is config already. Nothing was stored."""


def decode_export(data: bytes) -> ConfigExport:
    """Read and check one whole. Raises RefusedExportError."""
    try:
        export = msgspec.json.decode(data, type=ConfigExport)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedExportError(f"this is no export of Pilothouse's: {error}") from error
    check_export(export)
    return export


def check_export(export: ConfigExport) -> None:
    """Every document is what its digest says, and all of them are there. Raises
    RefusedExportError."""
    if (export.format, export.version) != (FORMAT, VERSION):
        raise RefusedExportError(
            f"this is {export.format!r} of version {export.version}, and this Pilothouse reads "
            f"{FORMAT!r} of version {VERSION}: import it with the version that wrote it"
        )
    twice = [each for each, num in Counter(r.label for r in export.revisions).items() if num > 1]
    if twice:
        raise RefusedExportError(f"{twice[0]} is there twice: export again")
    for revision in export.revisions:
        _check_revision(revision)
    if digest_over(export.revisions) != export.digest:
        raise RefusedExportError(
            f"the {len(export.revisions)} revisions that are here are not those that were "
            f"exported: lines are missing or were changed. Export again"
        )


def import_config(
    session: Session, export: ConfigExport, *, actor: str, clock: WallClock = wall_clock
) -> None:
    """Store a checked one, with the numbers that it has, in the caller's unit of work.

    Raises FilledDatabaseError and RefusedExportError, and then the unit of work must roll back.
    """
    _require_empty(session)
    try:
        ids = _store_revisions(session, export.revisions)
        for row in export.rows:
            _store_row(session, row, ids)
        for table, _ in TABLES.values():
            continue_numbering(session.connection(), table)
    except (DatabaseError, StatementError, ValueError) as error:
        why = error.orig if isinstance(error, DatabaseError) else error
        raise RefusedExportError(f"the export cannot be stored: {why}") from error
    record_change(
        session,
        actor=actor,
        action="config.import",
        subject="config/all",
        before=None,
        after={"digest": export.digest, "num_revisions": len(export.revisions)},
        clock=clock,
    )


def _check_revision(revision: ExportedRevision) -> None:
    metadata = revision.document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if (revision.document.get("kind"), name) != (revision.kind.value, revision.name):
        raise RefusedExportError(f"the document of {revision.label} is another one: export again")
    if digest_of(revision.document) != revision.digest:
        raise RefusedExportError(
            f"the document of {revision.label} has another digest than was exported: it was "
            f"changed since. Change documents with `pilothouse apply` after the import"
        )


def _require_empty(session: Session) -> None:
    found = list_latest(session)
    if found:
        first = found[0]
        raise FilledDatabaseError(
            f"there is config already ({len(found)} documents, {first.kind} {first.label} among "
            f"them), and an import keeps the numbers that revisions had: import into a control "
            f"plane over an empty database (another --state-dir or --config-url), or bring the "
            f"latest documents onto this one with `pilothouse apply -f DIR`"
        )


def _store_revisions(session: Session, revisions: tuple[ExportedRevision, ...]) -> dict[str, int]:
    rows = [
        RevisionRow(
            kind=each.kind.value,
            name=each.name,
            number=each.number,
            digest=each.digest,
            document=each.document,
            author=each.author,
            reason=each.reason,
            created_at_unix_ns=each.created_at_unix_ns,
        )
        for each in revisions
    ]
    session.add_all(rows)
    session.flush()
    stored = session.execute(select(RevisionRow))
    return {f"{row.kind}/{row.name}@{row.number}": row.id for (row,) in stored}


def _store_row(session: Session, row: ExportedRow, ids: dict[str, int]) -> None:
    if row.table not in TABLES:
        raise RefusedExportError(
            f"there is nothing called {row.table!r} here; there are {', '.join(TABLES)}"
        )
    table, _ = TABLES[row.table]
    session.execute(table.insert().values(_values(table, row, ids)))


def _values(table: Table, row: ExportedRow, ids: dict[str, int]) -> dict[str, Any]:
    columns = {column.name: column for column in exported_columns(table)}
    strange = sorted(set(row.values) ^ set(columns))
    if strange:
        raise RefusedExportError(
            f"a row of {row.table} has not what it has here ({strange[0]} differs): import it "
            f"with the version that wrote it, then upgrade"
        )
    return {
        name: _id(row, value, ids) if is_of_revision(columns[name]) else value
        for name, value in row.values.items()
    }


def _id(row: ExportedRow, label: object, ids: dict[str, int]) -> int | None:
    if label is None:
        return None
    if not isinstance(label, str) or label not in ids:
        raise RefusedExportError(
            f"a row of {row.table} names {label}, which is none of the revisions: export again"
        )
    return ids[label]
