"""`pilothouse db`: the two databases, in SQLite or PostgreSQL."""

from pathlib import Path

import click

from controlplane.cli.backup import backup, restore
from controlplane.cli.database_failures import EXIT_CODES, database_failures
from controlplane.cli.database_options import database_options, database_urls
from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.prune import prune, say_request_data
from controlplane.cli.sole_use import sole_use
from controlplane.store.connection import DatabaseKind, create_bare_engine
from controlplane.store.database import open_database
from controlplane.store.integrity import find_damage, read_config_digest
from controlplane.store.schema import (
    SchemaReport,
    SchemaState,
    describe_schema,
    inspect_schema,
)
from controlplane.store.upgrade import try_upgrade, upgrade_database


@click.group()
def db() -> None:
    """Create, upgrade, check, save and restore the databases."""


@db.command(
    epilog=examples(
        ("pilothouse db upgrade", "create or upgrade both"),
        ("pilothouse db upgrade --dry-run", "try it first, and keep nothing of it"),
    )
    + "\n\n"
    + EXIT_CODES
)
@database_options
@click.option(
    "--dry-run",
    is_flag=True,
    help="Try it and keep nothing of it: on a copy of an SQLite file. PostgreSQL runs it in the "
    "database itself and rolls it back, and whoever uses that database waits meanwhile.",
)
def upgrade(
    state_dir: Path, config_url: str | None, requests_url: str | None, dry_run: bool
) -> None:
    """Bring both databases to the schema that this version knows, creating what is missing.

    Stop the control plane first, for --dry-run as well; one that runs on this state directory, or
    on the same databases wherever it is, makes this refuse. Each database is upgraded
    whole or not at all: SQLite on a copy first, PostgreSQL in one transaction.
    """
    urls = database_urls(state_dir, config_url, requests_url)
    with (
        database_failures(),
        sole_use(state_dir, urls, "pilothouse db upgrade"),
    ):
        for kind, url in urls.items():
            did = (
                _would_do(try_upgrade(url, kind)) if dry_run else _did(upgrade_database(url, kind))
            )
            click.echo(f"{kind}: {did}")


@db.command(
    epilog=examples(
        ("pilothouse db check", "how they stand"),
        ("pilothouse db check --deep", "and every digest again"),
    )
    + "\n\n"
    + EXIT_CODES
)
@database_options
@click.option("--deep", is_flag=True, help="Also compute every stored document's digest again.")
def check(state_dir: Path, config_url: str | None, requests_url: str | None, deep: bool) -> None:
    """Say how both databases stand and what request data there is, changing nothing."""
    exit_code = ExitCode.OK
    with database_failures():
        for kind, url in database_urls(state_dir, config_url, requests_url).items():
            report = inspect_schema(url, kind)
            click.echo(describe_schema(report))
            if report.state is not SchemaState.CURRENT:
                exit_code = max(exit_code, ExitCode.UNUSABLE_STATE)
                continue
            if kind is DatabaseKind.REQUESTS:
                _say_request_data(url)
            if deep and not _is_sound(url, kind):
                exit_code = max(exit_code, ExitCode.FAILED)
    raise SystemExit(exit_code)


db.add_command(backup)
db.add_command(restore)
db.add_command(prune)


def _say_request_data(url: str) -> None:
    database = open_database(url, DatabaseKind.REQUESTS)
    try:
        say_request_data(database)
    finally:
        database.close()


def _did(before: SchemaReport) -> str:
    match before.state:
        case SchemaState.ABSENT:
            return f"created with schema {before.expected}"
        case SchemaState.CURRENT:
            return f"already at schema {before.expected}"
        case _:
            return f"upgraded from schema {before.found or 'none'} to {before.expected}"


def _would_do(before: SchemaReport) -> str:
    match before.state:
        case SchemaState.ABSENT:
            return f"would be created with schema {before.expected}"
        case SchemaState.CURRENT:
            return f"already at schema {before.expected}"
        case _:
            return f"can be upgraded from schema {before.found or 'none'} to {before.expected}"


def _is_sound(url: str, kind: DatabaseKind) -> bool:
    """Say what a deep check finds."""
    engine = create_bare_engine(url)
    try:
        with engine.connect() as connection:
            damage = find_damage(connection)
            config = read_config_digest(connection) if kind is DatabaseKind.CONFIG else None
    finally:
        engine.dispose()
    if damage is not None:
        click.echo(f"  damaged: {damage}. Restore a backup")
    if config is not None:
        click.echo(f"  config digest {config.digest} over {len(config.revisions)} revisions")
        for label in config.damaged:
            click.echo(f"  {label} is not the document that was stored. Restore a backup")
    return damage is None and not (config is not None and config.damaged)
