"""URLs of databases: what is accepted, and how one is shown without its secrets.

SQLite in a file and PostgreSQL through psycopg. What a PostgreSQL URL leaves out, libpq looks
up: a password in PGPASSFILE or ~/.pgpass, a whole connection in a service file
(`postgresql:///?service=pilothouse`), so that no secret need stand in a URL.
"""

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

_POSTGRESQL = frozenset({"postgresql", "postgres", "postgresql+psycopg"})
_SECRETS = frozenset({"password", "sslpassword", "passwd", "pwd"})
_EXAMPLES = "sqlite:////absolute/path.db or postgresql://user@host/database"


class DatabaseUrlError(ValueError):
    """A URL that names no usable database. The message shows no password."""


def parse_url(text: str) -> URL:
    """The URL in `text`, with the driver that Pilothouse uses. Raises DatabaseUrlError."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        # Not quoted: what cannot be parsed cannot be masked either.
        raise DatabaseUrlError(f"this is no database URL; use {_EXAMPLES}") from error
    if url.drivername in _POSTGRESQL:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise DatabaseUrlError(f"{url.drivername}: no such kind of database; use {_EXAMPLES}")
    if not url.database or url.database == ":memory:" or "mode" in url.query:
        # In memory two connections would see two databases.
        raise DatabaseUrlError(f"{masked(text)} names no file; use sqlite:////absolute/path.db")
    return url


def masked(text: str) -> str:
    """`text` as it may be printed and logged: passwords are ***."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        return "***"
    hidden = {key: "***" for key in url.query if key.lower() in _SECRETS}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def sqlite_url(path: Path) -> str:
    """The URL of the SQLite database in the file at `path`."""
    return URL.create("sqlite", database=str(path.absolute())).render_as_string()


def sqlite_path(text: str) -> Path | None:
    """The file of an SQLite URL, None for PostgreSQL. Raises DatabaseUrlError."""
    url = parse_url(text)
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def place_of(text: str) -> str:
    """Where a database is, for messages: the file, or the URL without its password."""
    path = sqlite_path(text)
    return masked(text) if path is None else str(path)
