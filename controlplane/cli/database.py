"""`pilothouse db`: the schemas of the two databases."""

from pathlib import Path

import click

from controlplane.cli.options import config_url_option, requests_url_option
from controlplane.store.connection import DatabaseKind, default_paths, sqlite_url
from controlplane.store.schema import (
    SchemaError,
    SchemaState,
    describe_schema,
    inspect_schema,
)
from controlplane.store.upgrade import UpgradeError, upgrade_database

_state_dir_option = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="PILOTHOUSE_STATE_DIR",
    default=Path(".pilothouse"),
    show_default=True,
    show_envvar=True,
    help="Where the databases are, unless a URL says otherwise.",
)


@click.group()
def db() -> None:
    """Create, upgrade and check the databases."""


@db.command()
@_state_dir_option
@config_url_option
@requests_url_option
def upgrade(state_dir: Path, config_url: str | None, requests_url: str | None) -> None:
    """Bring both databases to the schema that this version knows, creating what is missing.

    Stop the control plane first. Each database is upgraded whole or not at all. Exit code 1
    when one cannot be.
    """
    for kind, url in _urls(state_dir, config_url, requests_url).items():
        try:
            before = upgrade_database(url, kind)
        except (SchemaError, UpgradeError) as error:
            raise click.ClickException(str(error)) from error
        match before.state:
            case SchemaState.ABSENT:
                did = f"created with schema {before.expected}"
            case SchemaState.CURRENT:
                did = f"already at schema {before.expected}"
            case _:
                did = f"upgraded from schema {before.found or 'none'} to {before.expected}"
        click.echo(f"{kind}: {did}")


@db.command()
@_state_dir_option
@config_url_option
@requests_url_option
def check(state_dir: Path, config_url: str | None, requests_url: str | None) -> None:
    """Say how both databases stand, changing nothing. Exit code 1 unless both can be opened."""
    is_usable = True
    for kind, url in _urls(state_dir, config_url, requests_url).items():
        report = inspect_schema(url, kind)
        click.echo(describe_schema(report))
        is_usable = is_usable and report.state is SchemaState.CURRENT
    if not is_usable:
        raise SystemExit(1)


def _urls(
    state_dir: Path, config_url: str | None, requests_url: str | None
) -> dict[DatabaseKind, str]:
    paths = default_paths(state_dir)
    given = {DatabaseKind.CONFIG: config_url, DatabaseKind.REQUESTS: requests_url}
    return {kind: given[kind] or sqlite_url(path) for kind, path in paths.items()}
