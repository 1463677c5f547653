"""Where the two databases are, from the options that every command over them takes."""

from pathlib import Path

from controlplane.cli.options import database_options
from controlplane.store.connection import DatabaseKind, default_paths
from controlplane.store.database_url import sqlite_url

__all__ = ["database_options", "database_urls"]


def database_urls(
    state_dir: Path, config_url: str | None, requests_url: str | None
) -> dict[DatabaseKind, str]:
    """The URL of each database."""
    given = {DatabaseKind.CONFIG: config_url, DatabaseKind.REQUESTS: requests_url}
    paths = default_paths(state_dir)
    return {kind: given[kind] or sqlite_url(path) for kind, path in paths.items()}
