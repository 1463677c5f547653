"""What a command does by itself, without the control plane, entered into the audit all the same."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from controlplane.cli.author import default_author
from controlplane.store.audit import record_change
from controlplane.store.database import Database, DatabaseKind, open_database
from controlplane.store.database_url import place_of
from controlplane.store.schema import SchemaState, inspect_schema

reason_option = click.option("--reason", default="", help="For the audit.")


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of one config database."""

    _database: Database | None
    """None: there is no such database."""
    _place: str

    def note(
        self,
        action: str,
        subject: str,
        reason: str,
        *,
        before: Mapping[str, Any] | None,
        after: Mapping[str, Any] | None,
    ) -> None:
        """Enter one change, by whoever runs this command; without a database, say so instead."""
        if self._database is None:
            click.echo(
                f"this is in no audit: there is no config database at {self._place}; "
                f"--config-url names another",
                err=True,
            )
            return
        with self._database.session() as session:
            record_change(
                session,
                actor=default_author(),
                action=action,
                subject=subject,
                reason=reason,
                before=before,
                after=after,
            )


@contextmanager
def open_audit(config_url: str) -> Iterator[Audit]:
    """Opened before anything is done, so that nothing is done that could not be entered.

    Raises SchemaError and UnreachableError for a database that is there and cannot be used.
    """
    place = place_of(config_url)
    if inspect_schema(config_url, DatabaseKind.CONFIG).state is SchemaState.ABSENT:
        yield Audit(None, place)
        return
    database = open_database(config_url, DatabaseKind.CONFIG)
    try:
        yield Audit(database, place)
    finally:
        database.close()
