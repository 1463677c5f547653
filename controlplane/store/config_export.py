"""The whole of the config, to be carried elsewhere: every revision, and where deployments stand.

What says where deployments stand goes with the documents: from these alone, a candidate that a
rollout has turned down would run at once. Rows name revisions as `Kind/name@number` and never by a
database's own ids, so that an export reads the same whatever it came from.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import Column, Table, select
from sqlalchemy.orm import Session

from controlplane.specs.kind import Kind, digest_of
from controlplane.store.integrity import ConfigDigest
from controlplane.store.revision import Revision, read_revision
from controlplane.store.rollout_tables import RolloutMoveRow, RolloutRow
from controlplane.store.tables import ConfigBase, DeploymentChangeRow, DeploymentRow, RevisionRow

FORMAT = "pilothouse export"
VERSION = 1


def _table(row: type[ConfigBase]) -> Table:
    table = row.__table__
    assert isinstance(table, Table)
    return table


TABLES: dict[str, tuple[Table, str]] = {
    row.__tablename__: (_table(row), order)
    for row, order in (
        (DeploymentRow, "name"),
        (DeploymentChangeRow, "id"),
        (RolloutRow, "number"),
        (RolloutMoveRow, "id"),
    )
}
"""What says where deployments stand, and came to stand, with the column that it is ordered by; in
the order in which it can be stored again."""
_LEFT_OUT = {("deployments", "observed_generation")}
"""What another operator has brought about, it has not here."""


class ExportedRevision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One revision, as it was stored."""

    kind: Kind
    name: str
    number: int
    digest: str
    author: str
    reason: str
    created_at_unix_ns: int
    document: dict[str, Any]

    @property
    def label(self) -> str:
        """`Kind/name@number`."""
        return f"{self.kind}/{self.name}@{self.number}"


class ExportedRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row that says where a deployment stands, or stood."""

    table: str
    values: dict[str, Any]
    """By column; revisions as `Kind/name@number`."""


class ConfigExport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of it. Keys, users, the audit, overrides, replicas and request data are no config."""

    format: str = FORMAT
    version: int = VERSION
    digest: str
    """Over every revision, as `pilothouse db backup` and `db check --deep` tell it."""
    revisions: tuple[ExportedRevision, ...]
    """In the order in which they were stored."""
    rows: tuple[ExportedRow, ...]


class DamagedConfigError(Exception):
    """What is stored is not what was stored."""


def export_config(session: Session) -> ConfigExport:
    """Everything that `session` sees. Raises DamagedConfigError."""
    stored = session.scalars(select(RevisionRow).order_by(RevisionRow.id))
    revisions = {row.id: _exported(read_revision(row)) for row in stored}
    damaged = [each.label for each in revisions.values() if digest_of(each.document) != each.digest]
    if damaged:
        raise DamagedConfigError(
            f"{', '.join(damaged[:10])} is not the document that was stored: restore a backup with "
            f"`pilothouse db restore`, and export that"
        )
    labels = {number: each.label for number, each in revisions.items()}
    return ConfigExport(
        digest=digest_over(tuple(revisions.values())),
        revisions=tuple(revisions.values()),
        rows=tuple(_rows(session, labels)),
    )


def digest_over(revisions: tuple[ExportedRevision, ...]) -> str:
    """One digest over all of them."""
    return ConfigDigest(
        revisions={each.label: each.digest for each in revisions}, damaged=()
    ).digest


def exported_columns(table: Table) -> list[Column[Any]]:
    """Those that mean something elsewhere, too."""
    return [
        column
        for column in table.columns
        if column.name != "id" and (table.name, column.name) not in _LEFT_OUT
    ]


def is_of_revision(column: Column[Any]) -> bool:
    """It holds the database's own id of a revision."""
    return any(key.column.table.name == RevisionRow.__tablename__ for key in column.foreign_keys)


def _rows(session: Session, labels: dict[int, str]) -> Iterator[ExportedRow]:
    for name, (table, order) in TABLES.items():
        columns = exported_columns(table)
        for row in session.execute(select(*columns).order_by(table.columns[order])):
            values = {
                column.name: labels[value]
                if is_of_revision(column) and value is not None
                else value
                for column, value in zip(columns, row, strict=True)
            }
            yield ExportedRow(table=name, values=values)


def _exported(revision: Revision) -> ExportedRevision:
    return ExportedRevision(
        kind=revision.kind,
        name=revision.name,
        number=revision.number,
        digest=revision.digest,
        author=revision.author,
        reason=revision.reason,
        created_at_unix_ns=revision.created_at_unix_ns,
        document=revision.document,
    )
