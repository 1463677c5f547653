"""`pilothouse db prune`, and what `pilothouse db check` says of request data."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from controlplane.cli.audited import Audit, open_audit, reason_option
from controlplane.cli.database_failures import EXIT_CODES, database_failures
from controlplane.cli.database_options import database_options, database_urls
from controlplane.cli.examples import examples
from controlplane.cli.progress import counting_bar
from controlplane.cli.storage_options import days_options, read_retention
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database, open_database
from controlplane.store.removal import count_removable, list_removed, oldest_of, remove_step
from controlplane.store.retention import Removal, Retention, Store, plan_by_age
from controlplane.store.room import give_back, used_bytes
from dataplane.clock import wall_clock

_STEP_ROWS = 5000


@click.command(
    epilog=examples(
        ("pilothouse db prune --dry-run", "what is older than it is kept"),
        ("pilothouse db prune --keep-full-days 3", "free some room now"),
    )
    + "\n\n"
    + EXIT_CODES
)
@click.option("--dry-run", is_flag=True, help="Count what would be removed, and remove nothing.")
@days_options
@reason_option
@database_options
def prune(
    dry_run: bool,
    reason: str,
    state_dir: Path,
    config_url: str | None,
    requests_url: str | None,
    **retention: Any,
) -> None:
    """Remove request data that is older than it is kept, at once.

    A running control plane does so by itself, a little at a time; this need not stop it. What
    was removed is entered into the audit in the config database, of which nothing else is
    touched. A bound on the size is kept by the control plane alone.
    """
    kept = read_retention(retention)
    urls = database_urls(state_dir, config_url, requests_url)
    with database_failures(), open_audit(urls[DatabaseKind.CONFIG]) as audit:
        database = open_database(urls[DatabaseKind.REQUESTS], DatabaseKind.REQUESTS)
        try:
            _prune(database, kept, dry_run, audit, reason)
        finally:
            database.close()


def say_request_data(database: Database) -> None:
    """How much there is, since when, and what is gone."""
    with database.reading() as session:
        num_bytes = used_bytes(session.connection())
        oldest = oldest_of(session)
        removed = list_removed(session)
    click.echo(f"  {num_bytes / 2**20:.0f} MiB of request data")
    for store, at in oldest.items():
        click.echo(f"  {store}: {'empty' if at is None else f'since {_instant(at)}'}")
    for each in removed:
        click.echo(
            f"  {each.store}: {each.num_rows} rows removed for their {each.reason}, "
            f"the last at {_instant(each.last_at_unix_ns)}"
        )


def _prune(
    database: Database, retention: Retention, is_dry_run: bool, audit: Audit, reason: str
) -> None:
    with database.reading() as session:
        oldest = oldest_of(session)
        removals = plan_by_age(retention, oldest, wall_clock())
        totals = {removal.store: count_removable(session, removal) for removal in removals}
    if not removals:
        click.echo("nothing is older than it is kept")
        return
    removed: dict[Store, int] = {}
    try:
        for removal in removals:
            if not is_dry_run:
                removed[removal.store] = 0
                for number in _remove(database, removal, totals[removal.store]):
                    removed[removal.store] += number
            number = totals[removal.store] if is_dry_run else removed[removal.store]
            before = _instant(removal.before_unix_ns)
            did = "would remove" if is_dry_run else "removed"
            click.echo(f"{removal.store}: {did} {number} rows from before {before}")
    finally:
        # Also when it was broken off: what is gone is gone.
        if any(removed.values()):
            audit.note(
                "database.prune",
                "database/requests",
                reason,
                before={store: _instant_or_none(oldest[store]) for store in removed},
                after=_facts(removals, removed),
            )


def _facts(removals: list[Removal], removed: dict[Store, int]) -> dict[str, Any]:
    return {
        removal.store: {
            "rows_removed": removed[removal.store],
            "older_than": _instant(removal.before_unix_ns),
        }
        for removal in removals
        if removal.store in removed
    }


def _remove(database: Database, removal: Removal, total: int) -> Iterator[int]:
    """Numbers of rows, as they are removed."""
    done = 0
    with counting_bar() as progress:
        while done < total:
            with database.session() as session:
                step = remove_step(session, removal, _STEP_ROWS, wall_clock())
            if step == 0:
                return
            done += step
            yield step
            progress(f"removing {removal.store}", done, total)
        is_giving_back = True
        while is_giving_back:
            with database.session() as session:
                is_giving_back = give_back(session.connection()) > 0


def _instant_or_none(unix_ns: int | None) -> str | None:
    return None if unix_ns is None else _instant(unix_ns)


def _instant(unix_ns: int) -> str:
    return f"{datetime.fromtimestamp(unix_ns / 1e9, UTC):%Y-%m-%d %H:%M:%SZ}"
